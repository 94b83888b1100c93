"""The document sets that training reads: their form, and that each is whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from training.sets import (
    FOLDER,
    HELD_OUT,
    INDEPENDENT,
    KINDS,
    UNSEEN,
    DocumentSet,
    descriptions,
    faults,
    read_set,
    sets,
    together,
    with_questions,
)

SET = """\
=== teams/ledger.md
# Ledger
The team is led by
Tomas Lindqvist.
=== people/tomas.md
Tomas Lindqvist works from Malmö.
=== questions
? Where does [the lead of the Ledger team] work?
kind: bridge
= Malmö | Malmö, Sweden
- teams/ledger.md :: led by Tomas Lindqvist :: Who leads the Ledger team? :: Tomas Lindqvist
- people/tomas.md :: works from Malmö :: Where does Tomas Lindqvist work? :: Malmö
? What is the Ledger team's budget?
kind: unanswerable
=
- teams/ledger.md :: The team is led by
"""


def a_set(tmp_path: Path, text: str = SET) -> DocumentSet:
    file = tmp_path / "company" / "ledger.txt"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return read_set(file)


def test_a_set_is_read(tmp_path: Path) -> None:
    held = a_set(tmp_path)
    assert (held.domain, held.name) == ("company", "ledger")
    assert held.documents["people/tomas.md"] == "Tomas Lindqvist works from Malmö.\n"
    asked, unknown = held.questions
    assert asked.text == "Where does the lead of the Ledger team work?"
    assert asked.answers == ("Malmö", "Malmö, Sweden")
    assert [step.answer for step in asked.steps] == ["Tomas Lindqvist", "Malmö"]
    assert (unknown.kind, unknown.answers) == ("unanswerable", ())
    assert list(faults(held)) == []


def test_a_single_step_may_leave_out_what_its_question_says(tmp_path: Path) -> None:
    added = "? Where does Tomas work?\nkind: one\n= Malmö | Malmö, Sweden\n- people/tomas.md :: works from Malmö\n"
    (step,) = a_set(tmp_path, SET + added).questions[-1].steps
    assert (step.question, step.answer) == ("Where does Tomas work?", "Malmö")


@pytest.mark.parametrize(
    ("wrong", "instead", "fault"),
    [
        ("works from Malmö ::", "lives in Malmö ::", "does not hold 'lives in Malmö'"),
        ("kind: bridge", "kind: odd", "kind 'odd' is none of"),
        ("= Malmö | Malmö, Sweden", "=", "exactly the unanswerable questions have no answer"),
        ("= Malmö | Malmö, Sweden", "= Bergen", "the last step's answer is 'Malmö'"),
        ("? Where does [the lead of the Ledger team] work?", "? Does the lead work in Malmö?", "holds its answer"),
        ("the Ledger team's budget", "[the Ledger team]'s budget", "brackets mark what a bridge describes"),
        ("[the lead of the Ledger team]", "Tomas Lindqvist of the Ledger team", "names 'Tomas Lindqvist'"),
        (":: Malmö\n?", ":: Lund\n?", "'Lund' is not in the quotation"),
    ],
)
def test_a_fault_is_named(wrong: str, instead: str, fault: str, tmp_path: Path) -> None:
    assert wrong in SET
    assert any(fault in each for each in faults(a_set(tmp_path, SET.replace(wrong, instead, 1))))


def test_a_description_is_marked_with_the_step_that_finds_it(tmp_path: Path) -> None:
    (asked, _) = a_set(tmp_path).questions
    ((described, step),) = descriptions(asked)
    assert (described.text, step.answer) == ("the lead of the Ledger team", "Tomas Lindqvist")
    assert described.about(step.answer) == "Where does Tomas Lindqvist work?"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello\n=== a.md\n", "ledger.txt:1: text before the first"),
        ("=== a.md\n=== a.md\n", "ledger.txt:2: a.md stands here twice"),
        ("=== questions\n? Who?\nwhat\n", "ledger.txt:3: neither"),
        ("=== questions\n? Who?\n- a.md :: b :: c\n", "ledger.txt:3: a step is"),
    ],
)
def test_a_malformed_line_is_named(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        a_set(tmp_path, text)


@pytest.mark.slow
@pytest.mark.parametrize("folder", [FOLDER, INDEPENDENT])
def test_the_sets_are_whole(folder: Path) -> None:
    found = list(sets(folder))
    assert found
    assert [fault for held in found for fault in faults(held)] == []
    for held in found:
        assert {asked.kind for asked in held.questions} <= set(KINDS)
        assert any(asked.kind == "bridge" for asked in held.questions)


@pytest.mark.slow
def test_unseen_questions_are_about_every_set_that_is_held_out() -> None:
    held_out = [with_questions(held, UNSEEN) for held in sets(FOLDER) if held.domain in HELD_OUT]
    assert sum(len(held.questions) for held in held_out) == 300
    assert [fault for held in held_out for fault in faults(held)] == []
    asked = {question.text for held in sets(FOLDER) for question in held.questions}
    assert not asked & {question.text for held in held_out for question in held.questions}


def test_sets_together_are_one_with_the_documents_and_questions_of_all(tmp_path: Path) -> None:
    (tmp_path / "office").mkdir()
    for name in ("first", "second"):
        (tmp_path / "office" / f"{name}.txt").write_text(SET, encoding="utf-8")
    held = [read_set(tmp_path / "office" / f"{name}.txt") for name in ("first", "second")]
    made = together(held)
    assert made.domain == "office"
    assert set(made.documents) == {f"{each.name}/{path}" for each in held for path in each.documents}
    assert [asked.text for asked in made.questions] == [asked.text for each in held for asked in each.questions]
    assert all(step.path in made.documents for asked in made.questions for step in asked.steps)
