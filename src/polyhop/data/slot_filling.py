"""zsRE (Levy et al., 2017) and T-REx (Elsahar et al., 2018), flattened: a head, a relation, and the slot's value.

    {"input": "Mapo Bridge [SEP] crosses", "answer": "Han River", "alias": ["Han River"], "relation": "crosses",
     "template_questions": ["…?"]}                                                            (zsRE)
    {"input": "Public Speaking [SEP] genre", "answer": "documentary film", "alias": ["documentary film"],
     "wikipedia_title": "Public Speaking (film)"}                                             (T-REx)

Their KILT files are also read, as these formats or as ``kilt``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from polyhop.data.formats import Format, answers_of, known, question_id, question_text, unique
from polyhop.data.kilt import SEPARATOR, is_kilt, read_kilt, slot_metadata, slot_text
from polyhop.data.lines import strings_of, text_of
from polyhop.data.sources import Source
from polyhop.types import Question


def read_slot(row: Mapping[str, Any], number: int) -> Question:
    """Read one record of either; the question's text is ``head: relation``."""
    if "output" in row:
        return read_kilt(row, number, kind="slot")
    text = question_text(row, "input")
    if not slot_metadata(text):
        raise ValueError(f"'input' is {text!r}, expected 'head {SEPARATOR} relation'")
    title = text_of(row, "wikipedia_title") if row.get("wikipedia_title") is not None else None
    return Question(
        id=question_id(row, number),
        text=slot_text(text),
        answers=unique(answers_of(row, "answer", "alias")),
        kind="slot",
        gold_titles=(title,) if title else (),
        metadata={
            **slot_metadata(text),
            **known(template_questions=list(strings_of(row, "template_questions")) or None),
        },
    )


def _recognise(row: Mapping[str, Any], _: Source, *, field: str) -> str | None:
    slot = isinstance(row.get("input"), str) and SEPARATOR in row["input"]
    return (
        f"its inputs are 'head {SEPARATOR} relation', with {field!r}"
        if slot and field in row and not is_kilt(row)
        else None
    )


ZSRE = Format("zsre", "zsRE, flat or KILT's", partial(_recognise, field="template_questions"), lambda _: read_slot)
TREX = Format("trex", "T-REx, flat or KILT's", partial(_recognise, field="answer"), lambda _: read_slot)
