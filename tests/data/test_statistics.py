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
    told = dataset_statistics(QUESTIONS).to_dict()
    assert told["questions"] == 3
    assert told["by"] == {
        "kind": {"boolean": 1, "long": 1, "qa": 1},
        "hops": {"1": 1, "2": 1, "3": 1},
        "type": {"bridge": 1},
    }
    assert told["question_words"] == {"mean": 8 / 3, "median": 3, "most": 4}
    assert told["answer_words"] == {"mean": 1.0, "median": 1, "most": 1}
    assert told["answers"] == {"without": 1, "yes_or_no": 1 / 3, "aliases_per_question": 0.5}
    assert (told["with_gold_passages"], told["with_supporting_facts"], told["with_steps"]) == (2 / 3, 1 / 3, 1 / 3)
    assert told["gold_in_corpus"] is None


def test_gold_in_a_corpus_by_id_else_by_title() -> None:
    corpus = [Passage("p1", "Oslo", "x"), Passage("7", "Emma", "x"), Passage("8", "Emma", "y")]
    told = dataset_statistics(QUESTIONS, corpus).to_dict()["gold_in_corpus"]
    assert told == {"passages": 3, "share_of_passages": 2 / 3, "questions": 2, "share_of_questions": 0.5}


def test_nothing_to_count() -> None:
    told = dataset_statistics([]).to_dict()
    assert (told["questions"], told["question_words"], told["answers"]["yes_or_no"]) == (0, None, 0.0)
