"""Prices of tokens, and limits on the calls, tokens, seconds and cost of one question.

Prices are per million tokens, by model, as the user gives them, in any one currency. The package knows no price: prices
change, and differ from contract to contract.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import orjson

from polyhop.common.toml import parse_toml
from polyhop.errors import BudgetSpent, DataError, SettingError, brief
from polyhop.trace import Usage
from polyhop.types import MAX_INTEGER

ANY_MODEL = "*"
"""The name in a table that stands for every model without its own price."""

_PAIR = re.compile(r"([0-9.]+):([0-9.]+)")
_FORM = 'a price is {"prompt": number, "completion": number}, per million tokens'


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a million tokens."""

    prompt: float
    completion: float


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices by the name of a model: in full, such as ``openai:MODEL@URL``, or only ``MODEL``; ``*`` for all others."""

    by_model: Mapping[str, Price]

    @classmethod
    def of(cls, given: str | Path | Mapping[str, Any] | Prices) -> Prices:
        """Read ``"PROMPT:COMPLETION"`` for every model, a mapping, or a JSON or TOML file with one.

        >>> Prices.of("0.5:1.5")["openai:any"]
        Price(prompt=0.5, completion=1.5)
        """
        if isinstance(given, Prices):
            return given
        if isinstance(given, str) and (pair := _PAIR.fullmatch(given.strip())):
            return cls({ANY_MODEL: _price(given, pair[1], pair[2])})
        table = given if isinstance(given, Mapping) else _read(Path(given))
        return cls({str(name): _price_of(str(name), price) for name, price in table.items()})

    def __getitem__(self, model: str) -> Price:
        short = model.partition(":")[2].partition("@")[0]
        for name in (model, short, ANY_MODEL):
            if name in self.by_model:
                return self.by_model[name]
        known = ", ".join(self.by_model) or "none"
        raise SettingError(
            f"no price is given for {model} (prices are for: {known}); give it one, or one for '{ANY_MODEL}'"
        )

    def cost(self, model: str, prompt_tokens: int, completion_tokens: int) -> float:
        """Return the cost of a call."""
        price = self[model]
        return (prompt_tokens * price.prompt + completion_tokens * price.completion) / 1_000_000

    def total(self, usage: Usage) -> float:
        """Return the cost of a question or a run, as if no reply had come from the cache."""
        names = dict.fromkeys((*usage.prompt_tokens_by_model, *usage.completion_tokens_by_model))
        prompt, completion = usage.prompt_tokens_by_model, usage.completion_tokens_by_model
        return sum(self.cost(name, prompt.get(name, 0), completion.get(name, 0)) for name in names)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values."""
        return {name: asdict(price) for name, price in self.by_model.items()}


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = path.read_bytes()
        table = parse_toml(content.decode()) if path.suffix == ".toml" else orjson.loads(content)
    except OSError as error:
        raise DataError(
            f"prices must be PROMPT:COMPLETION, such as 0.15:0.6, or a file: {error.strerror}", path
        ) from None
    except ValueError:
        raise DataError("no table of prices in JSON or TOML", path) from None
    if not isinstance(table, dict) or not table:
        raise DataError(f"no table of prices by model name; {_FORM}", path)
    return table


def _price_of(name: str, price: Any) -> Price:
    if not isinstance(price, Mapping) or set(price) != {"prompt", "completion"}:
        raise SettingError(f"the price of {name} is {price!r}: {_FORM}")
    return _price(name, price["prompt"], price["completion"])


def _price(name: str, prompt: Any, completion: Any) -> Price:
    try:
        price = Price(float(prompt), float(completion))
    except (TypeError, ValueError):
        raise SettingError(f"the price of {name} is not a number: {prompt!r}, {completion!r}") from None
    if not all(isfinite(amount) and amount >= 0 for amount in (price.prompt, price.completion)):
        raise SettingError(f"the price of {name} must be 0 or more: {prompt!r}, {completion!r}")
    return price


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
        """Raise ``BudgetSpent`` if nothing more may be gathered; ``call``: the next step is a language model call, not
        a search or a reading."""
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
