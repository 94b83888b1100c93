"""Whole prompts are bounded in every method that reads, and nothing is asked of no passages."""

from __future__ import annotations

from typing import Any

import pytest

from polyhop.answer import Answer
from polyhop.common.text import estimate_tokens
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods.registry import method_named, methods
from polyhop.pipeline import Pipeline
from polyhop.types import Passage
from tests.kit.worst_case import ABLE
from tests.methods.test_non_answers import knows_nothing

BOUNDS = ("context_tokens", "input_tokens")
"""The names of the setting that bounds a prompt."""
READING = [
    name
    for name, known in methods().items()
    if known.answers(settings := known.resolve({})) and "retriever" in known.needs(settings) and name != "promptrank"
]
"""Methods whose answers a language model reads off passages; PromptRank has a reader."""
BY_MEMORY = {"cot.sentence", "dsp.hop", "ge.subanswer", "self_ask.turn", "plan_solve_ir.solve", "tot_ir.answer"}
"""Tasks that say how to go on without passages: a sentence, a query, an answer from memory, the solution of a plan."""


async def asked(name: str, found: list[Passage], **settings: Any) -> tuple[Answer, ScriptedLM]:
    """Ask a question that every search finds these passages for, of a model that answers Bremen to anything."""
    lm = ScriptedLM(knows_nothing("Bremen"), capabilities=ABLE, score=lambda request: -1.0)
    given: dict[str, Any] = {"reader": lambda question, passages: []} | settings
    if "links" in method_named(name).settings:
        given["links"] = 0  # the callable knows none
    async with Pipeline(method=name, lm=lm, retriever=lambda query, k: found[:k], **given) as pipeline:
        return await pipeline.aask("Where was the director of Dark Mill born?"), lm


@pytest.mark.parametrize("bound", [2000, 4096])
@pytest.mark.parametrize("name", READING)
async def test_no_prompt_is_longer_than_its_bound(name: str, bound: int) -> None:
    long = [Passage(f"p{i}", f"Page {i}", "many words here " * 6000) for i in range(20)]
    (setting,) = set(BOUNDS) & set(method_named(name).settings)
    unshown = {"shots": 0} if "shots" in method_named(name).settings else {}
    answer, lm = await asked(name, long, **unshown, **{setting: bound})
    assert lm.calls
    for call in lm.calls:
        assert sum(estimate_tokens(turn["content"]) for turn in call.messages) <= bound, call.task
    assert all(estimate_tokens(request.prompt) <= bound for request in lm.score_calls)
    cited = {citation.passage_id for citation in answer.citations}
    assert cited <= {passage.id for passage in answer.passages}


@pytest.mark.parametrize("name", READING)
async def test_nothing_is_asked_of_no_passages(name: str) -> None:
    answer, lm = await asked(name, [])
    of_nothing = [call.task for call in lm.calls if "passages" in call.fields and not call.fields["passages"]]
    assert set(of_nothing) <= BY_MEMORY
    assert (answer.passages, answer.citations, answer.supported) == ((), (), False)
