"""The bounds of what a client may set, so that no question costs a day: each setting, paths, model calls.

A method's papers and its defaults know no such bounds, and the server's owner may exceed them with ``-o``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from polyhop.errors import SettingError, brief
from polyhop.methods.registry import Method
from polyhop.types import MAX_INTEGER

MAX_PASSAGES = 100
"""Maximum number of hits of one search."""

MAX_COUNT = 100
"""The largest number that a client may give a setting: samples, rounds, passages of a search."""

MAX_RANKED = 1_000
"""The largest number that a client may give a setting that counts what is ranked once: passages, paths."""

MAX_TOKENS = 65_536
"""The largest number that a client may give a setting that counts tokens or words."""

MAX_PATH_PASSAGES = 5_000
"""Maximum number of passages on all the paths of a beam, each path counted by its length."""

MAX_CALLS = 1_000
"""Maximum number of model calls of a question that sets more than the service, which otherwise has no such limit."""

_BEAM = ("first", "keep", "links", "hops")
_RANKED = {"first", "rank_limit", "read_paths"}
_OF_ONE = {("replug", "k"): 30}  # every passage's answer is scored after every passage


def bound_of(method: str, setting: str) -> int:
    """Return the largest number that a client may give a setting of a method.

    >>> [bound_of("one-r", setting) for setting in ("k", "rank_limit", "context_tokens")]
    [100, 1000, 65536]
    """
    if setting.endswith("seed"):  # costs nothing
        return MAX_INTEGER
    if setting.endswith(("_tokens", "_words")):
        return MAX_TOKENS
    return _OF_ONE.get((method, setting), MAX_RANKED if setting in _RANKED else MAX_COUNT)


def check_no_file(method: Method, given: Iterable[str]) -> None:
    """Raise ``SettingError`` if a client gives a setting that names a file."""
    for name in given:
        if name in method.settings and method.settings[name].names_file:
            raise SettingError(f"{method.name}: {name} names a file, which a client of this service may not")


def check_settings(method: Method, own: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Check the settings of a client against the bounds, or the service's own settings if these are larger.

    Raises:
        SettingError: they exceed a bound; the message names it.
    """
    for name in given:
        allowed = max(bound_of(method.name, name), _largest(own[name]))
        if (largest := _largest(given[name])) > allowed:
            raise SettingError(
                f"{method.name}: {name}={brief(largest)} is more than {allowed}, the maximum of this service"
            )
    if any(name in given for name in _BEAM) and set(_BEAM) <= given.keys() | own.keys():
        passages, allowed = (path_passages({**own, **given}), max(MAX_PATH_PASSAGES, path_passages(own)))
        if passages > allowed:
            raise SettingError(
                f"{method.name}: {', '.join(_BEAM)} make paths of up to {passages} passages, which is more than "
                f"{allowed}, the maximum of this service"
            )


def is_raised(own: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Return True if a number, or the length of a list, is larger than the service's own.

    >>> is_raised({"widths": (5, 3), "k": None}, {"widths": (4, 2)}), is_raised({"k": None}, {"k": 1})
    (False, True)
    """
    return any(_largest(value) > _largest(own[name]) for name, value in given.items())


def path_passages(settings: Mapping[str, Any]) -> int:
    """Count the passages on all the paths of a beam.

    >>> path_passages({"first": 100, "keep": 5, "links": 3, "hops": 2})
    130
    """
    second_queries = min(settings.get("requeried", 0), settings["keep"]) * settings.get("leads", 0)
    extended = settings["keep"] * settings["links"] + second_queries * settings.get("requery", 0)
    hops = settings["hops"]
    return int(settings["first"] + extended * (hops * (hops + 1) // 2 - 1))


def _largest(value: Any) -> float:
    return max(_numbers(value), default=0)


def _numbers(value: Any) -> Iterator[float]:
    """Yield the absolute values of the numbers in a setting, and the lengths of its lists."""
    match value:
        case bool() | str():
            return
        case int() | float():
            yield math.inf if math.isnan(value) else abs(value)
        case Sequence():
            yield len(value)
            for item in value:
                yield from _numbers(item)
