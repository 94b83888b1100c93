"""Cells of tables, found by their row and column."""

from __future__ import annotations

import pytest

from polyhop.lm.pocket.reading.answer import solve
from polyhop.lm.pocket.reading.cells import find_cell
from polyhop.lm.pocket.reading.passage import parse_passage
from polyhop.lm.pocket.reading.question import parse_question
from polyhop.types import Passage

FLEET = Passage(
    "fleet",
    "Our boats",
    "Boat: Heron; Built: 1998; Master: Ida Kuhn; Seats: 42; Home: Ostwik.\n"
    "Boat: Wren; Built: 2004; Master: Tom Reed; Seats: 60; Home: Larn.\n"
    "All boats are washed on Fridays. Notes: the Wren leaks.",
)
ROTA = Passage(
    "rota", "On call", "Week: 11; First: Ann Lee; Second: Tom Reed.\nWeek: 12; First: Ida Kuhn; Second: Ann Lee."
)
CUPS = Passage("cups", "Cafés", "cafe: Old Mill; cups_day: 285; no: 22.\ncafe: Library; cups_day: 190; no: 31.")
PAGES = [parse_passage(FLEET), parse_passage(ROTA)]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Who is the master of the Wren?", "Tom Reed"),
        ("How many seats has the Heron?", "42"),
        ("What is the home of the Heron?", "Ostwik"),
        ("Who is second in week 12?", "Ann Lee"),
        ("first in week 11", "Ann Lee"),
    ],
)
def test_a_cell_is_found_by_its_row_and_column(question: str, answer: str) -> None:
    assert solve(question, PAGES).answer == answer
    assert solve(question, PAGES[::-1]).complete


@pytest.mark.parametrize(
    "question",
    [
        "Who painted the Wren?",  # no such column
        "Who is the master of the Swift?",  # no such row
        "Who is the master of the Wren now?",  # the table may be old
        "When are all boats washed?",  # a sentence
    ],
)
def test_no_cell_is_taken_for_another(question: str) -> None:
    assert find_cell(parse_question(question), PAGES) is None


def test_the_words_of_a_column_may_be_joined_by_underscores() -> None:
    page = [parse_passage(CUPS)]
    assert solve("How many cups does the Old Mill sell?", page).answer == "285"
    assert solve("Which sells fewer cups, the Old Mill or the Library?", page).answer == "Library"


def test_prose_with_colons_is_no_table() -> None:
    page = parse_passage(Passage("t", "Ticket", "State: closed. Reported by: Ann Lee; she rang twice. Next: nothing"))
    assert find_cell(parse_question("Who reported it?"), [page]) is None


def test_a_cell_is_no_reason() -> None:
    assert find_cell(parse_question("Why is the master of the Wren late?"), PAGES) is None
