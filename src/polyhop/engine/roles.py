"""Options of the calls of one role or task: temperature, token cap, head-room for thoughts, and any other as a field of
the request's body."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import orjson

from polyhop.errors import SettingError, UnknownName, UsageError, brief
from polyhop.lm.base import LanguageModel
from polyhop.types import MAX_INTEGER

RoleOptions = Mapping[str, Mapping[str, Any]]
"""Options by role or task, and ``default`` for all; the most specific of task, role and ``default`` is used."""

_MIN_VALUES: Mapping[str, int] = {"temperature": 0, "max_tokens_per_call": 1, "reasoning_tokens": 0}
"""Polyhop's own options of a role or task, and the minimum value of each."""

_SET_BY: Mapping[str, str] = {
    **dict.fromkeys(("max_tokens", "max_completion_tokens"), "set it by --max-tokens-per-call (max_tokens_per_call)"),
    "seed": "set it by --seed (seed), of which every sample gets its own",
    "model": "set it by --lm (lm)",
    **dict.fromkeys(("messages", "prompt", "n"), "polyhop sets it itself"),
}
"""Fields of a request's body that no option may set, and how they are set."""


def check_body(names: Collection[str], option: str) -> None:
    """Raise ``SettingError`` for a field of the body that is set by another name; ``option`` is how it was given."""
    for name in names:
        if name in _SET_BY:
            raise SettingError(f"{option.format(name)}: {_SET_BY[name]}")


def body_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a call that are fields of its request's body."""
    return {name: value for name, value in options.items() if name not in _MIN_VALUES}


def options_of(options: RoleOptions, task: str, role: str) -> dict[str, Any]:
    """Return the options of a task's calls in a role.

    >>> options_of({"default": {"temperature": 0.7}, "reviewer": {"temperature": 0}}, "tor.review", "reviewer")
    {'temperature': 0}
    """
    if not options:
        return {}
    return {**options.get("default", {}), **options.get(role, {}), **options.get(task, {})}


def checked(options: RoleOptions | None, names: Collection[str]) -> RoleOptions:
    """Return the options if each has a valid value, and each role or task is one of ``names``.

    Raises:
        UsageError: a role or task is unknown, a value is out of bounds, or an option is set by another name.
    """
    for name, own in (options or {}).items():
        if name not in names:
            raise UnknownName("role or task", name, sorted(names))
        check_body(own, f"{name}.{{}}")
        for key, value in own.items():
            if key not in _MIN_VALUES:
                _check_json(f"{name}.{key}", value)
                continue
            is_number = isinstance(value, (int, float) if key == "temperature" else int) and value is not True
            if not is_number or isinstance(value, bool) or not _MIN_VALUES[key] <= value <= MAX_INTEGER:
                least = f"a number of at least {_MIN_VALUES[key]}"
                raise SettingError(f"{name}.{key}={brief(value)}: must be {least}")
    return options or {}


def check_taken(options: RoleOptions, name: str, models: Collection[LanguageModel]) -> None:
    """Raise ``UsageError`` if a role or task has fields for a body, and one of its ``models`` sends none."""
    without = next((model.name for model in models if not model.capabilities.extra_body), None)
    if without and (body := body_of(options[name])):
        fields = ", ".join(f"{name}.{key}" for key in body)
        own = ", ".join(_MIN_VALUES)
        raise UsageError(f"{fields}: {without} has no server to send it to; options of any model are {own}")


def _check_json(name: str, value: Any) -> None:
    try:
        orjson.dumps(value)
    except (TypeError, ValueError) as error:
        raise SettingError(f"{name}: not a JSON value: {error}") from None
