"""Calls made ahead of their turn change nothing but the time: Tree of Reviews with ``speculate`` on random worlds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from polyhop import Answer, ScriptedLM
from polyhop.engine.speculation import Speculator
from polyhop.pipeline import Pipeline
from tests.kit.random_world import BOOK, World
from tests.kit.tries import tries
from tests.kit.virtual_clock import run_virtually

WORLDS = 400


async def answer(world: World, **settings: Any) -> tuple[Answer, float]:
    """The answer, and the seconds it took where every model call takes one."""
    model = ScriptedLM(world.script, latency=1.0)
    rendering = "json" if world.speaks == "json" else "text"
    given: dict[str, Any] = {"shots": world.shots, "prompts": BOOK, "rendering": rendering, **settings}
    async with Pipeline(method="tor", lm=model, retriever=world.search, **given) as pipeline:
        begun = asyncio.get_running_loop().time()
        found = await pipeline.aask(world.question)
        return found, asyncio.get_running_loop().time() - begun


def view(found: Answer) -> Any:
    """All of an answer but what may differ between two equal runs."""
    row = found.to_dict()
    row["usage"].pop("volatile")
    for step in row["trace"]["steps"]:
        step.pop("volatile")
    return row


def varied(seed: int) -> dict[str, Any]:
    """Settings for a world, so that all meet speculation."""
    return {
        "expansion": ("mpc", "direct", "cot")[seed % 3],
        "query": (None, "both", None, "mpc", "review")[seed % 5],
        "expand_accepted": seed % 4 == 1,
        "thoughts": seed % 6 == 1,
        "repeat_passages": seed % 6 > 3,
        "repetitive_pruning": seed % 5 != 0,
        "relevance_pruning": seed % 7 != 0,
        "prune_when": ("retrieval", "review")[seed % 2],
        "widths": ((5, 3, 3), (3, 2), (4, 3, 2))[seed % 4 % 3],
    }


@pytest.mark.slow
def test_the_result_is_the_sequential_runs_to_the_byte() -> None:
    for seed in range(WORLDS):
        world, settings = World.random(seed), varied(seed)
        calls = (1, 4, 64, "siblings")[seed % 4]
        plain, seconds = run_virtually(answer(world, **settings, speculate=0))
        ahead, sooner = run_virtually(answer(world, **settings, speculate=calls))
        assert view(ahead) == view(plain), seed
        assert sooner <= seconds == plain.usage.layers == plain.usage.calls, seed
        if calls == 64:
            assert sooner == ahead.usage.layers, seed


def test_siblings_are_reviewed_at_once_by_default_and_nothing_else_changes() -> None:
    gained = 0
    for seed in range(tries(150)):
        world, settings = World.random(seed), varied(seed)
        plain, _ = run_virtually(answer(world, **settings, speculate=0))
        default, seconds = run_virtually(answer(world, **settings))
        assert view(default) == view(plain), seed
        assert default.usage.wasted == 0, seed
        assert seconds == default.usage.layers, seed
        gained += default.usage.layers < plain.usage.layers
        if settings["prune_when"] == "review":  # then a sibling may be pruned before its turn
            assert default.usage.layers == plain.usage.layers, seed
    assert gained >= tries(150) // 4


def test_calls_in_a_row_are_those_of_the_question_alone() -> None:
    """Questions answered one after another in the same task do not count each other's calls."""

    async def twice() -> tuple[Answer, Answer]:
        world = World.random(3)
        model = ScriptedLM(world.script)
        async with Pipeline(method="tor", lm=model, retriever=world.search, prompts=BOOK) as pipeline:
            return await pipeline.aask(world.question), await pipeline.aask(world.question)

    first, second = asyncio.run(twice())
    assert first.usage.layers == second.usage.layers <= second.usage.calls


def test_siblings_are_not_certain_when_the_tree_may_stop_early() -> None:
    for seed in range(20):
        plain, _ = run_virtually(answer(World.random(seed), early_stop=1, speculate=0))
        default, seconds = run_virtually(answer(World.random(seed), early_stop=1))
        assert view(default) == view(plain), seed
        assert seconds == plain.usage.layers, seed


def test_calls_in_a_row_at_the_default_widths() -> None:
    """The whole tree ahead needs at most two calls per layer, and one for the answer."""
    for seed in range(60):
        ahead, seconds = run_virtually(answer(World.random(seed), speculate=64))
        assert seconds <= 2 * 3 + 1 + _retries(ahead), seed


def _retries(found: Answer) -> int:
    return sum(call.attempt == 2 for call in found.trace.calls)


def test_a_budget_of_calls_holds_exactly() -> None:
    for seed in range(40):
        found, _ = run_virtually(answer(World.random(seed), speculate=16, max_calls=6))
        assert found.usage.calls <= 6
        assert found.usage.wasted == 0


def test_a_budget_of_seconds_ends_the_explorers() -> None:
    found, seconds = run_virtually(answer(World.random(3), speculate=16, max_seconds=2.5))
    assert seconds <= 2.5 + 1
    assert found.trace.budget in ("max_seconds", None)


def test_siblings_waste_nothing() -> None:
    """At depth one there is nothing to guess: every call made ahead is one the method comes to."""
    for seed in range(60):
        found, _ = run_virtually(answer(World.random(seed), widths=(5,), speculate=16))
        assert found.usage.wasted == 0


def test_no_more_calls_ahead_than_allowed() -> None:
    running, max_running = 0, 0

    async def call() -> int:
        nonlocal running, max_running
        running += 1
        max_running = max(max_running, running)
        await asyncio.sleep(1)
        running -= 1
        return 1

    async def main() -> None:
        speculator = Speculator(3)

        async def explorer(number: int) -> None:
            await speculator.prefetch(number, call)

        for number in range(20):
            speculator.explore((number,), lambda number=number: explorer(number), sure=False)  # type: ignore[misc]
        await asyncio.sleep(2.5)
        await speculator.close()
        assert speculator.wasted == 9

    run_virtually(main())
    assert max_running == 3


def test_an_explorers_error_is_raised_only_where_it_is_claimed() -> None:
    async def fail() -> None:
        raise ValueError("no")

    async def main() -> None:
        speculator = Speculator(2)

        async def explorer() -> None:
            await speculator.prefetch("a", fail)

        speculator.explore(("a",), explorer, sure=True)
        await asyncio.sleep(1)
        with pytest.raises(ValueError, match="no"):
            await speculator.claim("a", fail)
        await speculator.close()

    run_virtually(main())


def test_a_call_ends_with_the_method_that_claims_it() -> None:
    ended = []

    async def call() -> None:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            ended.append("call")
            raise

    async def main() -> None:
        speculator = Speculator(1)
        await speculator.close()
        method = asyncio.ensure_future(speculator.claim("a", call))
        await asyncio.sleep(1)
        method.cancel()
        await asyncio.gather(method, return_exceptions=True)
        await asyncio.sleep(1)
        assert ended == ["call"]

    run_virtually(main())
