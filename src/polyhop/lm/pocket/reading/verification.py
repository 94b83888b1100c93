"""Verifying an answer: the encoder reads it beside the question, over the passage that it was read off."""

from __future__ import annotations

from collections.abc import Sequence

from polyhop.lm.pocket.encoder.cache import predict_each
from polyhop.types import Passage


def verifying(question: str, answer: str) -> str:
    """The question of yes or no whether an answer is right.

    >>> verifying("Where does Ida Kuhn live?", "Larn")
    'Is it Larn? Where does Ida Kuhn live?'
    """
    return f"Is it {answer}? {question}"


def verify(question: str, answers: Sequence[tuple[str, Passage]]) -> list[float]:
    """The probability that each answer is right, read beside the question over its passage."""
    asked = [(verifying(question, answer), [passage]) for answer, passage in answers]
    return [output.kinds["yes"] / (1.0 - output.kinds["span"] or 1.0) for output in predict_each(asked)]
