"""Reproducing a table: which runs it takes, what stands beside the paper's numbers, and why a row does not run."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from polyhop.cli.app import app
from polyhop.errors import DataError, UnknownName
from polyhop.evaluation.reproduction.benchmarks import Benchmark, Benchmarks, select_benchmarks
from polyhop.evaluation.reproduction.jobs import UserInputs, jobs
from polyhop.evaluation.reproduction.recipe import Reproduction, keys, recipe
from polyhop.evaluation.reproduction.reproduce import reproduce
from polyhop.lm.scripted import ScriptedLM
from tests.conftest import SHARED

QUESTIONS = [
    {"id": "q1", "question": "What is the capital of Norway?", "answers": ["Oslo"], "gold_titles": ["Oslo"]},
    {"id": "q2", "question": "What is the capital of Peru?", "answers": ["Lima"], "gold_titles": ["Lima"]},
]
PASSAGES = [
    {"id": "p1", "title": "Oslo", "text": "Oslo is the capital of Norway."},
    {"id": "p2", "title": "Lima", "text": "Lima is the capital of Peru."},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """HotpotQA and 2Wiki of two questions each, as a folder of benchmarks."""
    for name in ("hotpotqa", "2wikimultihopqa"):
        home = tmp_path / "data" / name
        home.mkdir(parents=True)
        (home / "dev.jsonl").write_text("\n".join(map(json.dumps, QUESTIONS)) + "\n")
        (home / "corpus.jsonl").write_text("\n".join(map(json.dumps, PASSAGES)) + "\n")
    return tmp_path / "data"


@pytest.fixture
def hotpotqa(folder: Path) -> dict[str, Benchmark]:
    home = folder / "hotpotqa"
    return {"hotpotqa": Benchmark({"dev": home / "dev.jsonl", "test": home / "dev.jsonl"}, home / "corpus.jsonl")}


def knows(answer: str) -> ScriptedLM:
    """A model that gives one answer to whatever it is asked."""

    def reply(task: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        known: dict[str, Mapping[str, Any]] = {
            "resp.summarize": {"summary": f"It is {answer}."},
            "resp.judge": {"sufficient": True},
        }
        return known.get(task, {"answer": answer})

    return ScriptedLM(reply)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


def cell(found: Reproduction, row: str, dataset: str, metric: str) -> Any:
    number = [each.name for each in found.recipe.rows].index(row)
    column = next(at for at, each in enumerate(found.columns) if (each.dataset, each.metric) == (dataset, metric))
    return found.cells[number][column]


def test_the_papers_numbers_stand_beside_ours_and_the_model_is_named(hotpotqa: dict[str, Benchmark]) -> None:
    found = reproduce("resp/figure2", hotpotqa, knows("Oslo"))
    assert found.lm == "scripted"
    ours = cell(found, "resp, k=5", "hotpotqa", "f1")
    assert (ours.value, ours.std, ours.n, ours.runs, ours.lm) == (50.0, None, 2, 1, "scripted")
    assert found.paper(9, 0) == (47.2, None)
    assert found.used == {"hotpotqa": "2 of the dev file's 2 questions"}
    assert not found.stands_in


def test_a_dataset_that_is_not_given_is_named_and_the_others_run(hotpotqa: dict[str, Benchmark]) -> None:
    found = reproduce("resp/table2", hotpotqa, knows("Lima"))
    assert cell(found, "all roles 8B", "hotpotqa", "f1").value == 50.0
    assert "--dataset 2wiki=FILE" in cell(found, "all roles 8B", "2wiki", "f1").why
    assert found.used["2wiki"] == "not given"
    reasons = {why: rows for why, rows in found.not_run.items() if "2wiki" in why}
    assert list(reasons.values()) == [["all roles 8B on 2Wiki"]]


def test_a_row_of_another_model_runs_when_it_is_given_and_says_so_when_not(hotpotqa: dict[str, Benchmark]) -> None:
    small, large = knows("Oslo"), knows("Lima")
    found = reproduce("resp/table2", hotpotqa, small)
    why = cell(found, "generator 70B", "hotpotqa", "f1").why
    assert "Llama-3-70B-Instruct" in why
    assert "--lm-for" in why
    found = reproduce("resp/table2", hotpotqa, small, lms={"Llama-3-70B-Instruct": large})
    assert not any("70B" in why for why in found.not_run)
    assert {call.task for call in large.calls} >= {"resp.generate", "resp.summarize", "resp.judge"}
    assert cell(found, "generator 70B", "hotpotqa", "f1").lm == "default=scripted, generator=scripted"
    with pytest.raises(UnknownName, match="Llama-3-70B"):
        reproduce("resp/table2", hotpotqa, small, lms={"Llama-70B": large})


@pytest.mark.slow
def test_a_column_of_another_model_is_measured_with_it(hotpotqa: dict[str, Benchmark]) -> None:
    found = reproduce("tor/table2", hotpotqa, knows("Oslo"), lms={"GPT-4": knows("nothing")}, limit=1)
    columns = [(each.lm, each.dataset, each.metric) for each in found.columns]
    row = found.cells[0]
    assert row[columns.index(("GPT-3.5", "hotpotqa", "em"))].value == 100.0
    assert row[columns.index(("GPT-4", "hotpotqa", "em"))].value == 0.0


def test_equal_runs_are_run_once(hotpotqa: dict[str, Benchmark]) -> None:
    lm = knows("Oslo")
    reproduce("tor/table2", hotpotqa, lm, limit=1)
    assert sum(call.task == "answer.direct" for call in lm.calls) == 1  # the paper has two models of that row


def test_trained_rows_are_the_papers_alone_unless_a_checkpoint_is_given(hotpotqa: dict[str, Benchmark]) -> None:
    found = reproduce("promptrank/figure1", hotpotqa, knows("Oslo"))
    assert "trained" in cell(found, "DrKit", "hotpotqa", "recall_all@2").why
    assert "--checkpoint MDR=" in cell(found, "MDR", "hotpotqa", "recall_all@2").why
    found = reproduce("promptrank/figure1", hotpotqa, knows("Oslo"), checkpoints={"MDR": "tfidf"})
    assert cell(found, "MDR", "hotpotqa", "recall_all@2").value == 100.0
    with pytest.raises(UnknownName, match="MDR"):
        reproduce("promptrank/figure1", hotpotqa, knows("Oslo"), checkpoints={"DrKit": "tfidf"})


def test_what_a_model_lacks_leaves_its_rows_out_and_no_others(hotpotqa: dict[str, Benchmark]) -> None:
    found = reproduce("promptrank/table1", hotpotqa, knows("Oslo"))
    assert "score" in cell(found, "T5-XL, no instruction", "hotpotqa", "ar@2").why
    assert cell(found, "tfidf", "hotpotqa", "recall_all@2").value == 100.0


@pytest.mark.parametrize("key", ["promptrank/table1", "promptrank/table2", "promptrank/tableA2"])
def test_the_tfidf_rows_search_the_papers_index_whatever_retriever_is_given(key: str, hotpotqa: dict[str, Any]) -> None:
    given = UserInputs(Benchmarks({**hotpotqa, "2wiki": hotpotqa["hotpotqa"]}), retriever="bm25")
    table = recipe(key)
    dataset = next(iter(table.datasets))
    used = {
        row.method: job.retriever
        for row in table.rows
        if row.method in ("tfidf", "tfidf-bm25")
        for job in jobs(table, row, dataset, None, given)
    }
    assert used.items() <= {"tfidf": "tfidf:bigram", "tfidf-bm25": "tfidf-bm25:bigram"}.items()
    assert used["tfidf"]


def test_repeated_rows_have_a_mean_and_deviation(hotpotqa: dict[str, Benchmark], tmp_path: Path) -> None:
    found = reproduce("promptrank/figure3", hotpotqa, "pocket", repeat=3, out=tmp_path / "out")
    ours = cell(found, "2 demonstrations", "hotpotqa", "recall_all@2")
    assert ours.runs == 3
    assert ours.std is not None
    kept = [json.loads(path.read_text()) for path in (tmp_path / "out").glob("hotpotqa-dev/*/run.json")]
    of_two = [one for one in kept if one["settings"]["demos"] == 2]
    assert sorted(one["seed"] for one in of_two) == [0, 1, 2]  # which draws the demonstrations


@pytest.mark.slow
def test_it_goes_on_where_it_was_and_asks_nothing_twice(hotpotqa: dict[str, Benchmark], tmp_path: Path) -> None:
    first = reproduce("tor/table2", hotpotqa, knows("Oslo"), limit=1, out=tmp_path)
    again = knows("Oslo")
    assert reproduce("tor/table2", hotpotqa, again, limit=1, out=tmp_path).cells == first.cells
    assert not again.calls
    longer = reproduce("tor/table2", hotpotqa, again, out=tmp_path)
    assert {call.fields["question"] for call in again.calls if call.task == "answer.direct"} == {
        "What is the capital of Peru?"
    }
    assert cell(longer, "direct", "hotpotqa", "em").n == 2
    kept = json.loads((tmp_path / "tor-table2.json").read_text())
    assert all((tmp_path / run / "metrics.json").is_file() for run in kept["runs"])


@pytest.mark.slow
def test_tables_share_runs(hotpotqa: dict[str, Benchmark], tmp_path: Path) -> None:
    reproduce("tor/table2", hotpotqa, knows("Oslo"), out=tmp_path)
    again = knows("Oslo")
    found = reproduce("tor/table1", hotpotqa, again, out=tmp_path)
    assert not again.calls
    assert cell(found, "one-r", "hotpotqa", "recall_mean@15").value == 100.0


@pytest.mark.slow
def test_another_model_or_setting_is_another_run(hotpotqa: dict[str, Benchmark], tmp_path: Path) -> None:
    reproduce("resp/figure2", hotpotqa, knows("Oslo"), out=tmp_path)
    folders = [path.name for path in (tmp_path / "hotpotqa-dev-first1000").iterdir()]
    assert len(folders) == 12
    other = knows("Lima")
    other.name = "another"
    reproduce("resp/figure2", hotpotqa, other, out=tmp_path)
    assert len(list((tmp_path / "hotpotqa-dev-first1000").iterdir())) == 24


def test_people_judge_marks_on_a_sheet_and_their_verdicts_are_read_back(folder: Path, tmp_path: Path) -> None:
    given = select_benchmarks(folder)
    found = reproduce("searchain/tracing", given, "pocket", out=tmp_path)
    assert "marks.csv" in cell(found, "searchain", "2wiki", "amp").why
    assert cell(found, "searchain", "2wiki", "skc").value > 0
    (sheet,) = tmp_path.glob("2wiki-dev/*/marks.csv")
    with sheet.open(newline="") as stream:
        lines = list(csv.DictReader(stream))
    assert {line["passage"] for line in lines} <= {passage["text"] for passage in PASSAGES}
    assert all(line["fragment"] and not line["judge 1"] for line in lines)
    lines[0] |= {"judge 1": "yes", "judge 2": "No", "judge 3": "1"}

    def write() -> None:
        with sheet.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, list(lines[0]))
            writer.writeheader()
            writer.writerows(lines)

    write()
    for _ in range(2):  # the verdicts outlive the sheet's being written anew
        found = reproduce("searchain/tracing", given, "pocket", out=tmp_path)
        assert cell(found, "searchain", "2wiki", "amp").value == pytest.approx(200 / 3)
    lines[0]["judge 2"] = "perhaps"
    write()
    with pytest.raises(DataError, match="perhaps"):
        reproduce("searchain/tracing", given, "pocket", out=tmp_path)


def test_a_test_sets_predictions_are_kept_to_be_submitted(hotpotqa: dict[str, Benchmark], tmp_path: Path) -> None:
    found = reproduce("promptrank/table3", hotpotqa, "pocket", out=tmp_path)
    assert found.used["hotpotqa"] == "2 of the test file's 2 questions"
    submission = json.loads((tmp_path / "promptrank-table3.submission.json").read_text())
    assert set(submission) == {"answer", "sp"}
    assert set(submission["answer"]) == {"q1", "q2"}


def test_questions_that_search_changed_and_what_search_misled(hotpotqa: dict[str, Benchmark]) -> None:
    """Two questions: q1 right without search and wrong with it; q2 the other way round, and changed by search."""

    def reply(task: str, fields: Mapping[str, Any]) -> Any:
        peru = "Peru" in str(fields["question"])
        if task == "searchain.chain":
            solved = bool(fields["chains"]) or not peru
            node = {"query": fields["question"], "answer": ("Lima" if peru else "Bergen") if solved else None}
            return {"nodes": [node], "final": "Oslo"}
        if task == "searchain.trace":
            return {"content": "So.", "answer": "Lima" if peru else "Bergen"}
        return {"answer": "Oslo"}

    found = reproduce("searchain/table3a", hotpotqa, ScriptedLM(reply), reader=None, concurrency=1)
    assert "reads passages" in str(found.not_run)  # no reader: nothing can be verified
    found = reproduce("searchain/table3a", hotpotqa, ScriptedLM(reply), reader=lambda question, passages: [])
    values = {row.name: cells[0] for row, cells in zip(found.recipe.rows, found.cells, strict=True)}
    assert (values["open_book=false, S"].value, values["open_book=false, S"].n) == (50.0, 2)
    assert (values["open_book=false, S_IR"].value, values["open_book=false, S_IR"].n) == (0.0, 1)
    assert (values["searchain, S_IR"].value, values["searchain, S_IR"].n) == (100.0, 1)
    found = reproduce("searchain/table3b", hotpotqa, ScriptedLM(reply), reader=lambda question, passages: [])
    ours = cell(found, "searchain", "hotpotqa", "misled")
    assert ours.value == 100.0


@pytest.mark.slow
def test_a_table_over_all_datasets_takes_those_given(folder: Path) -> None:
    found = reproduce("searchain/table5", select_benchmarks(folder), "pocket", limit=1)
    ours = cell(found, "searchain", "all", "mean score")
    assert ours.n == 2
    scores = reproduce("searchain/table1", select_benchmarks(folder), "pocket", limit=1)
    both = [cell(scores, "searchain", name, "cover_em").value for name in ("hotpotqa", "2wiki")]
    assert ours.value == pytest.approx(sum(both) / 2)
    assert cell(found, "plan-solve-ir", "all", "rounds").value == 1.0
    assert cell(found, "dsp", "all", "words in").value > 0


def test_with_nothing_given_the_demonstration_set_stands_in() -> None:
    found = reproduce("ge/table3", limit=2)
    assert found.stands_in
    assert not found.not_run
    assert cell(found, "neither", "2wiki", "em") == cell(found, "neither", "musique", "em")


def test_every_row_of_ge_has_the_settings_that_the_recipe_names() -> None:
    table = recipe("ge/table3")
    given = UserInputs(Benchmarks())
    for row in table.rows:
        (job,) = jobs(table, row, "2wiki", None, given)
        settings = dict(job.settings)
        assert (settings["sample"], settings["confidence"]) == (True, "sentence")  # line 8; Eq. 3
        assert (settings["retrieve_below"], settings["keep_above"]) == (0.9, 0.8)  # ours, as the notes say
        assert row.settings.items() <= settings.items()
    assert any("k1 = 0.9 and k2 = 0.8" in note for note in table.notes)


def test_the_table_of_demonstrations_needs_no_run() -> None:
    found = reproduce("searchain/table8", {}, knows("nothing"))
    for number, cells in enumerate(found.cells):
        assert tuple(ours.value for ours in cells) == found.recipe.rows[number].figures


def test_a_corpus_that_is_missing_leaves_out_what_searches(folder: Path) -> None:
    given = {"hotpotqa": Benchmark({"dev": folder / "hotpotqa" / "dev.jsonl"})}
    found = reproduce("tor/table2", given, knows("Oslo"))
    assert cell(found, "direct", "hotpotqa", "em").value == 50.0
    assert "corpus" in cell(found, "tor", "hotpotqa", "em").why


# On the command line.


def test_the_list_names_all_and_what_can_run() -> None:
    result = run("list")
    assert result.exit_code == 0
    assert all(key in result.stdout for key in keys())
    recipes = json.loads(run("list", "--json").stdout)
    assert [row["key"] for row in recipes] == list(keys())
    assert next(row for row in recipes if row["key"] == "promptrank/table1")["runnable"] == 9


def test_a_table_in_the_terminal(folder: Path, tmp_path: Path) -> None:
    result = run("tor/table5", "--data", folder, "--limit", "1", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    for words in (
        "tor/table5",
        "Contriever",
        "ours: pocket",
        "#API",
        "16.9 · ",
        "w/o both",
        "notes",
        "none of them after",
    ):
        assert words in " ".join(result.output.split()), words
    assert "demonstration set" not in result.output
    kept = json.loads(run("tor/table5", "--data", folder, "--limit", "1", "--out", tmp_path / "out", "--json").stdout)
    assert (kept["key"], kept["lm"]) == ("tor/table5", "pocket")
    first = kept["rows"][0]["cells"][0]
    assert first["paper"] == {"value": 16.9, "std": None}
    assert first["ours"]["n"] == 1
    assert kept["columns"][-1] == {"dataset": "2wiki", "metric": "parsed", "lm": None}


@pytest.mark.slow
def test_offline_on_the_demonstration_set_and_it_says_so() -> None:
    result = run("tor/table3", "--lm", "pocket", "--limit", "2")
    assert result.exit_code == 0, result.output
    assert "the demo set is used" in result.output


def test_ours_is_shown_once_under_several_models_of_the_paper(folder: Path) -> None:
    result = run("tor/table1", "--data", folder, "--limit", "1")
    assert "GPT-4 · ours" in result.output
    assert "GPT-3.5 · ours" not in result.output


def test_wrong_names_are_errors_before_anything_runs(folder: Path) -> None:
    for arguments, words in (
        (("tor/table9",), "tor/table"),
        (("tor/table1", "--dataset", "hotpot=x"), "hotpotqa"),
        (("tor/table1", "--dataset", "hotpotqa/validation=x"), "train"),
        (("tor/table1", "--data", folder / "hotpotqa"), "no benchmark"),
        (("tor/table1", "--lm-for", "GPT4=pocket"), "GPT-4"),
    ):
        with pytest.raises((UnknownName, DataError), match=words):
            CliRunner().invoke(app, ["reproduce", *map(str, arguments)], catch_exceptions=False)


@pytest.mark.slow
@pytest.mark.shared
def test_on_real_questions(tmp_path: Path) -> None:
    for key in ("tor/table4", "resp/table1", "ge/table3", "promptrank/table4", "searchain/table2"):
        result = run(key, "--data", SHARED, "--limit", "1", "--out", tmp_path)
        assert result.exit_code == 0, result.output
        table = json.loads((tmp_path / f"{key.replace('/', '-')}.json").read_text())
        assert len(table["rows"]) == len(recipe(key).rows)
        for row in table["rows"]:
            for column, each in zip(table["columns"], row["cells"], strict=True):
                assert each["ours"]["value"] is not None or column["dataset"] == "strategyqa"
