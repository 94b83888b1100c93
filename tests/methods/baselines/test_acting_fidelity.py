"""The baselines that search in turns against a second statement of them, on random worlds."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.kit.random_world import World
from tests.kit.tries import tries
from tests.methods.test_fidelity import observe
from tests.restated import acting
from tests.restated.tor import ObservedRun

WORLDS = tries(300)
Draw = Callable[[random.Random], dict[str, Any]]
COMMON: dict[str, list[Any]] = {"k": [5, 2], "rank_limit": [15, 3]}
METHODS: dict[str, tuple[Callable[..., ObservedRun], dict[str, list[Any]]]] = {
    "react": (acting.react, {"max_turns": [3, 1, 5]}),
    "react-cot-sc": (acting.react, {"max_turns": [3, 1], "samples": [1, 3]}),
    "toolformer": (acting.toolformer, {"max_turns": [3, 1, 5]}),
    "plan-solve-ir": (acting.plan_solve_ir, {"max_searches": [3, 1]}),
    "tot-ir": (acting.tot_ir, {"steps": [3, 1], "breadth": [5, 2], "keep": [1, 2]}),
}


@pytest.mark.parametrize("method", list(METHODS))
async def test_a_method_equals_its_second_statement(method: str) -> None:
    again, choices = METHODS[method]
    met: Counter[str] = Counter()
    for seed in range(WORLDS):
        world, draw = World.random(seed), random.Random(f"{method} {seed}")
        settings = {name: draw.choice(values) for name, values in (COMMON | choices).items()}
        answer, model = await world.run(method, context_tokens=100_000, **settings)
        expected = again(world.question, world, **settings)
        assert ordered(observe(answer, model, world)) == ordered(expected), f"world {seed}, {settings}"
        turns = {
            "evidence": bool(expected.evidence),
            "no evidence": not expected.evidence,
            "searched more than once": len(expected.searches) > 1,
            "unreadable": answer.usage.defaulted_by_task != {},
        }
        met.update(turn for turn, taken in turns.items() if taken)
        met.update(f"{step} in {method}" for step, count in answer.statistics.items() if count)
    assert len(met) >= 4
    assert min(met.values()) >= tries(10), met


def ordered(run: ObservedRun) -> ObservedRun:
    """Sort a run: it no longer depends on the order in which calls and searches made at once came."""
    run.calls.sort(key=repr)
    run.searches.sort()
    return run
