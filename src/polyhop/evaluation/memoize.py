"""A retriever and a reader that do nothing twice, for settings compared on the same questions. They keep what they
gave: for some hundred questions or, with a limit, for a sweep; not for a service."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from polyhop.readers import Reader, as_reader
from polyhop.retrieval.base import Retriever
from polyhop.types import Passage, Span


class MemoizingRetriever:
    """As the retriever it stands before, each query and passage looked up once; ``most`` are kept, those used last."""

    def __init__(self, start: Retriever, most: int | None = None) -> None:
        self.name, self.search_many = start.name, start.search_many
        self._search, self._links = lru_cache(most)(start.search), lru_cache(most)(start.links)

    def search(self, query: str, k: int) -> list[Passage]:
        """As the retriever's own."""
        return list(self._search(query, k))

    def links(self, passage: Passage) -> list[Passage]:
        """As the retriever's own."""
        return list(self._links(passage))


class MemoizingReader:
    """As the reader it stands before, each question read in the same passages once."""

    def __init__(self, start: Reader) -> None:
        self.name, self.threshold = start.name, start.threshold
        self._start = as_reader(start)
        self._read: dict[tuple[str, tuple[Passage, ...]], list[Span]] = {}

    async def read(self, question: str, passages: Sequence[Passage]) -> Sequence[Span]:
        """As the reader's own."""
        key = (question, tuple(passages))
        if key not in self._read:
            self._read[key] = await self._start.read(question, passages, None)
        return self._read[key]
