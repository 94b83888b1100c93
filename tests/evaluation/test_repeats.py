"""Runs with several seeds: mean and deviation over them, one folder each, and whether anything was drawn at all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from polyhop import ScriptedLM, evaluate
from polyhop.errors import DataError, SettingError
from polyhop.evaluation.repeats import Repeated, evaluate_repeated, is_repeated, read_repeated
from polyhop.lm.base import Capabilities, Completion, Request
from tests.cli.test_cli import questions
from tests.evaluation.test_compare import QUESTIONS
from tests.kit.reports import report, row, scored
from tests.kit.terminal import Cli, cli

__all__ = ["cli", "questions"]


class Drawing:
    """Right where the question's number and the seed are both even or both odd."""

    name = "drawing"
    capabilities = Capabilities(seed=True)

    def __init__(self) -> None:
        self.seeds: list[int | None] = []

    async def complete(self, request: Request) -> Completion:
        self.seeds.append(request.seed)
        number = int(request.fields["question"][-2])
        right = request.seed is not None and number % 2 == request.seed % 2
        return Completion(text="", value={"answer": f"answer {number}" if right else "a guess"})


def test_mean_deviation_and_interval_by_hand() -> None:
    runs = Repeated({0: scored(a=1, b=0, c=1, d=1), 1: scored(a=1, b=0, c=0, d=0), 2: scored(a=1, b=0, c=0, d=1)})
    em = runs.metrics()["em"]
    assert em.mean == pytest.approx(0.5)
    assert em.std == pytest.approx(0.25)  # of 3/4, 1/4, 2/4
    assert 0 <= em.low < 0.5 < em.high <= 1
    assert em.n == 4
    assert not runs.identical


def test_only_metrics_of_all_runs_are_reported() -> None:
    first = report([row("a", {"em": 1}, statistics={"rounds": 2}), row("b", {"em": 1, "f1": 1})])
    second = report([row("a", {"em": 0}, statistics={"rounds": 4})])
    runs = Repeated({0: first, 1: second})
    assert {name: (each.mean, each.n) for name, each in runs.metrics().items()} == {"em": (0.5, 1)}
    assert runs.statistics()["rounds"].mean == 3.0
    assert runs.statistics()["rounds"].std == pytest.approx(2**0.5)


def test_every_seed_has_its_run_and_its_folder(tmp_path: Path) -> None:
    lm = Drawing()
    runs = evaluate_repeated(3, QUESTIONS, None, "cot", lm, out=tmp_path / "runs", seed=4)
    assert list(runs.reports) == [4, 5, 6]
    assert lm.seeds.count(4) == lm.seeds.count(5) == lm.seeds.count(6) == 6
    assert sorted(folder.name for folder in (tmp_path / "runs").iterdir()) == ["seed-4", "seed-5", "seed-6"]
    assert not runs.identical
    assert runs.metrics()["em"].mean == pytest.approx(0.5)
    assert runs.metrics()["em"].std == 0.0  # each seed is right on half of them, but not on the same half
    again = Drawing()
    assert (
        evaluate_repeated(3, QUESTIONS, None, "cot", again, out=tmp_path / "runs", seed=4).metrics() == runs.metrics()
    )
    assert not again.seeds
    assert is_repeated(tmp_path / "runs")
    assert not is_repeated(tmp_path / "runs" / "seed-4")
    assert read_repeated(tmp_path / "runs").metrics() == runs.metrics()
    alone = evaluate(QUESTIONS, None, "cot", Drawing(), seed=5)
    assert [each["prediction"] for each in alone.rows] == [each["prediction"] for each in runs.reports[5].rows]


def test_repeats_without_a_draw_are_identical() -> None:
    runs = evaluate_repeated(2, QUESTIONS, None, "cot", ScriptedLM(lambda task, fields: {"answer": "answer 3"}))
    assert runs.identical
    assert runs.to_dict()["identical"] is True
    assert runs.metrics()["em"].std == 0.0


def test_wrong_repeats_are_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="repeat=1"):
        evaluate_repeated(1, QUESTIONS, None, "cot", "pocket")
    with pytest.raises(DataError, match="no repeated run"):
        read_repeated(tmp_path)


def test_run_repeat_and_its_report(cli: Cli, questions: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    arguments = ("run", "--dataset", questions, "--method", "cot", "--out", out, "--repeat", "2")
    done = cli(*arguments)
    assert done.code == 0, done.err
    assert done.out.startswith("over seeds 0, 1")
    assert "all repeats are equal" in done.err
    assert cli("report", out).out == done.out
    found = json.loads(cli("report", out, "--format", "json").out)
    assert set(found) == {"runs", "identical", "metrics", "statistics"}
    assert found["metrics"]["em"]["std"] == 0.0
    both = cli("compare", out, "--json")  # the repeats beside each other
    assert json.loads(both.out)["baseline"] == f"{out}/seed-0"
    assert "name one" in cli(*arguments, "--method", "cot,direct").err
