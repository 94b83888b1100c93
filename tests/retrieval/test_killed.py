"""``kill -9`` while an index is built over, added to or removed from; and readers and writers side by side.

``POLYHOP_KILLS=100`` kills each kind of change a hundred times.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from polyhop.data.corpora import open_corpus
from polyhop.retrieval import Index, build_index, open_index
from polyhop.retrieval.bm25 import BM25
from polyhop.retrieval.updating import add_passages, remove_passages
from polyhop.types import Passage
from tests.kit import killed_update

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL and fork"),
]

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("POLYHOP_KILLS", "8"))


def content_of(index: Index) -> Any:
    """All that an index holds, and what it finds."""
    passages = list(index.passages)
    bm25 = BM25(index)
    return (
        [passage.to_dict() for passage in passages],
        [[target.id for target in index.links(passage)] for passage in passages],
        [index.passages.by_id(f"p{number}") for number in range(90)],
        [sorted(passage.id for passage in bm25.search(query, 100)) for query in ("kiln", "oboe 70", "title 3")],
        (index.facts["passages"], index.facts["mentions"]),
    )


def expected(passages: list[Passage], folder: Path) -> Any:
    return content_of(build_index(open_corpus(passages), folder))


class Victims:
    """Processes that change an index and may be killed."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "tests.kit.killed_update", str(folder)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, bufsize=1
        )

    def change(self, kind: str, after: float | None = None) -> int:
        """The exit status of a change that is killed ``after`` so many seconds, if given."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{kind}\n")
        child = int(self._process.stdout.readline())
        if after is not None:
            time.sleep(after)
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        return int(self._process.stdout.readline())

    def end(self) -> None:
        self._process.communicate("")


@contextmanager
def victims(folder: Path) -> Iterator[Victims]:
    opened = Victims(folder)
    try:
        yield opened
    finally:
        opened.end()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*killed_update.CHANGED])
def test_a_killed_change_leaves_the_old_index_or_the_new_one(kind: str, tmp_path: Path) -> None:
    folder, kept = tmp_path / "index", tmp_path / "kept"
    old = expected(killed_update.STANDING, kept)
    new = expected(killed_update.CHANGED[kind], tmp_path / "anew")
    moments = random.Random(kind)
    left: list[bool] = []
    with victims(folder) as processes:
        shutil.copytree(kept, folder)
        assert processes.change(kind) == 0
        begun = time.monotonic()
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)
        assert processes.change(kind) == 0
        lasts = time.monotonic() - begun
        random_kills = 3 if kind == "remove many" else KILLS
        kills: list[tuple[str, float | None]] = [(kind, moments.uniform(0, lasts)) for _ in range(random_kills)]
        kills += [(f"{kind}@{step}", None) for step in ("switch", "clear", "end")]
        for what, after in kills:
            shutil.rmtree(folder)
            shutil.copytree(kept, folder)
            status = processes.change(what, after)
            assert status in (0, signal.SIGKILL)
            assert "@" not in what or status == signal.SIGKILL
            found = content_of(open_index(folder))
            assert found in (old, new)
            left.append(found == new)
            assert processes.change(kind) == 0  # the same command then succeeds
            assert content_of(open_index(folder)) == new
            assert len([*folder.glob("state-*")]) == 1
            assert not [*tmp_path.glob(".*")]
    assert left[-3:] == [False, True, True]


READER = """
import sys
from polyhop.retrieval import open_index, open_plain_retriever

index = open_index(sys.argv[1])
first = [passage.to_dict() for passage in index.passages]
bm25 = open_plain_retriever("bm25", index)
hits = [passage.id for passage in bm25.search("kiln", 100)]
links = [[target.id for target in index.links(passage)] for passage in index.passages]
print("opened", flush=True)
for line in sys.stdin:  # the index was changed meanwhile, more than once
    assert [passage.to_dict() for passage in index.passages] == first
    assert [passage.id for passage in bm25.search("kiln", 100)] == hits
    assert [[target.id for target in index.links(passage)] for passage in index.passages] == links
    again = open_plain_retriever("bm25", index)  # what is opened late finds the same state too
    assert [passage.id for passage in again.search("kiln", 100)] == hits
    assert {passage.id for passage in open_plain_retriever("tfidf", index).search("kiln", 100)} == set(hits)
    print("the same", len(first), len(open_index(sys.argv[1])), flush=True)
"""

OPENER = """
import sys, threading
from polyhop.retrieval import open_index, open_plain_retriever

done = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), done.set()), daemon=True).start()
seen = set()
print("opened", flush=True)
while not done.is_set():
    index = open_index(sys.argv[1])
    ids = [passage.id for passage in index.passages]
    found = sorted(passage.id for passage in open_plain_retriever("bm25", index).search("word", 100))
    assert found == sorted(ids), (found, ids)
    seen.add(len(ids))
print(*sorted(seen), flush=True)
"""


def process(script: str, folder: Path) -> subprocess.Popen[str]:
    started = subprocess.Popen(
        [sys.executable, "-c", script, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert started.stdout
    assert started.stdout.readline() == "opened\n"
    return started


def numbered(start: int, end: int) -> list[Passage]:
    return [Passage(f"p{number}", f"Title {number}", f"word kiln Title {number // 2}") for number in range(start, end)]


def test_readers_keep_their_state_while_a_writer_updates(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    build_index(open_corpus(numbered(0, 40)), folder)
    readers = [process(READER, folder) for _ in range(2)]
    add_passages(folder, open_corpus(numbered(40, 50)))
    remove_passages(folder, [f"p{number}" for number in range(20)])
    for reader in readers:
        output, _ = reader.communicate("look\n", timeout=60)
        assert (output, reader.returncode) == ("the same 40 30\n", 0)
    assert len([*folder.glob("state-*")]) == 2
    add_passages(folder, open_corpus(numbered(50, 51)))
    assert len([*folder.glob("state-*")]) == 1  # nobody reads the first any more


@pytest.mark.slow
def test_whoever_opens_while_a_writer_updates_finds_one_state_whole(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    build_index(open_corpus(numbered(0, 40)), folder)
    openers = [process(OPENER, folder) for _ in range(2)]
    for number in range(40, 48):
        add_passages(folder, open_corpus(numbered(number, number + 1)))
    build_index(open_corpus(numbered(0, 10)), folder, overwrite=True)
    for opener in openers:
        output, _ = opener.communicate("", timeout=60)
        assert opener.returncode == 0
        assert {int(seen) for seen in output.split()} <= {10, *range(40, 49)}


@pytest.mark.slow
def test_a_second_writer_waits_for_the_first(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    build_index(open_corpus(killed_update.STANDING), folder)
    with victims(folder) as one, victims(folder) as other, ThreadPoolExecutor(2) as pool:
        assert [*pool.map(lambda each: each[0].change(each[1]), ((one, "add"), (other, "remove")))] == [0, 0]
    ids = {passage.id for passage in open_index(folder).passages}
    assert ids == {f"p{number}" for number in range(90)} - set(killed_update.GONE)


def test_whoever_reads_an_index_as_a_corpus_is_not_disturbed(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    build_index(open_corpus(numbered(0, 40)), folder)
    corpus = open_corpus(folder)
    reading = iter(corpus)
    first = next(reading)
    remove_passages(folder, [first.id])
    assert [first.id, *(passage.id for passage in reading)] == [passage.id for passage in numbered(0, 40)]
    assert [passage.id for passage in corpus] == [passage.id for passage in numbered(1, 40)]
