"""Exact inner-product search against a plain one: all products in 64 bits, sorted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.retrieval import exact
from polyhop.retrieval.exact import Hit, nearest


def plainly(vectors: Any, query: Any, k: int) -> list[Hit]:
    """The first ``k`` and all that tie with the ``k``-th."""
    scores = [float((np.float64(row) * np.float64(query)).sum()) for row in vectors]
    order = sorted(range(len(scores)), key=lambda at: (-scores[at], at))
    least = scores[order[min(k, len(order)) - 1]]
    return [(scores[at], at) for at in order if scores[at] >= least]


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 70),
    size=st.integers(1, 40),
    queries=st.integers(0, 6),
    k=st.integers(1, 80),
    block=st.integers(1, 900),
    levels=st.sampled_from([2, 5, 1000]),
    half=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_it_finds_what_all_products_show(
    rows: int, size: int, queries: int, k: int, block: int, levels: int, half: bool, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    vectors: Any = (draw.integers(-levels, levels, (rows, size)) / 8).astype(np.float16 if half else np.float32)
    asked = draw.normal(size=(queries, size)).astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "_BLOCK", block)
        found = nearest(vectors, asked, k)
    assert found == [plainly(vectors, query, k) for query in asked]


def test_products_that_32_bits_cannot_tell_apart_are_told_apart() -> None:
    draw = np.random.default_rng(0)
    query = draw.normal(size=(1, 768)).astype(np.float32) * 100
    vectors = np.repeat(draw.normal(size=(1, 768)).astype(np.float32), 3000, 0)
    vectors[np.arange(3000), np.arange(3000) % 768] *= 1 + np.float32(2**-22)
    assert len({score for score, _ in plainly(vectors, query[0], 3000)}) > 100
    for k in (1, 10, 500):
        assert nearest(vectors, query, k) == [plainly(vectors, query[0], k)]


def test_no_score_depends_on_blocks_or_other_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(1)
    vectors = draw.normal(size=(500, 96)).astype(np.float16)
    queries = draw.normal(size=(30, 96)).astype(np.float32)
    together = nearest(vectors, queries, 7)
    monkeypatch.setattr(exact, "_BLOCK", 96 * 11)
    assert together == nearest(vectors, queries, 7) == [nearest(vectors, query[None], 7)[0] for query in queries]


def test_all_that_tie_at_the_cut_are_there() -> None:
    vectors = np.array([[1, 0], [0, 1], [1, 0], [2, 0], [1, 0]], np.float16)
    assert nearest(vectors, np.array([[1, 0]], np.float32), 2) == [[(2.0, 3), (1.0, 0), (1.0, 2), (1.0, 4)]]
    assert nearest(vectors, np.array([[-1, 0]], np.float32), 1) == [[(0.0, 1)]]


def test_a_mapped_file_is_searched(tmp_path: Path) -> None:
    rows = np.random.default_rng(2).normal(size=(50, 8)).astype(np.float16)
    rows.tofile(tmp_path / "rows")
    mapped = np.memmap(tmp_path / "rows", np.float16, "r", shape=(50, 8))
    query = np.ones((1, 8), np.float32)
    assert nearest(mapped, query, 5) == nearest(rows, query, 5)
