"""Iter-RetGen, IRCoT and DSP against a second statement of them, on random worlds."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.kit.random_world import World
from tests.kit.tries import tries
from tests.methods.test_fidelity import observe
from tests.restated.iterating import dsp, ircot, iter_retgen
from tests.restated.tor import ObservedRun

WORLDS = tries(500)
AMPLE = 20_000
TURNS = ("evidence", "no answer", "closed book", "unreadable", "one search", "several searches")


def drawn(method: str, seed: int) -> dict[str, Any]:
    """Settings of a method, drawn from the seed."""
    draw = random.Random(f"{method} {seed}")
    settings = {"k": draw.choice([5, 2]), "max_turns": draw.choice([3, 1, 2, 5]), "rank_limit": draw.choice([15, 3])}
    if method == "ircot":
        settings["max_sentences"] = draw.choice([10, 2, 4])
    if method == "dsp":
        settings |= {"samples": draw.choice([1, 3]), "queries": draw.choice([1, 3])}
    return settings


def turns(run: ObservedRun) -> set[str]:
    """Collect the events of a run; the random worlds must cover all of them."""
    there = {
        "evidence": bool(run.evidence),
        "no answer": not run.text,
        "closed book": run.calls[-1][0] == "answer.cot",
        "unreadable": len(run.calls) > len({repr(call) for call in run.calls}),
        "several searches": len(run.searches) > 1,
        "one search": len(run.searches) == 1,
    }
    return {name for name, happened in there.items() if happened}


@pytest.mark.parametrize(("method", "restated"), [("iter-retgen", iter_retgen), ("ircot", ircot), ("dsp", dsp)])
async def test_it_equals_its_second_statement(method: str, restated: Callable[..., ObservedRun]) -> None:
    met: Counter[str] = Counter()
    for seed in range(WORLDS):
        world, settings = World.random(seed), drawn(method, seed)
        if method == "iter-retgen" and world.speaks == "text":
            world.speaks = "json"  # a text does not tell its reasons to the letter, and they are searched
        answer, model = await world.run(method, context_tokens=AMPLE, **settings)
        seen = observe(answer, model, world)
        expected = restated(world.question, world, **settings)
        assert seen == expected, f"world {seed}, {settings}"
        met.update(turns(expected))
    assert min(met[turn] for turn in TURNS) >= tries(5), met
