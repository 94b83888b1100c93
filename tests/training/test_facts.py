"""Questions about facts of the sets of everyday documents: their form, their faults, and the examples made of them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from training.data import Example, occurs
from training.everyday import passage_of
from training.facts import SetOf, facts, faults, is_read, main
from training.sets import FOLDER, HELD_OUT, Question, corpus_of, sets
from training.single import of_facts

from tests.training.test_sets import a_set

FACTS = """== ledger
#1 people/tomas.md :: Tomas Lindqvist works from
Where is Tomas based? = Malmö
? Since when does Tomas work there?
#2 teams/ledger.md :: The team is led by
Whose team is the Ledger? = Tomas Lindqvist
& Where does [the head of the Ledger team] work? = Tomas Lindqvist #2 = Malmö #1
~ Who lives farther south, Tomas or Ana? = ? ; Tomas #1 Malmö ; Ana ?
"""


def read(folder: Path, text: str = FACTS, domain: str = "company") -> dict[SetOf, list[Question]]:
    file = folder / f"{domain}.txt"
    file.write_text(text, encoding="utf-8")
    return facts([file])


def test_each_line_is_a_question_about_its_passage(tmp_path: Path) -> None:
    ((held, questions),) = read(tmp_path).items()
    assert held == ("company", "ledger")
    assert [asked.kind for asked in questions] == ["one", "unanswerable", "one", "bridge", "comparison"]
    one, unanswered, _, bridge, comparison = questions
    assert (one.text, one.answers, one.steps[0].path) == ("Where is Tomas based?", ("Malmö",), "people/tomas.md")
    assert (unanswered.answers, unanswered.steps[0].quote) == ((), "Tomas Lindqvist works from")
    assert bridge.text == "Where does the head of the Ledger team work?"
    assert [(step.path, step.question, step.answer) for step in bridge.steps] == [
        ("teams/ledger.md", "Who is the head of the Ledger team?", "Tomas Lindqvist"),
        ("people/tomas.md", "Where does Tomas Lindqvist work?", "Malmö"),
    ]
    told, untold = comparison.steps
    assert (told.question, told.answer) == ("Tomas: Who lives farther south, Ana or Tomas?", "Malmö")
    assert (untold.path, untold.answer, comparison.answers) == ("", "", ())


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("= Malmö #1", "= Malmö #7", "company.txt:7: the set has no passage #7"),
        ("? Since", "! Since", "company.txt:4: neither"),
        ("#1 people", "people", "company.txt:2: text before the first"),
    ],
)
def test_a_line_without_meaning_is_named_with_its_number(tmp_path: Path, old: str, new: str, where: str) -> None:
    with pytest.raises(ValueError, match=where):
        read(tmp_path, FACTS.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("Where is Tomas based?", "Is Tomas based in Malmö?", "holds 'Malmö'"),
        ("? Since when does Tomas work there?", "Where is Tomas based? = works", "has two answers"),
    ],
)
def test_faults_are_named(tmp_path: Path, old: str, new: str, fault: str) -> None:
    assert not list(faults(read(tmp_path)))
    assert any(fault in found for found in faults(read(tmp_path, FACTS.replace(old, new))))
    assert any("held out" in found for found in faults(read(tmp_path, FACTS, HELD_OUT[0])))


def test_questions_are_read_over_their_passages(tmp_path: Path) -> None:
    (tmp_path / "sets").mkdir()
    a_set(tmp_path / "sets")
    assert is_read("company")
    made = list(of_facts(tmp_path / "sets", read(tmp_path), random.Random(0)))
    told = {example.question: example for example in made if example.source == "single"}
    based = told["Where is Tomas based?"]
    (passage, start, end) = based.spans[0]
    assert based.passages[passage][1][start:end] == "Malmö"
    assert "Who is the head of the Ledger team?" in told
    assert "Tomas: Who lives farther south, Ana or Tomas?" in told

    def of(question: str) -> list[Example]:
        return [example for example in made if example.question == question]

    assert [example.kind for example in of("Since when does Tomas work there?")] == ["none"]
    assert {example.kind for example in of("Ana: Who lives farther south, Ana or Tomas?")} == {"none"}
    assert any(len(example.passages) == 2 for example in of("Where does the head of the Ledger team work?"))


@pytest.mark.slow
def test_all_questions_are_well_formed_and_of_passages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0, capsys.readouterr().out
    found = facts()
    known = {SetOf(held.domain, held.name): held for held in sets(FOLDER)}
    assert found.keys() <= known.keys()
    for held, questions in list(found.items())[::8]:
        passages = list(corpus_of(known[held]))
        for asked in questions:
            for step in (step for step in asked.steps if step.path):
                passage = passage_of(step, passages)
                text = " ".join(f"{passage.title}\n{passage.text}".split())
                assert not step.answer or occurs(step.answer, text), (held, asked.text)


@pytest.mark.slow
def test_some_domains_are_kept_for_the_weights_of_comparisons() -> None:
    domains = {held.domain for held in facts()}
    assert 0 < sum(not is_read(domain) for domain in domains) < len(domains) / 3
