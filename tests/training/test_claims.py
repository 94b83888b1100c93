"""Claims made of questions, and false values of the kind of the true one."""

from __future__ import annotations

import pytest
from training.claims import claim, kind_of, rivals


@pytest.mark.parametrize(
    ("question", "before", "made"),
    [
        ("From which machine was the fork copied?", "", "Was the fork copied from #?"),
        ("Since when is there a bus?", "", "Is there a bus since #?"),
        ("For how many days does the rule hold?", "", "Does the rule hold for # days?"),
        ("Where is the tin trunk now?", "is", "Is the tin trunk now #?"),
        ("Where does Lena come from?", "in", "Does Lena come from #?"),
        ("When did Ana join?", "in", "Did Ana join in #?"),
        ("How many seats are there in the bus?", "", "Are there # seats in the bus?"),
        ("How many desks did Rijeka have in January 2023?", "", "Did Rijeka have # desks in January 2023?"),
        ("How thick is the sheet?", "", "Is the sheet # thick?"),
        ("How long did the last drill take?", "", "Did the last drill take #?"),
        ("What does Nikhil clean in June?", "", "Does Nikhil clean # in June?"),
        ("What year did the mill open?", "", "Did the mill open in #?"),
        ("Who is on call?", "", "Is # on call?"),
        ("What is eaten at Easter?", "", "Is # eaten at Easter?"),
        ("Which cousin is in the tan house?", "", "Is # in the tan house?"),
        ("Which team won the cup?", "", "Is # the team that won the cup?"),
        ("Who carries the key of the lab?", "", "Does # carry the key of the lab?"),
        ("Who has won a prize?", "", "Has # won a prize?"),
        ("Whose green was not chosen?", "", None),
        ("Is real food cooked on stage?", "", None),
    ],
)
def test_a_question_becomes_a_claim(question: str, before: str, made: str | None) -> None:
    assert claim(question, before) == made


@pytest.mark.parametrize(
    ("value", "kind"), [("1990", "year"), ("Ana Roth", "name"), ("300 kg", "number"), ("no", "phrase")]
)
def test_a_value_has_a_kind(value: str, kind: str) -> None:
    assert kind_of(value) == kind


def test_a_rival_is_another_value_of_the_same_kind() -> None:
    text = "Ana Roth leads the lab since 4 May 2019; before that, Ida Kuhn led it from 2 June 2011, for 3 years."
    assert list(rivals("Ana Roth", text, ["Tom Reed", "12"])) == ["Tom Reed", "Ida Kuhn"]
    assert list(rivals("4 May 2019", text)) == ["2 June 2011"]
    assert list(rivals("Roth", text, ["Ana Roth"])) == ["Ida Kuhn"]
    assert list(rivals("on leave", text)) == []
