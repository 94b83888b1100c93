"""Predictions: the sentences that an answer cites, and the gold of another dataset."""

from __future__ import annotations

import pytest

from polyhop import Answer, Citation, Passage, Question
from polyhop.evaluation.predictions import cited_facts, with_gold

TEXT = "Emma is a novel. Emma is by Jane Austen. It is long."
EMMA = Passage("p1", "Emma", TEXT, metadata={"sentences": [0, 17, 41]})


@pytest.mark.parametrize(
    ("question", "citation", "sentence"),
    [
        ("Who wrote Emma?", Citation(1, "p1", 28, 39), 1),  # the sentence that holds the span
        ("Who wrote Emma?", Citation(1, "p1", 0, 4), 0),
        ("Who wrote Emma?", Citation(1, "p1"), 1),  # the sentence with most words of question and answer
        ("Is it long?", Citation(1, "p1"), 1),
        ("Whom does the heroine love?", Citation(1, "p1"), 1),
    ],
)
def test_a_citation_names_a_sentence(question: str, citation: Citation, sentence: int) -> None:
    answer = Answer("Jane Austen", passages=(EMMA,), citations=(citation,))
    assert cited_facts(question, answer) == [("Emma", sentence)]


def test_the_first_of_equally_like_sentences_is_cited() -> None:
    answer = Answer("Oslo", passages=(EMMA,), citations=(Citation(1, "p1"), Citation(2, "p1")))
    assert cited_facts("Where?", answer) == [("Emma", 0)]


def test_a_corpus_without_sentences_has_no_facts() -> None:
    answer = Answer("Oslo", passages=(Passage("p1", "Emma", TEXT),), citations=(Citation(1, "p1"),))
    assert cited_facts("Where?", answer) is None


def test_the_answers_of_another_dataset_are_looked_for_in_the_passages() -> None:
    row, asked = {"id": "q", "answer_rank": 7}, Question("q", "Who wrote it?", answers=("Jane Austen",))
    ranked = [Passage("p2", "Oslo", "A town."), EMMA]
    assert with_gold(row, asked, ranked)["answer_rank"] == 2
    assert with_gold(row, asked, None)["answer_rank"] is None
