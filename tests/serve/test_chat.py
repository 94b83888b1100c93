"""The OpenAI-compatible API, tested with OpenAI's own client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from polyhop import Passage, ScriptedLM
from polyhop.answer import NO_ANSWER
from polyhop.common.extras import is_installed
from polyhop.errors import LMError
from polyhop.lm.base import Completion, Request
from polyhop.serve.http import replies
from polyhop.serve.http.chat import LAST_ALONE
from polyhop.serve.service import AskRequest, Service
from tests.kit.polyhop_server import served

if TYPE_CHECKING:
    from openai import AsyncOpenAI

pytestmark = [
    pytest.mark.extra,
    pytest.mark.skipif(not is_installed("serve"), reason="extra not installed: serve"),
]

TOWNS = [
    Passage("oslo", "Oslo", "Oslo is the capital of Norway."),
    Passage("bern", "Bern", "Bern is the seat of Switzerland's government."),
]
RIVERS = [Passage("aare", "Aare [river]", "The Aare flows through Bern.")]
ASKED = "What is the capital of Norway?"


class Model(ScriptedLM):
    """Answers every question by ``reply`` and keeps the fields of its calls."""

    def __init__(self, reply: Any = "Oslo", latency: float = 0.0) -> None:
        self.fields: list[Mapping[str, Any]] = []
        self.cancelled = 0

        def answer(task: str, fields: Mapping[str, Any]) -> Any:
            self.fields.append(fields)
            return {"answer": reply} if isinstance(reply, str) else reply

        super().__init__(answer, latency=latency)

    async def complete(self, request: Request) -> Completion:
        try:
            return await super().complete(request)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


@asynccontextmanager
async def chatting(lm: Model, **options: Any) -> AsyncIterator[tuple[AsyncOpenAI, Service]]:
    from openai import AsyncOpenAI

    service = Service({"towns": TOWNS, "rivers": RIVERS}, method="one-r", lm=lm, reader=None, **options)
    async with served(service) as url, AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        yield client, service


def user(content: Any = ASKED) -> Any:
    return [{"role": "user", "content": content}]


def ours(response: Any) -> dict[str, Any]:
    """The field ``polyhop`` of a response or chunk."""
    found: dict[str, Any] = response.model_extra["polyhop"]
    return found


async def test_an_answer_has_the_shape_that_clients_know() -> None:
    async with chatting(Model()) as (client, service):
        response = await client.chat.completions.create(model="polyhop", messages=user())
    (choice,) = response.choices
    assert (choice.message.role, choice.finish_reason) == ("assistant", "stop")
    assert choice.message.content is not None
    assert choice.message.content.startswith("Oslo [1]\n\n- [1] Oslo")
    assert response.object == "chat.completion"
    assert response.model == "one-r@towns"
    assert response.usage is not None
    assert response.usage.total_tokens == response.usage.prompt_tokens + response.usage.completion_tokens > 100
    assert response.usage.completion_tokens_details is not None
    assert response.usage.completion_tokens_details.reasoning_tokens == 0
    extension = ours(response)
    assert (extension["answer"], extension["supported"], extension["abstained"]) == ("Oslo", True, False)
    assert extension["citations"][0] == {"marker": 1, "passage_id": "oslo", "start": 0, "end": 4, "title": "Oslo"}
    assert service.trace(extension["trace_id"]).answer.text == "Oslo"
    assert response.id == f"chatcmpl-{extension['trace_id']}"


async def test_a_stream_is_role_content_finish_and_usage() -> None:
    async with chatting(Model()) as (client, _):
        whole = await client.chat.completions.create(model="polyhop", messages=user())
        stream = await client.chat.completions.create(
            model="polyhop", messages=user(), stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    assert len({chunk.id for chunk in chunks}) == 1
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    first, *middle, last, counted = chunks
    assert (first.choices[0].delta.role, first.choices[0].delta.content) == ("assistant", "")
    assert "".join(chunk.choices[0].delta.content or "" for chunk in middle) == whole.choices[0].message.content
    assert len(middle) > 1
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]] == [None] * (len(chunks) - 2) + ["stop"]
    assert {**ours(last), "trace_id": ""} == {**ours(whole), "trace_id": ""}
    assert (counted.choices, counted.usage) == ([], whole.usage)


async def test_usage_is_sent_only_on_request() -> None:
    async with chatting(Model()) as (client, _):
        stream = await client.chat.completions.create(model="polyhop", messages=user(), stream=True)
        chunks = [chunk async for chunk in stream]
    assert all(chunk.choices for chunk in chunks)
    assert all("usage" not in chunk.model_fields_set for chunk in chunks)
    assert ours(chunks[-1])["answer"] == "Oslo"


async def test_a_stream_ends_as_clients_expect() -> None:
    async with chatting(Model()) as (client, _), aiohttp.ClientSession() as session:
        asked = {"model": "polyhop", "messages": user(), "stream": True}
        async with session.post(f"{client.base_url}chat/completions", json=asked) as response:
            lines = (await response.text()).split("\n\n")
    assert response.content_type == "text/event-stream"
    assert lines[-2:] == ["data: [DONE]", ""]
    assert all(line.startswith("data: ") for line in lines[:-1])


def test_the_plain_client_understands_it_too() -> None:
    from openai import OpenAI

    def asked(url: str) -> tuple[str | None, str]:
        with OpenAI(base_url=url, api_key="none", max_retries=0) as client:
            whole = client.chat.completions.create(model="direct", messages=user())
            stream = client.chat.completions.create(model="direct", messages=user(), stream=True)
            return whole.choices[0].message.content, "".join(c.choices[0].delta.content or "" for c in stream)

    async def run() -> tuple[str | None, str]:
        async with chatting(Model()) as (client, _):
            return await asyncio.to_thread(asked, str(client.base_url))

    whole, streamed = asyncio.run(run())
    assert whole == streamed
    assert whole is not None


@pytest.mark.parametrize(
    ("model", "used"),
    [
        ("polyhop", "one-r@towns"),
        ("polyhop@rivers", "one-r@rivers"),
        ("direct", "direct@towns"),
        ("cot@rivers", "cot@rivers"),
    ],
)
async def test_the_model_picks_method_and_corpus(model: str, used: str) -> None:
    async with chatting(Model()) as (client, _):
        response = await client.chat.completions.create(model=model, messages=user())
    assert response.model == used
    assert (ours(response)["method"], ours(response)["corpus"]) == tuple(used.split("@"))


async def test_models_are_methods_that_answer_over_each_corpus() -> None:
    async with chatting(Model()) as (client, _):
        short = [model.id async for model in client.models.list()]
        names = [model.id async for model in client.models.list(extra_query={"corpora": "true"})]
        assert (await client.models.retrieve("tor@rivers")).owned_by == "polyhop"
    assert short == [name for name in names if "@" not in name]
    assert {"polyhop", "polyhop@rivers", "tor", "tor@towns", "resp@rivers"} <= set(names)
    assert not {"bm25", "bm25@towns"} & set(names), "it ranks passages and answers nothing"
    assert len(set(names)) == len(names)


async def test_an_unknown_model_is_not_found() -> None:
    from openai import NotFoundError

    async with chatting(Model()) as (client, _):
        for model in ("tro", "gpt-4o", "tor@", "@towns", "tor@moon", "bm25", "", "tor@towns@rivers"):
            with pytest.raises(NotFoundError) as caught:
                await client.chat.completions.create(model=model, messages=user())
            assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
            if model == "tro":
                assert "did you mean 'tor'" in str(caught.value)


async def test_an_unknown_model_cannot_be_retrieved() -> None:
    from openai import NotFoundError

    async with chatting(Model()) as (client, _):
        with pytest.raises(NotFoundError):
            await client.models.retrieve("gpt-4o")


CHAT: Any = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Which country is north of Denmark?"},
    {"role": "assistant", "content": "Norway *[1]*"},
    {"role": "user", "content": "And its capital?"},
    {"role": "assistant", "content": "It is"},
]


async def test_a_follow_up_question_is_rewritten_with_the_conversation() -> None:
    lm = Model({"question": ASKED, "answer": "Oslo"})
    async with chatting(lm) as (client, service):
        response = await client.chat.completions.create(model="one-r", messages=CHAT)
    extension = ours(response)
    calls = service.trace(extension["trace_id"]).answer.trace.calls
    assert [(call.task, call.fields["question"]) for call in calls] == [
        ("chat.question", "And its capital?"),
        ("answer.read", ASKED),
    ]
    assert calls[0].fields["conversation"] == [("user", CHAT[1]["content"]), ("assistant", CHAT[2]["content"])]
    assert (extension["question"], extension["unread"]) == (ASKED, 2)  # the system's message, and what follows
    assert response.choices[0].message.content is not None
    assert response.choices[0].message.content.endswith(f"*Read as: {ASKED}*")
    assert response.usage is not None
    assert response.usage.prompt_tokens > 200  # the call counts


async def test_a_follow_up_that_nobody_can_rewrite_says_that_the_last_message_was_read_alone() -> None:
    lm = Model()  # replies in no form of a rewritten question
    async with chatting(lm) as (client, _):
        response = await client.chat.completions.create(model="direct", messages=CHAT)
    assert {fields["question"] for fields in lm.fields} == {"And its capital?"}
    assert (ours(response)["question"], ours(response)["unread"]) == ("And its capital?", 4)
    assert response.choices[0].message.content is not None
    assert LAST_ALONE in response.choices[0].message.content
    assert LAST_ALONE in ours(response)["notice"]
    service = Service({"towns": TOWNS}, method="one-r", lm="pocket")
    answered = await service.ask(AskRequest(ASKED, conversation=(("user", "Hello"), ("assistant", "Oslo"))))
    await service.aclose()
    assert "chat.question" not in answered.answer.usage.calls_by_task  # pocket writes nothing


async def test_a_single_message_is_never_rewritten() -> None:
    lm = Model()
    async with chatting(lm) as (client, _):
        response = await client.chat.completions.create(model="direct", messages=user())
    assert len(lm.fields) == 1
    assert response.choices[0].message.content is not None
    assert LAST_ALONE not in response.choices[0].message.content


async def test_text_parts_are_read() -> None:
    lm = Model()
    parts = [{"type": "text", "text": "What is the capital"}, {"type": "text", "text": "of Norway?"}]
    async with chatting(lm) as (client, _):
        await client.chat.completions.create(model="direct", messages=user(parts))
    assert lm.fields[0]["question"] == "What is the capital\nof Norway?"


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}


UNSUPPORTED: list[tuple[str, dict[str, Any]]] = [
    ("n", {"n": 2}),
    ("tools", {"tools": [TOOL]}),
    ("tool_choice", {"tool_choice": "required"}),
    ("functions", {"functions": [{"name": "f"}]}),
    ("response_format", {"response_format": {"type": "json_object"}}),
    ("logprobs", {"logprobs": True}),
    ("modalities", {"modalities": ["text", "audio"]}),
    ("messages", {"messages": user([IMAGE])}),
    ("messages", {"messages": user([{"type": "text", "text": None}])}),
    ("messages", {"messages": [{"role": "system", "content": "Be brief."}]}),
]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_unsupported_parameter_is_named(stream: bool) -> None:
    from openai import BadRequestError

    lm = Model()
    async with chatting(lm) as (client, _):
        for param, given in UNSUPPORTED:
            asked = {"model": "direct", "messages": user(), "stream": stream, **given}
            with pytest.raises(BadRequestError) as caught:
                await client.chat.completions.create(**asked)
            assert (caught.value.param, caught.value.type) == (param, "invalid_request_error")
            assert caught.value.code in ("unsupported_parameter", "invalid_value")
    assert not lm.fields


async def test_parameters_without_effect_are_accepted_and_reported() -> None:
    harmless: dict[str, Any] = {"n": 1, "tools": [], "response_format": {"type": "text"}, "logprobs": False}
    async with chatting(Model()) as (client, _):
        response = await client.chat.completions.create(
            model="direct", messages=user(), temperature=0.2, max_tokens=5, user="ada", **harmless
        )
    assert ours(response)["ignored"] == ["max_tokens", "temperature", "user"]
    assert ours(response)["answer"] == "Oslo"


async def test_the_request_has_a_field_of_ours_too() -> None:
    lm = Model()
    asked = {"settings": {"k": 1, "style": "cot"}, "references": False, "max_calls": 3}
    async with chatting(lm) as (client, service):
        response = await client.chat.completions.create(model="polyhop", messages=user(), extra_body={"polyhop": asked})
        used = service.trace(ours(response)["trace_id"]).request
    assert response.choices[0].message.content == "Oslo"
    assert len(lm.fields[0]["passages"]) == 1
    assert (used.settings["style"], used.max_calls) == ("cot", 3)
    assert ours(response)["ignored"] == []


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        ({"settings": {"widht": 1}}, 400, "unknown setting of one-r 'widht'"),
        ({"max_calls": 0}, 422, "greater than 0"),
        ({"kinds": "qa"}, 422, "Extra inputs are not permitted"),
    ],
)
async def test_a_wrong_field_of_the_extension_is_named(given: dict[str, Any], status: int, said: str) -> None:
    from openai import APIStatusError

    async with chatting(Model()) as (client, _):
        with pytest.raises(APIStatusError, match=said) as caught:
            await client.chat.completions.create(model="polyhop", messages=user(), extra_body={"polyhop": given})
    assert caught.value.status_code == status


@pytest.mark.parametrize("stream", [False, True])
async def test_a_question_that_is_none_or_too_long_is_refused(stream: bool) -> None:
    from openai import BadRequestError

    async with chatting(Model()) as (client, _):
        for question in ("", " \n", "x" * 5000):
            with pytest.raises(BadRequestError, match="the question"):
                await client.chat.completions.create(model="direct", messages=user(question), stream=stream)


async def test_an_answer_that_nothing_supports_says_so() -> None:
    async with chatting(Model("Rome")) as (client, _):
        response = await client.chat.completions.create(model="direct", messages=user())
    assert response.choices[0].message.content == "Rome\n\n*Not verified: no passage is cited for this answer.*"
    assert ours(response)["supported"] is False
    assert ours(response)["notice"].startswith("Not verified")


async def test_a_withheld_answer_says_so() -> None:
    async with chatting(Model("Rome"), abstain_below=0.9) as (client, _):
        response = await client.chat.completions.create(model="direct", messages=user())
    withheld = "The best answer found was withheld: it is too unsure."
    assert response.choices[0].message.content == f"{NO_ANSWER}\n\n*{withheld}*"
    assert ours(response)["notice"] == f"{NO_ANSWER} {withheld}"
    assert "Rome" not in response.model_dump_json()
    assert ours(response)["abstained"] is True


async def test_titles_of_the_corpus_are_no_markup() -> None:
    async with chatting(Model("Bern")) as (client, _):
        response = await client.chat.completions.create(model="polyhop@rivers", messages=user("Where is the Aare?"))
    assert "- [1] Aare \\[river\\]" in (response.choices[0].message.content or "")
    assert ours(response)["citations"][0]["title"] == "Aare [river]"


async def test_an_unreachable_model_is_an_error_also_in_the_stream() -> None:
    from openai import APIError, APIStatusError

    async with chatting(Model(LMError("the model is away"))) as (client, _):
        with pytest.raises(APIStatusError, match="the model is away") as caught:
            await client.chat.completions.create(model="direct", messages=user())
        assert caught.value.status_code == 502
        stream = await client.chat.completions.create(model="direct", messages=user(), stream=True)
        with pytest.raises(APIError, match="the model is away"):
            _ = [chunk async for chunk in stream]


async def test_a_stream_stays_alive_while_the_method_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replies, "KEEP_ALIVE_SECONDS", 0.01)
    asked = {"model": "direct", "messages": user(), "stream": True}
    async with chatting(Model(latency=0.5)) as (client, _), aiohttp.ClientSession() as session:
        stream = await client.chat.completions.create(model="direct", messages=user(), stream=True)
        assert "Oslo" in "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
        async with session.post(f"{client.base_url}chat/completions", json=asked) as response:
            text = await response.text()
    assert ": at work\n\n" in text


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - what is waited for is the server's, and tells nobody
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("stream", [True, False])
async def test_the_work_ends_when_the_client_leaves(stream: bool) -> None:
    lm = Model(latency=60)
    async with chatting(lm) as (client, service), aiohttp.ClientSession() as session:
        asked = {"model": "direct", "messages": user(), "stream": stream}
        post = asyncio.ensure_future(session.post(f"{client.base_url}chat/completions", json=asked))
        await until(lambda: service.metrics.gauges["running"] == 1 and bool(lm.calls))
        if stream:
            (await post).close()
        else:
            post.cancel()
        await until(lambda: service.metrics.gauges["running"] == 0)
        assert lm.cancelled == 1
        await asyncio.gather(post, return_exceptions=True)


async def test_many_ask_at_once_and_each_gets_its_own_answer() -> None:
    class Echo(Model):
        async def complete(self, request: Request) -> Completion:
            await asyncio.sleep(0.01)
            return Completion(text="", value={"answer": f"of {request.fields['question']}"})

    async with chatting(Echo()) as (client, _):
        responses = await asyncio.gather(
            *(client.chat.completions.create(model="direct", messages=user(f"number {n}")) for n in range(30))
        )
    assert [ours(response)["answer"] for response in responses] == [f"of number {n}" for n in range(30)]
