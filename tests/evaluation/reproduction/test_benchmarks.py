"""The benchmarks a user has: found in a folder, or named one by one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from polyhop.errors import DataError, UnknownName
from polyhop.evaluation.reproduction.benchmarks import Benchmarks, find_benchmarks, select_benchmarks
from polyhop.evaluation.reproduction.recipe import Sample
from tests.conftest import SHARED

ROW = json.dumps({"question": "Where?", "answers": ["Oslo"]}) + "\n"


def test_a_folder_holds_one_for_each_by_its_usual_names(tmp_path: Path) -> None:
    for path in (
        "hotpotqa/dev.json",
        "hotpotqa/train.jsonl",
        "2wiki/dev.jsonl",
        "bamboogle/test.csv",
        "other/dev.jsonl",
    ):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(ROW)
    (tmp_path / "hotpotqa" / "corpus.jsonl").write_text("{}")
    (tmp_path / "2wiki" / "index").mkdir()
    found = find_benchmarks(tmp_path)
    assert set(found) == {"hotpotqa", "2wiki", "bamboogle"}
    assert {split: Path(path).name for split, path in found["hotpotqa"].splits.items()} == {
        "dev": "dev.json",
        "train": "train.jsonl",
    }
    assert found["hotpotqa"].corpus == tmp_path / "hotpotqa" / "corpus.jsonl"
    assert found["2wiki"].corpus == tmp_path / "2wiki" / "index"
    assert found["bamboogle"].corpus is None


def test_what_is_named_wins_over_the_folder_and_keeps_the_rest(tmp_path: Path) -> None:
    (tmp_path / "musique").mkdir()
    (tmp_path / "musique" / "dev.jsonl").write_text(ROW)
    (tmp_path / "musique" / "corpus.jsonl").write_text("{}")
    found = select_benchmarks(tmp_path, {"musique": "mine.jsonl", "eli5/test": "t.jsonl"}, {"eli5": "c.jsonl"})
    assert found["musique"].splits == {"dev": "mine.jsonl"}
    assert found["musique"].corpus == tmp_path / "musique" / "corpus.jsonl"
    assert (found["eli5"].splits, found["eli5"].corpus) == ({"test": "t.jsonl"}, "c.jsonl")


def test_an_empty_folder_and_unknown_names_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"hotpotqa, 2wikimultihopqa.*dev\.jsonl"):
        find_benchmarks(tmp_path)
    with pytest.raises(UnknownName, match="hotpotqa"):
        select_benchmarks(None, {"hotpot": "x"})
    with pytest.raises(UnknownName, match="musique"):
        select_benchmarks(None, None, {"musiq": "x"})
    with pytest.raises(UnknownName, match="dev"):
        select_benchmarks(None, {"musique/val": "x"})


def test_questions_that_cannot_be_answered_are_left_out(tmp_path: Path) -> None:
    rows = [{"id": f"2hop__{n}_{n}", "question": f"{n}?", "answer": "Oslo", "answerable": n == 1} for n in (1, 2)]
    rows = [{**row, "paragraphs": [], "question_decomposition": [], "answer_aliases": []} for row in rows]
    (tmp_path / "musique.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = Benchmarks(select_benchmarks(None, {"musique": str(tmp_path / "musique.jsonl")}))
    assert [question.id for question in given.questions("musique", Sample())] == ["2hop__1_1"]


def test_a_corpus_is_indexed_once(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text(json.dumps({"id": "1", "title": "Oslo", "text": "A town."}) + "\n")
    given = Benchmarks(select_benchmarks(None, None, {"hotpotqa": str(tmp_path / "corpus.jsonl")}))
    assert given.index("hotpotqa") is given.index("hotpotqa")
    assert given.questions("hotpotqa", Sample()) == []


@pytest.mark.shared
def test_the_samples_are_found() -> None:
    found = find_benchmarks(SHARED)
    assert set(found) == {"hotpotqa", "2wiki", "musique"}
    assert all({"dev", "train"} <= set(each.splits) and each.corpus for each in found.values())
