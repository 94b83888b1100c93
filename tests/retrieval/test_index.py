"""Index folders: built whole or not at all, checked when opened, shared by processes, bounded in memory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tracemalloc
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.common.files import cache_folder, locked
from polyhop.common.progress import show_progress
from polyhop.data.corpora import open_corpus
from polyhop.data.index_folder import INDEX_PASSAGES
from polyhop.errors import DataError, IndexFolderError, UnknownName
from polyhop.retrieval import Index, build_index, index_for, open_index, open_plain_retriever
from polyhop.retrieval.analysis import Analysis
from polyhop.retrieval.links import LinkMode
from polyhop.retrieval.store import CHECKSUMS, OFFSETS, PassageStore, StoreWriter
from polyhop.types import Passage
from tests.kit.progress import Seen

ADA = Passage("a", "Ada Lovelace", "She wrote the first program in London.", metadata={"url": "x"})
LONDON = Passage("l", "London", "A city on the Thames.")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    build_index(open_corpus([ADA, LONDON]), tmp_path / "index")
    return tmp_path / "index"


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_index_holds_its_corpus_and_says_what_it_is(folder: Path) -> None:
    index = open_index(folder)
    assert len(index) == 2
    assert [p.to_dict() for p in index.passages] == [ADA.to_dict(), LONDON.to_dict()]
    assert index.passages.by_id("l") == LONDON
    assert index.passages.by_id("nobody") is None
    assert index.links(ADA) == [LONDON]
    assert (index.name, index.analysis, index.link_mode) == ("passages", Analysis("english"), "titles")
    assert index.fingerprint == open_corpus([ADA, LONDON]).fingerprint
    facts = json.loads((folder / "manifest.json").read_text())
    assert (facts["passages"], facts["skipped"], facts["mentions"]) == (2, 0, 1)
    assert facts["libraries"].keys() == {"tantivy", "numpy"}
    with pytest.raises(IndexError):
        index.passages.get(2)
    with pytest.raises(IndexError):
        index.passages.get(-1)


def test_an_index_folder_is_a_corpus(folder: Path) -> None:
    corpus = open_corpus(folder)
    assert (corpus.name, corpus.path, corpus.is_index) == ("index", folder, True)
    assert [p.to_dict() for p in corpus] == [ADA.to_dict(), LONDON.to_dict()]
    assert index_for(corpus).folder == folder
    assert open_index(folder, corpus=corpus).folder == folder


def test_another_corpus_than_it_was_built_from_is_an_error(folder: Path) -> None:
    assert len(open_index(folder, corpus=open_corpus([ADA, LONDON]))) == 2
    with pytest.raises(IndexFolderError, match="built from 'passages' in another state than passages; build it again"):
        open_index(folder, corpus=open_corpus([ADA]))


def test_searching_leaves_the_folder_as_it_is(folder: Path) -> None:
    def snapshot() -> dict[Path, tuple[int, int]]:
        files = [path for path in folder.rglob("*") if path.is_file()]
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in files}

    before = snapshot()
    index = open_index(folder)
    assert open_plain_retriever("bm25", index).search("program", 1) == [ADA]
    assert index.links(ADA) == [LONDON]
    assert snapshot() == before


def damage_tail(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def damage_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def remove(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("damage", [damage_tail, damage_byte, remove])
def test_any_damaged_file_is_found_when_the_folder_is_opened(
    folder: Path, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert len(files) > 10
    for number, name in enumerate(files):
        copy = tmp_path / f"copy{number}"
        shutil.copytree(folder, copy)
        if not (copy / name).stat().st_size:
            continue
        damage(copy / name)
        with pytest.raises(IndexFolderError, match="again"):
            open_index(copy)


def edit_manifest(folder: Path, **changes: object) -> None:
    path = folder / "manifest.json"
    path.write_bytes(orjson.dumps({**orjson.loads(path.read_bytes()), **changes}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 99}, "index format 99, .*; this polyhop reads index format 2; build the index again"),
        ({"kind": "TF-IDF"}, "written in TF-IDF format 2"),
        ({"byte_order": "big"}, "big-endian"),
        ({"stemmer": None}, "damaged or was edited"),
        ({"files": 3}, "manifest.json is damaged"),
    ],
)
def test_a_manifest_of_another_version_or_edited_is_an_error(
    folder: Path, changes: dict[str, object], message: str
) -> None:
    edit_manifest(folder, **changes)
    with pytest.raises(IndexFolderError, match=message):
        open_index(folder)


def test_what_is_missing_or_no_index_says_so(tmp_path: Path) -> None:
    with pytest.raises(IndexFolderError, match="no such folder"):
        open_index(tmp_path / "none")
    with pytest.raises(IndexFolderError, match=r"not a polyhop index, or a partial one: it has no manifest\.json"):
        open_index(tmp_path)
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(IndexFolderError, match=r"manifest\.json is damaged"):
        open_index(tmp_path)
    with pytest.raises(IndexFolderError, match="a file, not a folder"):
        open_index(tmp_path / "manifest.json")


def test_a_record_that_is_damaged_while_open_is_an_error_not_garbage(folder: Path) -> None:
    index = open_index(folder)
    with (index.state / "passages.jsonl").open("r+b") as stream:
        stream.write(b"[" * 10)
    with pytest.raises(IndexFolderError, match="passage 0 is damaged"):
        index.passages.get(0)


def test_only_an_index_is_overwritten_and_only_on_request(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(IndexFolderError, match="exists already"):
        build_index(open_corpus([ADA]), folder)
    assert len(open_index(folder)) == 2
    assert len(build_index(open_corpus([ADA]), folder, overwrite=True)) == 1
    photos = tmp_path / "photos"
    photos.mkdir()
    assert len(build_index(open_corpus([ADA]), photos)) == 1  # an empty folder is free
    shutil.rmtree(photos)
    photos.mkdir()
    (photos / "cat.jpg").write_bytes(b"cat")
    with pytest.raises(IndexFolderError, match="is not a polyhop index, so it is not overwritten"):
        build_index(open_corpus([ADA]), photos, overwrite=True)
    (tmp_path / "file").write_text("text")
    with pytest.raises(IndexFolderError, match="not overwritten"):
        build_index(open_corpus([ADA]), tmp_path / "file", overwrite=True)
    assert leftovers(photos) == ["cat.jpg"]
    assert leftovers(tmp_path) == ["file", "index", "photos"]


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(b'{"id": 1, "text": "one"}\n{"id": 1, "text": "two"}\n')
    with pytest.raises(DataError, match=r"bad\.jsonl:2: duplicate id '1'; first on line 1"):
        build_index(open_corpus(bad), tmp_path / "index")
    with pytest.raises(DataError, match="no passages"):
        build_index(open_corpus([]), tmp_path / "index")
    with pytest.raises(DataError, match="passage 'x' cannot be written as JSON"):
        build_index(open_corpus([Passage("x", "", "text", metadata={"when": {1, 2}})]), tmp_path / "index")
    assert leftovers(tmp_path) == ["bad.jsonl"]
    index = build_index(open_corpus(bad, skip_bad=True), tmp_path / "index")
    assert (len(index), index.facts["skipped"]) == (1, 1)


KILLED = """
import os, signal, sys
from polyhop.data.corpora import open_corpus
from polyhop.retrieval import build_index
from polyhop.types import Passage

class Deadly:
    passes = 0
    def __iter__(self):
        self.passes += 1
        for number in range(5000):
            if self.passes == 2 and number == 3000:  # the first pass takes the fingerprint
                os.kill(os.getpid(), signal.SIGKILL)
            yield Passage(str(number), "T", "text")

build_index(open_corpus(Deadly()), sys.argv[1])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_a_killed_build_leaves_no_index_and_the_next_cleans_up(tmp_path: Path) -> None:
    folder = tmp_path / "my [index]"
    assert subprocess.run([sys.executable, "-c", KILLED, str(folder)], check=False).returncode == -9
    (left,) = tmp_path.glob("**/passages.jsonl")
    assert not folder.exists()
    with pytest.raises(IndexFolderError, match="no such folder"):
        open_index(folder)
    for part in (left.parent, left.parent.parent):
        with pytest.raises(IndexFolderError, match="partial"):
            open_index(part)
    live = tmp_path / ".my [index].building-live"
    live.mkdir()
    with locked(live / ".building") as held:  # a build under way elsewhere is left alone
        assert held
        build_index(open_corpus([ADA]), folder)
        assert leftovers(tmp_path) == [".my [index].building-live", "my [index]"]
    build_index(open_corpus([ADA]), folder, overwrite=True)
    assert leftovers(tmp_path) == ["my [index]"]


SHARED_BUILD = """
import os, sys
from polyhop.data.corpora import open_corpus
from polyhop.retrieval import index_for
from polyhop.types import Passage

class Logged:
    def __iter__(self):
        with open(sys.argv[1], "a") as log:
            log.write("pass\\n")
        for number in range(3000):
            yield Passage(str(number), f"Title {number}", "text")

sys.stdin.read(1)
index = index_for(open_corpus(Logged()))
print(index.folder, len(index))
"""


def test_two_processes_that_want_the_same_index_build_it_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", SHARED_BUILD, str(log)]
    pair = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
        for _ in range(2)
    ]
    for process in pair:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=60)[0] for process in pair]
    assert [process.returncode for process in pair] == [0, 0]
    (output,) = set(outputs)
    built = Path(output.split(" ")[0])
    assert output.strip().endswith(" 3000")
    assert log.read_text().count("pass") == 3  # a fingerprint each, and one build
    assert leftovers(cache_folder() / "indexes") == [built.name, f"{built.name}.lock"]


def test_a_corpus_is_indexed_once_per_content_and_settings(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(orjson.dumps(ADA.to_dict()))
    first = index_for(open_corpus(path))
    assert first.folder.parent == cache_folder() / "indexes"
    built = first.folder.stat().st_mtime_ns
    again = index_for(open_corpus(path))
    assert (again.folder, again.folder.stat().st_mtime_ns) == (first.folder, built)
    others = {
        index_for(open_corpus(path), stem=False).folder,
        index_for(open_corpus(path), stop_words=False).folder,
        index_for(open_corpus(path), links=False).folder,
    }
    path.write_bytes(orjson.dumps(LONDON.to_dict()))
    changed = index_for(open_corpus(path))
    assert len({first.folder, changed.folder, *others}) == 5
    assert changed.passages.get(0) == LONDON


def test_an_index_in_the_cache_with_links_of_another_version_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    former = index_for(open_corpus([ADA, LONDON])).folder
    monkeypatch.setattr("polyhop.retrieval.index.LINKING_VERSION", 0)
    assert index_for(open_corpus([ADA, LONDON])).folder != former


def test_a_damaged_index_in_the_cache_is_built_again(tmp_path: Path) -> None:
    index = index_for(open_corpus([ADA, LONDON]))
    (index.folder / "manifest.json").write_text("{")
    assert len(index_for(open_corpus([ADA, LONDON]))) == 2
    shutil.rmtree(index.folder)
    index.folder.mkdir()
    assert len(index_for(open_corpus([ADA, LONDON]))) == 2


@pytest.mark.parametrize(
    "id", ["../../x", "/etc/passwd", "a" * 100_000, "\x00\x1b[2J\n", "CON", "é\u2028😀", '"; --', "."]
)
def test_an_id_is_never_more_than_an_id(tmp_path: Path, id: str) -> None:
    folder = tmp_path / "deep" / "er"
    folder.mkdir(parents=True)
    index = build_index(open_corpus([Passage(id, "Title", "kiln"), LONDON]), folder / "index")
    found = index.passages.by_id(id)
    assert found is not None
    assert (found.id, found.text) == (id, "kiln")
    assert [p.id for p in open_plain_retriever("bm25", index).search("kiln", 2)] == [id]
    assert [p.id for p in open_plain_retriever("tfidf", index).search("kiln", 2)] == [id]
    assert [p.id for p in open_corpus(index.folder)] == [id, "l"]
    assert leftovers(tmp_path) == ["deep"]
    assert leftovers(folder) == ["index"]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Index:
    passages = [Passage(f"id {number}", f"Title {number}", "text") for number in range(2000)]
    return build_index(open_corpus(passages), tmp_path_factory.mktemp("many") / "index")


@given(st.integers(0, 1999), st.text(max_size=5))
def test_every_id_is_found_and_no_other(many: Index, number: int, other: str) -> None:
    assert many.passages.ordinal(f"id {number}") == number
    assert many.passages.ordinal(f"id {number}!") is None
    assert many.passages.ordinal(other) is None


def test_two_ids_of_one_hash_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyhop.retrieval.store._hash", lambda id: len(id))
    index = build_index(open_corpus([Passage(id, "", "text") for id in ("aa", "b", "bb", "cc")]), tmp_path / "index")
    assert [index.passages.ordinal(id) for id in ("aa", "b", "bb", "cc", "dd", "c", "")] == [
        0,
        1,
        2,
        3,
        None,
        None,
        None,
    ]


class Many:
    """Twenty megabytes of passages, made as they are asked for."""

    def __iter__(self) -> Iterator[Passage]:
        for number in range(10_000):
            yield Passage(f"p{number}", f"Title {number}", f"{number} {'kiln' * 500}")


@pytest.mark.slow
def test_a_build_holds_no_passages(tmp_path: Path) -> None:
    seen = Seen()
    tracemalloc.start()
    try:
        with show_progress(seen):
            index = build_index(open_corpus(Many()), tmp_path / "index")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    read, linked = seen.reports("passages"), seen.reports("passages linked")
    assert read == [(done, None) for done in range(1000, 10_001, 1000)]
    assert linked[0] == (512, 10_000)
    assert len(linked) == 19
    assert len(index) == 10_000
    assert peak < 7 * 2**20  # ids, titles and buffers


def test_settings_are_checked_before_anything_is_read(tmp_path: Path) -> None:
    corpus = open_corpus([ADA])
    with pytest.raises(UnknownName, match=r"unknown language 'germn'; did you mean 'german'\? Valid: arabic, .*"):
        build_index(open_corpus([ADA], language="germn"), tmp_path / "index")
    wrong: LinkMode = "title"  # type: ignore[assignment]
    with pytest.raises(UnknownName, match="unknown kind of links 'title'; did you mean 'titles'"):
        index_for(corpus, links=wrong)
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize(
    "row", ["[]", "7", "{", "{}", '{"id": 1, "title": "", "text": ""}', '{"id": "1", "title": "T"}']
)
def test_a_row_that_is_no_passage_is_named(tmp_path: Path, row: str) -> None:
    with StoreWriter(tmp_path) as writer:
        writer.add(Passage("1", "T", "x"))
    line = f"{row}\n".encode()
    (tmp_path / INDEX_PASSAGES).write_bytes(line)
    (tmp_path / OFFSETS).write_bytes(array("Q", [0, len(line)]).tobytes())
    (tmp_path / CHECKSUMS).write_bytes(array("I", [crc32(line)]).tobytes())
    with pytest.raises(IndexFolderError, match="passage 0 is not as it was written"):
        PassageStore(tmp_path).get(0)
