"""Statements of a value of one thing are decided by the value that passages state of it, or not at all."""

from __future__ import annotations

import random

import pytest

from polyhop.lm.pocket.reading.passage import ParsedPassage, parse_passage
from polyhop.lm.pocket.reading.threshold import find_threshold, settle
from polyhop.lm.pocket.reading.weighing import best_answer
from polyhop.lm.pocket.tasks import do
from polyhop.types import Passage

TEXTS = {
    "Towers": "The Dom Tower of Utrecht (Dutch: Domtoren) is 112 metres high. The Giralda in Seville is 104 m high.",
    "Museum": "The museum opened to the public in 1998. The museum has 12 doors. Entry to the museum costs 40 EUR.",
    "Course": "The course starts at 9:00. Tom Reed was born on 3 May 1949 in Larn. Ann Lee joined the team in 2017.",
    "Town": "Ost Town has 1.2 million inhabitants. The box weighs 3 kg; the crate weighs 5 kg.",
    "Bridge": "The Ost Bridge is 0.4 km long. It was built in 1931, and the Kiln Bridge in 1950.",
    "Shed": "Name: Red Shed; Height: 4 m; Doors: 2\nName: Blue Shed; Height: 6 m; Doors: 3",
    "Walk": "The Ford Walk takes 2 h 10 min. The harbour is more than 8 m deep. The quay was not 30 m long.",
    "Hill Farm": "Built in 1890, it has 30 cows. The dairy was built in 1950.",
}  # fmt: skip
PASSAGES = [Passage(title, title, text) for title, text in TEXTS.items()]


def pages() -> list[ParsedPassage]:
    return [parse_passage(passage) for passage in PASSAGES]


@pytest.mark.parametrize(
    ("statement", "answer"),
    [
        ("Is the Dom Tower taller than 200 metres?", "no"),
        ("Is the Dom Tower higher than 100 m?", "yes"),
        ("Is the Dom Tower taller than 0.2 km?", "no"),
        ("Is the Dom Tower at least 112 metres high?", "yes"),
        ("Is the Dom Tower over 112 metres high?", "no"),
        ("Is the Dom Tower under 150 m high?", "yes"),
        ("Is the Dom Tower no more than 112 m high?", "yes"),
        ("Is the Dom Tower not taller than 200 metres?", "yes"),
        ("Isn't the Dom Tower taller than 200 metres?", "no"),
        ("Is the Giralda taller than 110 metres?", "no"),
        ("The Dom Tower is 90 metres high.", "no"),
        ("The Dom Tower is 104 metres high.", "no"),
        ("The Dom Tower is not 90 metres high.", "yes"),
        ("The Dom Tower is 367 feet high.", "yes"),
        ("Did the museum open before 1998?", "no"),
        ("Did the museum open before March 2000?", "yes"),
        ("The museum opened in 1998.", "yes"),
        ("The museum has 12 doors.", "yes"),
        ("Does the museum have more than a dozen doors?", "no"),
        ("The course starts at 9.", "yes"),
        ("Does the course start before 8:30 am?", "no"),
        ("Tom Reed was born in 1949.", "yes"),
        ("Was Tom Reed born after 2 May 1949?", "yes"),
        ("Tom Reed was born on 4 May 1949.", "no"),
        ("Did Ann Lee join before 2016?", "no"),
        ("Does Ost Town have fewer than two million inhabitants?", "yes"),
        ("Does the box weigh more than 4 kg?", "no"),
        ("Is the crate lighter than 4,000 g?", "no"),
        ("Is the Ost Bridge longer than 500 metres?", "no"),
        ("Was the Ost Bridge built after 1940?", "no"),
        ("Is the Red Shed higher than 5 m?", "no"),
        ("Does the Ford Walk take more than two hours?", "yes"),
        ("Was Hill Farm built before 1900?", "yes"),
    ],
)
def test_a_statement_is_decided_by_the_value_of_its_thing(statement: str, answer: str) -> None:
    verdict = settle(statement, pages())
    assert verdict is not None
    assert verdict.answer == answer
    assert verdict.complete


@pytest.mark.parametrize(
    "statement",
    [
        "Is the Dom Tower wider than 5 metres?",  # no width is stated
        "Is the Dom Tower heavier than 5 tonnes?",
        "Does the museum have more than 10 windows?",
        "Does entry to the museum cost more than $40?",  # no rate is known
        "Did the museum open after 3 May 1998?",  # the day is not known
        "Is the harbour deeper than 9 m?",  # its value is a bound
        "Is the quay longer than 20 m?",  # its value is denied
        "Is it taller than 20 m?",
        "Is the tower of Utrecht taller than 20 m?",
        "Is the Dom Tower taller than the Giralda?",
        "Is the Dom Tower between 100 and 120 metres high?",
        "How tall is the Dom Tower?",
        "Is the Dom Tower in Utrecht?",
        "Is the Dom Tower higher than the old one?",
    ],
)
def test_what_passages_do_not_clearly_state_is_not_decided(statement: str) -> None:
    assert settle(statement, pages()) is None


@pytest.mark.parametrize(
    "text",
    [
        "The Dom Tower stands near the Giralda, which is 104 metres high.",
        "The Dom Tower stands in Utrecht. The church beside it is 104 metres high.",
        "Unlike the Dom Tower, the church is 104 metres high.",
        "The Giralda is 104 metres high. The Dom Tower is in Utrecht.",
        "The Old Dom Tower is 104 metres high.",
        "The Dom Tower is 104 metres high. The Dom Tower is 112 metres high.",
        "The Dom Tower's spire is 40 metres high.",
        "The Dom Tower Museum is 40 metres high.",
        "The Dom Tower is 104 metres high without its cross, with it 112 metres.",
        "The Dom Tower is 104 metres high to the roof, 112 metres to the cross.",
    ],
)
def test_no_value_of_another_thing_decides_nor_two_that_differ(text: str) -> None:
    page = parse_passage(Passage("1", "Notes", text))
    assert find_threshold("Is the Dom Tower taller than 110 metres?") is not None
    assert settle("Is the Dom Tower taller than 110 metres?", [page]) is None


def test_things_without_capitals_and_values_on_conditions() -> None:
    bridge = [parse_passage(Passage("1", "Notes", "The bridge is 80 m long. The old bridge was 60 m long."))]
    trip = [parse_passage(Passage("2", "Notes", "The trip costs 20 EUR for children and 40 EUR for adults."))]
    found = settle("Is the bridge longer than 70 m?", bridge)
    assert found is not None
    assert found.answer == "yes"
    assert settle("The trip costs 40 EUR.", trip) is None
    assert settle("Version 2 has room 5.", bridge) is None


def test_a_stated_value_raised_past_the_own_one_flips_the_answer() -> None:
    draw = random.Random(7)
    units = {"metres": 1.0, "km": 0.001, "cm": 100.0}
    for _ in range(40):
        own = draw.randint(11, 899)
        page = parse_passage(Passage("1", "Notes", f"The Ost Mill stands in Larn. The Ost Mill is {own} metres high."))
        unit, per_metre = draw.choice(sorted(units.items()))
        for stated in (own - 1, own + 1):
            value = f"{stated * per_metre:g} {unit}"
            more = settle(f"Is the Ost Mill taller than {value}?", [page])
            less = settle(f"Is the Ost Mill less than {value} high?", [page])
            assert more is not None
            assert less is not None
            assert (more.answer, less.answer) == (("yes", "no") if stated < own else ("no", "yes"))


def test_answers_and_labels_follow_the_value() -> None:
    towers = PASSAGES[:1]
    files = [Passage("1", "Towers", TEXTS["Towers"], metadata={"source": "towers.md"})]
    assert best_answer("Is the Dom Tower taller than 200 metres?", towers)[0] == "no"
    assert best_answer("Is the Dom Tower taller than 200 metres?", files)[0] == "no"
    assert best_answer("Is the Dom Tower taller than 100 metres?", files)[0] == "yes"
    for value, label, said in ((90, "REFUTES", "no"), (112, "SUPPORTS", "yes")):
        fields = {"question": f"The Dom Tower is {value} metres high.", "passages": towers}
        assert do("answer.read", {**fields, "kind": "fact"})["answer"] == label
        assert do("answer.read", {**fields, "kind": "boolean"})["answer"] == said
