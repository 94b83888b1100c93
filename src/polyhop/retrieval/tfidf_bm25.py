"""TF-IDF, hyperlinks, BM25: the pages TF-IDF finds and those they link to, ranked by BM25.

Source: the baseline "TF-IDF + BM25" of PromptRank (Khalifa et al., "Few-shot Reranking for Multi-hop QA via Language
Model Prompting", 2023), Table 1. The paper says no more than that, and its code holds no such baseline. Settled here:
the first 100 hits of TF-IDF, as many as PromptRank starts from; all their links; BM25 with the statistics of the whole
corpus, not of the pool. A linked passage without a word of the query is not ranked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from polyhop.errors import UsageError
from polyhop.retrieval.base import OverIndex
from polyhop.retrieval.bm25 import BM25
from polyhop.retrieval.tfidf import TfIdf
from polyhop.types import Passage

if TYPE_CHECKING:
    from polyhop.retrieval.index import Index

FIRST = 100
"""Pages of TF-IDF that make the pool, by default."""


class TfIdfBM25(OverIndex):
    """BM25 over the ``first`` hits of TF-IDF, or as many as are asked for, and the passages they link to. Safe across
    threads; ties are broken by passage id."""

    name = "tfidf-bm25"

    def __init__(self, index: Index, *, first: int = FIRST) -> None:
        if not index.link_mode:
            raise UsageError(f"{self.name} follows links, and the index was built without: build it with links")
        self._index, self._first = index, first
        self._tfidf, self._bm25 = TfIdf(index), BM25(index)

    def _scored(self, query: str, k: int) -> list[tuple[Passage, float]]:
        """Each passage with its BM25 score."""
        hits = self._tfidf.search(query, max(k, self._first))
        pool = dict.fromkeys([*hits, *(target for hit in hits for target in self._index.links(hit))])
        ordinals = {ordinal for passage in pool if (ordinal := self._index.passages.ordinal(passage.id)) is not None}
        return self._bm25.search_among(query, ordinals, k)
