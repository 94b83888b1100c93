"""Spreadsheets and presentations written by hand, as small as readers take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from tests.kit.documents import relations, write_zip

Value: TypeAlias = str | float | None
Sheets: TypeAlias = Mapping[str, Sequence[Sequence[Value]]]

_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_SLIDE = "http://schemas.openxmlformats.org/presentationml/2006/main"
_DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
_IDS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_STYLES = (
    f'<styleSheet xmlns="{_SHEET}"><numFmts><numFmt numFmtId="164" formatCode="d\\ mmm\\ yyyy"/></numFmts>'
    '<fonts><font/><font><b/></font></fonts><cellXfs><xf numFmtId="0"/><xf numFmtId="164"/><xf numFmtId="9"/>'
    '<xf numFmtId="0" fontId="1"/></cellXfs></styleSheet>'
)


def xlsx(
    path: Path,
    sheets: Sheets,
    *,
    merged: Sequence[str] = (),
    styles: Mapping[str, int] | None = None,
    head: str = "",
) -> Path:
    """An XLSX of sheets of rows; texts are shared strings, None is no cell, and a text after an equals sign is a
    formula without a value. ``styles`` maps a cell to a format: 1 for a date, 2 for a percentage, 3 for bold letters.
    ``merged`` are ranges of the first sheet; ``head`` stands before each sheet."""
    texts = list(dict.fromkeys(cell for rows in sheets.values() for row in rows for cell in row if type(cell) is str))

    def cell_of(name: str, value: Value) -> str:
        style = (styles or {}).get(name, 0)
        if isinstance(value, str) and value.startswith("="):
            return f'<c r="{name}"><f>{value[1:]}</f><v></v></c>'
        if isinstance(value, str):
            return f'<c r="{name}" s="{style}" t="s"><v>{texts.index(value)}</v></c>'
        return f'<c r="{name}" s="{style}"><v>{value}</v></c>'

    def row_of(number: int, row: Sequence[Value]) -> str:
        cells = (cell_of(f"{chr(65 + i)}{number}", value) for i, value in enumerate(row) if value is not None)
        return f'<row r="{number}">{"".join(cells)}</row>' if row else ""

    spans = "".join(f'<mergeCell ref="{span}"/>' for span in merged)
    names = "".join(f'<sheet name="{name}" sheetId="{i}" r:id="r{i}"/>' for i, name in enumerate(sheets, 1))
    files = [(f"r{i}", "", f"worksheets/s{i}.xml") for i in range(1, len(sheets) + 1)]
    strings = "".join(f"<si><t>{text}</t></si>" for text in texts)
    parts = {
        "xl/workbook.xml": f'<workbook xmlns="{_SHEET}" xmlns:r="{_IDS}"><sheets>{names}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": relations(*files),
        "xl/sharedStrings.xml": f'<sst xmlns="{_SHEET}">{strings}</sst>',
        "xl/styles.xml": _STYLES,
    }
    for (_, _, name), rows in zip(files, sheets.values(), strict=True):
        data = "".join(row_of(number, row) for number, row in enumerate(rows, 1))
        more = f"<mergeCells>{spans}</mergeCells>" if name == files[0][2] else ""
        parts[f"xl/{name}"] = f'{head}<worksheet xmlns="{_SHEET}"><sheetData>{data}</sheetData>{more}</worksheet>'
    return write_zip(path, parts)


def pptx(path: Path, slides: Sequence[tuple[str, str]], *, notes: str = "") -> Path:
    """A PPTX of slides, each a title ("" for none) and the XML of further shapes, stored under numbers in reverse;
    ``notes`` are those of the first."""
    files = [f"slide{i}.xml" for i in range(len(slides), 0, -1)]
    entries = "".join(f'<p:sldId r:id="{name}"/>' for name in files)
    parts = {
        "ppt/presentation.xml": (
            f'<p:presentation xmlns:p="{_SLIDE}" xmlns:r="{_IDS}"><p:sldIdLst>{entries}</p:sldIdLst></p:presentation>'
        ),
        "ppt/_rels/presentation.xml.rels": relations(*((name, "", f"slides/{name}") for name in sorted(files))),
        f"ppt/slides/_rels/{files[0]}.rels": relations(("n", "", "../notesSlides/notesSlide1.xml")),
        "ppt/notesSlides/notesSlide1.xml": _slide(shape(notes, "body") + shape("1", "sldNum")),
    }
    for name, (title, shapes) in zip(files, slides, strict=True):
        parts[f"ppt/slides/{name}"] = _slide((shape(title, "title") if title else "") + shapes)
    return write_zip(path, parts)


def shape(text: str, kind: str = "") -> str:
    """A shape with a paragraph for each line; ``kind`` is that of its placeholder."""
    placeholder = f'<p:ph type="{kind}"/>' if kind else ""
    return f"<p:sp><p:nvSpPr><p:nvPr>{placeholder}</p:nvPr></p:nvSpPr><p:txBody>{_paragraphs(text)}</p:txBody></p:sp>"


def slide_table(*rows: Sequence[str]) -> str:
    """A table of a slide, whose first row is its header."""
    cells = [[f"<a:tc><a:txBody>{_paragraphs(cell)}</a:txBody></a:tc>" for cell in row] for row in rows]
    lines = "".join(f"<a:tr>{''.join(row)}</a:tr>" for row in cells)
    return f'<p:graphicFrame><a:tbl><a:tblPr firstRow="1"/>{lines}</a:tbl></p:graphicFrame>'


def _paragraphs(text: str) -> str:
    return "".join(f"<a:p><a:r><a:t>{line}</a:t></a:r></a:p>" for line in text.split("\n"))


def _slide(shapes: str) -> str:
    return f'<p:sld xmlns:p="{_SLIDE}" xmlns:a="{_DRAWING}"><p:cSld><p:spTree>{shapes}</p:spTree></p:cSld></p:sld>'
