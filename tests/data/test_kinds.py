"""Kinds of documents, from a file to its passages: spreadsheets, presentations, tables, mail, notebooks and code."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Sequence
from email.message import EmailMessage
from pathlib import Path

import pytest

from polyhop.data.converting.converter import Converter
from polyhop.data.corpora import open_corpus
from polyhop.errors import DataError
from tests.kit.documents import docx, word_table, write_zip
from tests.kit.office import Sheets, Value, pptx, shape, slide_table, xlsx

ENTITIES = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'


@pytest.fixture
def converting() -> Iterator[Converter]:
    with Converter() as each:
        yield each


def read(path: Path) -> list[tuple[str, str]]:
    return [(p.title, p.text) for p in open_corpus(path)]


def test_a_spreadsheet_is_read_sheet_by_sheet(tmp_path: Path) -> None:
    pumps: Sequence[Sequence[Value]] = [
        ["Pumps in use"],
        ["Name", "Bar", "Since", "Load", "Site"],
        ["P1", 3.5, 45365, 0.25, "Oslo"],
        ["P2", 0.30000000000000004, 45365.75, 1, None],
        [],
        ["Owner", "Ann &amp; Bo"],
    ]
    sheets: Sheets = {"Pumps": pumps, "Staff": [[None, "Who", "Role", "Room"], [None, "Ann", "Lead", 12]]}
    path = xlsx(
        tmp_path / "plant.xlsx",
        sheets,
        merged=["E3:E4", "A1:E1"],
        styles={"C3": 1, "C4": 1, "D3": 2, "D4": 2},
    )
    assert read(path) == [
        (
            "plant › Pumps",
            "Pumps in use.\nName: P1; Bar: 3.5; Since: 2024-03-14; Load: 25%; Site: Oslo.\n"
            "Name: P2; Bar: 0.3; Since: 2024-03-14 18:00; Load: 100%; Site: Oslo.\nOwner: Ann & Bo",
        ),
        ("plant › Staff", "Who: Ann; Role: Lead; Room: 12"),
    ]


@pytest.mark.parametrize(
    ("bold", "text"),
    [
        ("A1 B1", "Product: Otter; Owner: Ann.\nProduct: Stoat; Owner: Bo"),
        ("A1 B1 A2 A3", "Product: Otter; Owner: Ann.\nProduct: Stoat; Owner: Bo"),
        ("A1 A2 A3", "Product: Owner.\nOtter: Ann.\nStoat: Bo"),
        ("A1 B1 A2 B2 A3 B3", "Product: Owner.\nOtter: Ann.\nStoat: Bo"),
    ],
    ids=["the first row", "row and column", "the first column", "everything"],
)
def test_a_first_row_of_a_sheet_in_bold_names_its_columns(tmp_path: Path, bold: str, text: str) -> None:
    rows: Sequence[Sequence[Value]] = [["Product", "Owner"], ["Otter", "Ann"], ["Stoat", "Bo"]]
    path = xlsx(tmp_path / "a.xlsx", {"S": rows}, styles=dict.fromkeys(bold.split(), 3))
    assert read(path) == [("a › S", text)]


def test_a_formula_whose_value_was_not_saved_is_shown(tmp_path: Path) -> None:
    """As programs write it that calculate nothing; the columns keep their names."""
    rows: Sequence[Sequence[Value]] = [["Invoice", "Net", "Total"], ["R-1", 100, "=B2*1.19"], ["R-2", 50, "=B3*1.19"]]
    assert read(xlsx(tmp_path / "paid.xlsx", {"May": rows})) == [
        ("paid › May", "Invoice: R-1; Net: 100; Total: =B2*1.19.\nInvoice: R-2; Net: 50; Total: =B3*1.19")
    ]


def test_a_presentation_is_read_slide_by_slide_with_its_notes(tmp_path: Path) -> None:
    staff = slide_table(["Name", "Role"], ["Ann", "Lead"], ["Bo", "Pilot"])
    slides = [("The plant", shape("Opened in 1998\nIn Oslo")), ("Staff", staff), ("", shape("Thank you."))]
    path = pptx(tmp_path / "talk.pptx", slides, notes="Speak slowly.")
    found = [(p.title, p.text, p.metadata["page"]) for p in open_corpus(path)]
    assert found == [
        ("The plant", "Opened in 1998.\nIn Oslo.\nSpeak slowly.", 1),
        ("The plant › Staff", "Name: Ann; Role: Lead.\nName: Bo; Role: Pilot", 2),
        ("The plant › Slide 3", "Thank you.", 3),
    ]


def message(subject: str, text: str, *, html: bool = False) -> EmailMessage:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Date"] = (
        "Ann Lee <ann@example.org>",
        "bo@example.org",
        "Mon, 4 May 2020 10:00:00 +0000",
    )
    mail["Subject"] = subject
    mail.set_content(text, subtype="html" if html else "plain", charset="iso-8859-1")
    return mail


def test_a_message_has_its_headers_its_text_and_the_names_of_its_attachments(tmp_path: Path) -> None:
    mail = message("Café opening", "The café opens\nin May.\n\nAnn Lee\nOslo 12")
    mail.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="plan.pdf")
    (tmp_path / "a.eml").write_bytes(mail.as_bytes())
    headers = "From: Ann Lee <ann@example.org>; To: bo@example.org; Date: Mon, 04 May 2020 10:00:00 +0000"
    assert read(tmp_path / "a.eml") == [
        (
            "Café opening",
            f"{headers}; Subject: Café opening.\nThe café opens in May.\nAnn Lee.\nOslo 12.\nAttachments: plan.pdf",
        )
    ]


def test_a_mailbox_is_read_message_by_message_also_in_html(tmp_path: Path) -> None:
    mails = [
        message("One", "First.\n>From now on."),
        message("Two", "<p>Second.<script>x</script><p>Third.", html=True),
    ]
    (tmp_path / "old.mbox").write_bytes(b"".join(b"From a@b Mon May  4\n" + mail.as_bytes() + b"\n" for mail in mails))
    first, second = read(tmp_path / "old.mbox")
    assert (first[0], first[1].split("\n")[1:]) == ("old › One", ["First.", "From now on."])
    assert (second[0], second[1].split("\n")[1:]) == ("old › Two", ["Second.", "Third."])


@pytest.mark.parametrize("sender", [":;;@,", "=?utf-8?b??=>])<.>>", " @ @,a@[\t", "(x).xa) @"])
def test_a_malformed_header_is_kept_as_it_is(tmp_path: Path, sender: str) -> None:
    (tmp_path / "a.eml").write_text(f"From: {sender}\nSubject: Rain\n\nIt rains.")
    ((title, text),) = read(tmp_path / "a.eml")
    assert (title, text.split("\n")[1]) == ("Rain", "It rains.")
    assert text.startswith("From: ")


def test_a_notebook_has_its_text_and_its_code_but_no_output(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Tides\n", "They *rise*."]},
        {"cell_type": "code", "source": "def f(x):\n    return x\n", "outputs": [{"text": "secret"}]},
        {"cell_type": "markdown", "source": "## Data\n| a | b |\n|---|---|\n| 1 | 2 |"},
    ]
    (tmp_path / "a.ipynb").write_text(json.dumps({"nbformat": 4, "cells": cells}))
    assert read(tmp_path / "a.ipynb") == [
        ("Tides", "They rise.\ndef f(x):\n    return x"),
        ("Tides › Data", "a: 1; b: 2"),
    ]


def test_source_code_is_titled_by_its_path_and_cut_between_lines(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    lines = [f"    value_{i} = compute(the, value, of, number, {i})" for i in range(60)]
    (tmp_path / "src" / "Run.PY").write_text("\n".join(["def run():", "", *lines]))
    passages = list(open_corpus(tmp_path))
    assert {p.title for p in passages} == {"src/Run.PY"}
    assert len(passages) > 1
    kept = [line.strip() for p in passages for line in p.text.split("\n")]
    assert kept == ["def run():", *map(str.strip, lines)]


def test_a_table_of_values_is_a_document_but_one_with_texts_is_a_corpus(tmp_path: Path) -> None:
    (tmp_path / "pumps.csv").write_text("Name,Bar,Site\nP1,3,Oslo\n")
    (tmp_path / "passages.tsv").write_text("id\ttext\ttitle\n7\tP1 is a pump.\tP1\n")
    assert read(tmp_path / "pumps.csv") == [("pumps", "Name: P1; Bar: 3; Site: Oslo")]
    assert [(p.id, p.title, p.text) for p in open_corpus(tmp_path / "passages.tsv")] == [("7", "P1", "P1 is a pump.")]
    assert read(tmp_path)[0] == ("passages", "id: 7; text: P1 is a pump.; title: P1")


@pytest.mark.extra
def test_a_table_of_word_is_read_row_by_row(tmp_path: Path) -> None:
    pytest.importorskip("mammoth")
    table = word_table(["Name", "Role", "Room"], ["Ann", "Lead", "12"])
    path = docx(tmp_path / "a.docx", [("Heading1", "Rooms"), ("", "Two."), ("Heading1", "Staff")], table=table)
    assert read(path) == [("Rooms", "Two."), ("Staff", "Name: Ann; Role: Lead; Room: 12")]


@pytest.mark.extra
@pytest.mark.parametrize(
    ("form", "row_form", "is_header"),
    [
        ('<w:tblStyle w:val="Grid"/><w:tblLook w:firstRow="1" w:val="04A0"/>', "", True),
        ('<w:tblStyle w:val="Blue"/><w:tblLook w:val="04A0"/>', "<w:trPr><w:trHeight/></w:trPr>", True),
        ('<w:tblStyle w:val="Blue"/><w:tblLook w:firstRow="0" w:val="0480"/>', "", False),
        ('<w:tblStyle w:val="Plain"/><w:tblLook w:firstRow="1" w:val="04A0"/>', "", False),
        ('<w:tblLook w:firstRow="1" w:val="04A0"/>', "", False),
        ("", "<w:trPr><w:tblHeader/></w:trPr>", True),
    ],
    ids=["style", "base of the style", "switched off", "style without", "no style", "repeated on each page"],
)
def test_the_header_row_of_a_table_of_word_names_its_columns(
    tmp_path: Path, form: str, row_form: str, is_header: bool
) -> None:
    pytest.importorskip("mammoth")
    table = word_table(["Product", "Owner"], ["Otter", "Ann"], ["Stoat", "Bo"], form=form, row_form=row_form)
    ((_, text),) = read(docx(tmp_path / "a.docx", [("Heading1", "Staff")], table=table))
    assert text == (
        "Product: Otter; Owner: Ann.\nProduct: Stoat; Owner: Bo" if is_header
        else "Product: Owner.\nOtter: Ann.\nStoat: Bo"
    )  # fmt: skip


def replace_in(path: Path, part: str, old: str, new: str) -> None:
    """Replace a text in a part of a packed document."""
    with zipfile.ZipFile(path) as opened:
        parts = {name: opened.read(name) for name in opened.namelist()}
    assert old.encode() in parts[part]
    write_zip(path, {**parts, part: parts[part].replace(old.encode(), new.encode())})


def test_hostile_office_documents_are_faults(tmp_path: Path, converting: Converter) -> None:
    rows: Sheets = {"S": [["Name", "Bar"], ["P1", 3]]}
    faults = {
        xlsx(tmp_path / "entities.xlsx", rows, head=ENTITIES): "it defines XML entities",
        write_zip(tmp_path / "other.xlsx", {"a": "b"}): "it holds no spreadsheet",
        write_zip(tmp_path / "other.pptx", {"a": "b"}): "it holds no presentation",
        write_zip(tmp_path / "bomb.xlsx", {"xl/workbook.xml": " " * 2**21}): "the maximum is 1,048,576",
        tmp_path / "old.xlsx": "encrypted, or in an old format",
        tmp_path / "list.ipynb": "it is no notebook",
        tmp_path / "deep.ipynb": "damaged",
        tmp_path / "quote.csv": "not a valid table: line 2",
    }
    (tmp_path / "old.xlsx").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
    (tmp_path / "list.ipynb").write_text("[1]")
    (tmp_path / "deep.ipynb").write_text("[" * 10**6)
    (tmp_path / "quote.csv").write_text('a,b\n"c" d,e\n')
    for path, why in faults.items():
        with pytest.raises(DataError, match=rf"{path.name}: .*{why}"):
            converting.blocks(path)


def test_merged_cells_and_far_columns_of_a_spreadsheet_are_bounded(tmp_path: Path, converting: Converter) -> None:
    path = xlsx(
        tmp_path / "a.xlsx", {"S": [["Name", "Bar", "Site"], ["P1", 3, "A"]]}, merged=["A1:ZZZ9999999", "B2:XFD9"]
    )
    replace_in(path, "xl/worksheets/s1.xml", '<c r="C2"', '<c r="XFD2"')
    text = " ".join(block.text for block in converting.blocks(path))
    assert len(text) < 50_000
    assert "P1" in text
