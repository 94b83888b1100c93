"""What is scored, in token ids, and rows of them side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = tuple[int, ...]


class Job(NamedTuple):
    """Score ``target``, at least one token, after ``prompt``; the temperature divides the logits."""

    prompt: Ids
    target: Ids
    temperature: float = 1.0


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
