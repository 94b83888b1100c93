"""The layout of a page: its lines, the headings among them by the size of their letters, and tables by their columns.

Both are recognised with caution: a heading is a short line in larger letters than most text, and a table has at least
three rows whose short cells stand below each other, apart by more than the blanks of a text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from polyhop.data.converting import Block
from polyhop.data.converting.tables import Cell, table_blocks

_MIN_SIZE = 1.15  # of a heading's letters to those of most text
_MAX_HEADING_WORDS, MAX_HEADING_LINES = 15, 3
_MAX_LINE_LEADING = 1.25  # between the lines of a heading or a cell, in heights of the line
_MAX_SHIFT = 0.5  # between the middles of centred lines, or their beginnings, in heights of the line
_MIN_GAP = 1.0  # between columns, in heights of the line
_MIN_ROWS, _MAX_CELL_WORDS = 3, 4.0
_MAX_LEADING = 3.0  # between the rows of a table, in heights of the line
MAX_LEVEL = 6
_LIST_MARK = re.compile(r"\W+|\(?\w{1,2}[.)]")


class Span(NamedTuple):
    """A run of words on a line, apart from others by a gap, and its left and right ends."""

    text: str
    left: float
    right: float


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a ``page``: its text, the height of its letters, its vertical position and its ``spans``; without the
    latter if its layout is unknown."""

    text: str
    height: float = 0.0
    y: float = 0.0
    spans: tuple[Span, ...] = ()
    page: int = 1


class Heading(NamedTuple):
    """A heading that takes ``length`` lines of a page from line ``first``."""

    first: int
    length: int
    title: str
    level: int


def joined(words: Sequence[Span], height: float) -> tuple[Span, ...]:
    """Join the words of a line to spans. The mark of a list stays with its text.

    >>> joined([Span("Graz,", 10, 30), Span("Austria", 33, 60), Span("1999", 90, 110)], height=12)
    (Span(text='Graz, Austria', left=10, right=60), Span(text='1999', left=90, right=110))
    """
    spans: list[Span] = []
    for word in words:
        if spans and (word.left - spans[-1].right <= _MIN_GAP * height or _LIST_MARK.fullmatch(spans[-1].text)):
            last = spans.pop()
            word = Span(f"{last.text} {word.text}", last.left, max(last.right, word.right))
        spans.append(word)
    return tuple(spans)


def find_headings(pages: Sequence[Sequence[Line]]) -> list[list[Heading]]:
    """Return the headings of each page. The larger the letters, the higher the level."""
    letters = Counter[float]()
    for line in (line for page in pages for line in page):
        letters[line.height] += len(line.text)
    usual = letters.most_common(1)[0][0] if letters else 0.0
    found = [_headings_of(page, usual * _MIN_SIZE) for page in pages]
    sizes = sorted({page[h.first].height for page, own in zip(pages, found, strict=True) for h in own}, reverse=True)
    levels = {size: min(level, MAX_LEVEL) for level, size in enumerate(sizes, 1)}
    return [
        [heading._replace(level=levels[page[heading.first].height]) for heading in own]
        for page, own in zip(pages, found, strict=True)
    ]


def _headings_of(lines: Sequence[Line], min_height: float) -> list[Heading]:
    found: list[Heading] = []
    i = 0
    while i < len(lines):
        height, length = lines[i].height, 1
        if height < min_height or not height:
            i += 1
            continue
        while i + length < len(lines) and _goes_on(lines[i + length - 1], lines[i + length]):
            length += 1
        title = " ".join(line.text.strip() for line in lines[i : i + length])
        is_short = length <= MAX_HEADING_LINES and len(title.split()) <= _MAX_HEADING_WORDS
        if is_short and any(map(str.isalpha, title)):
            found.append(Heading(i, length, title, 1))
        i += length
    return found


def _goes_on(line: Line, following: Line) -> bool:
    """Return True if a heading goes on in the line after it: in the same letters, not further below, and not further
    left, as below a centred title, unless both are centred."""
    if line.height != following.height or not _is_below(line, following, _MAX_LINE_LEADING):
        return False
    (left, right), (other_left, other_right) = _ends(line), _ends(following)
    shift = min(left - other_left, abs(left + right - other_left - other_right) / 2)
    return shift <= _MAX_SHIFT * line.height


def _ends(line: Line) -> tuple[float, float]:
    return (line.spans[0].left, line.spans[-1].right) if line.spans else (0.0, 0.0)


def _is_below(line: Line, following: Line, leading: float) -> bool:
    """Return True if a line is at most ``leading`` below the one before it, in heights of the line."""
    return line.y - following.y <= leading * following.height


def body_blocks(lines: Sequence[Line]) -> Iterator[Block]:
    """Yield the text of lines below a heading page by page, and their tables row by row."""
    start = i = 0
    while i < len(lines):
        length, rows = _table_at(lines, i)
        if length:
            yield from _texts(lines[start:i])
            yield from table_blocks(rows)
            start = i + length
        i += length or 1
    yield from _texts(lines[start:])


def _texts(lines: Sequence[Line]) -> Iterator[Block]:
    for page, own in groupby(lines, key=lambda line: line.page):
        yield Block("\n".join(line.text for line in own), page=page)


def _table_at(lines: Sequence[Line], start: int) -> tuple[int, list[list[Cell]]]:
    """Return the number of lines and the rows of the table that begins at a line; 0 if none does. A table that reaches
    the end of a page goes on in the rows of the next that stand in its columns, without its repeated header."""
    columns = [(span.left, span.right) for span in lines[start].spans]
    if len(columns) < 2:
        return 0, []
    end, rows = _rows_at(lines, start, columns)
    if len(rows) < _MIN_ROWS or not _are_short(rows):
        return 0, []
    while end < len(lines) and lines[end].page != lines[end - 1].page:
        reached, more = _rows_at(lines, end, columns)
        if not more or not _are_short(more):
            break
        header = [cell.text for cell in rows[0]]
        rows += more[[cell.text for cell in more[0]] == header :]
        end = reached
    return end - start, rows


def _are_short(rows: Sequence[Sequence[Cell]]) -> bool:
    words = [len(cell.text.split()) for row in rows for cell in row if cell.text]
    return sum(words) <= _MAX_CELL_WORDS * len(words)


def _rows_at(lines: Sequence[Line], start: int, columns: list[tuple[float, float]]) -> tuple[int, list[list[Cell]]]:
    """Return the end and the rows of the lines of a page that stand in columns, which are widened to them."""
    rows: list[list[str]] = []
    page, end = lines[start].page, start
    while end < len(lines) and lines[end].page == page:
        if rows and not _is_below(lines[end - 1], lines[end], _MAX_LEADING):
            break
        length, row = _row_at(lines, end, columns)
        filled = [i for i, text in enumerate(row) if text]
        if not filled or filled == [0] or (len(filled) == 1 and not rows):
            break
        if len(filled) == 1:  # the cell above goes on
            rows[-1] = _merged([rows[-1], row])
        else:
            rows.append(row)
        end += length
    return end, [[Cell(text, page=page) for text in row] for row in rows]


def _row_at(lines: Sequence[Line], start: int, columns: list[tuple[float, float]]) -> tuple[int, list[str]]:
    """Return the number of lines and the texts by column of the row that begins at a line: of all lines near to each
    other if they are apart from those of other rows and one of them alone has several cells, else of the first."""
    first, page = _row(lines[start], columns), lines[start].page
    rows, end = [first], start + 1
    while end < len(lines) and _is_near(lines[end - 1], lines[end]) and (row := _row(lines[end], columns)):
        rows.append(row)
        end += 1
        if _count_several(rows) > 1:
            return 1, first
    is_top = not start or lines[start - 1].page != page
    if is_top:  # of the page: the row below shows if rows are apart
        are_apart = end < len(lines) and lines[end].page == page and bool(_row(lines[end], columns))
    else:
        are_apart = not _is_near(lines[start - 1], lines[start])
    return (end - start, _merged(rows)) if are_apart and _count_several(rows) else (1, first)


def _count_several(rows: Sequence[Sequence[str]]) -> int:
    """Return the number of rows with several cells."""
    return sum(len(list(filter(None, row))) > 1 for row in rows)


def _is_near(line: Line, following: Line) -> bool:
    return line.page == following.page and _is_below(line, following, _MAX_LINE_LEADING)


def _merged(rows: Sequence[Sequence[str]]) -> list[str]:
    """Join the texts of each column."""
    return [" ".join(filter(None, texts)) for texts in zip(*rows, strict=True)]


def _row(line: Line, columns: list[tuple[float, float]]) -> list[str]:
    """Return the texts of a line by column, and widen the columns to them; none if a text fits no single column."""
    row, wider = [""] * len(columns), list(columns)
    for span in line.spans:
        hits = [i for i, column in enumerate(columns) if _overlap(span, *column)]
        if len(hits) != 1 or row[hits[0]]:
            return []
        left, right = columns[hits[0]]
        row[hits[0]], wider[hits[0]] = span.text, (min(left, span.left), max(right, span.right))
    columns[:] = wider
    return row


def _overlap(span: Span, left: float, right: float) -> bool:
    """Return True if a text and a column share half the width of the narrower."""
    shared = min(span.right, right) - max(span.left, left)
    return shared > 0 and shared >= min(span.right - span.left, right - left) / 2
