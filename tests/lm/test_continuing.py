"""Requests that continue a text: what a server is sent, what is kept of its reply, and what a refusal comes to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from polyhop.errors import ContinuationRefused, LMError
from polyhop.lm import OpenAICompatible, Request
from polyhop.lm.base import Message
from polyhop.lm.cache import request_key
from polyhop.lm.wire import read_chat
from tests.kit.lm_client import request
from tests.kit.openai_server import FakeServer, Fault, Reply

PROMPT: Message = {"role": "user", "content": "Q"}
BEGUN: Message = {"role": "assistant", "content": "<think>So far"}


def continuing(form: Any = "turn", *turns: Message) -> Request:
    return replace(request(), messages=list(turns or (PROMPT, BEGUN)), continues=form, stop=("</search>",))


async def sent(lm: OpenAICompatible, server: FakeServer, asked: Request) -> tuple[str, dict[str, Any]]:
    await lm.complete(asked)
    last = server.requests[-1]
    return last.path, dict(last.body)


async def test_an_assistants_turn_is_continued_by_a_chat_server() -> None:
    async with FakeServer(Reply(text=" on")) as server, OpenAICompatible("tiny", server.url) as lm:
        path, body = await sent(lm, server, continuing())
        assert path.endswith("/chat/completions")
        assert (body["messages"], body["continue_final_message"], body["add_generation_prompt"]) == (
            [PROMPT, BEGUN],
            True,
            False,
        )
        _, body = await sent(lm, server, continuing("turn", PROMPT))
        assert not {"continue_final_message", "add_generation_prompt"} & body.keys()


async def test_a_text_goes_to_completions_whatever_the_model_is() -> None:
    for chat in (True, False):
        async with FakeServer(Reply(text=" on")) as server, OpenAICompatible("tiny", server.url, chat=chat) as lm:
            path, body = await sent(lm, server, continuing("text"))
            assert (path.endswith("/v1/completions"), body["prompt"]) == (True, "Q<think>So far")
            assert "messages" not in body


def test_a_reply_is_kept_whole_with_thoughts_that_the_server_took_apart() -> None:
    def read(form: Any, *turns: Message, **message: Any) -> tuple[str, str | None]:
        data = {"choices": [{"message": {"role": "assistant", **message}, "finish_reason": "stop"}]}
        reply = read_chat(data, continuing(form, *turns), ("</search>",))
        return reply.text, reply.reasoning

    text = "<think>a</think>\n<search>b"
    assert read("turn", content=f"{text}</search> c") == (text, None)
    assert read("turn", content="d", reasoning_content="a") == ("a\n</think>\n\nd", None)
    assert read("turn", PROMPT, content=None, reasoning_content="a <search>b") == ("<think>\na <search>b", None)
    assert read("whole", PROMPT, content=text, reasoning_content="c") == (text, "c")


REFUSALS = [
    "Unrecognized request argument supplied: continue_final_message",
    "This model does not support assistant message prefill. The conversation must end with a user message.",
    "Expected last role to be one of: user, tool",
]


@pytest.mark.parametrize("words", REFUSALS)
async def test_a_server_that_takes_no_such_turn_refuses(words: str) -> None:
    body = orjson.dumps({"error": {"message": words, "type": "invalid_request_error"}})
    async with FakeServer(faults=[Fault(status=400, body=body)]) as server, OpenAICompatible("tiny", server.url) as lm:
        assert lm.capabilities.continues
        with pytest.raises(ContinuationRefused):
            await lm.complete(continuing())
        assert not lm.capabilities.continues


async def test_a_server_without_completions_refuses_a_text() -> None:
    async with FakeServer(faults=[Fault(status=404)] * 2) as server, OpenAICompatible("tiny", server.url) as lm:
        with pytest.raises(ContinuationRefused, match="continues no text"):
            await lm.complete(continuing("text"))
        with pytest.raises(LMError) as raised:
            await lm.complete(request())
    assert not isinstance(raised.value, ContinuationRefused)


def test_openai_itself_continues_nothing() -> None:
    assert not OpenAICompatible("gpt", api_key="sk-x").capabilities.continues
    assert OpenAICompatible("gpt", api_key="sk-x", chat=False).capabilities.continues


def test_the_form_is_part_of_the_cache_key_and_others_keep_theirs() -> None:
    keys = {request_key("m", continuing(form, PROMPT)) for form in ("", "turn", "text", "whole")}
    assert len(keys) == 4
