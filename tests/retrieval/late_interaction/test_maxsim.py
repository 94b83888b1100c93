"""MaxSim over codes of one byte: against its plain statement, whatever is scored along, and how far it is off."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.retrieval.late_interaction import maxsim as module
from polyhop.retrieval.late_interaction.maxsim import codes_of, max_sims
from tests.kit import colbert


def drawn(draw: np.random.Generator, tokens: int, size: int = 128) -> Any:
    """Token vectors of length 1."""
    vectors = draw.standard_normal((tokens, size)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def in_full(query: Any, passage: Any) -> float:
    """MaxSim of the vectors themselves, in 64 bits."""
    return float((query.astype(np.float64) @ passage.astype(np.float64).T).max(1).sum())


def test_scores_are_those_of_the_plain_statement() -> None:
    draw = np.random.default_rng(0)
    for size in (2, 16, 128, 1024):
        query = drawn(draw, 7, size)
        passages = [codes_of(drawn(draw, tokens, size)) for tokens in (1, 2, 30, 200)]
        plain = [colbert.maxsim(query.tolist(), passage.tolist()) for passage in passages]
        assert max_sims(query, passages) == pytest.approx(plain, abs=7 * 128 / 2**20)


def test_against_vectors_of_32_bits_a_score_moves_by_less_than_a_thousandth_of_the_most_it_can_be() -> None:
    draw = np.random.default_rng(1)
    off = []
    for _ in range(20):
        query = drawn(draw, 32)
        passages = []
        for near in (0.0, 0.5, 0.9, 1.0):  # from a passage of other things to the query's own tokens
            mixed = near * query[draw.integers(32, size=150)] + (1 - near) * drawn(draw, 150)
            passages.append((mixed / np.linalg.norm(mixed, axis=1, keepdims=True)).astype(np.float32))
        scores = max_sims(query, [codes_of(passage) for passage in passages])
        off += [abs(score - in_full(query, passage)) / 32 for score, passage in zip(scores, passages, strict=True)]
    assert max(off) < 1e-3
    assert max(off) > 1e-6  # they are codes


@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=12),
    block=st.integers(1, 100),
    seed=st.integers(0, 2**16),
)
def test_no_score_depends_on_what_is_scored_along(lengths: Sequence[int], block: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    query, passages = drawn(draw, 8), [codes_of(drawn(draw, length)) for length in lengths]
    alone = [float(max_sims(query, [passage])[0]) for passage in passages]
    assert max_sims(query, passages).tolist() == alone
    order = random.Random(seed).sample(range(len(passages)), len(passages))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", block)
        assert max_sims(query, [passages[place] for place in order]).tolist() == [alone[place] for place in order]


def test_a_query_finds_itself_best() -> None:
    draw = np.random.default_rng(2)
    query = drawn(draw, 32)
    scores = max_sims(query, [codes_of(drawn(draw, 150)), codes_of(query), codes_of(-query)])
    assert scores[1] == pytest.approx(32, abs=0.01)
    assert scores.argmax() == 1


def test_codes_are_of_one_byte_and_nothing_stays_nothing() -> None:
    codes = codes_of(np.array([[0, 0], [1e-8, -5e-9], [0.6, 0.8]], np.float32))
    assert (codes.dtype.name, codes.tolist()) == ("int8", [[0, 0], [127, -64], [95, 127]])
    query = np.array([[1, 0], [0, 0]], np.float32)
    assert max_sims(query, [codes[:1], codes[1:2]]).round(3).tolist() == [0, 0.893]
    assert max_sims(query, []).tolist() == []
