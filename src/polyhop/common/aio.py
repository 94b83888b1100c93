"""Coroutines awaited from ordinary code, inside a running event loop too; and many of them to their ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from polyhop.errors import BudgetSpent

T = TypeVar("T")

HEARS = 0.5
"""Seconds after which whoever waits looks for signals: one that comes just before Python waits does not wake it."""


class LoopThread:
    """An event loop on a thread of its own, so that ordinary code can wait for coroutines anywhere, on any thread. It
    begins with the first of them; after ``stop`` with the next."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._starting = threading.Lock()

    @property
    def runs(self) -> bool:
        """Whether it has begun."""
        return self._loop is not None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for ``work``; an interrupt cancels it."""
        with self._starting:
            loop = self._loop = self._loop or _begun()
        return _waited(work, loop)

    def stop(self) -> None:
        """Cancel what still runs and end the thread, if it has begun."""
        with self._starting:
            loop, self._loop = self._loop, None
        if loop is not None:
            thread = _waited(_cancel_others(), loop)
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


def _begun() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="polyhop", daemon=True).start()
    return loop


def _waited(work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
    ended = threading.Lock()  # and not the future's own waiting: a signal amid that leaves it locked for its loop
    ended.acquire()
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        future.add_done_callback(lambda _: ended.release())
        while not ended.acquire(timeout=HEARS):
            pass
        return future.result()
    except BaseException:
        future.cancel()
        raise


async def all_ended(work: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Wait for all of it; only then raise what one of them raised: a budget that is spent leaves what was done."""
    ended = await asyncio.gather(*work, return_exceptions=True)
    errors = [error for error in ended if error is not None]
    if errors:
        raise min(errors, key=lambda error: isinstance(error, BudgetSpent))


async def together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All of it at once, the results in order; where some of it fails, the rest is given up."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


async def _cancel_others() -> threading.Thread:
    """Cancel what else runs on this loop; the thread that it runs on."""
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_default_executor()
    return threading.current_thread()
