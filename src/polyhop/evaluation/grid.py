"""Points of a search of settings: the combinations of a grid, and the name of a point's folder."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import product
from typing import Any

from polyhop.errors import SettingError

_UNSAFE = re.compile(r"[^a-z0-9._=,-]+")
_LONGEST = 100


def combinations(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Every choice of one value for each name, the last name's values changing first.

    >>> combinations({"k": [1, 2], "shots": [0]})
    [{'k': 1, 'shots': 0}, {'k': 2, 'shots': 0}]

    Raises:
        SettingError: a name has no list of values, or an empty one.
    """
    for name, values in grid.items():
        if not isinstance(values, (list, tuple)):
            raise SettingError(f"{name}={values!r}: must be a list of values to try")
        if not values:
            raise SettingError(f"{name}: no value to try")
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def folder_name(point: Mapping[str, Any]) -> str:
    """The name of a point's folder, the same wherever it stands among others. What no file system can bear is left
    out, and a hash of the whole put behind.

    >>> folder_name({"retrieve_below": 0.8, "widths": (5, 3), "guidance": False})
    'retrieve_below=0.8,widths=5-3,guidance=false'
    >>> folder_name({"lm": "openai:M@http://host"})
    'lm=openai-m-http-host-45382bab'
    """
    text = ",".join(f"{name}={_text(value)}" for name, value in point.items())
    safe = _UNSAFE.sub("-", text.lower()) or "base"
    if not text or (safe == text and len(text) <= _LONGEST):
        return safe
    return f"{safe[:_LONGEST]}-{blake2b(text.encode(), digest_size=4).hexdigest()}"


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return "-".join(map(_text, value))
    if isinstance(value, Mapping):
        return "-".join(f"{name}={_text(item)}" for name, item in value.items())
    return str(getattr(value, "name", value)) if not isinstance(value, (str, int, float)) else str(value)
