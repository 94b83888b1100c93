"""Accuracy against cost: which runs no other beats, on hand-made runs and as a property."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import polyhop
from polyhop import ScriptedLM
from polyhop.engine.prices import Prices
from polyhop.errors import SettingError, UnknownName, UsageError
from polyhop.evaluation.frontier import COSTS, frontier
from polyhop.evaluation.report import Report
from polyhop.trace import Usage
from tests.evaluation.test_compare import QUESTIONS
from tests.kit.rows import report, row
from tests.kit.terminal import Cli, cli

__all__ = ["cli"]


def run(f1: float, calls: int, **usage: object) -> Report:
    return report([row(name, {"f1": f1}, usage=Usage(calls=calls, **usage)) for name in "ab"])  # type: ignore[arg-type]


def behind(runs: dict[str, Report], cost: str = "calls") -> dict[str, str | None]:
    return {name: point.behind for name, point in frontier(runs, cost).items()}


def test_a_frontier_by_hand() -> None:
    runs = {
        "dear and good": run(0.9, 20),
        "dear and bad": run(0.5, 20),
        "middle": run(0.6, 5),
        "cheap": run(0.2, 1),
        "as dear as middle": run(0.55, 5),
        "as good as middle": run(0.6, 6),
    }
    assert behind(runs) == {
        "cheap": None,
        "middle": None,
        "as dear as middle": "middle",
        "as good as middle": "middle",
        "dear and good": None,
        "dear and bad": "middle",
    }
    points = frontier(runs, "calls")
    assert [point.cost for point in points.values()] == [1, 5, 5, 6, 20, 20]


def test_equal_runs_share_the_frontier() -> None:
    assert behind({"one": run(0.5, 2), "other": run(0.5, 2)}) == {"one": None, "other": None}


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.integers(1, 4)), min_size=1, max_size=7))
def test_a_run_is_behind_only_one_on_the_frontier_or_none(pairs: list[tuple[float, int]]) -> None:
    runs = {str(at): run(*pair) for at, pair in enumerate(pairs)}
    points = frontier(runs, "calls")
    best = {pairs[int(name)] for name, point in points.items() if point.behind is None}
    for name, point in points.items():
        f1, calls = pairs[int(name)]
        beaten = any((g >= f1 and c <= calls) and (g, c) != (f1, calls) for g, c in best)
        assert beaten == (point.behind is not None)
    rising = sorted(best, key=lambda pair: pair[1])
    assert rising == sorted(best)  # along the frontier, what costs more is better


def test_every_cost_is_a_mean_over_the_common_questions() -> None:
    used = Usage(
        calls=2,
        prompt_tokens=100,
        completion_tokens=20,
        prompt_tokens_by_model={"scripted": 100},
        completion_tokens_by_model={"scripted": 20},
        critical_seconds=1.5,
    )
    more = report([row("a", {"f1": 1}, usage=used), row("b", {"f1": 0}, usage=used + used)])
    one = report([row("a", {"f1": 1}, usage=used)])
    prices = Prices.of("10:50")
    costs = {cost: frontier({"more": more, "one": one}, cost, prices=prices)["more"].cost for cost in COSTS}
    assert costs == {"calls": 2, "tokens": 120, "money": pytest.approx(0.002), "seconds": 1.5}


def test_wrong_frontiers_are_named() -> None:
    runs = {"one": run(0.5, 1)}
    with pytest.raises(UnknownName, match="'tokens'"):
        frontier(runs, "token")
    with pytest.raises(UnknownName, match="f1"):
        frontier(runs, "calls", "f2")
    with pytest.raises(UsageError, match="money needs prices"):
        frontier(runs, "money")
    priced = {"one": run(0.5, 1, prompt_tokens_by_model={"gpt": 3})}
    prices = Prices.of({"other": {"prompt": 1, "completion": 1}})
    with pytest.raises(SettingError, match="no price is given for gpt"):
        frontier(priced, "money", prices=prices)


def test_report_frontier(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for method in ("cot", "direct"):
        lm = ScriptedLM(lambda task, fields: {"answer": "answer 3"})
        polyhop.evaluate(QUESTIONS, method=method, lm=lm, out=method)
    folders = ("cot", "direct")
    told = json.loads(cli("report", *folders, "--frontier", "tokens", "--metric", "em", "--format", "json").out)
    assert (told["cost"], told["metric"]) == ("tokens", "em")
    assert told["runs"]["cot"]["behind"] == "direct"  # as good, with fewer tokens
    table = cli("report", *folders, "--frontier", "money", "--price", "0.15:0.6").out
    assert "no: direct" in table
    markdown = cli("report", *folders, "--frontier", "calls", "--format", "markdown").out
    assert markdown.startswith("| run | F1 | calls a question | frontier |")
    assert cli("report", *folders, "--frontier", "money").code == 2
