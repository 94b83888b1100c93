"""SQuAD's questions (Rajpurkar et al., 2016 and 2018), with unanswerable ones in 2.0: the official file, or its rows.

    {"data": [{"title": "…", "paragraphs": [{"context": "…", "qas": [
        {"id": "…", "question": "…", "answers": [{"text": "…", "answer_start": 0}], "is_impossible": false}]}]}]}
    {"id": "…", "title": "…", "context": "…", "question": "…", "answers": {"text": ["…"], "answer_start": [0]}}

A question without answers is unanswerable; ``context`` is the paragraph that it was asked about.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from polyhop.data.formats import Format, known, objects_of, question_id, question_text, unique
from polyhop.data.lines import boolean_of, peek, read_objects, require, strings_of, text_of
from polyhop.data.sources import Row, Rows, Source
from polyhop.errors import DataError
from polyhop.types import Question


def is_squad(path: Path) -> bool:
    """Return True if a file begins as the official one does."""
    return b'"data":[{' in b"".join(peek(path)[:100].split())


def open_squad(path: Path) -> Source:
    """Open the official file, whose articles and paragraphs hold the questions."""

    def rows() -> Rows:
        number = 0
        for _, file in read_objects(path):
            if isinstance(file, DataError):
                raise file
            try:
                for number, row in enumerate(_rows(file), 1):
                    yield number, row
            except ValueError as error:
                raise DataError(f"record {number + 1}: {error}", path) from None

    return Source(path, "JSON array", rows)


def _rows(file: Row) -> Iterator[Row]:
    for article in objects_of(file, "data"):
        for paragraph in objects_of(article, "paragraphs"):
            for question in objects_of(paragraph, "qas"):
                yield {"title": article.get("title"), "context": paragraph.get("context"), **question}


def read_squad(row: Mapping[str, Any], number: int) -> Question:
    """Read one row. Its gold passage is known by the article's title."""
    held = row.get("answers")
    if isinstance(held, dict):
        answers = strings_of(held, "text")
    else:
        answers = tuple(text_of(answer, require(answer, ("text",))) for answer in objects_of(row, "answers"))
    answers = () if boolean_of(row, "is_impossible") else unique(answers)
    return Question(
        id=question_id(row, number),
        text=question_text(row, "question"),
        answers=answers,
        gold_titles=(text_of(row, "title"),) if answers and row.get("title") else (),
        metadata=known(answerable=bool(answers)),
    )


def _recognise(row: Mapping[str, Any], _: Source) -> str | None:
    answers = row.get("answers")
    first = answers[0] if isinstance(answers, list) and answers else answers
    if "question" in row and ((isinstance(first, dict) and "text" in first) or "is_impossible" in row):
        return "its rows have 'question' and 'answers' with a text each"
    return None


SQUAD = Format("squad", "SQuAD 1.1 and 2.0, official or by row", _recognise, lambda _: read_squad)
