"""The task of the LM reader: the words of a passage that answer a question."""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field, field_validator

from polyhop.prompts.answers import find_answer, leading_answer
from polyhop.prompts.confidence import read_confidence, require_confidence, split_confidence
from polyhop.prompts.non_answers import is_non_answer
from polyhop.prompts.parsing import Malformed, has_marker
from polyhop.prompts.tasks.base import Fields, Output, Task

_PASSAGE = re.compile(
    r"^[^\w\n]*+passage[ \t*#]*+:?[ \t*#]*+(?:passage[ \t#]*+)?(?:(\d{1,4}|none|null|n/a)\b.*|[^\w\n]*)$", re.I | re.M
)
_LABELLED = re.compile(r"^[^\w\n]*+answer\b[^\w\n]*+:?(.*)$", re.I | re.M)
_NONE = re.compile(r"\W*(?:none|no (?:answer|passage|such)|not (?:stated|given|found|mentioned)|unanswerable)\b", re.I)


class Extraction(Output):
    """Words copied from a passage, null if none answers; the number of that passage; a confidence if asked for."""

    answer: str | None = Field(description="the words of the passage that answer, copied exactly, or null")
    passage: int | None = Field(default=None, description="the number of the passage they stand in")
    confidence: float | None = Field(default=None, description="how sure, 0 to 1")

    @field_validator("passage", mode="before")
    @classmethod
    def _number(cls, value: Any) -> int | None:
        found = None if isinstance(value, bool) else re.search(r"\d{1,4}", str(value)[:40])
        return int(found[0]) if found else None

    @field_validator("confidence", mode="before")
    @classmethod
    def _share(cls, value: Any) -> float | None:
        return read_confidence(value)


def read_extraction(text: str, fields: Fields) -> dict[str, Any]:
    """Read the words after "Answer:" or none, the number after "Passage:", the confidence if it is asked for.

    >>> read_extraction("Answer: Ridley Scott\\nPassage: 2", {})
    {'answer': 'Ridley Scott', 'passage': '2', 'confidence': None}
    >>> read_extraction("Answer: none", {})["answer"] is None
    True
    """
    own, sure = split_confidence(text)
    named, own = _cut_passage(own)
    found = find_answer(own)
    if found and not is_non_answer(found.answer):
        answer: str | None = found.answer
    else:
        labelled = _LABELLED.findall(own)
        said = labelled[-1] if labelled else own
        none = found or _NONE.match(said) or (is_non_answer(said) and (labelled or said.strip()))
        answer = None if none or has_marker(own) else leading_answer(said)
        if answer is None and not none:
            raise Malformed('the reply must be "Answer:" and the words of a passage, or none')
    confidence = require_confidence(sure, verbal=bool(fields.get("verbal") and answer))
    return {"answer": answer, "passage": named, "confidence": confidence}


def _cut_passage(text: str) -> tuple[str | None, str]:
    """Return the number on the last line "Passage:", and the reply without such lines.

    A line counts after the answer, or right before it if it holds nothing else; any other is quoted.
    """
    lines = list(_PASSAGE.finditer(text))
    if not lines:
        return None, text
    after = text[lines[-1].end() :]
    answers = list(_LABELLED.finditer(after))
    alone = lines[-1][0].rstrip(" *").endswith(lines[-1][1] or "")
    own = not answers or (alone and not after[: answers[-1].start()].strip())
    return lines[-1][1] if own else None, _PASSAGE.sub("", text)


def write_extraction(output: Extraction, fields: Fields) -> str:
    """Write the form that ``read_extraction`` reads."""
    if output.answer is None:
        return "Answer: none"
    passage = f"\nPassage: {output.passage}" if output.passage is not None else ""
    sure = f"\nConfidence: {output.confidence}" if fields.get("verbal") else ""
    return f"Answer: {output.answer}{passage}{sure}"


READER_EXTRACT = Task(
    "reader.extract",
    fields=("question", "passages", "verbal"),
    output=Extraction,
    parse=read_extraction,
    write=write_extraction,
    default={"answer": None},
    asked_if={"confidence": "verbal"},
)
