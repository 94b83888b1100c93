"""What is scored, in token ids, and how it is cut into batches of a bounded number of tokens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
Ids = tuple[int, ...]


class Job(NamedTuple):
    """Score ``target``, at least one token, after ``prompt``; the temperature divides the logits."""

    prompt: Ids
    target: Ids
    temperature: float = 1.0


def batches(things: Sequence[T], length: Callable[[T], int], most: int) -> Iterator[list[T]]:
    """``things`` in batches of like length, the longest first: the memory of the first is enough for all.

    A batch's padded size, its count times its longest length, is at most ``most``; one thing is always let through.

    >>> list(batches(["a", "bb", "cccc", "dd"], len, 4))
    [['cccc'], ['bb', 'dd'], ['a']]
    """
    held: list[T] = []
    for thing in sorted(things, key=length, reverse=True):
        if held and (len(held) + 1) * length(held[0]) > most:
            yield held
            held = []
        held.append(thing)
    if held:
        yield held


def padded(
    rows: Sequence[Sequence[int]], fill: int, *, left: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """``rows`` side by side and their mask, both of shape (rows, longest), filled up on the right or left.

    >>> [part.tolist() for part in padded([[5, 6], [7]], 0)]
    [[[5, 6], [7, 0]], [[1, 1], [1, 0]]]
    """
    width = max(map(len, rows))
    ids, mask = np.full((len(rows), width), fill, np.int64), np.zeros((len(rows), width), np.int64)
    for place, row in enumerate(rows):
        span = slice(width - len(row), width) if left else slice(len(row))
        ids[place, span], mask[place, span] = row, 1
    return ids, mask
