"""Whether confidence tells right from wrong: AUROC, calibration bins and their error, and the threshold of best F1.

All take parallel sequences: a confidence a case (higher is surer), and whether the case was right. Pure functions.
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
    """The cases with a confidence from ``low`` up to ``high``: their mean confidence, and the share that is right."""

    low: float
    high: float
    confidence: float
    right: float
    n: int


@dataclass(frozen=True, slots=True)
class Threshold:
    """A decision ``confidence > at`` and how well it finds the right cases: each score 0 to 1."""

    at: float
    f1: float
    precision: float
    recall: float

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {name: getattr(self, name) for name in self.__slots__}


def auroc(confidence: Sequence[float], right: Sequence[bool]) -> float | None:
    """The chance that a right case is surer than a wrong one, ties counted half (Mann-Whitney); None where all cases
    are right, or all wrong.

    >>> auroc([0.9, 0.8, 0.7, 0.6], [True, False, True, False])
    0.75
    """
    _, places, counts = np.unique(np.asarray(confidence, dtype=np.float64), return_inverse=True, return_counts=True)
    good = np.asarray(right, dtype=bool)
    n_right, n_wrong = int(good.sum()), int((~good).sum())
    if not n_right or not n_wrong:
        return None
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]  # tied cases share the mean of their ranks
    return float((ranks[good].sum() - n_right * (n_right + 1) / 2) / (n_right * n_wrong))


def calibration_bins(confidence: Sequence[float], right: Sequence[bool], bins: int = 10) -> list[Bin]:
    """Bins of equal width over 0 to 1, those without a case left out. A confidence on a border falls into the upper
    one, 1 into the last. ``SettingError`` for a confidence outside 0 to 1.

    >>> [(bin.low, bin.right, bin.n) for bin in calibration_bins([0.1, 0.5, 1.0, 0.7], [False, True, True, False], 2)]
    [(0.0, 0.0, 1), (0.5, 0.6666666666666666, 3)]
    """
    if strange := [value for value in confidence if not 0 <= value <= 1]:
        raise SettingError(f"a confidence of {strange[0]} cannot be put into bins: it must be 0 to 1")
    borders = [number / bins for number in range(bins + 1)]
    held: list[list[tuple[float, bool]]] = [[] for _ in range(bins)]
    places = np.searchsorted(borders, confidence, side="right") - 1
    for place, sure, good in zip(places, confidence, right, strict=True):
        held[min(int(place), bins - 1)].append((float(sure), bool(good)))
    return [
        Bin(low, high, sum(c for c, _ in cases) / len(cases), sum(r for _, r in cases) / len(cases), len(cases))
        for (low, high), cases in zip(pairwise(borders), held, strict=True)
        if cases
    ]


def calibration_error(bins: Sequence[Bin]) -> float | None:
    """ECE (Guo et al., 2017): the mean gap between confidence and share right, bins weighted by cases; None without
    any.

    >>> calibration_error([Bin(0.0, 0.5, 0.25, 0.25, 3), Bin(0.5, 1.0, 0.75, 0.25, 1)])
    0.125
    """
    cases = sum(bin.n for bin in bins)
    return sum(bin.n * abs(bin.confidence - bin.right) for bin in bins) / cases if cases else None


def threshold(at: float, confidence: Sequence[float], right: Sequence[bool]) -> Threshold:
    """How well ``confidence > at`` finds the right cases.

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
    """The threshold of best F1, the highest of equally good ones: halfway between two confidences that occur, or just
    below all of them. An infinite confidence is never a border. None where no case is right or none has a confidence.

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
