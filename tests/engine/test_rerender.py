"""The messages of a recorded call come back letter for letter from the trace alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from polyhop.answer import Answer
from polyhop.engine.rerender import messages_of
from polyhop.lm.scripted import ScriptedLM
from polyhop.pipeline import Pipeline
from polyhop.prompts.book import PromptBook, Rendering
from tests.kit.world import World

METHODS = ("tor", "cor", "resp", "searchain", "ge", "react", "self-ask", "recomp", "ircot")


async def answered(method: str, seed: int, rendering: Rendering) -> tuple[Answer, ScriptedLM]:
    world = World.random(seed)
    model = ScriptedLM(world.script)
    given = {"retriever": world.search, "reader": world.read, "rendering": rendering}
    async with Pipeline(method=method, lm=model, **given) as pipeline:  # type: ignore[arg-type]
        return await pipeline.aask(world.question), model


@pytest.mark.parametrize("rendering", ["text", "json"])
@pytest.mark.parametrize("method", METHODS)
async def test_every_call_says_again_what_it_said(method: str, rendering: Rendering) -> None:
    attempts = set()
    for seed in (3, 5, 8):
        answer, model = await answered(method, seed, rendering)
        sent = {request.digest(): list(request.messages) for request in model.calls}
        for call in answer.trace.calls:
            assert messages_of(call, answer.trace.steps, PromptBook(), rendering) == sent[call.prompt]
            attempts.add(call.attempt)
    assert 1 in attempts


async def test_a_corrective_retry_is_told_with_the_reply_it_followed() -> None:
    model = ScriptedLM({"answer.direct": ["", "Answer: Paris"]})
    async with Pipeline(method="direct", lm=model) as pipeline:
        answer = await pipeline.aask("Which city?")
    first, retry = answer.trace.calls
    assert (first.attempt, retry.attempt) == (1, 2)
    told = messages_of(retry, answer.trace.steps, PromptBook(), "text")
    assert told == list(model.calls[1].messages)
    assert told is not None
    assert told[-2:] != told[:2]
    assert messages_of(retry, [retry], PromptBook(), "text") is None  # the reply it followed is not there


async def test_another_prompt_file_is_not_passed_off_as_the_one_sent(tmp_path: Path) -> None:
    answer, _ = await answered("resp", 3, "text")
    call = answer.trace.calls[0]
    own = PromptBook()[call.task]
    (tmp_path / f"{call.task}.md").write_text(own.text.replace(" the ", " that "))
    assert messages_of(call, answer.trace.steps, PromptBook(tmp_path), "text") is None
