"""What tokens cost: prices a million tokens by model, as the user gives them, in any one currency.

No price is known here: they change, and differ from contract to contract.
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
"""The name in a table that stands for every model without a price of its own."""

_PAIR = re.compile(r"([0-9.]+):([0-9.]+)")
_FORM = 'a price is {"prompt": number, "completion": number}, a million tokens'


@dataclass(frozen=True, slots=True)
class Price:
    """Of a million tokens."""

    prompt: float
    completion: float


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices by a model's name: whole, as ``openai:MODEL@URL``, or only ``MODEL``; ``*`` for all others."""

    by_model: Mapping[str, Price]

    @classmethod
    def of(cls, given: str | Path | Mapping[str, Any] | Prices) -> Prices:
        """``"PROMPT:COMPLETION"`` for every model, a mapping, or a JSON or TOML file that holds one.

        >>> Prices.of("0.5:1.5")["openai:any"]
        Price(prompt=0.5, completion=1.5)
        """
        if isinstance(given, Prices):
            return given
        if isinstance(given, str) and (pair := _PAIR.fullmatch(given.strip())):
            return cls({ANY_MODEL: _price(given, pair[1], pair[2])})
        table = given if isinstance(given, Mapping) else _read(Path(given))
        return cls({str(name): _named(str(name), price) for name, price in table.items()})

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
        """What a call costs."""
        price = self[model]
        return (prompt_tokens * price.prompt + completion_tokens * price.completion) / 1_000_000

    def total(self, usage: Usage) -> float:
        """What a question or a run cost, replies out of the cache as if they were asked for anew."""
        names = dict.fromkeys((*usage.prompt_tokens_by_model, *usage.completion_tokens_by_model))
        asked, told = usage.prompt_tokens_by_model, usage.completion_tokens_by_model
        return sum(self.cost(name, asked.get(name, 0), told.get(name, 0)) for name in names)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {name: asdict(price) for name, price in self.by_model.items()}


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = path.read_bytes()
        told = tomllib.loads(content.decode()) if path.suffix == ".toml" else orjson.loads(content)
    except OSError as error:
        raise DataError(f"prices must be PROMPT:COMPLETION, as 0.15:0.6, or a file: {error.strerror}", path) from None
    except ValueError:
        raise DataError("no table of prices in JSON or TOML", path) from None
    if not isinstance(told, dict) or not told:
        raise DataError(f"no table of prices by model's name; {_FORM}", path)
    return told


def _named(name: str, told: Any) -> Price:
    if not isinstance(told, Mapping) or set(told) != {"prompt", "completion"}:
        raise SettingError(f"the price of {name} is {told!r}: {_FORM}")
    return _price(name, told["prompt"], told["completion"])


def _price(name: str, prompt: Any, completion: Any) -> Price:
    try:
        price = Price(float(prompt), float(completion))
    except (TypeError, ValueError):
        raise SettingError(f"the price of {name} is not a number: {prompt!r}, {completion!r}") from None
    if not all(isfinite(each) and each >= 0 for each in (price.prompt, price.completion)):
        raise SettingError(f"the price of {name} must be 0 or more: {prompt!r}, {completion!r}")
    return price
