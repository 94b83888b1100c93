"""The registry: names, settings and how bad ones are refused."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest

import polyhop
from polyhop.answer import Answer
from polyhop.errors import SettingError, UnknownName, UsageError
from polyhop.evaluation.runner import evaluate
from polyhop.methods.registry import method, method_named, methods
from polyhop.pipeline import Pipeline, ask


def test_the_room_is_callable() -> None:
    assert set(polyhop.methods()) >= {"tor", "cor", "direct", "cot", "one-r"}
    assert polyhop.methods()["tor"].settings["widths"].default == (5, 3, 3)


def test_no_setting_is_named_like_an_argument_of_ask_or_evaluate() -> None:
    taken = {
        name
        for function in (ask, evaluate, Pipeline.__init__, Pipeline.ask)
        for name, p in inspect.signature(function).parameters.items()
        if p.kind is not p.VAR_KEYWORD
    }
    for known in methods().values():
        assert not taken & set(known.settings), known.name


def test_every_method_says_what_it_is() -> None:
    for known in methods().values():
        assert known.summary.endswith((".", ")."))
        assert known.paper
        assert known.layers(known.resolve({})) >= known.answers(known.resolve({}))


@pytest.mark.parametrize(
    ("given", "resolved"),
    [
        ({"widths": "5,3"}, {"widths": (5, 3)}),
        ({"widths": [2]}, {"widths": (2,)}),
        ({"relevance_pruning": "false"}, {"relevance_pruning": False}),
        ({"shots": "0"}, {"shots": 0}),
        ({"expansion": "cot"}, {"expansion": "cot"}),
    ],
)
def test_settings_are_typed(given: dict[str, Any], resolved: dict[str, Any]) -> None:
    assert resolved.items() <= method_named("tor").resolve(given).items()


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"widths": "5,x"}, "widths"),
        ({"widths": ""}, "widths"),
        ({"widths": (0,)}, "greater than 0"),
        ({"widths": ()}, "at least 1"),
        ({"expansion": "magic"}, "'direct', 'cot' or 'mpc'"),
        ({"relevance_pruning": "perhaps"}, "relevance_pruning"),
        ({"shots": -1}, "greater than or equal to 0"),
    ],
)
def test_a_bad_value_is_refused(given: dict[str, Any], names: str) -> None:
    with pytest.raises(SettingError, match=names):
        method_named("tor").resolve(given)


def test_unknown_names_come_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"did you mean 'widths'\?"):
        method_named("tor").resolve({"width": 3})
    with pytest.raises(UnknownName, match=r"did you mean 'tor'\?"):
        method_named("tro")


def test_a_name_is_registered_once() -> None:
    async def other(question: str, run: Any) -> Answer:
        return Answer("")

    with pytest.raises(UsageError, match="already registered"):
        method("tor", paper="-", layers=lambda settings: 1)(other)
    with pytest.raises(UnknownName, match="need"):
        method("other", paper="-", layers=lambda settings: 1, needs=("magic",))


def test_their_order_is_the_same_whatever_was_imported_first() -> None:
    program = "import polyhop.methods.promptrank, polyhop; print(*polyhop.methods())"
    late = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert late.stdout.split()[:6] == ["tor", "cor", "ge", "resp", "searchain", "promptrank"]
