"""HotpotQA's official files (Yang et al., 2018), distractor and fullwiki, which differ only in their contexts.

    {"_id": "5a8b…", "question": "…", "answer": "…", "type": "bridge", "level": "hard",
     "supporting_facts": [["Title", 0]], "context": [["Title", ["A sentence.", " Another."]]]}

The Hub's parallel lists (``supporting_facts.title``, ``.sent_id``) are also read. The test files have no gold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polyhop.data.formats import Format, answers_of, known, question_id, question_text, supporting_of, titles_of
from polyhop.data.sources import Source
from polyhop.types import Question


def read_hotpotqa(row: Mapping[str, Any], number: int) -> Question:
    """Read one record. Its gold passages are given by title, its facts by title and sentence."""
    supporting = supporting_of(row.get("supporting_facts"))
    return Question(
        id=question_id(row, number),
        text=question_text(row, "question"),
        answers=answers_of(row, "answer", "answer_aliases", "aliases"),
        gold_titles=titles_of(supporting),
        supporting=supporting,
        metadata=known(type=row.get("type"), level=row.get("level")),
    )


def _recognise(row: Mapping[str, Any], _: Source) -> str | None:
    if "question" not in row or row.keys() & {"answers", "golden_answers"}:
        return None
    if isinstance(row.get("context"), list | dict):
        return "its records have 'question' and 'context'"
    return (
        "its records have '_id', 'question' and 'supporting_facts'"
        if {"_id", "supporting_facts"} <= row.keys()
        else None
    )


HOTPOTQA = Format("hotpotqa", "HotpotQA's JSON, distractor or fullwiki", _recognise, lambda _: read_hotpotqa)
