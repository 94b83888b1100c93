"""ELI5 (Fan et al., 2019): questions answered by a paragraph, in KILT's form or in the original one.

    {"id": "1oy5tc", "input": "in football …?", "output": [{"answer": "a paragraph …"}, …]}              (KILT)
    {"q_id": "5lchat", "title": "Why …?", "selftext": "", "answers": {"a_id": ["…"], "text": ["…"], "score": [9]}}

A row of KILT does not name its task: ELI5 is recognised by the file's name or by answers of more than 40 words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polyhop.data.formats import Format, objects_of, question_text, unique
from polyhop.data.kilt import is_kilt, read_kilt
from polyhop.data.lines import id_of, mapping_of, require, strings_of
from polyhop.data.sources import Source
from polyhop.types import Question

_LONG = 40  # words; a phrase has fewer, nearly every ELI5 answer has more


def read_eli5(row: Mapping[str, Any], number: int) -> Question:
    """Read one record of either form."""
    if "input" in row:
        return read_kilt(row, number, kind="long")
    return Question(
        id=id_of(row, require(row, ("q_id", "id"))),
        text=question_text(row, "title"),
        answers=unique(strings_of(mapping_of(row, "answers"), "text")),
        kind="long",
    )


def _recognise(row: Mapping[str, Any], source: Source) -> str | None:
    if {"q_id", "title"} <= row.keys():
        return "its rows have 'q_id' and 'title'"
    if not is_kilt(row):
        return None
    if "eli5" in source.path.name.lower():
        return "its rows have 'input' and 'output', and its name says ELI5"
    answers = [str(output.get("answer") or "") for output in objects_of(row, "output")]
    return (
        f"its rows have 'input' and 'output', with answers of more than {_LONG} words"
        if any(len(answer.split()) > _LONG for answer in answers)
        else None
    )


ELI5 = Format("eli5", "ELI5, KILT's or the original form", _recognise, lambda _: read_eli5)
