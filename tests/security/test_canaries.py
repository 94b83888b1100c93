"""Canaries for keys and credentials: whatever a server does with them, none is shown, logged, sent on or kept."""

from __future__ import annotations

import asyncio
import html
import json
import logging
import sys
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

import orjson
import pytest

from polyhop import cli
from polyhop.common.aio import LoopThread
from polyhop.common.extras import is_installed
from polyhop.data.corpora import open_corpus
from polyhop.errors import PolyhopError
from polyhop.lm.names import open_lm
from polyhop.pipeline import Pipeline
from polyhop.redaction import PUBLIC, SHORTEST, redacted, register_credentials, register_secret, register_url
from polyhop.retrieval.engines import parse_address
from polyhop.retrieval.services.served import ServedRetriever
from polyhop.serve.logs import LOG, JsonLines
from polyhop.serve.service import Service
from polyhop.telemetry import traced
from polyhop.types import Passage

F = TypeVar("F", bound=Callable[..., object])

KEY, USER, PASSWORD, VALUE = "sk-CANARY+key/=1", "CANARYuser", 'CANARY p@ss/"w', "CANARY&value"
PAIR = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
CREDENTIALS = f"{USER}:{quote(PASSWORD, safe='')}@"
PARAMETER = f"key={quote(VALUE, safe='')}"

FAILURES = "refused 401 404 302 error text html encoded echo header cut closed late".split()


class Echo:
    """A raw server that repeats the whole request, credentials and all, in one way of failing."""

    def __init__(self, failure: str) -> None:
        self.failure = failure
        self.requests = 0

    async def start(self) -> str:
        """Listen; returns HOST:PORT."""
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        if self.failure == "refused":
            self._server.close()
        return f"127.0.0.1:{port}"

    async def stop(self) -> None:
        """Listen no more."""
        self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.requests += 1
            if self.failure == "late":
                await reader.read()
            writer.write(self._reply(head.decode()))
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _reply(self, head: str) -> bytes:
        match self.failure:
            case "401":
                return _http("401 Unauthorized", {"error": {"message": head}})
            case "404":
                if head.startswith("GET"):
                    return _http("200 OK", {"data": [{"id": head}, {"id": "tiny"}]})
                return _http("404 Not Found", {"error": {"message": head}})
            case "302":
                location = f"http://{CREDENTIALS}elsewhere/{quote(head)}?{PARAMETER}&{quote(head, safe='')}"
                return f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()
            case "error":
                return _http("200 OK", {"error": {"message": head, "code": 403}})
            case "text":
                return _http("403 Forbidden", head)
            case "html":
                return _http("403 Forbidden", f"<p>{html.escape(head)}</p>")
            case "encoded":
                words = f"{quote(head)} {quote_plus(head)} {quote(head, safe='').lower()} {head.encode()!r}"
                return _http("403 Forbidden", {"detail": words})
            case "header":
                return f"HTTP/1.1 200 OK\r\n{' '.join(head.split())}\r\n\r\n".encode()
            case "cut":
                return head[: max(head.find("CANARY"), 20) + 9].encode()
            case "closed":
                return b""
            case _:
                return head.encode()


def _http(status: str, body: Any) -> bytes:
    content = body.encode() if isinstance(body, str) else orjson.dumps(body)
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content


def needs(*extras: str) -> Callable[[F], F]:
    """Mark a test of an extra, which is skipped before its server starts if the extra is not is_installed."""
    missing = not all(map(is_installed, extras))

    def mark(test: F) -> F:
        marked: F = pytest.mark.extra(pytest.mark.skipif(missing, reason=f"needs {', '.join(extras)}")(test))
        return marked

    return mark


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyhop.net.client.backoff", lambda failures, asked: 0.0)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("RETRIEVER_API_KEY", KEY)


@pytest.fixture(params=FAILURES)
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    """HOST:PORT of a server that fails in one way."""
    thread, echo = LoopThread(), Echo(request.param)
    yield thread.run(echo.start())
    thread.run(echo.stop())
    thread.stop()
    assert bool(echo.requests) == (request.param != "refused")


@pytest.fixture(params=["key", "user"])
def url(request: pytest.FixtureRequest, server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of that server, with a parameter, and with credentials where there is no key."""
    if request.param == "user":
        monkeypatch.delenv("OPENAI_API_KEY")
        monkeypatch.delenv("RETRIEVER_API_KEY")
    return f"http://{CREDENTIALS if request.param == 'user' else ''}{server}/v1?{PARAMETER}"


def is_clean(*texts: str) -> bool:
    """Return True if no text has a canary, in any encoding."""
    encoded = (PAIR.rstrip("="), quote(PAIR, safe=""), json.dumps(PAIR)[1:-1])
    return not any("canary" in text.lower() or any(form in text for form in encoded) for text in texts)


def written(folder: Path) -> list[str]:
    """All that stands in a folder's files, and their names."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [str(path.relative_to(folder)) + path.read_bytes().decode(errors="replace") for path in files]


class Command:
    """The command line in this process: ``command("ask", …)`` gives the exit code, and checks all that was said."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        self._monkeypatch, self._capsys, self._folder = monkeypatch, capsys, folder

    def __call__(self, *arguments: str) -> int:
        self._monkeypatch.setattr(sys, "argv", ["polyhop", *arguments])
        code: Any = 0
        try:
            cli.main()
        except SystemExit as error:
            code = error.code
        self.said = "".join(self._capsys.readouterr())
        assert is_clean(self.said, *written(self._folder)), self.said
        assert "Traceback" not in self.said
        return int(code or 0)


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> Iterator[Command]:
    caplog.set_level(logging.DEBUG)
    yield Command(monkeypatch, capsys, tmp_path)
    assert is_clean(caplog.text)


# --- a server that repeats what it is sent ---------------------------------------------------------------------------


@pytest.mark.slow
def test_verbs_that_ask_a_model_tell_nothing(
    command: Command, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lm = f"openai:tiny@{url}"
    asked = ("--lm", lm, "--timeout", "0.05")
    assert command("ask", "Who?", "--method", "direct", *asked) == 2
    out = str(tmp_path / "run")
    assert command("run", "--dataset", "demo", "--method", "direct", "--limit", "1", "--out", out, *asked) == 2
    assert command("report", out, "--format", "html", "--out", str(tmp_path / "page.html")) == 0
    monkeypatch.setattr("polyhop.engine.parts.open_lm", partial(open_lm, timeout=0.05))
    assert command("doctor", "--json", "--lm", lm) == 2


@pytest.mark.slow
async def test_a_retriever_tells_nothing(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    retriever = ServedRetriever(url, timeout=0.05)
    with pytest.raises(PolyhopError) as caught:
        await retriever.asearch("Who?", 1)
    await retriever.aclose()
    assert is_clean(str(caught.value), repr(caught.value), repr(retriever), caplog.text)


@needs("elastic", "qdrant")
@pytest.mark.parametrize("engine", ["elastic:http://{}/wiki", "opensearch:http://{}/wiki", "qdrant:http://{}/wiki"])
def test_loading_an_engine_tells_nothing(
    command: Command, server: str, engine: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if "late" in request.node.name:
        monkeypatch.setattr("polyhop.retrieval.engines.elastic_wire.MAX_SECONDS", 0.05)
        monkeypatch.setattr("polyhop.retrieval.engines.qdrant.MAX_SECONDS", 1)
    monkeypatch.setattr("polyhop.retrieval.engines.base.backoff", lambda failures, asked: 0.0)
    monkeypatch.setenv("ELASTIC_API_KEY", KEY)
    monkeypatch.setenv("QDRANT_API_KEY", KEY)
    assert command("index", "load", "demo", engine.format(CREDENTIALS + server)) == 2


@asynccontextmanager
async def asked_service(url: str) -> AsyncIterator[Service]:
    service = Service({"demo": None}, method="direct", lm=f"openai:tiny@{url}", lm_options={"timeout": 0.05})
    try:
        yield service
    finally:
        await service.aclose()


@needs("serve")
async def test_the_server_tells_its_clients_nothing(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    import aiohttp

    from tests.kit.polyhop_server import served

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    LOG.addHandler(handler)
    try:
        async with asked_service(url) as service, served(service) as address, aiohttp.ClientSession() as session:
            for path, body in (
                ("/v1/ask", {"question": "Who?"}),
                ("/v1/chat/completions", {"model": "direct", "messages": [{"role": "user", "content": "Who?"}]}),
            ):
                async with session.post(address + path, json=body) as response:
                    text = await response.text()
                    assert response.status == 502
                    assert is_clean(text, str(response.headers)), text
    finally:
        LOG.removeHandler(handler)
    assert is_clean(*capsys.readouterr())


@needs("mcp")
async def test_the_tools_of_an_agent_tell_nothing(url: str) -> None:
    from mcp import Client

    from polyhop.serve.mcp import server as tools

    async with asked_service(url) as service, Client(tools(service)) as client:
        result = await client.call_tool("answer_question", {"question": "Who?"})
        assert result.is_error
        assert is_clean(result.model_dump_json())


@needs("otel")
async def test_spans_tell_nothing(url: str) -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter").InMemorySpanExporter()
    provider = sdk.TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(export.SimpleSpanProcessor(memory))
    async with Pipeline(method="direct", lm=f"openai:tiny@{url}", lm_options={"timeout": 0.05}) as pipeline:
        traced(pipeline, provider=provider, content=True)
        with pytest.raises(PolyhopError):
            await pipeline.aask("Who?")
    assert memory.get_finished_spans()
    assert is_clean(*(span.to_json() for span in memory.get_finished_spans()))


# --- a server that answers -------------------------------------------------------------------------------------------


@pytest.fixture
def answering() -> Iterator[str]:
    """HOST:PORT of a server whose model answers."""
    thread, echo = LoopThread(), Echo("")
    echo._reply = lambda head: _http("200 OK", {"choices": [{"message": {"content": "Answer: Rome"}}]})  # type: ignore[method-assign]
    yield thread.run(echo.start())
    thread.run(echo.stop())
    thread.stop()


def test_a_successful_call_shows_and_keeps_no_secret(command: Command, answering: str, tmp_path: Path) -> None:
    lm, out = f"openai:tiny@http://{CREDENTIALS}{answering}/v1?{PARAMETER}", str(tmp_path / "run")
    assert command("ask", "Who?", "--method", "direct", "--lm", lm, "--show", "trace") == 0
    assert command("ask", "Who?", "--method", "direct", "--lm", lm, "--json") == 0
    assert command("run", "--dataset", "demo", "--method", "direct", "--limit", "1", "--out", out, "--lm", lm) == 0
    for form in ("table", "html", "json", "csv"):
        assert command("report", out, "--format", form) == 0
    assert command("doctor", "--lm", lm) == 2  # one reply to everything: most cannot be read
    assert command("doctor", "--json", "--quick", "--lm", lm) == 0
    assert f"lm openai:tiny@http://***@{answering}/v1?key=***" in command.said


def test_a_name_of_the_callers_own_is_kept_redacted(command: Command, tmp_path: Path) -> None:
    import polyhop

    class Found:
        name = f"own:http://{CREDENTIALS}host/wiki?{PARAMETER}"

        def __call__(self, query: str, k: int) -> list[polyhop.Passage]:
            return [polyhop.Passage("p", "Title", "Text.")]

    lm = polyhop.ScriptedLM(lambda task, fields: "Rome")
    lm.name = f"own:http://{CREDENTIALS}host/v1?{PARAMETER}"
    polyhop.evaluate([polyhop.Question("q", "Who?")], method="one-r", lm=lm, retriever=Found(), out=tmp_path / "run")
    assert json.loads((tmp_path / "run" / "run.json").read_bytes())["lm"] == "own:http://***@host/v1?key=***"
    assert command("report", str(tmp_path / "run")) == 0


# --- addresses that are none -----------------------------------------------------------------------------------------

RAW = "CANARYuser:CANARYpw@host:80/v1?key=CANARY"
MALFORMED = (
    f"ftp://{RAW}",
    f"http//{RAW}",
    f"http:/{RAW}",
    f"http:{RAW}",
    f"//{RAW}",
    RAW,
    "CANARYtoken@host:80/v1?key=CANARY",
    "http://CANARYuser:CANARYpw@host:99999/v1?key=CANARY",
    "http://CANARYuser:CANARYpw@[::1/v1?key=CANARY",
    "http://CANARYuser:CANARYpw@:80/v1?key=CANARY",
    "http://u:CANARY/pw@host/v1?key=CANARY",
    "http://u:1/CANARY@host/v1?key=CANARY",
    "http://u:CANARY#pw@host/v1?key=CANARY",
    "http://u:CANARY?pw@host/v1?key=CANARY",
    "http://CANARY/token@host/v1?key=CANARY",
    "http://CANARY#token@host/v1",
    "http://CANARY?token@host/v1",
    "http://u:CANARY pw@host:x/v1?key=CANARY",
    "http://u:'CANARY'@host:x/v1?key=CANARY",
    "http://host:x/v1?CANARY",
    "http://host:x/v1?key=CANARY&token=CANARY.",
)


@pytest.mark.parametrize("address", MALFORMED)
def test_a_malformed_address_is_not_repeated(address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    named = f"openai:{address}" if "//" in address else f"openai:x:{address}"  # else what precedes @ is a model's name
    models = (f"openai:tiny@{address}", named, f"scripted:{address}", f"pocket:{address}", address)
    retrievers = (f"elastic:{address}", f"pgvector:{address}", f"dense:openai:tiny@{address}", f"dense:{address}")
    engines = (f"elastic:{address}", f"pgvector:{address}", f"qdrant:{address}#x?dense", f"postgres:{address}", address)
    passages = [Passage("1", "Title", "Text.")]
    openings: list[Callable[[], object]] = [
        *(partial(open_lm, name) for name in models),
        *(partial(Pipeline, passages, "one-r", retriever=name) for name in retrievers),
        *(partial(parse_address, name) for name in engines),
        partial(open_corpus, address),
        partial(open_lm, "openai:tiny"),
    ]
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    for opening in openings:
        try:
            said = repr(opening())
        except PolyhopError as error:
            said = f"{error} {error!r}"
        assert is_clean(said), said


@pytest.mark.parametrize("address", [MALFORMED[0], RAW])
def test_the_command_does_not_repeat_it(command: Command, address: str) -> None:
    assert command("ask", "Who?", address, "--method", "direct") == 2  # an argument too many
    assert command("ask", "Who?", "--method", "direct", "--lm", f"openai:tiny@{address}") == 2
    assert command("doctor", "--json", "--lm", f"scripted:{address}") == 2


# --- the function ----------------------------------------------------------------------------------------------------


def test_a_secret_is_known_in_every_encoding() -> None:
    secret = 'a"b\\c/d&é <ü>'
    register_secret(secret)
    forms = (secret, quote(secret), quote(secret, safe="").lower(), quote_plus(secret), html.escape(secret))
    for form in (*forms, json.dumps(secret)[1:-1], orjson.dumps(secret).decode()[1:-1], repr(secret)[1:-1]):
        assert redacted(f"x{form}y") == "x***y"


def test_what_is_short_or_public_is_masked_in_its_url_alone() -> None:
    register_url("http://elastic:tor@localhost:9200/wiki?k=5")
    register_credentials("postgres", "admin")
    assert SHORTEST == 5
    words = "elastic:, postgres: and tor with k=5 of the admin"
    assert redacted(words) == words
    assert {"elastic", "postgres", "admin"} <= PUBLIC
    assert redacted("http://elastic:tor@localhost:9200/wiki?k=5") == "http://***@localhost:9200/wiki?k=***"
    assert redacted(b64encode(b"elastic:tor").decode()) == redacted("elastic:tor") == "***"


@pytest.mark.parametrize(
    "text",
    [
        "openai:MODEL or openai:MODEL@URL",
        "openai:qwen2:7b@http://localhost:11434/v1",
        "openai:tiny@localhost:8000: a server's address begins with http://",
        "dense:vectors:/data/vectors.npy@openai:tiny@http://localhost:8000/v1",
        "elastic:http://localhost:9200/wiki?dense=intfloat/e5-base-v2&fusion=rrf",
        "http://localhost:8000/search?protocol=flashrag&timeout=2.5",
        "the passage https://example.org/@ada, by ada@example.org (is it http://example.org/x?)",
        "dense:models/e5?pooling=cls&max_tokens=64",
        "user and password come from PGUSER and PGPASSWORD",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redacted(text) == text


@pytest.mark.parametrize("address", MALFORMED)
def test_what_is_redacted_stays_as_it_is(address: str) -> None:
    once = redacted(f"{address!r}: {address}")
    assert redacted(once) == once


def test_another_thread_adds_and_takes_nothing_away() -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(register_secret, (f"secret-{number}" for number in range(200))))
    assert all(redacted(f"secret-{number}") == "***" for number in range(200))


def test_an_unexpected_error_of_the_command_is_printed_redacted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError(f"sent {KEY} to http://{CREDENTIALS}host")

    register_secret(KEY)
    monkeypatch.setattr("polyhop.cli.doctor.cache_folder", fail)
    monkeypatch.setattr(sys, "argv", ["polyhop", "doctor"])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 1
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert "sent *** to http://***@host" in said
