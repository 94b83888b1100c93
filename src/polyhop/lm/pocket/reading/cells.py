"""Cells of tables: the value in the row and the column that a question names."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from polyhop.lm.pocket.reading.comparison import measure_words
from polyhop.lm.pocket.reading.passage import Mention, ParsedPassage
from polyhop.lm.pocket.reading.question import ParsedQuestion
from polyhop.lm.pocket.reading.text import stem_weight

_CELL = r"[^\s:;.][^:;.\n]{0,40}: [^;\n]{1,100}"
_ROW = re.compile(rf"^{_CELL}(?:; {_CELL}){{1,40}}$", re.MULTILINE)
_PARTS = re.compile(r"(?:^|; )(?P<name>[^:;\n]{1,41}): (?P<value>[^;\n]*?)(?=; |\.?$)", re.MULTILINE)
_PRESENT = re.compile(r"\b(?:now|nowadays|these days|at present|currently|still|after all|really|finally|any ?more)\b")
_ENOUGH = 0.6  # share of the question's words that row, column and title hold
_LEAD = 0.1  # of the best cell before the next value
_TITLE = 0.5  # weight of the title's words beside those of the row
_TYPE_BONUS = 0.1  # added for a value of the type asked for, subtracted for any other
_KINDS = {
    "person": {"name", "quoted"}, "place": {"name"}, "country": {"name", "people"}, "group": {"name"},
    "date": {"date", "year", "number"}, "year": {"year", "date"}, "number": {"number", "year"},
}  # fmt: skip


class Cell(NamedTuple):
    """A cell: its page, the tokens of its column's name and of its value."""

    page: ParsedPassage
    name: slice
    value: slice

    @property
    def mention(self) -> Mention:
        """The value as a mention."""
        return self.page.mention_at(
            self.page.starts[self.value.start],
            self.page.starts[self.value.stop - 1] + len(self.page.tokens[self.value.stop - 1]),
        )


def find_cell(parsed: ParsedQuestion, pages: Sequence[ParsedPassage]) -> Cell | None:
    """Find the cell whose row and column a question names; None if no cell stands out.

    >>> from polyhop.lm.pocket.reading.passage import parse_passage
    >>> from polyhop.lm.pocket.reading.question import parse_question
    >>> from polyhop.types import Passage
    >>> rows = "Boat: Heron; Built: 1998; Master: Ida Kuhn.\\nBoat: Wren; Built: 2004; Master: Tom Reed."
    >>> cell = find_cell(parse_question("Who is the master of the Wren?"), [parse_passage(Passage("1", "Fleet", rows))])
    >>> cell.mention.text
    'Tom Reed'
    """
    if _PRESENT.search(parsed.text) or parsed.type == "reason":
        return None  # a table may be older than what other passages say, and seldom gives a reason
    scored: dict[str, tuple[float, Cell]] = {}
    asked = {**{stem: 0.6 * weight for stem, weight in measure_words(parsed.text).items()}, **parsed.terms}
    for page in pages:
        for row in rows(page):
            for cell in row:
                score, text = _score(parsed, asked, row, cell), cell.mention.folded
                if score > scored.get(text, (0.0, None))[0]:
                    scored[text] = score, cell
    best = sorted(scored.values(), key=lambda pair: -pair[0])[:2]
    if not best or best[0][0] < _ENOUGH or (len(best) > 1 and best[0][0] - best[1][0] < _LEAD):
        return None
    return best[0][1]


def rows(page: ParsedPassage) -> Iterator[list[Cell]]:
    """The rows of the tables of a page."""
    for line in _ROW.finditer(page.text):
        row = []
        for cell in _PARTS.finditer(page.text, *line.span()):
            name, value = (
                slice(*(bisect_left(page.starts, end) for end in cell.span(part))) for part in ("name", "value")
            )
            if value.start < value.stop:
                row.append(Cell(page, name, value))
        yield row


def _score(parsed: ParsedQuestion, asked: Mapping[str, float], row: Sequence[Cell], cell: Cell) -> float:
    """The share of the question's words in the name of the cell's column, in the rest of its row and in the title; 0 if
    the row or the column is not asked for."""
    stems = cell.page.stems
    column = {stem for stem in stems[cell.name] if stem in asked}
    named: set[str] = set()
    for other in row:
        if other is not cell and (found := {stem for stem in stems[other.value] if stem in parsed.terms}):
            named |= found | {stem for stem in stems[other.name] if stem in parsed.terms}
    value = [stem for stem in stems[cell.value] if stem_weight(stem)]
    if not named or not value or all(stem in parsed.terms for stem in value):
        return 0.0
    kinds = {mention.kind for mention in cell.page.mentions if cell.value.start <= mention.first < cell.value.stop}
    fitting = _KINDS.get(parsed.type, set())
    fits = 0.0 if not fitting else _TYPE_BONUS if kinds & fitting else -_TYPE_BONUS
    if not column and fits <= 0:
        return 0.0
    row_share = sum(parsed.terms[stem] for stem in named - column)
    title = sum(parsed.terms.get(stem, 0.0) for stem in cell.page.title_stems - named - column)
    return (sum(asked[stem] for stem in column) + row_share + _TITLE * title) / parsed.total + fits
