"""The iterative baselines' tasks: the next sentence of a chain of thought, a question for a phrase, a hop.

A sentence is a step of the question taken apart with its value, "What is the director of Alien? Ridley Scott.", or with
"…" where the passages do not tell it, or "unknown" where there are none: that is what the model is unsure of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from polyhop.common.text import normalise
from polyhop.lm.pocket.reading.answer import NOTHING_KNOWN
from polyhop.lm.pocket.reading.judge import sufficient
from polyhop.lm.pocket.reading.narrowing import best_answer, shares
from polyhop.lm.pocket.reading.study import Study, study
from polyhop.lm.pocket.tasks import resp as memory
from polyhop.lm.pocket.tasks.baselines import closed
from polyhop.lm.pocket.tasks.searchain import ENOUGH_ABOVE, open_queries

OPEN = "…"
"""In place of a value that nothing tells."""
CLOSED = "Still to find: "
"""Before a step that is tried without any passage."""
SURE, UNSURE = 0.9, 0.1
ASIDE = "aside"
"""The place in a value of what is not of its shape: the words of it that carry the fact, and how sure they are."""

Fields = Mapping[str, Any]
Value = dict[str, Any]
Pair = dict[str, str | None]


def sentence(fields: Fields) -> Value:
    """The next step with its value, or the answer where the passages are enough, the steps end, or none is left."""
    question, passages = fields["question"], fields["passages"] or ()
    pairs = [_pair(text) for text in fields["reasoning"] or ()]
    path = study(question, passages)
    if not (passages and sufficient(path) >= ENOUGH_ABOVE):
        for query in _wanted(path, pairs):
            if not passages:
                return _said(f"{CLOSED}{query} {NOTHING_KNOWN}", NOTHING_KNOWN, UNSURE)
            value = memory.respond(query, passages) if query.endswith("?") else None
            if value is not None:
                pathway = [*pairs, {"sub_question": query, "response": value}]
                end, _ = memory.walk(question, {"global_evidence": [], "local_pathway": pathway})
                return _said(f"So the answer is {end}", end, SURE) if end else _said(f"{query} {value}", value, SURE)
            if not pairs or query != pairs[-1]["sub_question"]:
                return _said(f"{query} {OPEN}", OPEN, UNSURE)
    answer, solution = best_answer(question, passages)
    if answer is None:
        return _said(f"So the answer is {closed(question)['answer']}", closed(question)["answer"], UNSURE)
    return _said(f"So the answer is {answer}", answer, max(0.001, min(1.0, shares(solution).get(answer, UNSURE))))


def _wanted(path: Study, pairs: Sequence[Pair]) -> Iterator[str]:
    """The last step again where it has no value yet, then the steps not asked about."""
    if pairs and pairs[-1]["response"] is None and pairs[-1]["sub_question"]:
        yield pairs[-1]["sub_question"]
    told = {normalise(pair["sub_question"] or ""): pair["response"] for pair in pairs}
    yield from (query for query in open_queries(path, told) if normalise(query) not in told)


def _said(text: str, answer: str, confidence: float) -> Value:
    end = "" if text.endswith((".", OPEN)) else "."
    return {"sentence": f"{text}{end}", ASIDE: (answer, round(confidence, 3))}


def _pair(text: str) -> Pair:
    """A step and its value, read off a sentence."""
    asked, mark, value = text.removeprefix(CLOSED).partition("? ")
    asked = f"{asked}?" if mark else asked.rstrip(f" {OPEN}")
    known = value.rstrip(f".{OPEN}")
    return {"sub_question": asked, "response": known if known not in ("", NOTHING_KNOWN) else None}


def question(fields: Fields) -> Value:
    """The question a phrase answers: the step of the sentence, else the whole question."""
    asked, mark, _ = fields["sentence"].removeprefix(CLOSED).partition("? ")
    return {"sub_question": f"{asked}?" if mark else fields["question"]}


def hop(fields: Fields) -> Value:
    """What the passages note; the query of the step that the notes so far wait for, none where they are enough."""
    asked, passages, notes = fields["question"], fields["passages"] or (), list(fields["summaries"] or ())
    if not passages and not notes:
        return {"summary": None, "query": asked}
    if summary := memory.note(asked, passages):
        notes.append(summary)
    known = {"global_evidence": notes, "local_pathway": []}
    query = None if memory.enough(asked, known) else memory.plan(asked, known, [asked])
    return {"summary": summary or None, "query": query or None}
