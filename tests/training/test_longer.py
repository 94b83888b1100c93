"""Sets of longer documents: the kinds of examples that are made of them, and earlier ones mixed in."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from training.data import Example, read, write
from training.facts import SetOf
from training.sets import HELD_OUT, Question, Step

from training import longer

SET = """\
=== keys.md
The key of the boathouse was found by Ann Lee on Monday, not on Friday. Tom Reed had lost it in March.
=== staff.md
Ann Lee is a carpenter in Larn. Tom Reed is a cook in Ostwik, where the kitchen opens at 6.30.
=== questions
? Who came upon what opens the boathouse?
kind: one
= Ann Lee
- keys.md :: found by Ann Lee on Monday
? Has the kitchen opened by seven?
kind: boolean
= yes
- staff.md :: the kitchen opens at 6.30
? Who made the key?
kind: unanswerable
=
- keys.md :: Tom Reed had lost it in March.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for domain in ("office", HELD_OUT[0]):
        (tmp_path / "longer" / domain).mkdir(parents=True)
        (tmp_path / "longer" / domain / "boats.txt").write_text(SET, encoding="utf-8")
    return tmp_path / "longer"


def test_every_question_is_read_alone_and_in_between_and_its_answers_are_judged(folder: Path) -> None:
    made = list(longer.longer(folder, random.Random(0)))
    sources = {each.source for each in made}
    assert sources >= {"single", "single_boolean", "single_unanswerable", "everyday", "claim", "verified"}
    right = [each for each in made if each.source == "verified" and each.kind == "yes"]
    assert [each.question for each in right] == ["Is it Ann Lee? Who came upon what opens the boathouse?"]


def test_questions_as_people_ask_are_read_over_passages_that_compete(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(longer, "PHRASED", 1.0)
    step = Step("keys.md", "found by Ann Lee", "who came upon the key", "Ann Lee")
    asked = [Question("who came upon the key", "one", ("Ann Lee",), (step,))]
    about = {SetOf(domain, "boats"): asked for domain in ("office", HELD_OUT[0])}
    made = list(longer.phrased(folder, about, random.Random(0)))
    assert {each.group for each in made} == {"office/boats: who came upon the key"}
    assert [each.kind for each in made] == ["span"]  # the other passage names her, too


def test_the_examples_are_mixed_with_earlier_ones(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(longer, "FOLDER", folder)
    monkeypatch.setattr(longer, "PHRASED", 0.0)
    earlier, out = folder / "earlier.jsonl", folder / "out.jsonl"
    write([Example("old", f"What is {number}?") for number in range(9)], earlier)
    monkeypatch.setattr(sys, "argv", ["longer", str(out), "--replay", str(earlier), "--earlier", "2"])
    longer.main()
    sources = [each.source for each in read(out)]
    assert sources.count("old") == 2
    assert len(sources) > 2
