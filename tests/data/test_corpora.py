"""Every corpus format, every fault with its file and line, and that nothing is held."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from polyhop.data.corpora import open_corpus
from polyhop.data.corpus import Corpus
from polyhop.errors import DataError, UnknownName
from polyhop.types import Passage
from tests.kit.terminal import Cli, cli

__all__ = ["cli"]

ADA = {"id": "1", "title": "Ada Lovelace", "text": "She wrote the first program."}
ALAN = {"id": "2", "title": "Alan Turing", "text": "He broke the code."}


def write(path: Path, *rows: object) -> Path:
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


def values(corpus: Corpus) -> list[tuple[str, str, str]]:
    return [(passage.id, passage.title, passage.text) for passage in corpus]


@pytest.mark.parametrize(
    "row",
    [
        {"id": "1", "title": "Ada Lovelace", "text": "She wrote."},
        {"_id": "1", "title": "Ada Lovelace", "text": "She wrote.", "metadata": {}},
        {"pid": "1", "title": "Ada Lovelace", "text": "She wrote."},
        {"passage_id": "1", "title": "Ada Lovelace", "text": "She wrote."},
        {"id": 1, "title": "Ada Lovelace", "text": "She wrote."},
        {"id": "1", "contents": '"Ada Lovelace"\nShe wrote.'},
        {"id": "1", "contents": "Ada Lovelace\nShe wrote."},
        {"id": "1", "title": "Ada Lovelace", "contents": "She wrote."},
        {"docid": "1", "title": "Ada Lovelace", "text": "She wrote.", "url": "https://example.org"},
        {"idx": 1, "title": "Ada Lovelace", "paragraph_text": "She wrote."},
    ],
)
def test_every_form_of_line_gives_the_same_passage(tmp_path: Path, row: object) -> None:
    assert values(open_corpus(write(tmp_path / "c.jsonl", row))) == [("1", "Ada Lovelace", "She wrote.")]


def test_contents_of_one_line_are_text_without_a_title(tmp_path: Path) -> None:
    corpus = open_corpus(write(tmp_path / "c.jsonl", {"id": "1", "contents": "She wrote the first program."}))
    assert values(corpus) == [("1", "", "She wrote the first program.")]


def test_a_title_keeps_its_own_quotation_marks(tmp_path: Path) -> None:
    rows = [{"id": 1, "title": '"Heroes"', "text": "A song."}, {"id": 2, "contents": '"Heroes" (album)\nAn album.'}]
    assert [p.title for p in open_corpus(write(tmp_path / "c.jsonl", *rows))] == ['"Heroes"', '"Heroes" (album)']


def test_links_and_metadata_are_kept(tmp_path: Path) -> None:
    row = {**ADA, "links": ["Alan Turing", 1815], "metadata": {"url": "x"}, "embedding": [1.0]}
    (passage,) = open_corpus(write(tmp_path / "c.jsonl", row))
    assert passage.links == ("Alan Turing", "1815")
    assert passage.metadata == {"url": "x"}


def test_gzip_is_recognised_by_its_content(tmp_path: Path) -> None:
    data = gzip.compress(orjson.dumps(ADA) + b"\n")
    for name in ("c.jsonl.gz", "c.jsonl"):
        (tmp_path / name).write_bytes(data)
        assert [p.id for p in open_corpus(tmp_path / name)] == ["1"]


def test_blank_lines_byte_order_mark_and_windows_line_ends_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + orjson.dumps(ADA) + b"\r\n\r\n  \n" + orjson.dumps(ALAN))
    assert [p.id for p in open_corpus(path)] == ["1", "2"]


def test_a_folder_with_corpus_jsonl_is_read_as_beir_does(tmp_path: Path) -> None:
    folder = tmp_path / "scifact"
    (folder / "qrels").mkdir(parents=True)
    write(folder / "corpus.jsonl", {"_id": "4983", "title": "Cells", "text": "They divide.", "metadata": {}})
    write(folder / "queries.jsonl", {"_id": "q", "text": "Do they divide?"})
    corpus = open_corpus(folder)
    assert (corpus.name, values(corpus)) == ("scifact", [("4983", "Cells", "They divide.")])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"id": "3", "title": "T"', "not valid JSON"),
        (b'{"id": "3", "text": "caf\xe9"}', "not valid JSON"),
        (b"[1, 2]", "expected a JSON object, found an array"),
        (b'"text"', "expected a JSON object, found a string"),
        (
            b'{"id": "3", "question": "Who?"}',
            "missing field one of 'text', 'contents', 'paragraph_text', 'content'; has 'id', 'question'",
        ),
        (b'{"id": true, "text": "x"}', "'id' is a boolean, expected a string"),
        (b'{"id": " ", "text": "x"}', "'id' is empty"),
        (b'{"id": "3", "text": 7}', "'text' is a number, expected a string"),
        (b'{"id": "3", "text": " \\n"}', "'text' is empty"),
        (b'{"id": "3", "contents": ""}', "'contents' is empty"),
        (b'{"id": "3", "title": ["T"], "text": "x"}', "'title' is an array, expected a string"),
        (b'{"id": "3", "text": "x", "links": "T"}', "'links' is a string, expected an array of strings"),
        (b'{"id": "3", "text": "x", "links": [null]}', "'links' holds null, expected strings"),
        (b'{"id": "3", "text": "x", "metadata": []}', "'metadata' is an array, expected an object"),
    ],
)
def test_a_malformed_line_is_reported_or_counted(tmp_path: Path, line: bytes, message: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(orjson.dumps(ADA) + b"\n\n" + line + b"\n" + orjson.dumps(ALAN) + b"\n")
    with pytest.raises(DataError) as caught:
        list(open_corpus(path))
    assert str(caught.value).startswith(f"{path}:3: ")
    assert message in str(caught.value)
    lenient = open_corpus(path, skip_bad=True)
    for _ in range(2):  # the count is of one pass, not of all
        assert [p.id for p in lenient] == ["1", "2"]
        assert lenient.skipped == 1


def test_a_repeated_id_is_an_error_when_ids_must_be_unique(tmp_path: Path) -> None:
    path = write(tmp_path / "c.jsonl", ADA, ALAN, {**ALAN, "id": 1})
    assert len(list(open_corpus(path))) == 3
    with pytest.raises(DataError, match=r"c\.jsonl:3: duplicate id '1'; first on line 1"):
        list(open_corpus(path).unique())
    lenient = open_corpus(path, skip_bad=True)
    assert [p.title for p in lenient.unique()] == ["Ada Lovelace", "Alan Turing"]
    assert lenient.skipped == 1


def test_damaged_gzip_is_an_error_even_when_bad_lines_are_skipped(tmp_path: Path) -> None:
    rows = b"".join(orjson.dumps({**ADA, "id": os.urandom(16).hex()}) + b"\n" for _ in range(500))
    whole = gzip.compress(rows)
    path = tmp_path / "c.jsonl.gz"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"c\.jsonl\.gz:\d+: damaged or unreadable"):
        list(open_corpus(path, skip_bad=True))
    path.write_bytes(whole[:12])
    with pytest.raises(DataError, match="damaged or unreadable"):
        open_corpus(path)


def test_a_small_archive_cannot_expand_to_an_endless_line(tmp_path: Path) -> None:
    path = tmp_path / "bomb.jsonl.gz"
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(b'{"id": "1", "text": "')
        for _ in range(65):
            stream.write(b" " * 2**20)
    with pytest.raises(DataError, match=r":1: a line of more than 64 MB"):
        list(open_corpus(path))


@pytest.mark.parametrize("skip_bad", [False, True])
def test_an_empty_corpus_is_an_error(tmp_path: Path, skip_bad: bool) -> None:
    (tmp_path / "empty.jsonl").write_bytes(b"\n \n")
    with pytest.raises(DataError, match="no passages in it"):
        list(open_corpus(tmp_path / "empty.jsonl", skip_bad=skip_bad))
    with pytest.raises(DataError, match="no passages in it"):
        list(open_corpus([], skip_bad=skip_bad))


def test_a_corpus_of_only_bad_lines_is_empty(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no passages in it; left out: 2 malformed lines"):
        list(open_corpus(write(tmp_path / "c.jsonl", {"a": 1}, {"b": 2}), skip_bad=True))


def test_a_missing_file_or_unknown_format_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.jsonl: no such file"):
        open_corpus(tmp_path / "nowhere.jsonl")
    (tmp_path / "wiki.table").write_text("id\twords\ttitle\n")
    with pytest.raises(DataError, match=r"unknown corpus format: begins with b'id\\twords\\ttitle\\n'.*BEIR"):
        open_corpus(tmp_path / "wiki.table")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "picture.png").write_bytes(b"")
    with pytest.raises(
        DataError, match=r"no corpus in this folder; it holds picture\.png\. Accepted in a folder: documents"
    ):
        open_corpus(tmp_path / "other")


def test_a_corpus_can_be_read_again_and_has_a_readable_name(tmp_path: Path) -> None:
    path = write(tmp_path / "wiki18.jsonl.gz", ADA)
    corpus = open_corpus(path)
    assert values(corpus) == values(corpus)
    assert (corpus.name, corpus.path, repr(corpus)) == ("wiki18", path, "Corpus('wiki18')")
    assert open_corpus(corpus) is corpus


def test_passages_handed_in_are_a_corpus() -> None:
    passages = [Passage("1", "A", "a"), Passage("2", "B", "b")]
    for source in (passages, tuple(passages), iter(passages)):
        corpus = open_corpus(source)
        assert [p.id for p in corpus] == [p.id for p in corpus] == ["1", "2"]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"id": "1"}, "item 2 of the corpus is an object, expected a Passage"),
        (Passage("", "T", "x"), "item 2 of the corpus has an empty id"),
        (Passage("2", "T", " "), "item 2 of the corpus has an empty text"),
    ],
)
def test_passages_handed_in_are_checked(item: Passage, message: str) -> None:
    passages = [Passage("1", "A", "a"), item]
    with pytest.raises(DataError, match=message):
        list(open_corpus(passages))
    lenient = open_corpus(passages, skip_bad=True)
    assert [p.id for p in lenient] == ["1"]
    assert lenient.skipped == 1


def test_a_fingerprint_changes_with_the_content_and_only_then(tmp_path: Path) -> None:
    path = write(tmp_path / "c.jsonl", ADA, ALAN)
    status = path.stat()
    first = open_corpus(path).fingerprint
    assert first == open_corpus(path).fingerprint
    assert len(first) == 32
    assert int(first, 16) >= 0
    write(path, ALAN, ADA)  # as long as before
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert open_corpus(path).fingerprint != first
    a, b = Passage("1", "A", "a"), Passage("2", "B", "b")
    assert open_corpus([a, b]).fingerprint == open_corpus(iter((a, b))).fingerprint
    assert open_corpus([a, b]).fingerprint != open_corpus([b, a]).fingerprint
    assert open_corpus([a]).fingerprint != open_corpus([Passage("1", "A", "a", links=("B",))]).fingerprint


class Many:
    """Twenty megabytes of passages, made as they are asked for."""

    def __iter__(self) -> Iterator[Passage]:
        for number in range(20_000):
            yield Passage(f"p{number}", f"Title {number}", f"{number} " * 200)


@pytest.mark.slow
def test_neither_a_file_nor_an_iterable_is_held_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    with path.open("wb") as stream:
        for passage in Many():
            stream.write(orjson.dumps(passage.to_dict()) + b"\n")
    for source in (path, Many()):
        corpus = open_corpus(source)
        tracemalloc.start()
        try:
            assert sum(1 for _ in corpus) == 20_000
            assert corpus.fingerprint
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 2 * 2**20


FORMS = {
    "c.jsonl": '{"Key": 7, "Name": "Emma", "Body": "Emma is a novel.", "text": "not this"}\n',
    "c.json": '[{"Key": 7, "Name": "Emma", "Body": "Emma is a novel."}]',
    "c.csv": "Key,Name,Body\n7,Emma,Emma is a novel.\n",
}


@pytest.mark.parametrize("name", FORMS)
def test_columns_of_any_file_of_rows_are_mapped(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(FORMS[name])
    fields = {"id": "Key", "title": "Name", "text": "Body"}
    corpus = open_corpus(path, fields=fields)
    assert list(corpus) == [Passage("7", "Emma", "Emma is a novel.")]
    assert corpus.fingerprint != open_corpus(path, fields={**fields, "id": "Name"}).fingerprint
    with pytest.raises(UnknownName, match="field of a passage 'txt'"):
        open_corpus(path, fields={"txt": "Body"})


def test_an_index_is_built_of_mapped_columns(tmp_path: Path, cli: Cli) -> None:
    path, out = tmp_path / "c.jsonl", tmp_path / "index"
    path.write_text(FORMS["c.jsonl"])
    done = cli("index", "build", path, "--out", out, "--fields", "text=Body,title=Name,id=Key")
    assert done.code == 0, done.err
    assert [passage.title for passage in open_corpus(out)] == ["Emma"]
