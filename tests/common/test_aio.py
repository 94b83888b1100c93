"""A loop on its own thread, shared by all who wait; and gather."""

from __future__ import annotations

import asyncio
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from polyhop.common import aio as loops
from polyhop.common.aio import LoopThread, gather
from polyhop.errors import BudgetSpent, Waiting
from tests.kit.virtual_clock import run_virtually


def threads() -> int:
    return sum(thread.name == "polyhop" for thread in threading.enumerate())


async def here() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def test_no_thread_starts_before_something_is_awaited() -> None:
    before = threads()
    loop = LoopThread()
    assert (loop.is_running, threads()) == (False, before)
    loop.stop()
    assert (loop.is_running, threads()) == (False, before)


def test_concurrent_threads_share_one_loop() -> None:
    loop, gate = LoopThread(), threading.Barrier(8)

    def wait() -> asyncio.AbstractEventLoop:
        gate.wait()
        return loop.run(here())

    with ThreadPoolExecutor(8) as pool:
        found = {future.result() for future in [pool.submit(wait) for _ in range(8)]}
    assert len(found) == 1
    loop.stop()


def test_stop_cancels_tasks_and_ends_the_thread() -> None:
    before, loop = threads(), LoopThread()
    running = asyncio.run_coroutine_threadsafe(asyncio.sleep(1e6), first := loop.run(here()))
    loop.stop()
    assert running.cancelled()
    assert first.is_closed()
    assert (loop.is_running, threads()) == (False, before)
    assert loop.run(here()) is not first
    loop.stop()


def test_a_signal_that_does_not_interrupt_the_wait_is_handled() -> None:
    """As when it comes just before the wait begins: here another thread gets it."""
    ended: list[bool] = []

    async def interrupted() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        await asyncio.sleep(20)
        ended.append(True)

    loop, before = LoopThread(), signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run(interrupted())
    finally:
        signal.signal(signal.SIGINT, before)
        loop.stop()
    assert not ended


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer's signal")
def test_a_signal_at_any_moment_leaves_the_loop_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "SIGNAL_POLL_SECONDS", 0.0005)  # so that many waits begin and end while signals come

    async def interrupted(after: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, after)
        await asyncio.sleep(20)

    loop, before = LoopThread(), signal.signal(signal.SIGALRM, signal.default_int_handler)
    running = loop.run(here())
    try:
        for number in range(300):
            with pytest.raises(KeyboardInterrupt):
                loop.run(interrupted(0.0002 + number * 1e-5))
            assert asyncio.run_coroutine_threadsafe(here(), running).result(timeout=20) is running
    finally:
        signal.signal(signal.SIGALRM, before)
    loop.stop()


def test_errors_are_raised() -> None:
    async def fails() -> None:
        raise ValueError("no")

    loop = LoopThread()
    with pytest.raises(ValueError, match="no"):
        loop.run(fails())
    loop.stop()


# --- gather --------------------------------------------------------------------------------------------------------


class Work:
    """Coroutines that take some seconds to a result or an error; ``ended`` lists those that were not cancelled."""

    def __init__(self) -> None:
        self.ended: list[float] = []

    async def __call__(self, seconds: float, error: Exception | None = None) -> float:
        await asyncio.sleep(seconds)
        self.ended.append(seconds)
        if error:
            raise error
        return seconds


def test_gather_keeps_the_order() -> None:
    work = Work()
    assert run_virtually(gather(work(2), work(1), work(3))) == [2, 1, 3]
    assert work.ended == [1, 2, 3]
    assert run_virtually(gather()) == []


@pytest.mark.parametrize(("finish_all", "ended"), [(False, [1]), (True, [1, 2])])
def test_an_error_cancels_the_others_unless_all_finish(finish_all: bool, ended: list[float]) -> None:
    work = Work()
    with pytest.raises(ValueError, match="no"):
        run_virtually(gather(work(2), work(1, ValueError("no")), finish_all=finish_all))
    assert work.ended == ended


@pytest.mark.parametrize("finish_all", [False, True])
def test_an_error_is_raised_before_a_spent_budget(finish_all: bool) -> None:
    work = Work()
    with pytest.raises(ValueError, match="no"):
        run_virtually(gather(work(1, BudgetSpent("max_calls")), work(1, ValueError("no")), finish_all=finish_all))


@pytest.mark.parametrize(
    ("finish_all", "other", "raised"),
    [
        (False, None, Waiting),
        (False, BudgetSpent("max_calls"), BudgetSpent),  # it would have cancelled the call that waits
        (True, BudgetSpent("max_calls"), Waiting),  # what the call that waits comes to would have been kept
    ],
)
def test_a_call_that_waits_for_a_batch_cancels_nothing(
    finish_all: bool, other: Exception | None, raised: type[Exception]
) -> None:
    work = Work()
    with pytest.raises(raised):
        run_virtually(gather(work(1, Waiting("later")), work(2, other), finish_all=finish_all))
    assert work.ended == [1, 2]


def test_nothing_outlives_a_cancelled_gather() -> None:
    work = Work()

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(gather(work(1), work(3), work(4)), 2)
        assert len(asyncio.all_tasks()) == 1

    run_virtually(main())
    assert work.ended == [1]
