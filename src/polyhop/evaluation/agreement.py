"""Agreement between runs, and the scores of choosing among their answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from polyhop.common.text import normalise
from polyhop.errors import UsageError
from polyhop.evaluation.report import Report
from polyhop.evaluation.statistics import Mean, kappa, means

Row = Mapping[str, Any]


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
    among the runs would reach. ``majority``: the score of the most frequent normalised answer; ties go to the
    earliest run.
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
    questions = list(zip(*rows.values(), strict=True))
    return EnsembleScores(
        len(ids),
        {(first, second): _agreement(rows[first], rows[second]) for first, second in combinations(rows, 2)},
        means(map(_best, questions)),
        means(map(_majority, questions)),
    )


def _agreement(ours: Sequence[Row], theirs: Sequence[Row]) -> Agreement:
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if _answers(a) and _answers(b)]
    same = [float(normalise(a["prediction"]) == normalise(b["prediction"])) for a, b in pairs]
    judged = [(a["metrics"]["em"] == 1, b["metrics"]["em"] == 1) for a, b in pairs if _judged(a) and _judged(b)]
    return Agreement(Mean.of(same) if same else None, kappa([a for a, _ in judged], [b for _, b in judged]))


def _best(rows: Sequence[Row]) -> dict[str, float]:
    shared = [name for name in rows[0]["metrics"] if all(name in row["metrics"] for row in rows)]
    return {name: max(row["metrics"][name] for row in rows) for name in shared}


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
