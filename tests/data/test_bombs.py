"""Hostile rows that would fill the memory, block for ever, or be read but never written again."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from polyhop.data import lines, sources
from polyhop.data.corpora import open_corpus
from polyhop.data.questions import open_questions
from polyhop.errors import DataError
from polyhop.retrieval import build_index
from tests.kit.terminal import Cli, cli

__all__ = ["cli"]

GOOD = '{"id": "good", "text": "Good.", "question": "Who?"}\n'


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


def test_metadata_nested_too_deeply_is_a_fault_of_its_line(tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "deep.jsonl"
    path.write_text(GOOD + f'{{"id": "3", "text": "Deep.", "metadata": {{"a": {nested(300)}}}}}\n')
    with pytest.raises(DataError, match=r"deep\.jsonl:2: nested more than 100 deep"):
        list(open_corpus(path))
    lenient = open_corpus(path, skip_bad=True)
    assert len(build_index(lenient, tmp_path / "index")) == 1
    assert lenient.skipped == 1
    assert "deep.jsonl:2: nested" in cli("index", "build", path, "--out", tmp_path / "other").err


@pytest.mark.parametrize(
    ("name", "text", "row"),
    [
        ("q.jsonl", '{"question": "Who?"}\n{"question": "Who?", "metadata": {"a": DEEP}}\n', r"q\.jsonl:2: "),
        ("q.json", '[{"question": "Who?"}, {"question": "Who?", "metadata": {"a": DEEP}}]', "record 2: "),
        ("q.csv", 'question,decomposition\nWho?,\nWho?,"[{""a"": DEEP}]"\n', "row 3: .*'decomposition'"),
    ],
)
def test_questions_nested_too_deeply_are_faults_of_their_rows(tmp_path: Path, name: str, text: str, row: str) -> None:
    path = tmp_path / name
    path.write_text(text.replace("DEEP", nested(300)))
    with pytest.raises(DataError, match=f"{row}.*nested more than 100 deep"):
        list(open_questions(path))
    lenient = open_questions(path, skip_bad=True)
    assert (len(list(lenient)), lenient.skipped) == (1, 1)


@pytest.mark.parametrize("levels", [100, 101])
def test_a_row_may_be_nested_up_to_the_limit(levels: int) -> None:
    text = '{"a": ' + nested(levels - 1) + "}"
    if levels == 100:
        assert lines.json_object(text) == lines.json_object(text.encode())
    else:
        with pytest.raises(ValueError, match="nested more than 100 deep"):
            lines.json_object(text)


def test_many_sibling_values_are_not_deep() -> None:
    assert len(lines.json_object(json.dumps({"links": [[number] for number in range(1000)]}))["links"]) == 1000


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", '"\\ud800"', '"half \\udc00 of a pair"', "1e999"])
def test_invalid_json_is_a_fault_of_its_line(tmp_path: Path, value: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(GOOD + f'{{"id": "3", "text": "Bad.", "metadata": {{"a": {value}}}}}\n')
    lenient = open_corpus(path, skip_bad=True)
    assert ([passage.id for passage in lenient], lenient.skipped) == (["good"], 1)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_a_compression_bomb_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setattr(lines, "MAX_UNPACKED", 2**18)
    bomb = pack(GOOD.encode() + b"\n" * 2**20)
    for name in ("corpus.jsonl.gz", "questions.json"):
        (tmp_path / name).write_bytes(bomb)
    for skip_bad in (False, True):
        with pytest.raises(DataError, match=r"corpus\.jsonl\.gz: unpacks to more than [\d,]+ bytes"):
            list(open_corpus(tmp_path / "corpus.jsonl.gz", skip_bad=skip_bad))
        with pytest.raises(DataError, match=r"questions\.json: unpacks to more than"):
            list(open_questions(tmp_path / "questions.json", format="jsonl", skip_bad=skip_bad))
    monkeypatch.setattr(lines, "MAX_UNPACKED", 2**21)
    assert [passage.id for passage in open_corpus(tmp_path / "corpus.jsonl.gz")] == ["good"]


def test_a_bomb_inside_an_archive_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_UNPACKED", 2**20)
    bomb = bz2.compress(b"\n" * 2**22)
    with tarfile.open(tmp_path / "wiki.tar", "w") as archive:
        header = tarfile.TarInfo("AA/wiki_00.bz2")
        header.size = len(bomb)
        archive.addfile(header, io.BytesIO(bomb))
    with pytest.raises(DataError, match=r"wiki_00\.bz2: unpacks to more than"):
        list(open_corpus(tmp_path / "wiki.tar", skip_bad=True))


def test_an_endless_line_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (lines, sources):
        monkeypatch.setattr(module, "MAX_LINE_BYTES", 2**20)
    files = {
        "c.jsonl": '{"id": "' + "a" * 2**21,
        "c.tsv": "id\ttext\ttitle\n1\t" + "a" * 2**21,
        "q.csv": "question,answer\n" + "a" * 2**21,
        "q.json": '[{"question": "' + "a" * 2**22,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        read = open_corpus if name.startswith("c") else open_questions
        with pytest.raises(DataError, match=rf"{name}.*(line|record) of more than 1 MB"):
            list(read(tmp_path / name, skip_bad=True))


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such pipes")
@pytest.mark.parametrize("name", ["c.jsonl", "notes.txt", "book.epub"])
def test_a_pipe_is_not_read(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    for read in (open_corpus, open_questions):
        with pytest.raises(DataError, match=rf"{name}: not a regular file"):
            list(read(tmp_path / name))
