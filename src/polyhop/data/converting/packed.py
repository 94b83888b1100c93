"""Packed documents: DOCX and EPUB as blocks. Their parts are read in memory and within limits, never unpacked to disk.

DOCX is converted by mammoth: paragraphs, tables, and the headings that its styles mark; its pages are unknown before
layout.
EPUB: its chapters in the order of its spine, each a page of HTML.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

from polyhop.data.converting import MAX_MARKUP, MAX_PARTS, MAX_RATIO, MAX_SMALL, MAX_UNPACKED, TITLE, Block
from polyhop.data.converting.encodings import decode_page
from polyhop.data.converting.html import fragment_blocks, html_blocks
from polyhop.errors import DataError

_ENCRYPTED_FLAG = 0x1

_OLE = b"\xd0\xcf\x11\xe0"  # the container of an encrypted document and of Office's old formats
_DOCUMENT_TYPE = re.compile(rb"<!(DOCTYPE|ENTITY)", re.IGNORECASE)
_BEFORE_XML = b"\xef\xbb\xbf\xff\xfe \t\r\n"
_STYLE_MAP = "p[style-name='Title'] => title:fresh"
_DOCUMENT, _STYLES = "word/document.xml", "word/styles.xml"
_ON = ("1", "true", "on")
_FIRST_ROW = 0x20  # in the older form of a table's look
_MAX_BASES = 10  # styles between a style and the one it is based on in the end

_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_TITLE = "{http://purl.org/dc/elements/1.1/}title"


@contextmanager
def open_packed(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a packed document whose parts together stay within the limits; no part yields more than its header claims.

    Raises:
        DataError: it is encrypted, damaged, in an old format, or too large when unpacked.
    """
    with path.open("rb") as stream:
        if stream.read(len(_OLE)) == _OLE:
            raise DataError("encrypted, or in an old format: save it anew, without a password")
    if not zipfile.is_zipfile(path):
        raise DataError("damaged, or not of the format that its suffix names")
    try:
        with zipfile.ZipFile(path) as archive:
            parts = archive.infolist()
            if len(parts) > MAX_PARTS:
                raise DataError(f"has {len(parts):,} parts; the maximum is {MAX_PARTS:,}")
            if (size := sum(part.file_size for part in parts)) > MAX_UNPACKED:
                raise DataError(f"unpacks to {size:,} bytes; the maximum is {MAX_UNPACKED:,}")
            if any(part.flag_bits & _ENCRYPTED_FLAG for part in parts):
                raise DataError("encrypted: save it without a password")
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, KeyError) as error:
        raise DataError(f"damaged: {error}") from error


def read_part(archive: zipfile.ZipFile, name: str | zipfile.ZipInfo) -> bytes:
    """Read a part that is parsed as a whole.

    Raises:
        DataError: it is too large.
        KeyError: it does not exist.
    """
    part = archive.getinfo(name) if isinstance(name, str) else name
    limit = min(MAX_MARKUP, max(MAX_SMALL, MAX_RATIO * part.compress_size))
    if part.file_size > limit:
        raise DataError(
            f"its part {part.filename!r} unpacks from {part.compress_size:,} to {part.file_size:,} bytes; "
            f"the maximum is {limit:,}"
        )
    return archive.read(part)


def docx_blocks(path: Path) -> Iterator[Block]:
    """Yield the blocks of a DOCX file, without pictures.

    Raises:
        DataError: it is encrypted, damaged, in an old format, or has a document type, which Word never writes.
    """
    import mammoth

    copy = io.BytesIO()
    with open_packed(path) as archive, zipfile.ZipFile(copy, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as marked:
        for part in archive.infolist():
            with archive.open(part) as stream:
                start = stream.read(4096).replace(b"\0", b"").lstrip(_BEFORE_XML)
            if start and not start.startswith(b"<"):
                continue  # not XML but a picture, for example; the name of a part does not show its type
            data = read_part(archive, part)
            if _DOCUMENT_TYPE.search(data.replace(b"\0", b"")):
                raise DataError("not read: its XML has a document type")
            if part.filename != _DOCUMENT:
                marked.writestr(part.filename, data)
        if _DOCUMENT not in archive.namelist():
            raise DataError("damaged: it holds no text document")
        styles = read_part(archive, _STYLES) if _STYLES in archive.namelist() else b""
        marked.writestr(_DOCUMENT, _with_header_rows(read_part(archive, _DOCUMENT), styles))
    converted = mammoth.convert_to_html(copy, style_map=_STYLE_MAP, convert_image=lambda _: [])
    yield from fragment_blocks(converted.value)


def _with_header_rows(document: bytes, styles: bytes) -> bytes:
    """Return a text document whose tables have their first row marked as a header if their style sets it apart: mammoth
    reads the mark alone."""
    if b"tblStyle" not in document or b"firstRow" not in styles:
        return document
    apart, root = _styles_with_header(parse_xml(styles)), parse_xml(document)
    for table in root.iterfind(".//{*}tbl"):
        style, look, row = (table.find(name) for name in ("{*}tblPr/{*}tblStyle", "{*}tblPr/{*}tblLook", "{*}tr"))
        if style is None or look is None or row is None or _value(style) not in apart or not _shows_first_row(look):
            continue
        space = row.tag.removesuffix("tr")
        properties = row.find("{*}trPr")
        if properties is None:
            properties = ElementTree.Element(f"{space}trPr")
            row.insert(0, properties)
        ElementTree.SubElement(properties, f"{space}tblHeader")
    return ElementTree.tostring(root)


def _styles_with_header(styles: ElementTree.Element) -> set[str]:
    """Return the ids of the styles that set the first row of a table apart, or are based on one that does."""
    based, found = dict[str, str](), set[str]()
    for style in styles.iterfind("{*}style"):
        id, base = _value(style, "styleId"), style.find("{*}basedOn")
        based[id] = _value(base) if base is not None else ""
        if any(_value(part, "type") == "firstRow" for part in style.iterfind("{*}tblStylePr")):
            found.add(id)
    for _ in range(_MAX_BASES):
        found |= {id for id, base in based.items() if base in found}
    return found


def _shows_first_row(look: ElementTree.Element) -> bool:
    """Return True if the look of a table gives its first row the form that the style has for it."""
    if flag := _value(look, "firstRow"):
        return flag in _ON
    code = _value(look)
    return bool(re.fullmatch("[0-9A-Fa-f]{1,4}", code)) and bool(int(code, 16) & _FIRST_ROW)


def _value(element: ElementTree.Element, name: str = "val") -> str:
    """Return an attribute that is of the same namespace as its element."""
    return element.get(f"{element.tag.partition('}')[0]}}}{name}", "")


def epub_blocks(path: Path) -> Iterator[Block]:
    """Yield the title of an EPUB file and the blocks of its chapters.

    Raises:
        DataError: it is damaged, or a chapter is encrypted.
    """
    with open_packed(path) as book:
        rootfile = parse_xml(read_part(book, _CONTAINER)).find(".//{*}rootfile")
        if rootfile is None:
            raise DataError("damaged: it names no contents")
        package_path = rootfile.get("full-path", "")
        package = parse_xml(read_part(book, package_path))
        yield Block((package.findtext(f".//{_TITLE}") or "").strip() or path.stem, TITLE)
        hrefs = {item.get("id"): item.get("href", "") for item in package.iterfind(".//{*}manifest/{*}item")}
        spine = [hrefs.get(entry.get("idref"), "") for entry in package.iterfind(".//{*}spine/{*}itemref")]
        folder, encrypted, names = posixpath.dirname(package_path), _encrypted_parts(book), set(book.namelist())
        chapters = (posixpath.normpath(posixpath.join(folder, unquote(href.partition("#")[0]))) for href in spine)
        for chapter in dict.fromkeys(chapters):
            if chapter in encrypted:
                raise DataError("encrypted: only its shop's software can read its chapters")
            if chapter in names:
                yield from _chapter_blocks(list(html_blocks(decode_page(read_part(book, chapter))[0])))


def _chapter_blocks(blocks: list[Block]) -> Iterator[Block]:
    """Yield the blocks of a chapter, its first heading at level 1. Its title becomes its heading if it has no other."""
    first = next((block.level for block in blocks if block.level), None)
    for block in blocks:
        if block.level is None:
            yield block
        elif block.level != TITLE or first is None:
            yield replace(block, level=max(1, block.level - (first or 0) + 1))


def _encrypted_parts(book: zipfile.ZipFile) -> set[str]:
    if _ENCRYPTION not in book.namelist():
        return set()
    references = parse_xml(read_part(book, _ENCRYPTION)).iterfind(".//{*}CipherReference")
    return {unquote(reference.get("URI", "")) for reference in references}


def parse_xml(data: bytes) -> ElementTree.Element:
    """Parse a part.

    Raises:
        DataError: it is damaged, or defines entities.
    """
    check_xml(data)
    try:
        return ElementTree.fromstring(data)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise DataError(f"damaged: {error}") from error


def check_xml(data: bytes) -> None:
    """Raise ``DataError`` if a part defines entities, which could expand without bound."""
    if b"<!ENTITY" in data.replace(b"\0", b""):
        raise DataError("not read: it defines XML entities")
