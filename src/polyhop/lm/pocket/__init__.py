"""Pocket: the language model that is always there. No key, no GPU, no download, no server.

It reads by a small trained encoder and by rules: the encoder judges whether passages bear on a question and are enough,
and finds the answer's words; rules take questions apart, follow the facts in the phrases encyclopedias use, and compare
dates and numbers in code. It knows nothing beyond the passages it is given, and it writes no prose: it exists so that
every method runs anywhere, the same way every time. ``model/CARD.md`` says how well it does.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import orjson

from polyhop.common.text import estimate_tokens
from polyhop.lm.base import Capabilities, Completion, Request, ScoreRequest, TokenScores, TokenUsage
from polyhop.lm.batcher import Batcher
from polyhop.lm.pocket.encoder.cache import Wanted, ahead, look
from polyhop.lm.pocket.likelihood import log_likelihood
from polyhop.lm.pocket.tasks import TASKS, do
from polyhop.lm.pocket.tasks.stepping import ASIDE

__all__ = ["TASKS", "Pocket"]

_MOST_TURNS = 50  # that a skill begins again for looks it lacks


class Pocket:
    """The embedded language model. It answers from a request's task and typed fields, not from the rendered prompt.

    Deterministic: temperature, seed and sample change nothing in ``complete``. Log-probabilities come with the tasks
    whose output holds a confidence, and with a sentence: its answer is then one token, as likely as that.
    """

    name = "pocket"
    capabilities = Capabilities(chat=True, json_schema=True, token_logprobs=True, score=True, score_temperature=True)

    def __init__(self) -> None:
        self._looks = Batcher(look, name="pocket")

    async def complete(self, request: Request) -> Completion:
        """The task's output as a value and as JSON text; usage is estimated from the rendered messages.

        Raises ``CapabilityError`` for a prompt task it does not know, naming those it does.
        """
        value = await self._done(request)
        answer, sure = value.pop(ASIDE, (value.get("answer"), value.get("confidence")))
        text = orjson.dumps(value).decode()
        prompt = sum(estimate_tokens(message["content"]) for message in request.messages)
        usage = TokenUsage(prompt_tokens=prompt, completion_tokens=estimate_tokens(text), estimated=True)
        tokens, logprobs = ((answer,), (math.log(sure),)) if sure and request.logprobs else (None, None)
        return Completion(text=text, value=value, tokens=tokens, logprobs=logprobs, usage=usage)

    async def _done(self, request: Request) -> dict[str, Any]:
        """The task's value; looks it needs are made together with those of other calls."""
        await asyncio.sleep(0)  # let others begin: a method may ask many things at once
        for _ in range(_MOST_TURNS):
            try:
                with ahead():
                    return do(request.task, request.fields)
            except Wanted as wanted:
                await self._looks(wanted.sights)
        return do(request.task, request.fields)

    async def aclose(self) -> None:
        """End the thread of the looks."""
        await self._looks.aclose()

    async def score(self, requests: Sequence[ScoreRequest]) -> list[TokenScores]:
        """The words of each target with their log-probabilities after the prompt (see ``likelihood``)."""
        scores = []
        for request in requests:
            scores.append(TokenScores(*log_likelihood(request.prompt, request.target, request.temperature)))
            await asyncio.sleep(0)
        return scores
