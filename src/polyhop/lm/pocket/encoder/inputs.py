"""Inputs and outputs of the encoder: a question over a path of passages as word pieces, and a prediction for it.

``[CLS] question [SEP] title : text [SEP] title : text [SEP]``. The passages share the length equally; a text longer
than its share is cut to the window that contains most of the question's pieces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from polyhop.lm.pocket.encoder.wordpiece import Pieces, WordPiece

KINDS = ("span", "yes", "no", "none")
"""The kinds of answer: words of the passages, one of two words, or no answer there."""
PLACES = 4
"""Decimal places of every number that the encoder predicts."""


class TitledText(Protocol):
    """A title and a text: a passage or a parsed one."""

    @property
    def title(self) -> str:
        """The title."""
        ...

    @property
    def text(self) -> str:
        """The text."""
        ...


class EncoderQuery(NamedTuple):
    """A question over a path of titles and texts."""

    question: str
    path: tuple[tuple[str, str], ...]


class SpanPrediction(NamedTuple):
    """A span that may be the answer: characters ``start:end`` of the text (or the title) of passage number ``passage``
    on the path, and its log-probability among the spans of the path."""

    passage: int
    in_title: bool
    start: int
    end: int
    log_probability: float

    def text(self, path: Sequence[TitledText]) -> str:
        """The words of the span."""
        source = path[self.passage]
        return (source.title if self.in_title else source.text)[self.start : self.end]


class EncoderOutput(NamedTuple):
    """A prediction for a query: three log-odds, the probability of each of ``KINDS``, and spans, most probable first.

    ``answerable``: the best span against no span at all (Devlin et al., 2019, §4.3).
    """

    relevance: float
    sufficiency: float
    answerable: float
    kinds: Mapping[str, float]
    spans: tuple[SpanPrediction, ...]


MAX_PIECES = 320
"""Maximum number of pieces of an input."""
MAX_QUESTION_PIECES = 64
MAX_TITLE_PIECES = 24
MIN_TEXT_PIECES = 8
"""Minimum number of pieces of each text."""
_MAX_CHARACTERS = 8000  # read of a passage
_MAX_CACHED = 20_000  # texts whose pieces are cached


class PieceOrigin(NamedTuple):
    """The origin of a piece: the passage's number on the path, its title or its text, and the characters of its
    word."""

    passage: int
    in_title: bool
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class EncoderInput:
    """The pieces of a question over passages. From ``first`` on they belong to the passages: ``origins`` has one entry
    for each of those, None for a separator."""

    ids: list[int]
    first: int
    origins: list[PieceOrigin | None] = field(default_factory=list)


class InputBuilder:
    """Builds inputs with a vocabulary. The pieces of a text are cached."""

    def __init__(self, pieces: WordPiece) -> None:
        self.pieces = pieces
        self._colon = pieces.encode(":").ids
        self._cache: dict[str, Pieces] = {}

    def build(self, question: str, path: Sequence[TitledText], max_pieces: int = MAX_PIECES) -> EncoderInput:
        """Build the input for a question and a path. It has at most ``max_pieces`` pieces, unless the minimum of each
        text needs more."""
        question_ids = self.pieces.encode(question).ids[:MAX_QUESTION_PIECES]
        ids = [self.pieces.begin, *question_ids, self.pieces.end]
        built, wanted = EncoderInput(ids, len(ids)), frozenset(question_ids)
        share = (max_pieces - len(ids)) // max(1, len(path))
        for number, passage in enumerate(path):
            title, text = self._encode(passage.title), self._encode(passage.text[:_MAX_CHARACTERS])
            colon = self._colon if title.ids else []
            width = max(MIN_TEXT_PIECES, share - len(title.ids[:MAX_TITLE_PIECES]) - len(colon) - 1)
            begin = best_window(text.ids, wanted, width)
            _append(built, title, slice(0, MAX_TITLE_PIECES), number, in_title=True)
            built.ids.extend(colon)
            built.origins.extend([None] * len(colon))
            _append(built, text, slice(begin, begin + width), number, in_title=False)
            built.ids.append(self.pieces.end)
            built.origins.append(None)
        return built

    def text_ids(self, text: str, max_pieces: int) -> list[int]:
        """The pieces of a text by itself, between the marks of beginning and end."""
        return [self.pieces.begin, *self._encode(text[:_MAX_CHARACTERS]).ids[: max_pieces - 2], self.pieces.end]

    def _encode(self, text: str) -> Pieces:
        if (pieces := self._cache.get(text)) is None:
            if len(self._cache) >= _MAX_CACHED:
                self._cache.clear()
            pieces = self._cache[text] = self.pieces.encode(text)
        return pieces


def best_window(ids: Sequence[int], wanted: frozenset[int], width: int) -> int:
    """The start of the window of ``width`` pieces that contains most different wanted ones; the earliest of equals.

    >>> best_window([9, 9, 9, 1, 9, 2, 9], frozenset([1, 2]), 3)
    3
    """
    if len(ids) <= width:
        return 0
    inside = Counter(piece for piece in ids[:width] if piece in wanted)
    best, max_distinct = 0, len(inside)
    for begin in range(1, len(ids) - width + 1):
        if (left := ids[begin - 1]) in wanted:
            inside[left] -= 1
            if not inside[left]:
                del inside[left]
        if (entered := ids[begin + width - 1]) in wanted:
            inside[entered] += 1
            if len(inside) > max_distinct:
                best, max_distinct = begin, len(inside)
    return best


def _append(built: EncoderInput, pieces: Pieces, part: slice, number: int, *, in_title: bool) -> None:
    built.ids.extend(pieces.ids[part])
    spans = zip(pieces.starts[part], pieces.ends[part], strict=True)
    built.origins.extend(PieceOrigin(number, in_title, start, end) for start, end in spans)
