"""Replies of search engines, limited in bytes and in time as they arrive through the engines' own clients.

The clients read a reply whole, and their timeouts start again with every piece: an endless reply would fill the memory,
or never end. Elasticsearch's and OpenSearch's take a class of connections, Qdrant's takes hooks of httpx.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

from polyhop.common.extras import require
from polyhop.net.client import MAX_RESPONSE_BYTES

MAX_SECONDS = 120
"""The clients' timeout for each piece of a reply, and the time that all of its body may take."""

_PIECE = 1 << 16


class Excessive(Exception):
    """A reply that is too large or takes too long; the text says which, and names the limit."""


def excess_in(error: BaseException | None) -> str | None:
    """Return the text of the ``Excessive`` from which a client's error came; None for any other error."""
    while error is not None and not isinstance(error, Excessive):
        error = error.__cause__ or error.__context__
    return str(error) if error else None


def within_limits(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces of a body.

    Raises:
        Excessive: they are too large together, or take too long.
    """
    size, end = 0, time.monotonic() + MAX_SECONDS
    for piece in pieces:
        size += len(piece)
        if size > MAX_RESPONSE_BYTES:
            raise Excessive(f"the reply is larger than {MAX_RESPONSE_BYTES / 2**20:g} MiB")
        if time.monotonic() > end:
            raise Excessive(f"the reply takes longer than {MAX_SECONDS:g} seconds")
        yield piece


class BoundedPool:
    """A pool of urllib3's connections that reads each reply within the limits."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    def urlopen(self, *arguments: Any, **options: Any) -> Any:
        """Send a request; return the status, the headers and the whole ``data`` of the reply."""
        response = self._pool.urlopen(*arguments, **options, preload_content=False)
        try:
            data = b"".join(within_limits(_pieces(response)))
        except BaseException:
            response.close()  # the connection with the rest of the reply; the next request opens another
            raise
        finally:
            response.release_conn()
        return SimpleNamespace(status=response.status, headers=response.headers, data=data)

    def close(self) -> None:
        """Close all connections."""
        self._pool.close()


def _pieces(response: Any) -> Iterator[bytes]:
    """Read what has arrived: waiting for a full piece would not notice a drip."""
    read = getattr(response, "read1", response.read)  # urllib3 before 2.1 has no read1
    while piece := read(_PIECE):
        yield piece


def elastic_node() -> Any:
    """Return the class of connections for Elasticsearch's client (its ``node_class``)."""
    base: Any = require("elastic_transport", "elastic", "the retriever elastic:").Urllib3HttpNode

    class BoundedNode(base):  # type: ignore[misc]
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            self.pool: Any = BoundedPool(self.pool)

    return BoundedNode


def opensearch_connection() -> Any:
    """Return the class of connections for OpenSearch's client (its ``connection_class``)."""
    base: Any = require("opensearchpy", "elastic", "the retriever opensearch:").Urllib3HttpConnection

    class BoundedConnection(base):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.pool: Any = BoundedPool(self.pool)

    return BoundedConnection


def httpx_hooks() -> dict[str, list[Any]]:
    """Return the hooks for Qdrant's client (``event_hooks`` of httpx)."""
    stream: Any = require("httpx", "qdrant", "the retriever qdrant:").SyncByteStream

    class BoundedStream(stream):  # type: ignore[misc]
        def __init__(self, whole: Any) -> None:
            self._whole = whole

        def __iter__(self) -> Iterator[bytes]:
            return within_limits(self._whole)

        def close(self) -> None:
            self._whole.close()

    def ask(request: Any) -> None:
        request.headers["accept-encoding"] = "identity"

    def bound(response: Any) -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise Excessive("the reply is packed, which was not asked for, so that its size cannot be limited")
        response.stream = BoundedStream(response.stream)

    return {"request": [ask], "response": [bound]}
