"""Work done ahead of its turn. A method's own order decides what counts; what it asks for may already be under way.

Scouts explore where the method will probably go and make calls there, at most ``limit`` at once, the surest first. When
the method itself comes to the same call it takes that reply. What it never takes is wasted, and counted.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from polyhop.engine.run import Run

Order: TypeAlias = tuple[Any, ...]
Start: TypeAlias = Callable[[], Awaitable[Any]]

_order: ContextVar[Order] = ContextVar("polyhop_order", default=())
_depth: ContextVar[int] = ContextVar("polyhop_depth", default=0)


@dataclass(slots=True, eq=False)
class _Work:
    """One call: waiting for its turn, running, or done."""

    start: Start
    depth: int
    """How many calls in a row end with this one."""
    costs: bool
    done: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    task: asyncio.Task[None] | None = None
    taken: bool = False
    holds_turn: bool = False

    def run(self) -> asyncio.Task[None]:
        self.task = asyncio.get_running_loop().create_task(self._settle())
        return self.task

    async def _settle(self) -> None:
        try:
            reply = await self.start()
        except asyncio.CancelledError:
            self.done.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - it is raised where the call is taken
            if not self.done.cancelled():
                self.done.set_exception(error)
                self.done.exception()  # a scout's error that nobody takes is no news
        else:
            if not self.done.cancelled():
                self.done.set_result(reply)


class Ahead:
    """The calls of one question that may run ahead, and the scouts that make them."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._work: dict[Hashable, _Work] = {}
        self._queue: list[tuple[Order, int, _Work]] = []
        self._running = 0
        self._scouts: set[asyncio.Task[None]] = set()
        self._scouted: set[Hashable] = set()
        self._ranks: dict[Hashable, tuple[int, ...]] = {}

    @property
    def wasted(self) -> int:
        """Calls that were begun ahead and never taken."""
        return sum(work.costs and work.task is not None and not work.taken for work in self._work.values())

    def send(self, place: tuple[Hashable, ...], scout: Callable[[], Coroutine[Any, Any, None]], *, sure: bool) -> None:
        """Start a scout for ``place``, once. Calls at ``sure`` places come first, then the depth-first order."""
        if place in self._scouted:
            return
        self._scouted.add(place)
        rank = self._ranks[place] = (*self._ranks.get(place[:-1], ()), len(self._ranks))
        token = _order.set((not sure, rank))
        task = asyncio.get_running_loop().create_task(self._explore(scout))
        _order.reset(token)
        self._scouts.add(task)
        task.add_done_callback(self._scouts.discard)

    async def foresee(self, key: Hashable, start: Start, *, costs: bool = True) -> Any:
        """A scout's call: the reply of ``start()``, made when its turn comes; ``costs=False`` waits for no turn."""
        work = self._work.get(key)
        if work is None:
            work = self._work[key] = _Work(start, _depth.get() + costs, costs)
            if costs:
                heapq.heappush(self._queue, (_order.get(), len(self._work), work))
                self._pump()
            else:
                work.run()
        reply = await asyncio.shield(work.done)
        _depth.set(max(_depth.get(), work.depth))
        return reply

    async def take(self, key: Hashable, start: Start, *, costs: bool = True) -> Any:
        """The method's own call: a reply foreseen or under way, else ``start()`` now."""
        work = self._work.get(key)
        if work is None or (work.task is not None and work.done.cancelled()):
            work = self._work[key] = _Work(start, _depth.get() + costs, costs)
        work.taken = True
        work.task = work.task or work.run()
        self._release(work)  # what the method waits for is no longer ahead of it
        try:
            reply = await asyncio.shield(work.done)
        except asyncio.CancelledError:
            work.task.cancel()  # no call outlives a method that was ended, not even one after ``close``
            raise
        _depth.set(max(_depth.get(), work.depth))
        return reply

    @staticmethod
    def depth() -> int:
        """How many calls in a row lead to here."""
        return _depth.get()

    async def close(self) -> None:
        """Stop all scouts and what they began."""
        self._queue.clear()
        self.limit = 0
        for task in self._scouts:
            task.cancel()
        running = [work.task for work in self._work.values() if work.task is not None and not work.task.done()]
        for task in running:
            task.cancel()
        await asyncio.gather(*self._scouts, *running, return_exceptions=True)

    async def _explore(self, scout: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await scout()
        except Exception:  # noqa: BLE001 - the method meets the same error itself if it comes here
            return

    def _pump(self) -> None:
        while self._queue and self._running < self.limit:
            _, _, work = heapq.heappop(self._queue)
            if work.task is None:
                self._running += 1
                work.holds_turn = True
                work.run().add_done_callback(partial(self._ended, work))

    def _ended(self, work: _Work, task: asyncio.Task[None]) -> None:
        self._release(work)

    def _release(self, work: _Work) -> None:
        if work.holds_turn:
            work.holds_turn = False
            self._running -= 1
            self._pump()


@dataclass(frozen=True, slots=True)
class Scouts:
    """Sends scouts ahead of a method. ``run`` is the ``Run`` they use: it records nothing."""

    ahead: Ahead | None
    run: Run

    def send(
        self, place: tuple[Hashable, ...], scout: Callable[[Any], Coroutine[Any, Any, None]], *, sure: bool
    ) -> None:
        """Start ``scout(place)``, once a place. Calls at places the method is ``sure`` to visit come first, then those
        met first in depth-first order."""
        if self.ahead is not None:
            self.ahead.send(place, sure=sure, scout=partial(scout, place))
