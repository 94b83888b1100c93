"""Fitting the calibration of confidence on runs."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import orjson
import pytest

from polyhop import Passage, Question, ScriptedLM, evaluate
from polyhop.engine.calibration import ANY, features_of, logistic, read_calibration
from polyhop.errors import UsageError
from polyhop.evaluation.tuning import confidence
from polyhop.evaluation.tuning.confidence import fit_confidence
from tests.kit.terminal import Cli, cli

__all__ = ["cli"]


def rows(count: int = 400, *, seed: int = 0) -> list[dict[str, Any]]:
    """Answers of a method that is always too sure; the reading of their passages knows better."""
    draw = random.Random(seed)
    found = []
    for number in range(count):
        read = draw.random()
        signals = {"probability": draw.uniform(0.9, 1), "support": 0.5, "agrees": 1.0, "reading read": read}
        right = draw.random() < read
        found.append(
            {"id": str(number), "prediction": "x", "metrics": {"em": float(right)}, "support": "supported",
             "signals": signals}
        )  # fmt: skip
    return found


@pytest.mark.slow
def test_a_fit_is_better_calibrated_and_orders_better() -> None:
    fit = fit_confidence([("a", rows()), ("b", rows(seed=1))], "m")
    for method in fit.fits:
        (before, after), (error_before, error_after) = method.auroc, method.ece
        assert before and after and error_before and error_after  # noqa: PT018
        assert after[0] > 0.75 > 0.6 > before[0]
        assert error_after[0] < 0.1 < 0.3 < error_before[0]
        assert after[1] < after[0] < after[2]
    assert [method.method for method in fit.fits] == ["all", "a", "b"]
    assert set(fit.calibration.methods) == {ANY, "a", "b"}
    right, wrong = fit.supported
    assert 0.8 < right < 0.9
    assert wrong < right - 0.2
    assert fit.withheld[0] <= 0.03 < fit.withheld[1]


def test_a_method_with_few_answers_has_the_weights_of_all() -> None:
    fit = fit_confidence([("a", rows()), ("b", rows(20, seed=1))], "m")
    assert set(fit.calibration.methods) == set(fit.calibration.supported_from) == {ANY, "a"}


@pytest.fixture
def _few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals cost most of the time of a fit."""
    monkeypatch.setattr(confidence, "RESAMPLES", 2)


@pytest.mark.usefixtures("_few_resamples")
def test_unanswerable_questions_count_in_a_confidence_as_much_as_they_should() -> None:
    unknown = [row | {"id": f"u{row['id']}", "answers": [], "metrics": {"em": 0.0}} for row in rows(200, seed=2)]
    lines = [row | {"answers": ["x"]} for row in rows(200)] + unknown
    full, light, none = (fit_confidence([("a", lines)], "m", share).calibration for share in (1.0, 0.25, 0.0))
    sure = [logistic(fit.methods["a"], features_of({"support": 0.5}, "supported")) for fit in (full, light, none)]
    assert sure == sorted(sure)
    assert len(set(sure)) == 3
    assert full.reading == light.reading == none.reading


@pytest.mark.usefixtures("_few_resamples")
def test_other_wrong_answers_count_half_in_the_probability_of_support(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = [row | {"id": f"u{row['id']}", "answers": [], "metrics": {"em": 0.0}} for row in rows(200, seed=2)]
    lines = [row | {"answers": ["x"]} for row in rows(200)] + unknown
    half = fit_confidence([("a", lines)], "m").calibration.reading["constant"]
    monkeypatch.setattr(confidence, "PARTLY", 1.0)
    assert fit_confidence([("a", lines)], "m").calibration.reading["constant"] < half


@pytest.mark.usefixtures("_few_resamples")
def test_as_many_right_answers_are_doubted_as_may_be_by_cross_validation() -> None:
    noise = random.Random(3)
    lines = rows(120)
    for row in lines:  # of features that say nothing, a fit makes more on its own answers than on others
        row["signals"] |= {f"reading {number}": noise.gauss(0, 1) for number in range(20)}
    right, _ = fit_confidence([("a", lines)], "m").supported
    assert right == pytest.approx(1 - confidence.DOUBTED, abs=0.02)


@pytest.mark.parametrize("lines", [[], rows(20), [row | {"metrics": {"em": 1.0}} for row in rows(100)]])
def test_too_little_to_fit_on_is_an_error(lines: list[dict[str, Any]]) -> None:
    with pytest.raises(UsageError, match="nothing to fit on"):
        fit_confidence([("a", lines)], "m")


def test_the_verb_fits_runs_and_writes_a_file_that_ask_uses(cli: Cli, tmp_path: Path) -> None:
    passages = [Passage(f"p{n}", f"Mill {n}", f"Mill {n} was built in {1700 + n}.") for n in range(60)]
    asked = [Question(f"q{n}", f"When was Mill {n} built?", (str(1700 + n),)) for n in range(60)]

    def read(task: str, fields: Any) -> dict[str, Any]:
        number = int(fields["question"].split()[3])
        return {"answer": str(1700 + number) if number % 3 else "1900"}

    evaluate(asked, passages, "one-r", ScriptedLM(read), out=tmp_path / "run")
    out = tmp_path / "calibration.json"
    done = cli("tune", "confidence", tmp_path / "run", "--out", out)
    assert "AUROC before" in done.out
    calibration = read_calibration(out)
    assert calibration.methods["one-r"]["supported"] > 1  # a wrong answer stands in no passage
    assert orjson.loads(out.read_bytes())["model"] == calibration.model
