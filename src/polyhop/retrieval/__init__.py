"""Retrievers: what searches a corpus. Names are looked up here; new ones register by decorator or entry point."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from polyhop.errors import UnknownName
from polyhop.retrieval.base import Retriever
from polyhop.retrieval.index import Index, build_index, index_for, open_index

__all__ = [
    "Index",
    "Retriever",
    "build_index",
    "index_for",
    "open_index",
    "open_retriever",
    "register_retriever",
    "retrievers",
]

Factory: TypeAlias = Callable[[Index], Retriever]
"""What makes a retriever over an index; a class with ``__init__(index)`` is one."""

ENTRY_POINTS = "polyhop.retrievers"

_AnyFactory = TypeVar("_AnyFactory", bound=Factory)
_registry: dict[str, Factory] = {}


def register_retriever(name: str) -> Callable[[_AnyFactory], _AnyFactory]:
    """Decorate a class or function, called with an ``Index``, as the retriever ``name``; the latest of a name counts.

    A package does the same by an entry point ``name`` in the group ``polyhop.retrievers``.
    """

    def register(factory: _AnyFactory) -> _AnyFactory:
        _registry[name] = factory
        return factory

    return register


def retrievers() -> list[str]:
    """The names that ``open_retriever`` knows."""
    from importlib.metadata import entry_points

    return sorted({*_registry, *(entry.name for entry in entry_points(group=ENTRY_POINTS))})


def open_retriever(spec: str, index: Index) -> Retriever:
    """The retriever of a name over an index.

    Raises:
        UnknownName: no retriever is called so; the message lists those that are.
    """
    from importlib.metadata import entry_points

    if factory := _registry.get(spec):
        return factory(index)
    for entry in entry_points(group=ENTRY_POINTS, name=spec):
        made: Retriever = entry.load()(index)
        return made
    raise UnknownName("retriever", spec, retrievers())


@register_retriever("bm25")
def _bm25(index: Index) -> Retriever:
    from polyhop.retrieval.bm25 import BM25

    return BM25(index)


@register_retriever("tfidf")
def _tfidf(index: Index) -> Retriever:
    from polyhop.retrieval.tfidf import TfIdf

    return TfIdf(index)
