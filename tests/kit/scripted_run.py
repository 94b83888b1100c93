"""Answer one question by a method under a scripted model; return the answer and the model, which holds its calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polyhop.answer import Answer
from polyhop.lm.base import Capabilities, Completion
from polyhop.lm.scripted import ScriptedLM
from polyhop.pipeline import Pipeline
from polyhop.types import Passage
from tests.kit.scene import passage


async def play(
    method: str,
    script: Any,
    *,
    hits: Mapping[str, str] | None = None,
    capabilities: Capabilities | None = None,
    latency: float = 0.0,
    question: str = "Q",
    **arguments: Any,
) -> tuple[Answer, ScriptedLM]:
    """``hits``: the names of the passages that each query finds; without it there is no retriever."""
    model = ScriptedLM(script, capabilities=capabilities, latency=latency)

    def search(query: str, k: int) -> list[Passage]:
        return [passage(name) for name in (hits or {}).get(query, "").split()][:k]

    given: dict[str, Any] = {"retriever": search} if hits is not None else {}
    async with Pipeline(method=method, lm=model, **given, **arguments) as pipeline:
        return await pipeline.aask(question), model


def sure(answer: str, logprob: float) -> Completion:
    """A reply whose answer is one token of that log-probability."""
    return Completion(text="", value={"answer": answer}, tokens=(answer,), logprobs=(logprob,))
