"""Nodes looked up ahead of the walk change nothing but the time: SearChain with ``speculate`` on random worlds."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from polyhop.answer import Answer
from polyhop.lm.scripted import ScriptedLM
from polyhop.pipeline import Pipeline
from polyhop.types import Kind, Passage, Span
from tests.kit.random_world import BOOK, World, still
from tests.kit.virtual_clock import run_virtually

WORLDS = 300
KINDS: tuple[Kind, ...] = ("qa", "boolean", "slot", "fact", "long")


class Slow:
    """A world's retriever and reader, each taking a second; the maximum number of searches ran at once."""

    name, threshold = "slow", 0.5

    def __init__(self, world: World) -> None:
        self.world = world
        self.running = self.max_running = 0

    async def search(self, query: str, k: int) -> list[Passage]:
        self.running += 1
        self.max_running = max(self.max_running, self.running)
        await asyncio.sleep(1)
        self.running -= 1
        return self.world.search(query, k)

    async def read(self, question: str, passages: Sequence[Passage]) -> list[Span]:
        await asyncio.sleep(1)
        return self.world.read(question, passages)


async def answer(world: World, kind: Kind, *, asking: bool = False, **settings: Any) -> tuple[Answer, float, int]:
    """The answer, the seconds it took where every call takes one, and how many searches ran at once. ``asking``: the
    reader asks the language model."""
    slow = Slow(world)
    given: dict[str, Any] = {"reader": "lm" if asking else slow, "retriever": slow.search, **settings}
    given |= {"rendering": "json" if world.speaks == "json" else "text", "shots": world.shots, "prompts": BOOK}
    async with Pipeline(method="searchain", lm=ScriptedLM(world.script, latency=1.0), **given) as pipeline:
        begun = asyncio.get_running_loop().time()
        found = await pipeline.aask(world.question, kind=kind)
        return found, asyncio.get_running_loop().time() - begun, slow.max_running


def varied(seed: int) -> dict[str, Any]:
    """Settings for a world, so that all meet speculation."""
    draw = random.Random(f"speculation {seed}")
    return {
        "k": draw.choice([1, 1, 2]),
        "confidence": draw.choice([0.0, 0.5, 0.9]),
        "verification": draw.random() < 0.7,
        "completion": draw.random() < 0.8,
        "verify": draw.choice(["containment", "reader"]),
    }


@pytest.mark.slow
@pytest.mark.parametrize("asking", [False, True])
def test_the_result_is_the_sequential_runs_to_the_byte(asking: bool) -> None:
    saved = 0.0
    for seed in range(WORLDS):
        world, settings, kind = World.random(seed), varied(seed), KINDS[seed % 5]
        nodes = (1, 2, 8)[seed % 3]
        plain, seconds, _ = run_virtually(answer(world, kind, asking=asking, **settings))
        ahead, sooner, max_running = run_virtually(answer(world, kind, asking=asking, **settings, speculate=nodes))
        assert still(ahead.to_dict()) == still(plain.to_dict()), seed
        assert sooner <= seconds, seed
        assert max_running <= 2 * nodes + 1, seed
        assert asking or ahead.usage.wasted == 0
        saved += seconds - sooner
    assert saved > WORLDS / 4


def story(task: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    nodes = [{"query": f"Who is {n}?", "answer": f"word{n}"} for n in range(5)]
    return {"nodes": nodes, "final": None, "content": "So [1] it is [5].", "answer": "it"}


@pytest.mark.parametrize(
    ("nodes", "seconds"), [(0, 1 + 5 * 2 + 1), (1, 1 + 3 * 2 + 1), (2, 1 + 2 * 2 + 1), (4, 4), (9, 4)]
)
def test_nodes_that_pass_are_looked_up_together(nodes: int, seconds: float) -> None:
    """A window of ``speculate`` nodes runs beside the one the walk is at; each look-up takes two seconds."""

    class Silent(World):
        script = staticmethod(story)

        def read(self, question: str, passages: Sequence[Passage]) -> list[Span]:
            return []

        def search(self, query: str, k: int) -> list[Passage]:
            return [Passage(query, "", query)]

    found, took, max_running = run_virtually(answer(Silent(1), "qa", speculate=nodes))
    assert took == seconds
    assert max_running == min(nodes, 4) + 1
    assert found.statistics["nodes"] == 5
    assert found.usage.searches == 5


def test_nothing_is_prefetched_under_an_exact_budget() -> None:
    for seed in range(40):
        limits = {"max_calls": 4} if seed % 2 else {"max_tokens": 4000}
        plain, _, _ = run_virtually(answer(World.random(seed), "qa", asking=True, **limits))
        ahead, _, max_running = run_virtually(answer(World.random(seed), "qa", asking=True, speculate=8, **limits))
        assert still(ahead.to_dict()) == still(plain.to_dict())
        assert (ahead.usage.wasted, max_running) == (0, 1) or not max_running


def test_what_was_looked_up_in_vain_is_counted() -> None:
    """A corrected first node ends the round: what an asking reader was asked of the others is wasted."""
    wasted = 0
    for seed in range(40):
        ahead, _, _ = run_virtually(answer(World.random(seed), "qa", asking=True, speculate=4, confidence=0.0))
        wasted += ahead.usage.wasted
    assert wasted > 0


def test_a_prefetched_failure_is_raised_only_when_it_is_needed() -> None:
    def script(task: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        nodes = [{"query": "Who?", "answer": None}, {"query": "broken", "answer": "x"}]
        return {"nodes": nodes, "content": "So.", "answer": "it"}

    async def search(query: str, k: int) -> list[Passage]:
        if query == "broken":
            raise ValueError("no index")
        return [Passage("p", "Title", "Ann Lee")]

    async def ask(rounds: int) -> Answer:
        given: dict[str, Any] = {"retriever": search, "reader": lambda question, passages: [], "max_rounds": rounds}
        async with Pipeline(method="searchain", lm=ScriptedLM(script), speculate=2, **given) as pipeline:
            return await pipeline.aask("Which?")

    assert run_virtually(ask(1)).text == "it"
    with pytest.raises(ValueError, match="no index"):
        run_virtually(ask(2))
