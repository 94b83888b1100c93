"""``polyhop serve``: its help, its errors and the end of a server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from polyhop import Passage
from polyhop.cli import main
from polyhop.common.extras import is_installed
from polyhop.common.progress import show_progress
from polyhop.data.corpora import open_corpus
from polyhop.errors import UsageError
from polyhop.serve import logs
from polyhop.serve.http.app import Options, listen, serve, url_of
from polyhop.serve.service import Service
from tests.serve.test_http import QUESTION, Model, events, until

OSLO = Passage("oslo", "Oslo", "Oslo is the capital of Norway.")
needs_serve = pytest.mark.skipif(not is_installed("serve"), reason="extra not installed: serve")


def run_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, str]:
    """The exit code of a command, and all it said."""
    monkeypatch.setattr(sys, "argv", ["polyhop", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out + said.err


def test_help_explains_corpora_and_access(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code, help = run_command(monkeypatch, capsys, "serve", "--help")
    assert code == 0
    for word in ("/v1/ask", "/v1/chat/completions", "/metrics", "--corpus", "--keys", "--without-keys", "--grace"):
        assert word in help


def test_a_missing_extra_gives_its_install_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    assert run_command(monkeypatch, capsys, "serve") == (
        2,
        "polyhop: polyhop serve needs an extra that is not installed: pip install 'polyhop[serve]'\n",
    )


@pytest.mark.extra
def test_a_tool_server_has_limits_of_its_clients_too(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mcp")
    given: list[Any] = []
    monkeypatch.setattr("polyhop.serve.mcp.run", lambda *arguments: given.extend(arguments))
    limits = ["--rate", "3", "--at-once", "2", "--most-bytes", "500"]
    monkeypatch.setattr(sys, "argv", ["polyhop", "mcp", "--transport", "http", "--port", "7", *limits])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    service, *address, options = given
    assert isinstance(service, Service)
    assert address == ["http", "127.0.0.1", 7]
    assert (options.per_minute, options.at_once, options.max_body_bytes) == (3, 2, 500)


@pytest.mark.extra
@needs_serve
@pytest.mark.parametrize(
    ("arguments", "taken"),
    [
        ([], True),
        (["--host", "localhost"], True),
        (["--no-uploads"], False),
        (["--host", "0.0.0.0", "--without-keys"], False),
        (["--allow-host", "wiki.example"], False),
        (["--host", "0.0.0.0", "--without-keys", "--allow-uploads"], True),
        (["--allow-host", "wiki.example", "--allow-uploads", "--max-uploads", "3", "--max-file-bytes", "9"], True),
    ],
)
def test_uploads_are_local_unless_allowed(monkeypatch: pytest.MonkeyPatch, arguments: list[str], taken: bool) -> None:
    given: list[Any] = []

    async def caught(*parts: Any) -> None:
        given.extend(parts)

    monkeypatch.setattr("polyhop.serve.http.app.serve", caught)
    monkeypatch.setattr(sys, "argv", ["polyhop", "serve", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    limits = given[0].uploads.limits
    assert (limits is not None) is taken
    if "--max-uploads" in arguments:
        assert (limits.corpora, limits.file_bytes, limits.files) == (3, 9, 2000)


@pytest.mark.extra
@needs_serve
def test_the_progress_of_a_long_start_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "polyhop.serve")
    monkeypatch.setattr(logs, "PROGRESS_SECONDS", 0.0)
    with show_progress(logs.log_progress):
        list(open_corpus([Passage(f"p{number}", "", "text") for number in range(2000)]).unique())
    facts = [record.facts for record in caplog.records]  # type: ignore[attr-defined]
    assert facts == [{"of": "passages", "done": done, "total": None} for done in (1000, 2000)]


def test_an_unusable_address_is_an_error() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        why = "Address already in use; choose another with --port"
        with pytest.raises(UsageError, match=f"cannot listen at 127.0.0.1 port {port}: {why}$"):
            listen("127.0.0.1", port)
    with pytest.raises(UsageError, match="cannot listen at no such host port 0"):
        listen("no such host", 0)
    assert url_of("127.0.0.1", 80) == "http://127.0.0.1:80"


@asynccontextmanager
async def held(
    caplog: pytest.LogCaptureFixture,
    lm: Model,
    *,
    guarded: Options | None = None,
    found: Passage = OSLO,
    **options: Any,
) -> AsyncIterator[tuple[aiohttp.ClientSession, asyncio.Future[None]]]:
    """A server that signals end, and a session of a client."""
    caplog.set_level(logging.INFO, "polyhop.serve")
    service = Service({"towns": None}, method="one-r", lm=lm, retriever=lambda query, k: [found], **options)
    serving = asyncio.ensure_future(serve(service, guarded or Options(), "127.0.0.1", 0))
    await until(lambda: serving.done() or any(record.getMessage() == "serving" for record in caplog.records))
    facts = next(record.facts for record in caplog.records if record.getMessage() == "serving")  # type: ignore[attr-defined]
    async with aiohttp.ClientSession(facts["url"]) as session:
        async with session.get("/ready") as response:  # its handlers of signals are there once it answers
            assert response.status == 200
        yield session, serving


async def ask(session: aiohttp.ClientSession) -> tuple[int, Any]:
    async with session.post("/v1/ask", json={"question": QUESTION}) as response:
        return response.status, await response.json()


@pytest.mark.extra
@needs_serve
@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_running_questions_finish(sign: signal.Signals, caplog: pytest.LogCaptureFixture) -> None:
    lm = Model(latency=0.5)
    async with held(caplog, lm) as (session, serving):
        asking = asyncio.ensure_future(ask(session))
        await until(lambda: lm.under_way)
        os.kill(os.getpid(), sign)
        status, answer = await asking
        assert (status, answer["answer"]) == (200, "Oslo")
        await serving
        with pytest.raises(aiohttp.ClientConnectionError):
            await ask(session)


@pytest.mark.extra
@needs_serve
async def test_questions_beyond_the_grace_are_abandoned(caplog: pytest.LogCaptureFixture) -> None:
    lm = Model(latency=60)
    async with held(caplog, lm, grace=0.05) as (session, serving):
        asking, watching = asyncio.ensure_future(ask(session)), asyncio.ensure_future(events(session))
        await until(lambda: lm.under_way == 2)
        os.kill(os.getpid(), signal.SIGTERM)
        status, answer = await asking
        assert (status, answer["error"]["type"]) == (503, "stopping")
        name, error = (await watching)[-1]
        assert (name, error["type"]) == ("error", "stopping")
        await serving
        assert lm.given_up == 2


@pytest.mark.extra
@needs_serve
async def test_a_client_that_takes_nothing_is_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    found = Passage("long", "Long", "word " * 2_000_000)
    async with held(caplog, Model(), guarded=Options(client_timeout=0.3), found=found) as (session, serving):
        url = session._base_url
        assert url is not None
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect((url.host, url.port))
            body = json.dumps({"question": QUESTION})
            head = "POST /v1/ask HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            slow.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            await until(lambda: any("/v1/ask" in str(getattr(record, "facts", "")) for record in caplog.records))
            await asyncio.sleep(0.5)
            assert await asyncio.to_thread(_taken, slow) < len(found.text)
        os.kill(os.getpid(), signal.SIGTERM)
        await serving


def _taken(connection: socket.socket) -> int:
    """Return the number of bytes that still come."""
    taken = 0
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(1 << 16):
            taken += len(part)
    return taken


@pytest.mark.extra
@needs_serve
async def test_the_command_serves_until_a_signal(tmp_path: Path) -> None:
    corpus = tmp_path / "towns.jsonl"
    corpus.write_text(json.dumps(OSLO.to_dict()) + "\n")
    arguments = ["-m", "polyhop", "serve", "--port", "0", "--method", "one-r", "--corpus", f"towns={corpus}"]
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stderr=subprocess.PIPE, cwd=tmp_path)
    assert process.stderr is not None
    try:
        lines = [await process.stderr.readline() for _ in range(2)]
        assert lines[0].startswith(b"pocket is a small trained reader with rules")
        serving = json.loads(lines[1])
        assert (serving["event"], serving["corpora"]) == ("serving", ["towns"])
        async with aiohttp.ClientSession(serving["url"]) as session:
            status, answer = await ask(session)
            assert (status, answer["corpus"], "pocket" in answer["notice"]) == (200, "towns", True)
        process.send_signal(signal.SIGTERM)
        said = await process.stderr.read()
        assert await process.wait() == 0
        assert [json.loads(line)["event"] for line in said.splitlines()] == [
            "answered",
            "request",
            "stopping",
            "stopped",
        ]
        assert QUESTION.encode() not in said
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
