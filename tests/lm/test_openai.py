"""The client against a faithful server on loopback: what it sends, what it reads, its settings."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from typing import Any

import pytest

from polyhop.errors import SettingError
from polyhop.lm import OpenAICompatible, Request
from polyhop.lm.wire import flatten
from polyhop.net.client import Address, proxy_for
from tests.kit import openai_server as kit
from tests.kit.lm_client import ask, request
from tests.kit.openai_server import FakeServer, Reply, logprob, tokenise

KEY = "sk-secret-0123456789"


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with FakeServer() as running:
        yield running


# --- what is sent ----------------------------------------------------------------------------------------------------


async def test_a_request_has_every_field(server: FakeServer) -> None:
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


async def test_a_minimal_request_has_no_other_field(server: FakeServer) -> None:
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


async def test_unsupported_parameters_are_not_sent(server: FakeServer) -> None:
    await ask(server, request(logprobs=True, schema={"type": "object"}), json_schema=False, logprobs=False)
    assert not {"logprobs", "response_format"} & server.requests[0].body.keys()


async def test_lone_surrogates_are_replaced(server: FakeServer) -> None:
    await ask(server, request("half a \ud83d character"))
    assert server.requests[0].body["messages"][0]["content"] == "half a ? character"


async def test_a_tasks_new_schema_replaces_the_old(server: FakeServer) -> None:
    async with OpenAICompatible("tiny", server.url) as lm:
        for kind in ("string", "integer"):
            await lm.complete(request(schema={"type": kind}))
    sent = [row.body["response_format"]["json_schema"]["schema"]["type"] for row in server.requests]
    assert sent == ["string", "integer"]


async def test_replies_are_cut_at_further_stops(server: FakeServer) -> None:
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


async def test_usage_is_estimated_if_the_server_reports_none(server: FakeServer) -> None:
    server.reply = Reply(text="12345678", usage=False)
    usage = (await ask(server, request("123456789"))).usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.estimated) == (3, 2, True)


@pytest.mark.parametrize("chat", [True, False])
async def test_reasoning_in_the_text_is_removed_with_its_tokens(server: FakeServer, chat: bool) -> None:
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


async def test_content_parts_are_joined_without_thoughts(server: FakeServer) -> None:
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


# --- settings --------------------------------------------------------------------------------------------------------


def test_names_identify_servers(monkeypatch: pytest.MonkeyPatch) -> None:
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
        ({"url": "http://user:hunter2@box:eighty/v1"}, r"'http://\*\*\*@box:eighty/v1' is not a URL"),
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
def test_invalid_settings_are_errors(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words) as caught:
        OpenAICompatible(**{"model": "m", "url": "http://box/v1", **settings})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("http://box/v1", "http://proxy:1"),
        ("https://box/v1", "http://proxy:2"),
        ("http://inside.example/v1", None),
        ("http://127.0.0.1:8000/v1", None),
        ("http://localhost/v1", None),
    ],
)
def test_the_environments_proxy_is_used_but_never_for_this_machine(
    monkeypatch: pytest.MonkeyPatch, url: str, proxy: str | None
) -> None:
    environment = {"http_proxy": "http://proxy:1", "https_proxy": "http://proxy:2", "no_proxy": "inside.example"}
    for name, value in environment.items():
        monkeypatch.delenv(name.upper(), raising=False)
        monkeypatch.setenv(name, value)
    assert proxy_for(Address(url)) == proxy


def test_the_kits_scores_are_log_probabilities() -> None:
    assert all(math.exp(logprob(token)) < 1 for token in tokenise("Any text at all, with: marks\n and spaces"))
    assert "".join(tokenise(" a text \n")) == " a text \n"
