"""The classifier of ``route``: labels as Adaptive-RAG makes them, and a file that the method reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from polyhop.errors import UsageError
from polyhop.evaluation.runner import evaluate
from polyhop.evaluation.tuning.route import fit_route, label_of
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods.baselines.route import classified, read_classifier
from polyhop.types import Passage, Question
from tests.kit.terminal import Cli, cli

__all__ = ["cli"]


def row(right: bool, hops: int | None = None, text: str = "Who?", name: str = "q") -> dict[str, Any]:
    return {"id": name, "question": text, "hops": hops, "metrics": {"em": float(right)}}


@pytest.mark.parametrize(
    ("right", "hops", "label"),
    [
        ((True, True, True), 4, "none"),
        ((False, True, False), 4, "single"),
        ((False, False, True), 1, "multi"),
        ((False, False, False), 1, "single"),
        ((False, False, False), 3, "multi"),
        ((False, False, False), None, None),
    ],
)
def test_the_label_is_the_simplest_strategy_that_is_right(right: Any, hops: int | None, label: str | None) -> None:
    assert label_of([row(each, hops) for each in right]) == label


def runs(count: int) -> list[tuple[str, list[dict[str, Any]]]]:
    """Three runs: questions that ask who are answered by one retrieval, those that ask which by several."""
    texts = [f"Who made Mill {n}?" if n % 2 else f"Which of the Mills {n} and {n + 1} is older?" for n in range(count)]
    right = {"direct": (), "one-r": ("Who",), "ircot": ("Who", "Which")}
    return [
        (name, [row(text.startswith(begins), None, text, f"q{n}") for n, text in enumerate(texts)])
        for name, begins in right.items()
    ]


def test_questions_that_differ_in_words_are_told_apart() -> None:
    fit = fit_route(runs(60))
    assert (fit.labels, fit.accuracy) == ({"none": 0, "single": 30, "multi": 30}, 1.0)
    asked = ("Who made the Mary Rose?", "Which of the two is older, the Vasa or the Mary Rose?")
    assert [classified(text, fit.strategies) for text in asked] == ["single", "multi"]


@pytest.mark.parametrize(
    ("given", "message"),
    [(runs(60)[:2], "three"), (runs(20), "nothing to fit"), ([runs(60)[2]] * 3, "nothing to fit")],
)
def test_runs_that_teach_nothing_are_refused(given: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        fit_route(given)


def test_the_verb_writes_a_file_that_the_method_reads(cli: Cli, tmp_path: Path) -> None:
    asked = [Question(f"q{n}", text["question"], ("yes",)) for n, text in enumerate(runs(60)[0][1])]
    passages = [Passage("p", "Mill", "A mill.")]
    for name, right in {"direct": (), "one-r": ("Who",), "ircot": ("Who", "Which")}.items():

        def reply(task: str, fields: Any, right: tuple[str, ...] = right) -> dict[str, Any]:
            answer = "yes" if fields["question"].startswith(right) else "no"
            return {"answer": answer, "sentence": f"So the answer is {answer}."}

        evaluate(asked, passages, name, ScriptedLM(reply), out=tmp_path / name)
    out = tmp_path / "route.json"
    done = cli("tune", "route", *(tmp_path / name for name in ("direct", "one-r", "ircot")), "--out", out)
    assert "labels: none 0, single 30, multi 30; predicted 100 %" in done.out
    assert json.loads(out.read_text())["methods"] == ["direct", "one-r", "ircot"]
    assert classified("Who made it?", read_classifier(str(out))) == "single"
