"""Vectors out of pickles: arrays of every make are read, nothing else is ever called."""

from __future__ import annotations

import os
import pickle
import subprocess
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.data.corpora import open_corpus
from polyhop.errors import DataError
from polyhop.retrieval import Index, build_index
from polyhop.retrieval.dense import Dense
from polyhop.retrieval.encoders import pickled
from polyhop.retrieval.encoders.pickled import take_vectors
from polyhop.retrieval.encoders.stored import read_vectors
from polyhop.retrieval.updating import remove_passages
from polyhop.types import Passage
from tests.kit.encoders import WordEncoder
from tests.kit.terminal import Cli, cli

__all__ = ["cli"]

PASSAGES = [
    Passage(str(number), f"Title {number}", f"kiln number {number} of river {number % 3}") for number in range(12)
]


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return build_index(open_corpus(PASSAGES), tmp_path / "index")


def written(path: Path, rows: Any, protocol: int = 4) -> Path:
    path.write_bytes(pickle.dumps(rows, protocol))
    return path


def pairs(passages: list[Passage]) -> list[tuple[str, Any]]:
    return [(p.id, vector) for p, vector in zip(passages, WordEncoder().passages(passages), strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_shards_in_any_order_become_the_vectors_of_the_index(index: Index, tmp_path: Path, protocol: int) -> None:
    starts = range(0, len(PASSAGES), 5)
    shards = [written(tmp_path / f"{at}.pkl", pairs(PASSAGES[at : at + 5])[::-1], protocol) for at in starts]
    out = tmp_path / "vectors.npy"
    size = take_vectors(index, shards[::-1], out)
    taken = read_vectors(out, len(PASSAGES), size)
    assert taken.dtype == np.float16
    np.testing.assert_array_equal(taken, WordEncoder().passages(PASSAGES).astype(np.float16))
    ours, theirs = Dense(index, WordEncoder()), Dense(index, WordEncoder(), vectors=taken, name="theirs")
    assert ours.search_scored("kiln river 2", 5) == theirs.search_scored("kiln river 2", 5)
    assert not list(tmp_path.glob(".vectors*"))


@pytest.mark.slow
def test_rows_of_removed_passages_are_left_empty(index: Index, tmp_path: Path) -> None:
    updated = remove_passages(index.folder, ["3"]).index
    rest = [passage for passage in PASSAGES if passage.id != "3"]
    take_vectors(updated, [written(tmp_path / "all.pkl", pairs(rest))], tmp_path / "vectors.npy")
    taken = np.load(tmp_path / "vectors.npy")
    assert taken.shape[0] == updated.rows
    for passage in rest:
        expected = WordEncoder().passages([passage])[0].astype(np.float16)
        np.testing.assert_array_equal(taken[updated.passages.ordinal(passage.id) or 0], expected)


class Calls:
    def __init__(self, what: Any, *given: Any) -> None:
        self.what, self.given = what, given

    def __reduce__(self) -> Any:
        return self.what, self.given


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_nothing_that_a_pickle_names_is_called(index: Index, tmp_path: Path, protocol: int) -> None:
    trace = tmp_path / "trace"
    for what, name in ((os.system, "system"), (open, "open"), (getattr, "getattr"), (eval, "eval")):
        hostile = Calls(what, f"touch {trace}" if what is not open else str(trace), *(("w",) if what is open else ()))
        path = written(tmp_path / f"{name}.pkl", [("0", hostile)], protocol)
        with pytest.raises(DataError, match=rf"names \w+\.{name}, which no vector needs"):
            take_vectors(index, [path], tmp_path / "out.npy")
    assert not trace.exists()
    assert not (tmp_path / "out.npy").exists()


def test_the_process_that_reads_knows_no_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[Any] = []

    def run(command: Any, **how: Any) -> Any:
        seen.append(how)
        raise subprocess.TimeoutExpired(command, 1)

    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(DataError, match="takes too long to read"):
        pickled._read_apart(written(tmp_path / "a.pkl", [("0", [1.0])]))
    assert set(seen[0]["env"]) == {"PYTHONPATH"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"0": [1.0]}, "holds a dict, not a list of pairs"),
        ([], "holds a list, not a list of pairs"),
        ([("0", [1.0], 3)], "a row is not a pair of an id and a vector"),
        ([(b"0", [1.0])], "a row is not a pair of an id and a vector"),
        ([("0", "far")], "is not a pickle of ids and vectors"),
        ([("0", [1.0]), ("1", [1.0, 2.0])], "is not a pickle of ids and vectors"),
        ([("0", [[1.0]])], "a vector is not a row of numbers"),
        ([("0", [float("nan")])], "is not a number of 16 bits"),
        ([("0", [1e9])], "is not a number of 16 bits"),
        ([("0", [1.0]), ("0", [1.0])], "a second vector for the same passage"),
        ([("elsewhere", [1.0])], "'elsewhere', which is not a passage of"),
        ([("0", [1.0])], "no vector for 11 of 12 passages: '1', '2', '3', '4', '5'"),
    ],
)
def test_what_is_no_matrix_of_the_index_says_so(index: Index, tmp_path: Path, rows: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        take_vectors(index, [written(tmp_path / "a.pkl", rows)], tmp_path / "out.npy")
    assert not list(tmp_path.glob("*out.npy"))


def test_shards_of_other_sizes_and_a_file_that_stands_are_refused(index: Index, tmp_path: Path) -> None:
    shards = [written(tmp_path / "a.pkl", [("0", [1.0])]), written(tmp_path / "b.pkl", [("1", [1.0, 2.0])])]
    with pytest.raises(DataError, match="vectors of 2 numbers, those before 1"):
        take_vectors(index, shards, tmp_path / "out.npy")
    with pytest.raises(DataError, match="exists already"):
        take_vectors(index, shards, shards[0])


@given(st.binary(max_size=80))
def test_no_bytes_do_anything_but_fail(data: bytes) -> None:
    with suppress(Exception):
        pickled._pairs(pickled._ArraysOnly(BytesIO(data)).load())


def test_the_verb_names_the_retriever(cli: Cli, index: Index, tmp_path: Path) -> None:
    shard = written(tmp_path / "a.pkl", pairs(PASSAGES))
    done = cli("index", "vectors", index.folder, shard, "--out", tmp_path / "v.npy")
    assert done.code == 0
    assert "12 vectors of 32 numbers" in done.err
    again = cli("index", "vectors", index.folder, shard, "--out", tmp_path / "v.npy")
    assert again.code == 2
    assert "exists already" in again.err
