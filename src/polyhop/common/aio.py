"""Run coroutines from synchronous code, even inside a running event loop; run many at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from polyhop.errors import BudgetSpent, Waiting

T = TypeVar("T")

SIGNAL_POLL_SECONDS = 0.5
"""Seconds between checks for signals: a signal that comes just before Python waits does not interrupt the wait."""


class LoopThread:
    """An event loop on its own thread, so that synchronous code can wait for coroutines on any thread.

    The thread starts with the first coroutine and, after ``stop``, with the next one.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()

    @property
    def is_running(self) -> bool:
        """True if the thread has started."""
        return self._loop is not None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for ``work`` and return its result; an interrupt cancels it."""
        with self._starting:
            loop = self._loop = self._loop or _start_loop()
        return _wait(work, loop)

    def stop(self) -> None:
        """Cancel everything that still runs and end the thread, if it has started."""
        with self._starting:
            loop, self._loop = self._loop, None
        if loop is not None:
            thread = _wait(_cancel_others(), loop)
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


def _start_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="polyhop", daemon=True).start()
    return loop


def _wait(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    ended = threading.Lock()  # instead of future.result(): a signal during that wait leaves the future's lock held
    ended.acquire()
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        future.add_done_callback(lambda _: ended.release())
        while not ended.acquire(timeout=SIGNAL_POLL_SECONDS):
            pass
        return future.result()
    except BaseException:
        future.cancel()
        raise


async def gather(
    *work: Coroutine[Any, Any, T],
    finish_all: bool = False,
    start: Callable[[Coroutine[Any, Any, T]], asyncio.Task[T]] | None = None,
) -> list[T]:
    """Run coroutines at once; return their results in order.

    The first error cancels the others and is raised. With ``finish_all`` the others run to their end before that, and
    a spent budget is raised only if nothing else failed. A call that is ``Waiting`` cancels nothing: the calls beside
    it belong to the same batch. ``start`` makes a coroutine a task.

    >>> asyncio.run(gather(*(asyncio.sleep(0, result=n) for n in range(3))))
    [0, 1, 2]
    """
    tasks = [(start or asyncio.get_running_loop().create_task)(coroutine) for coroutine in work]

    others = list(tasks)

    def cancel_others(failed: asyncio.Task[T]) -> None:
        error = None if failed.cancelled() else failed.exception()
        if error is not None and not isinstance(error, Waiting):
            for task in others:
                task.cancel()
            others.clear()  # once: a thousand that fail together must not cancel each other a million times

    if not finish_all:
        for task in tasks:
            task.add_done_callback(cancel_others)
    if tasks:
        try:
            await asyncio.wait(tasks)
        except asyncio.CancelledError:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            raise
    if errors := [error for task in tasks if not task.cancelled() and (error := task.exception())]:
        rank = {BudgetSpent: 1, Waiting: 0 if finish_all else 2}
        raise min(errors, key=lambda error: rank.get(type(error), 0))
    return [task.result() for task in tasks]


def is_waiting(error: BaseException) -> bool:
    """Return True for a call that waits for its batch, and for a task group that failed for such calls alone."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_waiting, error.exceptions))
    return isinstance(error, Waiting)


async def _cancel_others() -> threading.Thread:
    """Cancel all other tasks of this loop; return the thread that it runs on."""
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_default_executor()
    return threading.current_thread()
