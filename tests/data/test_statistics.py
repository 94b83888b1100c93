"""Counts of a dataset, by hand; and samples, equal on every machine, with each stratum's share."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.data.questions import open_questions
from polyhop.data.statistics import dataset_statistics, sample, shares
from polyhop.errors import SettingError, UnknownName, UsageError
from polyhop.types import Passage, Question
from tests.data.test_formats import lines

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


def dataset(tmp_path: Path, ids: range) -> Path:
    rows = [{"id": f"i{n}", "question": f"Who is {n}?", "type": "comparison" if n % 5 == 0 else "bridge"} for n in ids]
    return lines(tmp_path / f"d{len(ids)}.jsonl", *rows)


def drawn(path: Path, n: int, *, seed: int = 0, stratify: str | None = None) -> list[Question]:
    records = sample(open_questions(path), n, seed=seed, stratify=stratify)
    return [record.question for record in records if isinstance(record.question, Question)]


def test_a_sample_is_seeded_in_order_and_pinned(tmp_path: Path) -> None:
    path = dataset(tmp_path, range(100))
    ids = [question.id for question in drawn(path, 5)]
    assert ids == ["i14", "i32", "i43", "i45", "i49"]  # of the seed and the ids alone, on any machine
    assert ids == [question.id for question in drawn(path, 5)]
    assert ids != [question.id for question in drawn(path, 5, seed=1)]
    assert len(drawn(path, 100)) == 100


def test_a_larger_sample_contains_the_smaller_in_any_order(tmp_path: Path) -> None:
    path = dataset(tmp_path, range(100))
    assert {q.id for q in drawn(path, 5)} < {q.id for q in drawn(path, 20)}
    turned = tmp_path / "turned.jsonl"
    turned.write_text("".join(f"{line}\n" for line in reversed(path.read_text().splitlines())))
    assert {q.id for q in drawn(path, 20)} == {q.id for q in drawn(turned, 20)}
    kept = {q.id for q in drawn(path, 20)} & {q.id for q in drawn(dataset(tmp_path, range(110)), 20)}
    assert len(kept) >= 15


@pytest.mark.parametrize("by", ["type", "kind", "hops"])
def test_strata_keep_their_shares(tmp_path: Path, by: str) -> None:
    questions = drawn(dataset(tmp_path, range(100)), 25, stratify=by)
    types = Counter(question.metadata["type"] for question in questions)
    assert len(questions) == 25
    if by == "type":
        assert types == {"bridge": 20, "comparison": 5}


def test_an_impossible_sample_is_an_error(tmp_path: Path) -> None:
    path = dataset(tmp_path, range(10))
    with pytest.raises(UsageError, match="a sample of 11 was asked for; the dataset has 10 questions"):
        drawn(path, 11)
    with pytest.raises(SettingError, match="n is 0"):
        drawn(path, 0)
    with pytest.raises(UnknownName, match="unknown field to stratify by 'typ'; did you mean 'type'"):
        drawn(path, 5, stratify="typ")


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=3), st.integers(1, 50), min_size=1, max_size=6), st.data())
def test_shares_add_up_and_are_fair(sizes: dict[str, int], data: st.DataObject) -> None:
    n = data.draw(st.integers(0, sum(sizes.values())))
    found = shares(sizes, n)
    assert sum(found.values()) == n
    assert all(abs(found[name] - n * size / sum(sizes.values())) < 1 for name, size in sizes.items())
    assert all(found[name] <= size for name, size in sizes.items())
