"""Passages worked on shard by shard: one after the other, as ``map`` does, or all over a cluster (``spread.py``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

Each: TypeAlias = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""Has something done to each shard, as ``map`` does, here or elsewhere; what comes of them comes in their order."""


def in_shards(things: Iterable[T], size: int) -> Iterator[list[T]]:
    """So many at a time, the last ones maybe fewer.

    >>> list(in_shards("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    rest = iter(things)
    while shard := list(islice(rest, size)):
        yield shard
