"""Limits on the calls, tokens, seconds and cost of one question."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

from polyhop.engine.prices import Prices
from polyhop.errors import BudgetSpent, SettingError, brief
from polyhop.types import MAX_INTEGER

E = TypeVar("E", bound=BaseException)

LIMITS = ("max_calls", "max_tokens", "max_seconds", "max_cost")


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits on one question; None is no limit.

    One call of ``max_calls`` is reserved for the method's final call. The other limits end the gathering, and the final
    call may exceed them. ``max_cost`` is in the currency of ``prices``.
    """

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
        """Return the limits as JSON-ready values, and the prices if cost is limited."""
        limits: dict[str, Any] = {name: getattr(self, name) for name in LIMITS}
        return limits if self.max_cost is None or self.prices is None else {**limits, "prices": self.prices.to_dict()}


def check_limit(name: str, value: float, maximum: int = MAX_INTEGER) -> None:
    """Raise ``SettingError`` unless the value of a limit is above 0 and at most ``maximum``."""
    if not 0 < value <= maximum:
        raise SettingError(f"{name}={brief(value)}: must be above 0 and at most {maximum}")


class Meter:
    """Counts the calls, tokens and cost of one question. ``clock()`` returns the seconds since it started."""

    def __init__(self, budget: Budget, clock: Callable[[], float]) -> None:
        self.budget, self.clock = budget, clock
        self.calls = self.tokens = 0
        self.cost = 0.0

    def has_calls_left(self, reserve: int) -> bool:
        """True if the budget allows another call besides ``reserve`` ones."""
        return self.budget.max_calls is None or self.calls < self.budget.max_calls - reserve

    def check(self, *, call: bool) -> None:
        """Raise ``BudgetSpent`` if nothing more may be gathered; ``call``: by a language model call, as opposed to a
        search or a reading."""
        budget = self.budget
        if call and not self.has_calls_left(reserve=1):
            raise BudgetSpent("max_calls")
        if budget.max_tokens is not None and self.tokens >= budget.max_tokens:
            raise BudgetSpent("max_tokens")
        if budget.max_cost is not None and self.cost >= budget.max_cost:
            raise BudgetSpent("max_cost")
        if budget.max_seconds is not None and self.clock() >= budget.max_seconds:
            raise BudgetSpent("max_seconds")

    def charge(self, model: str, prompt_tokens: int, completion_tokens: int) -> None:
        """Count the tokens of a call and, if cost is limited, its cost."""
        self.tokens += prompt_tokens + completion_tokens
        if self.budget.max_cost is not None and self.budget.prices is not None:
            self.cost += self.budget.prices.cost(model, prompt_tokens, completion_tokens)

    def deadline(self, *, final: bool = False) -> AbstractAsyncContextManager[None]:
        """Cut the block short when the budget's seconds are used up, unless it is the final call."""
        max_seconds = self.budget.max_seconds
        return _NO_DEADLINE if max_seconds is None or final else _deadline(max_seconds - self.clock())


_NO_DEADLINE = nullcontext()


@asynccontextmanager
async def _deadline(seconds: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(max(0.0, seconds)) as limit:
            yield
    except TimeoutError:
        if limit.expired():
            raise BudgetSpent("max_seconds") from None
        raise


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
