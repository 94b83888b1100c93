"""Questions beside a right or a wrong answer: what is read, and what is left out."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from training.data import Example, read, write
from training.sets import HELD_OUT, DocumentSet, Question, Step
from training.verified import Answered, answers_of

from training import phrasings, verified

FILES = {
    "keys.md": "The key of the boathouse was found by Ann Lee on Monday. Tom Reed had lost it on Friday.",
    "staff.md": "Ann Lee is a carpenter in Larn. Tom Reed is a cook in Ostwik.",
}
FOUND = Question(
    "Who found the key of the boathouse?", "one", ("Ann Lee",), (Step("keys.md", "found by Ann Lee", "", "Ann Lee"),)
)
NOT_SAID = Question("Who sold the key of the boathouse?", "unanswerable", (), ())
YES_OR_NO = Question("Was the key found?", "boolean", ("yes",), ())


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> list[Answered]:
    monkeypatch.setattr(verified, "_LEAST", 0.0)
    held = DocumentSet("first", "office", FILES, [])
    return list(answers_of(held, [FOUND, NOT_SAID, YES_OR_NO], random.Random(0)))


def test_the_right_answer_is_of_its_own_passage(answered: list[Answered]) -> None:
    (right,) = [each for each in answered if each.right]
    assert (right.question, right.answer, right.passage.metadata["source"]) == (FOUND.text, "Ann Lee", "keys.md")
    assert right.example == Example(
        "verified", "Is it Ann Lee? Who found the key of the boathouse?", right.example.passages, kind="yes"
    )


def test_wrong_answers_are_others_than_the_right_one(answered: list[Answered]) -> None:
    wrong = [each for each in answered if each.right is False]
    assert 1 <= len(wrong) <= 2
    assert not any("Lee" in each.answer for each in wrong)
    assert {each.example.kind for each in wrong} == {"no"}


def test_an_answer_to_a_question_without_one_is_wrong(answered: list[Answered]) -> None:
    (tempting,) = [each for each in answered if each.right is None]
    assert (tempting.question, tempting.example.kind) == (NOT_SAID.text, "no")
    assert {each.question for each in answered} == {FOUND.text, NOT_SAID.text}


def test_the_new_examples_are_mixed_with_earlier_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "phrasings").mkdir()
    trained, kept = (DocumentSet("first", domain, FILES, [FOUND]) for domain in ("office", HELD_OUT[0]))
    monkeypatch.setattr("training.sets.sets", lambda _: [trained, kept])
    monkeypatch.setattr(verified, "facts", lambda *_: {})
    monkeypatch.setattr(phrasings, "FOLDER", tmp_path / "phrasings")
    monkeypatch.setattr(phrasings, "examples", lambda *_: [Example("new", "What is this?")])
    earlier, out = tmp_path / "earlier.jsonl", tmp_path / "out.jsonl"
    write([Example("old", f"What is {number}?") for number in range(9)], earlier)
    monkeypatch.setattr(sys, "argv", ["verified", str(tmp_path), str(out), "--replay", str(earlier), "--earlier", "2"])
    verified.main()
    sources = [each.source for each in read(out)]
    assert sources.count("old") == 2
    assert sources.count("new") == 1
    assert sources.count("verified") == len(list(answers_of(trained, [FOUND], random.Random(0))))
