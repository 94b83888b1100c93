"""What the engine asks of a retriever. Any ``(query, k) -> passages`` callable serves too (``types.Search``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from polyhop.types import Passage


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
