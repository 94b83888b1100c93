"""Tools and their calls: definitions, the check of arguments, the digest and the cache of requests that offer them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from polyhop.errors import UsageError
from polyhop.lm.base import Completion, Request
from polyhop.lm.cache import CachedLM, CompletionCache, request_key
from polyhop.lm.openai import OpenAICompatible
from polyhop.lm.scripted import ScriptedLM
from polyhop.lm.tool_text import MAX_CALLS
from polyhop.lm.tool_turns import assistant_message, call_id, result_message
from polyhop.lm.tools import Tool, ToolCall, check_tools, text_of
from polyhop.lm.wire import read_chat
from tests.kit.lm_client import request
from tests.kit.openai_server import FakeServer, Reply


class Near(BaseModel):
    """A location to search."""

    title: str = Field(description="the title of a page")
    within: list[int] = []


class Query(BaseModel):
    """A docstring of no interest to the model."""

    query: str = Field(description="what to look for", min_length=1)
    k: int = 5
    near: Near | None = None


SEARCH = Tool("search", "Find passages.", Query)
DONE = Tool("done", "End.", type("Nothing", (BaseModel,), {}))
TOOLS = (SEARCH, DONE)


def call(text: str, name: str = "search") -> ToolCall:
    return ToolCall(id="c1", name=name, text=text).checked(TOOLS)


def test_a_definition_is_what_the_api_takes() -> None:
    function = SEARCH.definition["function"]
    assert (function["name"], function["description"]) == ("search", "Find passages.")
    schema = function["parameters"]
    assert schema["required"] == ["query"]
    assert schema["properties"]["query"] == {"description": "what to look for", "minLength": 1, "type": "string"}
    assert schema["$defs"]["Near"]["properties"]["title"] == {"description": "the title of a page", "type": "string"}
    assert DONE.definition["function"]["parameters"] == {"type": "object", "properties": {}}


@pytest.mark.parametrize("name", ["", "a b", "é", "a" * 65, "a.b"])
def test_a_name_that_servers_refuse_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="a name has up to 64 letters"):
        Tool(name, "", Query)


@pytest.mark.parametrize("tools", [(), (SEARCH, SEARCH)])
def test_tools_have_names_of_their_own(tools: tuple[Tool, ...]) -> None:
    with pytest.raises(UsageError, match="give one or more, each with a name of its own"):
        check_tools(tools, "auto")


def test_a_choice_is_a_word_or_a_tool() -> None:
    check_tools(TOOLS, "done")
    with pytest.raises(UsageError, match="must be 'auto', 'required', 'none', 'search', 'done'"):
        check_tools(TOOLS, "serch")


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ('{"query": "Alien"}', {"query": "Alien", "k": 5, "near": None}),
        ('{"query": "Alien", "k": "3", "near": null}', {"query": "Alien", "k": 3, "near": None}),
        ('{"query": "Alien", "k": null, "other": 1}', {"query": "Alien", "k": 5, "near": None}),
        ('"{\\"query\\": \\"Alien\\"}"', {"query": "Alien", "k": 5, "near": None}),
        ('{"query": "two\nlines"}', {"query": "two\nlines", "k": 5, "near": None}),
        (
            '{"query": "x", "near": {"title": "T", "within": ["1"]}}',
            {"query": "x", "k": 5, "near": {"title": "T", "within": [1]}},
        ),
    ],
)
def test_arguments_are_read_by_the_tools_shape(text: str, arguments: Mapping[str, Any]) -> None:
    found = call(text)
    assert (found.arguments, found.problem, found.text) == (arguments, "", text)


@pytest.mark.parametrize("text", ["", " ", "null", '""', "{}"])
def test_no_arguments_are_none(text: str) -> None:
    assert call(text, "done").arguments == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"query": "Ali', "the arguments are not JSON"),
        ("Alien", "the arguments are not JSON"),
        ("[1]", "must be one JSON object"),
        ("{}", "query: Field required"),
        ('{"query": ""}', "query: String should have at least 1 character"),
        ('{"query": null}', "query: Input should be a valid string"),
        ('{"q": "x", "k": "many"}', "the tool takes query, k, near"),
        ("[" * 100_000, "the arguments are not JSON"),
        ('{"near": ' * 5_000, "the arguments are not JSON"),
    ],
)
def test_arguments_that_do_not_fit_are_a_problem_in_words(text: str, problem: str) -> None:
    found = call(text)
    assert found.arguments is None
    assert problem in found.problem


def test_an_unknown_tool_is_a_problem_that_names_the_known_ones() -> None:
    found = call("{}", "serch")
    assert found.arguments is None
    assert found.problem == "no tool is named 'serch' (there are: search, done); did you mean search?"


@given(st.text() | st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists).map(json.dumps))
def test_any_text_is_checked_without_an_error(text: str) -> None:
    found = call(text)
    assert (found.arguments is None) == bool(found.problem)


NUMBERS = st.integers(-(2**53), 2**53)


@given(st.text(min_size=1), NUMBERS, st.text(), st.lists(NUMBERS))
def test_what_fits_is_read_as_it_was_written(query: str, k: int, title: str, within: list[int]) -> None:
    arguments = {"query": query, "k": k, "near": {"title": title, "within": within}}
    assert call(json.dumps(arguments)).arguments == arguments


# --- the conversation -------------------------------------------------------------------------------------------------


def offering(**more: Any) -> Request:
    return replace(request(tools=TOOLS), **more)


def test_calls_results_and_what_is_carried_are_part_of_the_digest_and_the_key() -> None:
    reply = Completion(text="", tool_calls=(call('{"query": "a"}'),), carried={"reasoning_content": "Hm."})
    other = replace(reply, tool_calls=(call('{"query": "b"}'),))
    first = offering().messages
    found = [
        offering(messages=[*first, assistant_message(said), result_message(said.tool_calls[0], result)])
        for said, result in [(reply, "x"), (other, "x"), (reply, "y"), (replace(reply, carried=None), "x")]
    ]
    variants = [*found, request(), offering(), offering(tool_choice="required"), offering(tools=(SEARCH,))]
    variants.append(offering(parallel_tool_calls=False))
    assert len({variant.digest() for variant in variants}) == len(variants)
    assert len({request_key("m", variant) for variant in variants}) == len(variants)


def test_a_request_without_tools_has_the_digest_and_the_key_that_it_always_had() -> None:
    assert request().digest() == "3eaa12c542479056f1e61256"
    assert (request_key("m", request()) or b"").hex() == "e472e0037916f8eeb5e4babe9e55bc7528d1bb4c"


def test_calls_count_as_tokens() -> None:
    reply = Completion(text="So:", tool_calls=(call('{"query": "Alien"}'),))
    assert text_of(assistant_message(reply)) == 'So: search {"query": "Alien"}'
    assert text_of({"role": "user", "content": "Who?"}) == "Who?"


def test_an_id_that_is_missing_is_the_same_every_time_and_fits_mistral() -> None:
    ids = {call_id(offering(), i) for i in range(2)} | {call_id(offering(messages=[]), 0)}
    assert len(ids) == 3
    assert all(len(known) == 9 and known.isalnum() for known in ids)
    assert call_id(offering(), 0) in ids


async def test_calls_are_cached_as_they_came(tmp_path: Path) -> None:
    calls = (ToolCall(id="a", name="search", text='{"query": "Alien"}', extra={"signature": "x"}),)
    said = Completion(text="", tool_calls=calls, finish_reason="tool_calls", carried={"reasoning": "Hm."})
    model = ScriptedLM(lambda task, fields: said)
    for _ in range(2):  # the second cache reads what the first has written
        cache = CompletionCache(tmp_path / "lm.sqlite")
        lm = CachedLM(model, cache)
        replies = [await lm.complete(offering()) for _ in range(2)]
        cache.close()
    assert len(model.calls) == 1
    assert replies[0].cached
    assert replies[0].tool_calls == calls
    assert replies[0].carried == {"reasoning": "Hm."}
    assert (await lm.complete(offering(tool_choice="required"))).cached is False
    cache.close()


# --- the wire ---------------------------------------------------------------------------------------------------------


def chat(message: Mapping[str, Any], finish: str = "tool_calls", **asked: Any) -> Completion:
    choice = {"message": {"role": "assistant", "content": None, **message}, "finish_reason": finish}
    return read_chat({"choices": [choice]}, offering(**asked))


def row(arguments: Any, **more: Any) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": "search", "arguments": arguments}, **more}


@pytest.mark.parametrize("reason", ["stop", "tool_use", "tool_calls", "function_call", None])
def test_a_reply_with_calls_has_one_reason_whatever_the_server_says(reason: str | None) -> None:
    reply = chat({"tool_calls": [row("{}")]}, reason)  # type: ignore[arg-type]
    assert (reply.finish_reason, reply.says_nothing, reply.ran_out) == ("tool_calls", False, False)


def test_calls_cut_by_the_token_limit_are_known_to_be() -> None:
    reply = chat({"tool_calls": [row('{"query": "Ali')], "reasoning_content": "Hm."}, "length")
    assert (reply.finish_reason, reply.ran_out, reply.thoughts_cut_it) == ("length", False, True)
    assert "not JSON" in reply.tool_calls[0].checked(TOOLS).problem


def test_calls_of_a_model_that_was_offered_no_tools_are_dropped() -> None:
    choice = {"message": {"content": None, "tool_calls": [row("{}")]}, "finish_reason": "tool_calls"}
    reply = read_chat({"choices": [choice]}, request())
    assert (reply.text, reply.tool_calls, reply.says_nothing) == ("", (), True)


def test_thoughts_and_signatures_go_back_with_the_calls() -> None:
    details = [{"type": "reasoning.text", "text": "Hm."}]
    fields = {"reasoning_content": "Hm.", "reasoning_details": details}
    reply = chat({**fields, "tool_calls": [row("{}", extra_content={"google": 1})], "content": "So:"})
    assert reply.reasoning == "Hm."
    turn = assistant_message(reply)
    assert turn == {
        "role": "assistant",
        "content": "So:",
        "tool_calls": [row("{}", extra_content={"google": 1})],
        **fields,
    }


def test_calls_beyond_the_most_of_a_reply_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their ids would take longer than all else: each is made of the whole conversation."""
    made: list[int] = []

    def counted(request: Request, index: int) -> str:
        made.append(index)
        return call_id(request, index)

    monkeypatch.setattr("polyhop.lm.wire.call_id", counted)
    reply = chat({"tool_calls": [row('{"query": "a"}', id="0")] * 100_000})
    assert len(reply.tool_calls) == len({call.id for call in reply.tool_calls}) == len(made) == MAX_CALLS


@pytest.mark.parametrize("calls", [[None], ["x"], [{"id": "a"}], "x", [{"function": "x"}]])
async def test_calls_in_no_known_shape_are_asked_for_again(calls: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyhop.net.client.backoff", lambda failures, requested: 0.0)
    replies = iter([calls, [row('{"query": "a"}')]])
    async with FakeServer(Reply(text=None, calls=(("search", {}),))) as server:
        monkeypatch.setattr(server, "tool_calls", lambda calls: next(replies))
        async with OpenAICompatible("tiny", server.url) as lm:
            reply = await lm.complete(offering())
    assert (reply.retries, reply.tool_calls[0].text) == (1, '{"query": "a"}')


async def test_an_estimate_counts_tools_and_calls() -> None:
    model = Reply(text=None, calls=(("search", {"query": "a" * 400}),), usage=False)
    async with FakeServer(model) as server, OpenAICompatible("tiny", server.url) as lm:
        reply = await lm.complete(offering())
    assert reply.usage is not None
    assert reply.usage.estimated
    assert reply.usage.completion_tokens >= 100
    assert reply.usage.prompt_tokens > len(orjson.dumps(SEARCH.definition)) // 5


async def test_a_turn_of_calls_alone_has_null_for_its_content() -> None:
    said = assistant_message(Completion(text="", tool_calls=(call("{}"),)))
    async with FakeServer() as server, OpenAICompatible("tiny", server.url) as lm:
        await lm.complete(offering(messages=[*offering().messages, said]))
        turn = server.requests[0].body["messages"][-1]
    assert (turn["content"], turn["tool_calls"][0]["function"]) == (None, {"name": "search", "arguments": "{}"})
