"""Accuracy against cost: which runs no other beats, on hand-made runs and as a property."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import polyhop
from polyhop import ScriptedLM
from polyhop.engine.budget import Prices
from polyhop.errors import SettingError, UnknownName, UsageError
from polyhop.evaluation.figures import COSTS, frontier, shared_metric
from polyhop.evaluation.report import Report
from polyhop.trace import Usage
from tests.evaluation.test_compare import QUESTIONS
from tests.kit.hostile_runs import plain_run
from tests.kit.reports import report, row
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
        seconds=1.5,
    )
    more = report([row("a", {"f1": 1}, usage=used), row("b", {"f1": 0}, usage=used + used)])
    one = report([row("a", {"f1": 1}, usage=used)])
    prices = Prices.of("10:50")
    costs = {cost: frontier({"more": more, "one": one}, cost, prices=prices)["more"].cost for cost in COSTS}
    expected = {"calls": 2, "tokens": 120, "prompt_tokens": 100, "completion_tokens": 20, "seconds": 1.5}
    assert costs == {**dict.fromkeys(COSTS, 0), **expected, "money": pytest.approx(0.002)}


def retrieved(recall: float = 1.0) -> Report:
    """A run that only retrieves: it has no F1."""
    return report([row(name, {"recall_mean@5": recall}, usage=Usage(searches=1)) for name in "ab"], "bm25")


def test_runs_without_the_metric_are_left_out() -> None:
    runs = {"bm25": retrieved(), "one-r": run(0.5, 1, searches=1), "tor": run(0.7, 20, searches=9)}
    assert behind(runs) == {"one-r": None, "tor": None}
    assert list(frontier(runs, "calls", "f1")) == ["one-r", "tor"]
    assert list(frontier(runs, "calls", "recall_mean@5")) == ["bm25"]
    with pytest.raises(UnknownName, match=r"unknown metric of these runs 'f2'\. Valid: f1, recall_mean@5"):
        frontier(runs, "calls", "f2")


def test_a_run_without_the_metric_takes_no_question_from_the_others() -> None:
    other = report([row("elsewhere", {"recall_mean@5": 1.0}, usage=Usage(searches=1))])
    assert list(frontier({"other": other, "one": run(0.5, 1), "two": run(0.6, 2)}, "calls")) == ["one", "two"]
    assert list(frontier({"empty": report([]), "one": run(0.5, 1), "two": run(0.6, 2)}, "calls")) == ["one", "two"]


def test_the_metric_is_one_that_two_runs_share() -> None:
    answering, closed = report([row("a", {"f1": 1, "recall_mean@5": 1}, usage=Usage(searches=1))]), run(0.5, 1)
    assert shared_metric({"bm25": retrieved(), "tfidf": retrieved(), "one-r": answering}) == "recall_mean@5"
    assert shared_metric({"bm25": retrieved(), "one-r": answering, "cot": closed}) == "f1"
    assert shared_metric({"bm25": retrieved()}) == "recall_mean@5"
    with pytest.raises(UsageError, match="no metric is shared by two of these runs: bm25, cot"):
        shared_metric({"bm25": retrieved(), "cot": closed})
    with pytest.raises(UsageError, match="there are none"):
        shared_metric({})


def test_a_closed_book_run_has_no_recall() -> None:
    unranked = report([row("a", {"f1": 1, "recall_mean@5": 0}, usage=Usage())])
    points = frontier({"bm25": retrieved(), "cot": unranked, "tfidf": retrieved(0.5)}, "calls", "recall_mean@5")
    assert list(points) == ["bm25", "tfidf"]


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
    content = json.loads(cli("report", *folders, "--frontier", "tokens", "--metric", "em", "--format", "json").out)
    assert (content["cost"], content["metric"]) == ("tokens", "em")
    assert content["runs"]["cot"]["behind"] == "direct"  # as good, with fewer tokens
    table = cli("report", *folders, "--frontier", "money", "--price", "0.15:0.6").out
    assert "no: direct" in table
    markdown = cli("report", *folders, "--frontier", "calls", "--format", "markdown").out
    assert markdown.startswith("| run | F1 | calls per question | frontier |")
    assert cli("report", *folders, "--frontier", "money").code == 2


def test_a_retrieval_only_run_hinders_no_report(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for method in ("bm25", "one-r", "cot-sc"):
        plain_run(Path(method), method=method)
    folders = ("bm25", "one-r", "cot-sc")
    done = cli("report", *folders, "--frontier", "calls", "--format", "json")
    assert json.loads(done.out)["left_out"] == ["bm25"]
    assert json.loads(done.out)["metric"] == "f1"
    assert set(json.loads(done.out)["runs"]) == {"one-r", "cot-sc"}
    assert "left out, without F1: bm25" in done.err
    assert cli("report", *folders, "--frontier", "calls", "--metric", "recall_mean@5").code == 0
    cli("report", *folders, "--out", "page.html")
    page = Path("page.html").read_text("utf-8")
    assert "F1 by calls" in page
    assert "left out, without F1: bm25" in page
    compared = cli("compare", "bm25", "one-r")
    assert compared.code == 0
    assert "not compared, because one of the two lacks it: EM, F1, cover-EM" in " ".join(compared.out.split())
