"""The client against a faithful server on loopback: what it sends, what it reads, what it refuses."""

from __future__ import annotations

import asyncio
import logging
import math
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import orjson
import pytest

from polyhop.errors import CapabilityError, LMError, SettingError
from polyhop.lm import Completion, OpenAICompatible, Request, ScoreRequest
from polyhop.lm.wire import flatten
from tests.kit import server as kit
from tests.kit.server import FakeServer, Reply, logprob, tokenise

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

    monkeypatch.setattr("polyhop.lm.trouble.pause", pause)
    return asked


def request(text: str = "Where?", **more: Any) -> Request:
    return Request(
        task="answer.direct", fields={"question": text}, messages=[{"role": "user", "content": text}], **more
    )


async def ask(server: FakeServer, asked: Request | None = None, **settings: Any) -> Completion:
    async with OpenAICompatible("tiny", server.url, **settings) as lm:
        return await lm.complete(asked or request())


# --- what is sent ----------------------------------------------------------------------------------------------------


async def test_a_request_says_all_it_should(server: FakeServer) -> None:
    schema = {
        "type": "object",
        "properties": {"answer": {"type": "string", "default": ""}, "default": {"$ref": "#/$defs/Default"}},
        "required": ["answer"],
        "$defs": {"Default": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    }
    asked = request(max_tokens=7, temperature=0.5, stop=("\n", "Q:"), seed=3, logprobs=True, schema=schema)
    await ask(server, asked, api_key=KEY, extra_body={"top_p": 0.9})
    (sent,) = server.requests
    assert sent.path == "/v1/chat/completions"
    assert sent.headers["Authorization"] == f"Bearer {KEY}"
    assert sent.body == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "Where?"}],
        "max_tokens": 7,
        "temperature": 0.5,
        "stop": ["\n", "Q:"],
        "seed": 3,
        "logprobs": True,
        "top_logprobs": 1,
        "top_p": 0.9,
        "response_format": {
            "type": "json_schema",
            "json_schema": {
                "name": "answer_direct",
                "strict": True,
                "schema": {
                    "type": "object",
                    "properties": {"answer": {"type": "string"}, "default": {"$ref": "#/$defs/Default"}},
                    "required": ["answer", "default"],
                    "additionalProperties": False,
                    "$defs": {
                        "Default": {
                            "type": "object",
                            "properties": {"n": {"type": "integer"}},
                            "required": ["n"],
                            "additionalProperties": False,
                        }
                    },
                },
            },
        },
    }


async def test_a_bare_request_sends_nothing_more(server: FakeServer) -> None:
    await ask(server, json_schema=False, logprobs=False)
    assert server.requests[0].body.keys() == {"model", "messages", "max_tokens", "temperature"}
    assert "Authorization" not in server.requests[0].headers


async def test_completions_take_the_messages_as_one_text(server: FakeServer) -> None:
    asked = Request(
        task="t",
        fields={},
        messages=[{"role": "system", "content": "Answer."}, {"role": "user", "content": "Where?"}],
        logprobs=True,
    )
    reply = await ask(server, asked, chat=False)
    (sent,) = server.requests
    assert (sent.path, sent.body["prompt"], sent.body["logprobs"]) == ("/v1/completions", "Answer.\n\nWhere?", 1)
    assert (reply.text, reply.tokens) == (kit.TEXT, tuple(tokenise(kit.TEXT)))
    assert flatten([{"role": "user", "content": " as it is\n"}]) == " as it is\n"


async def test_what_the_server_cannot_do_is_not_asked_for(server: FakeServer) -> None:
    await ask(server, request(logprobs=True, schema={"type": "object"}), json_schema=False, logprobs=False)
    assert not {"logprobs", "response_format"} & server.requests[0].body.keys()


async def test_text_that_is_no_unicode_is_sent_all_the_same(server: FakeServer) -> None:
    await ask(server, request("half a \ud83d character"))
    assert server.requests[0].body["messages"][0]["content"] == "half a ? character"


async def test_a_tasks_new_schema_replaces_the_old(server: FakeServer) -> None:
    async with OpenAICompatible("tiny", server.url) as lm:
        for kind in ("string", "integer"):
            await lm.complete(request(schema={"type": kind}))
    sent = [row.body["response_format"]["json_schema"]["schema"]["type"] for row in server.requests]
    assert sent == ["string", "integer"]


async def test_more_stops_than_openai_takes_are_cut_here(server: FakeServer) -> None:
    server.reply = "one two three"
    reply = await ask(server, request(stop=("a", "b", "c", "d", " three")))
    assert len(server.requests[0].body["stop"]) == 4
    assert (reply.text, reply.finish_reason) == ("one two", "stop")


# --- what is read ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chat", [True, False])
async def test_text_tokens_usage_and_reason_are_read(server: FakeServer, chat: bool) -> None:
    server.reply = Reply(text="In Paris, é.", finish_reason="length")
    reply = await ask(server, request("Where was he born?", logprobs=True), chat=chat)
    tokens = tokenise("In Paris, é.")
    assert (reply.text, reply.tokens, reply.finish_reason) == ("In Paris, é.", tuple(tokens), "length")
    assert reply.logprobs == tuple(map(logprob, tokens))
    assert reply.usage is not None
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens, reply.usage.estimated) == (5, len(tokens), False)
    assert (reply.retries, reply.cached, reply.reasoning, reply.value) == (0, False, None, None)


async def test_usage_is_estimated_where_the_server_counts_nothing(server: FakeServer) -> None:
    server.reply = Reply(text="12345678", usage=False)
    usage = (await ask(server, request("123456789"))).usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.estimated) == (3, 2, True)


@pytest.mark.parametrize("chat", [True, False])
async def test_reasoning_in_the_text_is_taken_out_with_its_tokens(server: FakeServer, chat: bool) -> None:
    server.reply = "<think>He was born\nthere.</think>\n\nIn Paris."
    reply = await ask(server, request(logprobs=True), chat=chat)
    assert (reply.text, reply.reasoning) == ("In Paris.", "He was born\nthere.")
    assert reply.tokens is not None
    assert reply.logprobs is not None
    assert "".join(reply.tokens) == "In Paris."
    assert len(reply.tokens) == len(reply.logprobs) == 3


async def test_reasoning_beside_the_text_is_kept_and_its_tokens_dropped(server: FakeServer) -> None:
    tokens = ("<think>", "He was born there.", "</think>", "In", " Paris", ".", "<|end|>")
    server.reply = Reply(text="In Paris.", reasoning="He was born there.", tokens=tokens)
    reply = await ask(server, request(logprobs=True))
    assert (reply.text, reply.reasoning, reply.tokens) == ("In Paris.", "He was born there.", ("In", " Paris", "."))


async def test_an_answer_that_never_left_its_reasoning_is_empty(server: FakeServer) -> None:
    server.reply = Reply(text="<think>He was", finish_reason="length")
    reply = await ask(server, request(logprobs=True))
    assert (reply.text, reply.reasoning, reply.tokens, reply.finish_reason) == ("", "He was", (), "length")


@pytest.mark.parametrize(
    "reply",
    [
        Reply(text="Half an ans", finish_reason="content_filter"),
        Reply(text=None, refusal="I cannot help with that."),
        Reply(text=None, finish_reason="content_filter"),
    ],
)
async def test_a_withheld_answer_is_an_empty_completion(server: FakeServer, reply: Reply) -> None:
    server.reply = reply
    got = await ask(server)
    assert (got.text, got.finish_reason) == ("", "content_filter")


async def test_a_prompt_that_is_filtered_is_an_empty_completion(server: FakeServer) -> None:
    server.faults.append(kit.Fault(status=400, body=kit.error_body("filtered", code="content_filter")))
    got = await ask(server)
    assert (got.text, got.finish_reason) == ("", "content_filter")


async def test_content_in_parts_is_joined_and_thoughts_told_apart(server: FakeServer) -> None:
    body = (
        b'{"choices":[{"message":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},'
        b'{"type":"text","text":"Pa"},{"type":"text","text":"ris"}]}}]}'
    )
    server.faults.append(kit.Fault(body=body))
    reply = await ask(server)
    assert (reply.text, reply.reasoning, reply.finish_reason) == ("Paris", "hm", "stop")


async def test_tokens_that_are_half_characters_are_matched_by_their_bytes(server: FakeServer) -> None:
    body = (
        '{"choices":[{"message":{"content":"é"},"logprobs":{"content":['
        '{"token":"\ufffd","bytes":[195],"logprob":-1},{"token":"\ufffd","bytes":[169],"logprob":-2},'
        '{"token":"<end>","bytes":[60,101],"logprob":-3}]}}]}'
    )
    server.faults.append(kit.Fault(body=body.encode()))
    reply = await ask(server, request(logprobs=True))
    assert (reply.text, reply.logprobs) == ("é", (-1, -2))


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
async def test_passing_trouble_is_tried_again(server: FakeServer, fault: kit.Fault) -> None:
    server.faults.extend([fault, fault])
    reply = await ask(server)
    assert (reply.text, reply.retries, len(server.requests)) == (kit.TEXT, 2, 3)


@pytest.mark.parametrize("fault", [kit.HANG, kit.DRIP], ids=["hang", "drip"])
async def test_an_answer_that_does_not_come_in_time_is_asked_for_again(server: FakeServer, fault: kit.Fault) -> None:
    server.faults.append(fault)
    reply = await ask(server, timeout=0.2)
    assert (reply.text, reply.retries) == (kit.TEXT, 1)


async def test_the_servers_wait_is_asked_of_the_pause(server: FakeServer, pauses: list[float | None]) -> None:
    server.faults.extend(
        [
            kit.failing(429, headers={"Retry-After": "3"}),
            kit.failing(503, headers={"retry-after-ms": "1500"}),
            kit.failing(500),
        ]
    )
    await ask(server)
    assert pauses == [3.0, 1.5, None]


async def test_retries_come_to_an_end_with_the_servers_words(server: FakeServer) -> None:
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
async def test_trouble_that_stays_is_told_at_once(server: FakeServer, fault: kit.Fault, words: str) -> None:
    server.faults.append(fault)
    with pytest.raises(LMError, match=words):
        await ask(server)
    assert len(server.requests) == 1


async def test_a_prompt_too_long_says_what_would_fit(server: FakeServer) -> None:
    server.context = 50
    with pytest.raises(LMError, match=r"maximum context length is 50 tokens.*fewer or shorter passages"):
        await ask(server, request("word " * 100))


async def test_an_unknown_model_is_told_the_servers_own(server: FakeServer) -> None:
    server.any_model, server.models = False, ("tiny-2", "large")
    with pytest.raises(LMError, match=r"404.*The server has 'tiny-2', 'large'\. Did you mean 'tiny-2'\?"):
        await ask(server)


async def test_a_wrong_base_url_says_how_most_end(server: FakeServer) -> None:
    server.url = server.url.removesuffix("/v1")
    with pytest.raises(LMError, match=r"404.*ends in /v1"):
        await ask(server)


async def test_no_server_is_told_at_once(unused_tcp_port: int) -> None:
    async with OpenAICompatible("tiny", f"http://127.0.0.1:{unused_tcp_port}/v1") as lm:
        with pytest.raises(
            LMError, match=r"no connection to 127\.0\.0\.1:\d+ \(Connection refused\).*Is the server up"
        ):
            await lm.complete(request())


async def test_a_server_that_went_away_is_waited_for(pauses: list[float | None]) -> None:
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


# --- scoring ---------------------------------------------------------------------------------------------------------


def scored(prompt: str = "Where was he born?", target: str = " In Paris, é.", **more: Any) -> ScoreRequest:
    return ScoreRequest(task="promptrank.path", prompt=prompt, target=target, **more)


@pytest.mark.parametrize("bos", ["", "<s>"])
async def test_a_targets_tokens_are_scored(server: FakeServer, bos: str) -> None:
    server.bos = bos
    async with OpenAICompatible("tiny", server.url, chat=False) as lm:
        first, second = await lm.score([scored(), scored(target=" Rome")])
    expected = tokenise(" In Paris, é.")
    assert (first.tokens, second.tokens) == (tuple(expected), (" Rome",))
    assert first.logprobs == tuple(map(logprob, expected))
    assert server.requests[0].body["prompt"] == "Where was he born? In Paris, é."
    assert len(server.requests) == 2


async def test_a_token_across_the_edge_is_the_targets(server: FakeServer) -> None:
    async with OpenAICompatible("tiny", server.url, chat=False) as lm:
        (scores,) = await lm.score([scored("Where was he bo", "rn? In")])
    assert scores.tokens == (" born", "?", " In")


async def test_the_first_token_of_all_has_no_score(server: FakeServer) -> None:
    async with OpenAICompatible("tiny", server.url, chat=False) as lm:
        scores = await lm.score([scored("", "In Paris"), scored("", "In"), scored("In", "")])
    assert [score.tokens for score in scores] == [(" Paris",), (), ()]


async def test_a_server_that_does_not_echo_is_found_out(server: FakeServer) -> None:
    server.echoes = False
    async with OpenAICompatible("tiny", server.url, chat=False) as lm:
        with pytest.raises(LMError, match="does not give the log-probabilities of a prompt"):
            await lm.score([scored()])


async def test_a_server_that_scores_only_what_it_generates_is_found_out(server: FakeServer) -> None:
    text = "Where was he born? In Paris, é."
    logprobs = {"tokens": ["It"], "token_logprobs": [-1.0], "text_offset": [len(text)]}
    server.faults.append(kit.Fault(body=orjson.dumps({"choices": [{"text": text + "It", "logprobs": logprobs}]})))
    async with OpenAICompatible("tiny", server.url, chat=False) as lm:
        with pytest.raises(LMError, match="does not give the log-probabilities of a prompt"):
            await lm.score([scored()])


async def test_scores_at_another_temperature_are_refused_before_any_call(server: FakeServer) -> None:
    async with OpenAICompatible("tiny", server.url, chat=False) as lm:
        with pytest.raises(CapabilityError, match="temperature=1"):
            await lm.score([scored(), scored(temperature=0.5)])
    async with OpenAICompatible("tiny", server.url) as lm:
        with pytest.raises(CapabilityError, match="chat=False"):
            await lm.score([scored()])
    assert server.requests == []


async def test_one_failed_score_ends_the_others(server: FakeServer) -> None:
    server.faults.append(kit.failing(403))
    async with OpenAICompatible("tiny", server.url, chat=False, max_concurrency=1) as lm:
        with pytest.raises(LMError, match="403"):
            await lm.score([scored() for _ in range(20)])
    assert len(server.requests) < 20


# --- limits, loops, keys ---------------------------------------------------------------------------------------------


async def test_no_more_calls_at_once_than_allowed(server: FakeServer) -> None:
    server.latency = 0.01
    async with OpenAICompatible("tiny", server.url, max_concurrency=3) as lm:
        await asyncio.gather(*(lm.complete(request()) for _ in range(12)))
    assert server.most_under_way == 3


async def test_cancelled_calls_leave_their_places(server: FakeServer) -> None:
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


@contextmanager
def serving() -> Iterator[FakeServer]:
    """A server on a loop and a thread of its own, for tests of several loops."""
    server, started, stop = FakeServer(), threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        async with server:
            loops.append(asyncio.get_running_loop())
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    started.wait(10)
    try:
        yield server
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join()


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
    with serving() as server:
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
async def test_the_key_is_nowhere_to_be_seen(
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


# --- settings --------------------------------------------------------------------------------------------------------


def test_names_tell_servers_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert OpenAICompatible("gpt").name == "openai:gpt"
    assert OpenAICompatible("gpt", "https://api.openai.com/v1/").name == "openai:gpt"
    assert OpenAICompatible("m", "http://box:8000/v1/chat/completions").name == "openai:m@http://box:8000/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://box:8000/v1")
    assert OpenAICompatible("m").name == "openai:m@http://box:8000/v1"


def test_settings_that_change_answers_are_part_of_the_identity() -> None:
    plain = OpenAICompatible("m", "http://box/v1")
    assert plain.identity == OpenAICompatible("m", "http://box/v1", KEY, max_concurrency=2, retries=0).identity
    others = [{"chat": False}, {"json_schema": False}, {"logprobs": False}, {"extra_body": {"top_p": 0.5}}]
    identities = {OpenAICompatible("m", "http://box/v1", **other).identity for other in others}  # type: ignore[arg-type]
    assert len(identities - {plain.identity}) == len(others)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"model": ""}, "name of a model"),
        ({"url": "box:8000/v1"}, "must begin with http"),
        ({"url": "ftp://box/v1"}, "must begin with http"),
        ({"url": "http://user:hunter2@box:eighty/v1"}, "'http://box:eighty/v1' is not a URL"),
        ({"url": None}, "needs a key"),
        ({"api_key": "sk-\nx"}, "pasted whole"),
        ({"api_key": "sk-“x”"}, "pasted whole"),
        ({"timeout": 0}, "timeout=0"),
        ({"retries": -1}, "retries=-1"),
        ({"max_concurrency": 0}, "max_concurrency=0"),
        ({"requests_per_minute": 0}, "requests_per_minute=0"),
        ({"extra_body": {"x": {1, 2}}}, "extra_body is not a JSON object"),
    ],
)
def test_settings_that_cannot_work_are_named(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words) as caught:
        OpenAICompatible(**{"model": "m", "url": "http://box/v1", **settings})
    assert "hunter2" not in str(caught.value)


def test_the_kits_scores_are_log_probabilities() -> None:
    assert all(math.exp(logprob(token)) < 1 for token in tokenise("Any text at all, with: marks\n and spaces"))
    assert "".join(tokenise(" a text \n")) == " a text \n"
