"""Samples are the same on every machine, hold each stratum's share, and change little when the file does."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.data.questions import open_questions
from polyhop.data.statistics import sample, shares
from polyhop.errors import SettingError, UnknownName, UsageError
from polyhop.types import Question
from tests.data.test_formats import lines


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
