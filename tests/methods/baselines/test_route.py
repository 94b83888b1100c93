"""Adaptive-RAG's router: who decides, what is called, and what a strategy is given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from polyhop.answer import Answer
from polyhop.errors import DataError, UsageError
from polyhop.lm.base import Capabilities
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods.baselines.route import STRATEGIES, classified, features_of
from polyhop.methods.registry import method_named
from polyhop.pipeline import Pipeline
from tests.kit.scene import names, notes
from tests.kit.scripted_run import play, sure

HITS = {"Q": "a b c"}
SAID: dict[str, Any] = {
    "answer.direct": {"answer": "Paris"},
    "answer.read": {"answer": "Oslo"},
    "cot.sentence": {"sentence": "So the answer is Rome."},
    "answer.read_cot": {"answer": "Rome"},
}


def choosing(strategy: str) -> dict[str, Any]:
    return {"route.choose": f"Strategy: {strategy}", **SAID}


def strategy(answer: Answer) -> str:
    return next(name for name in STRATEGIES if answer.statistics[name])


def tasks(model: ScriptedLM) -> list[str]:
    return [call.task for call in model.calls]


@pytest.mark.parametrize(
    ("named", "text", "called", "searches"),
    [
        ("none", "Paris", ["answer.direct"], 0),
        ("single", "Oslo", ["answer.read"], 1),
        ("multi", "Rome", ["cot.sentence", "answer.read_cot"], 1),
    ],
)
async def test_the_strategy_that_is_named_answers(named: str, text: str, called: list[str], searches: int) -> None:
    answer, model = await play("route", choosing(named), hits=HITS)
    assert (answer.text, tasks(model), len(answer.trace.searches)) == (text, ["route.choose", *called], searches)
    assert strategy(answer) == named
    assert notes(answer) == [
        ("route", {"strategy": named, "method": ("direct", "one-r", "ircot")[STRATEGIES.index(named)]})
    ]


async def test_any_method_is_a_strategy_and_takes_the_settings_it_shares() -> None:
    said = {**choosing("multi"), "self_ask.turn": ["Follow up: Q", "So the final answer is: Bergen."]}
    answer, model = await play("route", said, hits=HITS, multi="self-ask", k=2, shots=1)
    assert (answer.text, names(model.calls[-1].fields["passages"])) == ("Bergen", "a b")
    assert [sum(turn["role"] == "assistant" for turn in call.messages) for call in model.calls] == [1, 1, 1]


async def test_what_cannot_be_read_or_paid_is_one_retrieval() -> None:
    answer, _ = await play("route", choosing("perhaps"), hits=HITS)
    assert (answer.text, strategy(answer)) == ("Oslo", "single")
    answer, model = await play("route", choosing("multi"), hits=HITS, max_calls=1)
    assert (answer.text, tasks(model), answer.trace.budget) == ("Oslo", ["answer.read"], "max_calls")


@pytest.mark.parametrize(
    ("logprob", "expected", "calls"), [(-0.05, "none", 1), (-0.5, "single", 2), (-2.0, "multi", 3)]
)
async def test_by_confidence_the_first_answer_decides(logprob: float, expected: str, calls: int) -> None:
    able = Capabilities(token_logprobs=True)
    answer, model = await play(
        "route", {**SAID, "answer.direct": sure("Paris", logprob)}, hits=HITS, by="confidence", capabilities=able
    )
    assert (strategy(answer), len(model.calls)) == (expected, calls)
    assert (answer.text == "Paris") is (expected == "none")


async def test_by_confidence_a_refusal_is_not_sure() -> None:
    able = Capabilities(token_logprobs=True)
    said = {**SAID, "answer.direct": sure("unknown", -0.01)}
    answer, _ = await play("route", said, hits=HITS, by="confidence", capabilities=able)
    assert strategy(answer) == "multi"


# --- the classifier -----------------------------------------------------------------------------------------------

WEIGHTS: Any = {"none": {"constant": 0.1}, "single": {"who": 1.0}, "multi": {"names": 0.5}}


def test_the_highest_of_three_scores_decides() -> None:
    assert [classified(text, WEIGHTS) for text in ("What is it?", "Who is it?", "Is Ann Lee older than Bob?")] == [
        "none", "single", "multi",
    ]  # fmt: skip
    assert set(features_of("a")) == set(features_of("Who wrote The Trial?"))


async def test_by_classifier_no_call_decides(tmp_path: Path) -> None:
    path = tmp_path / "route.json"
    path.write_text(json.dumps({"strategies": WEIGHTS}))
    answer, model = await play("route", SAID, hits={"Who is it?": "a"}, question="Who is it?", by="classifier",
                               classifier=str(path))  # fmt: skip
    assert (strategy(answer), tasks(model)) == ("single", ["answer.read"])


@pytest.mark.parametrize("text", ["{", "{}", '{"strategies": {"none": 1}}', None])
async def test_a_file_that_holds_no_classifier_is_named(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "route.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(DataError, match="classifier") as raised:
        await play("route", SAID, hits=HITS, by="classifier", classifier=str(path))
    assert str(path) in str(raised.value)


# --- needs --------------------------------------------------------------------------------------------------------


def test_the_needs_and_layers_are_those_of_the_strategies() -> None:
    known = method_named("route")
    assert set(known.needs(known.resolve({}))) == {"retriever"}
    assert set(known.needs(known.resolve({"multi": "flare"}))) == {"retriever", "token_logprobs:cot.sentence"}
    assert known.layers(known.resolve({"multi": "self-ask", "max_turns": 2})) == 1 + 3
    assert known.layers(known.resolve({"by": "classifier", "classifier": "f", "multi": "self-ask"})) == 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"multi": "route"}, "another method"),
        ({"multi": "ircott"}, "did you mean 'ircot'"),
        ({"by": "classifier"}, "tune route"),
        ({"classifier": "f"}, "by=classifier"),
    ],
)
def test_what_does_not_fit_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Pipeline(method="route", lm=ScriptedLM({}), retriever=lambda query, k: [], **settings)
