"""Where a reply first writes its answer, and the probability that is taken there."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.answer import Answer, confidence
from polyhop.lm.base import Completion
from polyhop.lm.writing import first_writing
from polyhop.methods.voting import majority
from polyhop.prompts.tasks import Response


@pytest.mark.parametrize(
    ("answer", "reply", "question", "before"),
    [
        ("Larvik", "He was born in Larvik. The answer is Larvik.", "Where was he born?", "He was born in "),
        ("larvik", "He was born in Larvik. The answer is larvik.", "", "He was born in "),
        ("2", "(2) How many?\nShe had 2 children [2].\nAnswer: 2", "How many?", "(2) How many?\nShe had "),
        ("2", "2. Count them.\nAnswer: 2", "", "2. Count them.\nAnswer: "),
        ("2", "[2] says so. So the answer is 2.", "", "[2] says so. So the answer is "),
        ("Rome", "Was it Rome, or was it Oslo? It was Rome. Answer: Rome", "", "Was it Rome, or was it Oslo? It was "),
        ("Alien", "Alien: 1979, Jaws: 1975. So it is Alien.", "Jaws or Alien?", "Alien: 1979, Jaws: 1975. So it is "),
        ("no", "No film of hers is known. So the answer is no.", "", "No film of hers is known. So the answer is "),
        ("No", "No, they were not.\nAnswer: No", "", ""),
        ("Rome", "Romeo left for Rome.", "", "Romeo left for "),
        ("Who", "Is it Who?", "", "Is it "),  # written nowhere else
    ],
)  # fmt: skip
def test_the_first_writing_of_the_replys_own(answer: str, reply: str, question: str, before: str) -> None:
    assert first_writing(answer, reply, question) == (len(before), len(before) + len(answer))


def test_what_is_not_written_is_not_found() -> None:
    assert first_writing("Oslo", "It was Rome.") is None
    assert first_writing("", "It was Rome.") is None


@given(st.text(max_size=200), st.text(max_size=20), st.text(max_size=60))
def test_whatever_is_found_is_the_answer(reply: str, answer: str, question: str) -> None:
    found = first_writing(answer, reply, question)
    if found is not None:
        assert 0 <= found[0] <= found[1] <= len(reply)
    if answer.strip() and answer in reply:
        assert found is not None


def unsure(answer: str, first: float) -> Response:
    """A reply whose answer is written at ``first`` and copied almost surely."""
    text = f"It was {answer}. The answer is {answer}."
    tokens = ("It was ", answer, ". The answer is ", answer, ".")
    logprobs = tuple(map(math.log, (0.9, first, 0.9, 0.999, 0.9)))
    output = Response(rationale=f"It was {answer}.", answer=answer)
    return output.with_completion(Completion(text=text, tokens=tokens, logprobs=logprobs), "Where?")  # type: ignore[return-value]


def test_the_confidence_of_an_answer_with_a_rationale_is_that_of_its_first_writing() -> None:
    assert confidence(Answer("Rome"), unsure("Rome", 0.08)) == pytest.approx(0.08)


def test_a_tie_goes_to_the_answer_first_written_more_surely() -> None:
    assert majority([unsure("Rome", 0.1), unsure("Oslo", 0.4)]).answer == "Oslo"
