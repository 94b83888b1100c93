"""The cache of replies under many processes, killed at any write: a reply is there whole, or it is not there.

``POLYHOP_TRIES=10`` makes ten times as many stories, ``POLYHOP_HYPOTHESIS=exploring`` others in every run.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from polyhop.errors import DataError
from polyhop.lm.base import Completion
from polyhop.lm.cache import CompletionCache
from tests.kit.stories import Story, tell
from tests.kit.tally import count
from tests.kit.tries import tries
from tests.kit.victims import Fault, victims

KEYS = tuple(f"key {n}" for n in range(6))
Write = tuple[str, int]
"""A key, and the version of its reply."""

writes = st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 3)), min_size=1, max_size=30)
kills = st.builds(Fault, limit=st.integers(0, 200_000)) | st.builds(Fault, at=st.integers(0, 3))
full = st.builds(Fault, limit=st.integers(0, 200_000), number=st.just(27))
faults = st.none() | kills | full


def text_of(key: str, version: int) -> str:
    """The reply of a version, of up to some pages of the file."""
    draw = random.Random(f"{key} {version}")
    return f"{key} {version} " + "".join(draw.choices("abcdefgh", k=draw.choice([10, 900, 9000])))


def write(folder: Path, given: Sequence[Write], flush_every: int) -> None:
    """Keep replies, and write down which of them are on the disk: the work of the victims."""
    with closing(CompletionCache(folder / "lm.sqlite")) as cache:
        for n, (key, version) in enumerate(given, 1):
            cache.keep(key.encode(), Completion(text=text_of(key, version)), model="m", task="t")
            if n % flush_every == 0:
                cache.flush()
                if cache.on:  # a file of its own, which no limit of this process meets
                    (folder / f"flushed {key}").touch()


class CacheStory(Story):
    """The life of one cache."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="cache-story-"))
        self.path = self.folder / "lm.sqlite"
        self.written: dict[str, set[str]] = {key: set() for key in KEYS}

    @rule(jobs=st.lists(st.tuples(writes, st.integers(1, 9), faults), min_size=1, max_size=4))
    def write(self, jobs: list[tuple[list[Write], int, Fault | None]]) -> None:
        """Several processes write at once, and some die or find the disk full."""
        for given, _, _ in jobs:
            for key, version in given:
                self.written[key].add(text_of(key, version))
        work = [((given, every), fault) for given, every, fault in jobs]
        for (given, _, fault), outcome in zip(jobs, self.processes.run_all(self.folder, work), strict=True):
            assert outcome.status != 2, outcome
            count("writers of the cache")
            assert outcome.error.count("\n") <= (fault is not None and fault.number is not None), outcome
            if outcome.status == 0 and not outcome.error:
                for key, _ in given:
                    (self.folder / f"flushed {key}").touch()

    @rule(key=st.sampled_from(KEYS), seed=st.integers(0, 2**16))
    def a_row_is_damaged(self, key: str, seed: int) -> None:
        """The reply is named as unusable, the others are served, and a new reply takes its place."""
        if not self.path.exists() or not self._read(key):
            return
        with closing(sqlite3.connect(self.path)) as opened, opened:
            (reply,) = opened.execute("SELECT reply FROM replies WHERE key = ?", (key.encode(),)).fetchone()
            at = random.Random(seed).randrange(len(reply) - 17)
            damaged = reply[:at] + bytes([reply[at] ^ 1 << seed % 8]) + reply[at + 1 :]
            opened.execute("UPDATE replies SET reply = ? WHERE key = ?", (damaged, key.encode()))
        with closing(CompletionCache(self.path)) as cache:
            with pytest.raises(DataError, match=r"not a usable cache.*delete it") as caught:
                cache.completion(key.encode())
            assert str(self.path) in str(caught.value)
            for other in KEYS:
                if other != key:
                    cache.completion(other.encode())
            cache.keep(key.encode(), Completion(text=text_of(key, 0)), model="m", task="t")
            self.written[key].add(text_of(key, 0))
        count("rows damaged")

    @rule(seed=st.integers(0, 2**16))
    def the_file_is_damaged(self, seed: int) -> None:
        """It is named, or serves what was written; the damaged file stays for its owner to look at."""
        if not self.path.exists():
            return
        draw, kept = random.Random(seed), self.folder / "kept"
        shutil.copy(self.path, kept)
        data = bytearray(kept.read_bytes())
        for _ in range(draw.randint(1, 20)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        self.path.write_bytes(data[: draw.choice([len(data), len(data), draw.randrange(len(data))])])
        try:
            with closing(CompletionCache(self.path)) as cache:
                found = {key: cache.completion(key.encode()) for key in KEYS}
            assert all(reply is None or reply.text in self.written[key] for key, reply in found.items())
        except DataError as error:
            assert str(self.path) in str(error)  # noqa: PT017
            count("damaged files named")
        assert self.path.exists()
        for left in self.folder.glob("lm.sqlite*"):
            left.unlink()
        kept.rename(self.path)

    @invariant()
    def replies_are_whole(self) -> None:
        if self.path.exists():
            for key in KEYS:
                text = self._read(key)
                assert not text or text in self.written[key]
                assert text or not (self.folder / f"flushed {key}").exists(), "a reply on the disk was lost"

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def _read(self, key: str) -> str:
        with closing(CompletionCache(self.path)) as cache:
            found = cache.completion(key.encode())
            assert cache.on
        count("replies read", found is not None)
        return found.text if found else ""


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork and signals")
def test_a_reply_is_there_whole_or_not_there(tmp_path: Path) -> None:
    with victims(f"{__name__}:write", tmp_path) as processes:
        tell(CacheStory, processes, examples=tries(12), steps=8)
