"""A question over a path of passages, as the encoder reads it: pieces, and where each came from.

``[CLS] question [SEP] title : text [SEP] title : text [SEP]``. A text longer than its share gives the stretch that
holds the most of the question's pieces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from polyhop.lm.pocket.encoder.outputs import Told
from polyhop.lm.pocket.encoder.wordpiece import Pieces, WordPiece

LENGTH = 320
"""Pieces of a row, at most."""
QUESTION = 64
"""Pieces of a question, at most."""
TITLE = 24
"""Pieces of a title, at most."""
LEAST = 8
"""Pieces of a text that are read in any case."""
MOST_CHARACTERS = 8000  # of a passage that are read
_KEPT = 20_000  # texts whose pieces are kept


class Place(NamedTuple):
    """Where a piece came from: the passage's number on the path, whether from its title, and its word's characters."""

    passage: int
    in_title: bool
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Row:
    """A question over passages: its pieces; from ``first`` on they are the passages', each with its place (None for
    what is between them)."""

    ids: list[int]
    first: int
    places: list[Place | None] = field(default_factory=list)


class Layout:
    """Lays questions and passages out, by a vocabulary; the pieces of a text are kept for its next use."""

    def __init__(self, pieces: WordPiece) -> None:
        self.pieces = pieces
        self._colon = pieces.encode(":").ids
        self._kept: dict[str, Pieces] = {}

    def row(self, question: str, path: Sequence[Told], length: int = LENGTH) -> Row:
        """The row of a question and a path, of at most ``length`` pieces where the passages' least share allows it."""
        asked = self.pieces.encode(question).ids[:QUESTION]
        ids = [self.pieces.begin, *asked, self.pieces.end]
        row, wanted = Row(ids, len(ids)), frozenset(asked)
        share = (length - len(ids)) // max(1, len(path))
        for number, passage in enumerate(path):
            named, told = self._encoded(passage.title), self._encoded(passage.text[:MOST_CHARACTERS])
            colon = self._colon if named.ids else []
            room = max(LEAST, share - len(named.ids[:TITLE]) - len(colon) - 1)
            begin = best_stretch(told.ids, wanted, room)
            _add(row, named, slice(0, TITLE), number, in_title=True)
            row.ids.extend(colon)
            row.places.extend([None] * len(colon))
            _add(row, told, slice(begin, begin + room), number, in_title=False)
            row.ids.append(self.pieces.end)
            row.places.append(None)
        return row

    def text(self, text: str, length: int) -> list[int]:
        """The pieces of a text by itself, between the marks of beginning and end."""
        return [self.pieces.begin, *self._encoded(text[:MOST_CHARACTERS]).ids[: length - 2], self.pieces.end]

    def _encoded(self, text: str) -> Pieces:
        if (found := self._kept.get(text)) is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            found = self._kept[text] = self.pieces.encode(text)
        return found


def best_stretch(ids: Sequence[int], wanted: frozenset[int], room: int) -> int:
    """Where the ``room`` pieces begin that hold the most different ones of those wanted; the earliest of equals.

    >>> best_stretch([9, 9, 9, 1, 9, 2, 9], frozenset([1, 2]), 3)
    3
    """
    if len(ids) <= room:
        return 0
    held = Counter(piece for piece in ids[:room] if piece in wanted)
    best, most = 0, len(held)
    for begin in range(1, len(ids) - room + 1):
        if (gone := ids[begin - 1]) in wanted:
            held[gone] -= 1
            if not held[gone]:
                del held[gone]
        if (come := ids[begin + room - 1]) in wanted:
            held[come] += 1
            if len(held) > most:
                best, most = begin, len(held)
    return best


def _add(row: Row, pieces: Pieces, part: slice, number: int, *, in_title: bool) -> None:
    row.ids.extend(pieces.ids[part])
    spans = zip(pieces.starts[part], pieces.ends[part], strict=True)
    row.places.extend(Place(number, in_title, start, end) for start, end in spans)
