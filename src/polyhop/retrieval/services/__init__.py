"""Retrievers and rerankers behind a server: the bases of all of them, and the checks of a reply's shape.

``served`` asks a server that speaks a small JSON protocol, ``web`` a web search API; ``reranking.served`` a reranker.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from polyhop.common.aio import LoopThread
from polyhop.common.text import counted
from polyhop.data.lines import json_type
from polyhop.errors import RetrievalError, SettingError, UnknownName, UsageError
from polyhop.net.client import Address, Server
from polyhop.net.failures import CallError, FailureKind, WrongShape, error_message
from polyhop.net.limits import Rates
from polyhop.types import Passage

T = TypeVar("T")

MAX_RESPONSE_BYTES = 16 << 20
"""Maximum size of a reply, in bytes."""

SERVER_OPTIONS: Mapping[str, Callable[[Any], Any]] = {"concurrency": int, "timeout": float, "per_minute": int}
"""The options of every service: concurrent requests, seconds per request, and requests per minute."""


class Client:
    """A part of retrieval behind a server. One object serves any number of event loops; synchronous code waits on a
    loop of its own. ``advice`` says what would help, per kind of failure. After ``aclose`` it can be used again.
    """

    part = "retriever"

    def __init__(
        self,
        name: str,
        address: Address,
        advice: Mapping[FailureKind, str],
        *,
        key: str | None,
        headers: Mapping[str, str] | None = None,
        concurrency: int,
        timeout: float,
        per_minute: int | None,
        retries: int,
    ) -> None:
        self.name, self._address, self._advice = name, address, advice
        self._server = Server(
            address,
            key,
            headers=headers,
            max_concurrency=concurrency,
            rates=Rates(per_minute) if per_minute else None,
            timeout=timeout,
            retries=retries,
            max_response_bytes=MAX_RESPONSE_BYTES,
        )
        self._loop = LoopThread()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    async def aclose(self) -> None:
        """Close the connections, in every loop."""
        if self._loop.is_running:
            self._loop.run(self._server.close_loop())
            self._loop.stop()
        await self._server.aclose()

    async def _ask(self, url: str, body: bytes | None, read: Callable[[Any], T]) -> T:
        """Ask the server and read its reply by ``read``."""
        try:
            value, _ = await self._server.ask(url, body, read)
        except CallError as error:
            advice = self._advice.get(error.failure.kind, "")
            raise RetrievalError(error_message(f"the {self.part} {self.name}", error, advice)) from None
        return value


class Service(Client, ABC):
    """A retriever (``base.AwaitedRetriever``) behind a server. It knows no links."""

    linked = False

    async def asearch(self, query: str, k: int) -> list[Passage]:
        """Search as ``search`` does, on the running event loop."""
        return (await self._found([query], k))[0]

    def search(self, query: str, k: int) -> list[Passage]:
        """Return the ``k`` best passages, best first, distinct; fewer if the server has fewer; [] for a blank query.

        Raises:
            UsageError: ``k`` is less than 1.
            RetrievalError: the server cannot be reached, refuses, or sends a reply that cannot be read.
        """
        return self.search_many([query], k)[0]

    def search_many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Search for each query, in order."""
        return self._loop.run(self._found(queries, k))

    def links(self, passage: Passage) -> list[Passage]:
        """Return []: a service knows no links."""
        return []

    @abstractmethod
    async def _asked(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        """Ask the server for the hits of each query; none is blank."""

    async def _found(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        if k < 1:
            raise UsageError(f"k is {k}; a search returns at least 1 passage")
        found = await each(queries, lambda asked: self._asked(asked, k))
        return [list(dict.fromkeys(passages))[:k] for passages in found]


async def each(queries: Sequence[str], ask: Callable[[Sequence[str]], Awaitable[list[list[T]]]]) -> list[list[T]]:
    """Find hits for each query by ``ask``. A blank query, which servers refuse, finds nothing and is not sent."""
    asked = [query for query in queries if query.strip()]
    found = iter(await ask(asked) if asked else [])
    return [next(found) if query.strip() else [] for query in queries]


def checked_options(
    prefix: str, options: Mapping[str, Any], own: Mapping[str, Callable[[Any], Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Convert options; return a service's ``own`` and those of its server.

    >>> checked_options("web:serper", {"country": "us", "timeout": "2.5"}, {"country": str})
    ({'country': 'us'}, {'timeout': 2.5})

    Raises:
        UnknownName: there is no such option.
        SettingError: an option of the server is not a number above 0.
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
    server = {name: found.pop(name) for name in SERVER_OPTIONS if name in found}
    return found, server


def wrong_shape(why: str) -> WrongShape:
    """Return the error for a reply of another shape."""
    return WrongShape(f"the reply has another shape: {why}")


def listed(value: Any, path: str, count: int | None = None) -> list[Any]:
    """Check that a value of a reply is a list, of ``count`` values if given; ``path`` names it in errors.

    Raises:
        WrongShape: it is not.
    """
    if not isinstance(value, list):
        raise wrong_shape(f"{path} is {json_type(value)}, expected an array")
    if count is not None and len(value) != count:
        raise wrong_shape(f"{path} has {counted(len(value), 'entries')} for {count}")
    return value


def mapped(value: Any, path: str) -> dict[str, Any]:
    """Check that a value of a reply is an object. Raises ``WrongShape``."""
    if not isinstance(value, dict):
        raise wrong_shape(f"{path} is {json_type(value)}, expected an object")
    return value


def field(value: Any, name: str, path: str) -> Any:
    """Return a field of an object of a reply. Raises ``WrongShape`` if it is missing."""
    row = mapped(value, path)
    if name not in row:
        raise wrong_shape(f"{path} has no field {name!r}")
    return row[name]
