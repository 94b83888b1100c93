"""Questions of yes or no about quotations from the sets: their form, their faults, and the examples made of them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from training.claims import of_quotes
from training.quotes import Quote, faults, main, quotes, read_quotes
from training.sets import FOLDER, HELD_OUT, sets

from tests.training.test_sets import a_set

QUOTES = """== ledger
> people/tomas.md :: works from Malmö
+ Is Tomas Lindqvist based in Malmö?
- Is Oslo where Tomas Lindqvist works?
? Does Tomas Lindqvist like it in Malmö?

> teams/ledger.md :: The team is led by
+ Has the Ledger team a lead?
"""


def read(folder: Path, text: str = QUOTES, domain: str = "company") -> list[Quote]:
    file = folder / f"{domain}.txt"
    file.write_text(text, encoding="utf-8")
    return list(read_quotes(file))


def test_a_quotation_has_its_document_and_questions(tmp_path: Path) -> None:
    first, second = read(tmp_path)
    assert (first.domain, first.set, first.step.path, first.step.quote) == (
        "company", "ledger", "people/tomas.md", "works from Malmö",
    )  # fmt: skip
    assert [answer for _, answer in first.questions] == ["yes", "no", "none"]
    assert second.questions == [("Has the Ledger team a lead?", "yes")]
    assert not list(faults([first, second]))


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("+ Has the Ledger team a lead?\n", "", "no questions"),
        ("- Is Oslo where Tomas Lindqvist works?", "- Is Tomas Lindqvist based in Malmö?", "two answers"),
    ],
)
def test_faults_are_named(tmp_path: Path, old: str, new: str, fault: str) -> None:
    assert any(fault in found for found in faults(read(tmp_path, QUOTES.replace(old, new))))
    assert any("held out" in found for found in faults(read(tmp_path, QUOTES, HELD_OUT[0])))


@pytest.mark.parametrize(
    ("text", "where"), [("+ too early?\n", "company.txt:1"), (f"{QUOTES}* Is this a mark?\n", "company.txt:9")]
)
def test_a_line_without_meaning_is_named_with_its_number(tmp_path: Path, text: str, where: str) -> None:
    with pytest.raises(ValueError, match=where):
        read(tmp_path, text)


def test_a_question_is_read_over_the_quoted_sentences(tmp_path: Path) -> None:
    (tmp_path / "sets").mkdir()
    a_set(tmp_path / "sets")
    made = list(of_quotes(tmp_path / "sets", read(tmp_path), random.Random(0)))
    assert [(example.source, example.kind, example.enough) for example in made] == [
        ("claim", "yes", 1), ("claim", "no", 1), ("claim_open", "none", 0), ("claim", "yes", 1),
    ]  # fmt: skip
    assert "works from Malmö" in made[0].passages[0][1]


@pytest.mark.slow
def test_all_quotations_are_well_formed_and_of_sets(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0, capsys.readouterr().out
    found = list(quotes())
    answers = [answer for quote in found for _, answer in quote.questions]
    for answer in ("yes", "no"):
        assert 0.35 < answers.count(answer) / len(answers) < 0.5
    known = {(held.domain, held.name): held.documents for held in sets(FOLDER)}
    for quote in found:
        assert quote.step.path in known[quote.domain, quote.set], quote.where
