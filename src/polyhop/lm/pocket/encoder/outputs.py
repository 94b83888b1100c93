"""What the encoder is shown, a question over a path of passages, and what it says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

KINDS = ("span", "yes", "no", "none")
"""What an answer can be: words of the passages, one of two words, or not there."""
PLACES = 4
"""Decimal places of all that the encoder says."""


class Told(Protocol):
    """What has a title and a text: a passage or a page."""

    @property
    def title(self) -> str:
        """Its title."""
        ...

    @property
    def text(self) -> str:
        """Its text."""
        ...


class Sight(NamedTuple):
    """What is looked at: a question over titles and texts."""

    question: str
    path: tuple[tuple[str, str], ...]


class Seen(NamedTuple):
    """A stretch that may be the answer: of passage number ``passage`` its text's (or its title's) characters
    ``start:end``, and how likely among the row's stretches, as a logarithm."""

    passage: int
    in_title: bool
    start: int
    end: int
    log_share: float

    def text(self, path: Sequence[Told]) -> str:
        """Its words."""
        told = path[self.passage]
        return (told.title if self.in_title else told.text)[self.start : self.end]


class Look(NamedTuple):
    """What a look says: two log-odds, the probability of each of ``KINDS``, and stretches, the likeliest first."""

    relevance: float
    sufficiency: float
    kinds: Mapping[str, float]
    spans: tuple[Seen, ...]
