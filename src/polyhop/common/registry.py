"""Things opened by name, as a retriever or a reader is: registered by decorator, or by an entry point of a package."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from polyhop.errors import SettingError, UnknownName

T = TypeVar("T")
AnyFactory = TypeVar("AnyFactory", bound=Callable[..., Any])


class Registry(Generic[T]):
    """The factories of one kind of thing by name; ``what`` it is called in messages, ``group``: its entry points'.

    A name that ends in a colon is a prefix: ``dpr:`` makes ``dpr:PATH``, its factory's last argument then ``PATH``;
    ``lm?first=20`` is short for ``lm:?first=20``.
    """

    def __init__(self, what: str, group: str) -> None:
        self.what, self.group = what, group
        self.registered: dict[str, Callable[..., T]] = {}

    def register(self, name: str) -> Callable[[AnyFactory], AnyFactory]:
        """A decorator that registers a class or function as the factory of ``name``; the latest of a name counts."""

        def register(factory: AnyFactory) -> AnyFactory:
            self.registered[name] = factory
            return factory

        return register

    def names(self) -> list[str]:
        """The names that can be opened, prefixes with their colon."""
        from importlib.metadata import entry_points

        return sorted({*self.registered, *(entry.name for entry in entry_points(group=self.group))})

    def open(self, name: str, *given: Any) -> T:
        """What a name's factory makes of ``given`` and of what follows the colon; an unknown name is an error that
        lists the others."""
        from importlib.metadata import entry_points

        prefix = re.split("[:?]", name, maxsplit=1)[0]
        colon, rest = ":" if prefix != name else "", name.removeprefix(prefix).removeprefix(":")
        arguments = (*given, rest) if colon else given
        if factory := self.registered.get(prefix + colon):
            return factory(*arguments)
        for entry in entry_points(group=self.group, name=prefix + colon):
            made: T = entry.load()(*arguments)
            return made
        named = name if "@" in name else prefix + colon  # of an address the prefix may be a user's name
        raise UnknownName(self.what, named, self.names())


def path_and_options(prefix: str, rest: str, example: str = "dtype=bfloat16&device=cuda") -> tuple[str, dict[str, Any]]:
    """What follows a name's prefix: a path and the options behind its question mark, whole numbers as such.

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
    """A name with the options that change what it does, as they are written behind it.

    >>> with_options("dense:e5-base", {"pooling": "cls", "max_tokens": 64})
    'dense:e5-base?max_tokens=64&pooling=cls'
    """
    told = "&".join(f"{option}={value}" for option, value in sorted(options.items()))
    return f"{name}?{told}" if told else name
