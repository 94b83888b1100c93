"""Readers: what finds an answer's span in passages. Names are looked up here; new ones register by decorator or entry
point."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import TypeAlias, TypeVar

from polyhop.errors import UnknownName
from polyhop.readers.base import Reader, spans_of, threshold_of

__all__ = ["Reader", "open_reader", "readers", "register_reader", "spans_of", "threshold_of"]

Factory: TypeAlias = Callable[..., Reader]
"""What makes a reader, called with what follows the colon where its name ends in one; a class is one."""

ENTRY_POINTS = "polyhop.readers"

_AnyFactory = TypeVar("_AnyFactory", bound=Factory)
_registry: dict[str, Factory] = {}


def register_reader(name: str) -> Callable[[_AnyFactory], _AnyFactory]:
    """Decorate a class or function, called without arguments, as the reader ``name``; the latest of a name counts.

    A name that ends in a colon is a prefix: ``dpr:`` opens ``dpr:PATH``, called with ``PATH``. A package does the same
    by an entry point ``name`` in the group ``polyhop.readers``.
    """

    def register(factory: _AnyFactory) -> _AnyFactory:
        _registry[name] = factory
        return factory

    return register


def readers() -> list[str]:
    """The names that ``open_reader`` knows.

    >>> "pocket" in readers()
    True
    """
    return sorted({*_registry, *(entry.name for entry in entry_points(group=ENTRY_POINTS))})


def open_reader(name: str) -> Reader:
    """The reader of a name.

    Raises:
        UnknownName: no reader is called so; the message lists those that are.
    """
    prefix, colon, rest = name.partition(":")
    given = (rest,) if colon else ()
    if factory := _registry.get(prefix + colon):
        return factory(*given)
    for entry in entry_points(group=ENTRY_POINTS, name=prefix + colon):
        made: Reader = entry.load()(*given)
        return made
    raise UnknownName("reader", name, readers())


@register_reader("pocket")
def _pocket() -> Reader:
    from polyhop.readers.pocket import PocketReader

    return PocketReader()


@register_reader("dpr:")
def _dpr(path_or_name: str) -> Reader:
    from polyhop.readers.hf import DprReader

    return DprReader(path_or_name)


@register_reader("squad:")
def _squad(path_or_name: str) -> Reader:
    from polyhop.readers.hf import SquadReader

    return SquadReader(path_or_name)


@register_reader("onnx:")
def _onnx(folder: str) -> Reader:
    from polyhop.readers.onnx import OnnxReader

    return OnnxReader(folder)
