"""Components opened by name, such as retrievers: registered by a decorator, or by the entry point of a package."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from polyhop.errors import SettingError, UnknownName

T = TypeVar("T")
AnyFactory = TypeVar("AnyFactory", bound=Callable[..., Any])


class Registry(Generic[T]):
    """The factories of one kind of component, by name. ``kind`` names it in messages, ``group`` its entry points.

    A name that ends in a colon is a prefix: ``dpr:`` opens ``dpr:PATH`` with ``PATH`` as the last argument of its
    factory. ``lm?first=20`` is short for ``lm:?first=20``.
    """

    def __init__(self, kind: str, group: str) -> None:
        self.kind, self.group = kind, group
        self.registered: dict[str, Callable[..., T]] = {}

    def register(self, name: str) -> Callable[[AnyFactory], AnyFactory]:
        """Return a decorator that registers a class or function as the factory of ``name``, in place of any other."""

        def register(factory: AnyFactory) -> AnyFactory:
            self.registered[name] = factory
            return factory

        return register

    def names(self) -> list[str]:
        """Return the names that can be opened, prefixes with their colon."""
        from importlib.metadata import entry_points

        return sorted({*self.registered, *(entry.name for entry in entry_points(group=self.group))})

    def open(self, name: str, *given: Any) -> T:
        """Call the factory of a name with ``given`` and the text after the colon. Raises ``UnknownName``."""
        from importlib.metadata import entry_points

        prefix = re.split("[:?]", name, maxsplit=1)[0]
        colon, rest = ":" if prefix != name else "", name.removeprefix(prefix).removeprefix(":")
        arguments = (*given, rest) if colon else given
        if factory := self.registered.get(prefix + colon):
            return factory(*arguments)
        for entry in entry_points(group=self.group, name=prefix + colon):
            component: T = entry.load()(*arguments)
            return component
        named = name if "@" in name else prefix + colon  # of an address the prefix may be a user's name
        raise UnknownName(self.kind, named, self.names())


def path_and_options(prefix: str, rest: str, example: str = "dtype=bfloat16&device=cuda") -> tuple[str, dict[str, Any]]:
    """Split the text after a prefix into a path and the options after its question mark; digits become integers.

    >>> path_and_options("hf", "gpt2?dtype=bfloat16&cache_mib=0")
    ('gpt2', {'dtype': 'bfloat16', 'cache_mib': 0})
    """
    path, _, query = rest.partition("?")
    pairs = [pair.partition("=") for pair in query.split("&")] if query else []
    if any(not (name and equals and value) for name, equals, value in pairs):
        named = path if "@" not in query else "…"  # else the question mark may be a password's
        raise SettingError(f"{prefix}:{named}: what follows the ? names no options: write {prefix}:{named}?{example}")
    return path, {name: int(value) if value.isdecimal() else value for name, _, value in pairs}


def with_options(name: str, options: Mapping[str, Any]) -> str:
    """Append options to a name, after a question mark.

    >>> with_options("dense:e5-base", {"pooling": "cls", "max_tokens": 64})
    'dense:e5-base?max_tokens=64&pooling=cls'
    """
    query = "&".join(f"{option}={value}" for option, value in sorted(options.items()))
    return f"{name}?{query}" if query else name


def check_options(name: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Raise ``UnknownName`` for the first of the options that is not a known one of ``name``."""
    if unknown := sorted(set(options).difference(known)):
        raise UnknownName(f"option of {name}", unknown[0], list(known))


def check_at_least(minimum: int, **settings: object) -> None:
    """Raise ``SettingError`` for a setting that is not a whole number of at least ``minimum``.

    >>> check_at_least(1, batch_size=0)
    Traceback (most recent call last):
    polyhop.errors.SettingError: batch_size=0: must be at least 1
    """
    for name, value in settings.items():
        if not isinstance(value, int) or value < minimum:
            raise SettingError(f"{name}={value}: must be at least {minimum}")
