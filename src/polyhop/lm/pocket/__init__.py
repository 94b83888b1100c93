"""Pocket: the built-in language model. It needs no key, no GPU, no download and no server.

It reads with a small trained encoder and with rules. The encoder judges whether passages are relevant and sufficient,
and finds the words of the answer. The rules decompose questions, follow the facts in the phrases that encyclopedias
use, and compare dates and numbers in code. It knows nothing beyond the passages it is given, and it writes no prose:
with it every method runs anywhere, the same way every time. ``model/CARD.md`` says how well it does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from polyhop.common.text import estimate_tokens
from polyhop.common.turns import let_others_run
from polyhop.lm.base import Capabilities, Completion, Request, ScoreRequest, TokenScores, TokenUsage
from polyhop.lm.batcher import Batcher
from polyhop.lm.pocket.encoder.cache import CacheMiss, cached_only, run_queries
from polyhop.lm.pocket.paths import log_likelihood
from polyhop.lm.pocket.tasks import TASKS, do
from polyhop.lm.pocket.tasks.reading import ANSWER_CONFIDENCE, CALLS

if TYPE_CHECKING:
    from polyhop.lm.tools import ToolCall

__all__ = ["TASKS", "Pocket"]

_MAX_RESTARTS = 50  # of a task that needs predictions


class Pocket:
    """The built-in language model. It answers from the task and typed fields of a request, not from its prompt.

    Deterministic: temperature, seed and sample change nothing in ``complete``. There are log-probabilities for tasks
    whose output contains a confidence, and for sentences: the answer is then one token of that probability.
    """

    name = "pocket"
    capabilities = Capabilities(
        chat=True,
        json_schema=True,
        token_logprobs=True,
        score=True,
        score_temperature=True,
        tools=True,
        continues=True,
    )

    def __init__(self) -> None:
        self._predictions = Batcher(run_queries, name="pocket", shared=True)

    async def complete(self, request: Request) -> Completion:
        """Return the output of the task as a value and as JSON text; usage is estimated from the rendered messages.

        Raises ``CapabilityError`` for an unknown prompt task, with the names of the known ones.
        """
        value = await self._run_task(request)
        calls = value.pop(CALLS, ())
        answer, confidence = value.pop(ANSWER_CONFIDENCE, (value.get("answer"), value.get("confidence")))
        text = orjson.dumps(value).decode()
        prompt = sum(estimate_tokens(message["content"]) for message in request.messages)
        usage = TokenUsage(prompt_tokens=prompt, completion_tokens=estimate_tokens(text), estimated=True)
        has_logprobs = confidence and request.logprobs
        tokens, logprobs = ((answer,), (math.log(confidence),)) if has_logprobs else (None, None)
        if calls:
            return Completion(text="", tool_calls=_tool_calls(request, calls), finish_reason="tool_calls", usage=usage)
        return Completion(text=text, value=value, tokens=tokens, logprobs=logprobs, usage=usage)

    async def _run_task(self, request: Request) -> dict[str, Any]:
        """Run a task; the predictions it needs are computed in one batch with those of other calls."""
        await let_others_run()  # let other calls begin: a method may ask many things at once
        for _ in range(_MAX_RESTARTS):
            try:
                with cached_only():
                    return do(request.task, request.fields)
            except CacheMiss as miss:
                await self._predictions(miss.queries)
        return do(request.task, request.fields)

    async def aclose(self) -> None:
        """End the thread that computes predictions."""
        await self._predictions.aclose()

    async def score(self, requests: Sequence[ScoreRequest]) -> list[TokenScores]:
        """Score the words of each target: their log-probabilities after the prompt (see ``paths``)."""
        scores = []
        for request in requests:
            scores.append(TokenScores(*log_likelihood(request.prompt, request.target, request.temperature)))
            await let_others_run()
        return scores


def _tool_calls(request: Request, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> tuple[ToolCall, ...]:
    from polyhop.lm.tool_turns import call_id  # imports pydantic, which few tasks need
    from polyhop.lm.tools import ToolCall

    return tuple(
        ToolCall(id=call_id(request, i), name=name, text=orjson.dumps(given).decode())
        for i, (name, given) in enumerate(calls)
    )
