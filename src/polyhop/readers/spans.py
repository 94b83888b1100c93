"""Spans out of logits: which stretch of tokens answers, and which characters those are. Numpy alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Logits: TypeAlias = NDArray[np.float64]
"""One score a token, shape ``(tokens,)``."""


class TokenSpan(NamedTuple):
    """A stretch of tokens, both ends included, and its start logit plus end logit."""

    first: int
    last: int
    score: float


def joint(start: Logits, end: Logits, max_tokens: int) -> TokenSpan | None:
    """The stretch of at most ``max_tokens`` tokens with the greatest sum of its start and end logits.

    Of equals the earliest, then the shortest; None without tokens, or where every sum is minus infinity.

    >>> joint(np.array([0.0, 3.0, 1.0]), np.array([9.0, 0.0, 2.0]), max_tokens=2)
    TokenSpan(first=0, last=0, score=9.0)
    >>> joint(np.array([0.0, 3.0, 1.0]), np.array([1.0, 0.0, 2.0]), max_tokens=2)
    TokenSpan(first=1, last=2, score=5.0)
    """
    if not len(start):
        return None
    width = min(max_tokens, len(start))
    ends = np.lib.stride_tricks.sliding_window_view(np.append(end, np.full(width - 1, -np.inf)), width)
    sums = start[:, None] + ends
    first, further = divmod(int(np.argmax(sums)), width)
    best = float(sums[first, further])
    return TokenSpan(first, first + further, best) if best > -math.inf else None


def independent(start: Logits, end: Logits, inside: range) -> TokenSpan | None:
    """The stretch from the likeliest start to the likeliest end of the whole sequence, each by itself.

    None where it ends before it starts or leaves the passage's tokens ``inside``: it answers nothing. The result counts
    from the first token inside.

    >>> independent(np.array([0.0, 3.0, 1.0]), np.array([1.0, 0.0, 2.0]), range(1, 3))
    TokenSpan(first=0, last=1, score=5.0)
    >>> independent(np.array([0.0, 3.0, 1.0]), np.array([9.0, 0.0, 2.0]), range(0, 3)) is None
    True
    """
    if not len(start):
        return None
    first, last = int(np.argmax(start)), int(np.argmax(end))
    if last < first or first not in inside or last not in inside:
        return None
    return TokenSpan(first - inside.start, last - inside.start, float(start[first] + end[last]))


def characters(span: TokenSpan, offsets: Sequence[tuple[int, int]], text: str) -> tuple[int, int]:
    """The characters of a stretch of tokens, without white space at its ends; equal where nothing is left.

    >>> characters(TokenSpan(1, 2, 0.0), [(0, 3), (3, 7), (7, 8)], "the old mill")
    (4, 7)
    """
    start, end = offsets[span.first][0], offsets[span.last][1]
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    return start, max(start, start + len(piece.strip()))


def answered(score: float, no_answer: float) -> float:
    """The probability of a span against no answer, 0 to 1: the softmax over their two scores.

    >>> answered(2.0, 2.0)
    0.5
    >>> answered(-2000.0, 2000.0)
    0.0
    """
    return 0.5 * (1.0 + math.tanh((score - no_answer) / 2.0))
