"""What the engine asks of a retriever. Any ``(query, k) -> passages`` callable serves too (``types.Search``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from polyhop.errors import UsageError
from polyhop.types import Passage

if TYPE_CHECKING:
    from polyhop.retrieval.index import Index


@runtime_checkable
class Retriever(Protocol):
    """Searches a corpus; one query or many at once; ties are broken by passage id, so results never wobble."""

    name: str

    def search(self, query: str, k: int) -> list[Passage]:
        """The ``k`` best passages, best first; fewer where fewer match; [] for a query without a term."""
        ...

    def search_many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """``search`` for each query, in order."""
        ...

    def links(self, passage: Passage) -> list[Passage]:
        """The passages this one links to: its corpus' hyperlinks, else the titles its text mentions."""
        ...


class OverIndex(ABC):
    """A retriever over an index: what it finds follows from ``_scored``, its links are the index's."""

    _index: Index

    def search(self, query: str, k: int) -> list[Passage]:
        """The ``k`` best passages, best first; fewer where fewer match; [] for a query without a term.

        Raises:
            UsageError: ``k`` is less than 1.
        """
        return [passage for passage, _ in self.search_scored(query, k)]

    def search_many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """``search`` for each query, in order."""
        return [self.search(query, k) for query in queries]

    def search_scored(self, query: str, k: int) -> list[tuple[Passage, float]]:
        """``search``, each passage with its score."""
        if k < 1:
            raise UsageError(f"k is {k}; a search returns at least 1 passage")
        return self._scored(query, k)

    def links(self, passage: Passage) -> list[Passage]:
        """The passages this one links to: its corpus' hyperlinks, else the titles its text mentions."""
        return self._index.links(passage)

    @abstractmethod
    def _scored(self, query: str, k: int) -> list[tuple[Passage, float]]: ...
