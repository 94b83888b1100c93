"""JSON over HTTP to one server: sessions, rate limits, retries. Knows nothing of the payload."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
import types
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import orjson

from polyhop.common.turns import waited
from polyhop.errors import SettingError
from polyhop.net.events import Event, events, is_stream
from polyhop.net.failures import (
    BadReply,
    CallError,
    Failure,
    backoff,
    embedded_error,
    from_exception,
    from_response,
    written,
)
from polyhop.net.limits import Limiter, Rates
from polyhop.redaction import register_credentials, register_secret, register_url

if TYPE_CHECKING:
    from aiohttp.client_reqrep import ConnectionKey
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

logger = logging.getLogger("polyhop.lm")
T = TypeVar("T")
MAX_RESPONSE_BYTES = 64 << 20
"""A larger reply is not read."""
_QUOTE = "; in a user or password write @ as %40, / as %2F, ? as %3F and # as %23"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Address:
    """A parsed base URL. ``redacted_url`` has no user, password, query or trailing slash; the secrets are registered.

    ``endings`` are the paths of the server's calls: they are removed if the URL of a call is given.
    """

    def __init__(self, url: str, endings: Sequence[str] = ("/chat/completions", "/completions")) -> None:
        register_url(url)
        try:
            parts = urlsplit(url.strip())
            host, _ = parts.hostname, parts.port
        except ValueError:
            raise SettingError(f"{url!r} is not a URL{_QUOTE if '@' in url else ''}") from None
        if parts.scheme not in ("http", "https") or not host:
            raise SettingError(f"{url!r} is not a server's URL: it must begin with http:// or https://")
        if "@" in parts.path + parts.query + parts.fragment:  # else a part of a password would be taken for the host
            raise SettingError(f"the URL of a server has an @ behind its name{_QUOTE}")
        path = parts.path.rstrip("/")
        for ending in endings:
            path = path.removesuffix(ending)
        self.host = host
        self.redacted_url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{path}"
        self.user = (
            register_credentials(unquote(parts.username), unquote(parts.password or "")) if parts.username else None
        )
        """The value of the Authorization header; None without a user."""
        self._query = f"?{parts.query}" if parts.query else ""

    def path(self, ending: str) -> str:
        """Return the URL of one of the server's calls."""
        return self.redacted_url + ending + self._query


@dataclass(frozen=True, slots=True)
class _LoopState:
    """The session and the limiter of one event loop."""

    session: aiohttp.ClientSession
    limiter: Limiter


class Server:
    """An HTTP server, called from any event loop: each loop has its own connections, all share the ``rates``.

    ``key`` is sent as a bearer token; ``headers`` hold keys too, and are as secret. ``retries`` is the number of
    attempts after the first; ``timeout`` is in seconds per attempt, the whole body included. A reply of more than
    ``max_response_bytes`` is not read. No redirect is followed, so that no key reaches another server. ``assemble``
    makes one JSON value of the events of a streamed reply; it raises ``BadReply`` for events that are no usable reply.
    """

    def __init__(
        self,
        address: Address,
        key: str | None,
        *,
        max_concurrency: int,
        rates: Rates | None,
        timeout: float,
        retries: int,
        headers: Mapping[str, str] | None = None,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        assemble: Callable[[Iterable[Event]], Any] | None = None,
    ) -> None:
        self.address, self.max_response_bytes, self._assemble = address, max_response_bytes, assemble
        self.max_concurrency, self.rates, self.timeout, self.retries = max_concurrency, rates, timeout, retries
        Limiter(max_concurrency)  # a wrong number is an error now, not at the first call
        register_secret(key, *(headers or {}).values())
        self._headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "polyhop"}
        if authorization := f"Bearer {key}" if key else address.user:
            self._headers["Authorization"] = authorization
        self._headers.update(headers or {})
        self._loops: dict[asyncio.AbstractEventLoop, _LoopState] = {}
        self._last: tuple[asyncio.AbstractEventLoop | None, _LoopState | None] = (None, None)
        self._reached = False
        weakref.finalize(self, _drop_all, self._loops)

    async def ask(
        self, url: str, body: bytes | None, read: Callable[[Any], T], tokens: int = 0, *, retries: int | None = None
    ) -> tuple[T, int]:
        """Return what ``read`` makes of the server's JSON, and the number of failed attempts.

        The body is posted; None means GET. ``read`` raises ``BadReply`` for JSON that is not a usable reply. A slot of
        the limiter is held while backing off, so that a struggling server gets fewer calls at once. ``tokens`` is the
        estimate for the rates. ``retries`` overrides the server's own number.

        Raises:
            CallError: no attempt is left, or another would not help.
        """
        max_retries = self.retries if retries is None else retries
        state = self._state()
        failures = 0
        started = time.monotonic()
        while True:
            async with state.limiter.slot(tokens) as slot:
                outcome = await self._attempt(state.session, url, body, read)
                if not isinstance(outcome, Failure):
                    value, slot.used = outcome
                    return value, failures
                if failures >= max_retries or not self._is_retryable(outcome):
                    raise CallError(outcome, failures + 1, time.monotonic() - started)
                wait = backoff(failures, outcome.retry_after)
                logger.info("%s: %s; trying again in %.1f s", self.address.redacted_url, outcome.description, wait)
                begun = asyncio.get_running_loop().time()
                await asyncio.sleep(wait)
                waited(begun)
            failures += 1

    async def get(self, url: str) -> Any:
        """Return the JSON at a URL, or None after any error or 5 seconds: for a diagnosis after a failure."""
        try:
            limit = aiohttp.ClientTimeout(total=5)
            async with self._state().session.get(url, timeout=limit, allow_redirects=False) as response:
                return orjson.loads(await response.read()) if response.status == 200 else None
        except (aiohttp.ClientError, OSError, ValueError):  # a timeout is an OSError
            return None

    async def aclose(self) -> None:
        """Close the connections of every loop: calls in flight fail. The server can be used again afterwards."""
        await self.close_loop()
        _drop_all(self._loops)

    async def close_loop(self) -> None:
        """Close the connections of the running loop, which is about to end."""
        state = self._loops.pop(asyncio.get_running_loop(), None)
        self._last = (None, None)
        if state is not None:
            await state.session.close()

    async def _attempt(
        self, session: aiohttp.ClientSession, url: str, body: bytes | None, read: Callable[[Any], T]
    ) -> tuple[T, int | None] | Failure:
        method = "GET" if body is None else "POST"
        try:
            async with session.request(method, url, data=body, allow_redirects=False) as response:
                raw = await _body(response, self.max_response_bytes)
        except _TooLarge:
            return Failure("fatal", f"the reply is larger than {self.max_response_bytes / 2**20:g} MiB")
        except (aiohttp.ClientError, OSError) as error:
            return from_exception(error, self.timeout)
        self._reached = True
        status = response.status
        if status != 200:
            return from_response(status, response.headers, raw)
        data: Any = None
        try:
            is_streamed = self._assemble is not None and is_stream(response.headers.get("Content-Type", ""), raw)
            data = self._assemble(events(raw)) if self._assemble and is_streamed else orjson.loads(raw)
            return read(data), _total_tokens(data)
        except orjson.JSONDecodeError:
            return Failure("retryable", "the reply was not JSON" if raw else "the reply was empty")
        except BadReply as error:
            if embedded := embedded_error(data):  # gateways answer 200 and put the error inside
                code = embedded.get("code") if isinstance(embedded, dict) else None
                status = code if isinstance(code, int) and 400 <= code < 600 else status
                return from_response(status, response.headers, written(data))
            return Failure(error.kind, str(error))
        except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
            return Failure("retryable", f"the reply is not in the API's shape ({type(error).__name__})")

    def _is_retryable(self, failure: Failure) -> bool:
        """True if another attempt may help. A server that was never reached is more likely absent than restarting."""
        return failure.kind == "retryable" or (failure.kind == "unreachable" and self._reached)

    def _state(self) -> _LoopState:
        loop = asyncio.get_running_loop()
        last_loop, state = self._last
        if last_loop is loop and state is not None:
            return state
        state = self._loops.get(loop)
        if state is None:
            for closed in [known for known in self._loops if known.is_closed()]:
                _drop(closed, self._loops.pop(closed))
            state = self._loops[loop] = _LoopState(self._session(), Limiter(self.max_concurrency, self.rates))
        self._last = (loop, state)
        return state

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=_Connector(limit=0, ttl_dns_cache=300),  # the limiter bounds the calls
            request_class=_EagerRequest if sys.version_info < (3, 12) else aiohttp.ClientRequest,
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=self.timeout, sock_connect=min(self.timeout, 15)),
            proxy=proxy_for(self.address),
        )


class _Connector(aiohttp.TCPConnector):
    """A connector that reuses a connection only if nothing came on it unasked: a reply sent twice, as overloaded
    gateways do, would be taken for the answer to the next call. (It overrides a private method of aiohttp.)"""

    async def _get(self, key: ConnectionKey, traces: list[Trace]) -> Connection | None:
        while (connection := await super()._get(key, traces)) is not None:
            if connection.protocol is not None and not connection.protocol.should_close:
                return connection
            connection.close()
        return None


class _EagerRequest(aiohttp.ClientRequest):
    """A request that is written when it is sent, as from Python 3.12 on. Otherwise it is written in the loop's next
    turn, and if many replies come together, no next request is sent until all of them have been read."""

    def write_bytes(self, *args: Any) -> Any:
        writing = super().write_bytes(*args)
        try:
            waits_for = writing.send(None)
        except StopIteration:
            return _nothing()
        return _rest(waits_for, writing)


async def _nothing() -> None:
    """Do nothing: all is written."""


@types.coroutine
def _rest(waits_for: Any, writing: Any) -> Any:
    """Run the rest of a coroutine that was started outside a task."""
    yield waits_for
    yield from writing


class _TooLarge(Exception):
    """A reply larger than ``max_response_bytes``."""


async def _body(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """Return the whole body, decompressed; raise ``_TooLarge`` as soon as it is known to be."""
    length = response.content_length
    if length is not None and length > max_bytes:
        raise _TooLarge
    if length is not None and "Content-Encoding" not in response.headers:
        return await response.read()
    pieces, size = [], 0
    async for piece in response.content.iter_any():
        pieces.append(piece)
        if (size := size + len(piece)) > max_bytes:
            raise _TooLarge
    return b"".join(pieces)


def _total_tokens(data: Any) -> int | None:
    usage = data.get("usage") if isinstance(data, dict) else None
    total = usage.get("total_tokens") if isinstance(usage, dict) else None
    return total if isinstance(total, int) else None


def proxy_for(address: Address) -> str | None:
    """Return the environment's proxy for this server; looked up once, because aiohttp would do it at every call."""
    if address.host in _LOOPBACK or proxy_bypass(address.host):
        return None
    proxy = getproxies().get(urlsplit(address.redacted_url).scheme)
    if proxy:
        register_url(proxy)
    return proxy


def _drop_all(loops: dict[asyncio.AbstractEventLoop, _LoopState]) -> None:
    while loops:
        _drop(*loops.popitem())


def _drop(loop: asyncio.AbstractEventLoop, state: _LoopState) -> None:
    """Close a session from outside its loop, which may be closed, running elsewhere, or stopped."""
    closing = state.session.close()
    if loop.is_closed():
        try:
            closing.send(None)  # on a closed loop there is nothing to wait for
        except StopIteration:
            return
    elif loop.is_running():
        asyncio.run_coroutine_threadsafe(closing, loop)
        return
    closing.close()
