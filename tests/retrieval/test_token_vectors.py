"""Token vectors: MaxSim over codes of one byte, and the folder that holds a corpus's codes."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.data.corpora import open_corpus
from polyhop.errors import IndexFolderError
from polyhop.retrieval import Index, build_index
from polyhop.retrieval import token_vectors as module
from polyhop.retrieval import vectors as shards
from polyhop.retrieval.token_vectors import TokenVectors, codes_of, max_sims, token_vectors
from polyhop.retrieval.vectors import encodings
from polyhop.types import Passage
from tests.kit import colbert

PASSAGES = [Passage(f"p{number}", "", f"text {number}") for number in range(23)]

# --- MaxSim -----------------------------------------------------------------------------------------------------------


def drawn(draw: np.random.Generator, tokens: int, size: int = 128) -> Any:
    """Token vectors of length 1."""
    vectors = draw.standard_normal((tokens, size)).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def in_full(query: Any, passage: Any) -> float:
    """MaxSim of the vectors themselves, in 64 bits."""
    return float((query.astype(np.float64) @ passage.astype(np.float64).T).max(1).sum())


def test_scores_equal_a_plain_implementation() -> None:
    draw = np.random.default_rng(0)
    for size in (2, 16, 128, 1024):
        query = drawn(draw, 7, size)
        passages = [codes_of(drawn(draw, tokens, size)) for tokens in (1, 2, 30, 200)]
        plain = [colbert.maxsim(query.tolist(), passage.tolist()) for passage in passages]
        assert max_sims(query, passages) == pytest.approx(plain, abs=7 * 128 / 2**20)


@pytest.mark.slow
def test_codes_change_a_score_by_less_than_a_thousandth() -> None:
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
def test_no_score_depends_on_the_batch(lengths: Sequence[int], block: int, seed: int) -> None:
    draw = np.random.default_rng(seed)
    query, passages = drawn(draw, 8), [codes_of(drawn(draw, length)) for length in lengths]
    alone = [float(max_sims(query, [passage])[0]) for passage in passages]
    assert max_sims(query, passages).tolist() == alone
    order = random.Random(seed).sample(range(len(passages)), len(passages))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", block)
        assert max_sims(query, [passages[i] for i in order]).tolist() == [alone[i] for i in order]


def test_a_query_finds_itself_best() -> None:
    draw = np.random.default_rng(2)
    query = drawn(draw, 32)
    scores = max_sims(query, [codes_of(drawn(draw, 150)), codes_of(query), codes_of(-query)])
    assert scores[1] == pytest.approx(32, abs=0.01)
    assert scores.argmax() == 1


def test_codes_have_one_byte_and_zeros_stay_zeros() -> None:
    codes = codes_of(np.array([[0, 0], [1e-8, -5e-9], [0.6, 0.8]], np.float32))
    assert (codes.dtype.name, codes.tolist()) == ("int8", [[0, 0], [127, -64], [95, 127]])
    query = np.array([[1, 0], [0, 0]], np.float32)
    assert max_sims(query, [codes[:1], codes[1:2]]).round(3).tolist() == [0, 0.893]
    assert max_sims(query, []).tolist() == []


# --- on the disk ------------------------------------------------------------------------------------------------------


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Index:
    monkeypatch.setattr(shards, "_SHARD", 4)
    return build_index(open_corpus(PASSAGES), tmp_path / "index")


def vectors_of(passage: Passage) -> Any:
    """One to five vectors of three numbers, drawn from the passage's own."""
    number = int(passage.id[1:])
    return np.random.default_rng(number).standard_normal((1 + number % 5, 3)).astype(np.float32)


class Drawing:
    """Encodes at random; records what it encoded, and stops at a passage."""

    def __init__(self, stop_at: str | None = None) -> None:
        self.encoded: list[str] = []
        self.stop_at = stop_at

    def __call__(self, passages: Sequence[Passage]) -> list[Any]:
        if self.stop_at in {passage.id for passage in passages}:
            raise KeyboardInterrupt
        self.encoded += [passage.id for passage in passages]
        return [vectors_of(passage) for passage in passages]


def made(index: Index, encode: Drawing, key: str = "one") -> TokenVectors:
    return token_vectors(index, "drawn", key, 3, encode)


def assert_whole(tokens: TokenVectors) -> None:
    for ordinal, passage in enumerate(PASSAGES):
        assert tokens.of(ordinal).tolist() == codes_of(vectors_of(passage)).tolist()
    assert len(tokens.codes) == tokens.ends[-1] == sum(1 + number % 5 for number in range(23))


def test_passages_are_encoded_once_and_in_order(index: Index) -> None:
    drawing = Drawing()
    tokens = made(index, drawing)
    assert_whole(tokens)
    assert (tokens.codes.dtype.name, tokens.codes.flags.writeable) == ("int8", False)
    assert drawing.encoded == [passage.id for passage in PASSAGES]
    assert_whole(made(index, drawing))
    assert len(drawing.encoded) == 23
    (folder,) = index.state.glob("tokens-*[0-9a-f]")
    assert sorted(path.name for path in folder.iterdir()) == ["codes", "ends", "manifest.json"]
    assert not list(index.state.glob(".*tokens*"))
    assert encodings(index) == [{"encoder": "drawn", "size": 3, "passages": 23, "tokens": len(tokens.codes)}]


@pytest.mark.parametrize("stop_at", ["p0", "p3", "p4", "p9", "p22"])
def test_a_stopped_encoding_is_resumed(index: Index, stop_at: str) -> None:
    with pytest.raises(KeyboardInterrupt):
        made(index, Drawing(stop_at))
    assert not list(index.state.glob("tokens-*[0-9a-f]"))
    second = Drawing()
    assert_whole(made(index, second))
    whole_shards = int(stop_at[1:]) // 4
    assert second.encoded == [passage.id for passage in PASSAGES][max(0, whole_shards - 1) * 4 :]


@pytest.mark.slow
@pytest.mark.parametrize("file", ["codes", "ends"])
@pytest.mark.parametrize("lost", [1, 7, 8, 9, 500])
def test_a_torn_shard_is_encoded_again(index: Index, file: str, lost: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        made(index, Drawing("p18"))
    (torn,) = index.state.glob(f".tokens-*/{file}")
    if file == "ends":
        os.truncate(torn, max(0, torn.stat().st_size - lost))
    else:  # codes are on the disk before their ends: there may be more codes than the ends say
        torn.write_bytes(torn.read_bytes() + bytes(lost))
    assert_whole(made(index, Drawing()))


@pytest.mark.slow
def test_encoding_survives_a_stop_at_any_write(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    put, left = module._put, [0]

    def stopping(stream: Any, numbers: Any) -> None:
        if not left[0]:
            stream.write(numbers.tobytes()[:5])
            stream.flush()
            raise KeyboardInterrupt
        left[0] -= 1
        put(stream, numbers)

    for writes in range(12):
        left[0] = writes
        with monkeypatch.context() as patch:
            patch.setattr(module, "_put", stopping)
            with pytest.raises(KeyboardInterrupt):
                made(index, Drawing(), key=str(writes))
        assert_whole(made(index, Drawing(), key=str(writes)))


def test_each_checkpoint_has_its_own_vectors_and_damage_is_reported(index: Index) -> None:
    first, second = Drawing(), Drawing()
    made(index, first, "one")
    made(index, second, "another")
    assert first.encoded == second.encoded
    for file in index.state.glob("tokens-*/codes"):
        file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(IndexFolderError, match="codes is truncated or damaged"):
        made(index, Drawing(), "one")
