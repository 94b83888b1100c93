"""A folder of text and Markdown documents as a corpus."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from polyhop.data.corpora import open_corpus
from polyhop.errors import DataError


def make(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_documents_are_read_in_order_at_any_depth(tmp_path: Path) -> None:
    files = {"b.txt": "Bees hum.", "a/deep/c.md": "# Cats\nCats purr.", "a/B.TXT": "Birds sing.", "notes.rst": "no"}
    corpus = open_corpus(make(tmp_path / "docs", files))
    assert corpus.name == "docs"
    assert [(p.id, p.title, p.text) for p in corpus] == [
        ("b.txt#1", "b", "Bees hum."),
        ("a/B.TXT#1", "B", "Birds sing."),
        ("a/deep/c.md#1", "Cats", "Cats purr."),
    ]


def test_a_long_document_is_cut_at_sentence_ends_into_about_100_words(tmp_path: Path) -> None:
    sentence = "Sentence {} has in all just about ten words in it."
    text = " ".join(sentence.format(number) for number in range(60))
    passages = list(open_corpus(make(tmp_path, {"long.txt": text})))
    assert [p.id for p in passages] == [f"long.txt#{number}" for number in range(1, len(passages) + 1)]
    assert " ".join(p.text for p in passages) == text
    assert all(p.text.endswith(".") and 80 <= len(p.text.split()) <= 125 for p in passages[:-1])


@pytest.mark.parametrize(
    ("name", "text", "title", "body"),
    [
        ("a.md", "Intro.\n\n## Real title ##\nBody.", "Real title", "Intro. Body."),
        ("a.md", "#nota heading\n\nBody goes on.", "#nota heading", "Body goes on."),
        ("a.md", "No heading here at all.", "a", "No heading here at all."),
        ("a.md", "# T\nOne.\n```\n# code\n```\n", "T", "One. ``` # code ```"),
        ("a.md", "---\ntitle: 'T'\ndate: 1815\n---\nOne.", "T", "One."),
        ("a.md", "T\n===\nOne.", "T", "One."),
        ("a.txt", "# T\nOne.", "a", "# T One."),
        ("a.txt", "\n\nThe title\n\nThe body.", "The title", "The body."),
        ("a.txt", "The title\nThe body.", "a", "The title The body."),
        ("a.txt", "The title only\n\n", "a", "The title only"),
        ("two.dots.txt", "Text.", "two.dots", "Text."),
    ],
)
def test_the_title_is_the_first_heading_or_the_files_name(
    tmp_path: Path, name: str, text: str, title: str, body: str
) -> None:
    (passage,) = open_corpus(make(tmp_path, {name: text}))
    assert (passage.title, passage.text) == (title, body)


def test_one_document_is_a_corpus_too(tmp_path: Path) -> None:
    make(tmp_path, {"note.md": "# Note\nText.", "other.md": "Other."})
    assert [p.id for p in open_corpus(tmp_path / "note.md")] == ["note.md#1"]


def test_empty_documents_give_no_passage_and_only_such_an_error(tmp_path: Path) -> None:
    assert [p.id for p in open_corpus(make(tmp_path, {"a.txt": "", "b.txt": " \n", "c.txt": "C."}))] == ["c.txt#1"]
    (tmp_path / "c.txt").write_text("")
    with pytest.raises(DataError, match="no passages in it"):
        list(open_corpus(tmp_path))


def test_what_is_not_utf8_is_named_or_counted(tmp_path: Path) -> None:
    make(tmp_path, {"good.txt": "Good."})
    (tmp_path / "bad.txt").write_bytes("café".encode("latin-1"))
    (tmp_path / "bom.txt").write_bytes(b"\xef\xbb\xbfMark.")
    with pytest.raises(DataError, match=r"bad\.txt: not UTF-8 text \(byte 3\)"):
        list(open_corpus(tmp_path))
    lenient = open_corpus(tmp_path, skip_bad=True)
    assert [(p.id, p.text) for p in lenient] == [("bom.txt#1", "Mark."), ("good.txt#1", "Good.")]
    assert lenient.skipped == 1


def test_links_out_of_the_folder_and_hidden_files_are_left_out(tmp_path: Path) -> None:
    outside = make(tmp_path / "outside", {"secret.txt": "Secret."})
    folder = make(tmp_path / "docs", {"a.txt": "A.", ".hidden.txt": "H.", ".git/b.txt": "B.", "sub/c.txt": "C."})
    (folder / "leak.txt").symlink_to(outside / "secret.txt")
    (folder / "leaks").symlink_to(outside)
    (folder / "sub" / "round").symlink_to(folder)
    (folder / "alias.txt").symlink_to(folder / "a.txt")
    (folder / "gone.txt").symlink_to(folder / "nothing.txt")
    assert [p.id for p in open_corpus(folder)] == ["a.txt#1", "alias.txt#1", "sub/c.txt#1"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such a file name")
def test_a_file_name_that_is_not_unicode_still_gives_a_valid_id(tmp_path: Path) -> None:
    (tmp_path / "caf\udce9.txt").write_text("Coffee.")
    (passage,) = open_corpus(tmp_path)
    assert passage.id == "caf\ufffd.txt#1"
    passage.id.encode()


def test_a_fingerprint_follows_names_and_contents(tmp_path: Path) -> None:
    make(tmp_path, {"a.txt": "A.", "b.txt": "B."})
    first = open_corpus(tmp_path).fingerprint
    assert open_corpus(tmp_path).fingerprint == first
    (tmp_path / "a.txt").rename(tmp_path / "c.txt")
    renamed = open_corpus(tmp_path).fingerprint
    (tmp_path / "c.txt").write_text("C.")
    assert len({first, renamed, open_corpus(tmp_path).fingerprint}) == 3
