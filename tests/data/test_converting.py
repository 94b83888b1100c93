"""Documents in other people's formats: their titles, headings and pages, and hostile ones."""

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polyhop
from polyhop import Question
from polyhop.common.sentences import split_passages
from polyhop.data import documents
from polyhop.data.converting import Block, child, converter, packed, tidy
from polyhop.data.converting.converter import Converter
from polyhop.data.converting.encodings import decode_page
from polyhop.data.converting.html import html_blocks
from polyhop.data.converting.plain import markdown_blocks, text_blocks
from polyhop.data.corpora import open_corpus
from polyhop.data.documents import passages_of
from polyhop.errors import DataError
from polyhop.evaluation.pages import embedded
from tests.kit.documents import docx, epub, pdf, write_zip
from tests.kit.office import pptx, shape, slide_table, xlsx
from tests.kit.terminal import Cli, cli

__all__ = ["cli"]

extra = pytest.mark.extra

ENTITIES = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'


def needs_docs() -> None:
    pytest.importorskip("pypdfium2")
    pytest.importorskip("mammoth")


def levels_and_texts(blocks: list[Block]) -> list[tuple[int | None, str]]:
    return [(block.level, block.text) for block in blocks]


# --- Markdown and HTML ----------------------------------------------------------------------------------------------


def test_markdown_is_split_at_its_headings() -> None:
    text = "Before.\n\nOne\n===\nText.\n\nTwo\n---\n- item\n---\n~~~\n# code\n~~~\n#### Four ####\nEnd.\n\n| a |\n---\n"
    assert levels_and_texts(list(markdown_blocks(text))) == [
        (None, "Before."),
        (1, "One"),
        (None, "Text."),
        (2, "Two"),
        (None, "item"),
        (None, "# code"),
        (4, "Four"),
        (None, "End."),
        (None, "a"),
    ]


SENTENCE = "The mill on the Aare was built by Ann Lee of Bern in 1815 and burned in 1901. "


@pytest.mark.parametrize("width", [66, 72, 80, 100])
@pytest.mark.parametrize("read", [text_blocks, markdown_blocks])
def test_wrapped_lines_are_joined(width: int, read: Callable[[str], Iterator[Block]]) -> None:
    text = "\n\n".join(textwrap.fill(SENTENCE * n + "It is gone.", width) for n in range(1, 20))
    assert [" ".join(block.text.split()) for block in read(text)] == [
        SENTENCE * n + "It is gone." for n in range(1, 20)
    ]


def test_a_full_line_without_an_end_goes_on_in_a_text_of_short_lines() -> None:
    lines = [
        "OVENS",
        "The old one is for bread. The new one may run at night as long as it stays at or below",
        "260 C and the red card with your name and phone number hangs on the door of the oven.",
        "Above 260 C somebody has to be there. E-01 is the door, and E-02 is the fan on the left",
        "E-03   the fan on the right, which the baker on duty cleans every Monday and Thursday",
        "E-04   the lamp",
        "Never open it hot.",
        "Never leave it open.",
        "Call Ann.",
        "Call Bo if she is away.",
    ]
    joined = ["\n".join(lines[1:3]), *lines[3:]]
    assert [block.text for block in text_blocks("\n".join(lines))][1:] == joined


@pytest.mark.parametrize("read", [text_blocks, markdown_blocks])
@pytest.mark.parametrize(
    "lines",
    [
        ["Status: accepted", "Date: 5 May 2024", "Deciders: Ann Lee, Bo Ek"],
        ["Ann Lee - first line - Bern - Mon to Fri", "Bo Ek - second line - Oslo - nights"],
        ["Present: Ann Lee (chair), Bo Ek (minutes), Ada Byrne, Cleo Marsh, Dov Adler, Ewa Nowak", "Absent: Finn"],
        [f"{n} May, Ann Lee: {'this is a long note ' * n}and no more." for n in (1, 5, 2, 3, 1)],
    ],
)
def test_lines_that_were_not_wrapped_stay_lines(read: Callable[[str], Iterator[Block]], lines: list[str]) -> None:
    assert [block.text for block in read("\n".join(lines))] == lines


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("<p>a<p>b</p>c", [(None, "a"), (None, "b"), (None, "c")]),
        ("a&amp;b &#8211; &eacute; &zz;", [(None, "a&b – é &zz;")]),
        ("<style>p{}</style>x<script>y('</p>')</script><template>z</template>", [(None, "x")]),
        ("<svg><title>t</title><text>u</text></svg>x<nav><a>menu</a><nav>in</nav></nav>y", [(None, "xy")]),
        ("<script src='a'/><p>x", [(None, "x")]),
        ("<table><tr><td>a<td>b<tr><td>c</table>", [(None, "a: b"), (None, "c")]),
        ("<h2>One<p>x<h3>Two <i>three</i></h3>y", [(2, "One"), (None, "x"), (3, "Two three"), (None, "y")]),
        ("<title> The\nsite </title><p>x", [(0, "The site"), (None, "x")]),
        ("<title>The site</title><h2>a</h2><h1>b</h1>", [(0, "b"), (2, "a"), (1, "b")]),
        ("a<br>b<!-- c -->d", [(None, "a bd")]),
        (
            "<p>Lake House<br/>12 Shore Road<br>Oslo<h2>A<br>B</h2>",
            [(None, "Lake House"), (None, "12 Shore Road"), (None, "Oslo"), (2, "A B")],
        ),
    ],
)
def test_html_is_the_visible_text(markup: str, expected: list[tuple[int | None, str]]) -> None:
    assert levels_and_texts(list(html_blocks(markup))) == expected


def test_a_pages_own_entities_are_not_expanded() -> None:
    assert "aaaa" not in str(levels_and_texts(list(html_blocks(ENTITIES + "<p>&b;"))))


def test_a_deeply_nested_page_is_read() -> None:
    assert levels_and_texts(list(html_blocks("<div>" * 20_000 + "x"))) == [(None, "x")]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("é".encode("utf-16"), "é"),
        (b"\xef\xbb\xbf\xc3\xa9", "é"),
        (b'<?xml version="1.0" encoding="latin-1"?>\xe9', "é"),
        (b"<meta charset=shift_jis>\x93\x8c\x8b\x9e", "東京"),
        (b"<meta charset=hex>abc", "abc"),
        (b"<meta charset=nonsense>\xe9", "é"),
        (b"<meta charset=utf-8>\xe9", "é"),
    ],
)
def test_a_page_is_decoded_as_it_declares(data: bytes, text: str) -> None:
    assert decode_page(data)[0].endswith(text)


def test_invisible_characters_are_dropped() -> None:
    assert tidy("a\x00b\x1b[1m\ud800\ufb01\u00ad") == "ab[1mfi\u00ad"


# --- passages -------------------------------------------------------------------------------------------------------


def test_a_passage_has_its_heading_and_pages() -> None:
    sentence = "This sentence about the river has ten words in it."
    page = " ".join([sentence] * 8)
    blocks = [Block("Rivers", 0), Block(page, page=1), Block("Banks", 1, 2), Block(page, page=2), Block(page, page=3)]
    found = list(passages_of(blocks, "a/rivers.pdf"))
    assert [(p.id, p.title, dict(p.metadata)) for p in found] == [
        ("a/rivers.pdf#1", "Rivers", {"source": "a/rivers.pdf", "page": 1}),
        ("a/rivers.pdf#2", "Rivers › Banks", {"source": "a/rivers.pdf", "page": 2, "heading": "Banks"}),
        ("a/rivers.pdf#3", "Rivers › Banks", {"source": "a/rivers.pdf", "page": 3, "heading": "Banks"}),
    ]
    assert all(p.text == page for p in found)


def test_a_sentence_that_continues_on_the_next_page_stays_whole() -> None:
    blocks = [Block("One ends. Two goes", page=1), Block("on. Three is here.", page=2)]
    found = [(p.text, p.metadata["page"], p.metadata.get("last_page")) for p in passages_of(blocks, "a.pdf")]
    assert found == [("One ends. Two goes on.", 1, 2), ("Three is here.", 2, None)]


def test_a_heading_without_text_stands_above_its_sections_or_is_a_text_itself() -> None:
    blocks = [Block("Book", 0), Block("Part I", 1), Block("Chapter 1?", 2), Block("Text."), Block("Empty end", 2)]
    assert [(p.title, p.text) for p in passages_of(blocks, "b")] == [
        ("Book › Part I › Chapter 1?", "Text."),
        ("Book › Part I › Empty end", "Empty end"),
    ]


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        (
            "# Ada\nText.\n## Life\nText.\n## Work\nText.\n### Notes\nText.",
            "Ada|Ada › Life|Ada › Work|Ada › Work › Notes",
        ),
        ("# Ada\nText.\n## Life\nText.\n# Alan\nText.", "Ada|Ada › Life|Alan"),  # two titles in a file
        ("Text.\n## One\nText.\n## Two\nText.", "people|people › One|people › Two"),
        ("---\ntitle: People\n---\n# Ada\nText.\n# Alan\nText.", "People › Ada|People › Alan"),
        ("---\ntitle: Ada\n---\n# Ada\nText.", "Ada"),
    ],
)
def test_the_title_of_a_passage_names_the_document_and_the_headings_above(text: str, titles: str) -> None:
    assert [p.title for p in passages_of(markdown_blocks(text), "people.md")] == titles.split("|")


def test_chinese_is_split_at_its_full_stops_and_unwrapped() -> None:
    line = "鲁迅是中国的\n作家。"  # 10 characters
    (first, second, *_) = passages_of([Block(line * 60)], "a.txt")
    assert set(first.text.split("。")) == {"鲁迅是中国的作家", ""}
    assert 190 <= len(first.text) <= 250
    assert second.text.startswith("鲁迅")


def test_a_folder_of_markdown_names_headings(tmp_path: Path) -> None:
    (tmp_path / "notes.markdown").write_text("# Notes\nFirst.\n\n## May\nRain.")
    assert [(p.title, p.text, p.metadata) for p in open_corpus(tmp_path)] == [
        ("Notes", "First.", {"source": "notes.markdown"}),
        ("Notes › May", "Rain.", {"source": "notes.markdown", "heading": "May"}),
    ]


# --- HTML and EPUB files --------------------------------------------------------------------------------------------


@pytest.fixture
def converting() -> Iterator[Converter]:
    with Converter() as each:
        yield each


def test_html_and_epub_need_no_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converter, "is_installed", lambda extra: False)
    (tmp_path / "a.HTM").write_text("<h1>Kilns</h1><p>Kilns burn.<script>x</script><h2>Heat</h2>1200 degrees.")
    chapters = {"1.xhtml": "<title>One</title><p>She sailed.", "sub/2.xhtml": "<h2>Two</h2>She landed.", "3.xhtml": ""}
    epub(tmp_path / "b.epub", chapters, title="The voyage")
    corpus = open_corpus(tmp_path)
    assert [(p.id, p.title, p.text, p.metadata.get("heading")) for p in corpus] == [
        ("a.HTM#1", "Kilns", "Kilns burn.", None),
        ("a.HTM#2", "Kilns › Heat", "1200 degrees.", "Heat"),
        ("b.epub#1", "The voyage › One", "She sailed.", "One"),
        ("b.epub#2", "The voyage › Two", "She landed.", "Two"),
    ]
    assert len(list(open_corpus(tmp_path / "b.epub"))) == 2


def test_the_chapters_of_a_book_are_read_in_order_and_once(tmp_path: Path, converting: Converter) -> None:
    path = epub(tmp_path / "b.epub", {"z.xhtml": "<p>First.", "a.xhtml": "<p>Last.", "z.xhtml#x": ""})
    assert levels_and_texts(converting.blocks(path)) == [(0, "b"), (None, "First."), (None, "Last.")]


def test_a_book_is_read_without_writing_files_or_reading_others(tmp_path: Path, converting: Converter) -> None:
    (tmp_path / "secret.xhtml").write_text("<p>Secret.")
    chapters = {"../../secret.xhtml": "<p>Inside.", str(tmp_path / "secret.xhtml"): "", "ok.xhtml": "<p>Text."}
    path = epub(tmp_path / "b.epub", chapters)
    before = sorted(tmp_path.rglob("*"))
    assert "Secret." not in [block.text for block in converting.blocks(path)]
    assert "Text." in [block.text for block in converting.blocks(path)]
    assert sorted(tmp_path.rglob("*")) == before


LOCK = (
    '<encryption xmlns:e="http://www.w3.org/2001/04/xmlenc#"><e:EncryptedData><e:CipherData>'
    '<e:CipherReference URI="text/1.xhtml"/></e:CipherData></e:EncryptedData></encryption>'
)


def test_an_unreadable_document_is_one_fault_that_names_its_file(tmp_path: Path) -> None:
    chapter = {"1.xhtml": "<p>Text."}
    faults = {
        epub(tmp_path / "entities.epub", chapter, head=ENTITIES): "it defines XML entities",
        epub(tmp_path / "locked.epub", chapter, more={"META-INF/encryption.xml": LOCK}): "encrypted",
        epub(tmp_path / "blank.epub", {"1.xhtml": "<p> "}, title="Blank"): "no text in it",
        write_zip(tmp_path / "other.epub", {"a": "b"}): "damaged: .*container.xml",
        write_zip(tmp_path / "empty.epub", {"META-INF/container.xml": "<container/>"}): "damaged: it names no contents",
        write_zip(tmp_path / "torn.epub", {"META-INF/container.xml": "<container>"}): "damaged: ",
        tmp_path / "text.epub": "damaged, or not of the format that its suffix names",
        tmp_path / "none.html": "no text in it",
    }
    (tmp_path / "text.epub").write_text("no zip")
    (tmp_path / "none.html").write_text("<script>x</script>")
    with Converter() as converting:
        for path, why in faults.items():
            with pytest.raises(DataError, match=rf"{path.name}: .*{why}"):
                converting.blocks(path)
    (tmp_path / "good.txt").write_text("Good.")
    lenient = open_corpus(tmp_path)
    assert [p.id for p in lenient] == ["good.txt#1"]
    assert lenient.skipped == len(faults)


# --- limits ---------------------------------------------------------------------------------------------------------


def test_a_packed_document_is_limited_in_parts_and_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_zip(tmp_path / "bomb.epub", {"a": "0" * 200_000, "b": ""})
    assert path.stat().st_size < 1000
    monkeypatch.setattr(packed, "MAX_UNPACKED", 199_999)
    with pytest.raises(DataError, match="unpacks to 200,000 bytes; the maximum is 199,999"), packed.open_packed(path):
        pass
    monkeypatch.setattr(packed, "MAX_PARTS", 1)
    with pytest.raises(DataError, match="has 2 parts; the maximum is 1"), packed.open_packed(path):
        pass


def test_a_part_yields_no_more_than_its_header_claims(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "liar.epub", {"a": "0" * 200_000})
    size = (200_000).to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(size, (10).to_bytes(4, "little")))
    with pytest.raises(DataError, match="damaged"), packed.open_packed(path) as opened:
        assert len(opened.read("a")) <= 10


def test_text_and_files_over_the_limits_are_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.html"
    path.write_text("<p>" + "word " * 100)
    monkeypatch.setattr(child, "MAX_CHARACTERS", 100)
    with pytest.raises(DataError, match="holds more than 100 characters"):
        list(child.convert(path))
    monkeypatch.setattr(child, "MAX_MARKUP", 100)
    for name in ("a.html", "a.txt", "a.md"):
        with pytest.raises(DataError, match="has 503 bytes; the maximum is 100"):
            list(child.convert(path.rename(tmp_path / name)))
        path = tmp_path / name


def test_a_slow_document_is_a_fault_and_the_next_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("slow.md", "quick.md"):
        (tmp_path / name).write_text("Quick.")
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    start = converter._start
    with Converter(seconds=0.2) as converting:
        monkeypatch.setattr(
            converter, "_start", lambda: subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        )
        with pytest.raises(DataError, match=r"slow\.md: converting it took longer than 0\.2 s"):
            converting.blocks(tmp_path / "slow.md")
        assert converting.seconds_lost >= 0.2
        monkeypatch.setattr(converter, "_start", start)
        converting._seconds = None
        assert levels_and_texts(converting.blocks(tmp_path / "quick.md")) == [(None, "Quick.")]


def test_the_time_limit_depends_on_the_size(tmp_path: Path) -> None:
    path = tmp_path / "a.pdf"
    for size, seconds in ((0, 20), (2**20, 30), (2**24, 120)):
        with path.open("wb") as stream:
            stream.truncate(size)
        assert converter._seconds_for(path) == seconds
    assert converter._seconds_for(tmp_path / "gone.pdf") == 20


def test_a_folder_of_slow_documents_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        (tmp_path / f"{name}.html").write_text("<script>x</script>")
    monkeypatch.setattr(documents, "MAX_SECONDS_LOST", -1)
    with pytest.raises(DataError, match=r"a\.html: the documents that cannot be read took more than -1 s together"):
        list(open_corpus(tmp_path, skip_bad=True))


def test_a_crash_of_the_converter_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", "import os, sys; sys.stdin.readline(); os._exit(7)"]
    monkeypatch.setattr(
        converter, "_start", lambda: subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    )
    (tmp_path / "a.html").write_text("<p>x")
    with Converter() as converting:
        for _ in range(2):
            with pytest.raises(DataError, match=r"a\.html: converting it failed \(exit 7\)"):
                converting.blocks(tmp_path / "a.html")


# --- PDF and DOCX ---------------------------------------------------------------------------------------------------

REPORT = [
    ["The Engine", "Charles Babbage designed the Analytical", "Engine in 1837."],
    ["2 Life", "Ada Lovelace was born in London and she"],
    ["wrote a program.", "Legacy (late)", "A language is named after her."],
]
OUTLINE = [("The Engine", 1), ("Life", 2), ("Legacy (late)", 3), ("Elsewhere", 3)]


@extra
def test_a_pdf_keeps_pages_and_the_headings_of_its_outline(tmp_path: Path, converting: Converter) -> None:
    needs_docs()
    path = pdf(tmp_path / "report.pdf", REPORT, OUTLINE, title="Ada and the engine")
    blocks = converting.blocks(path)
    assert [(block.level, block.text, block.page) for block in blocks] == [
        (0, "Ada and the engine", None),
        (1, "The Engine", 1),
        (None, "Charles Babbage designed the Analytical\nEngine in 1837.", 1),
        (1, "Life", 2),
        (None, "Ada Lovelace was born in London and she", 2),
        (None, "wrote a program.", 3),
        (1, "Legacy (late)", 3),
        (1, "Elsewhere", 3),
        (None, "A language is named after her.", 3),
    ]
    found = [(p.text, p.metadata) for p in passages_of(blocks, "report.pdf")]
    named = {"source": "report.pdf", "page": 2, "last_page": 3, "heading": "Life"}
    assert found[1] == ("Ada Lovelace was born in London and she wrote a program.", named)


@extra
@pytest.mark.parametrize(
    "title", ["", "Microsoft Word - draft 3", "final.docx", "(anonymous)", "untitled", "Document1"]
)
def test_a_generated_title_is_ignored(tmp_path: Path, converting: Converter, title: str) -> None:
    needs_docs()
    assert levels_and_texts(converting.blocks(pdf(tmp_path / "tides.pdf", [["Tides rise."]], title=title)))[0] == (
        0,
        "tides",
    )


@extra
def test_running_lines_and_page_numbers_are_left_out(tmp_path: Path, converting: Converter) -> None:
    needs_docs()
    pages = [["Tide tables", f"High water number {name}.", f"Page {n}"] for n, name in enumerate("abcde", 1)]
    blocks = converting.blocks(pdf(tmp_path / "tides.pdf", pages))
    assert [block.text for block in blocks[1:]] == [f"High water number {name}." for name in "abcde"]


@extra
@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        (["Minutes of 3 May - page 1", "Minutes of 3 May - page 2"], []),
        (["Page 9", "Page 10", "Page 11"], []),
        (["Round 1", "Round 3"], ["Round 1", "Round 3"]),
        (["Signed", "Signed"], ["Signed", "Signed"]),
        (["Page 1"], ["Page 1"]),
    ],
)
def test_page_numbers_of_a_few_pages_are_left_out(
    tmp_path: Path, converting: Converter, lines: list[str], kept: list[str]
) -> None:
    needs_docs()
    pages = [[f"Text {letter}.", line] for letter, line in zip("abc", lines, strict=False)]
    blocks = converting.blocks(pdf(tmp_path / "minutes.pdf", pages))
    texts = "\n".join(block.text for block in blocks[1:]).split("\n")
    assert [text for text in texts if not text.startswith("Text ")] == kept


@extra
@pytest.mark.parametrize("size", [13, 18])
def test_headings_below_each_other_are_one_only_if_they_are_near(tmp_path: Path, size: int) -> None:
    needs_docs()
    page: list[Any] = [
        big("The report of", size),
        big("the crane", size),
        "",
        big("Summary", size),
        *["It is old and safe."] * 9,
    ]
    assert [p.title for p in open_corpus(pdf(tmp_path / "crane.pdf", [page]))] == ["The report of the crane › Summary"]


@extra
@pytest.mark.parametrize(
    ("left", "title"),
    [(200, "Skua › Overview"), (72, "Skua Overview"), (85, "Skua Overview")],
    ids=["a centred title", "lines from the left", "centred lines"],
)
def test_a_heading_further_left_than_a_title_is_its_own(tmp_path: Path, left: int, title: str) -> None:
    needs_docs()
    page: list[Any] = [[(13, left, "Skua")], big("Overview", 13), *["It is old and safe."] * 9]
    assert [p.title for p in open_corpus(pdf(tmp_path / "skua.pdf", [page]))] == [title]


def big(text: str, size: int = 16) -> list[tuple[int, int, str]]:
    return [(size, 72, text)]


def columns(*texts: str) -> list[tuple[int, int, str]]:
    return [(11, 72 + 140 * i, text) for i, text in enumerate(texts) if text]


@extra
def test_larger_lines_of_a_pdf_are_headings_and_columns_are_rows(tmp_path: Path) -> None:
    needs_docs()
    first: list[Any] = [
        big("Skua buoy", 22),
        big("Overview"),
        "The Skua measures waves.",
        big("Suppliers"),
        columns("Company", "Supplies", "Based in"),
        columns("Lumacell", "alkaline", "Graz, Austria"),
        columns("", "batteries"),
        columns("Norsk Tau", "", "Bergen"),
        columns("Voltkraft", "lithium", "Linz"),
        "They are partners.",
    ]
    path = pdf(tmp_path / "skua.pdf", [first, [big("Battery"), "It lasts 90", "days at sea."]])
    assert [(p.title, p.text, p.metadata["page"]) for p in open_corpus(path)] == [
        ("Skua buoy › Overview", "The Skua measures waves.", 1),
        (
            "Skua buoy › Suppliers",
            "Company: Lumacell; Supplies: alkaline batteries; Based in: Graz, Austria.\n"
            "Company: Norsk Tau; Based in: Bergen.\nCompany: Voltkraft; Supplies: lithium; Based in: Linz.\n"
            "They are partners.",
            1,
        ),
        ("Skua buoy › Battery", "It lasts 90 days at sea.", 2),
    ]


@extra
def test_the_columns_of_a_pdf_may_stand_near_to_each_other(tmp_path: Path) -> None:
    """As reportlab sets them by default: 12 points apart, with letters of 10 points."""
    needs_docs()
    rows: list[Any] = [
        [(10, 72, "Model"), (10, 127, "Battery"), (10, 172, "Price")],
        [(10, 72, "Dunlin S"), (10, 127, "4 Ah"), (10, 172, "900 EUR")],
        [(10, 72, "Dunlin XL"), (10, 127, "20 Ah"), (10, 172, "2,300 EUR")],
    ]
    ((_, text),) = [(p.title, p.text) for p in open_corpus(pdf(tmp_path / "a.pdf", [rows]))]
    assert text == "Model: Dunlin S; Battery: 4 Ah; Price: 900 EUR.\nModel: Dunlin XL; Battery: 20 Ah; Price: 2,300 EUR"


@extra
@pytest.mark.parametrize("is_below", [False, True], ids=["cells at the bottom", "cells at the top"])
def test_the_first_cell_of_a_row_apart_from_others_may_have_several_lines(tmp_path: Path, *, is_below: bool) -> None:
    needs_docs()
    wrapped = [columns("Write the report"), columns("on the pump", "Ann Lee", "3 May")]
    if is_below:
        wrapped = [columns("Write the report", "Ann Lee", "3 May"), columns("on the pump")]
    last = columns("Order seals", "Tom", "7 May")
    pages: list[Any] = [
        [columns("Task", "Owner", "Deadline"), "", *wrapped, "", last],
        [*wrapped, "", last, "", "Be quick."],
    ]
    texts = [p.text for p in open_corpus(pdf(tmp_path / "a.pdf", pages))]
    report = "Task: Write the report on the pump; Owner: Ann Lee; Deadline: 3 May"
    order = "Task: Order seals; Owner: Tom; Deadline: 7 May"
    assert texts == [f"{report}.\n{order}", f"{report}.\n{order}.\nBe quick."]


@extra
@pytest.mark.parametrize("header", [[], [columns("Part", "Material", "Price")]], ids=["once", "on each page"])
def test_a_table_goes_on_with_its_header_on_the_next_page(
    tmp_path: Path, converting: Converter, header: list[Any]
) -> None:
    needs_docs()
    first = [columns("Part", "Material", "Price"), columns("P1", "steel", "3 EUR"), columns("P2", "brass", "5 EUR")]
    path = pdf(tmp_path / "a.pdf", [["All parts", *first], [*header, columns("P3", "tin", "7 EUR"), "It ends here."]])
    blocks = converting.blocks(path)
    assert [(block.text, block.page) for block in blocks[1:]] == [
        ("All parts", 1),
        ("Part: P1; Material: steel; Price: 3 EUR", 1),
        ("Part: P2; Material: brass; Price: 5 EUR", 1),
        ("Part: P3; Material: tin; Price: 7 EUR", 2),
        ("It ends here.", 2),
    ]


@extra
@pytest.mark.parametrize(
    "lines",
    [
        [
            columns("This is text in", "two columns, as"),
            *[columns("is that of some", "of the papers in it")] * 4,
        ],
        [columns("one", "two"), columns("three", "four")],
        [
            [(11, 72, "1."), (11, 100, "Open it")],
            [(11, 72, "2."), (11, 100, "Close it")],
            [(11, 72, "-"), (11, 100, "Ok")],
        ],
        [columns("one", "two"), [(11, 72, "a text across"), (11, 150, "both columns")], columns("three", "four")],
    ],
)
def test_what_only_looks_like_a_table_stays_text(tmp_path: Path, converting: Converter, lines: list[Any]) -> None:
    needs_docs()
    blocks = converting.blocks(pdf(tmp_path / "a.pdf", [lines]))
    assert {block.kind for block in blocks} == {"text"}
    assert [" ".join(block.text.split()) for block in blocks[1:]] == [" ".join(t for line in lines for _, _, t in line)]


@extra
def test_a_docx_keeps_its_title_and_headings(tmp_path: Path, converting: Converter) -> None:
    needs_docs()
    paragraphs = [("Title", "Ada"), ("", "She wrote &amp; sang."), ("Heading1", "Life"), ("Heading2", "Youth")]
    assert levels_and_texts(converting.blocks(docx(tmp_path / "a.docx", [*paragraphs, ("", "1815.")]))) == [
        (0, "Ada"),
        (None, "She wrote & sang."),
        (1, "Life"),
        (2, "Youth"),
        (None, "1815."),
    ]


@extra
def test_a_pdf_or_docx_that_cannot_be_read_is_one_fault(tmp_path: Path) -> None:
    needs_docs()
    text = [("", "Text.")]
    whole = pdf(tmp_path / "whole.pdf", REPORT).read_bytes()
    (tmp_path / "whole.pdf").unlink()
    faults = {
        pdf(tmp_path / "locked.pdf", REPORT, locked=True): "encrypted: save it without a password",
        pdf(tmp_path / "scan.pdf", [[], []]): "no text in it: if its pages are scanned pictures",
        tmp_path / "empty.pdf": "damaged",
        tmp_path / "text.pdf": "damaged",
        docx(tmp_path / "bomb.docx", text, head=ENTITIES): "its XML has a document type",
        write_zip(tmp_path / "hidden.docx", {"word/document.xml": "<a/>", "word/a.png": f"\ufeff{ENTITIES}<a/>"}): (
            "its XML has a document type"
        ),
        docx(tmp_path / "none.docx", []): "no text in it",
        write_zip(tmp_path / "other.docx", {"a.xml": "<a/>"}): "damaged: it holds no text document",
        write_zip(tmp_path / "torn.docx", {"word/document.xml": "<a>"}): "damaged",
        tmp_path / "old.docx": "encrypted, or in an old format",
    }
    (tmp_path / "empty.pdf").write_bytes(b"")
    (tmp_path / "text.pdf").write_bytes(b"no pdf")
    (tmp_path / "old.docx").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
    with Converter() as converting:
        for path, why in faults.items():
            with pytest.raises(DataError, match=rf"{path.name}: .*{why}"):
                converting.blocks(path)
    (tmp_path / "good.pdf").write_bytes(whole)
    lenient = open_corpus(tmp_path)
    assert {p.metadata["source"] for p in lenient} == {"good.pdf"}
    assert lenient.skipped == len(faults)


def damaged(data: bytes, draw: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.randint(1, 6)):
        changed[draw.randrange(len(changed))] = draw.randrange(256)
    return bytes(changed[: draw.randint(1, len(changed))] if draw.random() < 0.2 else changed)


def damaged_inside(path: Path, draw: random.Random) -> None:
    """A packed document with a part that is damaged, as its check sums do not tell."""
    with zipfile.ZipFile(path) as opened:
        parts = {name: opened.read(name) for name in opened.namelist()}
    hit = draw.choice(sorted(parts))
    write_zip(path, {name: damaged(part, draw) if name == hit else part for name, part in parts.items()})


@extra
@pytest.mark.parametrize("kind", ["a.pdf", "a.docx", "a.epub", "a.xlsx", "a.pptx"])
def test_any_damage_is_only_a_fault(tmp_path: Path, converting: Converter, kind: str) -> None:
    needs_docs()
    make = {
        "a.pdf": lambda path: pdf(path, REPORT, OUTLINE, title="Ada"),
        "a.docx": lambda path: docx(path, [("Title", "Ada"), ("", "She wrote.")]),
        "a.epub": lambda path: epub(path, {"1.xhtml": "<h1>One</h1><p>Text."}),
        "a.xlsx": lambda path: xlsx(path, {"Pumps": [["Name", "Bar"], ["P1", 3]]}, merged=["A1:A2"]),
        "a.pptx": lambda path: pptx(path, [("One", shape("Text.") + slide_table(["a", "b"], ["1", "2"]))], notes="N"),
    }
    path, draw, read = tmp_path / kind, random.Random(7), 0
    for number in range(60):
        make[kind](path)
        if kind == "a.pdf" or number % 4 == 0:
            path.write_bytes(damaged(path.read_bytes(), draw))
        else:
            damaged_inside(path, draw)
        try:
            blocks = converting.blocks(path)
        except DataError:
            continue
        assert all(block.text for block in blocks)
        read += 1
    assert 0 < read < 60


def test_every_suffix_has_a_converter() -> None:
    assert sorted(converter.SUFFIXES) == sorted([*child.CONVERTERS, *child.TEXT_CONVERTERS])


# --- from a folder to a citation --------------------------------------------------------------------------------------


@extra
def test_an_answer_from_a_folder_names_page_and_heading(tmp_path: Path, cli: Cli) -> None:
    needs_docs()
    folder = tmp_path / "library"
    folder.mkdir()
    pdf(folder / "report.pdf", REPORT, OUTLINE)
    docx(folder / "tides.docx", [("Title", "Tides"), ("Heading1", "Causes"), ("", "The Moon draws the sea.")])
    asked = ("ask", "In which city was Ada Lovelace born?", "--corpus", folder, "--method", "one-r", "--lm", "pocket")
    said = cli(*asked)
    assert said.code == 0
    assert "report › Life (report.pdf, pp. 2–3)" in said.out
    assert "London" in said.out
    assert "report › The Engine  report.pdf, p. 1" in cli("search", folder, "Babbage").out
    assert "Tides › Causes  tides.docx" in cli("search", folder, "moon").out
    pdf(folder / "locked.pdf", REPORT, locked=True)
    said = cli(*asked)
    assert "left out: locked.pdf (encrypted: save it without a password)" in said.err
    assert "London" in said.out


def test_a_report_page_names_page_and_heading(tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "ada.md").write_text("# Ada Lovelace\nShe wrote.\n## Life\nAda was born in London in 1815.")
    question = Question("q", "In which city was Ada Lovelace born?", answers=("London",))
    report = polyhop.evaluate([question], tmp_path / "library", "one-r", "pocket", out=tmp_path / "run")
    assert not report.failed
    rows = [{"runs": [{"trace": next((tmp_path / "run").glob("traces/*")).relative_to(tmp_path / "run")}]}]
    (held,) = embedded.traces(rows, [0], [tmp_path / "run"])
    assert '"metadata":{"source":"ada.md","heading":"Life"}' in held


MARKS = ["#", "## ", "\n", "---", "===", "```", "Ada", " wrote. ", "<h1>", "</", "<p", ">", "&#x", "学。"]


@given(st.lists(st.sampled_from(MARKS)))
def test_any_text_becomes_passages_with_content(parts: list[str]) -> None:
    text = "".join(parts)
    for blocks in (text_blocks(text), markdown_blocks(text), html_blocks(text)):
        for passage in passages_of(list(blocks), "a.md"):
            assert passage.text.strip()
            assert passage.title


@given(st.lists(st.sampled_from(["Ada ", "wrote. ", "学", "。", "B.", "\n", "word " * 60])), st.integers(1, 30))
def test_no_word_is_lost_between_passages(parts: list[str], target: int) -> None:
    text = "".join(parts)
    assert "".join("".join(split_passages(text, target)).split()) == "".join(text.split())


WORDS = st.lists(st.text("abcdefgh", min_size=1, max_size=4), min_size=1, max_size=12).map(" ".join)
PARTS = st.lists(
    st.tuples(st.sampled_from(["text", "item", "code", "heading", "deeper"]), WORDS)
    | st.tuples(st.just("table"), st.lists(st.tuples(WORDS, WORDS, WORDS), min_size=2, max_size=4)),
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(PARTS)
def test_every_word_of_a_document_stands_in_a_passage_or_its_title(parts: list[tuple[str, Any]]) -> None:
    markdown, markup, held = [], [], set[str]()
    for kind, content in parts:
        rows = [content] if isinstance(content, str) else [" ".join(row) for row in content]
        held |= {word for row in rows for word in row.split()}
        if kind == "table":
            lines = [f"| {' | '.join(row)} |" for row in content]
            markdown.append("\n".join([lines[0], "|---|---|---|", *lines[1:]]))
            markup.append(f"<table>{''.join('<tr><td>' + '<td>'.join(row) for row in content)}</table>")
        else:
            forms = {"text": ("", "p"), "item": ("- ", "li"), "code": ("    ", "pre"), "heading": ("# ", "h1")}
            mark, tag = forms.get(kind, ("### ", "h3"))
            markdown.append(f"{mark}{content}")
            markup.append(f"<{tag}>{content}</{tag}>")
    for blocks in (markdown_blocks("\n\n".join(markdown)), html_blocks("".join(markup))):
        passages = list(passages_of(list(blocks), "file.md"))
        words = {word.strip(".:;›") for p in passages for word in f"{p.title} {p.text}".split()}
        assert held <= words or all(kind in ("heading", "deeper") for kind, _ in parts)
        assert all(p.text.strip() for p in passages)
