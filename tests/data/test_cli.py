"""``polyhop data``: results on stdout or in files written whole, the rest on stderr, exit codes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import orjson
import pytest

from polyhop.cli import main
from polyhop.data.corpora import open_corpus
from polyhop.data.questions import read_questions
from tests.data.test_formats import FEVER, HOTPOTQA, MUSIQUE, STRATEGYQA, ZSRE, array, lines


class Result(NamedTuple):
    code: int
    out: str
    err: str


Polyhop = Callable[..., Result]


@pytest.fixture
def polyhop(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Polyhop:
    def run(*arguments: str | Path) -> Result:
        monkeypatch.setattr(sys, "argv", ["polyhop", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "160")
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        result = capfdbinary.readouterr()
        return Result(code, result.out.decode(), result.err.decode())

    return run


def test_convert_reports_its_input_and_writes_a_file_or_stdout(polyhop: Polyhop, tmp_path: Path) -> None:
    path = array(tmp_path / "dev.json", HOTPOTQA, {**HOTPOTQA, "_id": "2"})
    result = polyhop("data", "convert", path, "--to", "flashrag", "--limit", "1")
    assert result.code == 0
    assert orjson.loads(result.out)["golden_answers"] == ["Steventon"]
    assert result.err == "dev.json is read as hotpotqa: JSON array; its records have 'question' and 'context'\n"
    result = polyhop("data", "convert", path, "--to", "jsonl", "--out", tmp_path / "q.jsonl")
    assert (result.code, result.out) == (0, "")
    assert f"2 questions written to {tmp_path / 'q.jsonl'}" in result.err
    assert read_questions(tmp_path / "q.jsonl") == read_questions(path)
    result = polyhop("data", "convert", path, "--to", "squad")
    assert (result.code, result.out) == (2, "")
    assert "unknown form to convert to 'squad'" in result.err


def test_convert_to_qrels_finds_titles_in_a_corpus(polyhop: Polyhop, tmp_path: Path) -> None:
    path = lines(tmp_path / "dev.jsonl", HOTPOTQA)
    result = polyhop("data", "convert", path, "--to", "trec-qrels", "--out", tmp_path / "q.qrels")
    assert result.code == 2
    assert "no gold passage has an id: if they have titles, --corpus finds their ids" in result.err
    assert not (tmp_path / "q.qrels").exists()
    corpus = lines(tmp_path / "c.jsonl", {"id": "7", "title": "Jane Austen", "text": "She wrote."})
    result = polyhop("data", "convert", path, "--to", "trec-qrels", "--corpus", corpus)
    assert result.out == "5a8b 0 7 1\n"


def test_validate_lists_every_fault_and_exits_1(polyhop: Polyhop, tmp_path: Path) -> None:
    path = lines(
        tmp_path / "d.jsonl", FEVER, {**FEVER, "id": 2, "label": "MAYBE"}, FEVER, {**FEVER, "id": 4, "label": None}
    )
    result = polyhop("data", "validate", path)
    assert result.code == 1
    first, second, last = result.out.splitlines()
    assert first.startswith(f"{path}:2: 'label' is 'MAYBE', expected one of SUPPORTS")
    assert second == f"{path}:3: duplicate id '54168'; first on line 1"
    assert last == "2 questions (1 without answers, 0 without gold passages), 2 problems"
    result = polyhop("data", "validate", path, "--json")
    assert (result.code, len(orjson.loads(result.out)["problems"])) == (1, 2)
    assert polyhop("data", "validate", lines(tmp_path / "good.jsonl", FEVER)).code == 0
    assert polyhop("data", "validate", tmp_path / "none.jsonl").code == 2
    (tmp_path / "bad.jsonl").write_text("{\n7\n")
    result = polyhop("data", "validate", tmp_path / "bad.jsonl")
    assert (result.code, len(result.out.splitlines())) == (1, 3)
    assert "none of its first 2 rows can be read" in result.err
    cut = array(tmp_path / "cut.json", FEVER, FEVER)
    cut.write_bytes(cut.read_bytes()[:-9])
    result = polyhop("data", "validate", cut)
    assert result.code == 1
    assert "cut.json: record 2: not valid JSON" in result.out
    assert result.out.splitlines()[-1].startswith("1 question ")


def test_stats_as_tables_and_as_json(polyhop: Polyhop, tmp_path: Path) -> None:
    path = lines(tmp_path / "d.jsonl", MUSIQUE)
    corpus = lines(tmp_path / "c.jsonl", {"id": "7", "title": "Jane Austen", "text": "She wrote."})
    result = polyhop("data", "stats", path, "--corpus", corpus)
    assert result.code == 0
    assert "gold in the corpus: 50.0 % of 2 passages; all of it for 0.0 % of 1 question" in result.out
    assert "answers: 0.0 % yes or no, 0 questions without, 1.00 aliases per question" in result.out
    json = orjson.loads(polyhop("data", "stats", path, "--corpus", corpus, "--json").out)
    assert (json["format"], json["by"]["type"]) == ("musique", {"2hop": 1})


def test_sample_keeps_records_as_they_are(polyhop: Polyhop, tmp_path: Path) -> None:
    rows = [{**HOTPOTQA, "_id": str(n), "type": "bridge" if n % 2 else "comparison"} for n in range(10)]
    path = array(tmp_path / "dev.json", *rows)
    result = polyhop("data", "sample", path, "-n", "4", "--stratify", "type", "--seed", "3")
    drawn = [orjson.loads(line) for line in result.out.splitlines()]
    assert all(row in rows for row in drawn)
    assert sorted(row["type"] for row in drawn) == ["bridge", "bridge", "comparison", "comparison"]
    assert polyhop("data", "sample", path, "-n", "11").code == 2


def test_sample_of_records_without_ids_keeps_their_numbers(polyhop: Polyhop, tmp_path: Path) -> None:
    path = array(tmp_path / "zsre.json", *[{**ZSRE, "input": f"Bridge {n} [SEP] crosses"} for n in range(9)])
    polyhop("data", "sample", path, "-n", "3", "--out", tmp_path / "s.jsonl")
    questions = {question.id: question for question in read_questions(path)}
    drawn = read_questions(tmp_path / "s.jsonl")
    assert len(drawn) == 3
    assert all(questions[question.id] == question for question in drawn)


def test_corpus_from_contexts_and_a_run_handed_in(polyhop: Polyhop, tmp_path: Path) -> None:
    """The whole way: official file, corpus and questions with ids, a run, every official form of its predictions."""
    path = lines(tmp_path / "dev.jsonl", MUSIQUE)
    corpus, questions, run = tmp_path / "c.jsonl", tmp_path / "q.jsonl", tmp_path / "run"
    result = polyhop("data", "corpus-from-contexts", path, "--out", corpus, "--questions", questions)
    assert (result.code, result.out) == (0, "")
    assert f"3 passages written to {corpus}" in result.err
    result = polyhop("run", "--dataset", questions, "--corpus", corpus, "--method", "one-r", "--out", run, "--json")
    assert result.code == 0
    assert orjson.loads(result.out)["metrics"]["recall_all@5"]["value"] == 1.0
    assert "q.jsonl is read as jsonl: JSON lines; " in result.err

    def handed_in(to: str, *more: str | Path) -> str:
        result = polyhop("data", "predictions", run, "--to", to, *more)
        assert result.code == 0, result.err
        return result.out

    hotpotqa = orjson.loads(handed_in("hotpotqa"))
    assert list(hotpotqa["answer"]) == list(hotpotqa["sp"]) == ["2hop__1_2"]
    assert set(orjson.loads(handed_in("2wiki"))) == {"answer", "sp", "evidence"}
    musique = orjson.loads(handed_in("musique", "--dataset", path))
    assert {1, 2} <= set(musique["predicted_support_idxs"]) <= {0, 1, 2}
    assert orjson.loads(handed_in("kilt"))["output"][0]["answer"] == musique["predicted_answer"]
    assert handed_in("trec-run").split()[:2] == ["2hop__1_2", "Q0"]
    (sample,) = map(orjson.loads, handed_in("ragas").splitlines())
    assert (sample["user_input"], sample["reference"]) == (MUSIQUE["question"], MUSIQUE["answer"])
    assert sample["response"] == musique["predicted_answer"]
    ranked = {passage.id: f"{passage.title}\n{passage.text}" for passage in open_corpus(corpus)}
    assert sample["retrieved_contexts"] == [ranked[id] for id in sample["retrieved_context_ids"]]
    assert set(sample["reference_context_ids"]) <= set(sample["retrieved_context_ids"])
    assert polyhop("data", "predictions", run, "--to", "musique").code == 2
    assert polyhop("data", "predictions", run, "--to", "hotpot").code == 2
    assert polyhop("data", "predictions", tmp_path, "--to", "kilt").code == 2
    more = lines(tmp_path / "more.jsonl", MUSIQUE, {**MUSIQUE, "id": "2hop__3_4"})
    assert (
        "no prediction for 1 question of the dataset"
        in polyhop("data", "predictions", run, "--to", "kilt", "--dataset", more).err
    )
    other = lines(tmp_path / "other.jsonl", {**MUSIQUE, "id": "2hop__3_4"})
    assert (
        "the dataset has no question '2hop__1_2'"
        in polyhop("data", "predictions", run, "--to", "kilt", "--dataset", other).err
    )
    (run / "traces" / "00000.json").unlink()
    result = polyhop("data", "predictions", run, "--to", "ragas")
    assert (result.code, "the trace of question '2hop__1_2'" in result.err) == (2, True)


def test_run_accepts_any_format_and_a_forced_one(polyhop: Polyhop, tmp_path: Path) -> None:
    corpus = lines(tmp_path / "c.jsonl", {"id": "7", "title": "Mount Fuji", "text": "Mount Fuji is 3,776 metres tall."})
    path = array(tmp_path / "s.json", STRATEGYQA)
    result = polyhop("run", "--dataset", path, "--corpus", corpus, "--method", "one-r", "--json")
    assert result.code == 0
    assert "s.json is read as strategyqa: " in result.err
    report = orjson.loads(result.out)
    assert (report["dataset"], report["metrics"]["recall_any@5"]["value"]) == ("s.json", 1.0)
    result = polyhop("run", "--dataset", path, "--corpus", corpus, "--method", "one-r,direct", "--format", "jsonl")
    assert "s.json is read as jsonl: as specified" in result.err
    assert result.code == 0
    assert "gold passages" not in result.err


def test_bad_rows_are_skipped_and_counted(polyhop: Polyhop, tmp_path: Path) -> None:
    path = lines(tmp_path / "d.jsonl", FEVER, {"claim": 3}, {**FEVER, "id": 1})
    assert polyhop("data", "convert", path, "--to", "jsonl", "--out", tmp_path / "o.jsonl").code == 2
    assert not (tmp_path / "o.jsonl").exists()
    result = polyhop("data", "convert", path, "--to", "jsonl", "--out", tmp_path / "o.jsonl", "--skip-bad")
    assert result.code == 0
    assert "skipped 1 malformed row of d.jsonl" in result.err
