"""Comparison of runs over the same questions: paired differences, tests of significance, agreement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from polyhop.common.text import normalise
from polyhop.errors import UsageError
from polyhop.evaluation.report import Report, Row, applies
from polyhop.evaluation.statistics import (
    COMPARISON_RESAMPLES,
    Array,
    Mean,
    holm,
    interval,
    kappa,
    means,
    resampled,
    same_length,
    shifted_bootstrap,
    sign_flip,
)


@dataclass(frozen=True, slots=True)
class Difference:
    """A metric of two runs over their common questions: ``second - first`` with its 95 % interval by paired bootstrap.

    ``better`` and ``worse`` count the questions on which the second run scores higher and lower. ``p``: two-sided, by
    the paired permutation test; ``p_bootstrap``: by the paired bootstrap; ``corrected``: ``p`` by Holm for all that was
    compared with it, None if it was not counted among them.
    """

    first: float
    second: float
    low: float
    high: float
    better: int
    worse: int
    n: int
    p: float
    p_bootstrap: float
    corrected: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: value if value is None else round(value, 6) for name, value in values.items()}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The differences between two runs. ``flipped``: questions right (EM) in one run only, as (id, first, second).

    ``misled`` (SearChain, Table 3): if one of the runs never searched and the other did, the share of the questions
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


def compare(first: Report, second: Report, *, family: Iterable[str] | None = None, seed: int = 0) -> Comparison:
    """Compare two runs on the questions both answered; ``family`` as in ``compare_all``.

    ``UsageError`` if they have no question in common.
    """
    return compare_all(first, [second], family=family, seed=seed)[0]


def compare_all(
    baseline: Report, others: Sequence[Report], *, family: Iterable[str] | None = None, seed: int = 0
) -> list[Comparison]:
    """Compare each run with the baseline, as ``compare_pairs`` does."""
    return compare_pairs([(baseline, other) for other in others], family=family, seed=seed)


def compare_pairs(
    pairs: Iterable[tuple[Report, Report]], *, family: Iterable[str] | None = None, seed: int = 0
) -> list[Comparison]:
    """Compare the second run of each pair with the first, on the questions both answered, by the metrics that apply to
    both.

    ``family``: the metrics whose p is corrected, together over all pairs; by default all. Name few, and before you
    look: the more metrics, the larger each corrected p. ``UsageError`` if two runs have no question in common.
    """
    found = [_compared(first, second, seed) for first, second in pairs]
    counted = None if family is None else set(family)
    p = {
        (i, name): difference.p
        for i, comparison in enumerate(found)
        for name, difference in comparison.metrics.items()
        if counted is None or name in counted
    }
    corrected = holm(p)
    return [
        replace(
            comparison,
            metrics={
                name: replace(difference, corrected=corrected.get((i, name)))
                for name, difference in comparison.metrics.items()
            },
        )
        for i, comparison in enumerate(found)
    ]


def _compared(first: Report, second: Report, seed: int) -> Comparison:
    ours = {row["id"]: row for row in first.rows}
    theirs = {row["id"]: row for row in second.rows}
    pairs = [(ours[name], theirs[name]) for name in ours if name in theirs]
    if not pairs:
        raise UsageError("the two runs have no question in common")
    scores = [(a["metrics"], b["metrics"]) for a, b in pairs]
    searches = min(first.usage.searches, second.usage.searches)
    names = dict.fromkeys(name for one, other in scores for name in one if name in other and applies(name, searches))
    columns = {name: [(a[name], b[name]) for a, b in scores if name in a and name in b] for name in names}
    flipped = [
        (a["id"], a["prediction"], b["prediction"])
        for a, b in pairs
        if {a["metrics"].get("em"), b["metrics"].get("em")} == {0, 1}
    ]
    return Comparison(first, second, differences(columns, seed), flipped, _misled(pairs))


def _misled(pairs: Sequence[tuple[Row, Row]]) -> Mean | None:
    searched = [any(row["usage"]["searches"] for row in rows) for rows in zip(*pairs, strict=True)]
    if searched[0] == searched[1]:
        return None
    closed = 0 if searched[1] else 1
    return misled([(pair[closed], pair[1 - closed]) for pair in pairs])


def misled(pairs: Iterable[tuple[Row, Row]]) -> Mean | None:
    """Return the share of the questions right (cover-EM) without search that are wrong with it.

    ``pairs``: a question's line without search and with it. None if no question is right without search.
    """
    both = [(one["metrics"], other["metrics"]) for one, other in pairs]
    scored = [(one["cover_em"], other["cover_em"]) for one, other in both if "cover_em" in one and "cover_em" in other]
    right = [float(found != 1) for known, found in scored if known == 1]
    return Mean.of(right) if right else None


def differences(columns: Mapping[str, Sequence[tuple[float, float]]], seed: int = 0) -> dict[str, Difference]:
    """Return the mean difference of each column of pairs, one pair per question.

    The same seed gives the same figures for any order of the questions.
    """
    values: dict[str, Array] = {name: np.array(sorted(pairs), dtype=np.float64) for name, pairs in columns.items()}
    gains = {name: np.sort(pairs[:, 1] - pairs[:, 0]) for name, pairs in values.items()}
    found: dict[str, Difference] = {}
    for names, table in same_length(gains):
        drawn = resampled(table, COMPARISON_RESAMPLES, seed)
        low, high = interval(drawn)
        p, p_bootstrap = sign_flip(table, COMPARISON_RESAMPLES, seed), shifted_bootstrap(drawn, table.mean(axis=0))
        for i, name in enumerate(names):
            first, second = values[name].mean(axis=0)
            found[name] = Difference(
                first=float(first),
                second=float(second),
                low=float(low[i]),
                high=float(high[i]),
                better=int((table[:, i] > 0).sum()),
                worse=int((table[:, i] < 0).sum()),
                n=len(table),
                p=float(p[i]),
                p_bootstrap=float(p_bootstrap[i]),
            )
    return {name: found[name] for name in columns}


def difference(pairs: Sequence[tuple[float, float]], seed: int = 0) -> Difference:
    """Return the mean difference of at least one pair, one pair per question."""
    return differences({"": pairs}, seed)[""]


# --- agreement, and the scores of choosing among the answers of several runs


@dataclass(frozen=True, slots=True)
class Agreement:
    """The agreement of two runs.

    ``same``: the share of questions with the same normalised answer; None if there are no answers to compare.
    ``kappa``: Cohen's kappa of correctness (EM); None if it is not defined, as ``statistics.kappa`` says.
    """

    same: Mean | None
    kappa: float | None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {"same": self.same.to_dict() if self.same else None, "kappa": self.kappa}


@dataclass(frozen=True, slots=True)
class EnsembleScores:
    """The scores of an ensemble of runs over the ``n`` questions that all of them answered.

    ``pairs``: the agreement of each two runs. ``oracle``: the best score of any run per question, as a perfect choice
    among the runs would reach; a run that never searches has no recall. ``majority``: the score of the most frequent
    normalised answer; ties go to the earliest run.
    """

    n: int
    pairs: Mapping[tuple[str, str], Agreement]
    oracle: Mapping[str, Mean]
    majority: Mapping[str, Mean]

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {
            "questions": self.n,
            "agreement": [{"runs": list(pair), **agreement.to_dict()} for pair, agreement in self.pairs.items()],
            "oracle": {name: mean.to_dict() for name, mean in self.oracle.items()},
            "majority": {name: mean.to_dict() for name, mean in self.majority.items()},
        }


def on_common_questions(reports: Mapping[str, Report]) -> dict[str, Report]:
    """Restrict the runs to the questions that all of them answered, in the first run's order.

    ``UsageError`` if there is none.
    """
    shared = set.intersection(*({row["id"] for row in report.rows} for report in reports.values()))
    if not shared:
        raise UsageError(f"these runs have no question in common: {', '.join(reports)}")
    if all(len(report.rows) == len(shared) for report in reports.values()):
        return dict(reports)
    return {name: report.only(lambda row: row["id"] in shared) for name, report in reports.items()}


def ensemble(reports: Mapping[str, Report]) -> EnsembleScores:
    """Compare runs over their common questions. ``UsageError`` if they have none."""
    by_id = {name: {row["id"]: row for row in report.rows} for name, report in on_common_questions(reports).items()}
    ids = list(next(iter(by_id.values())))
    rows = {name: [found[id] for id in ids] for name, found in by_id.items()}
    searches = [report.usage.searches for report in reports.values()]
    questions = list(zip(*rows.values(), strict=True))
    return EnsembleScores(
        len(ids),
        {(first, second): _agreement(rows[first], rows[second]) for first, second in combinations(rows, 2)},
        means(_best(row, searches) for row in questions),
        means(map(_majority, questions)),
    )


def _agreement(ours: Sequence[Row], theirs: Sequence[Row]) -> Agreement:
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if _answers(a) and _answers(b)]
    same = [float(normalise(a["prediction"]) == normalise(b["prediction"])) for a, b in pairs]
    judged = [(a["metrics"]["em"] == 1, b["metrics"]["em"] == 1) for a, b in pairs if _judged(a) and _judged(b)]
    return Agreement(Mean.of(same) if same else None, kappa([a for a, _ in judged], [b for _, b in judged]))


def _best(rows: Sequence[Row], searches: Sequence[int]) -> dict[str, float]:
    """Return the best score per metric that all runs have to which it applies."""
    found: dict[str, float] = {}
    for name in dict.fromkeys(name for row in rows for name in row["metrics"]):
        scores = [row["metrics"].get(name) for row, n in zip(rows, searches, strict=True) if applies(name, n)]
        if scores and None not in scores:
            found[name] = max(scores)
    return found


def _majority(rows: Sequence[Row]) -> dict[str, float]:
    answers = [normalise(row["prediction"]) for row in rows if _answers(row)]
    if len(answers) < len(rows):
        return {}
    majority = Counter(answers).most_common(1)[0][0]  # ties go to the first one
    metrics: dict[str, float] = rows[answers.index(majority)]["metrics"]
    return {name: value for name, value in metrics.items() if "@" not in name}  # a vote ranks no passages


def _answers(row: Row) -> bool:
    """Return True if the run gives answers, not only a ranking."""
    return bool(row.get("answering", True))


def _judged(row: Row) -> bool:
    return "em" in row["metrics"]
