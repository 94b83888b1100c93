"""Caches and indexes are their owner's; runs, which are results to share, are as the umask has them."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import polyhop
from polyhop import Passage, Question, ScriptedLM
from polyhop.common.files import make_private
from polyhop.data.corpora import open_corpus
from polyhop.lm import Completion, CompletionCache
from polyhop.retrieval import open_retriever
from polyhop.retrieval.index import build_index, open_index
from polyhop.retrieval.updating import add_passages

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="permissions of another kind")

PASSAGES = [Passage("1", "Alien (film)", "Alien was directed by Ridley Scott."), Passage("2", "Ridley Scott", "Born.")]


@pytest.fixture(params=[0o000, 0o022], autouse=True)
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def others(folder: Path) -> list[str]:
    """The files of a folder, itself included, that others than its owner may read or write."""
    return [
        str(path) for path in (folder, *folder.rglob("*")) if path.lstat().st_mode & 0o077 and not path.is_symlink()
    ]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_cache_of_replies_is_its_owners(tmp_path: Path) -> None:
    path = tmp_path / "new" / "cache" / "lm.sqlite"
    cache = CompletionCache(path)
    cache.keep(b"k", Completion(text="x"), model="m", task="t")
    cache.flush()
    assert {file.name for file in path.parent.iterdir()} == {"lm.sqlite", "lm.sqlite-shm", "lm.sqlite-wal"}
    assert others(tmp_path / "new") == []
    assert cache.completion(b"k")
    cache.close()


def test_an_index_is_its_owners_while_it_is_built_and_after(tmp_path: Path) -> None:
    seen: list[str] = []

    class Looking:
        def __iter__(self) -> Iterator[Passage]:
            yield from PASSAGES
            building = list(tmp_path.glob(".*building*"))
            looks.append(len(building))
            seen.extend(str(path) for path in building if path.stat().st_mode & 0o077)

    looks: list[int] = []
    index = build_index(open_corpus(Looking()), tmp_path / "index", links="titles")
    assert 1 in looks
    open_retriever("tfidf", index)
    open_retriever("tfidf:bigram", index)
    open_retriever("dense:pocket", index)
    assert seen == []
    assert others(tmp_path / "index") == []
    add_passages(tmp_path / "index", open_corpus([Passage("3", "Rome", "A city.")]))
    assert others(tmp_path / "index") == []
    assert len(open_index(tmp_path / "index")) == 3


def test_the_index_of_a_corpus_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    with polyhop.Pipeline(PASSAGES, "one-r") as pipeline:
        assert pipeline.search("Ridley", 1)
    assert (tmp_path / "cache" / "indexes").is_dir()
    assert others(tmp_path / "cache") == []


def test_what_is_to_be_shared_is_as_the_umask_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYHOP_SHARED_CACHE", "1")
    umask = os.umask(0)
    os.umask(umask)
    CompletionCache(tmp_path / "shared" / "lm.sqlite").close()
    build_index(open_corpus(PASSAGES), tmp_path / "index")
    assert mode(tmp_path / "shared") == mode(tmp_path / "index") == 0o777 & ~umask
    assert mode(tmp_path / "shared" / "lm.sqlite") == 0o644 & ~umask
    files = [path for path in (tmp_path / "index").rglob("*") if path.is_file()]
    assert {mode(path) for path in files if path.suffix != ".lock"} == {0o666 & ~umask}


def test_an_index_that_was_opened_to_others_stays_open(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    build_index(open_corpus(PASSAGES), folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    add_passages(folder, open_corpus([Passage("3", "Rome", "A city.")]))
    open_retriever("tfidf", open_index(folder))
    assert [path for path in (folder, *folder.rglob("*")) if not mode(path) & 0o004] == []


def test_a_run_is_as_the_umask_has_it(tmp_path: Path) -> None:
    umask = os.umask(0)
    os.umask(umask)
    polyhop.evaluate([Question("q", "Who?")], method="direct", lm=ScriptedLM(lambda *_: "Rome"), out=tmp_path / "run")
    assert mode(tmp_path / "run") == 0o777 & ~umask
    assert mode(tmp_path / "run" / "predictions.jsonl") == 0o666 & ~umask


def test_a_folder_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    before = mode(tmp_path / "there")
    make_private(tmp_path / "there" / "new" / "newer")
    assert mode(tmp_path / "there") == before
    assert mode(tmp_path / "there" / "new") == mode(tmp_path / "there" / "new" / "newer") == 0o700
