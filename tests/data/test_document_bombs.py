"""Documents that would block the reader or fill its memory: each ends soon, with text or with a fault that names it."""

from __future__ import annotations

import codecs
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from polyhop.data.converting import Block, child, encodings, packed
from polyhop.data.converting.converter import Converter
from polyhop.data.converting.encodings import decode_page
from polyhop.data.converting.html import html_blocks
from polyhop.data.converting.plain import markdown_blocks
from polyhop.data.documents import passages_of
from polyhop.errors import DataError
from tests.kit.documents import docx, epub, write_zip

extra = pytest.mark.extra

MANY = 200_000
"""Repetitions that a reader of quadratic time would need minutes for."""

_BOMBS = "".join(f'<!ENTITY {after} "{f"&{name};" * 10}">' for name, after in zip("abcdefgh", "bcdefghi", strict=True))
LAUGHS = f'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">{_BOMBS}]>'
OUTSIDE = '<!DOCTYPE x [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="text/book.opf"/></rootfiles></container>'
)


@pytest.fixture
def converting() -> Iterator[Converter]:
    with Converter() as each:
        yield each


def text_of(blocks: list[Block]) -> str:
    return " ".join(block.text for block in blocks)


# --- markup ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "unclosed",
    ["<!--", "<!", "<![CDATA[", "</", "</a", "<?", "<a ", "<a b='", '<a b="', "<a b='\"", "<script>", "<a ="],
)
def test_unclosed_markup_swallows_the_rest_of_the_page_in_linear_time(unclosed: str) -> None:
    found = list(html_blocks("<p>Before." + unclosed * MANY))
    assert found[0] == Block("Before.")
    assert not any(block.text.strip("</") for block in found[1:])


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("a<!-- <p> -->b<!-->c<!--->d<!--x--!>e", "abcde"),
        ("a<?xml b ?>c<!DOCTYPE d>e</ f>g</>h", "acegh"),
        ("a<![CDATA[ <p>b</p> ]]>c", "ac"),
        ("<a title='x > y' rel=z>b</a><a b=\"c'>d", "bd"),
        ("<a title=it's>b</a>c", "bc"),
        ("1 < 2 <3 </ <", "1 < 2 <3"),
        ("<SCRIPT>a</SCRIPTS></p></ScRiPt >b", "b"),
        ("<style media='x'>p > a {}</style>c<script/>d", "cd"),
    ],
)
def test_tags_are_found_as_browsers_find_them(markup: str, text: str) -> None:
    assert text_of(list(html_blocks(markup))).replace(" ", "") == text.replace(" ", "")


def test_many_paragraphs_become_passages() -> None:
    passages = list(passages_of([Block("word.")] * MANY, "a.html"))
    assert sum(len(passage.text.split()) for passage in passages) == MANY


def test_too_many_headings_are_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "MAX_HEADINGS", 100)
    for name, heading in (("a.md", "# Ada\nShe wrote.\n"), ("a.html", "<h2>Ada</h2>She wrote.")):
        (tmp_path / name).write_text(heading * 101)
        with pytest.raises(DataError, match="has more than 100 headings"):
            list(child.convert(tmp_path / name))


def test_what_many_passages_repeat_is_short_and_its_whole_is_text() -> None:
    long = "word " * 1000
    table = f"<table><caption>{long}</caption>{'<tr><td>a<td>b</tr>' * 3}</table>"
    caption, *rows = html_blocks(table)
    assert len(caption.text) >= 4999
    assert [len(row.caption) for row in rows] == [299] * 3
    passages = list(passages_of([Block(long, 1), Block("Tides."), Block(long, 2), Block("Rise.")], "a.md"))
    assert max(len(passage.title) for passage in passages) < 700
    assert sum(len(passage.text.split()) for passage in passages) == 2002


def test_a_document_of_nothing_but_its_title_is_that() -> None:
    (passage,) = passages_of([Block("Tides", 0), Block("Tides", 1)], "a.pptx")
    assert (passage.title, passage.text) == ("Tides", "Tides")
    assert not list(passages_of([], "a.txt"))


@pytest.mark.parametrize("levels", [5, 24, 40, 200])
def test_markdown_keeps_its_text_however_deep_it_stands(levels: int) -> None:
    for mark in ("> ", "- "):
        assert "Tides" in text_of(list(markdown_blocks(f"Rise.\n\n{mark * levels}Tides\n")))


# --- charsets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "charset", ["punycode", "utf-7", "unicode_escape", "raw_unicode_escape", "idna", "rot13", "hz"]
)
def test_an_encoding_that_no_browser_knows_is_not_used(charset: str) -> None:
    page = f"<meta charset={charset}>" + "a-b +ADw-script+AD4- \\u003cscript\\u003e ~{ " * 1000
    assert decode_page(page.encode()) == (page, "")


def test_the_encodings_are_named_as_python_names_them() -> None:
    for name in encodings._CODECS - {"iso8859-12"}:  # there is none
        assert codecs.lookup(name).name == name


# --- packed documents -------------------------------------------------------------------------------------------------


def test_a_part_with_an_implausible_ratio_is_a_fault(tmp_path: Path, converting: Converter) -> None:
    path = epub(tmp_path / "attributes.epub", {"1.xhtml": "<a " + "x=1 " * 10**6 + ">Text."})
    assert path.stat().st_size < 10_000
    with pytest.raises(DataError, match=r"attributes\.epub: its part 'text/1\.xhtml' unpacks from [\d,]+ to 4,000,009"):
        converting.blocks(path)
    with pytest.raises(DataError, match="the maximum is 1,048,576"):
        converting.blocks(write_zip(tmp_path / "blank.epub", {"META-INF/container.xml": " " * 2**21}))


def test_a_part_has_a_size_limit_at_any_ratio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packing:
        packing.writestr("a", "x" * 1001)
    monkeypatch.setattr(packed, "MAX_MARKUP", 1000)
    with packed.open_packed(tmp_path / "a.zip") as opened, pytest.raises(DataError, match="the maximum is 1,000"):
        packed.read_part(opened, "a")


def test_archives_inside_a_book_are_not_unpacked(tmp_path: Path, converting: Converter) -> None:
    inner = write_zip(tmp_path / "inner.zip", {"1.xhtml": "<p>Secret." + " " * 10**6}).read_bytes()
    for _ in range(5):
        inner = write_zip(tmp_path / "inner.zip", {"1.xhtml": inner, "2.xhtml": inner}).read_bytes()
    path = epub(tmp_path / "b.epub", {"ok.xhtml": "<p>Text."}, more={"text/inner.zip": inner.decode("latin-1")})
    assert text_of(converting.blocks(path)) == "b Text."


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"META-INF/container.xml": LAUGHS + CONTAINER}, "it defines XML entities"),
        ({"META-INF/container.xml": OUTSIDE + CONTAINER}, "it defines XML entities"),
        ({"META-INF/container.xml": (OUTSIDE + CONTAINER).encode("utf-16")}, "it defines XML entities"),
        ({"META-INF/container.xml": b"<?xml version='1.0' encoding='utf-7'?>" + CONTAINER.encode()}, "damaged"),
        ({"META-INF/container.xml": b"<?xml version='1.0' encoding='cp037'?>" + CONTAINER.encode("cp037")}, "damaged"),
        ({"META-INF/container.xml": "<a>" * 50_000}, "damaged"),
    ],
)
def test_hostile_xml_in_a_book_is_a_fault(
    tmp_path: Path, converting: Converter, parts: Mapping[str, str | bytes], why: str
) -> None:
    book = epub(tmp_path / "b.epub", {"1.xhtml": "<p>Text."})
    with zipfile.ZipFile(book) as opened:
        whole = {name: opened.read(name) for name in opened.namelist()}
    with pytest.raises(DataError, match=why):
        converting.blocks(write_zip(book, {**whole, **parts}))


def test_entities_of_a_chapter_are_not_resolved(tmp_path: Path, converting: Converter) -> None:
    chapters = {"1.xhtml": LAUGHS + "<p>One &i;", "2.xhtml": OUTSIDE + "<p>Two &x;"}
    text = text_of(converting.blocks(epub(tmp_path / "b.epub", chapters)))
    assert "One &i;" in text
    assert "Two &x;" in text
    assert "aaaa" not in text
    assert "root:" not in text


# --- DOCX and PDF -----------------------------------------------------------------------------------------------------


@extra
@pytest.mark.parametrize("head", [LAUGHS, OUTSIDE, '<!DOCTYPE x SYSTEM "file:///etc/passwd">'])
def test_a_docx_with_a_document_type_is_a_fault(tmp_path: Path, converting: Converter, head: str) -> None:
    pytest.importorskip("mammoth")
    with pytest.raises(DataError, match="its XML has a document type"):
        converting.blocks(docx(tmp_path / "a.docx", [("", "Text.")], head=head))


@extra
def test_a_docx_of_nested_tables_or_of_blanks_is_a_fault(tmp_path: Path, converting: Converter) -> None:
    pytest.importorskip("mammoth")
    path = docx(tmp_path / "a.docx", [("", "Text.")])
    with zipfile.ZipFile(path) as opened:
        parts = {name: opened.read(name) for name in opened.namelist()}
    paragraph = parts["word/document.xml"].partition(b"<w:body>")[2].partition(b"</w:body>")[0]
    deep = b"<w:tbl><w:tr><w:tc>" * 5000 + paragraph + b"</w:tc></w:tr></w:tbl>" * 5000
    document = parts["word/document.xml"].replace(paragraph, deep)
    with pytest.raises(DataError, match="damaged: RecursionError"):
        converting.blocks(write_zip(path, {**parts, "word/document.xml": document}))
    with pytest.raises(DataError, match="its part 'word/more' unpacks"):
        converting.blocks(write_zip(path, {**parts, "word/more": " " * 2**22}))
    assert text_of(converting.blocks(write_zip(path, {**parts, "word/a.bmp": b"BM" + b"\xff" * 2**22}))) == "Text."


def raw_pdf(path: Path, pages: bytes, content: bytes, outlines: Mapping[int, bytes]) -> Path:
    """A PDF of hand-made pages, one content stream, and outline objects from 6 on."""
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 5 0 R>>>>/Contents 4 0 R>>"
    objects = {
        1: b"<</Type/Catalog/Pages 2 0 R/Outlines 6 0 R>>",
        2: b"<</Type/Pages/" + pages + b">>",
        3: page,
        4: content,
        5: b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        **outlines,
    }
    data, offsets = b"%PDF-1.4\n", []
    for number, body in sorted(objects.items()):
        offsets.append(len(data))
        data += b"%d 0 obj\n" % number + body + b"\nendobj\n"
    table = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + b"".join(
        b"%010d 00000 n \n" % at for at in offsets
    )
    end = b"trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(data))
    path.write_bytes(data + table + end)
    return path


def flate(data: bytes, times: int) -> bytes:
    for _ in range(times):
        data = zlib.compress(data, 9)
    return b"<</Filter[" + b"/FlateDecode" * times + b"]/Length %d>>\nstream\n" % len(data) + data + b"\nendstream"


@extra
def test_a_pdf_with_a_loop_or_a_bomb_ends(tmp_path: Path, converting: Converter) -> None:
    pytest.importorskip("pypdfium2")
    shown = flate(b"BT /F1 11 Tf 72 760 Td (Tides rise.)Tj ET", 1)
    one = b"Count 1/Kids[3 0 R]"
    loop = {
        6: b"<</First 7 0 R/Last 8 0 R/Count 2>>",
        7: b"<</Title(Up)/Parent 6 0 R/Next 8 0 R/First 8 0 R/Dest[3 0 R/Fit]>>",
        8: b"<</Title(Down)/Parent 6 0 R/Next 7 0 R/First 7 0 R/Dest[3 0 R/Fit]>>",
    }
    assert "Tides rise." in text_of(converting.blocks(raw_pdf(tmp_path / "outline.pdf", one, shown, loop)))
    pages = raw_pdf(tmp_path / "pages.pdf", b"Count 1000000/Kids[2 0 R 2 0 R]", shown, {})
    with pytest.raises(DataError, match="has 1,000,000 pages; the maximum is 10,000"):
        converting.blocks(pages)
    bomb = raw_pdf(tmp_path / "bomb.pdf", one, flate(b" " * 10**8, 2), {})
    assert bomb.stat().st_size < 10_000
    with pytest.raises(DataError, match=r"bomb\.pdf: (converting it failed|no text in it)"):
        converting.blocks(bomb)
    assert "Tides rise." in text_of(converting.blocks(raw_pdf(tmp_path / "after.pdf", one, shown, {})))
