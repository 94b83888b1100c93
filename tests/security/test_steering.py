"""Texts written to steer each method, before a model that is not persuaded: what is asked, in what order, what is
searched, which links are followed, which tools are called, what is cited and what is answered stay as they are without
these texts.

docs/injection.md has the table of what was tried. ``POLYHOP_TRIES=20`` tries every text in five worlds per method.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from polyhop.answer import Answer
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods.registry import methods
from polyhop.pipeline import Pipeline
from polyhop.trace import Branch, Searched
from polyhop.trace.steps import AskWithTools
from tests.kit.injections import INJECTIONS, STEERS, Steadfast
from tests.kit.question_data import question_for
from tests.kit.random_world import BOOK, World
from tests.kit.tally import count
from tests.security.test_injections import ABLE

TEXTS = (*INJECTIONS, *STEERS)
TIMES = int(os.environ.get("POLYHOP_TRIES", "1"))
STRIDE, WORLDS = max(1, 4 // TIMES), max(1, TIMES // 4)
"""Every how many texts are tried, and worlds for each method and text."""
SETTINGS: dict[str, dict[str, Any]] = {"hops": {"scorer": "likelihood"}}
FAST_STRIDE = 40  # of the texts that the fast test tries
RANKED_BY_WORDS = {
    "hops": ("tasks", "tools"),
    "promptrank": ("calls", "turns", "searches", "branches"),
    "replug": ("calls", "turns", "searches", "branches", "passages"),
}
"""The facts compared for methods that weigh passages by their words, as their papers do: a text may change what is read
first (``hops``, ``promptrank``) or counts most (``replug``)."""


async def played(method: str, world: Steadfast) -> tuple[Answer, ScriptedLM]:
    """The answer of a method in a world, and the model with its calls."""
    model = ScriptedLM(world.script, score=lambda request: -1.0, capabilities=ABLE)
    given: dict[str, Any] = {"reader": world.read, "prompts": BOOK, **SETTINGS.get(method, {})}
    given["rendering"] = "json" if world.speaks == "json" else "text"
    if "shots" in methods()[method].settings:
        given["shots"] = 0
    async with Pipeline(method=method, lm=model, retriever=world, **given) as pipeline:
        passages = [world.shown(passage) for passage in world.passages[:4]]
        return await pipeline.aask(question_for(method, world.question, passages)), model


def done(answer: Answer, model: ScriptedLM, world: Steadfast) -> dict[str, Any]:
    """All that a method did and said that is not a passage's own words."""
    steps = answer.trace.steps
    return {
        "calls": [(step.task, step.attempt, step.problem) for step in answer.trace.calls],
        "tasks": sorted({step.task for step in answer.trace.calls}),
        "turns": sorted([turn["role"] for turn in call.messages] for call in model.calls),
        "scored": len(model.score_calls),
        "searches": [
            (step.query, step.k, [p.id for p in step.passages]) for step in steps if isinstance(step, Searched)
        ],
        "branches": [(world.struck(step.label), step.verdict) for step in steps if isinstance(step, Branch)],
        "tools": [
            (call["name"], call["text"]) for step in steps if isinstance(step, AskWithTools) for call in step.tool_calls
        ],
        "passages": [passage.id for passage in (*answer.passages, *answer.only_read)],
        "cited": [(citation.marker, citation.passage_id) for citation in answer.citations],
        "answer": (answer.text, answer.content, answer.support, answer.abstained, answer.parsed),
    }


async def check(method: str, number: int, world: int) -> None:
    """Compare what a method does in a world with and without a text."""
    text, plain = TEXTS[number], World.random(world)
    honest, steered = [
        done(*await played(method, each), each) for each in (Steadfast.of(plain, ""), Steadfast.of(plain, text))
    ]
    count("hostile inputs")
    for name in RANKED_BY_WORDS.get(method, honest):
        assert steered[name] == honest[name], (method, name, text, world)


@pytest.mark.parametrize("method", methods())
async def test_a_model_that_is_not_persuaded_is_not_led(method: str) -> None:
    first = list(methods()).index(method)
    for number in range(3 * first % FAST_STRIDE, len(TEXTS), FAST_STRIDE):
        await check(method, number, number)


@pytest.mark.slow
@pytest.mark.parametrize("method", methods())
async def test_no_text_leads_a_model_that_is_not_persuaded(method: str) -> None:
    for number in range(list(methods()).index(method) % STRIDE, len(TEXTS), STRIDE):
        for world in range(WORLDS):
            await check(method, number, 31 * number + world)
