"""Rows as JSON lines and as cells of CSV."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

import orjson

from polyhop.common.text import printable_lines

_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""What a formula begins with in a spreadsheet, also full-width."""


def csv_cell(value: object) -> object:
    """A value as a cell of CSV that no spreadsheet takes for a formula. Numbers stay numbers.

    >>> csv_cell("=1+1"), csv_cell("-1.5"), csv_cell(-1.5), csv_cell("Oslo")
    ("'=1+1", '-1.5', -1.5, 'Oslo')
    """
    if not isinstance(value, str):
        return value
    text = printable_lines(value)
    begun = text.lstrip()
    is_formula = (begun != text and text[0] in "\t\n") or begun.startswith(_FORMULA)
    return f"'{text}" if is_formula and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def write_objects(rows: Iterable[Mapping[str, Any]], to: BinaryIO) -> int:
    """Write rows as JSON lines; returns how many there were."""
    count = 0
    for count, row in enumerate(rows, 1):  # noqa: B007
        to.write(orjson.dumps(row) + b"\n")
    return count
