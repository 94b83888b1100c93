"""The benchmarks' own files: each gets its profile, and a prediction that repeats the gold is right in everything."""

from __future__ import annotations

import pytest

from polyhop.data.questions import read_questions
from polyhop.metrics import Prediction, choose_profiles, score
from polyhop.metrics.official import gold_triples
from polyhop.types import Passage, Question
from tests.conftest import SHARED

pytestmark = pytest.mark.shared


def golden(question: Question) -> Prediction:
    cited = [Passage(title, title, "") for title in question.gold_titles]
    ids = [Passage(name, "", "") for name in question.gold_ids]
    return Prediction(
        question,
        question.answers[-1] if question.answers else "",
        passages=ids or cited,
        answer_rank=1,
        cited=ids or cited,
        facts=question.supporting,
        triples=gold_triples(question),
    )


@pytest.mark.parametrize(
    ("file", "profile", "metrics"),
    [
        ("hotpotqa_official.json", "hotpot", 12),
        ("2wikimultihopqa_official.jsonl", "2wiki", 16),
        ("musique_official.json", "musique", 3),
        ("fever_dev.jsonl", "fever", 1),
        ("strategyqa_dev.json", "strategyqa", 1),
        ("zsre.json", None, 0),
        ("trex.json", None, 0),
        ("bamboogle.csv", None, 0),
    ],
)
def test_gold_is_right_by_the_benchmarks_own_metrics(file: str, profile: str | None, metrics: int) -> None:
    questions = read_questions(SHARED / "formats" / file)
    names = choose_profiles(questions).names
    assert names == (("default", profile) if profile else ("default",))
    rows, _ = score([golden(question) for question in questions], names)
    own = {name for row in rows for name in row if "." in name}
    assert len(own) == metrics
    answered = [row for row, question in zip(rows, questions, strict=True) if question.answers]
    assert answered
    assert {name for row in answered for name in row if row[name] != 1} <= {"recall_mean@2", "recall_all@2"}  # 3 gold
