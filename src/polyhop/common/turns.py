"""The time that work takes by itself, without waiting for its turn.

What makes work wait, such as a limiter of concurrent calls or a queue in front of a thread, reports the wait; whoever
wants to know how long the work takes alone measures it with ``timed``. Waits of tasks that the work starts count too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class _Timer:
    waits: list[tuple[float, float]] = field(default_factory=list)
    recorded: float = 0.0


_timer: ContextVar[_Timer | None] = ContextVar("polyhop_timer", default=None)


async def timed(work: Awaitable[T]) -> tuple[T, float]:
    """Return the result of work, and its seconds without those in which it waited for its turn.

    >>> async def queued() -> None:
    ...     waited(0.0, asyncio.get_running_loop().time())
    >>> asyncio.run(timed(queued()))[1] < 0.001
    True
    """
    outer, timer = _timer.get(), _Timer()
    token = _timer.set(timer)
    begun = _now()
    try:
        result = await work
    finally:
        _timer.reset(token)
        if outer is not None:
            outer.waits += timer.waits
            outer.recorded += timer.recorded
    waits = _covered(timer.waits, begun) if timer.waits else 0.0
    return result, max(0.0, _now() - begun - waits) + timer.recorded


def waited(begun: float, ended: float | None = None) -> None:
    """Report that the current work waited for its turn, from ``begun`` until now or ``ended`` on the loop's clock."""
    if (timer := _timer.get()) is not None:
        timer.waits.append((begun, _now() if ended is None else ended))


def took(seconds: float) -> None:
    """Add the seconds that work took when it was done, whose result is now taken from a cache."""
    if (timer := _timer.get()) is not None:
        timer.recorded += seconds


async def let_others_run() -> None:
    """Let the other tasks of the loop run; that is waiting."""
    begun = _now()
    await asyncio.sleep(0)
    waited(begun)


async def worked(done: Awaitable[tuple[T, float]]) -> T:
    """Return the result of work elsewhere that measured its own seconds; all other time was waiting."""
    begun = _now()
    result, seconds = await done
    waited(begun, _now() - seconds)
    return result


async def in_thread(work: Callable[..., T], *args: Any) -> T:
    """Run a function in a thread of the loop; waiting for a free one is waiting."""
    return await worked(asyncio.to_thread(measured, work, *args))


def measured(work: Callable[..., T], *args: Any) -> tuple[T, float]:
    """Call a function; return its result and seconds."""
    begun = perf_counter()
    return work(*args), perf_counter() - begun


def _covered(waits: list[tuple[float, float]], begun: float) -> float:
    """Return the seconds after ``begun`` in which at least one of the waits was under way.

    >>> _covered([(4, 6), (1, 3), (2, 5), (9, 8)], 0)
    5
    """
    total: float = 0
    end = begun
    for first, last in sorted(waits):
        if last > (first := max(first, end)):
            total += last - first
            end = last
    return total


def _now() -> float:
    return asyncio.get_running_loop().time()
