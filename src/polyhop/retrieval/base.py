"""The shapes of a retriever and of a reranker.

Users hand in a callable ``(query, k) -> passages`` (``types.Search``), a ``Retriever``, an ``AwaitedRetriever`` or an
``AskingRetriever``. ``as_retriever`` wraps it once, when it is opened; from then on it is a ``RunRetriever``.
"""

from __future__ import annotations

import copy
import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast, runtime_checkable

from polyhop.common.turns import in_thread
from polyhop.errors import UsageError, brief
from polyhop.types import Passage, QuestionRun, Search

if TYPE_CHECKING:
    from polyhop.retrieval.encoders.base import Encoder
    from polyhop.retrieval.index import Index

_log = logging.getLogger("polyhop.retrieval")


@runtime_checkable
class Retriever(Protocol):
    """Searches a corpus, for one query or many. Ties are broken by passage id, so that results are reproducible."""

    name: str

    def search(self, query: str, k: int) -> list[Passage]:
        """Return the ``k`` best passages, best first; fewer if fewer match; [] for a query without a term."""
        ...

    def search_many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Search for each query, in order."""
        ...

    def links(self, passage: Passage) -> list[Passage]:
        """Return the passages this one links to: by the corpus' hyperlinks, else by the titles that its text
        mentions."""
        ...


@runtime_checkable
class AwaitedRetriever(Retriever, Protocol):
    """A retriever that waits for another machine, so that it is called on the event loop instead of on a thread."""

    async def asearch(self, query: str, k: int) -> list[Passage]:
        """Search as ``search`` does, on the running event loop."""
        ...


@runtime_checkable
class AskingRetriever(Protocol):
    """A retriever that asks a language model while it searches.

    It may have ``needs``, the capabilities of its model (``score``, ``token_logprobs``; ``score:TASK`` for the model of
    that prompt task). They are checked before the first call.
    """

    name: str

    @property
    def start(self) -> AnyRetriever:
        """The retriever that makes its first search."""
        ...

    async def search_by(self, run: Any, query: str, k: int) -> Sequence[Passage]:
        """Return the ``k`` best passages, best first. ``run`` asks and scores within the question's budget, trace and
        cache; its own ``search`` and ``links`` go to ``start``."""
        ...

    def links(self, passage: Passage) -> list[Passage]:
        """Return the passages this one links to."""
        ...


@runtime_checkable
class Reranker(Protocol):
    """Reorders the passages that a retriever found, for any method; it may ask a language model.

    ``first`` is the number of passages to reorder; more if more are requested. It may have ``needs``, as an
    ``AskingRetriever``.
    """

    name: str
    first: int

    async def rerank_by(self, run: Any, query: str, passages: Sequence[Passage], k: int) -> Sequence[Passage]:
        """Return the ``k`` best of the retriever's ``passages``, best first; ``run`` is as in ``search_by``."""
        ...


class RunRetriever(ABC):
    """A retriever as the engine calls it: one coroutine, within a question's run.

    Attributes:
        name: None if the user's callable has none.
        base_retriever: the retriever of the run given to ``search``; None if it does not use that run.
        needs: the capabilities of its model, as for an ``AskingRetriever``.
    """

    name: str | None
    base_retriever: RunRetriever | None = None
    needs: Iterable[str] = ()

    @abstractmethod
    async def search(self, query: str, k: int, run: QuestionRun) -> Sequence[Passage]:
        """Return the ``k`` best passages, best first. ``run`` asks and scores within the question's budget, trace and
        cache; its own ``search`` and ``links`` go to ``base_retriever``."""

    def links(self, passage: Passage) -> list[Passage]:
        """Return the passages this one links to, by default by the base retriever."""
        return self.base_retriever.links(passage) if self.base_retriever else []

    @property
    def has_links(self) -> bool:
        """False if it knows no links; by default as the base retriever."""
        return self.base_retriever.has_links if self.base_retriever else True

    def with_links(self, corpus: CorpusLinks) -> RunRetriever:
        """Return a copy that takes links from a corpus if it, or a retriever below it, has none."""
        linked = copy.copy(self)
        linked.base_retriever = self.base_retriever and self.base_retriever.with_links(corpus)
        return linked

    @property
    def layers(self) -> Iterator[RunRetriever]:
        """Yield this retriever, its base retriever, and so on to the one that makes the first search."""
        yield self
        if self.base_retriever is not None:
            yield from self.base_retriever.layers

    @property
    def source(self) -> Any:
        """The object that was wrapped; itself if there is none."""
        return self

    @property
    def innermost(self) -> Any:
        """The object that makes the first search, below all that ask or rerank."""
        return self.base_retriever.innermost if self.base_retriever else self.source

    @property
    def encoder(self) -> Encoder | None:
        """The encoder of the innermost retriever, if it has one, as a dense or hybrid retriever does."""
        return cast("Encoder | None", getattr(self.innermost, "encoder", None))

    async def aclose(self) -> None:
        """Close the connections of the innermost retriever, if it has any."""
        if close := getattr(self.innermost, "aclose", None):
            await close()


RetrieverObject: TypeAlias = Retriever | AskingRetriever | RunRetriever
AnyRetriever: TypeAlias = RetrieverObject | Search
"""Everything that ``as_retriever`` takes."""


def as_retriever(source: AnyRetriever) -> RunRetriever:
    """Wrap a retriever or a callable for the engine; a ``RunRetriever`` stays what it is.

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
        return _Function(source)
    raise UsageError(
        f"retriever={source!r}: must be a name, a callable (query, k) -> passages or a Retriever, "
        "which has name, search, search_many and links"
    )


class CorpusLinks:
    """The links of a corpus, for a retriever beside it that knows none. Passages are matched by id.

    A warning names the first passage that the corpus does not have: with other ids, no link would be followed at all.
    """

    def __init__(self, index: Index, retriever: str) -> None:
        self._index, self._retriever = index, retriever
        self._warned = False

    def __call__(self, passage: Passage) -> list[Passage]:
        """Return the passages this one links to; none for a passage that the corpus does not have."""
        if not self._warned and self._index.passages.ordinal(passage.id) is None:
            self._warned = True
            _log.warning(
                "the retriever %s found the passage %s, which the corpus beside it does not have: links are followed "
                "from passages with the ids of the corpus only",
                self._retriever,
                brief(passage.id),
            )
        return self._index.links(passage)


class _Wrapped(RunRetriever):
    _corpus_links: CorpusLinks | None = None

    def __init__(self, source: Any) -> None:
        self._source = source
        self.name = getattr(source, "name", None)
        self.needs = getattr(source, "needs", ())

    @property
    def source(self) -> Any:
        return self._source

    @property
    def has_links(self) -> bool:
        return self._corpus_links is not None or self._has_own_links

    @property
    def _has_own_links(self) -> bool:
        return hasattr(self._source, "links") and getattr(self._source, "linked", True) is not False

    def links(self, passage: Passage) -> list[Passage]:
        if self._corpus_links is not None:
            return self._corpus_links(passage)
        return cast("list[Passage]", self._source.links(passage)) if self._has_own_links else []

    def with_links(self, corpus: CorpusLinks) -> RunRetriever:
        linked = super().with_links(corpus)
        if not self.has_links and isinstance(linked, _Wrapped):
            linked._corpus_links = corpus
        return linked


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
        return check_passages(await in_thread(self._source.search, query, k))


class _Function(_Wrapped):
    async def search(self, query: str, k: int, run: QuestionRun) -> list[Passage]:
        found = self._source(query, k)
        return check_passages(await found if inspect.isawaitable(found) else found)


class Reranked(RunRetriever):
    """A retriever followed by a reranker. It keeps the retriever's name; a run's settings name the reranker
    separately."""

    base_retriever: RunRetriever

    def __init__(self, start: AnyRetriever, reranker: Reranker) -> None:
        self.base_retriever, self.reranker = as_retriever(start), reranker
        self.name = self.base_retriever.name or "of the caller's own"
        self.needs = getattr(reranker, "needs", ())

    async def search(self, query: str, k: int, run: QuestionRun) -> list[Passage]:
        """Return the reranker's ``k`` best of the retriever's ``max(k, first)``."""
        passages = await run.search(query, max(k, self.reranker.first))
        return check_passages(await self.reranker.rerank_by(run, query, passages, k))

    async def aclose(self) -> None:
        """Close the connections of the innermost retriever and of the reranker, if they have any."""
        await super().aclose()
        if close := getattr(self.reranker, "aclose", None):
            await close()


def check_passages(found: Any) -> list[Passage]:
    """Return the result of a search as a list. Raises ``UsageError`` if it holds anything but passages."""
    if isinstance(found, (str, bytes)) or not isinstance(found, Iterable):
        raise UsageError(f"the retriever must return polyhop.Passage objects, not a {type(found).__name__}")
    passages = list(found)
    if strange := next((type(p).__name__ for p in passages if not isinstance(p, Passage)), None):
        raise UsageError(f"the retriever must return polyhop.Passage objects, not a list with a {strange}")
    return passages


class ScoringRetriever:
    """A retriever with a score for each passage. Subclasses implement ``_scored`` or, if many queries at once are
    faster, ``_scored_many``."""

    def search(self, query: str, k: int) -> list[Passage]:
        """Return the ``k`` best passages, best first; fewer if fewer match; [] for a query without a term.

        Raises:
            UsageError: ``k`` is less than 1.
        """
        return [passage for passage, _ in self.search_scored(query, k)]

    def search_many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Search for each query, in order."""
        return [[passage for passage, _ in found] for found in self.search_many_scored(queries, k)]

    def search_scored(self, query: str, k: int) -> list[tuple[Passage, float]]:
        """Search as ``search`` does; each passage comes with its score."""
        return self.search_many_scored([query], k)[0]

    def search_many_scored(self, queries: Sequence[str], k: int) -> list[list[tuple[Passage, float]]]:
        """Search as ``search_many`` does; each passage comes with its score."""
        if k < 1:
            raise UsageError(f"k is {k}; a search returns at least 1 passage")
        return self._scored_many(queries, k)

    def _scored_many(self, queries: Sequence[str], k: int) -> list[list[tuple[Passage, float]]]:
        return [self._scored(query, k) for query in queries]

    def _scored(self, query: str, k: int) -> list[tuple[Passage, float]]:
        return self._scored_many([query], k)[0]


class OverIndex(ScoringRetriever):
    """A retriever over an index, with the links of the index."""

    _index: Index

    @property
    def linked(self) -> bool:
        """True if the index was built with links."""
        return bool(self._index.link_mode)

    def links(self, passage: Passage) -> list[Passage]:
        """Return the passages this one links to: by the corpus' hyperlinks, else by the titles that its text
        mentions."""
        return self._index.links(passage)
