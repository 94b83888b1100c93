"""Fitting a calibration of confidence on the answers of runs to labelled questions.

Two logistic models are fitted by ridge regression: the probability of support, on the features of a reading of the
cited passages, and the confidence, on ``features_of`` an answer, for each method and for all together. An answer is
right if its EM is 1. Figures and thresholds are of cross-validation: all answers to a question are in one fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias
from zlib import crc32

import numpy as np

from polyhop.engine.calibration import ANY, Calibration, Weights, features_of, logistic
from polyhop.errors import UsageError
from polyhop.evaluation.calibration import auroc, calibration_bins, calibration_error
from polyhop.types import BlindReading

Row: TypeAlias = Mapping[str, Any]
Interval: TypeAlias = tuple[float, float, float]
"""A value and its 95 % bootstrap interval."""

FOLDS, RESAMPLES, PENALTY = 5, 300, 1.0
MIN_ANSWERS = 50
"""Minimum number of answers for a method to have its own weights."""
DOUBTED, WITHHELD = 0.12, 0.0075
"""Shares of a method's right answers that may be marked not supported, and that may be withheld."""
PARTLY = 0.5
"""The weight in the probability of support of a wrong answer to a question that has one: it may be right in part."""
_READING = "reading "


@dataclass(frozen=True, slots=True)
class MethodFit:
    """The answers of a method, the share that is right, and AUROC and calibration error before and after."""

    method: str
    answers: int
    right: float
    auroc: tuple[Interval | None, Interval | None]
    ece: tuple[Interval | None, Interval | None]


@dataclass(frozen=True, slots=True)
class ConfidenceFit:
    """A calibration, its fits, and the shares of right and of wrong answers that it supports and withholds."""

    calibration: Calibration
    fits: tuple[MethodFit, ...]
    supported: tuple[float, float]
    withheld: tuple[float, float]

    @property
    def file(self) -> dict[str, Any]:
        """The content of a calibration's file."""
        content = asdict(self.calibration)
        del content["fingerprint"]
        return content

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        shares = {"supported": self.supported, "withheld": self.withheld}
        return {"calibration": self.file, **shares, "fits": [asdict(fit) for fit in self.fits]}


def fit_confidence(runs: Sequence[tuple[str, Sequence[Row]]], model: str, unanswerable: float = 1.0) -> ConfidenceFit:
    """Fit a calibration to runs of a model: a method and the lines of its predictions each. ``unanswerable``: the
    weight in a confidence of an answer to a question that has none, for runs that ask more of those than users do. The
    probability of support has to tell these answers from right ones: both count whole in it, other wrong answers half.

    Raises:
        UsageError: there are too few answers, or none is right or none wrong.
    """
    rows = [{**row, "method": method, "right": row["metrics"].get("em") == 1.0,
             "weight": 1.0 if row.get("answers", True) else unanswerable}
            for method, lines in runs for row in lines if row["prediction"] and "signals" in row]  # fmt: skip
    right = _right(rows)
    if len(rows) < MIN_ANSWERS or len(set(right)) < 2:
        raise UsageError(
            f"nothing to fit on: {sum(right)} of {len(rows)} answers are right; at least {MIN_ANSWERS} are needed"
        )
    folds = [[row for row in rows if fold_of(row) != fold] for fold in range(FOLDS)]
    fitted = [_fit(part, model) for part in folds]
    after = [_sure(fitted[fold_of(row)], row) for row in rows]
    limits = _quantile([p for p, row in zip(after, rows, strict=True) if row["right"]], WITHHELD)
    support = [_support(fitted[fold_of(row)], row) for row in rows]
    fit = _fit(rows, model)
    supported_from = _support_thresholds(fit.methods, rows, support)
    calibration = replace(fit, supported_from=supported_from, withhold_below=limits)
    supported = [p >= calibration.support_threshold(row["method"]) for p, row in zip(support, rows, strict=True)]
    named = {"all": [True] * len(rows)} | {name: [row["method"] == name for row in rows] for name, _ in runs}
    return ConfidenceFit(
        calibration,
        tuple(_method_fit(name, chosen, rows, after) for name, chosen in named.items() if any(chosen)),
        _shares(supported, right),
        _shares([sure < limits for sure in after], right),
    )


def _support_thresholds(methods: Iterable[str], rows: Sequence[Row], support: Sequence[float]) -> Weights:
    """Return the probability of support below which the share ``DOUBTED`` of a method's right answers lies."""
    read = [(row["method"], p) for row, p in zip(rows, support, strict=True) if row["right"] and _features(row)]
    of_method = {name: [p for method, p in read if name in (method, ANY)] for name in methods}
    return {name: _quantile(found, DOUBTED) for name, found in of_method.items() if found}


def _fit(rows: Sequence[Row], model: str) -> Calibration:
    """Fit the probability of support, and the confidence of each method."""
    read = [row for row in rows if _features(row)]
    counts = [1.0 if row["right"] or not row.get("answers", True) else PARTLY for row in read]
    reading = fit_logistic([{"constant": 1.0, **_features(row)} for row in read], _right(read), counts)
    bare = Calibration(model, {}, reading)
    methods = {ANY: rows} | {name: [row for row in rows if row["method"] == name] for name in _names(rows)}
    weights = {
        name: fit_logistic([_answer_features(bare, row) for row in part], _right(part), [row["weight"] for row in part])
        for name, part in methods.items()
        if len(part) >= MIN_ANSWERS or name == ANY
    }
    return Calibration(model, weights, reading)


def _right(rows: Iterable[Row]) -> list[bool]:
    return [row["right"] for row in rows]


def fit_logistic(features: Sequence[Weights], truth: Sequence[bool], counts: Sequence[float] = ()) -> Weights:
    """Fit the weights of features by Newton's method; the constant has no penalty. ``counts``: how much each case
    counts, by default as much as every other."""
    if not features:
        return {}
    names = list(features[0])
    table = np.array([[row[name] for name in names] for row in features], dtype=np.float64)
    right, weights = np.array(truth, dtype=np.float64), np.zeros(len(names))
    count = np.array(counts or [1.0] * len(truth))
    penalty = np.diag([1e-6 if name == "constant" else PENALTY for name in names])
    for _ in range(30):
        chance = 1 / (1 + np.exp(-table @ weights))
        slope = table.T @ (count * (chance - right)) + penalty @ weights
        weights -= np.linalg.solve((table.T * (count * chance * (1 - chance))) @ table + penalty, slope)
    return {name: round(float(weight), 3) for name, weight in zip(names, weights, strict=True)}


def _answer_features(calibration: Calibration, row: Row) -> dict[str, float]:
    signals = dict(row["signals"])
    read = calibration.support(BlindReading(None, signals.get("support"), features=_features(row)))
    return features_of(signals if read is None else {**signals, "support": read}, row["support"])


def _sure(calibration: Calibration, row: Row) -> float:
    weights = calibration.methods.get(row["method"]) or calibration.methods[ANY]
    return logistic(weights, _answer_features(calibration, row))


def _support(calibration: Calibration, row: Row) -> float:
    """Return the probability that the cited passages give the answer; 0 if they give another, or none is known."""
    read = calibration.support(BlindReading(None, row["signals"].get("support"), features=_features(row)))
    if read is None:
        return float(row["support"] == "supported")
    return read * bool(row["signals"].get("agrees"))


def _features(row: Row) -> dict[str, float]:
    """Return the features of the reading of the cited passages."""
    return {n.removeprefix(_READING): value for n, value in row["signals"].items() if n.startswith(_READING)}


def _method_fit(name: str, chosen: Sequence[bool], rows: Sequence[Row], after: Sequence[float]) -> MethodFit:
    cases = [(row, sure) for row, sure, is_chosen in zip(rows, after, chosen, strict=True) if is_chosen]
    before = [(_before(row), row) for row, _ in cases if _before(row) is not None]
    tables = [([float(p or 0) for p, _ in before], [row["right"] for _, row in before]),
              ([sure for _, sure in cases], [row["right"] for row, _ in cases])]  # fmt: skip
    areas, errors = ([_interval(measure, *table) for table in tables] for measure in (auroc, _error))
    share = sum(row["right"] for row, _ in cases) / len(cases)
    return MethodFit(name, len(cases), share, (areas[0], areas[1]), (errors[0], errors[1]))


def _before(row: Row) -> float | None:
    """Return the confidence without a calibration."""
    signals = row["signals"]
    found: float | None = signals.get("probability", signals.get("agreement"))
    return found


def _interval(
    measure: Callable[[Sequence[float], Sequence[bool]], float | None], sure: Sequence[float], right: Sequence[bool]
) -> Interval | None:
    if not sure or (value := measure(sure, right)) is None:
        return None
    draw, cases = np.random.default_rng(0), len(sure)
    drawn = []
    for _ in range(RESAMPLES):
        chosen = draw.integers(0, cases, cases)
        found = measure([sure[i] for i in chosen], [right[i] for i in chosen])
        drawn += [] if found is None else [found]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return value, float(low), float(high)


def _error(sure: Sequence[float], right: Sequence[bool]) -> float | None:
    return calibration_error(calibration_bins(sure, right))


def _shares(taken: Sequence[bool], right: Sequence[bool]) -> tuple[float, float]:
    """Return the shares of right and of wrong answers that are taken."""
    parts = [[took for took, good in zip(taken, right, strict=True) if good is kind] for kind in (True, False)]
    return sum(parts[0]) / len(parts[0]), sum(parts[1]) / len(parts[1])


def _quantile(values: Sequence[float], share: float) -> float:
    return round(float(np.quantile(values, share)), 3)


def _names(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["method"] for row in rows))


def fold_of(row: Row) -> int:
    return crc32(str(row["id"]).encode()) % FOLDS
