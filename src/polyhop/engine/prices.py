"""Prices per million tokens by model, as the user gives them, in any one currency.

The package knows no price: prices change, and differ from contract to contract.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import orjson

from polyhop.errors import DataError, SettingError
from polyhop.trace import Usage

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
        table = tomllib.loads(content.decode()) if path.suffix == ".toml" else orjson.loads(content)
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
