"""Indexes, reports and caches on a disk that is full or read-only, or in use by another process: an error of one line,
nothing half written, nothing lost."""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyhop import Passage
from polyhop.cli import main
from polyhop.common.progress import show_progress
from polyhop.data.corpora import open_corpus
from polyhop.errors import DataError, IndexFolderError
from polyhop.lm import cache_store as store
from polyhop.lm.base import Completion
from polyhop.lm.cache import CompletionCache
from polyhop.methods.registry import write_settings
from polyhop.retrieval import build_index, open_index
from polyhop.retrieval.bm25 import BM25
from polyhop.retrieval.dense import Dense
from polyhop.retrieval.inverted_index import BM25Writer, system_errors
from polyhop.retrieval.sealed_folder import first_state
from polyhop.retrieval.store import allocate
from polyhop.retrieval.tfidf import TfIdf
from polyhop.retrieval.updating import add_passages
from tests.kit.encoders import WordEncoder
from tests.kit.hostile_runs import plain_run

PASSAGES = [Passage(f"p{number}", f"Title {number}", f"A kiln of {number} bricks.") for number in range(20)]
ERRORS = [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO]


def refusing(number: int) -> Callable[..., Any]:
    def refuse(*_: object, **__: object) -> Any:
        raise OSError(number, os.strerror(number))

    return refuse


WRITES = [
    "polyhop.retrieval.store.StoreWriter._write_tables",
    "polyhop.retrieval.index.build_links",
    "polyhop.retrieval.sealed_folder._measure",
    "polyhop.retrieval.sealed_folder._put_in_place",
    "polyhop.retrieval.sealed_folder._new",
    "polyhop.retrieval.inverted_index.BM25Writer.add",
]


def files(folder: Path) -> dict[str, bytes]:
    """The content of a folder, without its locks."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("number", ERRORS, ids=errno.errorcode.get)
def test_a_build_that_the_disk_refuses_fails_and_leaves_no_files(
    number: int, write: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(write, refusing(number))
        with pytest.raises(IndexFolderError, match=os.strerror(number)) as caught:
            build_index(open_corpus(PASSAGES), tmp_path / "held" / "index")
    assert str(tmp_path / "held" / "index") in str(caught.value)
    assert list((tmp_path / "held").iterdir()) == []
    assert len(build_index(open_corpus(PASSAGES), tmp_path / "held" / "index")) == len(PASSAGES)


@pytest.mark.parametrize("write", WRITES[2:3] + WRITES[-1:])
def test_a_change_that_a_disk_refuses_leaves_the_old_index(
    write: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_index(open_corpus(PASSAGES[:9]), tmp_path / "index")
    before = files(tmp_path / "index")
    for change in (
        lambda: add_passages(tmp_path / "index", open_corpus(PASSAGES[9:])),
        lambda: build_index(open_corpus(PASSAGES), tmp_path / "index", overwrite=True),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(write, refusing(errno.ENOSPC))
            with pytest.raises(IndexFolderError, match=os.strerror(errno.ENOSPC)):
                change()
        assert files(tmp_path / "index") == before


@pytest.mark.parametrize("retriever", [TfIdf, lambda index: Dense(index, WordEncoder())], ids=["tfidf", "dense"])
def test_what_a_retriever_adds_to_an_index_may_be_refused(
    retriever: Callable[[Any], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = build_index(open_corpus(PASSAGES), tmp_path / "index")
    with monkeypatch.context() as patch:
        for module in ("postings", "vectors"):
            patch.setattr(f"polyhop.retrieval.{module}.write_manifest", refusing(errno.ENOSPC))
        with pytest.raises(IndexFolderError, match=os.strerror(errno.ENOSPC)):
            retriever(index)
    retriever(index)
    assert len(BM25(open_index(tmp_path / "index")).search_scored("kiln", 5)) == 5


def test_what_tantivy_says_of_a_full_disk_is_the_systems_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)), system_errors():
        raise ValueError("An IO error occurred: 'No space left on device (os error 28)'")
    with pytest.raises(ValueError, match="other"), system_errors():
        raise ValueError("other")

    class Dead:
        def add_document(self, document: object) -> None:
            raise ValueError("An index writer was killed.")

    index = build_index(open_corpus(PASSAGES), tmp_path / "index")
    writer = BM25Writer(tmp_path / "bm25", index.analysis)
    writer._writer = Dead()  # type: ignore[assignment]
    with pytest.raises(OSError, match="was killed"):
        writer.add(0, PASSAGES[0])


def test_room_for_a_map_is_reserved_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.memmap(tmp_path / "map", np.uint8, "w+", shape=(1 << 20,))
    allocate(tmp_path / "map")
    assert (tmp_path / "map").stat().st_size == 1 << 20
    monkeypatch.setattr("polyhop.retrieval.store.os.posix_fallocate", refusing(errno.ENOSPC), raising=False)
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        allocate(tmp_path / "map")


class _Full:
    """A file that takes a part of what is written and no more."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __enter__(self) -> _Full:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def write(self, data: bytes) -> int:
        self._stream.write(data[:3])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    opened = Path.open

    def full(path: Path, mode: str = "r", *given: Any, **named: Any) -> Any:
        stream = opened(path, mode, *given, **named)
        return _Full(stream) if mode == "wb" else stream

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", full)
        yield


@pytest.mark.parametrize("ending", ["md", "tex", "csv", "json", "html"])
def test_a_report_is_written_whole_or_not_at_all(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain_run(tmp_path / "run", limit=2)
    out = tmp_path / "reports" / f"report.{ending}"
    out.parent.mkdir()
    out.write_text("as it was")
    monkeypatch.setattr(sys, "argv", ["polyhop", "report", str(tmp_path / "run"), "--out", str(out)])
    with full_disk(monkeypatch), pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert error == f"polyhop: {out}: cannot be written: {os.strerror(errno.ENOSPC)}\n"
    assert [path.read_text() for path in out.parent.iterdir()] == ["as it was"]


def test_settings_are_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "settings").mkdir()
    path = tmp_path / "settings" / "tor.json"
    write_settings(path, {"method": "tor", "settings": {}})
    before = path.read_bytes()
    with full_disk(monkeypatch), pytest.raises(DataError, match=os.strerror(errno.ENOSPC)):
        write_settings(path, {"method": "resp", "settings": {}})
    assert [each.read_bytes() for each in path.parent.iterdir()] == [before]


# --- several at once -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_there", [False, True])
def test_of_two_builds_into_one_folder_the_first_to_end_counts(is_there: bool, tmp_path: Path) -> None:
    folder = tmp_path / "held" / "index"
    if is_there:
        folder.mkdir(parents=True)
    with pytest.raises(IndexFolderError, match="exists already"), first_state(folder, kind="index", overwrite=False):
        build_index(open_corpus(PASSAGES[:5]), folder)
    assert len(open_index(folder)) == 5
    assert [path.name for path in folder.parent.iterdir()] == ["index"]


def test_a_build_that_loses_at_the_last_moment_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another build ends between the look at the folder and the renaming."""
    folder = tmp_path / "held" / "index"
    renamed = Path.rename

    def late(path: Path, target: Path) -> Path:
        if target == folder and not folder.exists():
            with monkeypatch.context() as patch:
                patch.setattr(Path, "rename", renamed)
                build_index(open_corpus(PASSAGES[:5]), folder)
        return renamed(path, target)

    monkeypatch.setattr(Path, "rename", late)
    with pytest.raises(IndexFolderError, match="cannot be written"):
        build_index(open_corpus(PASSAGES), folder)
    assert len(open_index(folder)) == 5
    assert [path.name for path in folder.parent.iterdir()] == ["index"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_build_that_is_interrupted_leaves_nothing(error: type[BaseException], tmp_path: Path) -> None:
    class Interrupt:
        def update(self, done: int, total: int | None = None) -> None:
            raise error

    many = [Passage(f"p{number}", "", f"kiln {number}") for number in range(1000)]
    with pytest.raises(error), show_progress(lambda noun, before: nullcontext(Interrupt())):
        build_index(open_corpus(many), tmp_path / "held" / "index")
    assert list((tmp_path / "held").iterdir()) == []


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES], ids=errno.errorcode.get)
def test_a_folder_that_is_read_only_is_named(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"id": "a", "text": "A kiln."}\n')
    monkeypatch.setattr(Path, "mkdir", refusing(number))
    given = ["polyhop", "index", "build", str(tmp_path / "corpus.jsonl"), "--out", str(tmp_path / "index")]
    monkeypatch.setattr(sys, "argv", given)
    with pytest.raises(SystemExit) as ended:
        main()
    error = capsys.readouterr().err
    assert (ended.value.code, error.count("\n")) == (2, 1)
    assert os.strerror(number) in error


# --- the cache of replies --------------------------------------------------------------------------------------------


def filled(path: Path) -> Path:
    with closing(CompletionCache(path)) as cache:
        cache.keep(b"key", Completion(text="kept"), model="m", task="t")
    return path


def test_a_locked_cache_gives_one_warning_and_no_endless_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(store, "_LOCKED_FOR", 0.02)
    path = filled(tmp_path / "lm.sqlite")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        cache = CompletionCache(path)
        cache.keep(b"new", Completion(text="new"), model="m", task="t")
        assert (cache.on, cache.completion(b"key")) == (False, None)
        cache.close()
    assert len(caplog.records) == 1
    assert "going on without it" in caplog.text
    with closing(CompletionCache(path)) as again:
        assert getattr(again.completion(b"key"), "text", None) == "kept"


def test_a_cache_that_is_locked_after_it_was_opened_is_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(store, "_LOCKED_FOR", 0.02)
    path = filled(tmp_path / "lm.sqlite")
    cache = CompletionCache(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        cache.keep(b"new", Completion(text="new"), model="m", task="t")
        cache.close()
    assert not cache.on
    assert len(caplog.records) == 1


def test_a_cache_that_is_read_only_is_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = filled(tmp_path / "lm.sqlite")
    connect: Callable[..., sqlite3.Connection] = sqlite3.connect

    def read_only(name: Path, **options: Any) -> sqlite3.Connection:
        return connect(f"file:{name}?mode=ro", uri=True, **options)

    monkeypatch.setattr("polyhop.lm.cache_store.sqlite3.connect", read_only)
    cache = CompletionCache(path)
    cache.keep(b"new", Completion(text="new"), model="m", task="t")
    cache.close()
    assert not cache.on
    assert len(caplog.records) == 1
    assert "going on without it" in caplog.text


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC], ids=errno.errorcode.get)
def test_a_cache_whose_folder_cannot_be_made_is_one_warning(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Path, "mkdir", refusing(number))
    assert not CompletionCache(tmp_path / "cache" / "lm.sqlite").on
    assert len(caplog.records) == 1


def test_a_cache_that_is_a_pipe_is_no_wait_without_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lm.sqlite")
    try:
        assert not CompletionCache(tmp_path / "lm.sqlite").on
    except DataError as error:
        assert "not a usable cache" in str(error)  # noqa: PT017
