"""An event loop with a virtual clock: nobody waits, seconds are exact, and a test of time is neither slow nor flaky."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.DefaultSelector):
    """Waits for nothing: the loop's clock is moved on by what it would have waited."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("every task waits for another: nothing can ever happen")
        self.now += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """``loop.time()`` starts at 0 and jumps to the next timer when nothing is left to do. What is handed to a thread is
    done at once and takes no time."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def jump(self, seconds: float) -> None:
        """Let the seconds pass at once, as after a machine was asleep: every timer within them is overdue."""
        self._jumping.now += seconds

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - as an executor does it
            done.set_exception(error)
        return done


def run_virtually(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on a virtual clock.

    >>> async def hour() -> float:
    ...     await asyncio.sleep(3600)
    ...     return asyncio.get_running_loop().time()
    >>> run_virtually(hour())
    3600.0
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
