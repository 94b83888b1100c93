"""The folder of a corpus's token vectors: made once, in shards, going on after a stop, the same as if never stopped."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyhop.data.corpora import open_corpus
from polyhop.errors import IndexFolderError
from polyhop.retrieval import Index, build_index
from polyhop.retrieval import vectors as shards
from polyhop.retrieval.late_interaction import tokens as module
from polyhop.retrieval.late_interaction.maxsim import codes_of
from polyhop.retrieval.late_interaction.tokens import TokenVectors, token_vectors
from polyhop.retrieval.vectors import encodings
from polyhop.types import Passage

PASSAGES = [Passage(f"p{number}", "", f"text {number}") for number in range(23)]


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "_SHARD", 4)


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return build_index(open_corpus(PASSAGES), tmp_path / "index")


def vectors_of(passage: Passage) -> Any:
    """One to five vectors of three numbers, drawn from the passage's own."""
    number = int(passage.id[1:])
    return np.random.default_rng(number).standard_normal((1 + number % 5, 3)).astype(np.float32)


class Drawing:
    """Encodes by drawing; remembers what it encoded, and stops where it is told to."""

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
    (told,) = encodings(index)
    assert told == {"encoder": "drawn", "size": 3, "passages": 23, "tokens": len(tokens.codes)}


@pytest.mark.parametrize("stop_at", ["p0", "p3", "p4", "p9", "p22"])
def test_a_stopped_encoding_goes_on(index: Index, stop_at: str) -> None:
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
def test_a_shard_that_was_torn_is_encoded_again(index: Index, file: str, lost: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        made(index, Drawing("p18"))
    (torn,) = index.state.glob(f".tokens-*/{file}")
    if file == "ends":
        os.truncate(torn, max(0, torn.stat().st_size - lost))
    else:  # codes are on the disk before their ends are told: at most more than the ends tell
        torn.write_bytes(torn.read_bytes() + bytes(lost))
    assert_whole(made(index, Drawing()))


@pytest.mark.slow
def test_stopped_at_any_write_it_is_ended(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_another_checkpoint_has_vectors_of_its_own_and_damage_is_told(index: Index) -> None:
    first, second = Drawing(), Drawing()
    made(index, first, "one")
    made(index, second, "another")
    assert first.encoded == second.encoded
    for file in index.state.glob("tokens-*/codes"):
        file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(IndexFolderError, match="codes is truncated or damaged"):
        made(index, Drawing(), "one")
