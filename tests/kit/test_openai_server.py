"""The loopback server is a fair stand-in: the ``openai`` package's own client takes its answers and its errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from tests.kit import openai_server as kit
from tests.kit.openai_server import FakeServer, Reply, bigrams, logprob, tokenise

if TYPE_CHECKING:
    import openai  # its import takes more than a second, which every process that collects tests would pay


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with FakeServer() as running:
        yield running


@pytest.fixture
async def client(server: FakeServer) -> AsyncIterator[openai.AsyncOpenAI]:
    import openai

    async with openai.AsyncOpenAI(base_url=server.url, api_key="any", max_retries=0, timeout=5) as made:
        yield made


async def test_chat(server: FakeServer, client: openai.AsyncOpenAI) -> None:
    server.reply = Reply(text="In Paris.", finish_reason="length")
    got = await client.chat.completions.create(
        model="tiny", messages=[{"role": "user", "content": "Where?"}], logprobs=True, stop="nowhere"
    )
    choice = got.choices[0]
    assert (choice.message.content, choice.finish_reason) == ("In Paris.", "length")
    assert choice.logprobs is not None
    assert [row.token for row in choice.logprobs.content or ()] == tokenise("In Paris.")
    assert got.usage is not None
    assert got.usage.total_tokens == got.usage.prompt_tokens + got.usage.completion_tokens == 5


async def test_completion_with_echo(client: openai.AsyncOpenAI) -> None:
    got = await client.completions.create(model="tiny", prompt="Where? In", echo=True, logprobs=1, max_tokens=1)
    scores = got.choices[0].logprobs
    assert scores is not None
    assert scores.tokens == ["Where", "?", " In", "The"]
    assert scores.text_offset == [0, 5, 6, 9]
    assert scores.token_logprobs == [*bigrams(["Where", "?", " In"]), logprob("The")]
    assert got.choices[0].text == "Where? InThe"


async def test_models(server: FakeServer, client: openai.AsyncOpenAI) -> None:
    server.models = ("a", "b")
    assert [model.id async for model in client.models.list()] == ["a", "b"]


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (kit.failing(400, "no"), "BadRequestError"),
        (kit.failing(429, "slow"), "RateLimitError"),
        (kit.failing(503, "later"), "InternalServerError"),
        (kit.RESET, "APIConnectionError"),
        (kit.CUT, "APIConnectionError"),
        (kit.DROP, "APIConnectionError"),
    ],
)
async def test_faults(server: FakeServer, client: openai.AsyncOpenAI, fault: kit.Fault, error: str) -> None:
    server.faults.append(fault)
    import openai

    with pytest.raises(getattr(openai, error)):
        await client.chat.completions.create(model="tiny", messages=[{"role": "user", "content": "Where?"}])


async def test_keys_and_models_are_checked(server: FakeServer, client: openai.AsyncOpenAI) -> None:
    import openai

    server.any_model = False
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        await client.chat.completions.create(model="huge", messages=[])
    server.api_key = "another"
    with pytest.raises(openai.AuthenticationError, match="Incorrect API key provided: any"):
        await client.chat.completions.create(model="tiny", messages=[])
