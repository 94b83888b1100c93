"""What is of like length goes together: a network works on a batch at once, and pads it to its longest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import TypeVar

T = TypeVar("T")


def batches(things: Sequence[T], length: Callable[[T], int], most: int, *, spread: float = inf) -> Iterator[list[T]]:
    """``things`` in batches of like length, the longest first: the memory of the first is enough for all.

    A batch's padded size, its count times its longest length, is at most ``most``, and its longest at most ``spread``
    times its shortest; one thing is always let through.

    >>> list(batches(["a", "bb", "cccc", "dd"], len, 4))
    [['cccc'], ['bb', 'dd'], ['a']]
    >>> list(batches(["a", "bb", "cccc", "dd"], len, 100, spread=2))
    [['cccc', 'bb', 'dd'], ['a']]
    """
    held: list[T] = []
    for thing in sorted(things, key=length, reverse=True):
        if held and ((len(held) + 1) * length(held[0]) > most or length(held[0]) / spread > length(thing)):
            yield held
            held = []
        held.append(thing)
    if held:
        yield held
