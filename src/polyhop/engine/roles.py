"""Options of the calls of one role or task: temperature, token cap and head-room for thoughts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from polyhop.errors import SettingError, UnknownName, brief
from polyhop.types import MAX_INTEGER

RoleOptions = Mapping[str, Mapping[str, Any]]
"""Options by role or task, and ``default`` for all; the most specific of task, role and ``default`` is used."""

_MIN_VALUES: Mapping[str, int] = {"temperature": 0, "max_tokens_per_call": 1, "reasoning_tokens": 0}
"""The options that a role or task may have, and the least value of each."""


def options_of(options: RoleOptions, task: str, role: str) -> dict[str, Any]:
    """Return the options of a task's calls in a role.

    >>> options_of({"default": {"temperature": 0.7}, "reviewer": {"temperature": 0}}, "tor.review", "reviewer")
    {'temperature': 0}
    """
    found: dict[str, Any] = {}
    for name in ("default", role, task):
        found |= options.get(name, {})
    return found


def checked(options: RoleOptions | None, names: Collection[str]) -> RoleOptions:
    """Return the options if each is known and has a valid value, and each role or task is one of ``names``.

    Raises:
        UsageError: a role, task or option is unknown, or a value is out of bounds.
    """
    for name, own in (options or {}).items():
        if name not in names:
            raise UnknownName("role or task", name, sorted(names))
        for key, value in own.items():
            if key not in _MIN_VALUES:
                raise UnknownName(f"option of the role {name}", key, sorted(_MIN_VALUES))
            is_number = isinstance(value, (int, float) if key == "temperature" else int) and value is not True
            if not is_number or isinstance(value, bool) or not _MIN_VALUES[key] <= value <= MAX_INTEGER:
                least = f"a number of at least {_MIN_VALUES[key]}"
                raise SettingError(f"{name}.{key}={brief(value)}: must be {least}")
    return options or {}
