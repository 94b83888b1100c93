"""The benchmark of methods on small sets of documents."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.documents import Tally, is_right, measure, swapped, table
from training.sets import Question, read_set

from tests.training.test_sets import SET


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("Malmö", True),
        ("malmö.", True),
        ("in Malmö, Sweden today", True),
        ("from an office in Malmö that opened", False),
        ("Lund", False),
        ("", False),
    ],
)
def test_an_answer_may_hold_three_words_more(text: str, right: bool) -> None:
    assert is_right(text, ["Malmö"]) is right


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("Who joined first, Priya or Tomas?", "Who joined first, Tomas or Priya?"),
        ("Which is heavier: the Skua buoy or the Tern?", "Which is heavier: the Tern or the Skua buoy?"),
        ("Which of the pumps is heavier?", None),
    ],
)
def test_names_are_swapped(text: str, other: str | None) -> None:
    assert swapped(Question(text, "comparison", ("Tomas",), ())) == other


def test_a_set_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "company" / "ledger.txt"
    file.parent.mkdir()
    file.write_text(SET, encoding="utf-8")
    tallies = {"one-r": Tally()}
    measure(read_set(file), ["one-r"], tallies, show="")
    assert tallies["one-r"].right["bridge"] == [True]
    assert tallies["one-r"].read == [True, True]
    assert len(tallies["one-r"].withheld) == 1
    header, row = table(tallies)
    assert header.split()[:4] == ["method", "right", "one", "bridge"]
    assert row.split()[:4] == ["one-r", "100", "-", "100"]
