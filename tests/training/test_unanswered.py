"""Questions without an answer: the passages that they are asked over, and what is mixed in."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from training.data import Example, read, write
from training.sets import HELD_OUT, DocumentSet, Question, Step

from training import unanswered, verified

FILES = {
    "keys.md": "The key of the boathouse was found by Ann Lee on Monday. Tom Reed had lost it on Friday.",
    "staff.md": "Ann Lee is a carpenter in Larn. Tom Reed is a cook in Ostwik.",
    "prices.md": "A boat costs 12 crowns an hour.",
}
FOUND = Question("Who found the key?", "one", ("Ann Lee",), (Step("keys.md", "found by Ann Lee", "", "Ann Lee"),))
NOT_SAID = Question(
    "Who sold the key of the boathouse?", "unanswerable", (), (Step("keys.md", "Tom Reed had", "", ""),)
)
HELD = DocumentSet("boats", "office", FILES, [FOUND, NOT_SAID])


def test_a_question_without_an_answer_is_asked_over_passages_that_tempt() -> None:
    made = list(unanswered.over_what_tempts(HELD, [NOT_SAID], random.Random(0)))
    assert {each.question for each in made} == {NOT_SAID.text}
    assert [(each.kind, each.enough, each.relevant, len(each.passages)) for each in made] == [("none", 0, None, 1)] * 2
    assert made[0].passages != made[1].passages


@pytest.fixture
def sets_of_two_domains(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = DocumentSet("boats", HELD_OUT[0], FILES, [NOT_SAID])
    monkeypatch.setattr("training.sets.sets", lambda _: [HELD, kept])
    monkeypatch.setattr(verified, "facts", lambda *_: {})
    monkeypatch.setattr(verified, "OF_UNANSWERABLE", 1.0)


@pytest.mark.usefixtures("sets_of_two_domains")
def test_questions_are_read_alone_and_beside_what_tempts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unanswered, "_ANSWERED", 1.0)
    monkeypatch.setattr(unanswered, "ANSWERS", {True: 1, None: 1, False: 0})
    made = unanswered.examples(random.Random(0))
    assert [each.source for each in made].count("single_unanswerable") == 4  # the set is read from both folders
    right, tempting = (each for each in made if each.source == "verified")
    assert (right.question, right.kind) == ("Is it Ann Lee? Who found the key?", "yes")
    assert (tempting.question.partition("? ")[2], tempting.kind) == (NOT_SAID.text, "no")


@pytest.mark.usefixtures("sets_of_two_domains")
def test_the_examples_are_mixed_with_whole_groups_of_earlier_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts, earlier, out = (tmp_path / f"{name}.jsonl" for name in ("longer", "earlier", "out"))
    write([Example("fact", f"What is {number // 3}?", group=str(number // 3)) for number in range(9)], facts)
    write([Example("old", f"What is {number}?") for number in range(9)], earlier)
    monkeypatch.setattr(unanswered, "LONGER", 4)
    arguments = ["unanswered", str(facts), str(out), "--replay", str(earlier), "--earlier", "2"]
    monkeypatch.setattr(sys, "argv", arguments)
    unanswered.main()
    made = list(read(out))
    drawn = [each.group for each in made if each.source == "fact"]
    assert len(drawn) == 6
    assert all(drawn.count(group) == 3 for group in drawn)
    assert [each.source for each in made].count("old") == 2
