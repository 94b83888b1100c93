"""Every method answers with a model that thinks as it does with the same model not thinking, at hardly more calls."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from polyhop import Pipeline, Question, open_corpus
from polyhop.data.questions import read_questions
from polyhop.lm.base import Completion, LanguageModel, Request
from polyhop.lm.pocket import Pocket
from tests.kit.imitators import READABLE, THINKING_TOKENS, ImitatedLM

SYSTEMS = ("tor", "cor", "resp", "ge", "searchain")
SLOWER = ("promptrank", "direct", "cot", "one-r", "ircot", "self-ask", "react", "iter-retgen", "least-to-most", "dsp")
SETTINGS: dict[str, dict[str, Any]] = {"ge": {"confidence": "verbal"}}
CONCURRENCY = 2


class InFlight(ImitatedLM):
    """An imitated model that counts the calls in flight when its first reply without a word is given."""

    calls = in_flight = at_discovery = 0

    async def complete(self, request: Request) -> Completion:
        """Return the persona's reply."""
        self.calls += 1
        self.in_flight += 1
        reply = await super().complete(request)
        await asyncio.sleep(0.001)
        if reply.thought and not self.at_discovery:
            self.at_discovery = self.in_flight
        self.in_flight -= 1
        return reply


async def answers(method: str, persona: str, questions: list[Question]) -> tuple[list[Any], InFlight]:
    model = InFlight(READABLE[persona])
    lm: dict[str, LanguageModel] = {"default": model, "promptrank.path": Pocket()}
    given = SETTINGS.get(method, {})
    async with Pipeline(open_corpus("demo"), method, lm, **given) as pipeline:
        limit = asyncio.Semaphore(CONCURRENCY)

        async def one(question: Question) -> Any:
            async with limit:
                answer = await pipeline.aask(question)
            return answer.text, answer.confidence, [passage.id for passage in answer.passages]

        return await asyncio.gather(*map(one, questions)), model


@pytest.mark.parametrize(
    "persona", ["thinker", *(pytest.param(name, marks=pytest.mark.slow) for name in ("tag thinker", "channel thinker"))]
)
@pytest.mark.parametrize("method", [*SYSTEMS, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOWER)])
async def test_thoughts_change_no_answer(method: str, persona: str) -> None:
    questions = read_questions("demo")[:3]
    plain, calm = await answers(method, "plain", questions)
    assert any(text for text, *_ in plain) or method in ("direct", "cot", "least-to-most")
    found, model = await answers(method, persona, questions)
    assert found == plain
    cut = [reply for _, reply in model.replies if reply.ran_out]
    assert len(cut) <= model.at_discovery
    assert model.calls == calm.calls + len(cut)
    assert all(reply.reasoning for _, reply in model.replies)
    assert {request.max_tokens > THINKING_TOKENS for request, _ in model.replies[model.at_discovery + 1 :]} <= {True}
