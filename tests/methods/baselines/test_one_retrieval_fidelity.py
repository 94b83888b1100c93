"""SuRe, Verify-and-Edit and ERA-CoT against a second statement of them, on random worlds."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.kit.random_world import World
from tests.kit.tries import tries
from tests.methods.test_fidelity import observe
from tests.restated.one_retrieval import era_cot, sure, verify_and_edit
from tests.restated.tor import ObservedRun

WORLDS = tries(300)
STATED: dict[str, tuple[Callable[..., ObservedRun], dict[str, list[Any]]]] = {
    "sure": (sure, {"candidates": [2, 2, 3], "validity": [True, True, False], "ranking": [True, True, False]}),
    "verify-edit": (verify_and_edit, {"samples": [3], "edit_below": [0.5, 2, 2], "max_turns": [1, 3]}),
    "era-cot": (
        era_cot,
        {"implicit": [True, True, False], "discriminate": [True, True, False], "keep_from": [6, 6, 0, 10]},
    ),
}
"""A method's second statement and the settings that are drawn for it."""


def unordered(run: ObservedRun) -> ObservedRun:
    """Calls and searches that go together come in any order."""
    return replace(run, calls=sorted(run.calls, key=repr), searches=sorted(run.searches))


@pytest.mark.parametrize("method", list(STATED))
async def test_a_method_equals_its_second_statement(method: str) -> None:
    statement, options = STATED[method]
    met: Counter[Any] = Counter()
    for seed in range(WORLDS):
        world, draw = World.random(seed), random.Random(f"{method} {seed}")
        chosen = {"k": draw.choice([5, 2]), **{name: draw.choice(values) for name, values in options.items()}}
        answer, model = await world.run(method, **chosen)
        expected = statement(world.question, world, **chosen)
        assert unordered(observe(answer, model, world)) == unordered(expected), f"world {seed}, {chosen}"
        met[tuple(sorted({task for task, _ in expected.calls}))] += 1
    assert len(met) >= 4, met  # ways that a run can go
