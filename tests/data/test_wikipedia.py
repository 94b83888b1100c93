"""Corpora with hyperlinks: HotpotQA's processed Wikipedia in all its packings, and PathRetriever's database."""

from __future__ import annotations

import bz2
import io
import sqlite3
import string
import tarfile
import tracemalloc
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.data.corpora import open_corpus
from polyhop.data.wikipedia import linked_titles, open_database, page_titles, strip_links
from polyhop.errors import DataError
from polyhop.retrieval import build_index, open_plain_retriever
from polyhop.types import Passage

DUMP = "enwiki-20171001-pages-meta-current-withlinks-abstracts"


def page(id: str, title: str, *sentences: str) -> dict[str, object]:
    """A line of the dump of abstracts."""
    return {
        "id": id,
        "url": f"https://en.wikipedia.org/wiki?curid={id}",
        "title": title,
        "text": [strip_links(sentence)[0] for sentence in sentences],
        "charoffset": [[[0, 1]] for _ in sentences],
        "text_with_links": list(sentences),
        "charoffset_with_links": [[[0, 1]] for _ in sentences],
    }


ADA = page("12", "Ada", 'Ada knew <a href="charles%20Babbage">Babbage</a>.', ' She saw <a href="Paris">the city</a>.')
PARIS = page("7", "Paris", 'Paris lies on the <a href="Seine">Seine</a>.')
BABBAGE = page("3", "Charles Babbage", "Charles Babbage built engines.")
PASSAGES = [
    Passage("12", "Ada", "Ada knew Babbage. She saw the city.", ("Charles Babbage", "Paris")),
    Passage("7", "Paris", "Paris lies on the Seine.", ("Seine",)),
    Passage("3", "Charles Babbage", "Charles Babbage built engines."),
]


def packed(*rows: object) -> bytes:
    return bz2.compress(b"".join(orjson.dumps(row) + b"\n" for row in rows))


def whole(passages: Iterable[Passage]) -> list[dict[str, object]]:
    return [passage.to_dict() for passage in passages]


def tar(path: Path, members: Sequence[tuple[tarfile.TarInfo | str, bytes]]) -> Path:
    """An archive packed by bzip2; a member is named or, whatever its header claims, given whole."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for member, content in members:
            info = member if isinstance(member, tarfile.TarInfo) else tarfile.TarInfo(member)
            if info.isreg():
                info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    path.write_bytes(bz2.compress(data.getvalue()))
    return path


def folder(path: Path) -> Path:
    (path / "AA").mkdir(parents=True)
    (path / "AB").mkdir()
    (path / "AB" / "wiki_00.bz2").write_bytes(packed(BABBAGE))
    (path / "AA" / "wiki_00.bz2").write_bytes(packed(ADA, PARIS))
    (path / "README.md").write_text("# Not a page\nOf the dump.")
    return path


# --- HotpotQA's dump: a folder, an archive, a file ------------------------------------------------------------------


def test_a_dump_is_read_from_its_folder_its_archive_and_a_single_file(tmp_path: Path) -> None:
    extracted = folder(tmp_path / DUMP)
    assert whole(open_corpus(extracted)) == whole(PASSAGES)
    archive = tar(
        tmp_path / f"{DUMP}.tar.bz2",
        [(f"{DUMP}/AA/wiki_00.bz2", packed(ADA, PARIS)), (f"{DUMP}/AB/wiki_00.bz2", packed(BABBAGE))],
    )
    corpus = open_corpus(archive)
    assert whole(corpus) == whole(corpus) == whole(PASSAGES)
    assert corpus.name == DUMP
    assert whole(open_corpus(extracted / "AA" / "wiki_00.bz2")) == whole(PASSAGES[:2])
    unpacked = tmp_path / "wiki_00"
    unpacked.write_bytes(bz2.decompress(packed(ADA, PARIS)))
    assert whole(open_corpus(unpacked)) == whole(PASSAGES[:2])


def test_an_index_over_a_dump_has_its_links(tmp_path: Path) -> None:
    index = build_index(open_corpus(folder(tmp_path / "dump")), tmp_path / "index")
    assert index.link_mode == "own"
    (ada,) = open_plain_retriever("bm25", index).search("Who knew Babbage's engines and Ada?", 1)
    assert [target.title for target in index.links(ada)] == ["Charles Babbage", "Paris"]
    assert index.links(index.passages.get(1)) == []  # no page of the Seine here


def test_a_page_becomes_a_passage_per_paragraph(tmp_path: Path) -> None:
    row = {
        "id": 12,
        "title": "Ada",
        "text": [["Ada"], ['Ada knew <a href="Paris">it</a>.', " Well."], [], ["  "], ["She died."]],
        "charoffset": [],
    }
    (tmp_path / "wiki_00.bz2").write_bytes(packed(row))
    assert whole(open_corpus(tmp_path / "wiki_00.bz2")) == whole(
        [Passage("12#1", "Ada", "Ada knew it. Well.", ("Paris",)), Passage("12#4", "Ada", "She died.")]
    )


def test_a_page_without_text_is_neither_passage_nor_fault(tmp_path: Path) -> None:
    (tmp_path / "wiki_00.bz2").write_bytes(packed(page("1", "Empty"), page("2", "Blank", " "), BABBAGE))
    corpus = open_corpus(tmp_path / "wiki_00.bz2")
    assert (whole(corpus), corpus.skipped) == (whole(PASSAGES[2:]), 0)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b'{"id": "3", "title": "T", "text": ["x"', "not valid JSON"),
        (b"[1]", "expected a JSON object, found an array"),
        (b'{"title": "T", "text": ["x"]}', "missing field 'id'"),
        (b'{"id": "3", "text": ["x"]}', "missing field 'title'"),
        (b'{"id": "3", "title": "", "text": ["x"]}', "'title' is empty"),
        (b'{"id": "3", "title": "T", "text": ["x", 7]}', "'text' holds a number, expected sentences"),
        (b'{"id": "3", "title": "T", "text": ["x", ["y"]]}', "'text' is a string, expected an array of sentences"),
        (b'{"id": "3", "title": "T", "text": [["x", null]]}', "'text' holds null, expected sentences"),
        (b'{"id": "3", "title": "T", "text": ["x"], "text_with_links": "x"}', "'text_with_links' is a string"),
    ],
)
@pytest.mark.parametrize("packing", ["file", "archive"])
def test_a_malformed_page_is_reported_or_counted(tmp_path: Path, packing: str, row: bytes, message: str) -> None:
    data = bz2.compress(orjson.dumps(ADA) + b"\n" + row + b"\n" + orjson.dumps(PARIS))
    path = tmp_path / "dump" / "AA" / "wiki_07.bz2"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    location = source = path
    if packing == "archive":
        source = tar(tmp_path / "dump.tar.bz2", [("dump/AA/wiki_07.bz2", data)])
        location = source / "AA" / "wiki_07.bz2"
    with pytest.raises(DataError) as caught:
        list(open_corpus(source))
    assert str(caught.value).startswith(f"{location}:2: ")
    assert message in str(caught.value)
    lenient = open_corpus(source, skip_bad=True)
    assert [passage.id for passage in lenient] == ["12", "7"]
    assert lenient.skipped == 1


def test_a_repeated_page_is_reported_with_both_locations(tmp_path: Path) -> None:
    (tmp_path / "AA").mkdir()
    for name in ("wiki_00.bz2", "wiki_01.bz2"):
        (tmp_path / "AA" / name).write_bytes(packed(ADA))
    with pytest.raises(DataError, match=r"wiki_01\.bz2:1: duplicate id '12'; first on line 1 in .*wiki_00\.bz2"):
        list(open_corpus(tmp_path).unique())


def test_damaged_bzip2_is_an_error_even_when_bad_lines_are_skipped(tmp_path: Path) -> None:
    data = packed(*(page(str(number), f"Page {number}", f"{number * 7919} words") for number in range(5000)))
    for broken in (data[:-20], data[: len(data) // 2], data[:200] + bytes(50) + data[250:]):
        path = tmp_path / "wiki_00.bz2"
        path.write_bytes(broken)
        with pytest.raises(DataError, match="damaged or unreadable"):
            list(open_corpus(path, skip_bad=True))
        archive = tar(tmp_path / "a.tar.bz2", [("AA/wiki_00.bz2", broken)])
        with pytest.raises(DataError, match="damaged"):
            list(open_corpus(archive, skip_bad=True))
    sound = tar(tmp_path / "b.tar.bz2", [("AA/wiki_00.bz2", packed(ADA)), ("AA/wiki_01.bz2", data)]).read_bytes()
    (tmp_path / "b.tar.bz2").write_bytes(sound[: len(sound) // 2])
    with pytest.raises(DataError, match="damaged"):
        list(open_corpus(tmp_path / "b.tar.bz2", skip_bad=True))


# --- archives that mean harm ------------------------------------------------------------------------------------------


def test_a_damaged_header_is_an_error_not_the_end(tmp_path: Path) -> None:
    path = tar(tmp_path / "dump.tar.bz2", [("AA/wiki_00.bz2", packed(ADA)), ("AA/wiki_01.bz2", packed(PARIS))])
    data = bz2.decompress(path.read_bytes())
    second = data.index(b"AA/wiki_01")
    for broken in (data[:second] + b"B" + data[second + 1 :], data[: second + 100]):
        path.write_bytes(bz2.compress(broken))
        with pytest.raises(DataError, match="damaged archive: a member's header is damaged"):
            list(open_corpus(path, skip_bad=True))


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def test_other_members_are_ignored_and_nothing_is_written(tmp_path: Path) -> None:
    secret = tmp_path / "secret" / "wiki_00"
    secret.parent.mkdir()
    secret.write_bytes(orjson.dumps(page("666", "Secret", "Not of the dump.")))
    archive = tar(
        tmp_path / "dump.tar.bz2",
        [
            (special("dump/AA", tarfile.DIRTYPE), b""),
            (special("dump/AA/wiki_00", tarfile.SYMTYPE, str(secret)), b""),
            (special("dump/AA/wiki_01", tarfile.LNKTYPE, str(secret)), b""),
            (special("dump/AA/wiki_02", tarfile.FIFOTYPE), b""),
            ("dump/AA/notes.txt", b"no JSON"),
            ("dump/AA/._wiki_00.bz2", b"no JSON either"),
            ("../../AA/wiki_03.bz2", packed(ADA)),
            ("/AA/wiki_04.bz2", packed(PARIS)),
            (f"{'long' * 50}/AB/wiki_05.bz2", packed(BABBAGE)),
        ],
    )
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert whole(open_corpus(archive)) == whole(PASSAGES)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_the_path_of_a_member_in_an_error_stays_within_the_archive(tmp_path: Path) -> None:
    archive = tar(tmp_path / "dump.tar.bz2", [("/etc/\x1b[31m/AA/wiki_03.bz2", packed([1]))])
    with pytest.raises(DataError) as caught:
        list(open_corpus(archive))
    assert str(caught.value).startswith(f"{archive / 'AA' / 'wiki_03.bz2'}:1: ")


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_SPARSE])
def test_an_extended_header_cannot_fill_the_memory(tmp_path: Path, kind: bytes) -> None:
    header = tarfile.TarInfo("name")
    header.type, header.size = kind, 2**33
    start = tarfile.TarInfo("AA/wiki_00")
    page_line = orjson.dumps(ADA)
    start.size = len(page_line)
    blocks = [start.tobuf(tarfile.USTAR_FORMAT), page_line.ljust(512, b"\0"), header.tobuf(tarfile.GNU_FORMAT)]
    with bz2.open(tmp_path / "bomb.tar.bz2", "wb") as stream:
        stream.write(b"".join(blocks))
        for _ in range(40):
            stream.write(bytes(2**20))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"damaged archive: .*extended header of 8589934592 bytes"):
            list(open_corpus(tmp_path / "bomb.tar.bz2"))
        assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
    finally:
        tracemalloc.stop()


def test_a_dump_is_not_held_in_memory(tmp_path: Path) -> None:
    files = [
        (f"dump/AA/wiki_{number:02}.bz2", packed(*(page(f"{number}-{n}", f"P {n}", "word " * 400) for n in range(100))))
        for number in range(6)
    ]
    archive = tar(tmp_path / "dump.tar.bz2", files)
    del files
    corpus = open_corpus(archive)
    tracemalloc.start()
    try:
        assert sum(1 for _ in corpus) == 600
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**20  # of 2.5 megabytes, unpacked


def test_the_headers_of_an_archive_are_not_held_in_memory(tmp_path: Path) -> None:
    archive = tar(tmp_path / "dump.tar.bz2", [("AA/wiki_00.bz2", packed(ADA)), *((f"e{n}", b"") for n in range(4000))])
    tracemalloc.start()
    try:
        assert [passage.id for passage in open_corpus(archive)] == ["12"]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**20  # a header is about a kilobyte


# --- anchors ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("markup", "text", "titles"),
    [
        ("no link", "no link", ()),
        ('<a href="Paris">the city</a>', "the city", ("Paris",)),
        ('<a href="Paris">A <a href="Rome">B</a> C</a>', "A B C", ("Paris", "Rome")),
        ('<a href="Paris">never closed', "never closed", ("Paris",)),
        ("never opened</a>.", "never opened.", ()),
        ('cut <a href="Par', 'cut <a href="Par', ("Par",)),
        ('<a href="">nothing</a><a>none</a>', "nothingnone", ()),
        ('<a href="%C3%89mile%20Zola">x</a>', "x", ("Émile Zola",)),
        ('<a href="100%25%20Wolf">x</a><a href="50%">y</a>', "xy", ("100% Wolf", "50%")),
        ('<a href="AT%26T">x</a>', "x", ("AT&T",)),
        ('<a href="Paris%23History">x</a><a href="paris">y</a>', "xy", ("Paris",)),
        ('<a href="%FF%FE">x</a>', "x", ("\ufffd\ufffd",)),
        ("<a class=\"b\" href='Rome'>x</a><A HREF=Oslo>y</A>", "xy", ("Rome", "Oslo")),
        ('1 < 2 <b>bold</b> <abbr title="x">a</abbr> <a', '1 < 2 <b>bold</b> <abbr title="x">a</abbr> <a', ()),
    ],
)
def test_anchors_by_hand(markup: str, text: str, titles: tuple[str, ...]) -> None:
    assert strip_links(markup) == (text, titles)


PLAIN = st.text(st.characters(exclude_characters="<>", exclude_categories=["Cs"]), max_size=12)
TITLES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.lists(st.tuples(PLAIN, TITLES, PLAIN, st.booleans()), max_size=6))
def test_links_survive_a_round_trip(pieces: list[tuple[str, str, str, bool]]) -> None:
    markup = "".join(
        f'{before}<a href="{quote(title)}">{label}{"</a>" if closed else ""}' for before, title, label, closed in pieces
    )
    text, titles = strip_links(markup)
    assert text == "".join(before + label for before, _, label, _ in pieces)
    assert titles == page_titles(title for _, title, _, _ in pieces)


@given(st.lists(st.sampled_from(['<a href="', '">', "</a>", "<a ", ">", "'", "%", "%C3", "é", "x", "_", "#", " "])))
def test_no_markup_raises_and_titles_are_clean(pieces: list[str]) -> None:
    text, titles = strip_links("".join(pieces))
    assert titles == linked_titles("".join(pieces)) == page_titles(titles)
    assert all(title and title == " ".join(title.split()) for title in titles)
    assert len(text) <= len("".join(pieces))


def test_hostile_markup_is_read_in_linear_time() -> None:
    for markup in ("<a " * 200_000, '<a href="' * 100_000, "<a " + "href" * 200_000, "</a" * 200_000):
        strip_links(markup)  # quadratic, each would take minutes


@given(st.lists(st.text(string.ascii_letters + "_# ", max_size=6)))
def test_titles_are_distinct_in_order(targets: list[str]) -> None:
    titles = page_titles(targets)
    assert len(set(titles)) == len(titles)
    assert page_titles(titles) == titles


# --- PathRetriever's database -------------------------------------------------------------------------------------

SCHEMA = "CREATE TABLE documents (id PRIMARY KEY, text, linked_title, original_title);"


def database(path: Path, *rows: tuple[object, ...], schema: str = SCHEMA) -> Path:
    with sqlite3.connect(path) as made:
        made.execute(schema)
        made.executemany("INSERT INTO documents VALUES (?, ?, ?, ?)", rows)
    made.close()
    return path


ADA_ROW = ("Ada_0", "Ada knew Babbage.\t She saw the city.", "Charles Babbage\tParis\tCharles Babbage", "Ada")
PARIS_ROW = ("Paris_0", "Paris lies on the Seine.", "Seine", "Paris")


def test_a_database_of_abstracts(tmp_path: Path) -> None:
    path = database(
        tmp_path / "wiki.db",
        ADA_ROW,
        ("E\u0301mile Zola_0", "He wrote.", "", "Émile Zola"),
        ("Empty_0", "", "", "Empty"),
        ("Catch_22_0", "A novel.", "Satire#Modern\t\tnovel", None),
    )
    before = path.read_bytes()
    corpus = open_corpus(path)
    assert whole(corpus) == whole(corpus)
    assert whole(corpus) == whole(
        [
            Passage("Ada_0", "Ada", "Ada knew Babbage. She saw the city.", ("Charles Babbage", "Paris")),
            Passage("E\u0301mile Zola_0", "Émile Zola", "He wrote."),
            Passage("Catch_22_0", "Catch_22", "A novel.", ("Satire", "Novel")),
        ]
    )
    assert (corpus.name, corpus.skipped) == ("wiki", 0)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["wiki.db"]  # no journal beside it


def test_a_database_of_whole_pages_gives_a_passage_per_paragraph(tmp_path: Path) -> None:
    text = 'Ada\n\nAda knew <a href="paris">it</a>.\n\n\n\nShe died.\n\n'
    path = database(tmp_path / "wiki.db", ("Ada_0", text, "", "Ada"))
    assert whole(open_corpus(path)) == whole(
        [Passage("Ada_0", "Ada", "Ada knew it.", ("Paris",)), Passage("Ada_2", "Ada", "She died.")]
    )


def test_an_index_over_a_database_has_its_links_whatever_the_accents(tmp_path: Path) -> None:
    path = database(
        tmp_path / "wiki.db",
        ("Ada_0", "She read him.", "E\u0301mile Zola", "Ada"),
        ("E\u0301mile Zola_0", "He wrote.", "", "Émile Zola"),
    )
    index = build_index(open_corpus(path), tmp_path / "index")
    assert [target.title for target in index.links(index.passages.get(0))] == ["Émile Zola"]


def test_a_read_only_database_is_read(tmp_path: Path) -> None:
    location = tmp_path / "a b%20?c"
    location.mkdir()
    path = database(location / "wiki #1.db", ADA_ROW)
    path.chmod(0o444)
    location.chmod(0o555)
    try:
        assert [passage.id for passage in open_corpus(path)] == ["Ada_0"]
    finally:
        location.chmod(0o755)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((None, "x", "", "T"), "missing field 'id'"),
        ((" ", "x", "", "T"), "'id' is empty"),
        (("T_0", None, "", "T"), "missing field 'text'"),
        (("T_0", 7, "", "T"), "'text' is a number, expected a string"),
        (("T_0", b"caf\xe9", "", "T"), "is not UTF-8 text (byte 3)"),
        (("T_0", "x", 7.5, "T"), "'linked_title' is a number, expected a string"),
        (("T_0", "x", "", 7), "'original_title' is a number, expected a string"),
    ],
)
def test_a_malformed_row_is_reported_or_counted(tmp_path: Path, row: tuple[object, ...], message: str) -> None:
    path = database(tmp_path / "wiki.db", ADA_ROW, row, PARIS_ROW)
    with pytest.raises(DataError) as caught:
        list(open_corpus(path))
    assert str(caught.value).startswith(f"{path}:2: ")
    assert message in str(caught.value)
    lenient = open_corpus(path, skip_bad=True)
    assert [passage.id for passage in lenient] == ["Ada_0", "Paris_0"]
    assert lenient.skipped == 1


def test_text_that_is_not_utf_8_is_the_fault_of_its_row(tmp_path: Path) -> None:
    path = database(tmp_path / "wiki.db", ADA_ROW, PARIS_ROW)
    with sqlite3.connect(path) as made:
        made.execute("UPDATE documents SET text = CAST(x'636166e9' AS TEXT) WHERE id = 'Ada_0'")
    made.close()
    with pytest.raises(DataError, match=r"wiki\.db:1: .*is not UTF-8 text \(byte 3\)"):
        list(open_corpus(path))
    assert [passage.id for passage in open_corpus(path, skip_bad=True)] == ["Paris_0"]


def test_a_database_is_opened_read_only(tmp_path: Path) -> None:
    path = database(tmp_path / "wiki.db", ADA_ROW)
    with pytest.raises(DataError, match="readonly"), open_database(path) as opened:
        opened.execute("DELETE FROM documents")
    assert [passage.id for passage in open_corpus(path)] == ["Ada_0"]


def test_a_database_with_other_tables_is_an_error_that_lists_them(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as made:
        made.execute("CREATE TABLE pages (id, body)")
    made.close()
    with pytest.raises(DataError, match=r"unknown sqlite database: it has pages; expected documents\(id, text, "):
        open_corpus(tmp_path / "other.db")
    schema = "CREATE TABLE documents (id, text, a, b)"
    with pytest.raises(DataError, match=r"it has documents\(a, b, id, text\); expected"):
        open_corpus(database(tmp_path / "old.db", ADA_ROW, schema=schema))
    with sqlite3.connect(tmp_path / "view.db") as made:  # a view may compute without end
        made.execute("CREATE VIEW documents AS SELECT 1 id, 'x' text, '' linked_title, 'T' original_title")
    made.close()
    with pytest.raises(DataError, match="unknown sqlite database"):
        open_corpus(tmp_path / "view.db")


def test_a_damaged_database_is_an_error(tmp_path: Path) -> None:
    path = database(tmp_path / "wiki.db", *((f"P{n}_0", "word " * 300, "", f"P{n}") for n in range(200)))
    data = path.read_bytes()
    for broken in (data[: len(data) // 2], data[:8192] + bytes(8192) + data[16384:], data[:40]):
        path.write_bytes(broken)
        with pytest.raises(DataError, match="cannot be read as sqlite"):
            list(open_corpus(path, skip_bad=True))


def test_a_value_cannot_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.db"
    with sqlite3.connect(path) as made:
        made.execute(SCHEMA)
        made.execute("INSERT INTO documents VALUES ('T_0', zeroblob(80000000), '', 'T')")
    made.close()
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="cannot be read as sqlite"):
            list(open_corpus(path))
        assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    finally:
        tracemalloc.stop()


def test_a_database_is_not_held_in_memory(tmp_path: Path) -> None:
    path = database(tmp_path / "wiki.db", *((f"P{n}_0", "word " * 400, "A\tB", f"P{n}") for n in range(2000)))
    corpus = open_corpus(path)
    tracemalloc.start()
    try:
        assert sum(1 for _ in corpus) == 2000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2**19  # of 4 megabytes
