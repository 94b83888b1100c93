"""The base of retrievers behind a server: requests on the event loop, one kind of error, checks of a reply's shape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from polyhop.common.aio import LoopThread
from polyhop.common.text import counted
from polyhop.data.lines import json_type
from polyhop.errors import RetrievalError, SettingError, UnknownName, UsageError
from polyhop.net.client import Server
from polyhop.net.failures import CallError, FailureKind, WrongShape, error_message
from polyhop.types import Passage

T = TypeVar("T")

MAX_RESPONSE_BYTES = 16 << 20
"""Maximum size of a reply, in bytes."""

SERVER_OPTIONS: Mapping[str, Callable[[Any], Any]] = {"concurrency": int, "timeout": float, "per_minute": int}
"""Options that every service takes behind its name's question mark: requests at once, seconds for one of them, and
requests a minute."""


class Service(ABC):
    """A retriever (``base.AwaitedRetriever``) behind a server; ``RetrievalError`` where it cannot be asked.

    It knows no links. One object serves any number of event loops; ordinary code waits on a loop of its own. ``advice``
    is what would work, by what went wrong. ``aclose`` belongs at the end; the service can be used again after it.
    """

    linked = False

    def __init__(self, name: str, server: Server, advice: Mapping[FailureKind, str]) -> None:
        self.name = name
        self._server, self._advice = server, advice
        self._loop = LoopThread()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    async def asearch(self, query: str, k: int) -> list[Passage]:
        """``search``, awaited."""
        return (await self._found([query], k))[0]

    def search(self, query: str, k: int) -> list[Passage]:
        """The ``k`` best passages, best first, distinct; fewer where the server has fewer; [] for a blank query.

        Raises:
            UsageError: ``k`` is less than 1.
            RetrievalError: the server cannot be reached, refuses, or answers what cannot be read.
        """
        return self.search_many([query], k)[0]

    def search_many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """``search`` for each query, in order."""
        return self._loop.run(self._found(queries, k))

    def links(self, passage: Passage) -> list[Passage]:
        """None: a service is asked for passages alone."""
        return []

    async def aclose(self) -> None:
        """Close the connections, in every loop."""
        if self._loop.is_running:
            self._loop.run(self._server.close_loop())
            self._loop.stop()
        await self._server.aclose()

    @abstractmethod
    async def _asked(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Ask the server for the hits of each query; none is blank."""

    async def _found(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        if k < 1:
            raise UsageError(f"k is {k}; a search returns at least 1 passage")
        found = await each(queries, lambda asked: self._asked(asked, k))
        return [list(dict.fromkeys(passages))[:k] for passages in found]

    async def _ask(self, url: str, body: bytes | None, read: Callable[[Any], T]) -> T:
        """Read the server's answer by ``read``."""
        try:
            value, _ = await self._server.ask(url, body, read)
        except CallError as error:
            advice = self._advice.get(error.failure.kind, "")
            raise RetrievalError(error_message(f"the retriever {self.name}", error, advice)) from None
        return value


async def each(queries: Sequence[str], ask: Callable[[Sequence[str]], Awaitable[list[list[T]]]]) -> list[list[T]]:
    """Find hits for each query by ``ask``. A blank query, which servers refuse, finds nothing and is not sent."""
    asked = [query for query in queries if query.strip()]
    found = iter(await ask(asked) if asked else [])
    return [next(found) if query.strip() else [] for query in queries]


def checked_options(
    prefix: str, options: Mapping[str, Any], own: Mapping[str, Callable[[Any], Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of a service's ``own``, and those of its server, as numbers where they are numbers.

    >>> checked_options("web:serper", {"country": "us", "timeout": "2.5"}, {"country": str})
    ({'country': 'us'}, {'timeout': 2.5})

    Raises:
        UnknownName: it has no such option.
        SettingError: a value is no number above 0 where one is needed.
    """
    kinds = {**own, **SERVER_OPTIONS}
    found: dict[str, Any] = {}
    for name, value in options.items():
        if name not in kinds:
            raise UnknownName(f"option of {prefix}", name, kinds)
        try:
            found[name] = kinds[name](value)
        except ValueError:
            raise SettingError(f"{prefix}?{name}={value}: must be a number") from None
        if name in SERVER_OPTIONS and not 0 < found[name] < float("inf"):
            raise SettingError(f"{prefix}?{name}={value}: must be above 0")
    return {name: found[name] for name in own if name in found}, {
        name: found[name] for name in SERVER_OPTIONS if name in found
    }


def listed(value: Any, path: str, count: int | None = None) -> list[Any]:
    """A value of a reply that must be a list, of ``count`` values if that is given; ``path`` is its name in errors.

    Raises:
        WrongShape: it is none.
    """
    if not isinstance(value, list):
        raise WrongShape(f"the reply has another shape: {path} is {json_type(value)}, expected an array")
    if count is not None and len(value) != count:
        raise WrongShape(f"the reply has another shape: {path} has {counted(len(value), 'entries')} for {count}")
    return value


def mapped(value: Any, path: str) -> dict[str, Any]:
    """A value of a reply that must be an object, as ``listed``."""
    if not isinstance(value, dict):
        raise WrongShape(f"the reply has another shape: {path} is {json_type(value)}, expected an object")
    return value


def field(value: Any, name: str, path: str) -> Any:
    """A field of an object of a reply; ``WrongShape`` where it is missing."""
    row = mapped(value, path)
    if name not in row:
        raise WrongShape(f"the reply has another shape: {path} has no field {name!r}")
    return row[name]
