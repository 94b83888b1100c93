"""Answers in the form of the question's kind: a label, yes or no, a paragraph of the passages' sentences.

A claim that states a value is decided by the value that the passages state. No other is understood: it is supported if
the passages hold most of its words, and refuted if they do not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from polyhop.lm.pocket.reading.answer import read_path
from polyhop.lm.pocket.reading.correctness import correct_probability
from polyhop.lm.pocket.reading.threshold import settle
from polyhop.lm.pocket.reading.weighing import weigh_answers
from polyhop.lm.pocket.tasks.reading import ANSWER_CONFIDENCE, Fields, Value
from polyhop.lm.pocket.tasks.resp import memory_of, memory_passages, note
from polyhop.trace import passages_in
from polyhop.types import Passage

_COVERED_ABOVE = 0.7  # of the words of a claim, for passages to support it
_LABELS = {"yes": "SUPPORTS", "no": "REFUTES"}
_LIKELY = 0.5  # the probability of an answer that is given although it may be declined
UNANSWERABLE = "unanswerable"
_TITLE = re.compile(r"\[[^]]*\] ")
_CONCLUSION = "So the answer is "


def of_kind(fields: Fields, value: Value) -> Value:
    """Return the output of a task with its answers in the form of the call's kind. SearChain's has its own; the answer
    beside a value is that of a step."""
    kind = fields.get("kind", "qa")
    if kind in ("qa", "slot") or "content" in value or "value" in value:
        return value
    passages = _passages(fields)

    def formed(answer: str) -> str:
        return in_form(kind, fields["question"], answer, passages)

    found = dict(value)
    name = "argument" if value.get("action") == "Finish" else "answer"
    if value.get(name):
        found[name] = formed(value[name])
    if "candidates" in value:
        found["candidates"] = list(dict.fromkeys(map(formed, value["candidates"])))
    if kind != "long" and (sentence := value.get("sentence", "")).startswith(_CONCLUSION):
        found["sentence"] = f"{_CONCLUSION}{formed(sentence.removeprefix(_CONCLUSION).rstrip('.'))}."
    if (stated := value.get(ANSWER_CONFIDENCE)) and found != value:
        found[ANSWER_CONFIDENCE] = (formed(stated[0]), stated[1])
    return found


def if_likely(fields: Fields, value: Value) -> Value:
    """Return the output of a task, "unanswerable" in place of an answer that is likelier wrong than right."""
    name = "argument" if value.get("action") == "Finish" else "answer"
    passages = _passages(fields)
    if not (passages and value.get(name)) or fields.get("kind") == "fact":
        return value
    weighed = weigh_answers(fields["question"], passages)
    if correct_probability(fields["question"], passages, weighed) >= _LIKELY:
        return value
    return {key: held for key, held in value.items() if key != ANSWER_CONFIDENCE} | {name: UNANSWERABLE}


def in_form(kind: str, question: str, answer: str, passages: Sequence[Passage]) -> str:
    """Return an answer in the form of a kind."""
    if kind == "fact" and not passages:
        return "NOT ENOUGH INFO"
    if kind in ("fact", "boolean") and (settled := settle(question, read_path(question, passages).pages)):
        answer = settled.answer or answer
        return answer if kind == "boolean" else _LABELS[answer]
    if kind == "fact":
        return "SUPPORTS" if read_path(question, passages).coverage >= _COVERED_ABOVE else "REFUTES"
    if kind == "boolean":
        return answer if answer in ("yes", "no") else "no"
    return _TITLE.sub("", note(question, passages)) or answer if kind == "long" else answer


def _passages(fields: Fields) -> list[Passage]:
    """Return the passages that a call shows, and its notes as passages."""
    notes = [text for name in ("summary", "rationale") if (text := fields.get(name))]
    remembered = memory_passages(fields.get("memory") or memory_of(notes))
    return list(dict.fromkeys((*passages_in(fields), *remembered)))
