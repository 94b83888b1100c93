"""Questions about described things, split in two."""

from __future__ import annotations

import pytest

from polyhop.lm.pocket.encoder.cache import predict
from polyhop.lm.pocket.reading.descriptions import DESCRIBES, plain, split
from polyhop.types import Passage


@pytest.mark.parametrize(
    ("question", "inner", "outer"),
    [
        ("Who repaired the crane that stood still?", "Which crane stood still?", "Who repaired #?"),
        ("Where does the man who paid for the pump live?", "Who paid for the pump?", "Where does # live?"),
        ("Where does the clerk work who took the keys?", "Which clerk took the keys?", "Where does # work?"),
        ("Who sails the boat that Ida commanded?", "Which boat is it that Ida commanded?", "Who sails #?"),
        ("From where does the woman come whose cake won?", "Whose cake won?", "From where does # come?"),
        ("When does the firm that repairs the boiler open?", "Which firm repairs the boiler?", "When does # open?"),
        ("phone of whoever keeps the keys", "Who keeps the keys?", "phone of #?"),
        (
            "What work did the cook of the stand do before?",
            "Who is the cook of the stand?",
            "What work did # do before?",
        ),
        ("Someone feeds the cat. Where is her desk?", "Who feeds the cat?", "Where is #'s desk?"),
    ],
)
def test_a_description_is_asked_for_first(question: str, inner: str, outer: str) -> None:
    parts = split(question)
    assert parts is not None
    assert (parts.inner, parts.about("#")) == (inner, outer)


@pytest.mark.parametrize(
    "question",
    [
        "Who keeps the keys?",
        "Who is the clerk who took the keys?",
        "Ann plays a nurse in which series, the show that opened in May?",
        "What is the price of the red valve?",
        "the nurse who found the key",
        "",
    ],
)
def test_a_question_that_is_its_description_stays_whole(question: str) -> None:
    assert split(question) is None


def test_a_description_that_asks_is_none() -> None:
    question = "The wheel was made by engineers of this firm that is based in which city?"
    (read,) = predict(DESCRIBES, [[Passage("", "", plain(question))]])
    assert read.answerable > 1  # the encoder takes the last words for a description
    assert split(question) is None
    assert split("Does the nurse who found the key live in Larn?") is not None


def test_descriptions_inside_each_other_are_split_from_within() -> None:
    parts = split("Where does the host of the group with five guests live?")
    assert parts is not None
    assert parts.inner == "What is the group with five guests?"
    further = split(parts.about("Larn Blues"))
    assert further is not None
    assert further.about("Ann Lee") == "Where does Ann Lee live?"
