"""Examples over one passage: facts, passages that do not tell, and look-alikes; held-out domains stay out."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from training.data import Example
from training.sets import HELD_OUT
from training.single import Fact, described, documents, renamed, split_steps

from tests.training.test_sets import SET, a_set


@pytest.fixture
def made(tmp_path: Path) -> list[Example]:
    for domain in ("company", HELD_OUT[0]):
        (tmp_path / domain).mkdir()
        (tmp_path / domain / "ledger.txt").write_text(SET.replace("Ledger", domain.title()), encoding="utf-8")
    return list(documents(tmp_path, random.Random(0)))


def test_facts_are_read_off_one_passage(made: list[Example]) -> None:
    facts = {example.question: example for example in made if example.source == "single"}
    assert {"Who leads the Company team?", "Where does Tomas Lindqvist work?"} <= facts.keys()
    for example in facts.values():
        assert len(example.passages) == 1
        assert example.spans
    assert not any(HELD_OUT[0].title() in example.question for example in made)


def test_passages_without_the_answer_answer_nothing(made: list[Example]) -> None:
    near = [example for example in made if example.source == "single_near"]
    assert near
    for example in near:
        assert example.kind == "none"
        assert not example.enough
        if "Tomas" in example.question:
            assert "Malmö" not in example.passages[0][1]


def test_passages_that_compete_are_a_group(tmp_path: Path, made: list[Example]) -> None:
    assert not any(example.group for example in made)
    groups: dict[str, list[Example]] = {}
    for example in documents(tmp_path, random.Random(0), competing=3):
        if example.group:
            groups.setdefault(example.group, []).append(example)
    assert set(groups) == {f"company/ledger: {each.question}" for each in made if each.source == "single"}
    for group in groups.values():
        assert [example.kind for example in group] == ["span", *["none"] * (len(group) - 1)]
        assert len({(example.question, tuple(example.passages)) for example in group}) == len(group) <= 4


def test_a_name_gives_way_to_one_of_its_role() -> None:
    fact = Fact("Where does Ana Roth live?", "Cork", ("people", "Ana Roth lives in Cork."))
    names = {"who": ["Ana Roth", "Ida Kuhn"], "where": ["Oslo"]}
    assert renamed(fact, names, random.Random(0)) == "Where does Ida Kuhn live?"
    both = fact._replace(passage=("people", "Ana Roth lives in Cork, Ida Kuhn in Oslo."))
    assert renamed(both, names, random.Random(0)) is None


def test_questions_are_read_for_what_they_describe(tmp_path: Path) -> None:
    held = a_set(tmp_path)
    asked = held.questions[0]
    assert [question for question, _ in split_steps(asked)] == [
        "Who is the lead of the Ledger team?",
        "Where does Tomas Lindqvist work?",
    ]
    marked, left = described(asked)
    ((_, text),) = marked.passages
    ((_, start, end),) = marked.spans
    assert (text, text[start:end]) == ("Where does the lead of the Ledger team work", "the lead of the Ledger team")
    assert (left.passages, left.kind) == ([("", "Where does Tomas Lindqvist work")], "none")


QUESTIONS = """? Does Tomas work in Oslo?
kind: boolean
= no
- people/tomas.md :: works from Malmö
? When was Tomas born?
kind: unanswerable
=
- people/tomas.md :: joined in 2017
"""


def test_a_passage_decides_yes_or_no_or_leaves_a_question_open(tmp_path: Path) -> None:
    (tmp_path / "company").mkdir()
    (tmp_path / "company" / "ledger.txt").write_text(f"{SET.rstrip()}\n{QUESTIONS}", encoding="utf-8")
    examples = list(documents(tmp_path, random.Random(0)))
    (decided,) = (each for each in examples if each.source == "single_boolean")
    ((_, text),) = decided.passages
    assert [text[start:end] for _, start, end in decided.spans] == ["works from Malmö"]
    made = {(each.question, each.kind, each.enough) for each in examples}
    assert {("Does Tomas work in Oslo?", "no", 1), ("Does Tomas work in Oslo?", "none", 0)} <= made
    assert {each for each in made if each[0] == "When was Tomas born?"} == {("When was Tomas born?", "none", 0)}
