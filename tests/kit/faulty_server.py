"""Faults drawn by seed, over real HTTP or on a virtual clock: a server that fails one request in five.

``FaultyServer`` is the kit's server. The fault of a request depends on the seed, the request and the number of earlier
attempts, so that two runs meet the same faults in any order of requests. ``client_of`` makes polyhop's client for it:
over real HTTP or, with ``virtual``, with its sessions replaced by ``Wire``, which needs no network and waits on the
loop's own clock. The rest of the client (retries, limits, parsing) is real.

    server = FaultyServer(world.script, seed=7)
    async with Pipeline(method="tor", lm=client_of(server, virtual=True), …) as qa: …
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import orjson
from aiohttp import web

from polyhop.lm.base import Completion, Request
from polyhop.lm.openai import OpenAICompatible
from polyhop.net.failures import Failure
from tests.kit import openai_server as kit
from tests.kit.openai_server import FakeServer, Fault, Reply
from tests.kit.virtual_clock import VirtualLoop

JUMP = 3600.0
"""Seconds that the clock jumps, as after a machine was asleep."""

PASSING: dict[str, Fault] = {
    "429": kit.failing(429),
    "429, wait 2 s": kit.failing(429, headers={"Retry-After": "2"}),
    "429, wait 20 ms": kit.failing(429, headers={"retry-after-ms": "20"}),
    "429, a clock behind": kit.failing(429, headers={"Retry-After": "Thu, 01 Jan 1970 00:00:10 GMT"}),
    "429, a clock ahead": kit.failing(429, headers={"Retry-After": "Fri, 31 Dec 2100 00:00:00 GMT"}),
    "500": kit.failing(500),
    "502": Fault(status=502, body=b"<html>Bad gateway</html>"),
    "hang": kit.HANG,
    "drip": kit.DRIP,
    "reset": kit.RESET,
    "cut": kit.CUT,
    "drop": kit.DROP,
    "truncated JSON": kit.CUT_JSON,
    "empty body": kit.EMPTY_BODY,
    "empty choices": kit.EMPTY_CHOICES,
    "wrong shape": kit.WRONG_SHAPE,
}
"""Faults that another attempt may avoid."""

HARMLESS: dict[str, Fault] = {"twice": kit.TWICE, "clock jump": Fault()}
"""Faults that fail no attempt. The clock jumps on a virtual loop alone."""

CONTENT: dict[str, Fault] = {
    "wrong schema": Fault(),
    "content filter": Fault(),
    "prompt filtered": Fault(status=400, body=kit.error_body("It was filtered.", code="content_filter")),
}
"""Unusable answers; those without a body are made for the request."""

Script = Callable[[str, Mapping[str, Any]], "Mapping[str, Any] | str"]


class FaultyServer(FakeServer):
    """The kit's server, answering by ``script`` (task, fields) and failing a ``share`` of the requests by ``kinds``.

    Answers take up to ``late`` seconds, drawn like the faults: they come in another order than they were asked for.
    ``met`` counts what went wrong.
    """

    def __init__(
        self,
        script: Script,
        *,
        seed: int = 0,
        share: float = 0.2,
        kinds: Mapping[str, Fault] = PASSING,
        late: float = 0.0,
    ) -> None:
        super().__init__(self._scripted)
        self.seed, self.share, self.kinds, self.late = seed, share, kinds, late
        self.asked: dict[str, Request] = {}
        self.met: Counter[str] = Counter()
        self._script = script
        self._came_before: Counter[bytes] = Counter()

    @property
    def chats(self) -> int:
        """The number of requests for an answer, failed ones included."""
        return sum(request.path == "/v1/chat/completions" for request in self.requests)

    def _scripted(self, body: Mapping[str, Any]) -> str:
        if "user" not in body:
            return kit.TEXT  # a request for scores: what is generated besides is no matter
        request = self.asked[body["user"]]
        reply = self._script(request.task, request.fields)
        return reply if isinstance(reply, str) else orjson.dumps(dict(reply), default=str).decode()

    async def _fault(self, body: Mapping[str, Any]) -> Fault | None:
        key = orjson.dumps(body)
        self._came_before[key] += 1
        roll = _rolls(self.seed, key, self._came_before[key])
        if self.late:
            await asyncio.sleep(self.late * roll[0])
        if roll[1] >= self.share:
            return None
        names = self._kinds_for(body)
        if not names:
            return None
        name = names[int(roll[2] * len(names))]
        self.met[name] += 1
        loop = asyncio.get_running_loop()
        if name == "clock jump":
            if isinstance(loop, VirtualLoop):
                loop.jump(JUMP)
            return None
        if name == "wrong schema":
            return Fault(body=self._chat(body, Reply(text='{"surprise": [1, 2]}')))
        if name == "content filter":
            return Fault(body=self._chat(body, Reply(text="", finish_reason="content_filter")))
        return self.kinds[name]

    def _kinds_for(self, body: Mapping[str, Any]) -> list[str]:
        """The names of the faults that a request may meet: scores have no content."""
        return [name for name in self.kinds if "user" in body or name in PASSING]

    async def _trouble(
        self, request: web.BaseRequest, fault: Fault, answer: bytes, kind: str = "application/json"
    ) -> web.StreamResponse:
        if not isinstance(cast(object, request), _Sent):
            return await super()._trouble(request, fault, answer, kind)
        match fault.wire:
            case "hang":
                await asyncio.Event().wait()
            case "drip":
                await asyncio.sleep(self.drip * len(answer))
            case "reset":
                raise aiohttp.ClientOSError(errno.ECONNRESET, "Connection reset by peer")
            case "cut":
                raise aiohttp.ClientPayloadError("Response payload is not completed")
            case "drop":
                raise aiohttp.ServerDisconnectedError
        return web.Response(body=answer)


class Client(OpenAICompatible):
    """polyhop's client, which passes task and fields to the server.

    ``answered`` counts the replies by request. ``sent`` has the body of every attempt and ``failed`` counts the failed
    ones, as the client saw them: where it waits no longer, a busy server may never see the request.
    """

    def __init__(self, server: FaultyServer, *, virtual: bool, **settings: Any) -> None:
        super().__init__("tiny", server.url or "http://127.0.0.1:9/v1", **settings)
        self.answered: Counter[str] = Counter()
        self.sent: list[Mapping[str, Any]] = []
        self.failed = 0
        self._faulty, self._attempt = server, self._server._attempt
        self._server._attempt = self._counted  # type: ignore[method-assign]
        if virtual:
            self._server._session = lambda: cast(aiohttp.ClientSession, Wire(server, self._server.timeout))  # type: ignore[method-assign]

    async def complete(self, request: Request) -> Completion:
        reply = await super().complete(request)
        self.answered[named(request)] += 1
        return reply

    async def _counted(
        self, session: aiohttp.ClientSession, url: str, body: bytes | None, read: Callable[[Any], Any]
    ) -> tuple[Any, int | None] | Failure:
        if body is not None:
            self.sent.append(orjson.loads(body))
        outcome = await self._attempt(session, url, body, read)
        self.failed += isinstance(outcome, Failure)
        return outcome

    def _payload(self, request: Request) -> dict[str, Any]:
        self._faulty.asked[named(request)] = request
        return {**super()._payload(request), "user": named(request)}


def client_of(server: FaultyServer, *, virtual: bool = False, **settings: Any) -> Client:
    """A client of the server, ``virtual`` or over HTTP; ``settings`` are ``OpenAICompatible``'s."""
    return Client(server, virtual=virtual, **settings)


def named(request: Request) -> str:
    """A request's name, the same in every run: task, prompt and sample."""
    return f"{request.task} {request.digest()} {request.sample}"


class Wire:
    """Replaces a session: requests reach the server without a network, and fail as they would in one."""

    def __init__(self, server: FakeServer, timeout: float, headers: Mapping[str, str] | None = None) -> None:
        self._server, self._timeout, self._headers = server, timeout, headers or {}

    @asynccontextmanager
    async def request(self, method: str, url: str, *, data: bytes | None, allow_redirects: bool) -> AsyncIterator[_Got]:
        parts = urlsplit(url)
        sent = cast(web.BaseRequest, _Sent(parts.path, data or b"", self._headers, dict(parse_qsl(parts.query))))
        async with asyncio.timeout(self._timeout):
            response = await self._server._answer(sent)
        assert isinstance(response, web.Response)
        assert isinstance(response.body, bytes)
        yield _Got(response.status, dict(response.headers), response.body)

    def get(self, url: str, *, timeout: object, allow_redirects: bool) -> AbstractAsyncContextManager[_Got]:
        return self.request("GET", url, data=b"", allow_redirects=allow_redirects)

    async def close(self) -> None:
        """Close nothing."""


@dataclass
class _Sent:
    """A request as the server sees it."""

    path: str
    data: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    query_string: str = ""

    async def read(self) -> bytes:
        return self.data


@dataclass
class _Got:
    """A response as the client sees it."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def content_length(self) -> int:
        return len(self.body)

    async def read(self) -> bytes:
        return self.body


def _rolls(seed: int, key: bytes, time: int) -> list[float]:
    """Return three numbers in [0, 1) that depend on all three arguments."""
    digest = hashlib.blake2b(b"%d %d " % (seed, time) + key, digest_size=24).digest()
    return [int.from_bytes(digest[at : at + 8], "big") / 2**64 for at in (0, 8, 16)]
