"""Measures of confidence: AUROC, calibration bins and their error, and the threshold of best F1.

All functions are pure and take parallel sequences: the confidence of each case (higher is more confident), and whether
the case was right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Any

import numpy as np

from polyhop.errors import SettingError


@dataclass(frozen=True, slots=True)
class Bin:
    """A bin: the cases with a confidence from ``low`` up to ``high``, their mean confidence and accuracy."""

    low: float
    high: float
    confidence: float
    right: float
    n: int


@dataclass(frozen=True, slots=True)
class Threshold:
    """The decision rule ``confidence > at``, and its scores at finding the right cases, each from 0 to 1."""

    at: float
    f1: float
    precision: float
    recall: float

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {name: getattr(self, name) for name in self.__slots__}


def auroc(confidence: Sequence[float], right: Sequence[bool]) -> float | None:
    """Return the probability that a right case has more confidence than a wrong one; ties count half (Mann-Whitney).

    None if all cases are right, or all are wrong.

    >>> auroc([0.9, 0.8, 0.7, 0.6], [True, False, True, False])
    0.75
    """
    _, inverse, counts = np.unique(np.asarray(confidence, dtype=np.float64), return_inverse=True, return_counts=True)
    good = np.asarray(right, dtype=bool)
    n_right, n_wrong = int(good.sum()), int((~good).sum())
    if not n_right or not n_wrong:
        return None
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]  # tied cases share the mean of their ranks
    return float((ranks[good].sum() - n_right * (n_right + 1) / 2) / (n_right * n_wrong))


def calibration_bins(confidence: Sequence[float], right: Sequence[bool], bins: int = 10) -> list[Bin]:
    """Sort the cases into bins of equal width over 0 to 1; empty bins are left out.

    A confidence on a border belongs to the upper bin, and 1 to the last. ``SettingError`` for one outside 0 to 1.

    >>> [(bin.low, bin.right, bin.n) for bin in calibration_bins([0.1, 0.5, 1.0, 0.7], [False, True, True, False], 2)]
    [(0.0, 0.0, 1), (0.5, 0.6666666666666666, 3)]
    """
    if strange := [value for value in confidence if not 0 <= value <= 1]:
        raise SettingError(f"a confidence of {strange[0]} cannot be put into bins: it must be 0 to 1")
    borders = [number / bins for number in range(bins + 1)]
    held: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]
    indices = np.searchsorted(borders, confidence, side="right") - 1
    for i, sure, good in zip(indices, confidence, right, strict=True):
        held[min(int(i), bins - 1)].append((float(sure), bool(good)))
    return [
        Bin(low, high, sum(c for c, _ in cases) / len(cases), sum(r for _, r in cases) / len(cases), len(cases))
        for (low, high), cases in zip(pairwise(borders), held, strict=True)
        if cases
    ]


def calibration_error(bins: Sequence[Bin]) -> float | None:
    """Return the expected calibration error (ECE; Guo et al., 2017); None without bins.

    It is the mean gap between confidence and accuracy over the bins, weighted by their cases.

    >>> calibration_error([Bin(0.0, 0.5, 0.25, 0.25, 3), Bin(0.5, 1.0, 0.75, 0.25, 1)])
    0.125
    """
    cases = sum(bin.n for bin in bins)
    return sum(bin.n * abs(bin.confidence - bin.right) for bin in bins) / cases if cases else None


def threshold(at: float, confidence: Sequence[float], right: Sequence[bool]) -> Threshold:
    """Score the decision rule ``confidence > at`` at finding the right cases.

    >>> threshold(0.5, [0.9, 0.8, 0.3], [True, False, True])
    Threshold(at=0.5, f1=0.5, precision=0.5, recall=0.5)
    """
    taken = [bool(r) for c, r in zip(confidence, right, strict=True) if c > at]
    hit, positives = sum(taken), sum(map(bool, right))
    return Threshold(
        at,
        f1=2 * hit / (len(taken) + positives) if hit else 0.0,
        precision=hit / len(taken) if taken else 0.0,
        recall=hit / positives if positives else 0.0,
    )


def best_threshold(confidence: Sequence[float], right: Sequence[bool]) -> Threshold | None:
    """Return the threshold of best F1; ties go to the highest.

    It lies halfway between two confidences that occur, or just below all of them. An infinite confidence is never a
    border. None if no case is right or none has a finite confidence.

    >>> best_threshold([0.9, 0.7, 0.6, 0.2], [True, False, True, False])
    Threshold(at=0.4, f1=0.8, precision=0.6666666666666666, recall=1.0)
    """
    seen = np.array(sorted({value for value in confidence if isfinite(value)}))
    if not any(right) or not len(seen):
        return None
    borders = np.concatenate([[seen[0] - 0.001 * max(1.0, abs(seen[0]))], seen[:-1] / 2 + seen[1:] / 2])
    values, good = np.asarray(confidence, dtype=np.float64), np.asarray(right, dtype=bool)
    order = np.argsort(values)
    above = len(values) - np.searchsorted(values[order], borders, side="right")
    hits = np.concatenate([np.cumsum(good[order][::-1])[::-1], [0]])[len(values) - above]
    scores = 2 * hits / (above + good.sum())
    best = len(scores) - 1 - int(np.argmax(scores[::-1]))
    return threshold(float(borders[best]), confidence, right)
