"""Which questions: conditions are parsed, never evaluated."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import polyhop
from polyhop import ScriptedLM
from polyhop.errors import UnknownName, UsageError
from polyhop.evaluation.report import where
from polyhop.trace import Usage
from tests.evaluation.test_compare import QUESTIONS
from tests.kit.reports import report, row
from tests.kit.terminal import Cli, cli

__all__ = ["cli"]

ROWS: list[dict[str, Any]] = [
    row(
        "a",
        {"em": 1, "recall_all@2": 1},
        statistics={"corrected": 2, "graph accuracy": 1.0},
        type="bridge",
        passages=["p1", "p2", "p3"],
        gold={"ids": ["p1", "p3"]},
        supported=True,
        usage=Usage(calls=3),
    ),
    row("b", {"em": 0}, statistics={"corrected": 0}, type="bridge", passages=["p1"], gold={"ids": ["p1", "p3"]}),
    row(
        "c", {"em": 0}, statistics={}, type="comparison", titles=["Alien"], gold={"titles": ["Alien"]}, supported=False
    ),
    row("d", {"em": 1}, statistics={"corrected": 1}, type=None, usage=Usage(calls=9)),
]


def kept(*conditions: str) -> str:
    return "".join(each["id"] for each in where({"run": report(ROWS)}, conditions)["run"].rows)


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("corrected > 0", "ad"),
        ("corrected>=2", "a"),
        ("corrected != 0", "ad"),
        ("corrected", "ad"),
        ("corrected < 1", "b"),
        ("corrected <= 1", "bd"),
        ("graph accuracy = 1", "a"),
        ("recall_all@2 = 1", "a"),
        ("em == 0", "bc"),
        ("type = bridge", "ab"),
        ("type = 'bridge'", "ab"),
        ("type != bridge", "c"),
        ("passages > 2", "a"),
        ("supported", "a"),
        ("supported = no", "c"),
        ("supported = true", "a"),
        ("calls > 2", "ad"),
        ("gold in reach", "ac"),
        ("gold in reach = false", "b"),
    ],
)
def test_conditions(condition: str, ids: str) -> None:
    assert kept(condition) == ids


def test_all_conditions_must_hold_and_the_first_run_decides() -> None:
    assert kept("corrected > 0", "calls > 3") == "d"
    other = report([{**each, "statistics": {}} for each in ROWS])
    runs = where({"first": report(ROWS), "second": other}, ["corrected > 0"])
    assert [[each["id"] for each in found.rows] for found in runs.values()] == [["a", "d"]] * 2


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("", "not a condition"),
        ("> 3", "not a condition"),
        ("corrected >", "not a condition"),
        ("corrected > 1 > 0", "not a condition"),
        ("corected > 1", "did you mean 'corrected'?"),
        ("type > bridge", "type is a word"),
        ("corrected > many", "'many' is not"),
        ("corrected > 100", "no question is left"),
        ("__import__('os').system('true')", "unknown key"),
    ],
)
def test_wrong_conditions_are_named(condition: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        kept(condition)


@given(st.text(max_size=30) | st.from_regex(r"(em|corrected|type|gold in reach) ?[<>=!]{1,2} ?\S{0,5}", fullmatch=True))
def test_any_text_keeps_some_questions_or_is_refused(condition: str) -> None:
    with contextlib.suppress(UsageError):
        assert kept(condition)


def test_an_unknown_key_lists_those_there_are() -> None:
    with pytest.raises(UnknownName, match=r"calls.*corrected.*em.*gold in reach"):
        kept("nothing like it")


def test_report_where(cli: Cli, tmp_path: Path) -> None:
    answers = ScriptedLM(lambda task, fields: {"answer": "answer 3"})
    polyhop.evaluate(QUESTIONS, method="cot", lm=answers, out=tmp_path / "run")
    done = cli("report", tmp_path / "run", "--where", "em = 1")
    assert "1 question" in done.out
    (em,) = [line.split() for line in done.out.splitlines() if line.startswith("EM")]
    assert em == ["EM", "100.0", "100.0", "…", "100.0", "1"]
    assert "no question is left" in cli("report", tmp_path / "run", "--where", "em > 1").err
