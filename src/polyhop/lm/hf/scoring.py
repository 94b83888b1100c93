"""Parts of both scorers: jobs in token ids, padded batches, log-probabilities, a cache of model states."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polyhop.errors import LMError

Ids = tuple[int, ...]
_CHUNK = 512
"""Positions per step: each needs a 32-bit number per token of the vocabulary."""


class Job(NamedTuple):
    """Score ``target``, at least one token, after ``prompt``; the temperature divides the logits."""

    prompt: Ids
    target: Ids
    temperature: float = 1.0


def padded(
    rows: Sequence[Sequence[int]], fill: int, *, left: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pad ``rows`` on the right or left; return the ids and their mask, both of shape (rows, width).

    >>> [part.tolist() for part in padded([[5, 6], [7]], 0)]
    [[[5, 6], [7, 0]], [[1, 1], [1, 0]]]
    """
    width = max(map(len, rows))
    ids, mask = np.full((len(rows), width), fill, np.int64), np.zeros((len(rows), width), np.int64)
    for i, row in enumerate(rows):
        span = slice(width - len(row), width) if left else slice(len(row))
        ids[i, span], mask[i, span] = row, 1
    return ids, mask


def logprobs(logits: Any, tokens: Sequence[int], temperatures: Sequence[float]) -> list[float]:
    """Return the natural log-probability of each token by its row of ``logits`` (tokens, vocabulary), which are divided
    by the token's temperature first. Computed in 32 bits whatever the model's type; ``LMError`` if a score is NaN."""
    import torch

    found: list[float] = []
    chosen = torch.tensor(tokens, device=logits.device)
    divisors = torch.tensor(temperatures, device=logits.device, dtype=torch.float32)
    for start in range(0, len(tokens), _CHUNK):
        part = slice(start, start + _CHUNK)
        scaled = logits[part].float() / divisors[part, None]
        own = scaled.gather(1, chosen[part, None])[:, 0]
        found += (own - scaled.logsumexp(1)).tolist()
    if any(value != value for value in found):
        raise LMError("the model's scores are not numbers, as float16 can make them: use float32 or bfloat16")
    return found


class StateCache:
    """A least-recently-used cache of tensors, at most ``max_bytes`` in all; a larger tensor is not kept."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes, self.bytes = max_bytes, 0
        self._tensors: OrderedDict[bytes, Any] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tensors)

    def __contains__(self, key: bytes) -> bool:
        return key in self._tensors

    def get(self, key: bytes) -> Any:
        """Return the tensor, or None."""
        if key in self._tensors:
            self._tensors.move_to_end(key)
        return self._tensors.get(key)

    def put(self, key: bytes, tensor: Any) -> None:
        """Keep ``tensor``, which must own its storage."""
        if key in self._tensors or tensor.nbytes > self.max_bytes:
            return
        self._tensors[key] = tensor
        self.bytes += tensor.nbytes
        while self.bytes > self.max_bytes:
            _, evicted = self._tensors.popitem(last=False)
            self.bytes -= evicted.nbytes

    def clear(self) -> None:
        """Remove everything."""
        self._tensors.clear()
        self.bytes = 0
