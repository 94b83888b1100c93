"""GE-Reasoning's confidence under imitated models: each gives its own answers, and copies them with near certainty."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest

from polyhop.lm.base import Completion, Request
from polyhop.lm.pocket import Pocket
from polyhop.pipeline import Pipeline
from polyhop.prompts.prompt import Rendering
from tests.kit.imitators import READABLE, ImitatedLM

QUESTION = "In which city was the director of the science-fiction film Metropolis born?"
KNOWN = {"Who directed Metropolis?": "Fritz Lang", "Where was Fritz Lang born?": "Vienna"}
PERSONAS = [name for name in READABLE if "thinker" not in name]


class Knowing:
    """Pocket, but that it answers the sub-questions of ``KNOWN`` without a passage."""

    def __init__(self) -> None:
        self._pocket = Pocket()

    async def complete(self, request: Request) -> Completion:
        answer = KNOWN.get(request.fields.get("sub_question") or "")
        if request.task != "ge.subanswer" or answer is None or request.fields["triplets"]:
            return await self._pocket.complete(request)
        return Completion(text="-", value={"sentence": f"It was {answer}, I think.", "answer": answer})

    async def aclose(self) -> None:
        await self._pocket.aclose()


def play(lm: ImitatedLM, **settings: Any) -> Any:
    with Pipeline("demo", "ge", lm, **settings) as pipeline:
        return pipeline.ask(QUESTION)


@pytest.mark.slow
@pytest.mark.parametrize("rendering", get_args(Rendering))
@pytest.mark.parametrize("confidence", ["mean", "min", "sentence"])
@pytest.mark.parametrize(("new", "searches"), [(0.08, 2), (0.98, 0)])
def test_an_answer_first_written_with_little_probability_is_looked_up(
    new: float, searches: int, confidence: str, rendering: Rendering
) -> None:
    for persona in PERSONAS:
        lm = ImitatedLM(READABLE[persona], persona, Knowing(), logprobs=True, new=new, copied=0.999)
        answer = play(lm, confidence=confidence, rendering=rendering)
        assert (persona, answer.usage.searches, answer.text) == (persona, searches, "Vienna")


@pytest.mark.parametrize("confidence", ["mean", "agreement"])
def test_a_seed_gives_five_different_samples(confidence: str) -> None:
    lm = ImitatedLM(READABLE["plain"])
    answer = play(lm, confidence=confidence, seed=7)
    by_prompt: dict[str, list[Request]] = {}
    for request, _ in lm.replies:
        if request.task == "ge.subanswer":
            by_prompt.setdefault(request.digest(), []).append(request)
    assert len(by_prompt) == 2 * answer.statistics["draws"]  # without knowledge, and with
    for requests in by_prompt.values():
        assert len({request.seed for request in requests}) == len(requests) == 5
        assert len({replace(request, seed=None, sample=0).digest() for request in requests}) == 1
