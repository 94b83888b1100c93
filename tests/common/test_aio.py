"""A loop on a thread of its own: begun when it is needed, one for all who wait, ended once."""

from __future__ import annotations

import asyncio
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from polyhop.common import aio as loops
from polyhop.common.aio import LoopThread


def threads() -> int:
    return sum(thread.name == "polyhop" for thread in threading.enumerate())


async def here() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def test_no_thread_begins_before_something_is_awaited() -> None:
    before = threads()
    loop = LoopThread()
    assert (loop.runs, threads()) == (False, before)
    loop.stop()
    assert (loop.runs, threads()) == (False, before)


def test_threads_that_come_at_once_share_one_loop() -> None:
    loop, gate = LoopThread(), threading.Barrier(8)

    def wait() -> asyncio.AbstractEventLoop:
        gate.wait()
        return loop.run(here())

    with ThreadPoolExecutor(8) as pool:
        found = {future.result() for future in [pool.submit(wait) for _ in range(8)]}
    assert len(found) == 1
    loop.stop()


def test_stopping_cancels_what_runs_and_ends_the_thread_and_another_begins_after_it() -> None:
    before, loop = threads(), LoopThread()
    running = asyncio.run_coroutine_threadsafe(asyncio.sleep(1e6), first := loop.run(here()))
    loop.stop()
    assert running.cancelled()
    assert first.is_closed()
    assert (loop.runs, threads()) == (False, before)
    assert loop.run(here()) is not first
    loop.stop()


def test_a_signal_that_does_not_wake_who_waits_is_heard_all_the_same() -> None:
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
def test_a_signal_at_any_moment_of_a_wait_leaves_the_loop_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "HEARS", 0.0005)  # so that many waits begin and end while signals come

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


def test_what_the_work_raises_is_raised() -> None:
    async def fails() -> None:
        raise ValueError("no")

    loop = LoopThread()
    with pytest.raises(ValueError, match="no"):
        loop.run(fails())
    loop.stop()
