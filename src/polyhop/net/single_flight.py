"""Deduplicate identical calls in flight (single-flight)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class _Call(Generic[T]):
    """A call in flight, and the number of its callers."""

    task: asyncio.Task[T]
    waiting: int = 0


class SingleFlight(Generic[T]):
    """Calls in flight by key, apart for each event loop. A call goes on while anyone waits for it; all who wait get the
    same reply, or the same error."""

    def __init__(self) -> None:
        self._calls: dict[tuple[bytes, asyncio.AbstractEventLoop], _Call[T]] = {}

    async def run(self, key: bytes, start: Callable[[], Coroutine[Any, Any, T]]) -> tuple[T, bool]:
        """Return the reply of ``start()`` or of the identical call in flight, and True if it was the latter."""
        loop = asyncio.get_running_loop()
        call = self._calls.get((key, loop))
        joined = call is not None
        if call is None:
            call = self._calls[key, loop] = _Call(loop.create_task(start()))
            call.task.add_done_callback(lambda _: self._forget(key, loop, call))
        call.waiting += 1
        try:
            return await asyncio.shield(call.task), joined
        finally:
            call.waiting -= 1
            if not call.waiting and not call.task.done():
                self._forget(key, loop, call)  # at once: a new caller must not join a call that is being cancelled
                call.task.cancel()

    def _forget(self, key: bytes, loop: asyncio.AbstractEventLoop, call: _Call[T]) -> None:
        if self._calls.get((key, loop)) is call:
            del self._calls[key, loop]
        if call.task.done() and not call.task.cancelled():
            call.task.exception()  # retrieved, though all callers may be gone
