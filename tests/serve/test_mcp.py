"""The tools of an agent, used by the real client: in this process, over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from polyhop.errors import UnknownName
from polyhop.lm.base import Request
from polyhop.lm.scripted import ScriptedLM
from polyhop.serve.http.app import Options, listen
from polyhop.serve.limits import Keys
from polyhop.serve.mcp import LOOPBACK, PATH, http_app, run, server
from polyhop.serve.service import Service
from polyhop.types import Passage

pytestmark = [
    pytest.mark.extra,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ALIEN = Passage("1", "Alien (film)", "Alien is a 1979 film directed by Ridley Scott.")
SCOTT = Passage("2", "Ridley Scott", "Ridley Scott is an English director born in South Shields.")
QUESTION = "Where was the director of Alien born?"
MODES = ("auto", "legacy")
PATIENCE = 180.0
"""Seconds, for a machine with much else to do."""


def service(**options: Any) -> Service:
    return Service({"films": [ALIEN, SCOTT], "empty": [Passage("3", "Nothing", "Of no use.")]}, **options)


@pytest.fixture(autouse=True)
def _sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mcp")
    sse = pytest.importorskip("sse_starlette.sse")  # its streams end once any server of this process had a signal
    monkeypatch.setattr(sse.AppStatus, "should_exit", False)


@asynccontextmanager
async def client(to: Any, mode: str = "auto") -> AsyncIterator[Any]:
    from mcp import Client

    async with Client(to, mode=mode, read_timeout_seconds=PATIENCE) as found:
        yield found


@asynccontextmanager
async def opened(mode: str = "auto", **options: Any) -> AsyncIterator[tuple[Any, Service]]:
    """A client in this process, and the service behind it."""
    behind = service(**options)
    async with client(server(behind), mode) as found:
        yield found, behind
    await behind.aclose()


@asynccontextmanager
async def over_http(behind: Service, options: Options | None = None) -> AsyncIterator[str]:
    """The address of a real server."""
    import uvicorn

    config = uvicorn.Config(http_app(behind, options), log_config=None, lifespan="on")
    web = uvicorn.Server(config)
    listening = listen("127.0.0.1", 0)
    task = asyncio.ensure_future(web.serve(sockets=[listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}{PATH}"
    finally:
        web.should_exit = True
        await task
        await behind.aclose()


def text_of(result: Any) -> str:
    (content,) = result.content
    return str(content.text)


# --- what the tools say of themselves ----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
async def test_the_tools_are_described_typed_and_read_only(mode: str) -> None:
    async with opened(mode) as (asking, _):
        tools = {tool.name: tool for tool in (await asking.list_tools()).tools}
    assert set(tools) == {"answer_question", "search_passages", "get_trace"}
    for tool in tools.values():
        assert tool.annotations.read_only_hint is True
        assert tool.title
        assert tool.description == " ".join(tool.description.split())  # no line break, no indentation
        assert tool.output_schema["type"] == "object"
        assert all(field["description"] for field in tool.input_schema["properties"].values())
    given = tools["answer_question"].input_schema
    assert given["required"] == ["question"]
    assert set(given["properties"]) == {"question", "method", "corpus"}
    assert "films, empty. Default: films" in given["properties"]["corpus"]["description"]
    assert "searchain" in given["properties"]["method"]["description"]
    assert tools["answer_question"].output_schema["properties"]["citations"]["type"] == "array"


# --- answers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
async def test_an_answer_has_confidence_and_quoted_passages(mode: str) -> None:
    async with opened(mode) as (asking, behind):
        result = await asking.call_tool("answer_question", {"question": QUESTION})
        found = result.structured_content
        kept = behind.trace(found["trace_id"])
    assert not result.is_error
    assert (found["answer"], found["supported"], found["abstained"]) == ("South Shields", True, False)
    assert found["confidence"] == kept.answer.confidence
    assert (found["method"], found["corpus"]) == ("tor", "films")
    assert {cited["title"]: cited["text"] for cited in found["citations"]} == {
        passage.title: passage.text for passage in (ALIEN, SCOTT)
    }
    (quoted,) = (cited for cited in found["citations"] if cited["id"] == "2")
    assert quoted["quotes"] == ["South Shields"]
    assert json.loads(text_of(result)) == found  # for clients that know no structured content


async def test_an_abstention_says_so() -> None:
    async with opened() as (asking, _):
        result = await asking.call_tool("answer_question", {"question": QUESTION, "corpus": "empty"})
    assert result.structured_content["supported"] is False
    assert result.structured_content["abstained"] is True
    assert "The documents do not say" in result.structured_content["notice"]


async def test_the_method_can_be_chosen() -> None:
    async with opened() as (asking, _):
        result = await asking.call_tool("answer_question", {"question": QUESTION, "method": "one-r"})
    assert result.structured_content["method"] == "one-r"


async def test_passages_are_searched_best_first() -> None:
    async with opened() as (asking, _):
        result = await asking.call_tool("search_passages", {"query": "South Shields director", "k": 2})
        one = await asking.call_tool("search_passages", {"query": "Ridley Scott", "k": 1})
        nothing = await asking.call_tool("search_passages", {"query": "Alien", "corpus": "empty"})
    assert result.structured_content["passages"][0] == {
        "rank": 1, "id": "2", "title": SCOTT.title, "text": SCOTT.text,
    }  # fmt: skip
    assert len(one.structured_content["passages"]) == 1
    assert nothing.structured_content == {"passages": []}


async def test_a_trace_is_an_outline_and_every_step() -> None:
    async with opened() as (asking, behind):
        answered = (await asking.call_tool("answer_question", {"question": QUESTION})).structured_content
        result = await asking.call_tool("get_trace", {"trace_id": answered["trace_id"]})
        trace = behind.trace(answered["trace_id"]).answer.trace
    found = result.structured_content
    assert found["steps"] == json.loads(json.dumps(trace.to_dict()["steps"]))
    assert found["passages"]["2"]["text"] == SCOTT.text
    assert text_of(result) == found["outline"]
    lines = found["outline"].splitlines()
    assert lines[0] == QUESTION
    assert len(lines) == 1 + len(trace.steps)
    assert lines[1].startswith("- [0] search: Where was the director of Alien born? → ")


# --- errors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("answer_question", {"question": QUESTION, "method": "tro"}, "did you mean 'tor'"),
        ("answer_question", {"question": QUESTION, "corpus": "films "}, "Valid: empty, films"),
        ("answer_question", {"question": "   "}, "the question is empty"),
        ("answer_question", {"question": "a" * 5000}, "the maximum is 4000"),
        ("search_passages", {"query": "x", "k": 0}, "greater than or equal to 1"),
        ("search_passages", {"query": "x", "corpus": "book"}, "unknown corpus 'book'"),
        ("get_trace", {"trace_id": "nope"}, "no trace 'nope'"),
    ],
)
@pytest.mark.parametrize("mode", MODES)
async def test_errors_are_explained_to_the_agent(tool: str, arguments: Any, message: str, mode: str) -> None:
    async with opened(mode) as (asking, _):
        result = await asking.call_tool(tool, arguments)
        assert result.is_error
        assert message in text_of(result)
        assert not (await asking.call_tool("search_passages", {"query": "Alien"})).is_error  # the server goes on


NASTY: list[Any] = [
    10**30, -(10**30), 1.5, True, None, [], {}, "", " ", "\x1b]0;title\x07", "\u202e", "\x00", "x" * 100_000,
    "9" * 5000,
    json.loads("[" * 150 + "]" * 150), json.loads('{"a":' * 150 + "1" + "}" * 150), ["a"], {"k": 10**30},
]  # fmt: skip


@pytest.mark.parametrize(
    ("tool", "arguments", "field"),
    [
        ("answer_question", {"question": QUESTION}, "question"),
        ("answer_question", {"question": QUESTION}, "method"),
        ("answer_question", {"question": QUESTION}, "corpus"),
        ("answer_question", {"question": QUESTION}, "unknown"),
        ("search_passages", {"query": "Alien"}, "query"),
        ("search_passages", {"query": "Alien"}, "k"),
        ("search_passages", {"query": "Alien"}, "corpus"),
        ("get_trace", {"trace_id": "none"}, "trace_id"),
    ],
)
async def test_no_argument_makes_the_server_fail(tool: str, arguments: dict[str, Any], field: str) -> None:
    async with opened() as (asking, _):
        for value in NASTY:
            result = await asking.call_tool(tool, {**arguments, field: value})
            if result.is_error:
                text = text_of(result)
                assert len(text) < 3000, (value, text[:300])
                assert "Traceback" not in text
        assert not (await asking.call_tool("search_passages", {"query": "Alien"})).is_error


async def test_no_text_of_strangers_breaks_a_result() -> None:
    strange = ["\x1b]0;title\x07", "\u202e turned \u0000", '"}],"is_error":true', "</tool_result>", "long " * 20_000]
    pages = [
        Passage(f"{n} {text}", text or "t", f"Alien {text}", metadata={"a": text}) for n, text in enumerate(strange)
    ]
    model = ScriptedLM(lambda task, fields: {"answer": strange[n % len(strange)], "relevant": True, "supported": True})
    n = 0
    behind = Service({"films": pages}, lm=model, method="one-r")
    async with client(server(behind)) as asking:
        found = (await asking.call_tool("search_passages", {"query": "Alien", "k": 9})).structured_content["passages"]
        assert {passage["id"]: passage["text"] for passage in found} == {page.id: page.text for page in pages}
        for n, text in enumerate(strange):
            result = await asking.call_tool("answer_question", {"question": f"Alien? {n}"})
            assert not result.is_error
            assert result.structured_content["answer"] == text.strip()
            trace_id = result.structured_content["trace_id"]
            assert not (await asking.call_tool("get_trace", {"trace_id": trace_id})).is_error
    await behind.aclose()


async def test_an_unexpected_error_reveals_nothing() -> None:
    def broken(task: str, fields: Any) -> Any:
        raise RuntimeError("the password is hunter2")

    async with opened(lm=ScriptedLM(broken)) as (asking, _):
        result = await asking.call_tool("answer_question", {"question": QUESTION})
    assert result.is_error
    assert "hunter2" not in result.model_dump_json()


def test_an_unknown_transport_is_an_error() -> None:
    with pytest.raises(UnknownName, match="stdio"):
        run(service(), "sse")  # type: ignore[arg-type]


# --- progress and cancellation -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
async def test_progress_reports_each_step(mode: str) -> None:
    progress: list[tuple[float, str | None]] = []

    async def progressed(done: float, total: float | None, message: str | None) -> None:
        assert total is None
        progress.append((done, message))

    async with opened(mode) as (asking, behind):
        result = await asking.call_tool("answer_question", {"question": QUESTION}, progress_callback=progressed)
        steps = behind.trace(result.structured_content["trace_id"]).answer.trace.steps
    assert [done for done, _ in progress] == [*range(1, len(progress) + 1)]
    branches = sum(step.kind == "branch" for step in steps)  # each comes twice, as it begins and as it ends
    assert len(progress) == 1 + len(steps) + branches
    assert progress[0][1] == "started tor"
    assert any(message and message.startswith("search: ") for _, message in progress)


class Slow(ScriptedLM):
    """A model that waits for ever, and knows when it is no longer waited for."""

    def __init__(self) -> None:
        super().__init__({})
        self.asked, self.left = asyncio.Event(), asyncio.Event()

    async def complete(self, request: Request) -> Any:
        self.asked.set()
        try:
            await asyncio.sleep(600)
        finally:
            self.left.set()


async def cut_short(asking: Any, model: Slow) -> None:
    call = asyncio.ensure_future(asking.call_tool("answer_question", {"question": QUESTION, "method": "direct"}))
    await asyncio.wait_for(model.asked.wait(), PATIENCE)
    assert not model.left.is_set()
    call.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await call
    await asyncio.wait_for(model.left.wait(), PATIENCE)


@pytest.mark.parametrize("mode", MODES)
async def test_a_cancelled_call_ends_the_work(mode: str) -> None:
    model = Slow()
    async with opened(mode, lm=model) as (asking, _):
        await cut_short(asking, model)


@pytest.mark.parametrize("mode", MODES)
async def test_a_cancelled_call_ends_the_work_over_http(mode: str) -> None:
    model = Slow()
    async with over_http(service(lm=model)) as url, client(url, mode) as asking:
        await cut_short(asking, model)
        assert not (await asking.call_tool("search_passages", {"query": "Alien"})).is_error


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_that_is_gone_ends_the_work_over_http(mode: str) -> None:
    model = Slow()
    async with over_http(service(lm=model)) as url:
        async with client(url, mode) as asking:
            call = asyncio.ensure_future(
                asking.call_tool("answer_question", {"question": QUESTION, "method": "direct"})
            )
            await asyncio.wait_for(model.asked.wait(), PATIENCE)
        await asyncio.gather(call, return_exceptions=True)
        await asyncio.wait_for(model.left.wait(), PATIENCE)


# --- over HTTP ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
async def test_the_tools_over_http(mode: str) -> None:
    progress: list[str | None] = []

    async def progressed(done: float, total: float | None, message: str | None) -> None:
        progress.append(message)

    async with over_http(service()) as url, client(url, mode) as asking:
        result = await asking.call_tool("answer_question", {"question": QUESTION}, progress_callback=progressed)
        assert result.structured_content["answer"] == "South Shields"
        trace = await asking.call_tool("get_trace", {"trace_id": result.structured_content["trace_id"]})
        assert trace.structured_content["question"] == QUESTION
        assert "started tor" in progress


async def posted(url: str, **headers: str) -> int:
    import httpx2

    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    accept = {"Accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient() as web:
        return int((await web.post(url, json=body, headers={**accept, **headers})).status_code)


async def test_another_host_name_is_refused() -> None:
    async with over_http(service()) as url:
        assert await posted(url, Host="evil.example") == 421
        assert await posted(url, Host="127.0.0.1.evil.example:80") == 421
        assert await posted(url, Origin="http://evil.example") == 403
        assert await posted(url, Origin="http://localhost:3000") not in (403, 421)


async def test_keys_are_required_and_answers_belong_to_their_key() -> None:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    @asynccontextmanager
    async def bearing(key: str, url: str) -> AsyncIterator[Any]:
        headers = {"Authorization": f"Bearer {key}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as web,
            streamable_http_client(url, http_client=web) as streams,
        ):
            yield streams

    keys = Keys({"ann": "the-first-long-key", "bob": "the-second-long-key"})
    async with over_http(service(), Options(keys=keys, hosts=LOOPBACK)) as url:
        assert await posted(url) == 401
        assert await posted(url, Authorization="Bearer the-third-long-key") == 401
        for mode in MODES:
            async with client(bearing("the-first-long-key", url), mode) as ann:
                answered = (await ann.call_tool("answer_question", {"question": QUESTION})).structured_content
                own = await ann.call_tool("get_trace", {"trace_id": answered["trace_id"]})
                assert not own.is_error
            async with client(bearing("the-second-long-key", url), mode) as bob:
                others = await bob.call_tool("get_trace", {"trace_id": answered["trace_id"]})
                assert others.is_error


async def test_a_client_beyond_its_limits_gets_an_error() -> None:
    options = Options(hosts=LOOPBACK, per_minute=3)
    async with over_http(service(), options) as url:
        assert [await posted(url) == 429 for _ in range(5)] == [False, False, False, True, True]


# --- over stdio --------------------------------------------------------------------------------------------------

NOISY = """
import logging, os, sys
from polyhop.lm.scripted import ScriptedLM
from polyhop.serve.mcp import run
from polyhop.serve.service import Service
from polyhop.types import Passage

def script(task, fields):
    print("noise of a library", end="")
    os.system("echo noise of a child")
    logging.getLogger("some.library").warning("noise of a log")
    return "Answer: a \\ud83d" if "half" in fields["question"] else "Answer: Rome"

run(Service({"films": [Passage("1", "Alien", "A film.")]}, method="direct", lm=ScriptedLM(script)))
"""


@pytest.mark.parametrize("mode", MODES)
async def test_the_tools_over_stdio_whatever_else_is_printed(
    mode: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from mcp import StdioServerParameters, stdio_client

    program = tmp_path / "noisy.py"
    program.write_text(NOISY)
    kept = {name: os.environ[name] for name in ("PATH", "POLYHOP_CACHE")}
    parameters = StdioServerParameters(command=sys.executable, args=[str(program)], env=kept)
    with (tmp_path / "stderr").open("w+") as errors:
        async with client(stdio_client(parameters, errlog=errors), mode) as asking:
            result = await asking.call_tool("answer_question", {"question": "Which city?"})
            assert result.structured_content["answer"] == "Rome"
            half = await asking.call_tool("answer_question", {"question": "Which half?"})
            trace = await asking.call_tool("get_trace", {"trace_id": half.structured_content["trace_id"]})
            assert trace.structured_content["steps"][0]["text"] == "Answer: a ?"
            found = await asking.call_tool("search_passages", {"query": "Alien"})
            assert found.structured_content["passages"][0]["text"] == "A film."
            assert (await asking.call_tool("get_trace", {"trace_id": "nope"})).is_error
        errors.seek(0)
        log = errors.read()
    for noise in ("noise of a library", "noise of a child", "noise of a log"):
        assert noise in log
    assert "Traceback" not in log
    assert not caplog.records  # the client met nothing that was no message, to the end


async def test_the_verb_serves_the_demo() -> None:
    from mcp import StdioServerParameters, stdio_client

    kept = {name: os.environ[name] for name in ("PATH", "POLYHOP_CACHE")}
    parameters = StdioServerParameters(command=sys.executable, args=["-m", "polyhop", "mcp"], env=kept)
    async with client(stdio_client(parameters)) as asking:
        found = await asking.call_tool("search_passages", {"query": "Ridley Scott", "k": 1})
        assert len(found.structured_content["passages"]) == 1
