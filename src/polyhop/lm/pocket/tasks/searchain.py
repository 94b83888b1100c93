"""The tasks of SearChain: a chain of queries that grows by what is fed back, and the final content with its marks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from polyhop.common.text import bare_title, normalise
from polyhop.lm.pocket.reading.answer import UNKNOWN, PathReading, next_query, read_path
from polyhop.lm.pocket.reading.chain import decompose, follow_chain
from polyhop.lm.pocket.reading.judge import sufficiency
from polyhop.lm.pocket.reading.weighing import best_answer
from polyhop.lm.pocket.tasks.kinds import in_form
from polyhop.lm.pocket.tasks.reading import Fields, Value
from polyhop.types import Passage

ENOUGH_ABOVE = 0.4


def grow_chain(fields: Fields) -> Value:
    """Return the queries fed back with their answers, then the next one, unsolved: pocket knows nothing by itself.

    The next query is the next step of the decomposed question, with the values found so far in their slots; else what
    the passages so far still lack. The chain ends when the passages are enough or no new query suggests itself.
    """
    question, feedback = fields["question"], list(fields["feedback"])
    passages = _passages(feedback)
    reading = read_path(question, passages)
    nodes = [{"query": turn["query"], "answer": turn["answer"]} for turn in feedback]
    answers = {normalise(turn["query"]): turn["answer"] for turn in feedback}
    for query in queries_left(reading, answers):
        return {"nodes": [*nodes, {"query": query, "answer": None}], "final": None}
    return {"nodes": nodes or [{"query": question, "answer": None}], "final": _answer(fields, passages)}


def trace(fields: Fields) -> Value:
    """Write a sentence per node, with its mark; the answer is read from the passages of all nodes together."""
    nodes: Sequence[Fields] = fields["nodes"]
    sentences = [f"{node['query'].rstrip('?. ')}: {node['answer']} [{n}]." for n, node in enumerate(nodes, 1)]
    answer = _answer(fields, _passages(nodes))
    if answer == UNKNOWN and nodes:
        answer = nodes[-1]["answer"]
    return {"content": " ".join(sentences), "answer": answer}


def is_settled(reading: PathReading) -> bool:
    """True if the passages are enough to answer the question."""
    return bool(reading.pages) and sufficiency(reading) >= ENOUGH_ABOVE


def queries_left(reading: PathReading, answers: Mapping[str, str | None]) -> Iterator[str]:
    """The open queries; none if the question is settled."""
    return iter(()) if is_settled(reading) else open_queries(reading, answers)


def open_queries(reading: PathReading, answers: Mapping[str, str | None]) -> Iterator[str]:
    """The queries to ask next, best first. ``answers``: by normalised query, those asked already, which are left
    out."""
    return (query for query in _all_queries(reading, answers) if normalise(query) not in answers)


def _all_queries(reading: PathReading, answers: Mapping[str, str | None]) -> Iterator[str]:
    steps = () if reading.parsed.comparison else decompose(reading.question)
    hops = follow_chain(steps, reading.pages)
    values: list[str | None] = []
    for i, step in enumerate(steps):
        query = step.question
        for slot in range(len(values), 0, -1):
            query = query.replace(f"#{slot}", values[slot - 1] or "")
        yield query
        value = hops[i].value if i < len(hops) else None
        values.append(value.text if value else answers.get(normalise(query)))
        if values[-1] is None:
            break
    if reading.pages and (lacking := next_query(reading)):
        yield lacking
    if reading.parsed.comparison:
        yield from map(bare_title, reading.parsed.comparison.options)
    yield reading.question


def _passages(rows: Sequence[Fields]) -> list[Passage]:
    return list(dict.fromkeys(row["passage"] for row in rows if row.get("passage")))


def _answer(fields: Fields, passages: Sequence[Passage]) -> str:
    answer = best_answer(fields["question"], passages)[0] if passages else None
    kind = "qa" if fields["kind"] == "long" else fields["kind"]  # its content is the paragraph
    return in_form(kind, fields["question"], answer or UNKNOWN, passages)
