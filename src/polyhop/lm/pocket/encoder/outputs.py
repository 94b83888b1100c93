"""The input and output of the encoder: a question over a path of passages, and a prediction for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

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
    """A prediction for a query: two log-odds, the probability of each of ``KINDS``, and spans, most probable first."""

    relevance: float
    sufficiency: float
    kinds: Mapping[str, float]
    spans: tuple[SpanPrediction, ...]
