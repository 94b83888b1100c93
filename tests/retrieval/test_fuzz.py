"""Damaged index folders and corpus files: an error of polyhop's, never another, a crash, or a wrong text."""

from __future__ import annotations

import bz2
import gzip
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.data.corpora import open_corpus
from polyhop.errors import DataError
from polyhop.retrieval import build_index, open_index
from polyhop.retrieval import sealed_folder as folder_module
from polyhop.retrieval.bm25 import BM25
from polyhop.retrieval.dense import Dense
from polyhop.retrieval.tfidf import BigramTfIdf, TfIdf
from polyhop.retrieval.updating import add_passages, remove_passages
from polyhop.types import Passage
from tests.kit.encoders import WordEncoder

pytestmark = pytest.mark.slow

EXPLORING = os.environ.get("POLYHOP_HYPOTHESIS", "steady") != "steady"

PASSAGES = [
    Passage(f"p{number}", f"Title {number}", f"kiln oboe {number} Title {number // 2} été", metadata={"page": number})
    for number in range(40)
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index that was updated, with all that retrievers make of it."""
    return made(tmp_path_factory.mktemp("whole") / "index")


def made(folder: Path) -> Path:
    """The index, at ``folder``."""
    build_index(open_corpus(PASSAGES[:30]), folder)
    add_passages(folder, open_corpus(PASSAGES[30:]))
    remove_passages(folder, ["p3", "p33"])
    everything(folder)
    return folder


def everything(folder: Path) -> dict[str, Any]:
    """All that can be read of an index folder."""
    index = open_index(folder)
    content: dict[str, Any] = {"passages": [passage.to_dict() for passage in index.passages]}
    content["by id"] = [index.passages.by_id(f"p{number}") for number in range(41)]
    content["links"] = [[target.id for target in index.links(passage)] for passage in index.passages]
    for engine in (BM25(index), TfIdf(index), BigramTfIdf(index), Dense(index, WordEncoder())):
        for query in ("kiln", "oboe 7", "title"):
            found = engine.search_scored(query, 50)
            content[f"{type(engine).__name__} {query}"] = [(passage.id, score) for passage, score in found]
    return content


def tried(work: Callable[[], Any]) -> tuple[Any, str]:
    """Return the result of the work, or what it reports to be wrong with the data; any other error is raised."""
    try:
        return work(), ""
    except DataError as error:
        return None, str(error)


def damage(folder: Path, file: int, kind: str, position: float, byte: int) -> str:
    """Damage a file of a folder; its name."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    path = files[file % len(files)]
    data = bytearray(path.read_bytes())
    at = int(position * len(data))
    match kind:
        case "flip" if data:
            data[at] ^= byte
        case "insert":
            data[at:at] = bytes([byte])
        case "truncate":
            del data[at:]
        case "empty":
            data.clear()
        case "swap":
            other = files[byte % len(files)]
            data, theirs = bytearray(other.read_bytes()), data
            other.write_bytes(theirs)
        case "delete":
            path.unlink()
        case "folder":
            path.unlink()
            path.mkdir()
    if path.is_file():
        path.unlink()  # it may be linked into another state
        path.write_bytes(data)
    return path.name


damages = st.tuples(
    st.integers(0, 200),
    st.sampled_from(["flip", "flip", "insert", "truncate", "empty", "swap", "delete", "folder"]),
    st.floats(0, 1, exclude_max=True),
    st.integers(1, 255),
)


@settings(max_examples=2000 if EXPLORING else 60, deadline=None)
@given(what=damages)
def test_a_damaged_index_folder_is_an_error_or_does_no_harm(whole: Path, what: tuple[int, str, float, int]) -> None:
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "index"
        shutil.copytree(whole, copy)
        damage(copy, *what)
        found, error = tried(lambda: everything(copy))
        assert str(copy) in error if error else found == everything(whole)


@pytest.fixture(scope="module")
def unsampled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, with no checksum of a file in any manifest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder_module, "_measure", size_alone)
        return made(tmp_path_factory.mktemp("unsampled") / "index")


def size_alone(path: Path) -> list[int]:
    return [path.stat().st_size, 0]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, over damaged norms
@settings(max_examples=3000 if EXPLORING else 80, deadline=None)
@given(what=st.tuples(damages, damages))
def test_a_changed_byte_outside_the_samples_gives_no_wrong_text(
    unsampled: Path, what: tuple[tuple[int, str, float, int], ...]
) -> None:
    """Of a file over 4 MB only samples are checked when it is opened: here, none are."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(folder_module, "_measure", size_alone)
        copy = Path(name) / "index"
        shutil.copytree(unsampled, copy)
        for file, _, position, byte in what:
            damage(copy, file, "flip", position, byte)
        found, error = tried(lambda: everything(copy))
        assert str(copy) in error if error else found["passages"] == everything(unsampled)["passages"]
        _, error = tried(lambda: add_passages(copy, open_corpus([Passage("new", "Title 7", "kiln of Title 8")])))
        assert not error or str(copy) in error


LINES = b"".join(orjson.dumps(passage.to_dict()) + b"\n" for passage in PASSAGES[:8])
CORPORA = {
    "corpus.jsonl": LINES,
    "corpus.jsonl.gz": gzip.compress(LINES),
    "corpus.jsonl.bz2": bz2.compress(LINES),
    "corpus.tsv": b"id\ttext\ttitle\n" + b"".join(b"%d\tkiln %d\tTitle\n" % (n, n) for n in range(8)),
    "contents.jsonl": b'{"id": 1, "contents": "Title\\nkiln"}\n{"id": 2, "contents": "Other\\noboe"}\n',
}
NASTY = [
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\0",
    b"\\ud800",
    b"1e999",
    b'"' * 9,
    b"\x1f\x8b",
    b"\n",
]

edits = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 40), st.binary(max_size=8) | st.sampled_from(NASTY)),
    min_size=1,
    max_size=4,
)


@settings(max_examples=5000 if EXPLORING else 150, deadline=None)
@given(name=st.sampled_from(sorted(CORPORA)), edits=edits, cut=st.floats(0, 1) | st.none(), skip_bad=st.booleans())
def test_a_damaged_corpus_file_is_read_or_reported(
    name: str, edits: list[tuple[float, int, bytes]], cut: float | None, skip_bad: bool
) -> None:
    data = bytearray(CORPORA[name])
    for position, length, put in edits:
        at = int(position * len(data))
        data[at : at + length] = put
    if cut is not None:
        del data[int(cut * len(data)) :]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        passages, error = tried(lambda: list(open_corpus(path, skip_bad=skip_bad).unique()))
        assert name in error if error else passages
        for passage in passages or []:
            orjson.dumps(passage.to_dict())
            assert passage.id
            assert passage.text.strip()


@settings(max_examples=2000 if EXPLORING else 100, deadline=None)
@given(data=st.binary(max_size=300))
def test_any_bytes_are_a_corpus_or_reported(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "any"
        path.write_bytes(data)
        with pytest.raises(DataError, match="any"):
            list(open_corpus(path).unique())


def test_a_line_that_fills_the_memory_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyhop.data.lines.MAX_LINE_BYTES", 1 << 20)
    path = tmp_path / "corpus.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"id": 1, "text": "' + b"x" * (2 << 20) + b'"}\n'))
    with pytest.raises(DataError, match=r"corpus\.jsonl\.gz:1: a line of more than 1 MB"):
        list(open_corpus(path))
