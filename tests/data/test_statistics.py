"""Counts of a dataset, by hand."""

from __future__ import annotations

from polyhop.data.statistics import dataset_statistics
from polyhop.types import Passage, Question

QUESTIONS = [
    Question("1", "Who is it?", ("Ann", "Anne"), gold_ids=("p1", "p2"), metadata={"type": "bridge"}),
    Question("2", "Is it so now?", ("Yes",), kind="boolean", gold_titles=("Emma",), supporting=(("Emma", 0),)),
    Question("3", "Why?", kind="long", steps=({"question": "a"}, {"question": "b"}, {"question": "c"})),
]


def test_counts_lengths_and_answers() -> None:
    found = dataset_statistics(QUESTIONS).to_dict()
    assert found["questions"] == 3
    assert found["by"] == {
        "kind": {"boolean": 1, "long": 1, "qa": 1},
        "hops": {"1": 1, "2": 1, "3": 1},
        "type": {"bridge": 1},
    }
    assert found["question_words"] == {"mean": 8 / 3, "median": 3, "most": 4}
    assert found["answer_words"] == {"mean": 1.0, "median": 1, "most": 1}
    assert found["answers"] == {"without": 1, "yes_or_no": 1 / 3, "aliases_per_question": 0.5}
    assert (found["with_gold_passages"], found["with_supporting_facts"], found["with_steps"]) == (2 / 3, 1 / 3, 1 / 3)
    assert found["gold_in_corpus"] is None


def test_gold_in_a_corpus_by_id_else_by_title() -> None:
    corpus = [Passage("p1", "Oslo", "x"), Passage("7", "Emma", "x"), Passage("8", "Emma", "y")]
    found = dataset_statistics(QUESTIONS, corpus).to_dict()["gold_in_corpus"]
    assert found == {"passages": 3, "share_of_passages": 2 / 3, "questions": 2, "share_of_questions": 0.5}


def test_nothing_to_count() -> None:
    found = dataset_statistics([]).to_dict()
    assert (found["questions"], found["question_words"], found["answers"]["yes_or_no"]) == (0, None, 0.0)
