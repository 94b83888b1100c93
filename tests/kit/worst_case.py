"""The longest way of a method: a model that always asks for more, over a corpus that always has more."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from polyhop.lm.base import Capabilities
from polyhop.lm.tools import ToolCall
from polyhop.types import Passage, Search

ABLE = Capabilities(
    json_schema=True, token_logprobs=True, score=True, score_any=True, score_temperature=True, seed=True
)
_another = itertools.count()
_CHAIN = [{"head": f"#{n - 1}" if n > 1 else "a", "relation": "b", "tail": f"#{n}"} for n in range(1, 11)]
_WANTS = ("query", "information", "sub_question", "summary", "follow_up", "argument")
_ALWAYS = {
    "relevant": True,
    "supported": False,
    "answered": False,
    "sufficient": False,
    "confidence": 0.0,
    "triplets": _CHAIN,
    "sub_questions": [f"{n}?" for n in range(10)],
    "recitations": ["x"],
    "action": "Search",
    "value": "likely",
    "candidates": ["x", "y"],
    "valid": False,
    "better": 1,
    "entities": ["x"],
    "scores": [9] * 10,
    "grade": 2,
    "strategy": "multi",
    "content": "x",
}
_OF_A_TASK: dict[str, dict[str, Any]] = {
    "era_cot.infer": {"triplets": [{**triplet, "relation": "implied"} for triplet in _CHAIN]},
    "answer.cot": {"rationale": "So it is."},
    "self_ask.turn": {"answer": None},
    "toolformer.write": {"answer": None},
    "knowtrace.explore": {"answer": None},
}


def never_content(task: str, fields: Mapping[str, Any]) -> Any:
    """A model that always wants to know more, each time something else; never sure of an answer, never the same one
    twice; but of two answers in turn for ``ge``, which gives up on a sub-question without one."""
    if task == "resp.plan":
        more = f"question {len(fields['asked'])}"
    elif task == "ge.subquestion":
        more = f"question {len(fields['history'] or ())} of {fields['triplet']}"
    elif task == "toolformer.write":
        more = f"query {len(fields['written'])}"
    elif task == "search_agent.write":
        more = f"query {len(fields['steps'])}"
        return {"text": f"<search>{more}</search>", "query": more}
    else:
        more = "more than " + " ".join([passage.id for passage in fields.get("passages") or ()])
    number = next(_another)
    if task == "agent.act":
        return ToolCall(id="c1", name="search", text=f'{{"query": "query {number}"}}')
    answer = "xy"[number % 2] if task == "ge.subanswer" else f"x{number}"
    pairs = [f"entity {number}; relation"]
    if task == "t2rag.decompose":
        return {
            "triplets": [{"head": "a", "relation": "b", "tail": "?c"}, {"head": "?c", "relation": "d", "tail": "?e"}]
        }
    if task == "t2rag.resolve":  # always something new, never what is open
        return {"triplets": [{"head": f"x{number}", "relation": "f", "tail": "g"}]}
    if task == "ge.extract":
        return {"triplets": [{"head": "a", "relation": "b", "tail": f"c{number}"}]}
    nodes = [{"query": f"query {len(fields.get('chains', ()))}", "answer": None}]
    reply = {**_ALWAYS, **dict.fromkeys(_WANTS, more), "answer": answer, "sentence": f"So it is {answer}."}
    return {**reply, "nodes": nodes, "pairs": pairs, **_OF_A_TASK.get(task, {})}


class Endless:
    """A retriever with other passages for every query, and links from each passage to others."""

    name = "endless"
    start: Search = staticmethod(lambda query, k: [])

    async def search_by(self, run: Any, query: str, k: int) -> list[Passage]:
        """``k`` passages that no other query finds."""
        return [Passage(f"{abs(hash(query))}.{n}", f"T{n}", f"Text {n} on {query}.") for n in range(k)]

    def links(self, passage: Passage) -> list[Passage]:
        """Two passages that nothing else leads to."""
        return [Passage(f"{passage.id}.{n}", f"T{n}", f"Text {n}.") for n in range(2)]
