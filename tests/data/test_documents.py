"""A folder of text and Markdown documents as a corpus."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from polyhop.common.progress import show_progress
from polyhop.data.converting import converter
from polyhop.data.converting.encodings import decode_text
from polyhop.data.corpora import corpus_of_files, open_corpus
from polyhop.data.questions import open_questions
from polyhop.errors import DataError, MissingExtra
from polyhop.serve.service import Service
from tests.kit.progress import Seen
from tests.kit.terminal import Cli, cli

__all__ = ["cli"]


def make(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_documents_are_read_in_order_at_any_depth(tmp_path: Path) -> None:
    files = {
        "b.txt": "Bees hum.",
        "a/deep/c.md": "# Cats\nCats purr.",
        "a/B.TXT": "Birds sing.",
        "notes.odt": "no",
        "notes": "no",
    }
    corpus = open_corpus(make(tmp_path / "docs", files))
    assert corpus.name == "docs"
    assert [(p.id, p.title, p.text) for p in corpus] == [
        ("b.txt#1", "b", "Bees hum."),
        ("a/B.TXT#1", "B", "Birds sing."),
        ("a/deep/c.md#1", "Cats", "Cats purr."),
    ]


def test_a_long_document_is_split_into_about_100_words_at_sentence_ends(tmp_path: Path) -> None:
    sentence = "Sentence {} has in all just about ten words in it."
    text = " ".join(sentence.format(number) for number in range(60))
    passages = list(open_corpus(make(tmp_path, {"long.txt": text})))
    assert [p.id for p in passages] == [f"long.txt#{number}" for number in range(1, len(passages) + 1)]
    assert " ".join(p.text for p in passages) == text
    assert all(p.text.endswith(".") and 80 <= len(p.text.split()) <= 125 for p in passages[:-1])


@pytest.mark.parametrize(
    ("name", "text", "title", "body"),
    [
        ("a.md", "Intro.\n\n## Real title ##\nBody.", "Real title", "Intro.\nBody."),
        ("a.md", "#nota heading\n\nBody goes on.", "#nota heading", "Body goes on."),
        ("a.md", "No heading here at all.", "a", "No heading here at all."),
        ("a.md", "# T\nOne.\n```\n# code\n```\n", "T", "One.\n# code"),
        ("a.md", "---\ntitle: 'T'\ndate: 1815\n---\nOne.", "T", "One."),
        ("a.md", "T\n===\nOne.", "T", "One."),
        ("a.txt", "# T\nOne.", "a", "# T.\nOne."),
        ("a.txt", "\n\nThe title\n\nThe body.", "The title", "The body."),
        ("a.txt", "The title\nThe body.", "a", "The title.\nThe body."),
        ("a.txt", "The title only\n\n", "a", "The title only"),
        ("two.dots.txt", "Text.", "two.dots", "Text."),
        ("a.text", "The title\n\nThe body.", "The title", "The body."),
        ("a.log", "10:00 up\nthen down", "a", "10:00 up\nthen down"),
        ("Readme", "# T\nOne.", "T", "One."),
        ("AUTHORS", "# Of\n# all.\nAnn\nBo", "AUTHORS", "# Of.\n# all.\nAnn.\nBo"),
        ("README", "The tool\n--------\nOne.", "The tool", "One."),
        ("LICENSE", "        Free licence\n\n    Do what\n    you like.", "Free licence", "Do what you like."),
        ("Makefile", "all:\n\trm a", "Makefile", "all:\n    rm a"),
        ("sub/Dockerfile", "FROM a\n", "sub/Dockerfile", "FROM a"),
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


def test_a_folder_of_empty_documents_is_an_error(tmp_path: Path) -> None:
    corpus = open_corpus(make(tmp_path, {"a.txt": "", "b.csv": " \n", "c.txt": "C.", "__init__.py": ""}))
    assert [p.id for p in corpus] == ["c.txt#1"]
    assert corpus.left_out == ["a.txt (no text in it)", "b.csv (no text in it)"]  # an empty source file is usual
    (tmp_path / "c.txt").write_text("")
    with pytest.raises(DataError, match="no passages in it"):
        list(open_corpus(tmp_path))


def test_an_encoding_is_guessed_and_named(tmp_path: Path) -> None:
    texts = {
        "west.txt": ("Café – naïve.", "cp1252"),
        "wide.md": ("Café.", "utf-16"),
        "plain.csv": ("Café;Ü", "utf-8-sig"),
    }
    for name, (text, encoding) in {**texts, "bare.txt": ("Café here.", "utf-16-be")}.items():
        (tmp_path / name).write_bytes(text.encode(encoding))
    (tmp_path / "odd.py").write_bytes(b"# caf\xe9 \x81")
    (tmp_path / "binary.txt").write_bytes(b"\x7fELF\0\0\1\0\0x")
    corpus = open_corpus(tmp_path)
    assert {p.id: p.text for p in corpus} == {
        "bare.txt#1": "Café here.",
        "odd.py#1": "# café \x81",
        "plain.csv#1": "Café: Ü",
        "west.txt#1": "Café – naïve.",
        "wide.md#1": "Café.",
    }
    assert corpus.guesses == ["bare.txt (UTF-16)", "odd.py (Latin-1)", "west.txt (Windows-1252)"]
    left_out = "binary.txt (not a text: it holds zero bytes)"
    guessed = "bare.txt (UTF-16), odd.py (Latin-1), west.txt (Windows-1252)"
    assert corpus.summary == f"5 files, 5 passages; left out: {left_out}; encoding guessed: {guessed}"


@pytest.mark.parametrize(
    ("text", "encoding", "name"),
    [
        ("Директор завода Иван Петров живёт в Казани.", "cp1251", "Windows-1251"),
        ("Директор завода Иван Петров живёт в Казани.", "koi8-r", "KOI8-R"),
        ("The plant's director is Иван Петров from Казань.", "cp1251", "Windows-1251"),
        ("Ο διευθυντής είναι ο Γιώργος από την Αθήνα.", "cp1253", "Windows-1253"),
        ("会社の社長は田中さんです。東京に住んでいます。", "shift-jis", "Shift-JIS"),
        ("公司的總經理是王偉，他住在臺北。", "big5", "Big5"),
        ("Informação e direção: “É” — «œ».", "cp1252", "Windows-1252"),
        ("Óþægindi. Hääyö. Å Ä Ö.", "cp1252", "Windows-1252"),
        (f"A line of an old readme.\n{'─' * 40}", "cp437", "Windows-1252"),
    ],
)
def test_the_encoding_of_another_script_is_guessed(text: str, encoding: str, name: str) -> None:
    data = text.encode(encoding)
    read, guess = decode_text(data)
    assert guess == name
    assert read == (text if encoding != "cp437" else data.decode("cp1252"))


def test_one_document_that_cannot_be_read_is_an_error_in_a_folder_it_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "bad.xlsx").write_bytes(b"no zip")
    with pytest.raises(DataError, match=r"bad\.xlsx: damaged"):
        list(open_corpus(tmp_path / "bad.xlsx"))
    make(tmp_path, {"good.txt": "Good."})
    corpus = open_corpus(tmp_path)
    assert [p.id for p in corpus] == ["good.txt#1"]
    assert (corpus.skipped, corpus.left_out) == (1, ["bad.xlsx (damaged, or not of the format that its suffix names)"])


def test_documents_under_other_names_are_shown_by_their_own(tmp_path: Path) -> None:
    """Uploaded files are stored under numbers; nothing of that is shown."""
    stored = make(tmp_path, {"00001.md": "Text.", "00002.py": "x = 1\n", "00003.csv": "Name,Age\nAda,36\n"})
    (stored / "00004.xlsx").write_bytes(b"no zip")
    names = ["notes/day one.md", "code/x.py", "t.csv", "sub/bad.xlsx"]
    files = dict(zip(names, sorted(stored.iterdir()), strict=True))
    corpus = corpus_of_files("mine", files, Counter())
    assert [(p.id, p.title, p.metadata["source"]) for p in corpus] == [
        ("notes/day one.md#1", "day one", "notes/day one.md"),
        ("code/x.py#1", "code/x.py", "code/x.py"),
        ("t.csv#1", "t", "t.csv"),
    ]
    assert corpus.left_out == ["sub/bad.xlsx (damaged, or not of the format that its suffix names)"]
    assert str(tmp_path) not in corpus.summary


def test_reading_a_folder_to_index_it_reports_its_files(tmp_path: Path) -> None:
    folder = make(tmp_path, {"a.md": "A.", "b.md": "# B\nB.\n# C\nC.\n", "c.md": "C."})
    seen = Seen()
    with show_progress(seen):
        passages = list(open_corpus(folder).unique())
    assert len(passages) == 4
    assert sorted(set(seen.reports("files"))) == [(0, 3), (1, 3), (2, 3)]


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


# --- what is left out -------------------------------------------------------------------------------------------------


@pytest.fixture
def mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of two texts, two documents of an extra that is not installed, and files that no one reads."""
    monkeypatch.setattr(converter, "is_installed", lambda extra: False)
    monkeypatch.setenv("POLYHOP_CACHE", str(tmp_path / "cache"))
    files = {"a.txt": "Ada was born in London.", "b.md": "# Alan\nAlan was born in Paddington.", "talk.ODP": "x"}
    more = {"one.docx": "x", "sub/two.docx": "x", "noted": "all:", "old\x1b[31m.d\x07oc": "x"}
    folder = make(tmp_path / "mixed", files | more)
    (folder / "out.txt").symlink_to(make(tmp_path / "outside", {"secret.txt": "Secret."}) / "secret.txt")
    return folder


LEFT_OUT = [
    "2 .docx (pip install 'polyhop[docs]')",
    "1 file without a suffix (not a supported kind)",
    "1 .doc (not a supported kind)",
    "1 .txt (link out of the folder)",
    "1 .odp (not a supported kind)",
]


def test_a_missing_extra_skips_and_names_its_files(mixed: Path) -> None:
    corpus = open_corpus(mixed)
    assert [p.metadata["source"] for p in corpus] == ["a.txt", "b.md"]
    assert (corpus.passages, corpus.documents, corpus.skipped) == (2, 2, 0)
    assert sorted(corpus.left_out) == sorted(LEFT_OUT)
    assert corpus.left_out[0] == LEFT_OUT[0]
    assert corpus.summary.startswith(f"2 files, 2 passages; left out: {LEFT_OUT[0]}, ")
    with pytest.raises(MissingExtra, match=r"one\.docx needs .*pip install 'polyhop\[docs\]'"):
        list(open_corpus(mixed / "one.docx"))


@pytest.mark.slow
def test_every_command_reports_skipped_files_each_time(mixed: Path, tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "q.jsonl").write_text('{"question": "Where was Ada born?", "answer": "London"}\n')
    run = f'[run]\ndataset = "{tmp_path}/q.jsonl"\ncorpus = "{mixed}"\nmethod = "one-r"\n[[point]]\n'
    (tmp_path / "sweep.toml").write_text(run)
    table = ("searchain/table6", "--dataset", f"fever={tmp_path}/q.jsonl", "--corpus", f"fever={mixed}")
    verbs: list[tuple[object, ...]] = [
        ("index", "build", mixed, "--out", tmp_path / "index"),
        ("search", mixed, "Ada"),
        ("ask", "Where was Ada born?", "--corpus", mixed, "--method", "one-r", "--lm", "pocket"),  # indexed already
        ("run", "--dataset", tmp_path / "q.jsonl", "--corpus", mixed, "--method", "one-r", "--lm", "pocket"),
        ("sweep", tmp_path / "sweep.toml", "--dry-run"),
        ("sweep", tmp_path / "sweep.toml", "--out", tmp_path / "swept"),
        ("reproduce", *table),
    ]
    for verb in verbs:
        said = cli(*verb)
        assert said.code == 0
        assert f"2 files, 2 passages; left out: {LEFT_OUT[0]}, " in said.err
        assert "\x1b[31m" not in said.err
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "a.txt").write_text("Ada was born in London.")
    assert "1 file, 1 passage\n" in cli("index", "build", tmp_path / "plain", "--out", tmp_path / "other").err


async def test_a_server_logs_what_is_left_out_or_guessed(mixed: Path, caplog: pytest.LogCaptureFixture) -> None:
    (mixed / "west.txt").write_bytes(b"caf\xe9")
    service = Service({"mixed": open_corpus(mixed)}, method="one-r", lm="pocket")
    await service.open()
    (record,) = [record for record in caplog.records if "left out" in record.getMessage()]
    assert LEFT_OUT[0] in vars(record)["facts"]["left_out"]
    (record,) = [record for record in caplog.records if "guessed" in record.getMessage()]
    assert vars(record)["facts"]["encodings"] == ["west.txt (Windows-1252)"]
    await service.aclose()


def test_what_was_read_is_said_where_nothing_is_left_out(tmp_path: Path, cli: Cli) -> None:
    folder = make(tmp_path / "docs", {"a.md": "Ada was born in London."})
    assert "1 file, 1 passage\n" in cli("search", folder, "Ada").err
    (folder / "old.txt").write_bytes("Jörg leads it.".encode("cp1252"))
    said = cli("search", folder, "Ada", "--json")
    assert "2 files, 2 passages; encoding guessed: old.txt (Windows-1252)\n" in said.err
    assert "files" not in said.out
    (tmp_path / "corpus.jsonl").write_text('{"title": "Ada", "text": "Ada was born in London."}\n')
    assert not cli("search", tmp_path / "corpus.jsonl", "Ada", "--retriever", "bm25").err


def test_unreadable_documents_and_guesses_are_named_also_from_a_kept_index(mixed: Path, cli: Cli) -> None:
    for number in range(10):
        (mixed / f"bad{number}.txt").write_bytes(b"\0")
        (mixed / f"west{number}.txt").write_bytes(b"caf\xe9")
    for _ in range(2):
        said = cli("search", mixed, "Ada").err
        assert "12 files, 12 passages; left out: " in said
        assert "bad0.txt (not a text: it holds zero bytes), bad1.txt (" in said
        assert ", 2 more documents; encoding guessed: west0.txt (Windows-1252), west1.txt (" in said
        assert said.endswith(", 2 more files\n")


def test_a_folder_of_which_nothing_can_be_read_is_an_error(mixed: Path) -> None:
    for name in ("a.txt", "b.md"):
        (mixed / name).unlink()
    with pytest.raises(DataError, match=r"no passages in it; left out: 2 \.docx \(pip install 'polyhop\[docs\]'\)"):
        list(open_corpus(mixed))
    (mixed / "bad.txt").write_bytes(b"\0")
    with pytest.raises(DataError, match=r"no passages in it; left out: .*bad\.txt \(not a text"):
        list(open_corpus(mixed))


def test_an_extra_installed_later_changes_the_fingerprint(mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = open_corpus(mixed).fingerprint
    monkeypatch.setattr(converter, "is_installed", lambda extra: True)
    assert open_corpus(mixed).fingerprint != before


@pytest.mark.parametrize("name", ["corpus.jsonl", "corpus.jsonl.gz"])
def test_a_corpus_that_is_a_link_out_of_its_folder_is_refused(tmp_path: Path, name: str, cli: Cli) -> None:
    secret = make(tmp_path / "outside", {"secret.jsonl": '{"id": "1", "text": "Secret."}'}) / "secret.jsonl"
    folder = make(tmp_path / "docs", {"a.txt": "A."})
    (folder / name).symlink_to(secret)
    with pytest.raises(DataError, match=rf"{name}: leads out of the folder; pass the path of that file itself"):
        open_corpus(folder)
    said = cli("search", folder, "secret")
    assert (said.code, "Secret." in said.out + said.err) == (2, False)
    assert [p.text for p in open_corpus(folder / name)] == ["Secret."]  # by its own name it is the user's choice
    (folder / name).unlink()
    (folder / name).symlink_to(make(folder, {"inside.jsonl": '{"id": "1", "text": "Inside."}'}) / "inside.jsonl")
    assert [p.text for p in open_corpus(folder)] == ["Inside."]


@pytest.mark.parametrize("linked", ["queries.jsonl", "qrels/test.tsv"])
def test_questions_that_are_a_link_out_of_their_folder_are_refused(tmp_path: Path, linked: str) -> None:
    judged = "query-id\tcorpus-id\tscore\nq\tp\t1\n"
    folder = make(tmp_path / "set", {"queries.jsonl": '{"_id": "q", "text": "Who?"}', "qrels/test.tsv": judged})
    assert len(list(open_questions(folder))) == 1
    (folder / linked).rename(tmp_path / "moved")
    (folder / linked).symlink_to(tmp_path / "moved")
    with pytest.raises(DataError, match=r"leads out of the folder; pass the path of that file itself"):
        open_questions(folder)
