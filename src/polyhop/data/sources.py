"""Where a dataset's rows come from: JSON lines, a JSON array, CSV or a Hub dataset; streams that name every fault.

Held at any time is one row of a file, or of an array about a megabyte, so a dataset of any size is read in constant
memory.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TextIO, TypeAlias

from polyhop.common.text import counted
from polyhop.data.lines import DAMAGED, LONGEST_LINE, json_object, open_bytes, peek, read_objects
from polyhop.errors import DataError

Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = Iterator[tuple[int, Row | DataError]]
"""Each row with its number from 1, or the fault it has, to raise or to count."""

Layout: TypeAlias = Literal["JSON lines", "JSON array", "CSV", "Hub dataset"]

ACCEPTED = "JSON lines, a JSON array of objects, or CSV; .gz and .bz2 too"

_UNITS: dict[Layout, str] = {"JSON lines": "line", "JSON array": "record", "CSV": "row", "Hub dataset": "row"}
_CHUNK = 2**20
_SPACE = re.compile(r"[ \t\r\n]*")
_QUESTION_COLUMNS = frozenset({"question", "claim", "input"})
"""A CSV file's first row is its head when it has one of these; otherwise its columns are named ``1``, ``2`` …"""


@dataclass(frozen=True, slots=True)
class Source:
    """A dataset's rows, read anew by each call of ``rows``; ``path`` is its file, or the Hub name it was asked by."""

    path: Path
    layout: Layout
    rows: Callable[[], Rows]

    def fault(self, number: int, message: str) -> DataError:
        """What is wrong with a row, with its place."""
        if self.layout == "JSON lines":
            return DataError(message, self.path, number)
        return DataError(f"{self.place(number)}: {message}", self.path)

    def place(self, number: int) -> str:
        """A row's place in words: ``line 3``, ``record 3`` or ``row 3``."""
        return f"{_UNITS[self.layout]} {number}"


def open_source(path: Path) -> Source:
    """Tell how a file is laid out from its first bytes.

    Raises:
        DataError: it is missing, empty, or neither JSON nor CSV; the message says what was seen and what is accepted.
    """
    start = peek(path)
    if not start:
        raise DataError("no questions in it: the file is empty", path)
    if start.startswith(b"{"):
        return Source(path, "JSON lines", lambda: read_objects(path))
    if start.startswith(b"["):
        return Source(path, "JSON array", lambda: read_array(path))
    first = start.partition(b"\n")[0]
    if b"\0" in start or not (b"," in first or b"\t" in first):
        raise DataError(f"unknown format of questions: begins with {start[:40]!r}. Accepted: {ACCEPTED}.", path)
    return Source(path, "CSV", lambda: read_csv(path, "\t" if b"\t" in first else ","))


def read_array(path: Path) -> Rows:
    """The objects of a JSON array one by one, without holding the array.

    Raises:
        DataError: the text is not JSON from some place on (the record is named): nothing after it can be read.
    """
    with _text(path) as stream:
        window = _Window(stream, path)
        window.take("[")
        number = 0
        while not window.closes(first=not number):
            number += 1
            yield number, _object(window.value(number), path, number)
        if window.next() != "":
            raise DataError(f"more text after the end of the array of {counted(number, 'records')}", path)


class _Window:
    """The part of an array's text at hand, from ``at`` on."""

    def __init__(self, stream: TextIO, path: Path) -> None:
        self._stream, self._path = stream, path
        self._text, self._at, self._ended = "", 0, False
        self._decoder = json.JSONDecoder()

    def next(self) -> str:
        """The next character that is not blank; "" at the end."""
        while True:
            space = _SPACE.match(self._text, self._at)
            self._at = space.end() if space else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def take(self, sign: str) -> None:
        """Step over a sign that must come next."""
        if (found := self.next()) != sign:
            raise DataError(
                f"{'cut short' if not found else f'found {found!r}'} where {sign!r} was expected", self._path
            )
        self._at += 1

    def closes(self, *, first: bool) -> bool:
        """Whether the array ends here; before any but the ``first`` value, the comma is stepped over."""
        if self.next() == "]":
            self._at += 1
            return True
        if not first:
            self.take(",")
        return False

    def value(self, number: int) -> str:
        """The text of the next value."""
        self.next()
        while True:
            try:
                _, end = self._decoder.raw_decode(self._text, self._at)
            except RecursionError:
                raise self._broken(number, "nested too deeply") from None
            except json.JSONDecodeError as error:
                cut = "Unterminated" in error.msg or error.pos > len(self._text) - 8  # of a longer word: fals, \u00
                if not cut or not self._more():
                    raise self._broken(number, f"not valid JSON: {error.msg}") from None
            except ValueError:  # Python's bound on the digits of a number
                raise self._broken(number, "a number of thousands of digits") from None
            else:
                if end < len(self._text) or not self._more():
                    found, self._at = self._text[self._at : end], end
                    return found

    def _broken(self, number: int, what: str) -> DataError:
        return DataError(f"record {number}: {what}; nothing after it can be read", self._path)

    def _more(self) -> bool:
        if self._ended:
            return False
        held = len(self._text) - self._at
        if held > LONGEST_LINE:
            raise DataError(f"a record of more than {LONGEST_LINE >> 20} MB; expected an array of objects", self._path)
        more = self._stream.read(max(_CHUNK, held))
        self._text, self._at = self._text[self._at :] + more, 0
        self._ended = not more
        return bool(more)


def _object(text: str, path: Path, number: int) -> Row | DataError:
    try:
        return json_object(text)
    except ValueError as error:  # NaN and half a surrogate pair too, which the scanner lets pass
        return DataError(f"record {number}: {error}", path)


def read_csv(path: Path, delimiter: str, head: frozenset[str] = _QUESTION_COLUMNS) -> Rows:
    """The rows of a CSV file by column name (lower case); empty cells are left out. The first row is the head where it
    has a name of ``head``.

    Raises:
        DataError: the file is not UTF-8 or is damaged by its compression.
    """
    with _text(path) as stream:
        reader = csv.reader(_short_lines(stream, path), delimiter=delimiter, strict=True)
        names: list[str] = []
        number = 0
        while True:
            number += 1
            try:
                cells = next(reader, None)
            except csv.Error as error:
                yield number, DataError(f"row {number}: not valid CSV: {error}", path)
                continue
            if cells is None:
                return
            if not any(cell.strip() for cell in cells):
                continue
            titles = [cell.strip().lower() for cell in cells]
            if not names and head & set(titles):
                names = titles
                continue
            names = names or [str(place) for place in range(1, len(cells) + 1)]
            if len(cells) > len(names):
                yield (
                    number,
                    DataError(
                        f"row {number}: has {counted(len(cells), 'cells')} for {counted(len(names), 'columns')}", path
                    ),
                )
            else:
                filled = zip(names, map(str.strip, cells), strict=False)
                yield number, {name: cell for name, cell in filled if cell}


def _short_lines(stream: TextIO, path: Path) -> Iterator[str]:
    """The lines of a text; one without end would fill the memory."""
    while line := stream.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise DataError(f"a line of more than {LONGEST_LINE >> 20} MB; expected CSV", path)
        yield line


@contextmanager
def _text(path: Path) -> Iterator[TextIO]:
    """A file's text as a stream; faults of encoding and compression become errors."""
    with io.TextIOWrapper(open_bytes(path), encoding="utf-8-sig", newline="") as stream:
        try:
            yield stream
        except UnicodeDecodeError:
            raise DataError("not UTF-8 text: save it as UTF-8", path) from None
        except DAMAGED as error:
            raise DataError(f"damaged or unreadable: {error}", path) from error
