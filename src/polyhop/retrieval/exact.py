"""Find the vectors with the largest inner products exactly: by blocked matrix products, then row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polyhop.types import Passage

if TYPE_CHECKING:
    from polyhop.retrieval.index import Index

Hit: TypeAlias = tuple[float, int]
"""An inner product, and the row of its vector."""

_BLOCK = 2**20
"""Numbers per block, of 4 bytes each, so that it stays in a processor's cache."""

_LEAST = np.finfo(np.float32).min


def nearest(
    vectors: NDArray[np.float16] | NDArray[np.float32],
    queries: NDArray[np.float32],
    k: int,
    left_out: NDArray[np.bool_] | None = None,
) -> list[list[Hit]]:
    """Find each query's hits by falling inner product, then by row: the first ``k`` and all that tie with the last.

    Args:
        vectors: (rows, size); they may be mapped from a file.
        queries: (queries, size).
        k: at least 1.
        left_out: (rows,), True for rows that are no hits.

    Blocks are multiplied in 32 bits. Every row that could be among the first ``k``, by the bound on the rounding, is
    multiplied again alone in 64 bits, so that no score and no tie depends on blocks or on other queries.
    """
    k = min(k, len(vectors) - (0 if left_out is None else int(left_out.sum())))
    rounding = vectors.shape[1] * 2.0**-23 * np.linalg.norm(queries, axis=1)  # of two products, per unit of length
    best = np.full((len(queries), k), -np.inf, np.float32)
    max_norm = 0.0
    found: list[tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float32]]] = []
    step = max(1, _BLOCK // vectors.shape[1])
    for start in range(0, len(vectors), step):
        block = np.asarray(vectors[start : start + step], np.float32)
        max_norm = max(max_norm, float(np.sqrt(np.einsum("ij,ij->i", block, block).max())))
        products = queries @ block.T
        if left_out is not None:
            products[:, left_out[start : start + step]] = -np.inf
        better = products.max(1) > best.min(1)
        best[better] = np.partition(np.concatenate([best[better], products[better]], 1), -k)[:, -k:]
        owner, offset = np.nonzero(products >= np.maximum(best.min(1) - rounding * max_norm, _LEAST)[:, None])
        found.append((owner, offset + start, products[owner, offset]))
    owners, rows, approximate = (np.concatenate(parts) for parts in zip(*found, strict=True))
    kept = approximate >= (best.min(1) - rounding * max_norm)[owners]
    owners, rows = owners[kept], rows[kept]
    return [_first(vectors, query, rows[owners == number], k) for number, query in enumerate(queries)]


def products(vectors: NDArray[np.float16] | NDArray[np.float32], query: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the inner product of a query with each of the vectors, (rows,), multiplied in 32 bits, block by block."""
    found = np.empty(len(vectors), np.float32)
    step = max(1, _BLOCK // vectors.shape[1])
    for start in range(0, len(vectors), step):
        found[start : start + step] = np.asarray(vectors[start : start + step], np.float32) @ query
    return found


def nearest_passages(
    index: Index, vectors: NDArray[np.float16] | NDArray[np.float32], queries: NDArray[np.float32], k: int
) -> list[list[tuple[Passage, float]]]:
    """Find the ``k`` nearest passages of an index for each query; ties are broken by passage id."""
    return [passages_of(index, hits, k) for hits in nearest(vectors, queries, k, index.passages.removed)]


def passages_of(index: Index, hits: Sequence[Hit], k: int) -> list[tuple[Passage, float]]:
    """Return the first ``k`` passages of hits in an index; ties are broken by passage id."""
    found = [(index.passages.get(row), score) for score, row in hits]
    return sorted(found, key=lambda hit: (-hit[1], hit[0].id))[:k]


def _first(
    vectors: NDArray[np.float16] | NDArray[np.float32], query: NDArray[np.float32], rows: NDArray[np.intp], k: int
) -> list[Hit]:
    scores = (vectors[rows].astype(np.float64) * query).sum(1)
    order = np.lexsort((rows, -scores))
    if len(order) > k:
        order = order[scores[order] >= scores[order[k - 1]]]
    return list(zip(scores[order].tolist(), rows[order].tolist(), strict=True))
