"""Two runs over the same questions, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyhop.errors import UsageError
from polyhop.evaluation.report import Report

RESAMPLES = 10_000


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
    """What differs between two runs. ``flipped``: questions right (EM) in one run only, as (id, first, second)."""

    first: Report
    second: Report
    metrics: Mapping[str, Difference]
    flipped: Sequence[tuple[str, str, str]]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {
            "first": {"method": self.first.method, "lm": self.first.lm, "dataset": self.first.dataset},
            "second": {"method": self.second.method, "lm": self.second.lm, "dataset": self.second.dataset},
            "metrics": {name: difference.to_dict() for name, difference in self.metrics.items()},
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
    names = [name for name in pairs[0][0]["metrics"] if all(name in row["metrics"] for pair in pairs for row in pair)]
    return Comparison(
        first,
        second,
        {name: _difference([(a["metrics"][name], b["metrics"][name]) for a, b in pairs], seed) for name in names},
        [
            (a["id"], a["prediction"], b["prediction"])
            for a, b in pairs
            if a["metrics"].get("em") != b["metrics"].get("em")
        ],
    )


def _difference(pairs: Sequence[tuple[float, float]], seed: int) -> Difference:
    values = np.asarray(pairs, dtype=np.float64)
    gains = values[:, 1] - values[:, 0]
    random = np.random.default_rng(seed)
    means = np.array([gains[random.integers(0, len(gains), len(gains))].mean() for _ in range(RESAMPLES)])
    low, high = np.quantile(means, [0.025, 0.975])
    first, second = values.mean(axis=0)
    return Difference(
        float(first), float(second), float(low), float(high), int((gains > 0).sum()), int((gains < 0).sum()), len(gains)
    )
