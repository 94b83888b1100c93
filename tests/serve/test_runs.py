"""Run folders as a server shows them: found by name, read again when they change, never trusted."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from polyhop.errors import DataError, PolyhopError, UnknownName, UsageError
from polyhop.evaluation.report import Report
from polyhop.evaluation.store import PREDICTIONS, read_report
from polyhop.serve import runs as served
from polyhop.serve.runs import Runs
from tests.kit.hostile_runs import ATTACKS, evil_run, plain_run


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    plain_run(folder / "set" / "one", wrong=[1, 2])
    plain_run(folder / "set" / "two", wrong=[2, 3])
    evil_run(folder / "evil")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """Two runs of a set that differ in two questions, and one of other questions, the newest."""
    shutil.copytree(made, tmp_path / "runs")
    for age, name in enumerate(("evil", "set/two", "set/one")):
        for file in (PREDICTIONS, "metrics.json"):
            os.utime(tmp_path / "runs" / name / file, (1_000_000 - age, 1_000_000 - age))
    return tmp_path / "runs"


def changed(folder: Path, at: int = 2_000_000) -> None:
    os.utime(folder / PREDICTIONS, (at, at))


def test_runs_are_found_in_nested_folders_newest_first(folder: Path) -> None:
    rows = Runs(folder).rows()
    assert [row["run"] for row in rows] == ["evil", "set:two", "set:one"]
    assert [row["finished"] for row in rows] == [True] * 3
    assert {row["method"] for row in rows} == {"one-r"}
    assert rows[1]["questions"] == 8
    assert rows[1]["metrics"]["em"]["value"] == 0.75
    assert "recall_mean@10" not in rows[1]["metrics"], "tables do not show it"


def test_a_folder_inside_a_run_and_one_too_deep_are_no_runs(folder: Path) -> None:
    plain_run(folder / "set" / "one" / "inside")
    plain_run(folder / "a" / "b" / "c" / "d")
    plain_run(folder / "a" / "b" / "c2")
    assert sorted(Runs(folder).folders()) == ["a:b:c2", "evil", "set:one", "set:two"]


@pytest.mark.parametrize("folder", [None, Path("/there/is/none")])
def test_without_a_folder_there_are_no_runs(folder: Path | None) -> None:
    assert Runs(folder).rows() == []
    with pytest.raises(UnknownName, match="There is no run to choose from"):
        Runs(folder).run("tor")


def test_a_run_has_its_settings_and_all_metrics(folder: Path) -> None:
    run = Runs(folder).run("set:one")
    assert run["settings"]["settings"]["k"] == 5
    assert run["metrics"]["recall_mean@10"]["value"] == 1
    assert run["errors"] == {"misread": 2}
    assert run["finished"]


def test_an_unfinished_run_is_shown_so_far(folder: Path) -> None:
    path = folder / "set" / "one" / PREDICTIONS
    runs = Runs(folder)
    assert runs.run("set:one")["questions"] == 8
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]) + b'{"id": "cut sho')
    changed(path.parent)
    run = runs.run("set:one")
    assert (run["questions"], run["finished"]) == (3, False)
    assert run["metrics"]["em"]["value"] == pytest.approx(1 / 3)
    (path.parent / "metrics.json").unlink()
    assert runs.rows()[0]["questions"] == 3


def test_questions_are_filtered_and_cut(folder: Path) -> None:
    runs = Runs(folder)

    def ids(**filters: Any) -> list[str]:
        return [row["id"] for row in runs.questions("set:one", **filters)["questions"]]

    assert ids(wrong=True) == ["q1", "q2"]
    assert ids(wrong=False) == ["q0", "q3", "q4", "q5", "q6", "q7"]
    assert ids(search="A GUESS") == ["q1", "q2"], "in the answer"
    assert ids(search="town 5") == ["q5"], "in the question"
    assert ids(search="river 1") == ["q1"], "in a gold answer"
    assert ids(search="nowhere") == []
    found = runs.questions("set:one", wrong=False, offset=1, limit=2)
    assert [row["id"] for row in found["questions"]] == ["q3", "q4"]
    assert (found["total"], found["offset"]) == (6, 1)
    assert found["questions"][0]["error"] is None


def test_questions_are_filtered_by_the_datasets_type(folder: Path) -> None:
    runs = Runs(folder)
    found = runs.questions("evil", type=ATTACKS[2])
    assert [row["question"] for row in found["questions"]] == [ATTACKS[2]]
    assert found["types"] == sorted(ATTACKS)
    assert runs.questions("set:one", type="bridge")["total"] == 0


def test_a_question_comes_with_its_answer_and_trace(folder: Path) -> None:
    found = Runs(folder).question("set:one", "q1")
    assert found["row"]["error"] == "misread"
    assert found["answer"]["answer"] == "a guess"
    assert [step["kind"] for step in found["trace"]["steps"]] == ["search", "ask"]
    with pytest.raises(UnknownName, match="unknown question of the run set:one 'q99'"):
        Runs(folder).question("set:one", "q99")


def test_a_trace_that_is_gone_leaves_the_rest(folder: Path) -> None:
    (folder / "set" / "one" / "traces" / "00001.json").unlink()
    found = Runs(folder).question("set:one", "q1")
    assert (found["answer"], found["trace"]) == (None, None)
    assert found["row"]["answer"] == "a guess"


@pytest.mark.parametrize("named", ["../secret.json", "/etc/hostname", "..", "", "traces/../../secret.json", None, 7])
def test_a_run_file_cannot_name_another_place(folder: Path, named: object) -> None:
    path = folder / "set" / "one" / PREDICTIONS
    (folder / "set" / "secret.json").write_text('{"trace": "secret"}')
    (folder / "set" / "one" / "secret.json").write_text('{"trace": "secret"}')
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**row, "trace": named}) + "\n" for row in rows))
    assert Runs(folder).question("set:one", "q1")["trace"] is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["../runs/evil", "set/one", "evil/", "/", "", ".", "..", "evil\0", "EVIL", "x" * 9999])
def test_a_name_is_looked_up_never_followed(folder: Path, name: str) -> None:
    runs = Runs(folder)
    for asked in (runs.run, runs.questions, lambda n: runs.compare("evil", n), lambda n: runs.frontier([n])):
        with pytest.raises(UnknownName) as caught:
            asked(name)
        assert len(str(caught.value)) < 500


def test_a_comparison_lists_the_flipped_questions(folder: Path) -> None:
    found = Runs(folder).compare("set:one", "set:two")
    assert [(row["id"], row["right"], row["first"], row["second"]) for row in found["flipped"]] == [
        ("q1", "second", "a guess", "river 1"),
        ("q3", "first", "river 3", "a guess"),
    ]
    assert found["flipped"][0]["answers"] == ["river 1"]
    em = found["metrics"]["em"]
    assert (em["first"], em["second"], em["better"], em["worse"], em["n"]) == (0.75, 0.75, 1, 1, 8)
    assert em["low"] < 0 < em["high"]
    assert em["p_bootstrap"] == 1.0
    assert "recall_mean@10" not in found["metrics"], "corrected for no more than is shown"


def test_runs_without_a_common_question_cannot_be_compared(folder: Path) -> None:
    with pytest.raises(UsageError, match="no question in common"):
        Runs(folder).compare("evil", "set:one")
    with pytest.raises(UsageError, match="no question in common"):
        Runs(folder).frontier([])


def test_the_frontier_is_a_standalone_picture(folder: Path) -> None:
    drawn = Runs(folder).frontier(["set:one", "set:two"], "tokens", "em")
    picture = ElementTree.fromstring(drawn)
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(picture.findall(".//{*}circle")) == 2
    assert [node.text for node in picture.findall("{*}title")] == ["EM by tokens"]
    assert picture.find("{*}style") is not None


def test_the_frontiers_metric_and_cost_must_be_known(folder: Path) -> None:
    with pytest.raises(UnknownName, match="metric of these runs"):
        Runs(folder).frontier(["set:one"], metric="beauty")
    with pytest.raises(UnknownName, match="cost"):
        Runs(folder).frontier(["set:one"], cost="patience")


def test_the_frontier_leaves_out_and_names_runs_without_the_metric(folder: Path) -> None:
    shutil.rmtree(folder / "evil")
    plain_run(folder / "bm25", method="bm25")
    plain_run(folder / "cot", method="cot")
    (folder / "set" / "two" / PREDICTIONS).write_text("{}\n")
    picture = ElementTree.fromstring(Runs(folder).frontier([]))
    assert [node.text for node in picture.findall("{*}title")] == ["F1 by calls"]
    assert len(picture.findall(".//{*}circle")) == 2, "set:two cannot be read"
    assert "left out, without F1: bm25" in [node.text for node in picture.iter()]
    rows = {row["run"]: row["metrics"] for row in Runs(folder).rows() if "error" not in row}
    assert "recall_mean@5" in rows["bm25"]
    assert "recall_mean@5" not in rows["cot"], "it ranked nothing"


@pytest.mark.slow
@pytest.mark.parametrize("name", list("ab"))
def test_code_in_a_run_is_text_in_the_picture(tmp_path: Path, name: str) -> None:
    plain_run(tmp_path / '<script>alert("x")<' / name)
    drawn = Runs(tmp_path).frontier([f'<script>alert("x")<:{name}'])
    assert not ElementTree.fromstring(drawn).findall(".//{*}script")


BROKEN: dict[str, dict[str, str]] = {
    "settings that are none": {"run.json": "{"},
    "settings of another form": {"run.json": "[]"},
    "settings without a method": {"run.json": "{}"},
    "lines that are none": {PREDICTIONS: "{}\n"},
    "lines of another form": {PREDICTIONS: '{"id": "q1", "metrics": {}}\n'},
    "metrics of words": {PREDICTIONS: '{"id": "q1", "metrics": {"em": "much"}, "statistics": {}, "usage": {}}\n'},
    "figures that are none": {"metrics.json": "NaN"},
    "figures of another form": {"metrics.json": '{"metrics": 7}'},
}


def raised(ask: Callable[[str], object], name: str) -> PolyhopError | None:
    try:
        ask(name)
    except PolyhopError as error:
        return error
    return None


@pytest.mark.slow
@pytest.mark.parametrize("files", BROKEN.values(), ids=BROKEN)
def test_a_damaged_run_is_named_and_hides_no_other(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / "set" / "two" / name).write_text(text)
    if PREDICTIONS not in files:
        os.utime(folder / "set" / "two" / "metrics.json", (2_000_000, 2_000_000))
    runs = Runs(folder)
    asked: tuple[Callable[[str], object], ...] = (
        runs.run,
        runs.questions,
        lambda name: runs.question(name, "q1"),
        lambda name: runs.compare("set:one", name),
        lambda name: runs.frontier(["set:one", name]),
    )
    errors = [error for ask in asked if (error := raised(ask, "set:two"))]
    assert {type(error) for error in errors} <= {DataError}
    assert all("set:two cannot be read" in str(error) for error in errors)
    assert not any(str(folder) in str(error) for error in errors), "no path is shown to a client"
    by_name = {row["run"]: row for row in runs.rows()}
    assert errors or "error" in by_name["set:two"]
    assert by_name["set:one"]["questions"] == 8


def test_a_run_of_no_question_yet(folder: Path) -> None:
    (folder / "set" / "two" / PREDICTIONS).write_text("")
    changed(folder / "set" / "two")
    runs = Runs(folder)
    assert runs.run("set:two")["questions"] == 0
    assert runs.questions("set:two")["total"] == 0
    with pytest.raises(UsageError):
        runs.frontier(["set:two"])


def test_the_number_of_runs_in_memory_is_limited(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[Path] = []

    def counted(path: Path) -> Report:
        reads.append(path)
        return read_report(path)

    monkeypatch.setattr(served, "KEPT", 2)
    monkeypatch.setattr(served, "read_report", counted)
    runs = Runs(folder)
    for name in ("evil", "set:one", "evil", "set:two", "evil", "set:one"):
        runs.questions(name)
    assert [path.name for path in reads] == ["evil", "one", "two", "one"]
