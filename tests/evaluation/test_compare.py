"""Runs beside a baseline: differences, their p over all that is compared, agreement, a vote and an oracle."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import polyhop
from polyhop import Question, ScriptedLM
from polyhop.errors import UsageError
from polyhop.evaluation.compare import compare, compare_all, difference, ensemble, on_common_questions
from polyhop.trace import Usage
from tests.kit.reports import report, row, scored
from tests.kit.terminal import Cli, cli

__all__ = ["cli"]


def test_a_difference_by_hand() -> None:
    """Better on three of five: 2 of the 8 flips of their signs lie as far from 0."""
    found = difference([(0, 1), (0, 1), (0, 1), (1, 1), (0, 0)])
    assert (found.first, found.second, found.better, found.worse, found.n) == (0.2, 0.8, 3, 0, 5)
    assert (found.low, found.high) == (0.2, 1.0)  # Binomial(5, .6): P(0) = .01, P(at most 1) = .087; P(5) = .078
    assert found.p == 0.25
    assert found.corrected is None
    assert found.to_dict()["corrected"] is None


def test_the_same_run_twice_differs_in_nothing() -> None:
    one = scored(a=1, b=0, c=0.5)
    em = compare(one, one).metrics["em"]
    assert (em.low, em.high, em.p, em.p_bootstrap, em.corrected) == (0, 0, 1, 1, 1)


def test_the_order_of_the_questions_does_not_matter() -> None:
    first, second = scored(a=1, b=0, c=0.5, d=0), scored(a=0, b=1, c=1, d=0.25)
    turned = report(list(reversed(first.rows)))
    assert compare(first, second).metrics == compare(turned, second).metrics


def test_holm_runs_over_all_runs_and_metrics_of_the_family() -> None:
    names = [f"q{n}" for n in range(10)]
    zero = report([row(name, {"em": 0, "f1": 0, "other": 0}) for name in names])
    better = report([row(name, {"em": 1, "f1": n < 8, "other": 0}) for n, name in enumerate(names)])
    mixed = report([row(name, {"em": n < 6, "f1": 0, "other": 1}) for n, name in enumerate(names)])
    first, second = compare_all(zero, [better, mixed], family=["em", "f1"])
    p = {(at, name): each[name].p for at, each in enumerate((first.metrics, second.metrics)) for name in each}
    assert p == {
        (0, "em"): 2 / 1024,
        (0, "f1"): 2 / 256,
        (0, "other"): 1,
        (1, "em"): 2 / 64,
        (1, "f1"): 1,
        (1, "other"): 2 / 1024,
    }
    assert first.metrics["em"].corrected == 4 * 2 / 1024
    assert first.metrics["f1"].corrected == 3 * 2 / 256
    assert second.metrics["em"].corrected == 2 * 2 / 64
    assert second.metrics["f1"].corrected == 1.0
    assert first.metrics["other"].corrected is second.metrics["other"].corrected is None
    everything = compare_all(zero, [better, mixed])
    assert everything[1].metrics["other"].corrected == 6 * 2 / 1024


def test_a_metric_of_some_questions_is_compared_on_those() -> None:
    first = report([row("a", {"em": 1, "ar@2": 1}), row("b", {"em": 0})])
    second = report([row("b", {"em": 1, "ar@2": 1}), row("a", {"em": 1, "ar@2": 0})])
    found = compare(first, second).metrics
    assert (found["em"].n, found["ar@2"].n, found["ar@2"].worse) == (2, 1, 1)


# --- together --------------------------------------------------------------------------------------------------------


def test_agreement_oracle_and_majority_by_hand() -> None:
    answers = {
        "one": [("a", "Rome", 1), ("b", "Oslo", 0), ("c", "Bern", 0), ("d", "", 0)],
        "two": [("d", "", 0), ("a", "the Rome.", 1), ("b", "Paris", 1), ("c", "Lima", 0)],
        "three": [("a", "Kiel", 0), ("b", "Paris", 1), ("c", "Bonn", 0), ("d", "x", 0), ("e", "y", 1)],
    }
    reports = {
        name: report([row(id, {"em": em, "recall_all@2": 0}, answer) for id, answer, em in rows])
        for name, rows in answers.items()
    }
    found = ensemble(reports)
    assert found.n == 4
    same = {pair: each.same.value for pair, each in found.pairs.items() if each.same}
    assert same == {("one", "two"): 0.5, ("one", "three"): 0.0, ("two", "three"): 0.25}
    # one: right wrong wrong wrong, two: right right wrong wrong: agree 3/4, by chance 1/8 + 3/8
    assert found.pairs["one", "two"].kappa == pytest.approx(0.5)
    assert found.oracle["em"].value == 0.5
    assert found.majority["em"].value == 0.5  # Rome, Paris, of three different ones the first run's Bern, ""
    assert set(found.majority) == {"em"}
    assert found.to_dict()["agreement"][0]["runs"] == ["one", "two"]


def test_a_run_that_only_ranks_has_no_answer_to_agree_with() -> None:
    ranks = report([row("a", {"recall_all@2": 1}, answering=False)])
    answers = report([row("a", {"em": 1, "recall_all@2": 0}, "Rome")])
    found = ensemble({"ranks": ranks, "answers": answers})
    assert found.pairs["ranks", "answers"].to_dict() == {"same": None, "kappa": None}
    assert (set(found.oracle), found.oracle["recall_all@2"].value, found.majority) == ({"recall_all@2"}, 1.0, {})


def test_a_run_without_search_has_no_recall() -> None:
    closed = report([row("a", {"em": 1, "recall_all@2": 0}, "Rome", usage=Usage())])
    first = report([row("a", {"em": 0, "recall_all@2": 1}, "Oslo")])
    second = report([row("a", {"em": 0, "recall_all@2": 0}, "Oslo")])
    assert set(compare(closed, first).metrics) == {"em"}
    assert ensemble({"closed": closed, "second": second}).oracle["recall_all@2"].value == 0
    assert ensemble({"closed": closed, "first": first}).oracle["recall_all@2"].value == 1
    assert "recall_all@2" not in ensemble({"closed": closed, "again": closed}).oracle


def test_runs_without_a_common_question_are_refused() -> None:
    with pytest.raises(UsageError, match="no question in common: x, y"):
        ensemble({"x": scored(a=1), "y": scored(b=1)})
    assert [each["id"] for each in on_common_questions({"x": scored(a=1, b=0), "y": scored(b=1, c=1)})["x"].rows] == [
        "b"
    ]


# --- on the command line -----------------------------------------------------------------------------------------


QUESTIONS = [Question(f"q{n}", f"What is number {n}?", (f"answer {n}",)) for n in range(6)]


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Three runs, right on the first 0, 4 and all 6 of six questions."""
    folders = []
    for right, method in ((0, "cot"), (4, "direct"), (6, "cot")):

        def answer(task: str, fields: object, right: int = right) -> dict[str, str]:
            number = int(str(fields["question"])[-2])  # type: ignore[index]
            return {"answer": f"answer {number}" if number < right else "a guess"}

        folders.append(tmp_path / f"right-{right}")
        polyhop.evaluate(QUESTIONS, method=method, lm=ScriptedLM(answer), out=folders[-1])
    return folders


def test_compare_shows_every_run_beside_the_first(cli: Cli, runs: list[Path]) -> None:
    done = cli("compare", *runs, "--metric", "em", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["baseline"] == str(runs[0])
    middle, last = found["comparisons"]
    assert (middle["run"], last["run"]) == (str(runs[1]), str(runs[2]))
    assert (middle["metrics"]["em"]["p"], last["metrics"]["em"]["p"]) == (0.125, 0.03125)
    assert (middle["metrics"]["em"]["corrected"], last["metrics"]["em"]["corrected"]) == (0.125, 0.0625)
    assert middle["metrics"]["f1"]["corrected"] is None
    assert len(last["flipped"]) == 6
    assert found["together"]["oracle"]["em"]["value"] == 1.0
    assert found["together"]["majority"]["em"]["value"] == 0.666667


def test_compare_draws_tables(cli: Cli, runs: list[Path]) -> None:
    out = cli("compare", runs[0], runs[1], "--metric", "em,f1").out
    (em,) = [line.split() for line in out.splitlines() if line.startswith("EM") and "…" in line]
    assert em[1:4] == ["0.0", "66.7", "+66.7"]
    assert em[-5:] == ["0.1250", "0.2500", "4,", "0", "6"]
    assert "4 questions right in one run only" in out
    assert "majority" in out
    assert "oracle" in out
    assert "cot · direct" in out
    assert "cover-EM" not in out


def test_compare_on_a_part_of_the_questions(cli: Cli, runs: list[Path]) -> None:
    found = json.loads(cli("compare", runs[1], runs[2], "--where", "em = 0", "--json").out)
    (only,) = found["comparisons"]
    assert (only["metrics"]["em"]["n"], only["metrics"]["em"]["first"]) == (2, 0.0)


def test_wrong_comparisons_are_named(cli: Cli, runs: list[Path]) -> None:
    assert "a comparison requires two runs" in cli("compare", runs[0]).err
    unknown = cli("compare", runs[0], runs[1], "--metric", "e_m")
    assert unknown.code == 2
    assert "did you mean 'em'?" in unknown.err
