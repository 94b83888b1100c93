"""Coroutines awaited from ordinary code, inside a running event loop too; and many of them to their ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from polyhop.errors import BudgetSpent

T = TypeVar("T")


class LoopThread:
    """An event loop on a thread of its own, so that ordinary code can wait for coroutines anywhere."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="polyhop", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for ``work``; an interrupt cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """Cancel what still runs and end the thread."""
        self.run(_cancel_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


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


async def _cancel_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_default_executor()
