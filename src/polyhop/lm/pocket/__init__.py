"""Pocket: the language model that is always there. No model file, no key, no download, no network.

It reads by rules and a small linear model: facts in the phrases encyclopedias use, names that lead from passage to
passage, dates and numbers compared in code. It knows nothing beyond the passages it is given, and it writes no prose:
it exists so that every method runs anywhere, the same way every time. Use a real language model for real questions.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

import orjson

from polyhop.lm.base import Capabilities, Completion, Request, ScoreRequest, TokenScores, TokenUsage
from polyhop.lm.pocket.likelihood import log_likelihood
from polyhop.lm.pocket.stepping import ASIDE
from polyhop.lm.pocket.tasks import TASKS, do
from polyhop.text import estimate_tokens

__all__ = ["TASKS", "Pocket"]


class Pocket:
    """The embedded language model. It answers from a request's task and typed fields, not from the rendered prompt.

    Deterministic: temperature, seed and sample change nothing in ``complete``. Log-probabilities come with the tasks
    whose output holds a confidence, and with a sentence: its answer is then one token, as likely as that.
    """

    name = "pocket"
    capabilities = Capabilities(chat=True, json_schema=True, token_logprobs=True, score=True, score_temperature=True)

    async def complete(self, request: Request) -> Completion:
        """The task's output as a value and as JSON text; usage is estimated from the rendered messages.

        Raises ``CapabilityError`` for a prompt task it does not know, naming those it does.
        """
        value = do(request.task, request.fields)
        answer, sure = value.pop(ASIDE, (value.get("answer"), value.get("confidence")))
        text = orjson.dumps(value).decode()
        prompt = sum(estimate_tokens(message["content"]) for message in request.messages)
        await asyncio.sleep(0)  # let others run: a method may ask many things at once
        usage = TokenUsage(prompt_tokens=prompt, completion_tokens=estimate_tokens(text), estimated=True)
        tokens, logprobs = ((answer,), (math.log(sure),)) if sure and request.logprobs else (None, None)
        return Completion(text=text, value=value, tokens=tokens, logprobs=logprobs, usage=usage)

    async def score(self, requests: Sequence[ScoreRequest]) -> list[TokenScores]:
        """The words of each target with their log-probabilities after the prompt (see ``likelihood``)."""
        scores = []
        for request in requests:
            scores.append(TokenScores(*log_likelihood(request.prompt, request.target, request.temperature)))
            await asyncio.sleep(0)
        return scores
