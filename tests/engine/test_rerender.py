"""The messages of a recorded call come back letter for letter from the trace alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from polyhop.answer import Answer
from polyhop.engine.rerender import messages_of
from polyhop.lm.scripted import ScriptedLM
from polyhop.pipeline import Pipeline
from polyhop.prompts.book import PromptBook
from polyhop.prompts.prompt import Rendering
from tests.kit.random_world import World

METHODS = ("tor", "cor", "resp", "searchain", "ge", "react", "agent", "self-ask", "recomp", "ircot")


async def answered(method: str, seed: int, rendering: Rendering) -> tuple[Answer, ScriptedLM]:
    world = World.random(seed)
    model = ScriptedLM(world.script)
    given = {"retriever": world.search, "reader": world.read, "rendering": rendering}
    async with Pipeline(method=method, lm=model, **given) as pipeline:  # type: ignore[arg-type]
        return await pipeline.aask(world.question), model


@pytest.mark.parametrize("rendering", ["text", "json"])
@pytest.mark.parametrize("method", METHODS)
async def test_every_call_is_rendered_as_it_was_sent(method: str, rendering: Rendering) -> None:
    attempts = set()
    for seed in (3, 5, 8):
        answer, model = await answered(method, seed, rendering)
        sent = {request.digest(): list(request.messages) for request in model.calls}
        for call in answer.trace.calls:
            assert messages_of(call, answer.trace.steps, PromptBook()) == sent[call.prompt_hash]
            attempts.add(call.attempt)
    assert 1 in attempts


async def test_a_corrective_retry_is_rendered_with_the_reply_it_followed() -> None:
    model = ScriptedLM({"answer.direct": ["", "Answer: Paris"]})
    async with Pipeline(method="direct", lm=model) as pipeline:
        answer = await pipeline.aask("Which city?")
    first, retry = answer.trace.calls
    assert (first.attempt, first.retry_of, retry.attempt, retry.retry_of) == (1, None, 2, first.id)
    messages = messages_of(retry, answer.trace.steps, PromptBook())
    assert messages is not None
    assert messages == list(model.calls[1].messages)
    assert messages[-2:] != messages[:2]
    assert messages_of(retry, [retry], PromptBook()) is None  # the reply it followed is not there


async def test_an_older_trace_is_rendered_as_far_as_its_prompt_file_allows() -> None:
    model = ScriptedLM({"answer.direct": ["", "Answer: Paris"]})
    async with Pipeline(method="direct", lm=model) as pipeline:
        answer = await pipeline.aask("Which city?")
    first, retry = (replace(call, shots=None, retry_of=None) for call in answer.trace.calls)
    assert messages_of(first, [first, retry], PromptBook()) == list(model.calls[0].messages)
    assert messages_of(retry, [first, retry], PromptBook()) is None


async def test_another_prompt_file_is_not_passed_off_as_the_one_sent(tmp_path: Path) -> None:
    answer, _ = await answered("resp", 3, "text")
    call = answer.trace.calls[0]
    own = PromptBook()[call.task]
    (tmp_path / f"{call.task}.md").write_text(own.text.replace(" the ", " that "))
    assert messages_of(call, answer.trace.steps, PromptBook(tmp_path)) is None
