"""Tables of documents: a line for each row, with the names of the columns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.data.converting.html import html_blocks
from polyhop.data.converting.plain import markdown_blocks
from polyhop.data.converting.tables import Cell, csv_blocks, grid_blocks, table_blocks
from polyhop.data.documents import passages_of

MARKDOWN = """# Suppliers

## Batteries

| Company   | Supplies               | Based in      |
|-----------|------------------------|---------------|
| Lumacell  | **alkaline** batteries | Graz, Austria |
| Voltkraft |                        | [Linz](l.md)  |
"""


def rows_of(markup: str) -> list[str]:
    return [block.text for block in html_blocks(markup)]


def test_a_markdown_table_becomes_a_line_for_each_row_below_its_heading() -> None:
    (passage,) = passages_of(markdown_blocks(MARKDOWN), "suppliers.md")
    assert passage.title == "Suppliers › Batteries"
    assert passage.text == (
        "Company: Lumacell; Supplies: alkaline batteries; Based in: Graz, Austria.\nCompany: Voltkraft; Based in: Linz"
    )


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        ("<tr><th>Name<th>Bar<tr><td>P1<td>3", ["Name: P1; Bar: 3"]),
        ("<thead><tr><td>Name<td>Bar<tbody><tr><td>P1<td>3", ["Name: P1; Bar: 3"]),
        ("<tr><td><b>Name</b><td><strong>Bar</strong><tr><td>P1<td>3", ["Name: P1; Bar: 3"]),
        ("<tr><td>Name<td>Bar<td>Site<tr><td>P1<td>3<td>A", ["Name: P1; Bar: 3; Site: A"]),
        ("<tr><td>P1<td>3<td>A<tr><td>P2<td>4<td>B", ["P1; 3; A", "P2; 4; B"]),
        ("<tr><td>Team<td>2022<td>2023<tr><td>Wren<td>5<td>6", ["Team: Wren; 2022: 5; 2023: 6"]),
        ("<tr><td>Ada<td>1815<td>1852<tr><td>Alan<td>1912<td>1954", ["Ada; 1815; 1852", "Alan; 1912; 1954"]),
        ("<tr><td>Founded<td>1987<td>Graz<tr><td>Staff<td>40<td>May", ["Founded; 1987; Graz", "Staff; 40; May"]),
        ("<tr><th>Date:<td>4 May<tr><th>Place<td>Oslo", ["Date: 4 May", "Place: Oslo"]),
        ("<tr><th>Pump<td>P1<td>P2<tr><th>Bar<td>3<td>4", ["Pump: P1; P2", "Bar: 3; 4"]),
        ("<tr><th><th>2023<th>2024<tr><th>Oslo<td>5<td>6", ["Oslo; 2023: 5; 2024: 6"]),
        ("<tr><th rowspan=2>City<th colspan=2>Staff<tr><th>Old<th>New<tr><td>Oslo<td>5<td>6",
         ["City: Oslo; Staff Old: 5; Staff New: 6"]),
        ("<tr><th>A<th>B<tr><td rowspan=2>x<td>1<tr><td>2", ["A: x; B: 1", "A: x; B: 2"]),
        ("<tr><th>A<th>B<th>C<tr><td>x<td colspan=2>1", ["A: x; B: 1; C: 1"]),
        ("<tr><th>A<th>B<tr><td colspan=2>North<tr><td>x<td>1", ["North", "North; A: x; B: 1"]),
        ("<caption>Pumps</caption><tr><th>A<th>B<tr><td><p>x</p><p>y</p><td><ul><li>1<li>2</ul>", ["Pumps", "A: x, y; B: 1, 2"]),  # noqa: E501
        ("<tr><td>menu<td><h2>News</h2>Text.<tr><td>foot", ["menu", "News", "Text.", "foot"]),
        ("<tr><td>left<td><table><tr><th>a<th>b<tr><td>1<td>2</table>", ["left", "a: 1; b: 2"]),
        ("<tr><td>1 2<td><pre>a\n  b</pre>", ["1 2", "a", "  b"]),
    ],
)  # fmt: skip
def test_the_rows_of_an_html_table_name_their_columns(table: str, rows: list[str]) -> None:
    assert rows_of(f"<table>{table}</table>") == rows
    assert rows_of(f"<table>{table}") == rows


def test_a_long_table_is_split_between_rows_and_repeats_its_caption() -> None:
    rows = [
        [Cell("Pump"), Cell("Site"), Cell("Note")],
        *([Cell(f"P{i}"), Cell("A"), Cell("is good")] for i in range(60)),
    ]
    passages = list(passages_of(table_blocks(rows, caption="All pumps"), "a.html"))
    assert len(passages) > 2
    lines = [line.rstrip(".") for p in passages for line in p.text.split("\n")]
    assert all(p.text.startswith("All pumps.\n" if p is passages[0] else "All pumps\n") for p in passages)
    assert [line for line in lines if line != "All pumps"] == [f"Pump: P{i}; Site: A; Note: is good" for i in range(60)]


def test_a_row_longer_than_a_passage_is_cut_and_repeats_its_first_cell() -> None:
    report = " ".join(f"Sentence number {i} of the report is here." for i in range(40))
    for rows, first in (([["Id", "Report"], ["T7", report]], "Id: T7; Report: "), ([["T7", report]], "T7: ")):
        table = [[Cell(text, is_header=i == 0 and len(rows) > 1) for text in row] for i, row in enumerate(rows)]
        lines = [block.text for block in table_blocks(table)]
        assert len(lines) > 1
        assert all(line.startswith(first) for line in lines)
        assert " ".join(line.removeprefix(first) for line in lines) == report


def test_a_sheet_is_split_at_blank_rows() -> None:
    grid = [["Pumps"], ["Name", "Bar", "Site"], ["P1", "3", "A"], ["", "", ""], ["Owner", "Ann"], [], ["Seen in May"]]
    assert [(b.text, b.kind, b.caption) for b in grid_blocks([Cell(text) for text in row] for row in grid)] == [
        ("Pumps", "text", ""),
        ("Name: P1; Bar: 3; Site: A", "row", "Pumps"),
        ("Owner: Ann", "row", ""),
        ("Seen in May", "text", ""),
    ]


@pytest.mark.parametrize(
    ("grid", "rows"),
    [
        (
            ["Name|Bar|Site||Mean", "P1|3|A||4", "P2|5|B"],
            ["Name: P1; Bar: 3; Site: A", "Name: P2; Bar: 5; Site: B", "Mean: 4"],
        ),
        (
            ["Name|Bar|Site||Owner|Room|Since", "P1|3|A||Ann|7|May", "||||Bo|9|June"],
            ["Name: P1; Bar: 3; Site: A", "Owner: Ann; Room: 7; Since: May", "Owner: Bo; Room: 9; Since: June"],
        ),
        (["Name|Bar||Site", "P1|3||A", "P2|5||B"], ["Name: P1; Bar: 3; Site: A", "Name: P2; Bar: 5; Site: B"]),
        (
            ["|Name|Bar|Site||Note", "|P1|3|A", "|P2|5|B||leaks"],
            ["Name: P1; Bar: 3; Site: A", "Name: P2; Bar: 5; Site: B; Note: leaks"],
        ),
        (["Owner||Ann", "Room||7"], ["Owner: Ann", "Room: 7"]),
    ],
    ids=["a sum beside a list", "two lists", "a column apart", "few notes", "a form"],
)
def test_a_blank_column_of_a_sheet_ends_a_table_if_other_rows_follow(grid: list[str], rows: list[str]) -> None:
    blocks = grid_blocks([Cell(text) for text in line.split("|")] for line in grid)
    assert [block.text for block in blocks] == rows


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ('Name,Bar\nP1,3\n"P2, new","4\n5"\n', ["Name: P1; Bar: 3", "Name: P2, new; Bar: 4 5"]),
        ("Name;Bar\r\nP1;3,5\r\n", ["Name: P1; Bar: 3,5"]),
        ("Name\tBar\nP1\t3\t4\n", ["Name: P1; Bar: 3; 4"]),
        ("P1,3\nP2,4\n", ["P1: 3", "P2: 4"]),
        ("Team,2022,2023/24\nWren,5,6\n", ["Team: Wren; 2022: 5; 2023/24: 6"]),
        ("Founded,1987\nStaff,40\n", ["Founded: 1987", "Staff: 40"]),
        ("Name,Note\nP1,\n", ["Name: P1", "Note"]),
    ],
)
def test_the_rows_of_separated_values_name_their_columns(text: str, rows: list[str]) -> None:
    assert [block.text for block in csv_blocks(text)] == rows


def test_spans_beyond_a_table_are_bounded() -> None:
    wide = f"<table><tr><th>a<th>b<tr>{'<td colspan=99999 rowspan=99999>x' * 50}</table>"
    assert max(map(len, rows_of(wide))) < 10_000


words = st.text(st.characters(categories=["Ll"]), min_size=1, max_size=8)


@given(st.lists(st.lists(words, min_size=1, max_size=5), min_size=1, max_size=30), words)
def test_every_cell_stands_whole_with_its_row_in_a_passage(table: list[list[str]], caption: str) -> None:
    passages = list(passages_of(table_blocks([[Cell(text) for text in row] for row in table], caption), "a.html"))
    lines = [
        set(line.replace(";", " ").replace(":", " ").rstrip(".").split())
        for p in passages
        for line in p.text.split("\n")
    ]
    below = table[1:] if any(len(row) > 1 for row in table) else table
    assert all(any(set(row) <= line for line in lines) for row in below)
    assert set(table[0]) <= set().union(*lines)
