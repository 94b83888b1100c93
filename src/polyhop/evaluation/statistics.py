"""Confidence intervals of means over questions, and significance tests between runs. Pure functions.

Intervals are percentile bootstrap ones (Efron and Tibshirani, 1993, §13.3): questions are drawn again with replacement.
Of 60 questions, 30 of them right, the interval is .38 to .63. The difference of two runs is tested by
flipping the sign of each question's difference (Fisher's paired permutation test) and by a shifted bootstrap (ibid.,
§16.4); many tests at once are corrected as Holm (1979) does. The same values and seed give the same figures, whatever
the order of the questions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.float64]
K = TypeVar("K", bound=Hashable)

RESAMPLES = 2_000
"""Bootstrap resamples for the interval of a mean."""

COMPARISON_RESAMPLES = 10_000
"""Resamples and sign flips for a comparison; its p is then at least 1 / 10,001."""

MAX_EXACT = 14
"""Maximum number of differing questions for which all sign flips are tried, not a sample of them."""

LEVEL = 0.95
_BLOCK = 2_000_000  # cells drawn together: 16 MB


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over the ``n`` questions that have a value, and its 95 % interval, ``low`` to ``high``."""

    value: float
    n: int
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        """Return the mean of at least one value.

        >>> Mean.of([0.5, 0.5])
        Mean(value=0.5, n=2, low=0.5, high=0.5)
        """
        return means([{"": value} for value in values])[""]

    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {name: round(getattr(self, name), 6) for name in ("value", "low", "high", "n")}


def means(rows: Iterable[Mapping[str, float | None]]) -> dict[str, Mean]:
    """Return the mean of each name over the rows (one per question) that have a finite value for it."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for row in rows:
        for name, value in row.items():
            if value is not None and isfinite(value):
                found[name].append(float(value))
    columns = {name: np.sort(np.array(values)) for name, values in found.items()}
    result: dict[str, Mean] = {}
    for names, table in same_length(columns):
        low, high = interval(resampled(table, RESAMPLES))
        for name, value, lower, upper in zip(names, table.mean(axis=0), low, high, strict=True):
            result[name] = Mean(float(value), len(table), *_around(value, lower, upper))
    return {name: result[name] for name in found}


def ratio(above: Sequence[float], below: Sequence[float]) -> Mean:
    """Return the sum of ``above`` by that of ``below``, which is not 0, over questions that have both.

    The interval leaves out draws whose ``below`` is 0.

    >>> ratio([1.0, 2.0], [2.0, 4.0])
    Mean(value=0.5, n=2, low=0.5, high=0.5)
    """
    table = np.array(sorted(zip(above, below, strict=True)))
    drawn = resampled(table, RESAMPLES)
    drawn = drawn[drawn[:, 1] > 0]
    value = table[:, 0].sum() / table[:, 1].sum()
    low, high = interval(drawn[:, :1] / drawn[:, 1:])
    return Mean(float(value), len(table), *_around(value, low[0], high[0]))


def resampled(table: Array, resamples: int, seed: int = 0) -> Array:
    """Return the column means of ``table`` (questions x columns) over resampled questions: (resamples x columns)."""
    random = np.random.default_rng(seed)
    n = len(table)
    blocks = []
    for rows in _blocks(resamples, n):
        draws = random.integers(0, n, (rows, n), dtype=np.int32) + np.arange(0, rows * n, n, dtype=np.int32)[:, None]
        counts = np.bincount(draws.ravel(), minlength=rows * n).reshape(rows, n)
        blocks.append(counts.astype(np.float64) @ table / n)
    return np.concatenate(blocks)


def interval(drawn: Array) -> tuple[Array, Array]:
    """Return the lower and the upper bound of each column of resampled means."""
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return low, high


def sign_flip(gains: Array, flips: int, seed: int = 0) -> Array:
    """Return the two-sided p of each column (questions x columns), by the sign-flip permutation test.

    The null hypothesis: a question's gain is as likely to be its opposite. p is the share of sign flips whose sum is at
    least as far from 0. It is exact if at most ``MAX_EXACT`` gains are not 0, and otherwise taken from a random sample
    that includes the observed signs.

    >>> sign_flip(np.array([[1.0], [1.0], [1.0], [0.0]]), 100)
    array([0.25])
    """
    few = np.count_nonzero(gains, axis=0) <= MAX_EXACT
    found = np.array(
        [_exact(column[column != 0]) if small else 0.0 for column, small in zip(gains.T, few, strict=True)]
    )
    if not few.all():
        found[~few] = _sampled(gains[:, ~few], flips, seed)
    return found


def _exact(gains: Array) -> float:
    sums = np.abs(_signs(len(gains)) @ gains)
    return float((sums >= abs(gains.sum()) - _rounding(gains)).mean())


@lru_cache(maxsize=MAX_EXACT + 1)
def _signs(n: int) -> Array:
    """Return all 2ⁿ rows of n signs."""
    return np.asarray(1.0 - 2.0 * (np.arange(2**n)[:, None] >> np.arange(n) & 1), dtype=np.float64)


def _sampled(gains: Array, flips: int, seed: int) -> Array:
    random = np.random.default_rng(seed)
    least = np.abs(gains.sum(axis=0)) - _rounding(gains)
    hits = np.zeros(gains.shape[1])
    for rows in _blocks(flips, len(gains)):
        signs = 1.0 - 2.0 * random.integers(0, 2, (rows, len(gains)), dtype=np.int8)
        hits += (np.abs(signs @ gains) >= least).sum(axis=0)
    return (hits + 1) / (flips + 1)


def _rounding(gains: Array) -> Any:
    """Return the distance within which sums are equal: they may differ by the order of adding."""
    return 1e-9 * np.abs(gains).sum(axis=0)


def shifted_bootstrap(drawn: Array, observed: Array) -> Array:
    """Return the two-sided p of each column by bootstrap: the share of resampled means as far from the observed one as
    that is from 0. It is too small for a handful of questions; ``sign_flip`` holds there too.

    >>> shifted_bootstrap(np.array([[0.0], [0.5], [1.0]]), np.array([0.5]))
    array([0.75])
    """
    hits = (np.abs(drawn - observed) >= np.abs(observed) * (1 - 1e-9)).sum(axis=0)
    return np.asarray((hits + 1) / (len(drawn) + 1))


def holm(p: Mapping[K, float]) -> dict[K, float]:
    """Correct the p of many tests for their number (Holm, 1979).

    >>> holm({"em": 0.01, "f1": 0.04, "cover_em": 0.03})
    {'em': 0.03, 'f1': 0.06, 'cover_em': 0.06}
    """
    corrected: dict[K, float] = {}
    least = 0.0
    for rank, name in enumerate(sorted(p, key=lambda name: p[name])):
        least = corrected[name] = min(1.0, max(least, (len(p) - rank) * p[name]))
    return {name: corrected[name] for name in p}


def kappa(one: Sequence[bool], other: Sequence[bool]) -> float | None:
    """Return Cohen's kappa: the agreement of two judges beyond chance, at most 1.

    None if both give the same verdict on all questions, so that chance alone would have them agree, or if there are no
    questions.

    >>> kappa([True, True, False, False], [True, False, False, False])
    0.5
    """
    if not one:
        return None
    n, mine, theirs = len(one), sum(one) / len(one), sum(other) / len(one)
    same = sum(a == b for a, b in zip(one, other, strict=True)) / n
    chance = mine * theirs + (1 - mine) * (1 - theirs)
    return (same - chance) / (1 - chance) if chance < 1 else None


def same_length(columns: Mapping[str, Array]) -> Iterator[tuple[list[str], Array]]:
    """Group the columns by length, so that those of one length share their draws; yield their names and table."""
    by_length: defaultdict[int, list[str]] = defaultdict(list)
    for name, column in columns.items():
        by_length[len(column)].append(name)
    for names in by_length.values():
        yield names, np.column_stack([columns[name] for name in names])


def _around(value: float, low: float, high: float) -> tuple[float, float]:
    """Return bounds that no rounding puts on the wrong side of the mean."""
    return float(min(low, value)), float(max(high, value))


def _blocks(rows: int, width: int) -> Iterator[int]:
    """Divide ``rows`` into parts of at most ``_BLOCK`` cells."""
    max_rows = max(1, _BLOCK // max(1, width))
    for start in range(0, rows, max_rows):
        yield min(max_rows, rows - start)
