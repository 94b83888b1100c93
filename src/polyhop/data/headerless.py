"""Two tables without a header: DPR's questions and Bamboogle's.

DPR (Karpukhin et al., 2020), tab-separated: a question and its answers as a Python list.

    who wrote emma <tab> ['Jane Austen', "Miss Austen"]

Bamboogle (Press et al., 2023), as its authors' sheet is exported: the first column is the question, and every other
non-empty cell is an answer. With the header ``Question,Answer``, it is an ordinary table (``csv``).

    Who is the mother of the father of George Washington?,,,,Mildred Warner,Mildred Gale,
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from polyhop.common.text import counted
from polyhop.data.formats import Format, question_text, unique
from polyhop.data.lines import require, strings_of, text_of
from polyhop.data.sources import Source
from polyhop.types import Question


def read_dpr(row: Mapping[str, Any], number: int) -> Question:
    """Read one row.

    >>> read_dpr({"1": "who wrote emma", "2": "['Jane Austen', \\"Miss Austen\\"]"}, 1).answers
    ('Jane Austen', 'Miss Austen')
    """
    text = text_of(row, require(row, ("2",)))
    try:
        answers = ast.literal_eval(text)  # parses only literals and runs nothing
    except (ValueError, SyntaxError, MemoryError):
        raise ValueError(f"the answers are {text[:80]!r}, expected a list such as ['a', 'b']") from None
    return Question(
        id=f"q{number}", text=question_text(row, "1"), answers=unique(strings_of({"answers": answers}, "answers"))
    )


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


def _is_dpr(row: Mapping[str, Any], source: Source) -> str | None:
    listed = source.layout == "CSV" and row.keys() == {"1", "2"} and row["2"].startswith("[")
    return "a table without a header, its second column a list of answers" if listed else None


def _is_bamboogle(row: Mapping[str, Any], source: Source) -> str | None:
    asks = source.layout == "CSV" and str(row.get("1")).rstrip("\"'”").endswith("?")
    return "a table without a header, a question in its first column" if asks else None


DPR = Format("dpr", "DPR's tab-separated questions", _is_dpr, lambda _: read_dpr)
BAMBOOGLE = Format("bamboogle", "Bamboogle's CSV", _is_bamboogle, lambda _: read_bamboogle)
