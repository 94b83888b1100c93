"""Output shared by the verbs: the console, prose, JSON and tables.

Text of passages and models is shown as text, never as markup.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import orjson
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from polyhop.cli.printing import write
from polyhop.common.text import printable, printable_json, printable_lines

T = TypeVar("T")

MAX_WIDTH = 120
"""Maximum width of prose, in columns."""
_GAP = 2
"""Columns of the terminal between two columns of a table."""
_MIN_BESIDE = 24
"""Minimum width of a text, in columns, if something is beside it."""


class _Console(Console):
    """A console that sends no control characters to a terminal, except its own for layout and colour."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            text = segment.text
            yield segment if segment.control or text.isprintable() else segment._replace(text=printable_lines(text))


def console(*, stderr: bool = False) -> Console:
    """Return a console on stdout, for results, or on stderr."""
    return _Console(file=None if stderr else sys.stdout, stderr=stderr, highlight=False)


def print_prose(shown: RenderableType, to: Console) -> None:
    """Print prose, at most ``MAX_WIDTH`` columns wide."""
    to.print(shown, width=min(to.width, MAX_WIDTH))


def as_json(value: Any) -> str:
    """Write a value as indented JSON of printable characters."""
    return printable_json(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()) + "\n"


def print_json(value: Any) -> None:
    """Print a value as indented JSON on stdout."""
    write(as_json(value))


def clean(text: str, max_length: int = 400) -> str:
    """Return a text as one printable line, cut to ``max_length`` characters.

    >>> clean("a\\x1b[31m\\nb")
    'a[31m b'
    """
    line = printable(text)
    return line if len(line) <= max_length else line[: max_length - 1] + "…"


@dataclass(frozen=True, slots=True)
class Entry:
    """A text with indented lines below it, and something short to its right, such as its cost."""

    head: Text
    below: Sequence[Text] = ()
    beside: Text = field(default_factory=Text)
    indent: int = 2

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        room = width - self.beside.cell_len - 2
        is_beside = bool(self.beside) and room >= _MIN_BESIDE
        first, *others = _lines(self.head, console, (room if is_beside else width) - self.indent) or [Text()]
        if is_beside:
            first = Text.assemble(first, " " * (width - first.cell_len - self.beside.cell_len), self.beside)
        elif self.beside:
            others.append(self.beside)
        for text in self.below:
            others += _lines(text, console, width - self.indent)
        yield first
        for line in others:
            yield Text.assemble(" " * self.indent, line)


def _lines(text: Text, console: Console, width: int) -> list[Text]:
    lines = list(text.wrap(console, max(width, 1)))
    for line in lines:
        line.rstrip()
    return lines


def turned(rows: Sequence[Sequence[T]]) -> list[list[T]]:
    """Transpose rows and columns.

    >>> turned([["run", "EM"], ["a", "41.0"]])
    [['run', 'a'], ['EM', '41.0']]
    """
    return [list(column) for column in zip(*rows, strict=True)]


def print_rows(rows: Sequence[Sequence[str | Text]], to: Console, *, names: int = 3) -> None:
    """Print rows as a table; the first row is the head, the first ``names`` columns are words, the others numbers.

    A table that is too wide is printed in parts, each with the first column.
    """
    cells = [[Text(clean(cell)) if isinstance(cell, str) else cell for cell in row] for row in rows]
    parts = _parts(cells, to.width) if names == 1 else [cells]
    for number, part in enumerate(parts):
        if number:
            to.print()
        to.print(_table(part, names, to.width))


def _table(rows: list[list[Text]], names: int, width: int) -> Table:
    table = Table(box=None, pad_edge=False)
    columns = turned(rows)
    is_tight = sum(_GAP + max(cell.cell_len for cell in column) for column in columns) - _GAP > width
    for i, (name, *cells) in enumerate(columns):
        is_name = i < names
        least = None if is_name else _min_width(name, cells)
        head = textwrap.fill(name.plain, least, break_long_words=False) if is_tight and least else name.plain
        justify: Literal["left", "right"] = "left" if is_name else "right"
        table.add_column(Text(head), justify=justify, overflow="fold", no_wrap=is_name and names == 1, min_width=least)
    for row in rows[1:]:
        table.add_row(*row)
    return table


def _parts(rows: list[list[Text]], width: int) -> list[list[list[Text]]]:
    """Divide a table into parts that fit the width, each with the first column."""
    first, *others = turned(rows)
    parts, room = [[first]], width - max(cell.cell_len for cell in first)
    left = room
    for column in others:
        needed = _GAP + _min_width(column[0], column[1:])
        if needed > left and len(parts[-1]) > 1:
            parts.append([first])
            left = room
        parts[-1].append(column)
        left -= needed
    return [turned(part) for part in parts]


def _min_width(name: Text, cells: Sequence[Text]) -> int:
    """Return the width at which every cell fits on one line, and the head on two."""
    head = name.plain
    widths = range(max(map(cell_len, head.split()), default=0), cell_len(head) + 1)
    two_lines = next((width for width in widths if len(textwrap.wrap(head, max(width, 1))) <= 2), 0)
    return max(two_lines, *(cell.cell_len for cell in cells), 0)
