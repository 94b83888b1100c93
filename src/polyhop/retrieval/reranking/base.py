"""The base of rerankers that score passages without a language model."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence

from polyhop.errors import SettingError
from polyhop.types import Passage

_DIGITS = 4
"""Scores are compared to so many decimals: further ones may hang on what else is in a batch."""


class ScoringReranker(ABC):
    """Passages by a score of each, worked out on a thread; ties are broken by passage id."""

    name: str
    first: int

    async def rerank_by(self, run: object, query: str, passages: Sequence[Passage], k: int) -> Sequence[Passage]:
        """The ``k`` best of ``passages``, best first."""
        if not passages:
            return []
        scores = await asyncio.to_thread(self.scores, query, passages)
        return [passage for passage, _ in ranked(passages, scores)][:k]

    @abstractmethod
    def scores(self, query: str, passages: Sequence[Passage]) -> Sequence[float]:
        """The score of each passage, in order; there is at least one."""


def ranked(passages: Sequence[Passage], scores: Sequence[float]) -> list[tuple[Passage, float]]:
    """Passages with their scores, rounded, best first; tied ones in the order of their ids.

    >>> pair = [Passage("2", "", "two"), Passage("1", "", "one")]
    >>> [(passage.id, score) for passage, score in ranked(pair, [0.50001, 0.5])]
    [('1', 0.5), ('2', 0.5)]
    """
    scored = [(passage, round(float(score), _DIGITS)) for passage, score in zip(passages, scores, strict=True)]
    return sorted(scored, key=lambda hit: (-hit[1], hit[0].id))


def checked_first(first: object) -> int:
    """Check the number of hits to rerank; ``SettingError`` unless it is a number above 0."""
    if not isinstance(first, int) or first < 1:
        raise SettingError(f"first={first}: must be at least 1")
    return first
