"""Agreement of short texts: dates and numbers in any form, yes and no, queries that ask for the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from polyhop.prompts.agreement import agree, find_equal, is_yes_or_no, tell_apart
from polyhop.retrieval.tfidf import similarities


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1937", "30 November 1937"),
        ("November 1937", "November 30, 1937"),
        ("30 November 1937", "November 30, 1937"),
        ("1,500 metres", "about 1500 metres"),
        ("two", "2"),
        ("2.5 million", "2,500,000 people"),
        ("Antonín Dvořák", "Dvorak"),
        ("New York", "New York City"),
        ("U.S.", "US"),
    ],
)
def test_either_may_contain_the_other(one: str, other: str) -> None:
    assert agree(one, other)
    assert agree(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1936", "30 November 1937"),
        ("29 November 1937", "30 November 1937"),
        ("May 1937", "30 November 1937"),
        ("3.7", "37"),
        ("Ann", "Hannover"),
        ("The", "the Danube"),
        ("12", "120"),
    ],
)
def test_whole_words_and_whole_values_are_compared(one: str, other: str) -> None:
    assert not agree(one, other)
    assert not agree(other, one)


def test_yes_and_no_are_answers_with_or_without_an_explanation() -> None:
    assert all(map(is_yes_or_no, ("yes", "No", "No, it is not.", "Yes.")))
    assert not any(map(is_yes_or_no, ("No Country for Old Men", "Norway", "a volcano", "")))


@pytest.mark.slow
def test_many_numbers_are_compared_in_linear_time() -> None:
    assert not agree("1 May 1999, 7; " * 20_000, "8 " * 20_000)


KNOWN = ["Who wrote Emma?", "In which city was the director of the film Jaws born?"]


@pytest.mark.parametrize(
    ("query", "likeness", "found"),
    [
        ("who wrote the Emma", "exact", 0),
        ("Which city was the director of Jaws born in?", "exact", None),
        ("Which city was the director of Jaws born in?", 0.8, 1),
        ("Which city was the director of Jaws born in?", 0.99, None),
        ("In which country was the director of the film Jaws born?", 0.0, None),
        ("In which city was the director of the film Alien born?", 0.0, None),
        ("?", 0.5, None),
    ],
)
def test_a_query_equals_a_known_one(query: str, likeness: Any, found: int | None) -> None:
    assert find_equal(query, KNOWN, likeness, similarities) == (None if found is None else KNOWN[found])


def test_the_threshold_is_of_the_runs_similarity() -> None:
    """A retriever with an encoder has a scale of its own."""
    query = "Who is the author that wrote Emma?"
    found = [find_equal(query, KNOWN[:1], likeness, lambda text, texts: [1.0, 0.7]) for likeness in (0.7, 0.71)]
    assert found == [KNOWN[0], None]


def test_no_encoder_is_asked_about_queries_that_a_word_tells_apart() -> None:
    def similarity(text: str, texts: Sequence[str]) -> list[float]:
        raise AssertionError(texts)

    assert find_equal("Who wrote Persuasion?", KNOWN, 0.0, similarity) is None
    assert find_equal("who wrote the Emma", KNOWN, 0.0, similarity) == KNOWN[0]


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ("Who directed Alien?", "Who is the director of the film Alien?", False),
        ("Who directed Alien?", "Who produced Alien?", True),
        ("When was Ann born?", "Where was Ann born?", True),
        ("How many moons has Mars?", "How many moons has Mars got in 1877?", True),
        ("What is Ann Lee's mother called?", "What is the mother of Ann Lee called?", False),
    ],
)
def test_a_word_that_counts_tells_queries_apart(one: str, other: str, apart: bool) -> None:
    assert tell_apart(one, other) is tell_apart(other, one) is apart
