"""Tables as lines of text: a line for each row, which names the column of each cell.

Company: Lumacell; Supplies: alkaline batteries; Based in: Graz, Austria
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, islice, repeat, takewhile
from typing import NamedTuple

from polyhop.common.sentences import split_passages
from polyhop.data.converting import MAX_CHARACTERS, Block
from polyhop.errors import DataError

MAX_COLUMNS = 1000
"""Maximum columns over which a cell is repeated."""

_MAX_ROW_WORDS = 150  # a longer row becomes several lines, each with its first cell
_MAX_KEY_WORDS = 20  # of a cell or a heading that is repeated
_MAX_CAPTION = 300  # characters of a caption that are repeated with each row
_MAX_HEADERS = 3  # rows of headers
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d(?:[/–-]\d{1,4}){0,2}")  # also a month, a day, or the years of a season


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table, the numbers of columns and rows that it spans, its page if that is known, and the addresses of
    its hyperlinks."""

    text: str = ""
    is_header: bool = False
    columns: int = 1
    rows: int = 1
    page: int | None = None
    targets: tuple[str, ...] = ()


class _Part(NamedTuple):
    """A filled cell of a row, and the name of its column; "" if it has none."""

    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.name}: {self.text}" if self.name and self.name != self.text else self.text


def table_blocks(table: Iterable[Sequence[Cell]], caption: str = "") -> Iterator[Block]:
    """Yield the caption of a table and a line for each row below its headers. Spanned cells are repeated; a cell over
    all columns precedes the rows below it.

    The headers are the first rows of header cells. Without any, the first row of three or more columns is taken for
    them unless one looks like a value; a row of two cells is a name and its value.

    >>> rows = [["Company", "Founded", "Based in"], ["Lumacell", "1987", "Graz, Austria"]]
    >>> for block in table_blocks(([Cell(text) for text in row] for row in rows), caption="Suppliers"):
    ...     print(block.kind, "|", block.text)
    text | Suppliers
    row | Company: Lumacell; Founded: 1987; Based in: Graz, Austria
    """
    rows = (row for row in _spread(table) if any(cell.text for cell in row))
    first = list(islice(rows, _MAX_HEADERS + 1))
    headers, columns = _count_headers(first), max(map(len, first), default=0)
    names = [_name([row[i].text for row in first[:headers] if i < len(row)]) for i in range(columns)]
    if caption:
        yield Block(caption)
        caption = caption[:_MAX_CAPTION].rstrip()
    group, page = list[_Part](), None
    unused = dict.fromkeys(filter(None, names))
    for row in chain(first[headers:], rows):
        parts, page = _parts(names, row), row[0].page
        if 1 < columns == len(row) and len({id(cell) for cell in row}) == 1:
            parts = [_Part("", row[0].text)]
            group = parts if len(row[0].text.split()) <= _MAX_KEY_WORDS else []
        else:
            parts = group + parts
        for part in parts:
            unused.pop(part.name, None)
        targets = tuple(dict.fromkeys(chain.from_iterable(cell.targets for cell in row)))
        for line in _lines(parts):
            yield Block(line, page=page, kind="row", caption=caption, targets=targets)
    if unused:  # columns without a cell
        yield Block("; ".join(unused), page=page, kind="row", caption=caption)


def grid_blocks(grid: Iterable[Sequence[Cell]]) -> Iterator[Block]:
    """Yield the blocks of a sheet: the tables that blank rows separate, each with the single cells above it as its
    caption. Beside a table, and apart from it by a blank column, there may be another one of other rows. Header cells
    name the columns only in whole rows at the top, above others.

    >>> grid = [["Pumps"], ["", "Name", "Bar", "At"], ["", "P1", "3", "A"], [], ["Seen in May"]]
    >>> [block.text for block in grid_blocks([Cell(text) for text in row] for row in grid)]
    ['Pumps', 'Name: P1; Bar: 3; At: A', 'Seen in May']
    """
    rows: list[Sequence[Cell]] = []
    captions: list[str] = []
    for cells in chain(grid, [()]):
        filled = [cell.text for cell in cells if cell.text]
        if len(filled) > 1 or (filled and rows):
            rows.append(cells)
        elif filled:
            captions += filled
        else:
            for table in _side_by_side(rows):
                yield from table_blocks(_with_top_headers(list(table)), ". ".join(captions))
                captions = []
            rows = []


def csv_blocks(text: str, delimiter: str = "") -> Iterator[Block]:
    """Yield the rows of a table of separated values; its first row names the columns unless it looks like values.

    >>> [block.text for block in csv_blocks("Name;Bar\\nP1;3")]
    ['Name: P1; Bar: 3']

    Raises:
        DataError: it is not a valid table.
    """
    first = text.partition("\n")[0]
    csv.field_size_limit(MAX_CHARACTERS)
    reader = csv.reader(io.StringIO(text), delimiter=delimiter or max(",;\t|", key=first.count), strict=True)
    rows = ([" ".join(cell.split()) for cell in row] for row in reader)
    try:
        top = list(islice(rows, _MAX_HEADERS + 1))
        has_names = bool(top) and _are_names(top[0], top[1:])
        marked = ((row, has_names and i == 0) for i, row in enumerate(chain(top, rows)))
        yield from table_blocks([Cell(cell, is_header) for cell in row] for row, is_header in marked)
    except csv.Error as error:
        raise DataError(f"not a valid table: line {reader.line_num}: {error}") from None


def _side_by_side(rows: Sequence[Sequence[Cell]]) -> list[Iterable[Sequence[Cell]]]:
    """Return the tables among the rows of a sheet, without blank columns. After a blank column another table begins if
    its rows are others, such as a sum beside a list; else the column only keeps two of the same table apart."""
    filled: dict[int, list[int]] = {}
    for number, row in enumerate(rows):
        for column, cell in enumerate(row):
            if cell.text:
                filled.setdefault(column, []).append(number)
    margin, end = min(filled, default=0), max(filled, default=-1) + 1
    if len(filled) == end - margin or any(cell.columns > 1 or cell.rows > 1 for row in rows for cell in row):
        return [(row[margin:] for row in rows)]
    tables: list[tuple[list[int], set[int]]] = []
    for column in sorted(filled):
        own = set(filled[column])
        if tables and (column - 1 in filled or not _are_apart(*tables[-1], _run_of(filled, column))):
            tables[-1][0].append(column)
            tables[-1][1].update(own)
        else:
            tables.append(([column], own))
    return [_cells_at(rows, columns, numbers) for columns, numbers in tables]


def _with_top_headers(rows: Sequence[Sequence[Cell]]) -> Iterator[Sequence[Cell]]:
    """Yield the rows of a table with no headers but those of the first rows. A table of nothing but headers has none:
    it is only set in bold."""
    count = sum(1 for _ in takewhile(_is_header_row, rows))
    for i, row in enumerate(rows):
        is_top = i < count < len(rows)
        yield row if is_top else [replace(cell, is_header=False) if cell.is_header else cell for cell in row]


def _is_header_row(row: Sequence[Cell]) -> bool:
    return all(cell.is_header or not cell.text for cell in row)


def _run_of(filled: Mapping[int, Sequence[int]], column: int) -> set[int]:
    """Return the rows of a column and of those that follow it without a blank one."""
    run = takewhile(lambda other: other in filled, count(column))
    return {number for other in run for number in filled[other]}


def _are_apart(columns: Sequence[int], above: Collection[int], beside: Collection[int]) -> bool:
    """Return True if columns are a table of their own, not of the rows ``beside`` them, and neither has gaps."""
    whole = all(max(numbers) - min(numbers) < len(numbers) for numbers in (above, beside))
    return len(columns) > 1 and whole and set(above) != set(beside)


def _cells_at(rows: Sequence[Sequence[Cell]], columns: Sequence[int], numbers: Collection[int]) -> list[Sequence[Cell]]:
    """Return the cells of a table in a sheet. Two below each other are a name and its value, as beside each other."""
    cells = [[rows[n][c] if c < len(rows[n]) else Cell() for c in columns] for n in sorted(numbers)]
    return [[row[0] for row in cells]] if len(columns) == 1 and len(cells) == 2 else list(cells)


def _spread(table: Iterable[Sequence[Cell]]) -> Iterator[list[Cell]]:
    """Yield the rows of a table with each cell at all its columns and rows."""
    below: dict[int, tuple[Cell, int]] = {}
    for cells in table:
        row: list[Cell] = []
        for cell in cells:
            _carry(row, below)
            for _ in range(max(1, min(cell.columns, MAX_COLUMNS - len(row)))):
                if cell.rows > 1:
                    below[len(row)] = cell, cell.rows - 1
                row.append(cell)
        _carry(row, below)
        yield row


def _carry(row: list[Cell], below: dict[int, tuple[Cell, int]]) -> None:
    """Append the cells of earlier rows that reach into a row at its next columns."""
    while len(row) in below:
        cell, left = below.pop(len(row))
        if left > 1:
            below[len(row)] = cell, left - 1
        row.append(cell)


def _count_headers(rows: Sequence[Sequence[Cell]]) -> int:
    """Return the number of rows that name the columns."""
    marked = 0
    while marked < min(_MAX_HEADERS, len(rows) - 1) and _is_header_row(rows[marked]):
        marked += 1
    if marked or len(rows) < 2 or len(rows[0]) < 3 or any(cell.is_header for row in rows for cell in row):
        return marked
    first, *below = ([cell.text for cell in row] for row in rows)
    return int(_are_names(first, below))


def _are_names(texts: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Return True if texts look like the names of columns: none is missing, repeated, or a number or date. Years name
    columns if there are several, and cells ``below`` each that are no years; a single one may be a value."""
    years = [i for i, text in enumerate(texts) if _YEAR.fullmatch(text)]
    below_years = [[row[i] for row in below if i < len(row) and row[i]] for i in years]
    return (
        len(set(texts)) == len(texts)
        and all(i in years or text.lstrip("+-($€£")[:1].isalpha() for i, text in enumerate(texts))
        and len(years) != 1
        and all(cells and not any(map(_YEAR.fullmatch, cells)) for cells in below_years)
    )


def _name(headers: Sequence[str]) -> str:
    """Return the name of a column: its headers from top to bottom, each once."""
    return " ".join(dict.fromkeys(filter(None, headers))).rstrip(" :")


def _parts(names: Sequence[str], row: Sequence[Cell]) -> list[_Part]:
    """Return the filled cells of a row, each with the name of its column. Without names, the first cell of two, or one
    that is a header, names the cell after it."""
    named = zip(chain(names, repeat("")), row, strict=False)
    found = {(name, id(cell)): _Part(name, cell.text) for name, cell in named if cell.text}
    parts = list(found.values())
    if not any(names) and len(parts) > 1 and (len(parts) == 2 or row[0].is_header):
        return [_Part(parts[0].text.rstrip(" :"), parts[1].text), *parts[2:]]
    return parts


def _lines(parts: Sequence[_Part]) -> Iterator[str]:
    """Yield the parts of a row as a line, or as several if it is long, each with the first part."""
    line = "; ".join(map(str, parts))
    if len(line.split()) <= _MAX_ROW_WORDS:
        yield line
        return
    key = [parts[0]] if len(str(parts[0]).split()) <= _MAX_KEY_WORDS else []
    for name, text in parts[len(key) :]:
        yield from ("; ".join(map(str, [*key, _Part(name, piece)])) for piece in split_passages(text))
