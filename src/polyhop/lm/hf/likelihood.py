"""From logits to the log-probabilities of given tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyhop.errors import LMError

_CHUNK = 512
"""Positions at a time: a vocabulary's worth of 32-bit numbers each."""


def logprobs(logits: Any, tokens: Sequence[int], temperatures: Sequence[float]) -> list[float]:
    """The natural log-probability of each token by its row of ``logits`` (tokens, vocabulary), divided by its
    temperature first; in 32 bits whatever the model's numbers are. ``LMError`` where the logits are no numbers."""
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
