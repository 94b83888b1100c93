"""SearChain's two tasks: a chain of queries grown by what was fed back, and the final content with its marks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from polyhop.common.text import bare_title, normalise
from polyhop.lm.pocket.reading.answer import NOTHING_KNOWN
from polyhop.lm.pocket.reading.chains import follow
from polyhop.lm.pocket.reading.descriptions import chain
from polyhop.lm.pocket.reading.judge import sufficient
from polyhop.lm.pocket.reading.narrowing import best_answer
from polyhop.lm.pocket.reading.queries import next_query
from polyhop.lm.pocket.reading.study import Study, study
from polyhop.types import Passage

ENOUGH_ABOVE = 0.4
COVERED_ABOVE = 0.7  # of a claim's words, for it to be borne out

Fields = Mapping[str, Any]


def plan(fields: Fields) -> dict[str, Any]:
    """The queries fed back with their answers, then the next one, unsolved: pocket knows nothing by itself.

    The next query is the next step of the question taken apart, with the values found so far in their slots; else what
    the passages so far still lack. When they are enough, or nothing new suggests itself, the chain ends.
    """
    question, told = fields["question"], list(fields["feedback"])
    passages = _passages(told)
    path = study(question, passages)
    nodes = [{"query": turn["query"], "answer": turn["answer"]} for turn in told]
    asked = {normalise(turn["query"]) for turn in told}
    if not (passages and sufficient(path) >= ENOUGH_ABOVE):
        for query in open_queries(path, {normalise(turn["query"]): turn["answer"] for turn in told}):
            if normalise(query) not in asked:
                return {"nodes": [*nodes, {"query": query, "answer": None}], "final": None}
    return {"nodes": nodes or [{"query": question, "answer": None}], "final": _answer(fields, passages)}


def trace(fields: Fields) -> dict[str, Any]:
    """A sentence for every node, with its mark; the answer is read off the nodes' passages together."""
    nodes: Sequence[Fields] = fields["nodes"]
    sentences = [f"{node['query'].rstrip('?. ')}: {node['answer']} [{n}]." for n, node in enumerate(nodes, 1)]
    passages = _passages(nodes)
    answer = _answer(fields, passages)
    if answer == NOTHING_KNOWN and nodes:
        answer = nodes[-1]["answer"]
    return {"content": " ".join(sentences), "answer": answer}


def open_queries(path: Study, answers: Mapping[str, str | None]) -> Iterator[str]:
    """What could be asked next, the best first; ``answers``: by normalised query, those that were told already."""
    steps = () if path.asked.comparison else chain(path.question)
    hops = follow(steps, path.pages)
    values: list[str | None] = []
    for at, step in enumerate(steps):
        query = step.question
        for slot in range(len(values), 0, -1):
            query = query.replace(f"#{slot}", values[slot - 1] or "")
        yield query
        found = hops[at].value if at < len(hops) else None
        values.append(found.text if found else answers.get(normalise(query)))
        if values[-1] is None:
            break
    if path.pages and (lacking := next_query(path)):
        yield lacking
    if path.asked.comparison:
        yield from map(bare_title, path.asked.comparison.options)
    yield path.question


def _passages(rows: Sequence[Fields]) -> list[Passage]:
    return list(dict.fromkeys(row["passage"] for row in rows if row.get("passage")))


def _answer(fields: Fields, passages: Sequence[Passage]) -> str:
    if fields["kind"] == "fact":
        return "SUPPORTS" if passages and study(fields["question"], passages).coverage >= COVERED_ABOVE else "REFUTES"
    answer, _ = best_answer(fields["question"], passages) if passages else (None, None)
    if fields["kind"] == "boolean":
        return answer if answer in ("yes", "no") else "no"
    return answer or NOTHING_KNOWN
