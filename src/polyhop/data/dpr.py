"""DPR's question files (Karpukhin et al., 2020): tab-separated, a question and its answers as a Python list.

who wrote emma <tab> ['Jane Austen', "Miss Austen"]
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

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


def _recognise(row: Mapping[str, Any], source: Source) -> str | None:
    listed = source.layout == "CSV" and row.keys() == {"1", "2"} and row["2"].startswith("[")
    return "a table without a header, its second column a list of answers" if listed else None


DPR = Format("dpr", "DPR's tab-separated questions", _recognise, lambda _: read_dpr)
