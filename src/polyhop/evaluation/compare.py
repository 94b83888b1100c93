"""Two runs over the same questions, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from polyhop.errors import UsageError
from polyhop.evaluation.report import Mean, Report

RESAMPLES = 10_000
BLOCK = 100  # resamples drawn together

Row: TypeAlias = Mapping[str, Any]
"""A line of a predictions file."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A metric of two runs over their common questions: ``second - first`` with its 95 % interval by paired bootstrap.

    ``better`` and ``worse`` count the questions on which the second run scores higher and lower.
    """

    first: float
    second: float
    low: float
    high: float
    better: int
    worse: int
    n: int

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {name: round(getattr(self, name), 6) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs between two runs. ``flipped``: questions right (EM) in one run only, as (id, first, second).

    ``misled`` (SearChain, Table 3): where one of the runs never searched and the other did, the share of the questions
    right (cover-EM) closed-book, ``n`` of them, that are wrong with search. Lower is better.
    """

    first: Report
    second: Report
    metrics: Mapping[str, Difference]
    flipped: Sequence[tuple[str, str, str]]
    misled: Mean | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {
            "first": {"method": self.first.method, "lm": self.first.lm, "dataset": self.first.dataset},
            "second": {"method": self.second.method, "lm": self.second.lm, "dataset": self.second.dataset},
            "metrics": {name: difference.to_dict() for name, difference in self.metrics.items()},
            "misled": self.misled.to_dict() if self.misled else None,
            "flipped": [{"id": name, "first": one, "second": other} for name, one, other in self.flipped],
        }


def compare(first: Report, second: Report, *, seed: int = 0) -> Comparison:
    """Compare two runs on the questions both answered. ``UsageError`` when they have none in common."""
    ours = {row["id"]: row for row in first.rows}
    theirs = {row["id"]: row for row in second.rows}
    common = [name for name in ours if name in theirs]
    if not common:
        raise UsageError("the two runs have no question in common")
    pairs = [(ours[name], theirs[name]) for name in common]
    scores = [(a["metrics"], b["metrics"]) for a, b in pairs]
    names = dict.fromkeys(name for one, other in scores for name in one if name in other)
    return Comparison(
        first,
        second,
        {name: difference([(a[name], b[name]) for a, b in scores if name in a and name in b], seed) for name in names},
        [
            (a["id"], a["prediction"], b["prediction"])
            for a, b in pairs
            if {a["metrics"].get("em"), b["metrics"].get("em")} == {0, 1}
        ],
        _misled(pairs),
    )


def _misled(pairs: Sequence[tuple[Row, Row]]) -> Mean | None:
    searched = [any(row["usage"]["searches"] for row in rows) for rows in zip(*pairs, strict=True)]
    if searched[0] == searched[1]:
        return None
    closed, searching = (0, 1) if searched[1] else (1, 0)
    both = [pair for pair in pairs if all("cover_em" in row["metrics"] for row in pair)]
    right = [pair for pair in both if pair[closed]["metrics"]["cover_em"] == 1]
    if not right:
        return None
    return Mean(sum(pair[searching]["metrics"]["cover_em"] != 1 for pair in right) / len(right), len(right))


def difference(pairs: Sequence[tuple[float, float]], seed: int = 0) -> Difference:
    """The mean difference of pairs, one a question, with its interval. The same seed gives the same interval."""
    values = np.asarray(pairs, dtype=np.float64)
    gains = values[:, 1] - values[:, 0]
    random = np.random.default_rng(seed)
    sizes = (min(BLOCK, RESAMPLES - before) for before in range(0, RESAMPLES, BLOCK))
    drawn = (random.integers(0, len(gains), (size, len(gains))) for size in sizes)
    means = np.concatenate([gains[places].mean(axis=1) for places in drawn])
    low, high = np.quantile(means, [0.025, 0.975])
    first, second = values.mean(axis=0)
    return Difference(
        float(first), float(second), float(low), float(high), int((gains > 0).sum()), int((gains < 0).sum()), len(gains)
    )
