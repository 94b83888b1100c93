"""Sending JSON to one server: sessions, limits, retries; what the JSON says is no matter here."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import orjson

from polyhop.errors import SettingError
from polyhop.net import failures as troubles
from polyhop.net.failures import BadReply, Failed, Trouble
from polyhop.net.limits import Limiter, Rates
from polyhop.redaction import register_credentials, register_secret, register_url

if TYPE_CHECKING:
    from aiohttp.client_reqrep import ConnectionKey
    from aiohttp.connector import Connection
    from aiohttp.tracing import Trace

logger = logging.getLogger("polyhop.lm")
T = TypeVar("T")
LARGEST = 64 << 20
"""Bytes of the largest reply that is read."""
_QUOTE = "; in a user or password write @ as %40, / as %2F, ? as %3F and # as %23"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Address:
    """A base URL taken apart: ``shown`` has no user, password, query or trailing slash. The secrets are registered.

    ``endings`` are those of the server's calls, for one who gives the URL of a call.
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
        if "@" in parts.path + parts.query + parts.fragment:  # or else a part of a password is taken for a host's name
            raise SettingError(f"the URL of a server has an @ behind its name{_QUOTE}")
        path = parts.path.rstrip("/")
        for ending in endings:
            path = path.removesuffix(ending)
        place = parts.netloc.rpartition("@")[2]
        self.host = host
        self.shown = f"{parts.scheme}://{place}{path}"
        self.user = (
            register_credentials(unquote(parts.username), unquote(parts.password or "")) if parts.username else None
        )
        """The value of the header that says who asks."""
        self._query = f"?{parts.query}" if parts.query else ""

    def path(self, ending: str) -> str:
        """The URL of one of the server's calls."""
        return self.shown + ending + self._query


@dataclass(frozen=True, slots=True)
class _Link:
    """What one event loop needs of its own."""

    session: aiohttp.ClientSession
    limiter: Limiter


class Server:
    """A server reached over HTTP from any event loop: each has its own connections, all share the ``rates``.

    ``key`` is sent as a bearer token; ``headers`` are others that hold a key, and as secret. ``retries`` are the
    attempts after the first; ``timeout`` is seconds for one of them, the whole body included. A reply of more than
    ``largest`` bytes is not read. No redirect is followed: no key goes where it was not sent.
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
        largest: int = LARGEST,
    ) -> None:
        self.address, self.largest = address, largest
        self.max_concurrency, self.rates, self.timeout, self.retries = max_concurrency, rates, timeout, retries
        Limiter(max_concurrency)  # a wrong number is an error now, not at the first call
        register_secret(key, *(headers or {}).values())
        self._headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "polyhop"}
        if authorization := f"Bearer {key}" if key else address.user:
            self._headers["Authorization"] = authorization
        self._headers.update(headers or {})
        self._links: dict[asyncio.AbstractEventLoop, _Link] = {}
        self._last: tuple[asyncio.AbstractEventLoop | None, _Link | None] = (None, None)
        self._reached = False
        weakref.finalize(self, _drop_all, self._links)

    async def ask(
        self, url: str, body: bytes | None, read: Callable[[Any], T], tokens: int = 0, *, retries: int | None = None
    ) -> tuple[T, int]:
        """What ``read`` makes of the server's JSON, and how many attempts failed before; ``Failed`` when none is left.

        The body is posted; None asks by GET. ``read`` raises ``BadReply`` for JSON that is no reply. A place in the
        limiter is held while backing off: a server in trouble is asked by fewer calls at once. ``tokens`` is the
        estimate for the rates. ``retries`` is the server's own number where it is None.
        """
        most = self.retries if retries is None else retries
        link = self._link()
        failures = 0
        started = time.monotonic()
        while True:
            async with link.limiter.slot(tokens) as slot:
                outcome = await self._attempt(link.session, url, body, read)
                if not isinstance(outcome, Trouble):
                    value, slot.used = outcome
                    return value, failures
                if failures >= most or not self._passing(outcome):
                    raise Failed(outcome, failures + 1, time.monotonic() - started)
                wait = troubles.pause(failures, outcome.retry_after)
                logger.info("%s: %s; trying again in %.1f s", self.address.shown, outcome.what, wait)
                await asyncio.sleep(wait)
            failures += 1

    async def get(self, url: str) -> Any:
        """The JSON at a URL, or None: for a look around after a failure, so nothing is raised and little waited."""
        try:
            limit = aiohttp.ClientTimeout(total=5)
            async with self._link().session.get(url, timeout=limit, allow_redirects=False) as response:
                return orjson.loads(await response.read()) if response.status == 200 else None
        except (aiohttp.ClientError, OSError, ValueError):  # a timeout is an OSError
            return None

    async def aclose(self) -> None:
        """Close the connections, in every loop: calls still under way fail. The server can be used again after."""
        await self.leave()
        _drop_all(self._links)

    async def leave(self) -> None:
        """Close the connections of this loop, which is about to end."""
        here = self._links.pop(asyncio.get_running_loop(), None)
        self._last = (None, None)
        if here is not None:
            await here.session.close()

    async def _attempt(
        self, session: aiohttp.ClientSession, url: str, body: bytes | None, read: Callable[[Any], T]
    ) -> tuple[T, int | None] | Trouble:
        method = "GET" if body is None else "POST"
        try:
            async with session.request(method, url, data=body, allow_redirects=False) as response:
                raw = await _body(response, self.largest)
        except _TooLarge:
            return Trouble("final", f"the reply is larger than {self.largest / 2**20:g} MiB")
        except (aiohttp.ClientError, OSError) as error:
            return troubles.from_exception(error, self.timeout)
        self._reached = True
        status = response.status
        if status != 200:
            return troubles.from_response(status, response.headers, raw)
        try:
            data = orjson.loads(raw)
            return read(data), _total_tokens(data)
        except orjson.JSONDecodeError:
            return Trouble("passing", "the reply was not JSON" if raw else "the reply was empty")
        except BadReply as problem:
            if isinstance(data, dict) and data.get("error"):  # gateways answer 200 and put the error inside
                code = data["error"].get("code") if isinstance(data["error"], dict) else None
                status = code if isinstance(code, int) and 400 <= code < 600 else status
                return troubles.from_response(status, response.headers, raw)
            return Trouble(problem.meaning, str(problem))
        except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as problem:
            return Trouble("passing", f"the reply is not in the API's shape ({type(problem).__name__})")

    def _passing(self, trouble: Trouble) -> bool:
        """Whether to try again; a server never reached is more likely not there than restarting."""
        return trouble.meaning == "passing" or (trouble.meaning == "unreachable" and self._reached)

    def _link(self) -> _Link:
        loop = asyncio.get_running_loop()
        last_loop, link = self._last
        if last_loop is loop and link is not None:
            return link
        link = self._links.get(loop)
        if link is None:
            for closed in [other for other in self._links if other.is_closed()]:
                _drop(closed, self._links.pop(closed))
            link = self._links[loop] = _Link(self._session(), Limiter(self.max_concurrency, self.rates))
        self._last = (loop, link)
        return link

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=_Connector(limit=0, ttl_dns_cache=300),  # the limiter bounds the calls
            request_class=_AtOnce if sys.version_info < (3, 12) else aiohttp.ClientRequest,
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=self.timeout, sock_connect=min(self.timeout, 15)),
            proxy=proxy_for(self.address),
        )


class _Connector(aiohttp.TCPConnector):
    """Connections that are used again only while nothing has come on them unasked: a reply sent twice, as gateways in
    trouble do, would be taken for the answer to the next question."""

    async def _get(self, key: ConnectionKey, traces: list[Trace]) -> Connection | None:
        while (found := await super()._get(key, traces)) is not None:
            if found.protocol is not None and not found.protocol.should_close:
                return found
            found.close()
        return None


class _AtOnce(aiohttp.ClientRequest):
    """A request that is written when it is sent, as it is from Python 3.12 on. Else it is written in the loop's next
    turn, and where many replies come together, no next request is under way before all of them have been read."""

    def write_bytes(self, *args: Any) -> Any:
        writing = super().write_bytes(*args)
        try:
            waits_for = writing.send(None)
        except StopIteration:
            return _nothing()
        return _rest(waits_for, writing)


async def _nothing() -> None:
    """All is written."""


@types.coroutine
def _rest(waits_for: Any, writing: Any) -> Any:
    """What is left of a coroutine that was begun outside a task."""
    yield waits_for
    yield from writing


class _TooLarge(Exception):
    """A reply of more bytes than are read."""


async def _body(response: aiohttp.ClientResponse, most: int) -> bytes:
    """The whole body, decompressed; ``_TooLarge`` as soon as it is known to be."""
    length = response.content_length
    if length is not None and length > most:
        raise _TooLarge
    if length is not None and "Content-Encoding" not in response.headers:
        return await response.read()
    pieces, size = [], 0
    async for piece in response.content.iter_any():
        pieces.append(piece)
        if (size := size + len(piece)) > most:
            raise _TooLarge
    return b"".join(pieces)


def _total_tokens(data: Any) -> int | None:
    usage = data.get("usage") if isinstance(data, dict) else None
    total = usage.get("total_tokens") if isinstance(usage, dict) else None
    return total if isinstance(total, int) else None


def proxy_for(address: Address) -> str | None:
    """The proxy the environment names for this server; looked up once, for aiohttp would do it at every call."""
    if address.host in _LOOPBACK or proxy_bypass(address.host):
        return None
    proxy = getproxies().get(urlsplit(address.shown).scheme)
    if proxy:
        register_url(proxy)
    return proxy


def _drop_all(links: dict[asyncio.AbstractEventLoop, _Link]) -> None:
    while links:
        _drop(*links.popitem())


def _drop(loop: asyncio.AbstractEventLoop, link: _Link) -> None:
    """Close a session from outside its loop, which may be closed, running elsewhere, or standing still."""
    closing = link.session.close()
    if loop.is_closed():
        try:
            closing.send(None)  # on a closed loop there is nothing to wait for
        except StopIteration:
            return
    elif loop.is_running():
        asyncio.run_coroutine_threadsafe(closing, loop)
        return
    closing.close()
