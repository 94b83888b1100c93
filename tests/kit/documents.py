"""Minimal hand-written documents: PDF, DOCX and EPUB."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
_TYPES = "application/vnd.openxmlformats-officedocument.wordprocessingml"


def pdf(
    path: Path,
    pages: Sequence[Sequence[str | Sequence[tuple[int, int, str]]]],
    outline: Sequence[tuple[str, int]] = (),
    title: str = "",
    *,
    locked: bool = False,
) -> Path:
    """A PDF of pages of lines, each a text, or texts with their sizes and distances from the left. ``outline``: titles
    with the pages, from 1, that they lead to; ``locked``: by a password
    that no one has."""
    first, marks = 5, 5 + 2 * len(pages)
    objects = {
        1: f"<</Type/Catalog/Pages 2 0 R{'/Outlines 4 0 R' if outline else ''}>>",
        2: f"<</Type/Pages/Count {len(pages)}/Kids[{' '.join(f'{first + 2 * n} 0 R' for n in range(len(pages)))}]>>",
        3: "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
        4: f"<</Type/Outlines/First {marks} 0 R/Last {marks + len(outline) - 1} 0 R/Count {len(outline)}>>",
    }
    for number, lines in enumerate(pages):
        placed = [[(11, 72, line)] if isinstance(line, str) else line for line in lines]
        stream = "\n".join(
            f"BT /F1 {size} Tf {x} {760 - 14 * row} Td ({_escaped(text)})Tj ET"
            for row, line in enumerate(placed)
            for size, x, text in line
        )
        objects[first + 2 * number] = (
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>>>"
            f"/Contents {first + 2 * number + 1} 0 R>>"
        )
        objects[first + 2 * number + 1] = f"<</Length {len(stream)}>>\nstream\n{stream}\nendstream"
    for number, (name, page) in enumerate(outline):
        after = f"/Next {marks + number + 1} 0 R" if number + 1 < len(outline) else ""
        before = f"/Prev {marks + number - 1} 0 R" if number else ""
        objects[marks + number] = (
            f"<</Title({_escaped(name)})/Parent 4 0 R/Dest[{first + 2 * (page - 1)} 0 R/Fit]{after}{before}>>"
        )
    information = max(objects) + 1
    objects[information] = f"<</Title({_escaped(title)})>>"
    data, offsets = b"%PDF-1.4\n", {}
    for number, body in sorted(objects.items()):
        offsets[number] = len(data)
        data += f"{number} 0 obj\n{body}\nendobj\n".encode("latin-1")
    table = "".join(f"{offsets[number]:010} 00000 n \n" for number in sorted(objects))
    key = "ab" * 32
    lock = f"/Encrypt<</Filter/Standard/V 1/R 2/O<{key}>/U<{key}>/P -44>>/ID[<00><00>]" if locked else ""
    end = f"<</Size {information + 1}/Root 1 0 R/Info {information} 0 R{lock}>>\nstartxref\n{len(data)}\n%%EOF\n"
    path.write_bytes(data + f"xref\n0 {information + 1}\n0000000000 65535 f \n{table}trailer\n{end}".encode("latin-1"))
    return path


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")


def docx(path: Path, paragraphs: Sequence[tuple[str, str]], *, table: str = "", head: str = "") -> Path:
    """A DOCX of paragraphs ``(style, text)``, such as ("Heading1", "Life") and ("", "Born in 1815."), and the XML of a
    table at its end; ``head`` stands before the document's first element."""
    body = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>'
        for style, text in paragraphs
    )
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="{id}"><w:name w:val="{name}"/></w:style>'
        for id, name in (("Heading1", "heading 1"), ("Heading2", "heading 2"), ("Title", "Title"))
    )
    styles += (
        '<w:style w:type="table" w:styleId="Grid"><w:name w:val="Grid"/><w:tblStylePr w:type="firstRow"/></w:style>'
        '<w:style w:type="table" w:styleId="Blue"><w:name w:val="Blue"/><w:basedOn w:val="Grid"/></w:style>'
    )
    parts = {
        "[Content_Types].xml": (
            '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
            '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Override PartName="/word/document.xml" ContentType="{_TYPES}.document.main+xml"/>'
            f'<Override PartName="/word/styles.xml" ContentType="{_TYPES}.styles+xml"/></Types>'
        ),
        "_rels/.rels": relations(("rId1", _OFFICE, "word/document.xml")),
        "word/_rels/document.xml.rels": relations(
            ("rId1", _OFFICE.replace("officeDocument", "styles").replace("office/", "officeDocument/"), "styles.xml")
        ),
        "word/styles.xml": f'<w:styles xmlns:w="{_WORD}">{styles}</w:styles>',
        "word/document.xml": f'{head}<w:document xmlns:w="{_WORD}"><w:body>{body}{table}</w:body></w:document>',
    }
    return write_zip(path, parts)


def word_table(*rows: Sequence[str], form: str = "", row_form: str = "") -> str:
    """A table of Word; ``form`` and ``row_form`` are the properties of the table and of its first row."""
    cells = ("".join(f"<w:tc><w:p><w:r><w:t>{cell}</w:t></w:r></w:p></w:tc>" for cell in row) for row in rows)
    lines = (f"<w:tr>{'' if i else row_form}{row}</w:tr>" for i, row in enumerate(cells))
    return f"<w:tbl><w:tblPr>{form}</w:tblPr>{''.join(lines)}</w:tbl>"


def relations(*relations: tuple[str, str, str]) -> str:
    relationships = "".join(
        f'<Relationship Id="{id}" Type="{kind}" Target="{target}"/>' for id, kind, target in relations
    )
    return f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{relationships}</Relationships>'


def epub(
    path: Path, chapters: Mapping[str, str], *, title: str = "", more: Mapping[str, str] | None = None, head: str = ""
) -> Path:
    """An EPUB of chapters, file name to HTML; ``more``: other parts; ``head`` stands before the package's element."""
    items = "".join(f'<item id="c{n}" href="{name}"/>' for n, name in enumerate(chapters))
    spine = "".join(f'<itemref idref="c{n}"/>' for n in range(len(chapters)))
    package = (
        f'{head}<package xmlns="http://www.idpf.org/2007/opf"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<dc:title>{title}</dc:title></metadata><manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="text/book.opf"/></rootfiles></container>'
    )
    pages = {f"text/{name}": html for name, html in chapters.items()}
    return write_zip(path, {"META-INF/container.xml": container, "text/book.opf": package, **pages, **(more or {})})


def write_zip(path: Path, parts: Mapping[str, str | bytes]) -> Path:
    """Return a zip file of these parts."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return path
