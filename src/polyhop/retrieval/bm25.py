"""BM25 by tantivy: k1 1.2, b 0.75, over title and text as one field.

Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, equation 3.15, with
Lucene's idf, ln(1 + (N - n + 0.5) / (n + 0.5)), and its lengths in one byte (exact to 40 words, then in steps).

Each distinct term of a query counts once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, cast

from polyhop.retrieval.base import OverIndex
from polyhop.retrieval.inverted_index import BM25_FOLDER, BODY, ORDINAL, open_folder, schema, translate_errors
from polyhop.retrieval.store import tied_until
from polyhop.types import Passage

if TYPE_CHECKING:
    from polyhop.retrieval.index import Index

_SPARE = 6
"""Hits fetched beyond ``k``, so that a small tie at the cut needs no second search."""


class BM25(OverIndex):
    """BM25 over an index. Safe across threads; ties are broken by passage id, also at the cut."""

    name = "bm25"

    def __init__(self, index: Index) -> None:
        import tantivy

        self._index = index
        self._schema = schema()
        self._searcher = open_folder(index.state / BM25_FOLDER).searcher()
        self._query, self._should = tantivy.Query, tantivy.Occur.Should

    def _scored(self, query: str, k: int) -> list[tuple[Passage, float]]:
        terms = dict.fromkeys(self._index.analysis.terms(query))
        if not terms:
            return []
        return self._index.passages.best(self._hits(list(terms), k), k)

    def search_among(self, query: str, ordinals: Collection[int], k: int) -> list[tuple[Passage, float]]:
        """Return the ``k`` best of the passages with these ordinals, each with its score, as ``search_scored`` does.

        It reads the ranking of the whole corpus until all of them are found.
        """
        terms = list(dict.fromkeys(self._index.analysis.terms(query)))
        depth = max(1, k)
        while terms:
            hits = self._hits(terms, depth)
            sure = hits[: tied_until(hits, depth - 1)] if len(hits) > depth else hits
            found = [hit for hit in sure if hit[1] in ordinals]
            if len(found) >= min(k, len(ordinals)) or len(hits) < depth:
                return self._index.passages.best(found, k)
            depth *= 4
        return []

    def _hits(self, terms: Sequence[str], k: int) -> list[tuple[float, int]]:
        """Find scores and ordinals by falling score: at least the first ``k`` and all that tie with the last."""
        clauses = [
            (self._should, self._query.term_query(self._schema, BODY, term, index_option="freq")) for term in terms
        ]
        query = self._query.boolean_query(clauses)
        limit = min(k + _SPARE, len(self._index))
        while True:
            with translate_errors(self._index.folder):
                found = self._searcher.search(query, limit, count=False).hits
                ordinals = self._searcher.fast_field_values(ORDINAL, [address for _, address in found])
            hits = [(score, cast(int, ordinal)) for (score, _), ordinal in zip(found, ordinals, strict=True)]
            if len(hits) < limit or limit == len(self._index) or tied_until(hits, k - 1) < limit:
                return hits
            limit = min(4 * limit, len(self._index))
