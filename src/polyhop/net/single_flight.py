"""Equal calls that are under way at once, made one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class _Call(Generic[T]):
    """A call under way, and how many wait for it."""

    task: asyncio.Task[T]
    waiting: int = 0


class Joining(Generic[T]):
    """Calls by their key, in each event loop by themselves. A call goes on as long as anyone waits for it; all who do
    get the same reply, or the same error."""

    def __init__(self) -> None:
        self._calls: dict[tuple[bytes, asyncio.AbstractEventLoop], _Call[T]] = {}

    async def ask(self, key: bytes, start: Callable[[], Coroutine[Any, Any, T]]) -> tuple[T, bool]:
        """The reply of ``start()``, or of the equal call that is under way; and whether it was that one's."""
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
                self._forget(key, loop, call)  # at once: whoever comes now must not join a call that is being cancelled
                call.task.cancel()

    def _forget(self, key: bytes, loop: asyncio.AbstractEventLoop, call: _Call[T]) -> None:
        if self._calls.get((key, loop)) is call:
            del self._calls[key, loop]
        if call.task.done() and not call.task.cancelled():
            call.task.exception()  # seen, though all who waited may be gone
