"""What the engine asks of a retriever and of a reranker. Any ``(query, k) -> passages`` callable retrieves too
(``types.Search``)."""

from __future__ import annotations

import asyncio
import inspect
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from polyhop.errors import UsageError, brief
from polyhop.types import Passage, QuestionRun, Search

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from polyhop.retrieval.encoders.base import Encoder
    from polyhop.retrieval.index import Index

_log = logging.getLogger("polyhop.retrieval")


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


@runtime_checkable
class AwaitedRetriever(Retriever, Protocol):
    """A retriever that mostly waits, for another machine: it is searched on the event loop, not on a thread."""

    async def asearch(self, query: str, k: int) -> list[Passage]:
        """``search``, awaited."""
        ...


@runtime_checkable
class AskingRetriever(Protocol):
    """A retriever that asks a language model while it searches.

    It may have ``needs``: what the model must be able to do (``score``,
    ``token_logprobs``; ``score:TASK`` for the model that does this prompt task), checked before the first call.
    """

    name: str

    @property
    def start(self) -> Retriever | AskingRetriever | Search:
        """The retriever it begins from."""
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
    """Orders anew what a retriever found, for any method; it may ask a language model.

    ``first``: how many of the retriever's hits it looks at, more where more are asked for. ``needs`` as an
    ``AskingRetriever``'s.
    """

    name: str
    first: int

    async def rerank_by(self, run: Any, query: str, passages: Sequence[Passage], k: int) -> Sequence[Passage]:
        """The ``k`` best of ``passages`` (the retriever's, best first), best first; ``run`` as in ``search_by``."""
        ...


@dataclass(eq=False)
class Reranked:
    """A retriever with a reranker behind it: an ``AskingRetriever`` like any other. Its name is the retriever's; a
    run's settings tell the reranker beside it."""

    start: Retriever | AskingRetriever | Search
    reranker: Reranker
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = getattr(self.start, "name", "of the caller's own")

    async def search_by(self, run: QuestionRun, query: str, k: int) -> Sequence[Passage]:
        """The reranker's ``k`` best of the retriever's ``max(k, first)``."""
        found = await run.search(query, max(k, self.reranker.first))
        return await self.reranker.rerank_by(run, query, found, k)

    @property
    def linked(self) -> bool:
        """Whether the retriever knows links."""
        return knows_links(self.start)

    def links(self, passage: Passage) -> list[Passage]:
        """The retriever's links; none where it knows none."""
        return links_of(self.start, passage)


async def searched(retriever: Retriever | Search | None, query: str, k: int) -> Any:
    """What a retriever or a callable gives for a query; a retriever's work is done on a thread. ``UsageError`` without
    one."""
    if retriever is None:
        raise UsageError("this method searches: give corpus= or retriever=")
    if awaits(retriever):
        return await retriever.asearch(query, k)
    if searches(retriever):
        return await asyncio.to_thread(retriever.search, query, k)
    found = retriever(query, k)
    return await found if inspect.isawaitable(found) else found


def passages_of(found: Any) -> list[Passage]:
    """What was searched for as passages; ``UsageError`` where it is anything else."""
    if isinstance(found, (str, bytes)) or not isinstance(found, Iterable):
        raise UsageError(f"the retriever must return polyhop.Passage objects, not a {type(found).__name__}")
    passages = list(found)
    if strange := next((type(p).__name__ for p in passages if not isinstance(p, Passage)), None):
        raise UsageError(f"the retriever must return polyhop.Passage objects, not a list with a {strange}")
    return passages


def encoder_of(retriever: object) -> Encoder | None:
    """The encoder of a retriever, or of the one it starts from, where that has one: a dense one's, a hybrid's."""
    return getattr(beginning_of(retriever), "encoder", None)


# What a retriever is was checked when it was opened, and by these it is told from others at each search: to check a
# whole protocol takes as long as all else about it.


def asks(retriever: object) -> TypeIs[AskingRetriever]:
    """Whether it asks."""
    return hasattr(retriever, "search_by")


def awaits(retriever: object) -> TypeIs[AwaitedRetriever]:
    """Whether it is searched on the event loop."""
    return hasattr(retriever, "asearch")


def searches(retriever: object) -> TypeIs[Retriever]:
    """Whether it is more than a callable."""
    return hasattr(retriever, "search_many")


def layers_of(retriever: object) -> Iterator[object]:
    """The retriever, the one it starts from, and so on to the one that makes the first search."""
    yield retriever
    while asks(retriever):
        retriever = retriever.start
        yield retriever


def beginning_of(retriever: object) -> object:
    """The retriever that the first search is really made by, whatever asks and reranks above it."""
    *_, last = layers_of(retriever)
    return last


def links_of(retriever: object, passage: Passage) -> list[Passage]:
    """The passages that ``passage`` links to; none where the retriever knows no links."""
    return retriever.links(passage) if isinstance(retriever, Retriever | AskingRetriever) else []


def knows_links(retriever: object) -> bool:
    """Tell whether a retriever knows what a passage links to; one that does not may say so: ``linked = False``."""
    return isinstance(retriever, Retriever | AskingRetriever) and getattr(retriever, "linked", True) is not False


class CorpusLinks:
    """The links of a corpus, for the passages of a retriever that stands beside it and knows none itself.

    A passage is known to the corpus by its id. The first that is not is told in a warning, since a retriever with ids
    of its own would follow no link at all.
    """

    def __init__(self, index: Index, retriever: str) -> None:
        self._index, self._retriever = index, retriever
        self._warned = False

    def __call__(self, passage: Passage) -> list[Passage]:
        """The passages that this one links to; none for one that the corpus does not have."""
        if not self._warned and self._index.passages.ordinal(passage.id) is None:
            self._warned = True
            _log.warning(
                "the retriever %s found the passage %s, which the corpus beside it does not have: links are followed "
                "from passages with the ids of the corpus only",
                self._retriever,
                brief(passage.id),
            )
        return self._index.links(passage)


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

    @property
    def linked(self) -> bool:
        """Whether the index was built with links."""
        return bool(self._index.link_mode)

    def links(self, passage: Passage) -> list[Passage]:
        """The passages this one links to: its corpus' hyperlinks, else the titles its text mentions."""
        return self._index.links(passage)
