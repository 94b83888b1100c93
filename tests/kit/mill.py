"""A service over three passages about the film Mill, whose model and search are scripted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polyhop import Passage, ScriptedLM
from polyhop.serve.service import Service

ASKED = "Where was the maker of Mill born?"
MILL = [
    Passage("mill", "Mill 🎬 (film)", "🎬 Mill is a film by Ann Lee."),
    Passage("lee", "Ann Lee", "🎬 Ann Lee was born in Bern.", metadata={"source": "people.pdf", "page": 2}),
    Passage("bern", "Bern", "Bern lies on the Aare."),
]


def tree_script(task: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of a path that ends in Mill the maker is looked for; one with Ann Lee is accepted; Bern alone is rejected."""
    if task == "tor.fuse":
        return {"rationale": None, "answer": "Bern"}
    if task == "tor.complete":
        return {"thought": None, "information": "Ann Lee", "answer": None}
    path = [passage.id for passage in fields["passages"]]
    found = {"thought": None, "relevant": path[-1] != "bern", "supported": path[-1] == "lee"}
    return {**found, "answer": "Bern" if path[-1] == "lee" else None, "query": "Ann Lee"}


def graph_script(task: str, fields: Mapping[str, Any]) -> Any:
    """The maker of Mill is #1, and where she was born #2: known without a search."""
    first, second = "Who made Mill?", "Where was Ann Lee born?"
    match task:
        case "ge.graph":
            maker = {"head": "Mill", "relation": "director", "tail": "name: #1"}
            return {"triplets": [maker, {"head": "name: #1", "relation": "birth place", "tail": "place: #2"}]}
        case "ge.subquestion":
            return {"sub_question": first if fields["triplet"]["head"] == "Mill" else second}
        case "ge.subanswer":
            reply = "Ann Lee" if fields["sub_question"] == first else "Bern"
            return {"sentence": f"{reply}.", "answer": reply}
    return {"rationale": None, "answer": "Bern"}


def chain_script(task: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """A chain whose first node is unsolved, then one that comes to the answer."""
    first: dict[str, Any] = {"query": "Who made Mill?", "answer": None}
    if task == "searchain.trace":
        return {"content": "Ann Lee made Mill [1]. She was born in Bern [2].", "answer": "Bern"}
    if not fields["chains"]:
        return {"nodes": [first], "final": None}
    then = {"query": "Ann Lee", "answer": "Bern"}
    return {"nodes": [{**first, "answer": "Ann Lee"}, then], "final": "Bern"}


def mill(query: str, k: int) -> list[Passage]:
    """The film and the town for the question, the maker for the query."""
    return [MILL[1]] if query == "Ann Lee" else [MILL[0], MILL[2]][:k]


def of_mill(script: Any, **rest: Any) -> Service:
    """A service over the three passages whose model is scripted."""
    lm = ScriptedLM(script) if callable(script) else script
    return Service({"mill": None}, lm=lm, retriever=mill, cache=False, reader=lambda question, passages: [], **rest)
