"""The native HTTP interface and its guard, over a real socket."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from polyhop import Passage, ScriptedLM
from polyhop.common.extras import is_installed
from polyhop.errors import LMError
from polyhop.lm.base import Completion, Request
from polyhop.serve.http import replies
from polyhop.serve.http.app import Options, listen
from polyhop.serve.limits import Keys
from polyhop.serve.service import Service
from tests.kit.polyhop_server import served

pytestmark = [
    pytest.mark.extra,
    pytest.mark.skipif(not is_installed("serve"), reason="extra not installed: serve"),
]

OSLO = Passage("oslo", "Oslo", "Oslo is the capital of Norway.")
QUESTION = "What is the capital of Norway?"
ANN, BEN = "ann-has-this-key-1", "ben-has-this-key-2"
KEYED = Options(keys=Keys({"ann": ANN, "ben": BEN}))


class Model(ScriptedLM):
    """Says ``reply`` after ``latency`` seconds; knows how many calls are under way and were given up."""

    def __init__(self, reply: Any = None, latency: float = 0.0) -> None:
        super().__init__(lambda task, fields: reply or {"answer": "Oslo"}, latency=latency)
        self.under_way = self.given_up = 0

    async def complete(self, request: Request) -> Completion:
        self.under_way += 1
        try:
            return await super().complete(request)
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        finally:
            self.under_way -= 1


@asynccontextmanager
async def client(
    lm: Model | None = None, options: Options | None = None, **arguments: Any
) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of a server that answers by ``one-r``; its session's paths are the server's."""
    arguments = {"retriever": lambda query, k: [OSLO], "method": "one-r", **arguments}
    service = Service({"towns": None}, lm=lm or Model(), **arguments)
    async with served(service, *filter(None, [options])) as url, aiohttp.ClientSession(url) as session:
        yield session


async def ask(session: aiohttp.ClientSession, path: str = "/v1/ask", **body: Any) -> tuple[int, Any]:
    async with session.post(path, json={"question": QUESTION, **body} if path == "/v1/ask" else body) as response:
        return response.status, await response.json()


async def get(session: aiohttp.ClientSession, path: str, **arguments: Any) -> tuple[int, Any]:
    async with session.get(path, **arguments) as response:
        return response.status, await response.json()


async def events(session: aiohttp.ClientSession, **body: Any) -> list[tuple[str, Any]]:
    async with session.post("/v1/ask", json={"question": QUESTION, "stream": True, **body}) as response:
        assert response.content_type == "text/event-stream"
        blocks = (await response.text()).strip().split("\n\n")
    lines = [block.split("\n") for block in blocks if not block.startswith(":")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in lines]


async def until(happened: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not happened():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.005)


# --- asking ----------------------------------------------------------------------------------------------------------


async def test_an_answer_its_trace_and_its_prompts() -> None:
    lm = Model()
    async with client(lm) as session:
        status, answer = await ask(session, settings={"k": 1})
        assert status == 200
        assert (answer["answer"], answer["method"], answer["corpus"]) == ("Oslo", "one-r", "towns")
        assert answer["passages"] == [{**OSLO.to_dict(), "cited": True, "read": True}]
        assert {"confidence", "supported", "abstained", "evidence", "citations", "statistics", "usage"} < set(answer)
        _, kept = await get(session, f"/v1/traces/{answer['trace_id']}")
        assert (kept["question"], kept["settings"]["k"], kept["answer"]) == (QUESTION, 1, answer)
        steps = kept["trace"]["steps"]
        assert [step["kind"] for step in steps] == ["search", "ask"]
        assert kept["trace"]["passages"]["oslo"] == OSLO.to_dict()
        _, prompt = await get(session, f"/v1/traces/{answer['trace_id']}/steps/1/prompt")
        assert prompt["messages"] == lm.calls[0].messages
        _, latest = await get(session, "/v1/traces")
        assert [(row["trace_id"], row["question"], row["answer"]) for row in latest["traces"]] == [
            (answer["trace_id"], QUESTION, "Oslo")
        ]


async def test_a_stream_names_each_passage_once_before_the_step_it_is_in() -> None:
    async with client() as session:
        received = await events(session, method="resp", settings={"max_iterations": 2})
        names = [name for name, _ in received]
        assert (names[0], names[-1]) == ("start", "answer")
        assert names.count("passages") == 1
        assert received[names.index("passages")][1] == {"oslo": OSLO.to_dict()}
        first = next(at for at, (name, data) in enumerate(received) if name == "step" and data.get("passages"))
        assert first == names.index("passages") + 1
        branches = [data for name, data in received if name == "step" and data["kind"] == "branch"]
        assert branches[0]["verdict"] is None
        assert {data["id"] for data in branches if data["verdict"]} == {branch["id"] for branch in branches}
        assert received[0][1]["trace_id"] == received[-1][1]["trace_id"]
        assert received[0][1]["settings"]["max_iterations"] == 2
        async with session.post(
            "/v1/ask", json={"question": QUESTION}, headers={"Accept": "text/event-stream"}
        ) as response:
            assert (await response.text()).startswith("event: start\n")


async def test_search_methods_and_corpora() -> None:
    async with client() as session:
        assert await ask(session, "/v1/search", query="capital") == (200, {"passages": [{"rank": 1, **OSLO.to_dict()}]})
        assert await get(session, "/v1/corpora") == (200, {"default": "towns", "corpora": ["towns"], "uploads": None})
        facts: dict[str, Any] = {"corpus": "towns", "passages": None, "files": None, "titles": [], "questions": []}
        facts["left_out"] = facts["guesses"] = []
        assert await get(session, "/v1/corpora/towns") == (200, facts)
        status, content = await get(session, "/v1/corpora/nowhere/%2e")
        assert (status, content["error"]["type"]) == (404, "not_found")
        _, content = await get(session, "/v1/methods")
        assert content["default"] == "one-r"
        one = next(method for method in content["methods"] if method["name"] == "tor")
        assert {"paper", "family", "summary", "settings"} < set(one)
        fields = {field["name"]: field for field in one["fields"]}
        assert set(fields) == set(one["settings"])
        assert fields["widths"]["meaning"] == "depth 3, nodes per layer (§4.4)"
        assert fields["shots"]["meaning"] == "demonstrations per prompt (§4.4)"
        kinds = {"widths": "text", "shots": "number", "thoughts": "switch", "query": "choice", "early_stop": "text"}
        assert {name: fields[name]["kind"] for name in kinds} == kinds
        promptrank = next(method for method in content["methods"] if method["name"] == "promptrank")
        files = set(promptrank["settings"]) - {field["name"] for field in promptrank["fields"]}
        assert files == {"instructions_from", "demos_from"}, "a client names no file"
        assert (await get(session, "/health"))[0] == 200
        assert await get(session, "/ready") == (200, {"status": "ready"})


WRONG: list[tuple[dict[str, Any], int, str]] = [
    ({"question": ""}, 422, "question: "),
    ({"question": " "}, 400, "the question is empty"),
    ({"question": "half \ud83d"}, 422, "question: "),
    ({"metod": "tor"}, 422, "metod: "),
    ({"method": "one-rr"}, 400, "did you mean 'one-r'"),
    ({"corpus": "rivers"}, 400, "Valid: towns"),
    ({"kind": "quiz"}, 422, "kind: "),
    ({"settings": {"k": "many"}}, 400, "k='many'"),
    ({"settings": {"half \ud83d": 1}}, 400, "unknown setting of one-r"),
    ({"max_calls": 0}, 422, "max_calls: "),
    ({"question": "x" * 5000}, 400, "has 5,000 characters"),
]


async def test_wrong_use_has_one_error_form() -> None:
    async with client() as session:
        for body, status, said in WRONG:
            for stream in (False, True):
                found, answer = await ask(session, **{**body, "stream": stream})
                assert (found, answer["error"]["type"]) == (status, "invalid_request"), body
                assert said in answer["error"]["message"]


async def test_a_failure_has_its_own_status_or_event() -> None:
    async with client(Model(reply=LMError("no such model at the server"))) as session:
        status, content = await ask(session)
        assert (status, content["error"]["type"]) == (502, "upstream")
        name, error = (await events(session))[-1]
        assert (name, error) == ("error", {"type": "upstream", "message": "no such model at the server"})
    async with client(Model(latency=30), timeout=0.05) as session:
        status, content = await ask(session)
        assert (status, content["error"]["type"]) == (504, "out_of_time")
    async with client(Model(reply=ZeroDivisionError("a secret"))) as session:
        status, content = await ask(session)
        assert (status, content["error"]["type"]) == (500, "internal")
        assert "secret" not in str(content)
        assert "secret" not in str((await events(session))[-1])
    async with client() as session:
        for path in ("/v1/traces/none", "/v1/nothing", "/static/none.js", "/static/../service.py"):
            status, content = await get(session, path)
            assert (status, content["error"]["type"]) == (404, "not_found")
        assert (await get(session, "/v1/nothing"))[1]["error"]["message"].startswith("nothing found at /v1/nothing;")
        async with session.delete("/v1/ask") as response:
            error = (await response.json())["error"]
            assert (response.status, error["type"]) == (405, "method_not_allowed")
            assert error["message"] == "/v1/ask takes POST, not DELETE"


# --- clients that leave, or are slow ---------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
async def test_the_work_ends_when_the_client_leaves(stream: bool) -> None:
    lm = Model(latency=60)
    async with client(lm) as session:
        asking = asyncio.ensure_future(ask(session, stream=stream))
        await until(lambda: lm.under_way)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await until(lambda: not lm.under_way)
        assert lm.given_up == 1


async def test_an_idle_stream_is_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies, "KEEP_ALIVE_SECONDS", 0.02)
    async with (
        client(Model(latency=0.3)) as session,
        session.post("/v1/ask", json={"question": QUESTION, "stream": True}) as response,
    ):
        assert ": at work\n\n" in await response.text()


async def test_a_client_that_does_not_read_is_disconnected_and_blocks_nobody() -> None:
    long = Passage("long", "Long", "word " * 400_000)
    options = Options(client_timeout=0.5)
    async with client(options=options, retriever=lambda query, k: [long], concurrency=1) as session:
        host, port = str(session._base_url.host), int(session._base_url.port or 0)  # type: ignore[union-attr]
        slow = socket.socket()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect((host, port))
        body = json.dumps({"question": QUESTION, "stream": True}).encode()
        head = "POST /v1/ask HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        slow.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await asyncio.sleep(0.1)
        async with asyncio.timeout(60):
            assert (await ask(session))[1]["answer"] == "Oslo"
            metrics = ""
            while 'polyhop_questions_total{method="one-r"' not in metrics or "_running 0" not in metrics:
                async with session.get("/metrics") as response:
                    metrics = await response.text()
        slow.close()


# --- who may come ----------------------------------------------------------------------------------------------------


async def test_a_key_is_needed_for_everything_private() -> None:
    async with client(options=KEYED) as session:
        for path in ("/v1/traces", "/v1/methods", "/v1/models", "/v1/runs", "/metrics", "/nothing"):
            status, content = await get(session, path)
            assert (status, content["error"]["type"]) == (401, "not_allowed")
        assert (await ask(session))[0] == 401
        for path in ("/health", "/ready", "/", "/openapi.json", "/static/js/app.js"):
            async with session.get(path) as response:
                assert response.status == 200
        for headers in ({"Authorization": "Bearer wrong-key-for-this"}, {"X-API-Key": "x"}, {"Authorization": ANN}):
            status, content = await get(session, "/v1/corpora", headers=headers)
            assert status == 401
            assert not any(value in str(content) for value in headers.values())
        for headers in ({"Authorization": f"bearer {ANN}"}, {"X-API-Key": ANN}):
            assert (await get(session, "/v1/corpora", headers=headers))[0] == 200


async def test_a_key_sees_its_own_answers_only() -> None:
    async with client(options=KEYED) as session:
        session.headers["Authorization"] = f"Bearer {ANN}"
        _, answer = await ask(session)
        path = f"/v1/traces/{answer['trace_id']}"
        assert (await get(session, path))[0] == 200
        other = {"Authorization": f"Bearer {BEN}"}
        assert (await get(session, path, headers=other))[0] == 404
        assert await get(session, "/v1/traces", headers=other) == (200, {"traces": []})


async def test_a_client_has_its_rate() -> None:
    async with client(options=Options(per_minute=2)) as session:
        assert [(await ask(session))[0] for _ in range(2)] == [200, 200]
        async with session.post("/v1/ask", json={"question": QUESTION}) as response:
            assert response.status == 429
            assert 1 <= int(response.headers["Retry-After"]) <= 30
            assert (await response.json())["error"]["type"] == "too_many"
        assert (await get(session, "/v1/traces"))[0] == 200


async def test_concurrency_is_limited_per_key_and_a_full_server_is_busy() -> None:
    lm = Model(latency=60)
    async with client(lm, KEYED.__class__(keys=KEYED.keys, at_once=1), concurrency=1, waiting=0) as session:
        session.headers["Authorization"] = f"Bearer {ANN}"
        asking = asyncio.ensure_future(ask(session))
        await until(lambda: lm.under_way)
        assert (await ask(session))[0] == 429
        async with session.post(
            "/v1/ask", json={"question": QUESTION}, headers={"Authorization": f"Bearer {BEN}"}
        ) as response:
            assert (response.status, response.headers["Retry-After"]) == (503, "1")
            assert (await response.json())["error"]["type"] == "busy"
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def test_a_body_is_json_of_a_size_and_comes_in_time() -> None:
    async with client(options=Options(max_body_bytes=200, client_timeout=0.2)) as session:
        async with session.post("/v1/ask", data=b'{"question": "Why?"}') as response:
            assert (response.status, (await response.json())["error"]["type"]) == (415, "unsupported_media_type")
        typed = {"Content-Type": "application/json"}
        async with session.post("/v1/ask", data=b"{not json", headers=typed) as response:
            assert response.status == 422
            error = (await response.json())["error"]
            assert error["message"].startswith("the body is no valid JSON: ")
            assert error["message"].endswith(" at character 1")
            assert "param" not in error
        assert (await ask(session, method="x" * 300))[0] == 413

        async def never() -> AsyncIterator[bytes]:
            yield b"{"
            await asyncio.sleep(60)

        async with session.post("/v1/ask", data=never(), headers=typed) as response:
            assert response.status == 408


async def test_a_server_goes_by_its_own_names() -> None:
    async with client(options=Options(hosts=frozenset({"localhost", "[::1]"}))) as session:
        for host, status in (("localhost:80", 200), ("[::1]:80", 200), ("evil.example", 421), ("[::1].evil", 421)):
            assert (await get(session, "/v1/corpora", headers={"Host": host}))[0] == status


async def test_other_origins_are_refused_unless_allowed() -> None:
    asking = {"Origin": "https://wiki.example", "Access-Control-Request-Method": "POST"}
    async with client() as session, session.options("/v1/ask", headers=asking) as response:
        assert "Access-Control-Allow-Origin" not in response.headers
    options = Options(keys=KEYED.keys, origins=("https://wiki.example",))
    async with client(options=options) as session:
        async with session.options("/v1/ask", headers=asking) as response:
            assert response.status == 200
            assert response.headers["Access-Control-Allow-Origin"] == "https://wiki.example"
        async with session.options("/v1/ask", headers={**asking, "Origin": "https://evil.example"}) as response:
            assert "Access-Control-Allow-Origin" not in response.headers


# --- what goes with a response ---------------------------------------------------------------------------------------


async def test_headers_keep_pages_safe_and_a_request_has_an_id(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "polyhop.serve")
    async with client() as session:
        async with session.post("/v1/ask", json={"question": QUESTION}, headers={"X-Request-ID": "r-1"}) as response:
            assert response.headers["X-Request-ID"] == "r-1"
            assert response.headers["Cache-Control"] == "no-store"
        for path in ("/", "/static/js/app.js", "/v1/corpora", "/nothing"):
            async with session.get(path, headers={"X-Request-ID": "no id " * 20}) as response:
                assert response.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'")
                assert response.headers["X-Content-Type-Options"] == "nosniff"
                assert len(response.headers["X-Request-ID"]) == 16
    lines = [record for record in caplog.records if record.getMessage() == "request"]
    assert lines[0].facts.items() >= {"method": "POST", "path": "/v1/ask", "status": 200}.items()  # type: ignore[attr-defined]
    assert QUESTION not in caplog.text


async def test_metrics_count_requests_and_outcomes() -> None:
    async with client() as session:
        await ask(session)
        await ask(session, method="nothing")
        async with session.get("/metrics") as response:
            assert response.content_type == "text/plain"
            text = await response.text()
    assert 'polyhop_questions_total{method="one-r",outcome="answered"} 1' in text
    assert 'polyhop_http_requests_total{status="200"} 1' in text
    assert 'polyhop_http_requests_total{status="400"} 1' in text
    assert 'method="nothing"' not in text


def test_an_answer_in_two_parts_is_sent_at_once() -> None:
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()[:2]):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_docs_show_every_operation_and_need_no_script() -> None:
    async with client() as session:
        _, document = await get(session, "/openapi.json")
        async with session.get("/docs") as response:
            assert response.status == 200
            html = await response.text()
    for path, verbs in document["paths"].items():
        for verb in verbs:
            assert f"<code>{verb.upper()} {path}</code>" in html
    assert "<code>abstain_below</code>" in html
    assert html.index("POST /v1/ask") < html.index("GET /health")
    undescribed = re.findall(r"<code>(\w+)</code></th><td>body</td><td>[^<]*</td><td></td>", html)
    assert not {"question", "method", "max_calls", "query", "k"} & set(undescribed)
    assert "<script" not in html
    assert "http://" not in html
    assert "https://" not in html
