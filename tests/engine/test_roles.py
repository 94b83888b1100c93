"""Options of one role or task: temperature, token cap and head-room."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from polyhop import Pipeline, Question, ScriptedLM, evaluate
from polyhop.errors import UsageError
from polyhop.evaluation.sweeps.sweep import sweep
from polyhop.serve.requests import AskRequest
from polyhop.serve.service import Service
from tests.kit.openai_server import FakeServer, in_thread
from tests.kit.terminal import Cli, cli

__all__ = ["cli"]

RIGHT = "The answer is Rome."
ONE = [Question("q", "Who?", answers=("Rome",))]


def asked(**options: Any) -> tuple[float, int]:
    """Return temperature and token cap of a call of ``cot``."""
    model = ScriptedLM({"answer.cot": RIGHT})
    with Pipeline(method="cot", lm=model, **options) as pipeline:
        pipeline.ask("Who?")
    return model.calls[0].temperature, model.calls[0].max_tokens


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({}, (0.0, 256)),
        ({"generator": {"temperature": 0.3}}, (0.3, 256)),
        ({"default": {"temperature": 0.3}, "answer.cot": {"temperature": 0.5}}, (0.5, 256)),
        ({"generator": {"max_tokens_per_call": 900}}, (0.0, 900)),
        ({"answer.cot": {"reasoning_tokens": 44}}, (0.0, 300)),
        ({"answer.read": {"temperature": 0.3}}, (0.0, 256)),
    ],
)
def test_the_most_specific_option_is_used(options: dict[str, Any], sent: tuple[float, int]) -> None:
    assert asked(role_options=options) == sent


def test_an_option_of_a_role_replaces_that_of_all() -> None:
    assert asked(max_tokens_per_call=500, role_options={"generator": {"max_tokens_per_call": 900}})[1] == 900
    assert asked(reasoning_tokens=500, role_options={"generator": {"reasoning_tokens": 0}})[1] == 256


def test_the_temperature_of_a_methods_samples_remains() -> None:
    model = ScriptedLM({"answer.cot": RIGHT})
    role_options = {"generator": {"temperature": 0.1}}
    with Pipeline(method="cot-sc", lm=model, samples=2, temperature=0.9, role_options=role_options) as pipeline:
        pipeline.ask("Who?")
    assert [call.temperature for call in model.calls] == [0.9, 0.9]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"genrator": {"temperature": 1}}, "role or task 'genrator'; did you mean 'generator'"),
        ({"generator": {"heat": 1}}, "option of the role generator 'heat'"),
        ({"generator": {"temperature": -1}}, "generator.temperature=-1: must be a number of at least 0"),
        ({"generator": {"temperature": "hot"}}, "generator.temperature='hot': must be"),
        ({"generator": {"max_tokens_per_call": 0}}, "must be a number of at least 1"),
        ({"generator": {"max_tokens_per_call": True}}, "must be a number of at least 1"),
        ({"generator": {"reasoning_tokens": 0.5}}, "must be a number of at least 0"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        asked(role_options=options)


def test_the_command_line_sweeps_and_run_json_have_them(cli: Cli, tmp_path: Path) -> None:
    with in_thread(FakeServer(RIGHT)) as server:
        lm = f"openai:tiny@{server.url}"
        done = cli("ask", "Who?", "--method", "cot", "--lm", lm, "--role-option", "generator.temperature=0.3")
        assert done.code == 0, done.err
        run = {"dataset": ONE, "method": "cot", "lm": lm}
        sweep({"run": run, "grid": {"role_options": [{"generator": {"temperature": t}} for t in (0.4, 0.5)]}}, tmp_path)
        assert [received.body["temperature"] for received in server.requests] == [0.3, 0.4, 0.5]
    assert cli("ask", "Who?", "--method", "cot", "--role-option", "temperature=0.3").code == 2
    evaluate(ONE, method="cot", lm=ScriptedLM({"answer.cot": RIGHT}), out=tmp_path / "run", role_options={
        "generator": {"temperature": 0.3},
    })  # fmt: skip
    assert json.loads((tmp_path / "run" / "run.json").read_text())["role_options"] == {
        "generator": {"temperature": 0.3}
    }


async def test_a_service_has_them() -> None:
    model = ScriptedLM({"answer.cot": RIGHT})
    options = {"generator": {"temperature": 0.3}}
    service = Service({"demo": None}, method="cot", lm=model, role_options=options, reasoning_tokens=10)
    await service.ask(AskRequest(question="Who?"))
    assert [(call.temperature, call.max_tokens) for call in model.calls] == [(0.3, 266)]
    await service.aclose()
