"""Questions without gold answers, in runs that let methods decline and in runs that do not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import polyhop
from polyhop import Passage, Question, ScriptedLM
from polyhop.errors import UsageError
from polyhop.evaluation.report import Report
from polyhop.evaluation.runs import evaluate_methods
from polyhop.evaluation.sweeps.sweep import sweep
from tests.kit.terminal import Cli, cli

__all__ = ["cli"]

QUESTIONS = [Question("1", "Who wrote Emma?", ("Jane Austen",)), Question("2", "Who filmed Emma?")]
FILE = '{"question": "Who wrote Emma?", "answer": "Jane Austen"}\n{"question": "Who filmed Emma?", "answers": []}\n'


def declining(task: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    allowed = fields.get("may_decline") and "filmed" in fields["question"]
    return {"answer": "unanswerable" if allowed else "Jane Austen"}


def find(query: str, k: int) -> list[Passage]:
    return [Passage("1", "Emma", "Emma is a novel by Jane Austen.")]


def metrics(report: Report) -> dict[str, tuple[float, int]]:
    return {name: (mean.value, mean.n) for name, mean in report.metrics.items() if name in MEASURED}


MEASURED = ("em", "musique.answer_em", "musique.answerability")


def test_a_question_without_gold_is_scored_by_the_abstention(tmp_path: Path) -> None:
    given: dict[str, Any] = {"method": "one-r", "lm": ScriptedLM(declining), "retriever": find, "out": tmp_path / "run"}
    report = polyhop.evaluate(QUESTIONS, **given, allow_unanswerable=True)
    assert metrics(report) == {
        "em": (1.0, 1), "musique.answer_em": (1.0, 1), "musique.answerability": (1.0, 2),
    }  # fmt: skip
    rows = [json.loads(line) for line in (tmp_path / "run" / "predictions.jsonl").read_text().splitlines()]
    assert [(row["prediction"], row["abstained"]) for row in rows] == [("Jane Austen", False), ("", True)]
    assert json.loads((tmp_path / "run" / "run.json").read_text())["allow_unanswerable"] is True
    with pytest.raises(UsageError, match="other settings: allow_unanswerable"):
        polyhop.evaluate(QUESTIONS, **given)


def test_without_the_option_it_is_left_out() -> None:
    report = polyhop.evaluate(QUESTIONS, method="one-r", lm=ScriptedLM(declining), retriever=find)
    assert metrics(report) == {"em": (1.0, 1)}


def test_several_methods_and_sweeps_score_it_alike(tmp_path: Path) -> None:
    common: dict[str, Any] = {"lm": ScriptedLM(declining), "retriever": find}
    several = evaluate_methods(["one-r", "direct"], QUESTIONS, **common, allow_unanswerable=True)
    assert {metrics(report)["musique.answerability"] for report in several.reports.values()} == {(1.0, 2)}
    run = {"dataset": QUESTIONS, "method": "one-r", **common, "cache": False}
    swept = sweep({"run": run, "grid": {"allow_unanswerable": [True, False]}}, tmp_path)
    assert [metrics(report)["musique.answerability"] for report in swept.reports.values()] == [(1.0, 2), (0.5, 2)]


def test_the_command_line_says_how_many_have_no_answer(tmp_path: Path, cli: Cli) -> None:
    path = tmp_path / "q.jsonl"
    path.write_text(FILE)
    asked = ("run", "--dataset", str(path), "--method", "direct")
    said = " ".join(cli(*asked).err.split())
    assert "1 of 2 questions have no gold answer, and EM and F1 leave them out: --allow-unanswerable lets" in said
    allowed = cli(*asked, "--allow-unanswerable")
    assert "no gold answer" not in allowed.err
    assert "musique.answerability" in allowed.out
    assert "no gold answer" not in cli(*asked, "--limit", "1").err
    path.write_text('{"question": "Who?"}\n')
    assert "no gold answer" not in cli(*asked).err
