"""The limiter on a virtual clock: exact times, no waiting."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.errors import SettingError
from polyhop.net.limits import MINUTE, Limiter, Rates
from tests.kit.virtual_clock import run_virtually


async def _starts(limiter: Limiter, calls: list[tuple[float, float, int]]) -> list[float]:
    """Return the time at which each call ``(comes, takes, tokens)`` was let in."""
    loop = asyncio.get_running_loop()
    starts = [0.0] * len(calls)
    under_way: set[int] = set()

    async def one(index: int, comes: float, takes: float, tokens: int) -> None:
        await asyncio.sleep(comes)
        async with limiter.slot(tokens):
            starts[index] = loop.time()
            under_way.add(index)
            assert len(under_way) <= limiter.active <= limiter.max_concurrency
            await asyncio.sleep(takes)
            under_way.remove(index)

    await asyncio.gather(*(one(index, *call) for index, call in enumerate(calls)))
    return starts


SECONDS = st.integers(0, 400).map(lambda quarters: quarters / 4)
CALLS = st.lists(st.tuples(SECONDS, SECONDS, st.integers(0, 40)), min_size=1, max_size=40)


@given(CALLS, st.integers(1, 5))
def test_no_more_at_once_than_allowed_and_first_come_first_served(
    calls: list[tuple[float, float, int]], most: int
) -> None:
    limiter = Limiter(most)
    starts = run_virtually(_starts(limiter, calls))
    come = [comes for comes, _, _ in calls]
    assert all(starts[a] <= starts[b] for a in range(len(calls)) for b in range(len(calls)) if come[a] < come[b])
    assert limiter.active == 0


@given(CALLS, st.integers(1, 6), st.integers(20, 60))
def test_no_minute_holds_more_than_the_limits(
    calls: list[tuple[float, float, int]], most_requests: int, most_tokens: int
) -> None:
    limiter = Limiter(64, Rates(most_requests, most_tokens))
    starts = run_virtually(_starts(limiter, calls))
    for begin in starts:
        inside = [index for index, start in enumerate(starts) if begin <= start < begin + MINUTE - 1e-3]
        assert len(inside) <= most_requests
        tokens = sum(calls[index][2] for index in inside)
        assert tokens <= most_tokens or len([index for index in inside if calls[index][2]]) == 1


def test_a_full_minute_is_waited_out_exactly() -> None:
    starts = run_virtually(_starts(Limiter(64, Rates(requests_per_minute=2)), [(0.0, 1.0, 0)] * 5))
    assert starts == [0, 0, 60, 60, 120]


def test_settled_tokens_let_the_next_call_in_early() -> None:
    async def work() -> list[float]:
        limiter, loop = Limiter(64, Rates(tokens_per_minute=1000)), asyncio.get_running_loop()
        starts = []
        for _ in range(3):
            async with limiter.slot(900) as slot:
                starts.append(loop.time())
                await asyncio.sleep(1)
                slot.used = 100
        async with limiter.slot(900):
            starts.append(loop.time())
        return starts

    # Each took 100 tokens in the end: two of them and an estimate of 900 do not fit, one and 900 do.
    assert run_virtually(work()) == [0, 1, 60, 61]


def test_settling_wakes_who_waits() -> None:
    async def work() -> float:
        limiter, loop = Limiter(64, Rates(tokens_per_minute=1000)), asyncio.get_running_loop()

        async def first() -> None:
            async with limiter.slot(1000) as slot:
                await asyncio.sleep(5)
                slot.used = 10

        async def second() -> float:
            async with limiter.slot(900):
                return loop.time()

        return (await asyncio.gather(first(), second()))[1]

    assert run_virtually(work()) == 5


def test_a_call_that_fits_does_not_pass_one_that_waits() -> None:
    calls = [(0.0, 0.0, 60), (1.0, 0.0, 90), (2.0, 0.0, 10)]
    assert run_virtually(_starts(Limiter(64, Rates(tokens_per_minute=100)), calls)) == [0, 60, 60]


def test_a_call_settled_after_its_minute_changes_nothing() -> None:
    async def work() -> list[float]:
        limiter = Limiter(64, Rates(tokens_per_minute=1000))

        async def long() -> None:
            async with limiter.slot(900) as slot:
                await asyncio.sleep(100)
                slot.used = 100

        task = asyncio.ensure_future(long())
        await asyncio.sleep(70)
        async with limiter.slot():  # sees that the first has left the minute
            await task
        return await _starts(limiter, [(0.0, 0.0, 900), (0.0, 0.0, 900)])

    assert run_virtually(work()) == [100, 160]


def test_a_call_larger_than_the_minute_goes_alone() -> None:
    starts = run_virtually(_starts(Limiter(64, Rates(tokens_per_minute=100)), [(0.0, 0.0, 30), (1.0, 0.0, 500)]))
    assert starts == [0, 60]


def test_nothing_polls() -> None:
    timers = 0

    async def work() -> None:
        nonlocal timers
        loop, later = asyncio.get_running_loop(), asyncio.get_running_loop().call_later

        def counted(*arguments: object, **options: object) -> asyncio.TimerHandle:
            nonlocal timers
            timers += 1
            return later(*arguments, **options)  # type: ignore[arg-type]

        loop.call_later = counted  # type: ignore[method-assign]
        limiter = Limiter(64, Rates(requests_per_minute=1))

        async def one() -> None:
            async with limiter.slot():
                pass

        await asyncio.gather(one(), one())

    run_virtually(work())
    assert timers <= 2


async def test_a_cancelled_wait_leaves_the_queue() -> None:
    limiter = Limiter(1)
    await limiter.acquire(0)
    waiting = [asyncio.ensure_future(limiter.acquire(0)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    waiting[1].cancel()
    await asyncio.sleep(0)
    limiter.release(None)
    await waiting[2]
    limiter.release(None)
    assert limiter.active == 0


async def test_cancelled_in_the_moment_of_entering_gives_the_place_on() -> None:
    limiter = Limiter(1)
    await limiter.acquire(0)
    first, second = (asyncio.ensure_future(limiter.acquire(0)) for _ in range(2))
    await asyncio.sleep(0)
    limiter.release(None)  # lets the first in, which is cancelled before it can run
    first.cancel()
    await second
    assert first.cancelled()
    assert limiter.active == 1
    limiter.release(None)


def test_a_cancelled_waiter_lets_a_smaller_call_in() -> None:
    async def work() -> float:
        limiter, loop = Limiter(64, Rates(tokens_per_minute=100)), asyncio.get_running_loop()
        async with limiter.slot(60):
            pass
        large = asyncio.ensure_future(limiter.acquire(90))
        await asyncio.sleep(1)
        small = asyncio.ensure_future(limiter.acquire(20))
        await asyncio.sleep(1)
        large.cancel()
        await small
        limiter.release(None)
        return loop.time()

    assert run_virtually(work()) == 2


@given(st.lists(st.tuples(SECONDS, SECONDS, SECONDS | st.none()), min_size=1, max_size=25))
def test_no_place_is_lost_however_calls_are_cancelled(calls: list[tuple[float, float, float | None]]) -> None:
    async def work() -> int:
        limiter = Limiter(2, Rates(requests_per_minute=10))

        async def one(comes: float, takes: float) -> None:
            await asyncio.sleep(comes)
            async with limiter.slot():
                await asyncio.sleep(takes)

        async def cancelled(comes: float, takes: float, after: float | None) -> None:
            task = asyncio.ensure_future(one(comes, takes))
            await asyncio.wait([task], timeout=after)
            task.cancel()

        await asyncio.gather(*(cancelled(*call) for call in calls))
        async with limiter.slot(), limiter.slot():
            return limiter.active

    assert run_virtually(work()) == 2


def test_rates_are_shared_by_loops_and_outlive_them() -> None:
    rates = Rates(requests_per_minute=1)
    assert run_virtually(_starts(Limiter(1, rates), [(0.0, 0.0, 0)])) == [0]
    assert run_virtually(_starts(Limiter(1, rates), [(0.0, 0.0, 0)])) == [60]


def test_another_clock_far_behind_does_not_wait_for_the_first() -> None:
    rates = Rates(requests_per_minute=1)
    rates.charge(0, now=1e6)
    assert rates.delay(0, now=5.0) == 0


@pytest.mark.parametrize("wrong", [{"requests_per_minute": 0}, {"tokens_per_minute": -1}])
def test_wrong_limits_are_named(wrong: dict[str, int]) -> None:
    with pytest.raises(SettingError, match=next(iter(wrong))):
        Rates(**wrong)


def test_no_call_at_once_is_an_error() -> None:
    with pytest.raises(SettingError, match="max_concurrency=0"):
        Limiter(0)
