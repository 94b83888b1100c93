"""Batches of items of similar length: a network pads a batch to its longest item."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def batches(items: Sequence[T], length: Callable[[T], int], max_size: int) -> Iterator[list[T]]:
    """Yield ``items`` in batches of similar length, the longest first, so that no later batch needs more memory.

    The padded size of a batch, its number of items times its longest length, is at most ``max_size``. A batch of one
    item may exceed it.

    >>> list(batches(["a", "bb", "cccc", "dd"], len, 4))
    [['cccc'], ['bb', 'dd'], ['a']]
    """
    batch: list[T] = []
    for item in sorted(items, key=length, reverse=True):
        if batch and (len(batch) + 1) * length(batch[0]) > max_size:
            yield batch
            batch = []
        batch.append(item)
    if batch:
        yield batch


def index_batches(lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """Yield the indexes of items in batches of ``size``, the shortest items first.

    >>> list(index_batches([5, 1, 9, 2], 2))
    [[1, 3], [0, 2]]
    """
    by_length = sorted(range(len(lengths)), key=lengths.__getitem__)
    return (by_length[start : start + size] for start in range(0, len(lengths), size))
