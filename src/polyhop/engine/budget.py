"""Limits on one question, and what is left of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from polyhop.engine.prices import Prices
from polyhop.errors import BudgetSpent, SettingError, Waiting, brief
from polyhop.types import MAX_INTEGER

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)

LIMITS = ("max_calls", "max_tokens", "max_seconds", "max_cost")

_STILL, _A_WHILE = 20, 0.002
"""Turns of the loop in which nothing happens before a question is taken to wait; seconds between two looks while
something is under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits on one question, None for none. One call of ``max_calls`` is kept for the method's final one; the others
    stop the gathering, and the final call may go past them. ``max_cost`` is in the currency of ``prices``."""

    max_calls: int | None = None
    max_tokens: int | None = None
    max_seconds: float | None = None
    max_cost: float | None = None
    prices: Prices | None = None

    def __post_init__(self) -> None:
        for name in LIMITS:
            value = getattr(self, name)
            if value is not None:
                check_limit(name, value)
        if self.max_cost is not None and self.prices is None:
            raise SettingError(f"max_cost={self.max_cost}: give the prices of tokens too (prices=, --price)")

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values: the limits, and the prices where they decide."""
        limits: dict[str, Any] = {name: getattr(self, name) for name in LIMITS}
        return limits if self.max_cost is None or self.prices is None else {**limits, "prices": self.prices.to_dict()}


def check_limit(name: str, value: float, maximum: int = MAX_INTEGER) -> None:
    """Raise ``SettingError`` unless the value of a limit is above 0 and at most ``maximum``."""
    if not 0 < value <= maximum:
        raise SettingError(f"{name}={brief(value)}: must be above 0 and at most {maximum}")


class Meter:
    """What one question has used of its budget. ``clock()`` tells its seconds."""

    def __init__(self, budget: Budget, clock: Callable[[], float]) -> None:
        self.budget, self.clock = budget, clock
        self.calls = self.tokens = 0
        self.cost = 0.0
        self._begun = self._ended = self._waiting = 0

    def pay(self, model: str, prompt_tokens: int, completion_tokens: int) -> None:
        """Count a call's tokens and, where there is a limit on it, its cost."""
        self.tokens += prompt_tokens + completion_tokens
        if self.budget.max_cost is not None and self.budget.prices is not None:
            self.cost += self.budget.prices.cost(model, prompt_tokens, completion_tokens)

    def room(self, reserve: int) -> bool:
        """Whether another call is left besides ``reserve`` ones."""
        most = self.budget.max_calls
        return most is None or self.calls < most - reserve

    def check(self, *, call: bool) -> None:
        """Raise ``BudgetSpent`` when nothing more may be gathered; ``call``: by a language model call, which a search
        or a reading is not."""
        budget = self.budget
        if call and not self.room(reserve=1):
            raise BudgetSpent("max_calls")
        if budget.max_tokens is not None and self.tokens >= budget.max_tokens:
            raise BudgetSpent("max_tokens")
        if budget.max_cost is not None and self.cost >= budget.max_cost:
            raise BudgetSpent("max_cost")
        if budget.max_seconds is not None and self.clock() >= budget.max_seconds:
            raise BudgetSpent("max_seconds")

    async def within(self, work: Awaitable[T], *, final: bool = False) -> T:
        """Wait for ``work``, no longer than the budget's seconds unless it is the final call.

        ``Waiting`` is raised when all else that the question does at the same time waits too: what raises ends the
        others, whose calls shall be in the same batch.
        """
        self._begun += 1
        try:
            return await self._timed(work, final)
        except Waiting:
            await self._rest()
            raise
        finally:
            self._ended += 1

    async def _timed(self, work: Awaitable[T], final: bool) -> T:
        most = self.budget.max_seconds
        if most is None or final:
            return await work
        try:
            async with asyncio.timeout(max(0.0, most - self.clock())) as limit:
                return await work
        except TimeoutError:
            if limit.expired():
                raise BudgetSpent("max_seconds") from None
            raise

    async def _rest(self) -> None:
        """Until nothing is under way but what waits, and nothing new has begun for some turns of the loop. To go too
        early would cost a batch more, and change nothing else."""
        self._waiting += 1
        still, seen = 0, (0, 0)
        try:
            while still < _STILL:
                busy = self._begun - self._ended > self._waiting
                await asyncio.sleep(_A_WHILE if busy else 0)
                now = (self._begun, self._ended)
                still, seen = (still + 1, now) if now == seen and not busy else (0, now)
        finally:
            self._waiting -= 1


@contextmanager
def until_spent(mark: Callable[[BudgetSpent], None]) -> Iterator[None]:
    """Leave the block when the budget is spent, from any depth or task group, and ``mark`` it."""
    try:
        yield
    except BudgetSpent as spent:
        mark(spent)
    except BaseExceptionGroup as group:
        ours, others = group.split(BudgetSpent)
        if others is not None:
            raise _first(others) from group  # the error itself, as it would come without a task group
        if ours is not None:
            mark(_first(ours))


def _first(group: BaseExceptionGroup[E]) -> E:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
