"""Self-ask and least-to-most against a second statement of them, on random worlds."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from tests.kit.random_world import World
from tests.kit.tries import tries
from tests.methods.test_fidelity import observe
from tests.restated.asking import least_to_most, self_ask

WORLDS = tries(500)


async def test_self_ask_equals_its_second_statement() -> None:
    met: Counter[str] = Counter()
    for seed in range(WORLDS):
        world, draw = World.random(seed), random.Random(f"self-ask {seed}")
        settings: dict[str, Any] = {
            "k": draw.choice([5, 2]),
            "max_turns": draw.choice([3, 1, 2]),
            "rank_limit": draw.choice([15, 3]),
        }
        answer, model = await world.run("self-ask", context_tokens=20_000, **settings)
        expected = self_ask(world.question, world, **settings)
        assert observe(answer, model, world) == expected, f"world {seed}, {settings}"
        assert len(expected.searches) <= settings["max_turns"]
        last = expected.calls[-1][1]
        turns = {
            "concluded": last["conclude"],
            "answered": not last["conclude"],
            "at the limit": len(expected.searches) == settings["max_turns"],
            "evidence": bool(expected.evidence),
            "unreadable": len(expected.calls) > len(set(map(repr, expected.calls))),
            "gave up": last["conclude"] and len(expected.searches) < settings["max_turns"],
        }
        met.update(turn for turn, taken in turns.items() if taken)
    assert min(met[turn] for turn in turns) >= tries(20), met


async def test_least_to_most_equals_its_second_statement() -> None:
    met: Counter[int] = Counter()
    for seed in range(WORLDS):
        world = World.random(seed)
        answer, model = await world.run("least-to-most", max_questions=2 + seed % 3)
        expected = least_to_most(world.question, world, max_questions=2 + seed % 3)
        assert observe(answer, model, world) == expected, f"world {seed}"
        met[int(expected.statistics["sub_questions"])] += 1
    assert set(met) == {0, 1, 2, 3, 4}, met
