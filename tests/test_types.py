"""The nouns of the house are plain values."""

from __future__ import annotations

from dataclasses import replace

from polyhop.types import Passage, Question


def test_a_question_is_hashed_by_its_id_and_equal_where_all_is() -> None:
    question = Question("q1", "Who?", ("Ann",), steps=({"question": "Who?"},), metadata={"type": "bridge"})
    other = replace(question, text="Where?")
    assert {question: 1}[replace(question)] == 1
    assert len({question, replace(question), other}) == 2
    assert hash(question) == hash(other)


def test_a_passage_is_known_by_its_id() -> None:
    assert len({Passage("1", "A", "x"), Passage("1", "B", "y", metadata={"source": "z"}), Passage("2", "A", "x")}) == 2
