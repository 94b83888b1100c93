"""The tasks of Tree of Reviews and Chain of Reviews."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from polyhop.common.text import normalise
from polyhop.lm.pocket.reading.answer import UNKNOWN, PathReading, bridge, missing_name, next_query, read_path
from polyhop.lm.pocket.reading.documents import described
from polyhop.lm.pocket.reading.judge import (
    answer_probabilities,
    is_hopeless,
    may_suffice,
    mentions_compared,
    relevance,
    sufficiency,
)
from polyhop.lm.pocket.tasks.reading import Fields, Value, answer_from_passages

RELEVANT_ABOVE = 0.15
SUFFICIENT_ABOVE = 0.5
_ANSWER_WEIGHT = 0.1  # of the answer that a piece of evidence has, beside reading the piece again
_ENOUGH_WEIGHT = 1.0  # of one answer: a certain piece of evidence with its answer, or two pieces that agree


def review(fields: Fields) -> Value:
    """Judge whether a path is relevant and sufficient; answer from it, or write the next query. A path is not read by
    the encoder that rules call hopeless, nor one of articles on which they find all that is asked."""
    reading = read_path(fields["question"], fields["passages"])
    is_settled = bool(reading.pages) and reading.outline.complete and not reading.of_documents
    is_relevant = (
        is_settled or mentions_compared(reading) or (not is_hopeless(reading) and relevance(reading) >= RELEVANT_ABOVE)
    )
    supported = is_settled or (is_relevant and may_suffice(reading) and sufficiency(reading) >= SUFFICIENT_ABOVE)
    return {
        "relevant": is_relevant,
        "supported": supported,
        "thought": _thought(reading, is_relevant, supported) if fields.get("thoughts") else None,
        "analysis": f"{_titles(reading)}: together they hold what the question asks for." if supported else None,
        "answer": reading.solution.answer if supported else None,
        "query": _next_query(reading, fields) if not supported and fields.get("asks_query", True) else None,
    }


def _next_query(reading: PathReading, fields: Fields) -> str | None:
    """The question about what the path says a description means, else the query that the path itself suggests."""
    asked = described(fields["question"], fields["passages"]) if reading.of_documents else None
    return asked or next_query(reading)


def _titles(reading: PathReading) -> str:
    return ", ".join(page.title for page in reading.pages) or "no passage"


def _thought(reading: PathReading, is_relevant: bool, supported: bool) -> str:
    if supported:
        return f"{_titles(reading)}: all of what is asked."
    if is_relevant:
        return f"{_titles(reading)}: part of what is asked; still missing: {next_query(reading) or 'the rest'}."
    return f"{_titles(reading)}: not what the question is about."


def complete(fields: Fields) -> Value:
    """Write a query in the shape of a supplement: it names what is missing and invents no fact."""
    reading = read_path(fields["question"], fields["passages"])
    name = missing_name(reading) or bridge(reading)
    return {
        "thought": f"The passages lead to {name}." if name else None,
        "information": _next_query(reading, fields) or reading.question,
        "answer": None,
    }


def merged(fields: Fields) -> Value:
    """Review a path and name the missing piece in one call."""
    reviewed = review(fields)
    incomplete = reviewed["relevant"] and not reviewed["supported"]
    return {**reviewed, "query": None, "information": complete(fields)["information"] if incomplete else None}


def enough(fields: Fields) -> Value:
    """Judge whether the evidence found so far settles an answer."""
    votes = _votes(fields["question"], fields["evidence"])
    return {"sufficient": max((weight for weight, _ in votes.values()), default=0.0) >= _ENOUGH_WEIGHT}


def fuse(fields: Fields) -> Value:
    """Answer by reading the accepted paths, and likely pairs of all their passages; from analyses alone, by a vote."""
    question, evidence = fields["question"], fields["evidence"]
    passages = list(dict.fromkeys(passage for piece in evidence for passage in piece["passages"]))
    if passages and fields.get("mode") != "analysis":
        accepted = [tuple(piece["passages"]) for piece in evidence if piece["answer"]]
        return answer_from_passages(question, passages, accepted)
    votes = _votes(question, evidence)
    return {"rationale": None, "answer": max(votes.values(), key=lambda vote: vote[0])[1] if votes else UNKNOWN}


def _votes(question: str, evidence: Sequence[Fields]) -> dict[str, tuple[float, str]]:
    """The weight and wording of each answer: a piece read again counts by its sufficiency, its own answer a little."""
    votes: dict[str, tuple[float, str]] = defaultdict(lambda: (0.0, ""))
    for piece in evidence:
        reading = read_path(question, piece["passages"])
        trust = sufficiency(reading)
        weights = {answer: trust * share for answer, share in answer_probabilities(reading.solution).items()}
        if piece["answer"]:
            weights[piece["answer"]] = weights.get(piece["answer"], 0.0) + _ANSWER_WEIGHT
        for answer, weight in weights.items():
            total, wording = votes[normalise(answer)]
            votes[normalise(answer)] = (total + weight, wording or answer)
    return dict(votes)
