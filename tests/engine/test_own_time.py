"""A question's own time: the same whether it is asked alone or with 63 others, for methods of every shape."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from polyhop import Passage, Pipeline, Question
from polyhop.common.turns import timed, waited
from polyhop.evaluation.runner import run_questions
from polyhop.lm.cache import CachedLM, CompletionCache
from polyhop.lm.scripted import ScriptedLM
from polyhop.net.limits import Limiter
from polyhop.trace import Usage
from tests.kit.random_world import BOOK
from tests.kit.virtual_clock import run_virtually

LATENCY, SLOTS = 2.0, 8
"""Seconds of every call and search, and how many of each a server admits at once."""

TREE = {"relevant": True, "supported": False, "answer": None, "query": "next", "information": "next"}
REPLIES: Mapping[str, Any] = {
    "tor.review": TREE,
    "tor.complete": {"information": "next"},
    "tor.fuse": {"rationale": "", "answer": "Oslo"},
    "resp.judge": {"sufficient": False},
    "resp.plan": {"sub_question": "next?"},
}


class Limited:
    """A model, and a search, behind a server that admits ``SLOTS`` calls at once."""

    def __init__(self, latency: float = LATENCY, slots: int = SLOTS) -> None:
        self.model = ScriptedLM(lambda task, fields: REPLIES.get(task, {"rationale": "", "answer": "Oslo"}))
        self.name, self.capabilities, self.latency = "limited", self.model.capabilities, latency
        self.calls, self.searches = Limiter(slots), Limiter(slots)

    async def complete(self, request: Any) -> Any:
        async with self.calls.slot():
            await asyncio.sleep(self.latency)
            return await self.model.complete(request)

    async def search(self, query: str, k: int) -> list[Passage]:
        async with self.searches.slot():
            await asyncio.sleep(self.latency)
        return [Passage(f"{query} {n}", f"{query} {n}", "text") for n in range(k)]


async def usages(method: str, concurrency: int, settings: Mapping[str, Any]) -> list[Usage]:
    server = Limited()
    questions = [Question(f"q{n}", f"Who lives at number {n}?", ("Oslo",)) for n in range(64)]
    async with Pipeline(method=method, lm=server, retriever=server.search, prompts=BOOK, **settings) as pipeline:
        rows, failed = await run_questions(pipeline, questions, None, concurrency=concurrency)
    assert not failed
    return [Usage.from_dict(row["usage"]) for row in rows]


METHODS: Mapping[str, tuple[Mapping[str, Any], int]] = {
    "one-r": ({}, 2),  # a search and a call
    "cot-sc": ({}, 1),  # samples side by side
    "iter-retgen": ({"max_turns": 3}, 5),  # in turn; the last round finds what the second found
    "tor": ({"widths": (3, 2)}, 2 + 3 + 2 + 2 + 1),  # siblings at once; the same query is searched once
}
"""Settings, and the number of calls and searches in a row."""


@pytest.mark.parametrize("method", METHODS)
def test_own_time_does_not_depend_on_who_else_is_asking(method: str) -> None:
    settings, _ = METHODS[method]
    alone, crowded = (run_virtually(usages(method, concurrency, settings)) for concurrency in (1, 64))
    for one, other in zip(alone, crowded, strict=True):
        assert one.seconds == pytest.approx(one.elapsed)  # alone, nobody waits
        assert other.seconds == pytest.approx(one.seconds, rel=0.15)
    assert max(usage.elapsed for usage in crowded) > 4 * alone[0].elapsed  # they did wait


@pytest.mark.parametrize("method", METHODS)
def test_own_time_is_that_of_the_calls_in_a_row(method: str) -> None:
    settings, steps = METHODS[method]
    for usage in run_virtually(usages(method, 64, settings)):
        assert usage.seconds == pytest.approx(steps * LATENCY, rel=0.15)


def test_a_cached_reply_has_the_time_of_the_call_that_made_it(tmp_path: Path) -> None:
    async def ask(latency: float) -> Usage:
        lm = CachedLM(Limited(latency), CompletionCache(tmp_path / "lm.sqlite"))
        async with Pipeline(method="direct", lm=lm, cache=False) as pipeline:
            usage = (await pipeline.aask("Who?")).usage
        lm.cache.close()
        return usage

    first, again = run_virtually(ask(3.0)), run_virtually(ask(3.0))
    assert (first.seconds, first.elapsed, first.cache_hits) == (3, 3, 0)
    assert (again.seconds, again.elapsed, again.cache_hits) == (3, 0, 1)


def test_waits_that_overlap_count_once_and_work_beside_them_does_not_count_twice() -> None:
    async def part(wait: float, work: float) -> None:
        begun = asyncio.get_running_loop().time()
        await asyncio.sleep(wait)
        waited(begun)
        await asyncio.sleep(work)

    async def side_by_side() -> None:
        await asyncio.gather(part(0, 2), part(5, 2), part(6, 2))

    async def in_turn() -> None:
        await part(5, 2)
        await part(3, 1)

    assert run_virtually(timed(side_by_side()))[1] == pytest.approx(2)
    assert run_virtually(timed(in_turn()))[1] == pytest.approx(3)


def test_runs_of_older_versions_are_read() -> None:
    old = Usage(calls=1).to_dict()
    del old["volatile"]["elapsed"]
    old["volatile"] |= {"seconds": 9.0, "critical_seconds": 2.0}
    usage = Usage.from_dict(old)
    assert (usage.seconds, usage.elapsed) == (2.0, 9.0)
