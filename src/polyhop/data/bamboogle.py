"""Bamboogle (Press et al., 2023), as its authors' sheet is exported: CSV without a header.

    Who is the mother of the father of George Washington?,,,,Mildred Warner,Mildred Gale,

The first column is the question; every other non-empty cell is an answer. With the header ``Question,Answer``, it is
an ordinary table (``csv``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polyhop.common.text import counted
from polyhop.data.formats import Format, question_text, unique
from polyhop.data.lines import require
from polyhop.data.sources import Source
from polyhop.types import Question


def read_bamboogle(row: Mapping[str, Any], number: int) -> Question:
    """Read one row: the question and its answers.

    >>> read_bamboogle({"1": "Who?", "5": "Ann", "6": "Anne"}, 4).answers
    ('Ann', 'Anne')
    """
    first = require(row, ("1", "question"))
    answers = unique(value for name, value in row.items() if name != first and isinstance(value, str))
    if not answers:
        raise ValueError(f"no answer beside the question; the row has {counted(len(row), 'filled cells')}")
    return Question(id=f"q{number}", text=question_text(row, first), answers=answers)


def _recognise(row: Mapping[str, Any], source: Source) -> str | None:
    asks = source.layout == "CSV" and str(row.get("1")).rstrip("\"'”").endswith("?")
    return "a table without a header, a question in its first column" if asks else None


BAMBOOGLE = Format("bamboogle", "Bamboogle's CSV", _recognise, lambda _: read_bamboogle)
