"""ASGI middleware before the app: ``Gate`` admits or refuses requests, ``RequestLog`` counts and logs them."""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, TypeAlias

from polyhop.common.text import counted
from polyhop.errors import PolyhopError
from polyhop.serve.errors import ClientGone, NotAllowed, NoUploads
from polyhop.serve.http.errors import RequestError, error_response, headers_of
from polyhop.serve.http.replies import encoded
from polyhop.serve.limits import CLIENT, ClientLimits, Keys, SharedMemory
from polyhop.serve.logs import LOG, REQUEST
from polyhop.serve.metrics import Metrics

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

OPEN = frozenset({"/", "/health", "/ready", "/openapi.json", "/docs", "/favicon.ico"})
"""Paths that need no key, as the page's files under ``/static/`` do not: they reveal nothing."""

SAFE = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; font-src 'self'; "
    b"img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", SAFE),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
QUIET = frozenset({"/health", "/ready", "/metrics"})
"""Paths that are requested too often to be logged."""

UPLOADS = "/v1/corpora"
"""The path that takes files. Their body is passed on as it arrives, and never in memory as a whole."""

MIN_UPLOAD_PACE = 16_384
"""Minimum bytes per second of an upload, on average and after ``client_timeout``."""

MAX_BODIES_BYTES = 64 << 20
"""Maximum size of all bodies in memory, unless a single one may be larger."""

_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Gate:
    """Admit or refuse a request by its host, key, body and client's limits.

    ``hosts``: host names that a request may use, None for any. On the loopback they stop DNS rebinding: a page of
    another site cannot reach the server under another name. A page of another site may change nothing, unless
    ``origins`` names it. The body has at most ``max_body_bytes`` and must arrive within ``client_timeout`` seconds; all
    bodies together have at most ``MAX_BODIES_BYTES``. An upload has at most ``max_upload_bytes``, and each of its parts
    must arrive in that time. One request begins in a round of the event loop, so that many at once do not delay those
    that are under way.
    """

    app: App
    keys: Keys | None = None
    hosts: frozenset[str] | None = None
    origins: tuple[str, ...] = ()
    clients: ClientLimits = field(default_factory=ClientLimits)
    max_body_bytes: int = 1_000_000
    max_upload_bytes: int = 0
    client_timeout: float = 30.0
    _memory: SharedMemory = field(init=False)
    _turnstile: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_memory", SharedMemory(max(MAX_BODIES_BYTES, self.max_body_bytes)))

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        try:
            self._check_host(headers)
            self._check_origin(scope["method"], headers)
            name = self._client(scope, headers)
            asking = scope["method"] == "POST"
            limits = self.clients.admitted(name or _address(scope)) if asking else nullcontext()
            with limits, self._memory.taking() as take:
                if asking and scope["path"] == UPLOADS:
                    receive = self._passed_on(headers, receive)
                elif asking:
                    receive = await self._whole(headers, receive, take)
                if scope["path"] not in QUIET:
                    async with self._turnstile:
                        await asyncio.sleep(0)
                token = CLIENT.set(name)
                try:
                    await self.app(scope, receive, send)
                finally:
                    CLIENT.reset(token)
        except PolyhopError as error:  # the app handles its own errors
            status, content = error_response(error)
            await _answer(send, status, content, headers_of(error))

    def _check_host(self, headers: dict[bytes, bytes]) -> None:
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name = host.rpartition(":")[0] if re.search(r":\d*$", host) else host
        if self.hosts is not None and name not in self.hosts:
            raise RequestError(
                421, "wrong_host", f"this server does not answer to {name!r}; allow the name with --allow-host"
            )

    def _check_origin(self, method: str, headers: dict[bytes, bytes]) -> None:
        """Refuse what a page of another site sends. A form with files needs no permission of the server to be sent, and
        a browser names its site in these headers. Source: Valsorda, "Cross-Site Request Forgery", 2025, as Go's
        ``http.CrossOriginProtection`` does it."""
        origin, site = (headers.get(name, b"").decode("latin-1") for name in (b"origin", b"sec-fetch-site"))
        if method in ("GET", "HEAD", "OPTIONS") or origin in self.origins or "*" in self.origins:
            return
        host = headers.get(b"host", b"").decode("latin-1")
        if site in ("same-origin", "none") if site else not origin or origin.partition("://")[2] == host:
            return
        raise RequestError(
            403, "cross_site", f"a page of {origin or 'another site'} may not do this; allow it with --allow-origin"
        )

    def _client(self, scope: Message, headers: dict[bytes, bytes]) -> str:
        """Return the name of the request's key; "" if none is needed."""
        path = scope["path"]
        if self.keys is None or path in OPEN or path.startswith("/static/"):
            return ""
        scheme, _, bearer = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        key = bearer.strip() if scheme.lower() == "bearer" else headers.get(b"x-api-key", b"").decode("latin-1")
        name = self.keys.holder(key)
        if name is None:
            wrong = "is not known here" if key else "is needed"
            raise NotAllowed(f"an API key {wrong}: send Authorization: Bearer KEY")
        return name

    async def _whole(self, headers: dict[bytes, bytes], receive: Receive, take: Callable[[int], None]) -> Receive:
        """Read the body to its end. Return a ``receive`` that gives the app the body, then later messages."""
        if not headers.get(b"content-type", b"").lower().startswith(b"application/json"):
            raise RequestError(
                415, "unsupported_media_type", "the body must be JSON: send Content-Type: application/json"
            )
        self._check_size(int(headers.get(b"content-length", b"0")), self.max_body_bytes)  # surely a number
        try:
            async with asyncio.timeout(self.client_timeout):
                content = await self._read(receive, take)
        except TimeoutError:
            raise self._too_slow() from None
        waiting: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

        async def following() -> Message:
            return waiting.pop() if waiting else await receive()

        return following

    async def _read(self, receive: Receive, take: Callable[[int], None]) -> bytes:
        parts, size = [], 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientGone("the client disconnected before its body was whole")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            self._check_size(size, self.max_body_bytes)
            take(len(parts[-1]))
            if not message.get("more_body"):
                return b"".join(parts)

    def _passed_on(self, headers: dict[bytes, bytes], receive: Receive) -> Receive:
        """Return a ``receive`` that gives the app the body of an upload as it arrives, within its limits."""
        if not self.max_upload_bytes:
            raise NoUploads("this server takes no uploads; its owner may allow them with --allow-uploads")
        if not headers.get(b"content-type", b"").lower().startswith(b"multipart/form-data"):
            raise RequestError(
                415, "unsupported_media_type", "an upload must be a form with files: send multipart/form-data"
            )
        self._check_size(int(headers.get(b"content-length", b"0")), self.max_upload_bytes)
        began, size, is_whole = monotonic(), 0, False

        async def following() -> Message:
            nonlocal size, is_whole
            if is_whole:
                return await receive()
            try:
                async with asyncio.timeout(self.client_timeout):
                    message = await receive()
            except TimeoutError:
                raise self._too_slow() from None
            size += len(message.get("body", b""))
            is_whole = not message.get("more_body")
            self._check_size(size, self.max_upload_bytes)
            if not is_whole and size < MIN_UPLOAD_PACE * (monotonic() - began - self.client_timeout):
                raise self._too_slow()
            return message

        return following

    def _too_slow(self) -> RequestError:
        return RequestError(
            408, "too_slow", f"the body did not arrive within {counted(self.client_timeout, 'seconds')}"
        )

    def _check_size(self, size: int, limit: int) -> None:
        if size > limit:
            raise RequestError(413, "too_large", f"the body is larger than {counted(limit, 'bytes')}")


@dataclass(frozen=True, slots=True)
class RequestLog:
    """Give every request an id and every response its security headers; count and log the outcome. A client that reads
    nothing of its response for ``client_timeout`` seconds is disconnected."""

    app: App
    metrics: Metrics
    client_timeout: float = 60.0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        request = given if _ID.fullmatch(given) else secrets.token_hex(8)
        began, status = monotonic(), 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = {name.lower() for name, _ in message["headers"]}  # a response may have its own policy
                usual = (line for line in (*HEADERS, (b"x-request-id", request.encode())) if line[0] not in own)
                message["headers"] = [*message["headers"], *usual]
            try:
                async with asyncio.timeout(self.client_timeout):
                    await send(message)
            except TimeoutError:
                raise OSError("the client does not read its response") from None

        token = REQUEST.set(request)
        try:
            await self.app(scope, receive, watched)
        except Exception as error:  # noqa: BLE001 - the last chance to report it
            code, content = error_response(error)
            if not status:
                await _answer(watched, code, content)
        finally:
            self.metrics.responded(status)
            if scope["path"] not in QUIET:
                facts = {"method": scope["method"], "path": scope["path"], "status": status}
                LOG.info("request", extra={"facts": facts | {"seconds": round(monotonic() - began, 4)}})
            REQUEST.reset(token)


def _address(scope: Message) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


async def _answer(send: Send, status: int, content: Any, headers: Mapping[str, str] | None = None) -> None:
    text = encoded(content)
    usual = {"content-type": "application/json", "content-length": str(len(text)), "cache-control": "no-store"}
    lines = [(name.lower().encode(), value.encode()) for name, value in {**usual, **(headers or {})}.items()]
    await send({"type": "http.response.start", "status": status, "headers": lines})
    await send({"type": "http.response.body", "body": text})
