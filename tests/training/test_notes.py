"""Notes in two versions: their form, their faults, and the examples made of them and of sets' yes-or-no questions."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from training.claims import of_documents, of_note
from training.notes import Note, faults, main, notes, read_notes
from training.sets import HELD_OUT

from tests.training.test_sets import SET
from tests.training.test_single import QUESTIONS

NOTE = """# Pool
> Open Tuesday to Sunday from 7 to 20.
> Towels cost 2 euros.
< Open every day from 9 to 20.
-+ Can I swim on a Monday?
+? Are towels to be had?
= When does it open? :: 7 :: 9
= What does a towel cost? :: 2 euros ::
"""


def read(folder: Path, text: str = NOTE) -> list[Note]:
    file = folder / "a.txt"
    file.write_text(text, encoding="utf-8")
    return list(read_notes(file))


def test_a_note_has_two_versions_and_answers_by_each(tmp_path: Path) -> None:
    (note,) = read(tmp_path)
    assert note.texts == ("Open Tuesday to Sunday from 7 to 20.\nTowels cost 2 euros.", "Open every day from 9 to 20.")
    assert [asked.answers for asked in note.questions] == [
        ("no", "yes"), ("yes", "none"), ("7", "9"), ("2 euros", "none"),
    ]  # fmt: skip
    assert not list(faults(note))


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (":: 7 :: 9", ":: 8 :: 9", "'8' is not in its version"),
        ("When does it open?", "Does it open at 7 or 9?", "holds its answer"),
        ("< Open every day from 9 to 20.\n", "", "two versions"),
    ],
)
def test_faults_are_named(tmp_path: Path, old: str, new: str, fault: str) -> None:
    (note,) = read(tmp_path, NOTE.replace(old, new))
    assert any(fault in found for found in faults(note))


@pytest.mark.parametrize(
    ("text", "where"), [("> too early\n", "a.txt:1"), (NOTE + "+ Is one mark too few?\n", "a.txt:9")]
)
def test_a_line_without_meaning_is_named_with_its_number(tmp_path: Path, text: str, where: str) -> None:
    with pytest.raises(ValueError, match=where):
        read(tmp_path, text)


def test_each_version_makes_an_example_of_each_question(tmp_path: Path) -> None:
    (note,) = read(tmp_path)
    made = [(example.source, example.kind, example.enough) for example in of_note(note)]
    assert made == [
        ("note_claim", "no", 1), ("note_claim", "yes", 1), ("note_claim", "yes", 1), ("note_claim_open", "none", 0),
        ("note", "span", 1), ("note", "span", 1), ("note", "span", 1), ("note_open", "none", 0),
    ]  # fmt: skip
    for example in of_note(note):
        ((title, text),) = example.passages
        assert title == "Pool"
        assert all(text[start:end] in ("7", "9", "2 euros") for _, start, end in example.spans)


def test_questions_of_documents_are_read_over_the_sentences_that_decide_them(tmp_path: Path) -> None:
    for domain in ("company", HELD_OUT[0]):
        (tmp_path / domain).mkdir()
        text = f"{SET.rstrip()}\n{QUESTIONS}".replace("Tomas work", f"Tomas ({domain}) work")
        (tmp_path / domain / "ledger.txt").write_text(text, encoding="utf-8")
    made = [example for example in of_documents(tmp_path, random.Random(0)) if example.source == "claim"]
    assert [(example.question, example.kind) for example in made] == [("Does Tomas (company) work in Oslo?", "no")]
    assert "works from Malmö" in made[0].passages[0][1]


@pytest.mark.slow
def test_all_notes_are_well_formed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0, capsys.readouterr().out
    found = list(notes())
    marks = [answer for note in found for asked in note.questions if asked.yes_or_no for answer in asked.answers]
    for answer in ("yes", "no"):
        assert 0.3 < marks.count(answer) / len(marks) < 0.5
