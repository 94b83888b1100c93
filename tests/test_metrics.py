"""Metrics against hand-worked values and the known traps."""

from __future__ import annotations

import pytest

from polyhop.metrics import cover_em, exact_match, f1, found_gold, rouge_l, score_answer, score_passages
from polyhop.types import Passage, Question


@pytest.mark.parametrize(
    ("prediction", "gold", "em", "f", "cover"),
    [
        ("Paris", "Paris", 1, 1, 1),
        ("The Eiffel Tower!", "eiffel tower", 1, 1, 1),
        ("in Paris, France", "Paris", 0, 0.5, 1),
        ("yes", "yes", 1, 1, 1),
        ("yes, it is", "yes", 0, 0, 1),  # HotpotQA's guard: no partial credit for yes and no
        ("no", "nobody", 0, 0, 0),
        ("noanswer", "none of them", 0, 0, 0),
        ("", "Paris", 0, 0, 0),
        ("the", "a", 1, 0, 0),  # both are empty once normalised: equal, but no word in common
        ("New York City", "New York", 0, 0.8, 1),
        ("Jaws Jaws Jaws", "Jaws", 0, 0.5, 1),
        ("Dvořák", "Dvorak", 0, 0, 0),  # accents count, as in the official scripts
        ("1,969", "1969", 1, 1, 1),
    ],
)
def test_answer_metrics(prediction: str, gold: str, em: float, f: float, cover: float) -> None:
    assert exact_match(prediction, [gold]) == em
    assert f1(prediction, [gold]) == pytest.approx(f)
    assert cover_em(prediction, [gold]) == cover


def test_the_best_alias_counts() -> None:
    assert exact_match("NYC", ["New York City", "NYC"]) == 1
    assert f1("York", ["New York City", "New York"]) == pytest.approx(2 / 3)
    assert f1("anything", []) == 0


def passages(*names: str) -> list[Passage]:
    return [Passage(name, f"title {name}", "text") for name in names]


def test_recall_by_id_and_by_title() -> None:
    by_id = Question("q", "?", gold_ids=("a", "b"), gold_titles=("title z",))
    assert found_gold(passages("a", "x", "b"), by_id, 2) == [True, False]
    by_title = Question("q", "?", gold_titles=("title a", "title a", "title b"))
    assert found_gold(passages("x", "a"), by_title, 5) == [True, False]  # a title named twice is one gold passage


def test_recall_any_all_mean() -> None:
    scores = score_passages(passages("a", "x", "y", "b"), Question("q", "?", gold_ids=("a", "b")), ks=(2, 5))
    assert scores == {
        "recall_mean@2": 0.5,
        "recall_all@2": 0.0,
        "recall_any@2": 1.0,
        "recall_mean@5": 1.0,
        "recall_all@5": 1.0,
        "recall_any@5": 1.0,
    }


def test_without_gold_nothing_is_scored() -> None:
    assert score_passages(passages("a"), Question("q", "?")) == {}
    assert score_answer("Paris", Question("q", "?")) == {}


# --- ROUGE-L -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "other", "same"),  # same: the length of the longest common subsequence
    [
        ("police killed the gunman", "police kill the gunman", 3),  # Lin (2004), §3.1: S1 and S2, no stemming here
        ("the gunman kill police", "police killed the gunman", 2),  # S3
        ("police the gunman killed", "police killed the gunman", 3),
        ("A, b. C!", "a B c", 3),
        ("a b c", "c b a", 1),
        ("a a a", "a", 1),
        ("a b", "x y", 0),
        ("don't stop", "Don’t", 0),  # one word each, with marks of their own
    ],
)
def test_rouge_l_by_hand(told: str, other: str, same: int) -> None:
    mine, its = len(told.split()), len(other.split())
    assert rouge_l(told, other, "precision") == pytest.approx(same / mine)
    assert rouge_l(told, other, "recall") == pytest.approx(same / its)
    assert rouge_l(told, other) == rouge_l(other, told) == pytest.approx(2 * same / (mine + its))


def test_rouge_l_of_nothing_is_nothing() -> None:
    for told, other in (("", "a"), ("a", ""), ("", ""), ("?!", "a")):
        assert rouge_l(told, other) == rouge_l(told, other, "precision") == rouge_l(told, other, "recall") == 0.0


def test_long_answers_are_scored_by_their_best_rouge_l() -> None:
    question = Question("q", "Why?", answers=("a b c d", "x b"), kind="long")
    assert score_answer("b c", question)["rouge_l"] == pytest.approx(2 * 2 / (2 + 4))
    assert "rouge_l" not in score_answer("b c", Question("q", "Why?", answers=("b",)))


@pytest.mark.parametrize(
    ("prediction", "gold", "covered"),
    [("Norway", "no", 0), ("no, it is not", "no", 1), ("It SUPPORTS it", "SUPPORTS", 1), ("unsupports", "SUPPORTS", 0)],
)
def test_yes_no_and_labels_are_covered_by_whole_words_only(prediction: str, gold: str, covered: float) -> None:
    assert cover_em(prediction, [gold]) == covered
