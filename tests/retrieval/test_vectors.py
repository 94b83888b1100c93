"""The folder of a corpus's vectors: made once, in shards, going on after a stop, bound to corpus and encoder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyhop.common.progress import report_progress, show_progress
from polyhop.data.corpora import open_corpus
from polyhop.errors import IndexFolderError, UsageError
from polyhop.retrieval import Index, build_index
from polyhop.retrieval import vectors as module
from polyhop.retrieval.vectors import Encode, PassageEncoder, passage_vectors
from polyhop.types import Passage

PASSAGES = [Passage(f"p{number}", "", f"text {number}") for number in range(23)]


@pytest.fixture(autouse=True)
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SHARD", 4)


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return build_index(open_corpus(PASSAGES), tmp_path / "index")


class Numbers:
    """Encodes a passage by its number; records what it encoded, and stops at a given passage."""

    def __init__(self, stop_at: str | None = None) -> None:
        self.encoded: list[str] = []
        self.opened = 0
        self.stop_at = stop_at

    def open(self) -> Encode:
        self.opened += 1
        return self.encode

    def encode(self, passages: Sequence[Passage]) -> Any:
        for passage in passages:
            if passage.id == self.stop_at:
                raise KeyboardInterrupt
            self.encoded.append(passage.id)
        return np.array([[int(passage.id[1:]), 0.5, -1] for passage in passages], np.float32)

    def encoder(self, key: str = "one") -> PassageEncoder:
        return PassageEncoder("numbers", key, 3, self.open)


EXPECTED = [[number, 0.5, -1.0] for number in range(23)]


def test_passages_are_encoded_once_and_in_order(index: Index) -> None:
    numbers = Numbers()
    made = passage_vectors(index, numbers.encoder())
    assert made.tolist() == EXPECTED
    assert (made.dtype.name, made.flags.writeable) == ("float16", False)
    assert numbers.encoded == [passage.id for passage in PASSAGES]
    assert passage_vectors(index, numbers.encoder()).tolist() == EXPECTED
    assert numbers.opened == 1
    (folder,) = index.state.glob("vectors-*[0-9a-f]")
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "vectors"]
    assert not list(index.state.glob(".*vectors*"))


@pytest.mark.parametrize("stop_at", ["p0", "p3", "p4", "p9", "p22"])
def test_a_stopped_encoding_goes_on(index: Index, stop_at: str) -> None:
    first = Numbers(stop_at)
    with pytest.raises(KeyboardInterrupt):
        passage_vectors(index, first.encoder())
    assert not list(index.state.glob("vectors-*[0-9a-f]"))
    second = Numbers()
    assert passage_vectors(index, second.encoder()).tolist() == EXPECTED
    whole_shards = int(stop_at[1:]) // 4
    assert second.encoded == [passage.id for passage in PASSAGES][max(0, whole_shards - 1) * 4 :]


@pytest.mark.parametrize("lost", [1, 5, 6, 24, 25, 500])
def test_a_shard_that_was_torn_is_encoded_again(index: Index, lost: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        passage_vectors(index, Numbers("p14").encoder())
    (torn,) = index.state.glob(".vectors-*/vectors")
    os.truncate(torn, max(0, torn.stat().st_size - lost))
    assert passage_vectors(index, Numbers().encoder()).tolist() == EXPECTED


def test_stopped_between_the_last_shard_and_the_name_it_is_ended(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_manifest", stop)
        with pytest.raises(KeyboardInterrupt):
            passage_vectors(index, Numbers().encoder())
    second = Numbers()
    assert passage_vectors(index, second.encoder()).tolist() == EXPECTED
    assert len(second.encoded) < 8


KILLED = """
import sys, time
import numpy as np
from polyhop.retrieval import open_index, vectors
vectors._SHARD = 4
def encode(passages):
    time.sleep(0.02)
    print(passages[0].id, flush=True)
    return np.array([[int(passage.id[1:]), 0.5, -1] for passage in passages], np.float32)
vectors.passage_vectors(open_index(sys.argv[1]), vectors.PassageEncoder("numbers", "one", 3, lambda: encode))
"""


@pytest.mark.skipif(os.name == "nt", reason="kills by signal")
def test_a_killed_process_leaves_what_another_ends(index: Index) -> None:
    with subprocess.Popen([sys.executable, "-c", KILLED, str(index.folder)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(3):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    second = Numbers()
    assert passage_vectors(index, second.encoder()).tolist() == EXPECTED
    assert len(second.encoded) < 23


def test_another_encoder_or_corpus_has_vectors_of_its_own(index: Index, tmp_path: Path) -> None:
    first, second, third = Numbers(), Numbers(), Numbers()
    passage_vectors(index, first.encoder("one"))
    passage_vectors(index, second.encoder("another"))
    assert first.encoded == second.encoded
    changed = [*PASSAGES[:-1], Passage("p99", "", "text 22")]
    again = build_index(open_corpus(changed), index.folder, overwrite=True)
    assert passage_vectors(again, third.encoder("one"))[-1].tolist() == [99, 0.5, -1]


def test_an_index_that_may_not_be_written_to_has_them_in_the_cache(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    before = sorted(index.state.iterdir())
    numbers = Numbers()
    for _ in range(2):
        assert passage_vectors(index, numbers.encoder()).tolist() == EXPECTED
    assert numbers.opened == 1
    assert sorted(index.state.iterdir()) == before
    assert list((tmp_path / "cache").glob("vectors-*/*/vectors"))


def test_many_threads_make_them_once(index: Index) -> None:
    numbers = Numbers()
    slow = numbers.encode

    def encode(passages: Sequence[Passage]) -> Any:
        time.sleep(0.005)
        return slow(passages)

    numbers.encode = encode  # type: ignore[method-assign]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: passage_vectors(index, numbers.encoder()).tolist(), range(4)))
    assert made == [EXPECTED] * 4
    assert len(numbers.encoded) == 23


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e6])
def test_what_is_no_number_of_16_bits_is_refused(index: Index, value: float) -> None:
    encoder = PassageEncoder("odd", "odd", 3, lambda: lambda passages: np.full((len(passages), 3), value, np.float32))
    with pytest.raises(UsageError, match="odd gives vectors that are not numbers of 16 bits"):
        passage_vectors(index, encoder)


def test_a_damaged_folder_is_refused(index: Index) -> None:
    passage_vectors(index, Numbers().encoder())
    (file,) = index.state.glob("vectors-*/vectors")
    file.write_bytes(file.read_bytes()[:-2])
    with pytest.raises(IndexFolderError, match="vectors is truncated or damaged"):
        passage_vectors(index, Numbers().encoder())


def test_who_watches_is_told_how_far_it_is(index: Index) -> None:
    reports: list[Any] = []

    class Show:
        def update(self, done: int, total: int | None = None) -> None:
            reports.append((done, total))

    @contextmanager
    def show(noun: str, before: int) -> Iterator[Show]:
        reports.append((noun, before))
        try:
            yield Show()
        finally:
            reports.append("end")

    with show_progress(show):
        with pytest.raises(KeyboardInterrupt):
            passage_vectors(index, Numbers("p14").encoder())
        passage_vectors(index, Numbers().encoder())
        passage_vectors(index, Numbers().encoder())
    first = [("passages encoded", 0), *((done, 23) for done in (4, 8, 12)), "end"]
    second = [("passages encoded", 8), *((done, 23) for done in (12, 16, 20, 23)), "end"]
    assert reports == [*first, *second]
    with report_progress("passages") as tell:
        tell(1, 2)
    assert reports[-1] == "end"
    quiet: Callable[[int, int], object] = tell
    assert quiet(1, 2) is None
