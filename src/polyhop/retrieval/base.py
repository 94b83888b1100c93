"""The shapes of a retriever and of a reranker.

Users hand in a callable ``(query, k) -> passages`` (``types.Search``), a ``Retriever``, an ``AwaitedRetriever`` or an
``AskingRetriever``. ``as_retriever`` wraps it once, when it is opened; from then on it is a ``RunRetriever``.
"""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast, runtime_checkable

from polyhop.errors import UsageError
from polyhop.types import Passage, QuestionRun, Search

if TYPE_CHECKING:
    from polyhop.retrieval.encoders.base import Encoder
    from polyhop.retrieval.index import Index


@runtime_checkable
class Retriever(Protocol):
    """Searches a corpus, for one query or many. Ties are broken by passage id, so results are reproducible."""

    name: str

    def search(self, query: str, k: int) -> list[Passage]:
        """The ``k`` best passages, best first; fewer if fewer match; [] for a query without a term."""
        ...

    def search_many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """``search`` for every query, in order."""
        ...

    def links(self, passage: Passage) -> list[Passage]:
        """The passages this one links to: its corpus' hyperlinks, else the titles its text mentions."""
        ...


@runtime_checkable
class AwaitedRetriever(Retriever, Protocol):
    """A retriever that waits for another machine: it is searched on the event loop instead of on a thread."""

    async def asearch(self, query: str, k: int) -> list[Passage]:
        """``search``, awaited."""
        ...


@runtime_checkable
class AskingRetriever(Protocol):
    """A retriever that asks a language model while it searches.

    It may have ``needs``: the capabilities its model must have (``score``, ``token_logprobs``; ``score:TASK`` for the
    model of that prompt task). They are checked before the first call.
    """

    name: str

    @property
    def start(self) -> AnyRetriever:
        """The retriever it begins with."""
        ...

    async def search_by(self, run: Any, query: str, k: int) -> Sequence[Passage]:
        """The ``k`` best passages, best first. ``run`` asks and scores within the question's budget, trace and cache;
        its own ``search`` and ``links`` go to ``start``."""
        ...

    def links(self, passage: Passage) -> list[Passage]:
        """The passages this one links to."""
        ...


@runtime_checkable
class Reranker(Protocol):
    """Reorders the passages that a retriever found, for any method; it may ask a language model.

    ``first``: the number of the retriever's passages that it reorders; more if more are requested. ``needs``: as for an
    ``AskingRetriever``.
    """

    name: str
    first: int

    async def rerank_by(self, run: Any, query: str, passages: Sequence[Passage], k: int) -> Sequence[Passage]:
        """The ``k`` best of ``passages`` (the retriever's, best first), best first; ``run`` as in ``search_by``."""
        ...


class RunRetriever(ABC):
    """A retriever as the engine calls it: one coroutine, within a question's run.

    Attributes:
        name: None if the user's callable has none.
        base_retriever: the retriever that the run given to ``search`` searches with; None if that run is not used.
        needs: the capabilities its model must have, as for an ``AskingRetriever``.
    """

    name: str | None
    base_retriever: RunRetriever | None = None
    needs: Iterable[str] = ()

    @abstractmethod
    async def search(self, query: str, k: int, run: Any) -> Sequence[Passage]:
        """The ``k`` best passages, best first. ``run`` asks and scores within the question's budget, trace and cache;
        its own ``search`` and ``links`` go to ``base_retriever``."""

    def links(self, passage: Passage) -> list[Passage]:
        """The passages this one links to; by default those of the base retriever."""
        return self.base_retriever.links(passage) if self.base_retriever else []

    @property
    def has_links(self) -> bool:
        """False if it knows of no passage what it links to."""
        return True

    @property
    def source(self) -> Any:
        """The object that was wrapped; itself if there is none."""
        return self

    @property
    def innermost(self) -> Any:
        """The object that makes the first search, below everything that asks or reranks."""
        return self.base_retriever.innermost if self.base_retriever else self.source

    @property
    def encoder(self) -> Encoder | None:
        """The encoder of the innermost retriever, if that has one: a dense or hybrid one."""
        return cast("Encoder | None", getattr(self.innermost, "encoder", None))

    async def aclose(self) -> None:
        """Close the connections of the innermost retriever, if it has any."""
        if close := getattr(self.innermost, "aclose", None):
            await close()


RetrieverObject: TypeAlias = Retriever | AskingRetriever | RunRetriever
AnyRetriever: TypeAlias = RetrieverObject | Search
"""Everything that ``as_retriever`` takes."""


def as_retriever(source: AnyRetriever, *, index: Index | None = None) -> RunRetriever:
    """Wrap a retriever or a callable for the engine; a ``RunRetriever`` stays what it is.

    ``index``: gives the links of a callable, which has none of its own.

    Raises:
        UsageError: it is neither.
    """
    if isinstance(source, RunRetriever):
        return source
    if isinstance(source, AskingRetriever):
        return _WithRun(source)
    if isinstance(source, AwaitedRetriever):
        return _Async(source)
    if isinstance(source, Retriever):
        return _Sync(source)
    if callable(source):
        return _Function(source, index)
    raise UsageError(
        f"retriever={source!r}: must be a name, a callable (query, k) -> passages or a Retriever, "
        "which has name, search, search_many and links"
    )


class _Wrapped(RunRetriever):
    def __init__(self, source: Any) -> None:
        self._source = source
        self.name = getattr(source, "name", None)
        self.needs = getattr(source, "needs", ())

    @property
    def source(self) -> Any:
        return self._source

    @property
    def has_links(self) -> bool:
        return bool(getattr(self._source, "linked", True))

    def links(self, passage: Passage) -> list[Passage]:
        return cast("list[Passage]", self._source.links(passage))


class _WithRun(_Wrapped):
    def __init__(self, source: AskingRetriever) -> None:
        super().__init__(source)
        self.base_retriever = as_retriever(source.start)

    async def search(self, query: str, k: int, run: QuestionRun) -> list[Passage]:
        return check_passages(await self._source.search_by(run, query, k))


class _Async(_Wrapped):
    async def search(self, query: str, k: int, run: QuestionRun) -> list[Passage]:
        return check_passages(await self._source.asearch(query, k))


class _Sync(_Wrapped):
    async def search(self, query: str, k: int, run: QuestionRun) -> list[Passage]:
        return check_passages(await asyncio.to_thread(self._source.search, query, k))


class _Function(_Wrapped):
    def __init__(self, source: Search, index: Index | None) -> None:
        super().__init__(source)
        self._index = index

    async def search(self, query: str, k: int, run: QuestionRun) -> list[Passage]:
        found = self._source(query, k)
        return check_passages(await found if inspect.isawaitable(found) else found)

    @property
    def has_links(self) -> bool:
        return self._index is not None

    def links(self, passage: Passage) -> list[Passage]:
        return self._index.links(passage) if self._index is not None else []


class Reranked(RunRetriever):
    """A retriever with a reranker behind it. It has the retriever's name; a run's settings name the reranker apart."""

    base_retriever: RunRetriever

    def __init__(self, start: AnyRetriever, reranker: Reranker) -> None:
        self.base_retriever, self.reranker = as_retriever(start), reranker
        self.name = self.base_retriever.name or "of the caller's own"
        self.needs = getattr(reranker, "needs", ())

    async def search(self, query: str, k: int, run: QuestionRun) -> list[Passage]:
        """The reranker's ``k`` best of the retriever's ``max(k, first)``."""
        passages = await run.search(query, max(k, self.reranker.first))
        return check_passages(await self.reranker.rerank_by(run, query, passages, k))

    @property
    def has_links(self) -> bool:
        return self.base_retriever.has_links


def check_passages(found: Any) -> list[Passage]:
    """The result of a search as a list; ``UsageError`` if it holds anything but passages."""
    if isinstance(found, (str, bytes)) or not isinstance(found, Iterable):
        raise UsageError(f"the retriever must return polyhop.Passage objects, not a {type(found).__name__}")
    passages = list(found)
    if strange := next((type(p).__name__ for p in passages if not isinstance(p, Passage)), None):
        raise UsageError(f"the retriever must return polyhop.Passage objects, not a list with a {strange}")
    return passages


class ScoringRetriever(ABC):
    """A retriever that tells a score of each passage; all it finds follows from ``_scored``."""

    def search(self, query: str, k: int) -> list[Passage]:
        """The ``k`` best passages, best first; fewer where fewer match; [] for a query without a term.

        Raises:
            UsageError: ``k`` is less than 1.
        """
        return [passage for passage, _ in self.search_scored(query, k)]

    def search_many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """``search`` for each query, in order."""
        return [[passage for passage, _ in found] for found in self.search_many_scored(queries, k)]

    def search_scored(self, query: str, k: int) -> list[tuple[Passage, float]]:
        """``search``, each passage with its score."""
        return self.search_many_scored([query], k)[0]

    def search_many_scored(self, queries: Sequence[str], k: int) -> list[list[tuple[Passage, float]]]:
        """``search_many``, each passage with its score."""
        if k < 1:
            raise UsageError(f"k is {k}; a search returns at least 1 passage")
        return self._scored_many(queries, k)

    def _scored_many(self, queries: Sequence[str], k: int) -> list[list[tuple[Passage, float]]]:
        return [self._scored(query, k) for query in queries]

    @abstractmethod
    def _scored(self, query: str, k: int) -> list[tuple[Passage, float]]: ...


class OverIndex(ScoringRetriever):
    """A retriever over an index, whose links are the index's."""

    _index: Index

    def links(self, passage: Passage) -> list[Passage]:
        """The passages this one links to: its corpus' hyperlinks, else the titles its text mentions."""
        return self._index.links(passage)
