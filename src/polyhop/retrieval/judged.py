"""Reorder a retriever's first hits by how relevant the built-in encoder judges each, read beside the query.

Source: Nogueira and Cho, "Passage Re-ranking with BERT", 2019. Settled here: the score is the probability of relevance
plus the retriever's own score as a share of its best one, since a passage for one of several steps is often judged
irrelevant to the whole question.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from polyhop.common.odds import sigmoid
from polyhop.errors import UsageError
from polyhop.lm.pocket.encoder.cache import predict
from polyhop.retrieval.base import Retriever, ScoringRetriever, as_retriever
from polyhop.types import Passage

if TYPE_CHECKING:
    from polyhop.retrieval.encoders.base import Encoder

JUDGED = 15
"""The number of first hits that are judged."""


class Judged(ScoringRetriever):
    """A retriever with scores whose first hits are reordered. As safe across threads as that one; ties are broken by
    passage id."""

    def __init__(self, start: Retriever) -> None:
        self.name = f"judged:{start.name}"
        if not isinstance(start, ScoringRetriever):
            raise UsageError(f"{self.name}: {start.name} has no scores: name another, as in judged:bm25")
        self._start = start
        self.encoder: Encoder | None = getattr(start, "encoder", None)

    @property
    def linked(self) -> bool:
        """True if the retriever has links."""
        return as_retriever(self._start).has_links

    def links(self, passage: Passage) -> list[Passage]:
        """Return the passages this one links to."""
        return self._start.links(passage)

    async def aclose(self) -> None:
        """Close the connections of the retriever, if it has any."""
        await as_retriever(self._start).aclose()

    def _scored_many(self, queries: Sequence[str], k: int) -> list[list[tuple[Passage, float]]]:
        found = self._start.search_many_scored(queries, max(k, JUDGED))
        return [_judged(query, hits)[:k] for query, hits in zip(queries, found, strict=True)]


def _judged(query: str, hits: Sequence[tuple[Passage, float]]) -> list[tuple[Passage, float]]:
    best = max((score for _, score in hits), default=0.0)
    scores = [score / best if best > 0.0 else 0.0 for _, score in hits]
    for number, read in enumerate(predict(query, [[passage] for passage, _ in hits[:JUDGED]])):
        scores[number] += sigmoid(read.relevance)
    passages = (passage for passage, _ in hits)
    return sorted(zip(passages, scores, strict=True), key=lambda hit: (-hit[1], hit[0].id))
