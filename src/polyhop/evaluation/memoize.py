"""A retriever and a reader that remember their results, for comparing settings on the same questions.

They suit some hundred questions or, with ``max_entries``, a sweep, but not a service.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from polyhop.readers import Reader, as_reader
from polyhop.retrieval.base import Retriever
from polyhop.types import Passage, Span


class MemoizingRetriever:
    """A retriever that looks up each query and passage once; it keeps the ``max_entries`` results used last."""

    def __init__(self, start: Retriever, max_entries: int | None = None) -> None:
        self.name, self.search_many = start.name, start.search_many
        self._search, self._links = lru_cache(max_entries)(start.search), lru_cache(max_entries)(start.links)

    def search(self, query: str, k: int) -> list[Passage]:
        """Return the passages for a query, as the retriever does."""
        return list(self._search(query, k))

    def links(self, passage: Passage) -> list[Passage]:
        """Return the passages a passage links to, as the retriever does."""
        return list(self._links(passage))


class MemoizingReader:
    """A reader that reads each question in the same passages once."""

    def __init__(self, start: Reader) -> None:
        self.name, self.threshold = start.name, start.threshold
        self._start = as_reader(start)
        self._read: dict[tuple[str, tuple[Passage, ...]], list[Span]] = {}

    async def read(self, question: str, passages: Sequence[Passage]) -> Sequence[Span]:
        """Return the spans that answer a question, as the reader does."""
        key = (question, tuple(passages))
        if key not in self._read:
            self._read[key] = await self._start.read(question, passages, None)
        return self._read[key]
