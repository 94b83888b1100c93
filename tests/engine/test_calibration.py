"""Calibrated confidence: a probability that the answer is right, never certainty because one path was accepted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from polyhop import Passage, Pipeline, Question, ScriptedLM, evaluate
from polyhop.answer import NO_ANSWER, Answer, in_words
from polyhop.common.odds import log_odds
from polyhop.engine.calibration import (
    ANY,
    SUPPORTED_FROM,
    Calibration,
    features_of,
    logistic,
    open_calibration,
    read_calibration,
)
from polyhop.errors import DataError, UsageError
from polyhop.types import BlindReading

MILL = Passage("mill", "Hollum mill", "The mill at Hollum was built in 1731 by Ann Lee.")
QUESTION = "In which year was the mill at Hollum built?"
CONTENT: dict[str, Any] = {
    "model": "scripted",
    "withhold_below": None,
    "supported_from": 0.5,
    "reading": {},
    "methods": {"one-r": {"constant": -1.0, "supported": 2.0}, ANY: {"constant": -2.0}},
}


def file_of(folder: Path, **changes: Any) -> Path:
    file = folder / "calibration.json"
    file.write_bytes(orjson.dumps(CONTENT | changes))
    return file


def model(answer: str = "1731") -> ScriptedLM:
    return ScriptedLM({"answer.read": {"answer": answer}, "answer.cot": {"answer": answer}})


def test_confidence_is_the_probability_of_the_fitted_model(tmp_path: Path) -> None:
    with Pipeline([MILL], "one-r", model(), calibration=file_of(tmp_path)) as pipeline:
        assert pipeline.ask(QUESTION).confidence == pytest.approx(logistic({"x": 1.0}, {"x": 1.0}))  # -1 + 2
    with Pipeline([MILL], "one-r", model("1745"), calibration=file_of(tmp_path)) as pipeline:
        assert pipeline.ask(QUESTION).confidence == pytest.approx(logistic({"x": -1.0}, {"x": 1.0}))
    with Pipeline(
        [MILL], "cot", model(), calibration=file_of(tmp_path)
    ) as pipeline:  # a method without its own weights
        assert pipeline.ask(QUESTION).confidence == pytest.approx(logistic({"x": -2.0}, {"x": 1.0}))
    with Pipeline([MILL], "one-r", model("unknown"), calibration=file_of(tmp_path)) as pipeline:
        assert pipeline.ask(QUESTION).confidence is None


def test_an_answer_below_the_threshold_is_withheld_except_in_a_run(tmp_path: Path) -> None:
    file = file_of(tmp_path, withhold_below=0.9)
    with Pipeline([MILL], "one-r", model(), calibration=file) as pipeline:
        answer = pipeline.ask(QUESTION)
        assert (answer.text, answer.abstained, in_words(answer)) == ("", True, NO_ANSWER)
        assert [passage.id for passage in answer.not_cited] == ["mill"]
    with Pipeline([MILL], "one-r", model(), calibration=file, abstain_below=0) as pipeline:
        assert pipeline.ask(QUESTION).text == "1731"
    asked = [Question("q", QUESTION, ("1731",))]
    report = evaluate(asked, [MILL], "one-r", model(), calibration=file)
    assert report.rows[0]["prediction"] == "1731"  # the best guess counts
    report = evaluate(asked, [MILL], "one-r", model(), calibration=file, allow_unanswerable=True)
    assert report.rows[0]["abstained"]


async def test_one_accepted_path_is_not_certain() -> None:
    review = {"relevant": True, "supported": True, "answer": "1731", "analysis": "It says so."}
    lm = ScriptedLM({"tor.review": review, "tor.fuse": {"answer": "1731"}})
    async with Pipeline([MILL], "tor", lm, widths=(1,)) as pipeline:
        answer = await pipeline.aask(QUESTION)
    assert answer.confidence == pytest.approx(2 / 3)


def test_support_is_by_the_features_of_the_reading() -> None:
    calibration = Calibration("m", {}, {"constant": -1.0, "read": 3.0})
    assert calibration.support(BlindReading("x", 0.1, features={"read": 1.0})) == pytest.approx(
        logistic({"x": 2}, {"x": 1})
    )
    assert calibration.support(BlindReading("x", 0.1)) == 0.1
    assert Calibration("m", {}).support(BlindReading("x", 0.1, features={"read": 1.0})) == 0.1


def test_the_threshold_of_support_is_that_of_the_method(tmp_path: Path) -> None:
    by_method = read_calibration(file_of(tmp_path, supported_from={"tor": 0.7, ANY: 0.4}))
    assert [by_method.support_threshold(name) for name in ("tor", "hops")] == [0.7, 0.4]
    assert read_calibration(file_of(tmp_path, supported_from=0.3)).support_threshold("tor") == 0.3  # one for all
    assert Calibration("m", {}).support_threshold("tor") == SUPPORTED_FROM
    for least, support in ((0.9, "not verified"), (0.1, "supported")):
        file = file_of(
            tmp_path, model="pocket", reading={"constant": 0.0}, supported_from={"one-r": least, ANY: 1 - least}
        )
        with Pipeline([MILL], "one-r", "pocket", calibration=file, abstain_below=0) as pipeline:
            assert pipeline.ask(QUESTION).support == support


def test_what_a_confidence_is_made_of() -> None:
    found = features_of({"probability": 0.9, "agreement": 0.75, "support": 0.2, "agrees": 1.0}, "not verified")
    assert (found["probability"], found["support"]) == (log_odds(0.9, 0.99), log_odds(0.2, 0.99))
    assert (found["agreement"], found["no probability"], found["disagrees"]) == (0.75, 0.0, 0.0)
    found = features_of({"support": 0.9, "agrees": 0.0}, "contradicted")
    assert (found["support"], found["disagrees"], found["contradicted"], found["no probability"]) == (0, 1, 1, 1)
    assert log_odds(1.0, 0.99) == -log_odds(0.0, 0.99) < 5
    assert features_of({}, "supported")["supported"] == 1  # by words or by a model, whose reading has no probability


@pytest.mark.parametrize(
    "content", [b"[]", b"{", b'{"model": "x"}', orjson.dumps(CONTENT | {"methods": {"a": {"b": "c"}}})]
)
def test_a_file_that_is_no_calibration_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "c.json"
    file.write_bytes(content)
    with pytest.raises(DataError, match="not a calibration"):
        read_calibration(file)
    with pytest.raises(DataError, match="cannot be read"):
        read_calibration(tmp_path / "none.json")


def test_a_calibration_is_of_one_model(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="calibrates scripted, not gpt"):
        open_calibration(file_of(tmp_path), "gpt")
    assert open_calibration(None, "gpt") is None
    shipped = open_calibration(None, "pocket")
    assert shipped is not None
    assert shipped.fingerprint is None
    assert ANY in shipped.methods
    sure = shipped.confidence("hops", Answer("x", signals={"support": 0.99, "agrees": 1.0}, support="supported"))
    unsure = shipped.confidence("hops", Answer("x", signals={"support": 0.02, "agrees": 1.0}))
    assert sure is not None
    assert unsure is not None
    assert 0 < unsure < sure < 1
