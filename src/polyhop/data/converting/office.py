"""Spreadsheets (XLSX) and presentations (PPTX) as blocks, read with the standard library within the limits of packed
documents: each sheet and each slide is a section."""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote
from xml.etree import ElementTree

from polyhop.data.converting import TITLE, Block
from polyhop.data.converting.packed import check_xml, open_packed, parse_xml, read_part
from polyhop.data.converting.tables import Cell, grid_blocks, table_blocks
from polyhop.errors import DataError

_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_REFERENCE = re.compile(r"([A-Z]{1,3})(\d{1,7})")
_MERGED = re.compile(rb"mergeCell ref=\"([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})\"")
_MAX_COVERED = 200_000  # cells of merged ranges, in a sheet
_EMPTY = Cell()
_MAX_GAP = 1000  # columns before a cell that are empty

_DATE_FORMATS = frozenset({*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)})
_PERCENT_FORMATS = frozenset({9, 10})
_QUOTED = re.compile(r"\"[^\"]*\"|\[[^\]]*\]|\\.")  # parts of a number's format that are no codes


class _Style(NamedTuple):
    """A style of cells: the form of a number, "date", "percent" or "", and the weight of the letters."""

    form: str = ""
    is_bold: bool = False


def xlsx_blocks(path: Path) -> Iterator[Block]:
    """Yield the name of the file and, for each sheet, its name and its tables.

    Raises:
        DataError: it is encrypted, damaged, or holds no workbook.
    """
    with open_packed(path) as archive:
        workbook = _part(archive, "xl/workbook.xml", "spreadsheet")
        targets = _targets(archive, "xl/workbook.xml")
        strings, styles = _shared_strings(archive), _styles(archive)
        from_1904 = any(entry.get("date1904") in ("1", "true") for entry in workbook.iterfind("{*}workbookPr"))
        epoch = datetime(1904, 1, 1) if from_1904 else datetime(1899, 12, 30)
        text_of = partial(_cell_text, strings=strings, epoch=epoch)
        yield Block(path.stem, TITLE)
        unread = set(archive.namelist())
        for sheet in workbook.iterfind("{*}sheets/{*}sheet"):
            target = targets.get(sheet.get(_RELATION, ""), "")
            if target in unread:
                unread.remove(target)
                yield Block(sheet.get("name", ""), 1)
                yield from grid_blocks(_grid(read_part(archive, target), styles, text_of))


def _grid(
    data: bytes, styles: Sequence[_Style], text_of: Callable[[ElementTree.Element, str], str]
) -> Iterator[list[Cell]]:
    """Yield the rows of a sheet, with an empty one where rows are missing. Bold cells are headers."""
    spans, covered = _merged(data)
    latest = 0
    for row in _elements(data, "row"):
        number = int(row.get("r") or latest + 1)
        if number > latest + 1:
            yield []
        latest, cells, column = number, list[Cell](), 0
        for element in row.iterfind("{*}c"):
            reference = _REFERENCE.fullmatch(element.get("r", ""))
            wanted = _column(reference[1]) if reference else column
            for gap in range(max(column, wanted - _MAX_GAP), wanted):
                cells += [_EMPTY] * ((number, gap) not in covered)
            column = wanted + 1
            if (number, wanted) not in covered:
                columns, rows = spans.get((number, wanted), (1, 1))
                index = int(element.get("s") or 0)
                style = styles[index] if index < len(styles) else _Style()
                cells.append(Cell(text_of(element, style.form), style.is_bold, columns, rows))
        yield cells


def _merged(data: bytes) -> tuple[dict[tuple[int, int], tuple[int, int]], set[tuple[int, int]]]:
    """Return the columns and rows that each merged cell spans, and the cells that it covers, by row and column."""
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    covered: set[tuple[int, int]] = set()
    room = _MAX_COVERED
    for left, top, right, bottom in _MERGED.findall(data):
        origin = row, column = int(top), _column(left.decode())
        columns, rows = _column(right.decode()) - column + 1, int(bottom) - row + 1
        if min(columns, rows) > 0 and columns * rows <= room:
            room -= columns * rows
            spans[origin] = columns, rows
            covered |= {(row + y, column + x) for y in range(rows) for x in range(columns)} - {origin}
    return spans, covered


def _column(letters: str) -> int:
    """Return the number of a column, from 0.

    >>> _column("A"), _column("AB")
    (0, 27)
    """
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - 64
    return number - 1


def _cell_text(element: ElementTree.Element, form: str, strings: list[str], epoch: datetime) -> str:
    kind, value = element.get("t", "n"), element.findtext("{*}v") or ""
    if kind == "inlineStr":
        return _text(element)
    if not value and (formula := element.findtext("{*}f")):  # written by a program that calculates nothing
        return f"={formula}"
    if kind == "s":
        return strings[int(value)] if value.isdecimal() and int(value) < len(strings) else ""
    if kind == "b":
        return "TRUE" if value == "1" else "FALSE"
    if kind != "n" or not value:
        return "" if kind == "e" else value
    with suppress(ValueError, OverflowError):
        number = float(value)
        if form == "date":
            return _moment(number, epoch)
        return f"{number * 100:.12g}%" if form == "percent" else f"{number:.15g}"
    return value


def _moment(days: float, epoch: datetime) -> str:
    """Return a serial number of days as a date, a time, or both.

    >>> epoch = datetime(1899, 12, 30)
    >>> _moment(45365, epoch), _moment(45365.5, epoch), _moment(0.75, epoch)
    ('2024-03-14', '2024-03-14 12:00', '18:00')
    """
    moment = epoch + timedelta(minutes=round(days * 24 * 60))
    if days < 1:
        return f"{moment:%H:%M}"
    return f"{moment:%Y-%m-%d}" if days == int(days) else f"{moment:%Y-%m-%d %H:%M}"


def _shared_strings(archive: zipfile.ZipFile) -> list[str]:
    if "xl/sharedStrings.xml" not in archive.namelist():
        return []
    return [_text(entry) for entry in _elements(read_part(archive, "xl/sharedStrings.xml"), "si")]


def _text(element: ElementTree.Element) -> str:
    """Return the text of a string, without the pronunciation of its characters."""
    runs = (run for run in element.iter() if run.tag.endswith("}t"))
    spoken = {id(run) for part in element.iterfind("{*}rPh") for run in part.iter()}
    return "".join(run.text or "" for run in runs if id(run) not in spoken)


def _styles(archive: zipfile.ZipFile) -> list[_Style]:
    if "xl/styles.xml" not in archive.namelist():
        return []
    sheet = parse_xml(read_part(archive, "xl/styles.xml"))
    codes = {entry.get("numFmtId"): entry.get("formatCode", "") for entry in sheet.iterfind(".//{*}numFmts/{*}numFmt")}
    marks = [font.find("{*}b") for font in sheet.iterfind("{*}fonts/{*}font")]
    bold = {str(i) for i, mark in enumerate(marks) if mark is not None and mark.get("val", "1") in ("1", "true")}
    found = []
    for style in sheet.iterfind("{*}cellXfs/{*}xf"):
        number = style.get("numFmtId", "0")
        code = _QUOTED.sub("", codes.get(number, "")).lower()
        is_date = int(number) in _DATE_FORMATS or any(letter in code for letter in "ydhm")
        is_percent = int(number) in _PERCENT_FORMATS or "%" in code
        form = "date" if is_date else "percent" if is_percent else ""
        found.append(_Style(form, style.get("fontId") in bold))
    return found


def _elements(data: bytes, name: str) -> Iterator[ElementTree.Element]:
    """Yield the elements of a part with this name, holding one at a time."""
    check_xml(data)
    try:
        for _, element in ElementTree.iterparse(io.BytesIO(data)):
            if element.tag.endswith(f"}}{name}"):
                yield element
                element.clear()
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise DataError(f"damaged: {error}") from error


def pptx_blocks(path: Path) -> Iterator[Block]:
    """Yield the slides of a presentation: the title, or the number, of each as a heading, its text and tables, and its
    notes. The title of the first slide is that of the presentation.

    Raises:
        DataError: it is encrypted, damaged, or holds no presentation.
    """
    with open_packed(path) as archive:
        presentation = _part(archive, "ppt/presentation.xml", "presentation")
        targets = _targets(archive, "ppt/presentation.xml")
        slides = [targets.get(entry.get(_RELATION, ""), "") for entry in presentation.iterfind("{*}sldIdLst/{*}sldId")]
        parts = set(archive.namelist())
        for number, name in enumerate((slide for slide in dict.fromkeys(slides) if slide in parts), 1):
            title, blocks = _slide(parse_xml(read_part(archive, name)), number)
            if number == 1:
                yield Block(title or path.stem, TITLE)
            yield Block(title or f"Slide {number}", 1, number)
            yield from blocks
            for target in dict.fromkeys(_targets(archive, name).values()):
                if "/notesSlide" in target and target in parts:
                    yield from _notes(parse_xml(read_part(archive, target)), number)


def _slide(slide: ElementTree.Element, page: int) -> tuple[str, list[Block]]:
    """Return the title of a slide, and its other texts and tables."""
    title, blocks = "", list[Block]()
    for shape in slide.iter():
        if shape.tag.endswith("}sp"):
            if not title and _placeholder(shape) in ("title", "ctrTitle"):
                title = " ".join(" ".join(_paragraphs(shape)).split())
            else:
                blocks += (Block(text, page=page) for text in _paragraphs(shape))
        elif shape.tag.endswith("}tbl"):
            blocks += _slide_table(shape, page)
    return title, blocks


def _slide_table(table: ElementTree.Element, page: int) -> Iterator[Block]:
    settings = table.find("{*}tblPr")
    has_header = settings is not None and settings.get("firstRow") in ("1", "true")
    rows = [
        [
            Cell(
                ", ".join(_paragraphs(cell)),
                has_header and i == 0,
                _span(cell, "gridSpan"),
                _span(cell, "rowSpan"),
                page,
            )
            for cell in row.iterfind("{*}tc")
            if cell.get("hMerge") is None and cell.get("vMerge") is None
        ]
        for i, row in enumerate(table.iterfind("{*}tr"))
    ]
    return table_blocks(rows)


def _span(cell: ElementTree.Element, name: str) -> int:
    value = cell.get(name, "1")
    return int(value) if value.isdecimal() else 1


def _notes(notes: ElementTree.Element, page: int) -> Iterator[Block]:
    for shape in notes.iter():
        if shape.tag.endswith("}sp") and _placeholder(shape) == "body":
            yield from (Block(text, page=page) for text in _paragraphs(shape))


def _placeholder(shape: ElementTree.Element) -> str:
    """Return the kind of a shape's placeholder, such as "title"; "" if it has none."""
    found = shape.find("{*}nvSpPr/{*}nvPr/{*}ph")
    return found.get("type", "") if found is not None else ""


def _paragraphs(element: ElementTree.Element) -> list[str]:
    """Return the paragraphs of a shape or a cell that are not blank."""
    texts = []
    for paragraph in element.iter():
        if paragraph.tag.endswith("}p"):
            runs = (" " if run.tag.endswith("}br") else run.text or "" for run in paragraph.iter())
            texts.append("".join(runs).strip())
    return [text for text in texts if text]


def _part(archive: zipfile.ZipFile, name: str, content: str) -> ElementTree.Element:
    if name not in archive.namelist():
        raise DataError(f"damaged: it holds no {content}")
    return parse_xml(read_part(archive, name))


def _targets(archive: zipfile.ZipFile, part: str) -> dict[str, str]:
    """Return the parts that a part refers to, by the ids of the references."""
    folder, name = posixpath.split(part)
    relations = f"{folder}/_rels/{name}.rels"
    if relations not in archive.namelist():
        return {}
    entries = parse_xml(read_part(archive, relations)).iterfind("{*}Relationship")
    paths = ((entry.get("Id", ""), unquote(entry.get("Target", ""))) for entry in entries)
    return {id: posixpath.normpath(posixpath.join(f"/{folder}", target)).lstrip("/") for id, target in paths}
