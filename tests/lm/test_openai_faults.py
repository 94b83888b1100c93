"""The client in trouble: retries, refusals, limits, loops, and a key that is never seen."""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from polyhop.errors import LMError
from polyhop.lm import OpenAICompatible, TokenUsage
from polyhop.lm.wire import read_chat
from tests.kit import openai_server as kit
from tests.kit.lm_client import ask, request
from tests.kit.openai_server import FakeServer, in_thread

KEY = "sk-secret-0123456789"


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with FakeServer() as running:
        yield running


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """No waiting between attempts; what the server asked for each time."""
    asked: list[float | None] = []

    def pause(failures: int, retry_after: float | None) -> float:
        asked.append(retry_after)
        return 0.0

    monkeypatch.setattr("polyhop.net.client.backoff", pause)
    return asked


# --- what is not believed --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [-1, 2**32 + 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens"])
def test_a_usage_that_no_call_can_have_is_estimated(name: str, count: int) -> None:
    """Sums of such counts could not be written as JSON: the run would end in the middle."""
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7, name: count}
    reply = read_chat({"choices": [{"message": {"content": "Paris"}}], "usage": usage}, request("Where?"))
    assert reply.usage is not None
    assert reply.usage.estimated
    assert reply.usage.prompt_tokens + reply.usage.completion_tokens < 100


def test_a_total_that_no_call_can_have_is_left_out() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 2**63}
    reply = read_chat({"choices": [{"message": {"content": "Paris"}}], "usage": usage}, request("Where?"))
    assert reply.usage == TokenUsage(prompt_tokens=5, completion_tokens=2)


# --- what goes wrong -------------------------------------------------------------------------------------------------

PASSING = {
    "408": kit.failing(408),
    "409": kit.failing(409),
    "425": kit.failing(425),
    "429": kit.failing(429),
    "500": kit.failing(500),
    "503": kit.failing(503),
    "529": kit.failing(529),
    "dropped connection": kit.DROP,
    "reset in the body": kit.RESET,
    "body cut short": kit.CUT,
    "not JSON": kit.NOT_JSON,
    "truncated JSON": kit.CUT_JSON,
    "empty body": kit.EMPTY_BODY,
    "no choices": kit.EMPTY_CHOICES,
    "wrong shape": kit.WRONG_SHAPE,
    "broken log-probabilities": kit.Fault(
        body=b'{"choices":[{"message":{"content":"x"},"logprobs":{"content":[{"tok":"x"}]}}]}'
    ),
    "an error with status 200": kit.Fault(body=b'{"error":{"message":"upstream","code":502}}'),
}


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING.keys())
async def test_retryable_failures_are_retried(server: FakeServer, fault: kit.Fault) -> None:
    server.faults.extend([fault, fault])
    reply = await ask(server)
    assert (reply.text, reply.retries, len(server.requests)) == (kit.TEXT, 2, 3)


@pytest.mark.parametrize("fault", [kit.HANG, kit.DRIP], ids=["hang", "drip"])
async def test_a_timeout_is_retried(server: FakeServer, fault: kit.Fault) -> None:
    server.faults.append(fault)
    reply = await ask(server, timeout=0.2)
    assert (reply.text, reply.retries) == (kit.TEXT, 1)


async def test_retries_wait_as_long_as_the_server_asks(server: FakeServer, pauses: list[float | None]) -> None:
    server.faults.extend(
        [
            kit.failing(429, headers={"Retry-After": "3"}),
            kit.failing(503, headers={"retry-after-ms": "1500"}),
            kit.failing(500),
        ]
    )
    await ask(server)
    assert pauses == [3.0, 1.5, None]


async def test_the_last_retry_raises_the_servers_message(server: FakeServer) -> None:
    server.faults.extend([kit.failing(503, "overloaded")] * 3)
    with pytest.raises(LMError, match=r"'tiny' at .*/v1: 503 Service Unavailable: overloaded \(3 attempts") as caught:
        await ask(server, retries=2)
    assert caught.value.exit_code == 2
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (kit.failing(400, "messages must alternate"), "400 Bad Request: messages must alternate"),
        (kit.failing(403, "not yours"), "403 Forbidden: not yours.*OPENAI_API_KEY"),
        (kit.failing(413), "413"),
        (kit.Fault(status=307, headers={"Location": "https://other/v1"}), "307.*https://other/v1.*base URL"),
        (
            kit.Fault(status=429, body=kit.error_body("no credit", code="insufficient_quota")),
            "no credit.*will not help",
        ),
        (kit.failing(400, "context_length_exceeded"), "do not fit the model's context"),
    ],
)
async def test_fatal_failures_are_raised_at_once(server: FakeServer, fault: kit.Fault, words: str) -> None:
    server.faults.append(fault)
    with pytest.raises(LMError, match=words):
        await ask(server)
    assert len(server.requests) == 1


async def test_a_prompt_too_long_says_what_would_fit(server: FakeServer) -> None:
    server.context = 50
    with pytest.raises(LMError, match=r"maximum context length is 50 tokens.*fewer or shorter passages"):
        await ask(server, request("word " * 100))


async def test_an_unknown_model_is_an_error_that_lists_the_servers_models(server: FakeServer) -> None:
    server.any_model, server.models = False, ("tiny-2", "large")
    with pytest.raises(LMError, match=r"404.*The server has 'tiny-2', 'large'\. Did you mean 'tiny-2'\?"):
        await ask(server)


async def test_a_model_the_server_lists_but_does_not_offer_so(server: FakeServer) -> None:
    server.faults.append(kit.failing(404, "This is not a chat model"))
    with pytest.raises(LMError, match=r"not a chat model\. The server has this model.*chat=False"):
        await ask(server)


async def test_a_wrong_base_url_says_how_most_end(server: FakeServer) -> None:
    server.url = server.url.removesuffix("/v1")
    with pytest.raises(LMError, match=r"404.*ends in /v1"):
        await ask(server)


async def test_a_missing_server_is_an_error_at_once() -> None:
    with socket.socket() as held:  # nobody else's while it is bound, and nobody listens
        held.bind(("127.0.0.1", 0))
        async with OpenAICompatible("tiny", f"http://127.0.0.1:{held.getsockname()[1]}/v1") as lm:
            with pytest.raises(
                LMError, match=r"no connection to 127\.0\.0\.1:\d+ \(Connection refused\).*Is the server up"
            ):
                await lm.complete(request())


async def test_a_server_that_restarts_is_waited_for(pauses: list[float | None]) -> None:
    server = FakeServer()
    await server.start()
    async with OpenAICompatible("tiny", server.url, retries=2) as lm:
        await lm.complete(request())
        await server.stop()
        with pytest.raises(LMError, match=r"3 attempts"):
            await lm.complete(request())
    assert len(pauses) == 2


# --- parameters a server does not take -------------------------------------------------------------------------------

REFUSALS = {
    "response_format": "response_format is not supported by this model",
    "logprobs": "logprobs are not available",
    "seed": "Unrecognized request argument supplied: seed",
    "max_tokens": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens'.",
    "temperature": "Unsupported value: 'temperature' does not support 0.0 with this model.",
    "stop": "Unsupported parameter: 'stop' is not supported with this model.",
}


async def test_refused_parameters_are_dropped_once_and_for_all(
    server: FakeServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.rejects, server.reply = dict(REFUSALS), "In Paris. Not in London."
    asked = request(schema={"type": "object"}, logprobs=True, seed=1, stop=(" Not",), max_tokens=33)
    async with OpenAICompatible("tiny", server.url) as lm:
        with caplog.at_level(logging.WARNING, "polyhop.lm"):
            replies = [await lm.complete(asked) for _ in range(2)]
    assert [(reply.text, reply.retries, reply.finish_reason) for reply in replies] == [("In Paris.", 0, "stop")] * 2
    assert len(server.requests) == len(REFUSALS) + 2
    assert server.requests[-1].body.keys() == {"model", "messages", "max_completion_tokens"}
    assert server.requests[-1].body["max_completion_tokens"] == 33
    assert lm.parameters.refused == dict.fromkeys(REFUSALS, 1)
    assert len(caplog.records) == len(REFUSALS)
    assert (lm.capabilities.json_schema, lm.capabilities.token_logprobs, lm.capabilities.seed) == (False, False, False)


async def test_calls_refused_together_learn_together(server: FakeServer, caplog: pytest.LogCaptureFixture) -> None:
    server.rejects, server.latency = {"seed": REFUSALS["seed"]}, 0.02
    async with OpenAICompatible("tiny", server.url) as lm:
        replies = await asyncio.gather(*(lm.complete(request(seed=n)) for n in range(8)))
    assert len(replies) == lm.parameters.refused["seed"] == 8
    assert len(caplog.records) == 1


# --- limits, loops, keys ---------------------------------------------------------------------------------------------


async def test_no_more_calls_at_once_than_allowed(server: FakeServer) -> None:
    server.latency = 0.01
    async with OpenAICompatible("tiny", server.url, max_concurrency=3) as lm:
        await asyncio.gather(*(lm.complete(request()) for _ in range(12)))
    assert server.most_under_way == 3


async def test_cancelled_calls_release_their_slots(server: FakeServer) -> None:
    server.faults.extend([kit.HANG] * 2)
    async with OpenAICompatible("tiny", server.url, max_concurrency=2) as lm:
        tasks = [asyncio.ensure_future(lm.complete(request())) for _ in range(2)]
        await server.until(2)
        for task in tasks:
            task.cancel()
        replies = await asyncio.gather(*(lm.complete(request()) for _ in range(4)))
    assert [reply.text for reply in replies] == [kit.TEXT] * 4


async def test_the_servers_count_of_tokens_settles_the_estimate(server: FakeServer) -> None:
    async with OpenAICompatible("tiny", server.url, tokens_per_minute=1000) as lm:
        for _ in range(4):  # 900 estimated each, about 10 used: without settling the second would wait a minute
            await asyncio.wait_for(lm.complete(request("Where?", max_tokens=900)), timeout=5)


SEVERAL_LOOPS = """
import asyncio, sys
from concurrent.futures import ThreadPoolExecutor
from polyhop.lm import OpenAICompatible, Request

async def use(close):
    asked = Request(task="t", fields={}, messages=[{"role": "user", "content": "Where?"}])
    replies = await asyncio.gather(*(lm.complete(asked) for _ in range(20)))
    if close:
        await lm.aclose()
    return {reply.text for reply in replies}

lm = OpenAICompatible("tiny", sys.argv[1], max_concurrency=2)
if sys.argv[2] == "in turn":
    print([asyncio.run(use(close)) for close in (True, False, False, True, False)])
else:
    with ThreadPoolExecutor(5) as pool:
        print(list(pool.map(lambda _: asyncio.run(use(False)), range(5))))
"""


@pytest.mark.parametrize("order", ["in turn", "at once"])
def test_one_model_serves_several_loops_closed_or_not(order: str) -> None:
    with in_thread(FakeServer()) as server:
        server.latency = 0.005
        command = [sys.executable, "-c", SEVERAL_LOOPS, server.url, order]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str([{kit.TEXT}] * 5)
    assert done.stderr == ""  # no complaint of a session or connector left open
    assert len(server.requests) == 100


async def test_a_model_can_be_used_again_after_closing(server: FakeServer) -> None:
    lm = OpenAICompatible("tiny", server.url)
    for _ in range(2):
        assert (await lm.complete(request())).text == kit.TEXT
        await lm.aclose()


@pytest.mark.parametrize("fault", [None, kit.failing(403, f"the key {KEY} may not"), kit.failing(500, KEY), kit.CUT])
async def test_the_key_appears_nowhere(
    server: FakeServer, fault: kit.Fault | None, caplog: pytest.LogCaptureFixture
) -> None:
    server.api_key = None if fault else "another"  # then the server's refusal repeats the key it was given
    server.faults.append(fault)
    lm = OpenAICompatible("tiny", server.url, KEY, retries=0)
    with caplog.at_level(logging.DEBUG), pytest.raises(LMError) as caught:
        await lm.complete(request())
    await lm.aclose()
    seen = [str(caught.value), repr(caught.value), repr(lm), str(lm), lm.name, lm.identity, caplog.text]
    assert not any(KEY in text for text in seen)
    assert caught.value.__cause__ is None


async def test_user_and_password_of_a_url_go_in_a_header_and_nowhere_else(server: FakeServer) -> None:
    server.faults.append(kit.failing(403, "no hunter2 here"))
    lm = OpenAICompatible("tiny", server.url.replace("://", "://ada:hunter2@") + "?tag=v1tag")
    with pytest.raises(LMError) as caught:
        await lm.complete(request())
    await lm.aclose()
    assert server.requests[0].headers["Authorization"] == "Basic YWRhOmh1bnRlcjI="
    assert server.requests[0].query == "tag=v1tag"
    assert lm.name == f"openai:tiny@{server.url}"
    assert not any(secret in str(caught.value) + lm.identity for secret in ("hunter2", "ada:", "v1tag"))
