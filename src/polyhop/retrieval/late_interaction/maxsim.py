"""MaxSim: for each token of the query its largest cosine with a token of the passage, summed.

Source: Khattab and Zaharia, "ColBERT: Efficient and Effective Passage Search via Contextualized Late Interaction over
BERT", 2020, §3.3. Token vectors have length 1, so each is kept by its direction alone: whole numbers of one byte, the
largest of them 127. Against vectors of 32 bits a score moves by less than a thousandth of the most it can be, no more
than with residuals of one byte to centroids (``benchmarks/late.py``), and nothing has to be learned first. A query's
vectors are made whole numbers too, so that products are exact in 32 bits: no score depends on what is scored along.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int8]
Vectors = NDArray[np.float32]

LEVELS = 127
"""The largest number of a code."""
_EXACT = 2**24
"""Whole numbers up to this are exact in 32 bits, and so are their sums, whatever the order."""
_BLOCK = 8192
"""Tokens that are multiplied at once, so that they stay in a processor's cache."""


def codes_of(vectors: Vectors) -> Codes:
    """Vectors, (tokens, size), by their direction.

    >>> codes_of(np.array([[0.6, -0.8]], np.float32)).tolist()
    [[95, -127]]
    """
    return _whole(vectors, LEVELS).astype(np.int8)


def max_sims(query: Vectors, passages: Sequence[Codes]) -> NDArray[np.float64]:
    """The score of each passage, (passages,), from 0 to the number of the query's tokens.

    Args:
        query: (tokens of the query, size).
        passages: (tokens of the passage, size) each, at least one token.

    >>> query = np.array([[1, 0], [0, 1]], np.float32)
    >>> max_sims(query, [codes_of(np.array([[0.6, 0.8]], np.float32)), codes_of(query)]).round(2).tolist()
    [1.4, 2.0]
    """
    asked = _whole(query, _EXACT // (LEVELS * query.shape[1]))
    lengths = _lengths(asked.astype(np.float64))
    scores = np.zeros(len(passages))
    for block in _blocks([len(passage) for passage in passages]):
        tokens = np.concatenate(passages[block.start : block.stop]).astype(np.float32)
        cosines = tokens @ asked.T / _lengths(tokens)[:, None]
        starts = np.cumsum([0, *(len(passage) for passage in passages[block.start : block.stop - 1])])
        best = np.maximum.reduceat(cosines, starts, axis=0)
        scores[block.start : block.stop] = (best / lengths).sum(1, dtype=np.float64)
    return scores


def _whole(vectors: Vectors, max_code: int) -> Vectors:
    """Vectors of whole numbers in the same directions, the largest of each being ``max_code``; 0 stays 0."""
    largest = np.abs(vectors).max(1, keepdims=True)
    return np.rint(np.asarray(vectors, np.float32) * (max_code / np.where(largest > 0, largest, 1)))


def _lengths(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    """Their lengths; 1 for a vector of zeros, whose cosine is 0."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return np.where(lengths > 0, lengths, 1)


def _blocks(sizes: Sequence[int]) -> list[range]:
    """Neighbours whose sizes come to a block or little more.

    >>> _blocks([5000, 5000, 1, 1])
    [range(0, 2), range(2, 4)]
    """
    blocks, start, held = [], 0, 0
    for end, size in enumerate(sizes, 1):
        held += size
        if held >= _BLOCK or end == len(sizes):
            blocks.append(range(start, end))
            start, held = end, 0
    return blocks
