"""Intervals, paired tests, Holm and kappa: hand-worked, against a second way of counting, and as simulations."""

from __future__ import annotations

import math
import time
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.evaluation.report import Report
from polyhop.evaluation.statistics import (
    COMPARISON_RESAMPLES,
    MAX_EXACT,
    Mean,
    holm,
    kappa,
    means,
    ratio,
    resampled,
    shifted_bootstrap,
    sign_flip,
)
from tests.kit.reports import report, row

VALUES = st.lists(st.floats(0, 1, allow_subnormal=False), min_size=1, max_size=30)
GAINS = st.lists(st.sampled_from([-1.0, -0.5, -1 / 3, 0.0, 0.1, 0.25, 1.0]), min_size=1, max_size=8)


def column(*values: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.array([[value] for value in values])


# --- intervals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([0, 1], 0.0, 1.0),  # means 0, 1/2, 1 with shares 1/4, 1/2, 1/4
        ([0, 0, 0, 1], 0.0, 0.75),  # Binomial(4, 1/4): P(0) = .32, P(at most 2) = .949, P(at most 3) = .996
        ([0, 1, 1, 1], 0.25, 1.0),
        ([1] * 7, 1.0, 1.0),
        ([0.25], 0.25, 0.25),
    ],
)
def test_intervals_by_hand(values: list[float], low: float, high: float) -> None:
    assert Mean.of(values) == Mean(sum(values) / len(values), len(values), low, high)


def test_of_many_questions_an_interval_is_the_normal_one() -> None:
    mean = Mean.of([0.0, 1.0, 1.0] * 400)
    half = 1.96 * math.sqrt(2 / 9 / 1200)
    assert mean.half_width == pytest.approx(half, rel=0.1)
    assert mean.low == pytest.approx(2 / 3 - half, abs=0.003)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """400 runs of 80 questions, each right with a chance of .4; a percentile interval covers a little less than .95."""
    draw = np.random.default_rng(1)
    rows = [{str(run): float(right) for run, right in enumerate(answers)} for answers in draw.random((80, 400)) < 0.4]
    held = [mean.low <= 0.4 <= mean.high for mean in means(rows).values()]
    assert 0.9 <= sum(held) / len(held) <= 0.98


@given(VALUES, st.randoms())
@settings(max_examples=60, deadline=None)
def test_an_interval_lies_about_its_mean_within_the_values_in_any_order(values: list[float], draw: object) -> None:
    mean = Mean.of(values)
    assert min(values) - 1e-9 <= mean.low <= mean.value <= mean.high <= max(values) + 1e-9
    draw.shuffle(values)  # type: ignore[attr-defined]
    assert Mean.of(values) == mean


@given(VALUES)
@settings(max_examples=30, deadline=None)
def test_what_else_is_measured_does_not_move_an_interval(values: list[float]) -> None:
    rows = [{"a": value, "b": 1 - value, **({"c": value} if at else {})} for at, value in enumerate(values)]
    assert means(rows)["a"].to_dict() == Mean.of(values).to_dict()


def test_no_value_is_no_mean_and_what_is_no_number_is_left_out() -> None:
    assert means([]) == means([{}, {}]) == {}
    assert means([{"a": math.nan}, {"a": None}, {"a": math.inf}, {"a": 0.5}]) == {"a": Mean(0.5, 1, 0.5, 0.5)}
    assert means([{"a": math.nan}]) == {}
    empty = Report.of([], {}, method="cot", lm="m", dataset="d")
    assert (empty.metrics, empty.statistics, empty.parsed_at_first_try) == ({}, {}, None)


def test_a_ratio_of_sums_and_draws_without_a_denominator() -> None:
    assert ratio([300.0, 100.0], [2.0, 2.0]).value == 100.0
    sure = ratio([50.0, 0.0], [1.0, 0.0])  # a quarter of the draws has no denominator
    assert (sure.value, sure.low, sure.high) == (50.0, 50.0, 50.0)
    found = report([row("a", {}, statistics={"reviews": 4, "documents": 2}), row("b", {}, statistics={"steps": 1})])
    assert found.statistics["rate"].to_dict() == {"value": 50.0, "low": 50.0, "high": 50.0, "n": 1}


def test_json_has_the_intervals_of_metrics_and_statistics() -> None:
    content = report([row(str(n), {"em": n % 2}, statistics={"rounds": n % 2 + 1}) for n in range(4)]).to_dict()
    assert content["metrics"]["em"] == {"value": 0.5, "low": 0.0, "high": 1.0, "n": 4}
    assert content["statistics"]["rounds"] == {"value": 1.5, "low": 1.0, "high": 2.0, "n": 4}


# --- paired tests ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gains", "p"),
    [
        ((1, 1, 1), 2 / 8),
        ((1, 1, 1, 0, 0), 2 / 8),  # ties tell nothing
        ((-1, -1, -1), 2 / 8),
        ((1, 1, -1), 1.0),  # every sum of three signs is 1 away from 0, or 3
        ((2, 1, -1), 6 / 8),  # 4 2 2 0 0 -2 -2 -4
        ((0.1, 0.2, 0.3), 2 / 8),  # 0.1 + 0.2 + 0.3 is not the same in every order
        ((1,) * 10, 2 / 1024),
        ((0, 0), 1.0),
        ((1,), 1.0),
    ],
)
def test_flips_of_signs_by_hand(gains: tuple[float, ...], p: float) -> None:
    assert sign_flip(column(*gains), 100)[0] == pytest.approx(p, abs=1e-12)


@given(GAINS)
@settings(max_examples=60, deadline=None)
def test_flips_of_signs_are_all_of_them(gains: list[float]) -> None:
    sums = [
        abs(sum(sign * gain for sign, gain in zip(signs, gains, strict=True)))
        for signs in product([1, -1], repeat=len(gains))
    ]
    share = sum(each >= abs(sum(gains)) - 1e-9 for each in sums) / len(sums)
    assert sign_flip(column(*gains), 10)[0] == pytest.approx(share)


def test_a_sample_of_flips_comes_near_the_binomial_test() -> None:
    gains = [1.0] * 15 + [-1.0] * 5
    assert len(gains) > MAX_EXACT
    exact = 2 * sum(math.comb(20, k) for k in range(15, 21)) / 2**20  # McNemar's exact test: .0414
    assert sign_flip(column(*gains), COMPARISON_RESAMPLES)[0] == pytest.approx(exact, abs=0.006)
    assert sign_flip(column(*gains), 50, seed=3)[0] == sign_flip(column(*gains), 50, seed=3)[0]


def test_a_sampled_p_is_never_0() -> None:
    assert sign_flip(column(*[1.0] * 100), 99)[0] == 1 / 100


def test_exact_and_sampled_columns_stand_side_by_side() -> None:
    few, many = [1.0] * 3 + [0.0] * 37, [1.0, -1.0] * 20
    both = sign_flip(np.column_stack([few, many]), 200)
    assert both[0] == 0.25
    assert both[1] == 1.0


def test_without_a_difference_few_tests_find_one() -> None:
    draw = np.random.default_rng(2)
    gains = draw.choice([-1.0, 0.0, 0.0, 1.0], (60, 400))
    p = sign_flip(gains, 2000)
    drawn = resampled(gains, 2000)
    assert (p < 0.05).mean() <= 0.07
    assert (shifted_bootstrap(drawn, gains.mean(axis=0)) < 0.05).mean() <= 0.08


def test_the_bootstrap_test_agrees_where_there_are_enough_questions() -> None:
    gains = np.random.default_rng(3).normal(0.08, 1.0, (300, 5))
    ours, theirs = (
        sign_flip(gains, COMPARISON_RESAMPLES),
        shifted_bootstrap(resampled(gains, COMPARISON_RESAMPLES), gains.mean(axis=0)),
    )
    assert np.abs(ours - theirs).max() < 0.03


# --- many tests, agreement -----------------------------------------------------------------------------------------


def test_holm_by_hand() -> None:
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005}) == pytest.approx(
        {"d": 0.02, "a": 0.03, "c": 0.06, "b": 0.06}  # 4 · .005, 3 · .01, 2 · .03, then never less than before
    )
    assert holm({"a": 0.6, "b": 0.7}) == {"a": 1.0, "b": 1.0}
    assert holm({"a": 0.02}) == {"a": 0.02}
    assert holm({}) == {}


@given(st.dictionaries(st.integers(), st.floats(0, 1), max_size=12))
def test_holm_keeps_the_order_and_lies_between_p_and_bonferroni(p: dict[int, float]) -> None:
    corrected = holm(p)
    assert list(corrected) == list(p)
    assert all(p[name] <= corrected[name] <= min(1.0, len(p) * p[name]) + 1e-12 for name in p)
    order = sorted(p, key=lambda name: p[name])
    assert sorted(corrected[name] for name in order) == [corrected[name] for name in order]


def test_kappa_by_hand() -> None:
    """Both right 20, the first only 5, the second only 10, neither 15: agree .7, by chance .5."""
    pairs = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10 + [(False, False)] * 15
    assert kappa([a for a, _ in pairs], [b for _, b in pairs]) == pytest.approx(0.4)
    assert kappa([True, False], [False, True]) == -1.0
    assert kappa([True, True], [True, True]) is None
    assert kappa([], []) is None


# --- how long it takes ---------------------------------------------------------------------------------------------


def test_ten_thousand_questions_take_a_moment() -> None:
    """Measured: about a second for forty metrics; the bound is for a machine that is busy."""
    rows = [{str(metric): float(cell) for metric, cell in enumerate(line)} for line in np.eye(10_000, 40)]
    start = time.process_time()
    assert len(means(rows)) == 40
    assert time.process_time() - start < 10
