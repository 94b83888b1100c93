"""Metrics against hand-worked values and the known traps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.metrics import (
    RECALL_AT,
    answer_rank,
    cover_em,
    exact_match,
    f1,
    found_gold,
    rouge_l,
    score_answer,
    score_passages,
)
from polyhop.types import Kind, Passage, Question


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


# --- rankings ----------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from("abcdefgh"), unique=True), st.sets(st.sampled_from("abcdefghxy"), min_size=1))
def test_recall_is_a_count_and_grows_with_k(ranked: list[str], gold: set[str]) -> None:
    scores = score_passages(passages(*ranked), Question("q", "?", gold_ids=tuple(sorted(gold))), ks=range(1, 11))
    for k in range(1, 11):
        share = len(set(ranked[:k]) & gold) / len(gold)
        assert scores[f"recall_mean@{k}"] == pytest.approx(share)
        assert scores[f"recall_all@{k}"] == (share == 1)
        assert scores[f"recall_any@{k}"] == (share > 0)
        assert k == 1 or all(scores[f"recall_{how}@{k}"] >= scores[f"recall_{how}@{k - 1}"] for how in ("all", "any"))


def test_passages_are_scored_at_the_ranks_of_the_papers_tables() -> None:
    scores = score_passages([], Question("q", "?", answers=("Rome",), gold_ids=("a",)))
    names = ("recall_mean", "recall_all", "recall_any", "ar", "ar_comparison")
    assert scores == {f"{name}@{k}": 0.0 for name in names for k in (2, 5, 10, 15, 20)}
    assert RECALL_AT == (2, 5, 10, 15, 20)


@pytest.mark.parametrize(
    ("text", "answer", "found"),
    [
        ("Ridley Scott directed it.", "Ridley Scott", True),
        ("ridley SCOTT directed it.", "Ridley Scott", True),
        ("Ridley, Scott directed it.", "Ridley Scott", False),  # a sign is a token of its own
        ("Ridley-Scott directed it.", "Ridley-Scott", True),
        ("Ridley - Scott directed it.", "Ridley-Scott", True),  # spaces are none
        ("Ridleys Scott directed it.", "Ridley Scott", False),
        ("Scott Ridley directed it.", "Ridley Scott", False),
        ("He is from Norway.", "no", False),
        ("It is the Beatles'", "The Beatles", True),
        ("It is Beatles'", "The Beatles", False),  # an article counts, unlike in EM
        ("He was born in 1969.", "1,969", False),
        ("About 1,969 people.", "1,969", True),
        ("Antonín Dvořák wrote it.", "Antoni\u0301n Dvor\u030ca\u0301k", True),  # composed or not
        ("Antonin Dvorak wrote it.", "Antonín Dvořák", False),
        ("Antonín wrote it.", "Antoni", False),  # an accent ends no word
        ("Straße", "straße", True),
        ("in New\u00a0York\u200b City", "New York City", True),  # a space of another kind; one without width
        ("नमस्ते दुनिया", "दुनिया", True),
        ("x", "", False),
        ("x", " \u200b", False),
        ("", "x", False),
    ],
)
def test_an_answer_is_found_token_by_token(text: str, answer: str, found: bool) -> None:
    ranked = [Passage("0", answer, "Its title is not its text"), Passage("1", "T", text)]
    assert answer_rank(ranked, [answer]) == (2 if found else None)


def test_answer_recall_by_hand() -> None:
    texts = ["no", "none", "It was Rome.", "nothing", "It was Oslo."]
    ranked = [Passage(str(n), "T", text) for n, text in enumerate(texts)]
    scores = score_passages(ranked, Question("q", "?", answers=("Oslo", "Rome")), ks=(2, 3, 10))
    assert scores == {f"{name}@{k}": float(k > 2) for name in ("ar", "ar_comparison") for k in (2, 3, 10)}


@pytest.mark.parametrize(
    ("answers", "kind", "type", "scored"),
    [
        (("Rome",), "qa", "bridge", {"ar", "ar_comparison"}),
        (("Rome",), "slot", None, {"ar", "ar_comparison"}),
        (("Rome",), "qa", "comparison", {"ar_comparison"}),
        (("Rome",), "qa", "bridge_comparison", {"ar_comparison"}),  # 2WikiMultiHopQA's
        (("yes",), "qa", "comparison", set()),
        (("No.",), "qa", "bridge", set()),
        (("yes",), "boolean", None, set()),
        (("Rome",), "boolean", None, set()),
        (("SUPPORTS",), "fact", None, set()),
        (("Because of Rome.",), "long", None, set()),
        ((), "qa", "bridge", set()),
    ],
)
def test_answer_recall_is_over_span_answers(
    answers: tuple[str, ...], kind: Kind, type: str | None, scored: set[str]
) -> None:
    question = Question("q", "?", answers, kind, metadata={"type": type} if type else {})
    assert set(score_passages([Passage("1", "T", "Rome")], question, ks=(2,))) == {f"{name}@2" for name in scored}


WORDS = st.lists(st.sampled_from(["a", "b", "é", "1", "B"]), min_size=1, max_size=6)


@given(WORDS, WORDS)
def test_an_answer_is_found_where_its_words_stand_in_a_row(text: list[str], answer: list[str]) -> None:
    low, wanted = [word.lower() for word in text], [word.lower() for word in answer]
    there = any(low[at : at + len(wanted)] == wanted for at in range(len(low)))
    assert (answer_rank([Passage("1", "", " ".join(text))], [" ".join(answer)]) == 1) == there


@given(st.text(), st.text())
def test_any_text_has_tokens(text: str, answer: str) -> None:
    rank = answer_rank([Passage("1", "", f"{text} {answer} {text}")], [answer])
    assert rank in (1, None)
    assert rank == 1 or not any(char.isalnum() for char in answer)


# --- ROUGE-L -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prediction", "reference", "same"),  # same: the length of the longest common subsequence
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
def test_rouge_l_by_hand(prediction: str, reference: str, same: int) -> None:
    mine, its = len(prediction.split()), len(reference.split())
    assert rouge_l(prediction, reference, "precision") == pytest.approx(same / mine)
    assert rouge_l(prediction, reference, "recall") == pytest.approx(same / its)
    assert rouge_l(prediction, reference) == rouge_l(reference, prediction) == pytest.approx(2 * same / (mine + its))


def test_rouge_l_of_an_empty_text_is_0() -> None:
    for prediction, reference in (("", "a"), ("a", ""), ("", ""), ("?!", "a")):
        assert (
            rouge_l(prediction, reference)
            == rouge_l(prediction, reference, "precision")
            == rouge_l(prediction, reference, "recall")
            == 0.0
        )


def test_long_answers_are_scored_by_their_best_rouge_l() -> None:
    question = Question("q", "Why?", answers=("a b c d", "x b"), kind="long")
    assert score_answer("b c", question)["rouge_l"] == pytest.approx(2 * 2 / (2 + 4))
    assert "rouge_l" not in score_answer("b c", Question("q", "Why?", answers=("b",)))


@pytest.mark.parametrize(
    ("prediction", "gold", "covered"),
    [("Norway", "no", 0), ("no, it is not", "no", 1), ("It SUPPORTS it", "SUPPORTS", 1), ("unsupports", "SUPPORTS", 0)],
)
def test_yes_no_and_labels_match_only_whole_words(prediction: str, gold: str, covered: float) -> None:
    assert cover_em(prediction, [gold]) == covered
