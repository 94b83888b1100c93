"""The batcher with workers that only count and sleep: order, merging, errors, cancelling, closing."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.lm.batcher import Batcher


class Squares:
    """Squares numbers, fails on negative ones, and notes what it was given together, and where."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.threads: set[int] = set()
        self.may_go = threading.Event()
        self.may_go.set()

    def __call__(self, numbers: Sequence[int]) -> list[int]:
        self.batches.append(list(numbers))
        self.threads.add(threading.get_ident())
        self.may_go.wait(5)
        if bad := [number for number in numbers if number < 0]:
            raise ValueError(f"{bad[0]} is negative")
        return [number**2 for number in numbers]


def alive(name: str) -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(name)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(-3, 20), max_size=5), max_size=8))
def test_each_caller_gets_its_own_results_or_its_own_error(asked: list[list[int]]) -> None:
    work = Squares()

    async def main() -> None:
        batcher = Batcher(work, name="property")
        found = await asyncio.gather(*map(batcher, asked), return_exceptions=True)
        for numbers, result in zip(asked, found, strict=True):
            if any(number < 0 for number in numbers):
                assert isinstance(result, ValueError)
            else:
                assert result == [number**2 for number in numbers]
        await batcher.aclose()

    asyncio.run(main())
    assert len(work.threads) <= 1
    assert threading.get_ident() not in work.threads
    if all(number >= 0 for numbers in asked for number in numbers):
        assert len(work.batches) == bool(sum(map(len, asked)))
    assert not alive("property")


async def test_concurrent_callers_share_a_call() -> None:
    work = Squares()
    work.may_go.clear()
    batcher = Batcher(work, name="merging")
    first = [asyncio.create_task(batcher([number])) for number in range(3)]
    await until(lambda: bool(work.batches))
    later = []
    for number in range(3, 6):  # each in a turn of its own, while the worker is busy
        later.append(asyncio.create_task(batcher([number])))
        await asyncio.sleep(0.001)
    work.may_go.set()
    assert await asyncio.gather(*first, *later) == [[number**2] for number in range(6)]
    assert work.batches == [[0, 1, 2], [3, 4, 5]]
    await batcher.aclose()


async def test_work_does_not_block_the_loop() -> None:
    work = Squares()
    work.may_go.clear()
    batcher = Batcher(work, name="patient")
    task = asyncio.create_task(batcher([2]))
    turns = 0
    for _ in range(20):
        await asyncio.sleep(0.001)
        turns += 1
    assert (turns, task.done()) == (20, False)
    work.may_go.set()
    assert await task == [4]
    await batcher.aclose()


async def test_a_cancelled_caller_does_not_affect_others() -> None:
    work = Squares()
    work.may_go.clear()
    batcher = Batcher(work, name="cancelling")
    under_way = asyncio.create_task(batcher([1]))
    await until(lambda: bool(work.batches))
    waiting, other = asyncio.create_task(batcher([2])), asyncio.create_task(batcher([3]))
    await asyncio.sleep(0.001)
    under_way.cancel()
    waiting.cancel()
    await asyncio.gather(under_way, waiting, return_exceptions=True)
    work.may_go.set()
    assert await other == [9]
    assert (under_way.cancelled(), waiting.cancelled()) == (True, True)
    assert work.batches == [[1], [3]]  # who waited is left out, who was under way is not asked for again
    await batcher.aclose()


async def test_a_worker_that_loses_results_is_an_error() -> None:
    batcher: Batcher[int, int] = Batcher(lambda numbers: numbers[:-1], name="loser")
    with pytest.raises(RuntimeError, match="loser gave 1 results for 2 items"):
        await batcher([1, 2])
    await batcher.aclose()


async def test_closing_finishes_all_calls_and_ends_the_thread() -> None:
    work = Squares()
    batcher = Batcher(work, name="closing")
    asked = [asyncio.create_task(batcher([number])) for number in range(4)]
    await asyncio.sleep(0)
    await batcher.aclose()
    assert await asyncio.gather(*asked) == [[0], [1], [4], [9]]
    assert not alive("closing")
    assert await batcher([5]) == [25]  # and can be used again
    await batcher.aclose()
    await batcher.aclose()
    assert not alive("closing")


async def test_a_call_during_closing_waits_for_the_running_one() -> None:
    work = Squares()
    work.may_go.clear()
    batcher = Batcher(work, name="late")
    first = asyncio.create_task(batcher([1]))
    await until(lambda: bool(work.batches))
    closing = asyncio.create_task(batcher.aclose())
    await until(lambda: batcher._worker is None)
    late = asyncio.create_task(batcher([2]))
    await until(lambda: batcher._worker is not None)
    await asyncio.sleep(0.02)
    assert work.batches == [[1]]
    work.may_go.set()
    assert (await first, await late) == ([1], [4])
    await closing
    await batcher.aclose()


def test_loops_on_several_threads_share_the_one_worker() -> None:
    work = Squares()
    batcher = Batcher(work, name="sharing")
    found: list[list[int]] = []

    def ask(number: int) -> None:
        async def twenty() -> None:
            for step in range(20):
                found.append(await batcher([number * 100 + step]))

        asyncio.run(twenty())

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [[(number * 100 + step) ** 2] for number in range(4) for step in range(20)]
    assert len(work.threads) == 1
    asyncio.run(batcher.aclose())


async def until(true: object, seconds: float = 5.0) -> None:
    """Wait until a function is true."""
    assert callable(true)
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        await asyncio.sleep(0.001)
