"""Slow, cut, unread and endless requests over real sockets: each is cut off, and none holds up another or the end."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import platform
import signal
import socket
import time
import weakref
from contextlib import ExitStack, suppress
from copy import copy
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from polyhop import ScriptedLM
from polyhop.common.extras import is_installed
from polyhop.serve.errors import Busy
from polyhop.serve.http import app
from polyhop.serve.http.app import Options
from polyhop.serve.http.guard import Gate
from polyhop.serve.limits import SharedMemory
from polyhop.serve.service import Service
from tests.kit.openai_server import FakeServer
from tests.kit.polyhop_server import served
from tests.serve.test_cli import held
from tests.serve.test_http import OSLO, QUESTION, Model, until

pytestmark = [
    pytest.mark.extra,
    pytest.mark.skipif(not is_installed("serve"), reason="extra not installed: serve"),
]

BODY = json.dumps({"question": QUESTION}).encode()
HEAD = b"POST /v1/ask HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
PATIENCE = 60.0
"""Seconds, for a machine with much else to do."""


def connected(session: aiohttp.ClientSession) -> socket.socket:
    assert session._base_url is not None
    return socket.create_connection((session._base_url.host or "", session._base_url.port or 0), timeout=PATIENCE)


def rest(connection: socket.socket) -> bytes:
    """Return everything that comes until the server closes the connection."""
    parts = b""
    with suppress(ConnectionError):
        while part := connection.recv(1 << 16):
            parts += part
    return parts


@pytest.mark.parametrize("start", [b"", HEAD, b"GET /hea"], ids=["nothing", "a head without end", "a word"])
async def test_a_client_that_sends_no_whole_head_is_cut_off(start: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with held(caplog, Model(), guarded=Options(client_timeout=0.2)) as (session, serving):
        with connected(session) as slow:
            slow.sendall(start)
            assert await asyncio.to_thread(rest, slow) == b""
        os.kill(os.getpid(), signal.SIGTERM)
        await serving


async def test_a_client_that_goes_on_sending_is_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    async with held(caplog, Model(), guarded=Options(client_timeout=0.2)) as (session, serving):
        with connected(session) as endless:
            endless.sendall(HEAD + b"Content-Length: 1000000000000\r\n\r\n")

            def drip() -> None:
                with suppress(ConnectionError):
                    for _ in range(int(20 * PATIENCE)):
                        endless.sendall(b"x")
                        time.sleep(0.05)
                    raise AssertionError("it was never cut off")

            await asyncio.to_thread(drip)
        os.kill(os.getpid(), signal.SIGTERM)
        await serving


@pytest.mark.parametrize("line", [b"", b"Expect: 100-continue\r\n"], ids=["at once", "awaited"])
async def test_a_body_too_large_is_refused_before_it_comes(line: bytes) -> None:
    service = Service({"towns": None}, method="one-r", lm=Model(), retriever=lambda query, k: [OSLO])
    async with served(service) as url, aiohttp.ClientSession(url) as session:
        with connected(session) as large:
            large.sendall(HEAD + line + b"Content-Length: 1000000000000\r\n\r\n")
            assert (await asyncio.to_thread(large.recv, 1 << 16)).startswith(b"HTTP/1.1 413 ")


async def test_a_body_that_is_cut_reaches_no_method() -> None:
    lm = Model()
    service = Service({"towns": None}, method="one-r", lm=lm, retriever=lambda query, k: [OSLO])
    async with served(service) as url, aiohttp.ClientSession(url) as session:
        with connected(session) as cut:
            cut.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % (len(BODY) + 1) + BODY)
            await asyncio.sleep(0.05)
        await until(lambda: 'status="499"' in service.metrics.text())
    assert not lm.calls


@pytest.mark.parametrize("path", ["/v1/ask", "/v1/chat/completions"])
@pytest.mark.parametrize("stream", [False, True])
async def test_no_model_is_called_for_a_client_that_left(path: str, stream: bool) -> None:
    async with FakeServer("It is Oslo.", latency=0.2) as model:
        service = Service(
            {"towns": None},
            method="iter-retgen",
            lm=f"openai:tiny@{model.url}",
            cache=False,
            retriever=lambda query, k: [OSLO],
        )
        asked = {"question": QUESTION} if path == "/v1/ask" else {"messages": [{"role": "user", "content": QUESTION}]}
        async with served(service) as url, aiohttp.ClientSession(url) as session:

            async def ask() -> None:
                async with session.post(path, json={**asked, "stream": stream}) as response:
                    await response.read()

            asking = asyncio.ensure_future(ask())
            await asyncio.wait_for(model.until(1), PATIENCE)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            await until(lambda: "polyhop_questions_running 0" in service.metrics.text())
            calls = len(model.requests)
            await asyncio.sleep(0.3)
            assert len(model.requests) == calls == 1


async def test_stopping_leaves_no_client_hanging(caplog: pytest.LogCaptureFixture) -> None:
    lm = Model(latency=600)
    async with held(caplog, lm, grace=0.05) as (session, serving):
        with ExitStack() as opened:
            stream = json.dumps({"question": QUESTION, "stream": True}).encode()
            starts = {
                "nothing": b"",
                "head": HEAD,
                "body": HEAD + b"Content-Length: 1000\r\n\r\n{",
                "answer": HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY,
                "stream": HEAD + b"Content-Length: %d\r\n\r\n" % len(stream) + stream,
            }
            waiting = {kind: opened.enter_context(connected(session)) for kind in starts}
            for kind, connection in waiting.items():
                connection.sendall(starts[kind])
            await until(lambda: lm.under_way == 2)
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.wait_for(serving, PATIENCE)
            came = {kind: await asyncio.to_thread(rest, connection) for kind, connection in waiting.items()}
    assert came["nothing"] == came["head"] == came["body"] == b""
    assert came["answer"].startswith(b"HTTP/1.1 503 ")
    assert b'"stopping"' in came["answer"]
    assert b'event: error\ndata: {"type":"stopping"' in came["stream"]
    assert came["stream"].endswith(b"\r\n0\r\n\r\n")  # the last chunk: the stream is whole
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_many_requests_at_once_do_not_hold_up_health() -> None:
    began: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        began.append(scope["path"])

    async def whole() -> dict[str, Any]:
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def unheard(message: Any) -> None:
        raise AssertionError(message)

    gate = Gate(app)
    headers = [(b"content-type", b"application/json")]
    asked: dict[str, Any] = {"type": "http", "method": "POST", "path": "/v1/ask", "headers": headers}
    health: dict[str, Any] = {"type": "http", "method": "GET", "path": "/health", "headers": []}
    await asyncio.gather(*(gate(copy(scope), whole, unheard) for scope in [*[asked] * 100, health]))
    assert len(began) == 101
    assert began.index("/health") < 5


def test_requests_share_memory() -> None:
    memory = SharedMemory(10)
    with memory.taking() as take, memory.taking() as other:
        take(4)
        other(6)
        with pytest.raises(Busy, match="too large together"):
            take(1)
    assert memory.taken == 0
    with memory.taking() as take:
        take(10)


async def test_bodies_that_are_too_large_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyhop.serve.http.guard.MAX_BODIES_BYTES", 100)
    service = Service({"towns": None}, method="one-r", lm=ScriptedLM({}), retriever=lambda query, k: [OSLO])
    async with served(service, Options(max_body_bytes=100)) as url, aiohttp.ClientSession(url) as session:
        with connected(session) as holding:
            holding.sendall(HEAD + b"Content-Length: 99\r\n\r\n" + b"x" * 90)
            statuses = set()
            while 503 not in statuses:  # as soon as the other's bytes have come
                async with session.post(
                    "/v1/ask", data=b'{"question": 1}', headers={"Content-Type": "application/json"}
                ) as r:
                    statuses.add(r.status)
            assert statuses <= {422, 503}


async def test_closed_connections_are_freed_while_a_server_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Transport:
        def __init__(self) -> None:
            self.read = self.close  # a cycle, as in asyncio's own

        def close(self) -> None: ...

    monkeypatch.setattr(app, "_COLLECTION_SECONDS", 0.01)
    gc.disable()
    freeing = asyncio.ensure_future(app._free_closed_connections())
    try:
        await until(gc.get_freeze_count)
        closed = weakref.ref(Transport())
        assert closed() is not None
        await until(lambda: closed() is None)
    finally:
        gc.enable()
        freeing.cancel()
        await asyncio.wait([freeing])
    assert gc.get_freeze_count() == 0


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is asked to give memory back")
def test_freed_memory_is_given_back() -> None:
    blocks = [bytes(1_000) for _ in range(60_000)]
    kept = blocks[::100]  # free memory lies between them, so that the heap does not shrink by itself
    del blocks
    before = resident_bytes()
    app._trim_heap()
    assert resident_bytes() < before - 30_000_000
    assert len(kept) == 600


@pytest.mark.parametrize("library", [OSError, TypeError, object])
def test_another_c_library_is_left_alone(library: type, monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(name: None) -> object:
        if issubclass(library, Exception):
            raise library
        return library()

    monkeypatch.setattr("ctypes.CDLL", loaded)
    app._trim_heap()


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
