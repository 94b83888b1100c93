"""Fitting the classifier of ``route`` on three runs over the same labelled questions (Adaptive-RAG §3.2).

The label of a question is the simplest strategy that answers it right (EM 1). If none does, it is ``single`` for a
question of one hop and ``multi`` for one of more, as the paper labels by dataset; without known hops it has none. A
logistic model is fitted to each strategy by ridge regression. The share of labels predicted is of cross-validation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from polyhop.errors import UsageError
from polyhop.evaluation.tuning.confidence import FOLDS, Row, fit_logistic, fold_of
from polyhop.methods.baselines.route import STRATEGIES, classified, features_of
from polyhop.prompts.tasks.judging import Strategy

MIN_QUESTIONS = 50


@dataclass(frozen=True, slots=True)
class RouteFit:
    """The weights of each strategy, the number of questions with its label, and the share of labels predicted."""

    strategies: Mapping[Strategy, Mapping[str, float]]
    labels: Mapping[Strategy, int]
    methods: tuple[str, ...]
    accuracy: float

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values, which are the content of the classifier's file."""
        return asdict(self)


def fit_route(runs: Sequence[tuple[str, Sequence[Row]]]) -> RouteFit:
    """Fit the classifier to the runs of the strategies, from the simplest on: a method and its predictions each.

    Raises:
        UsageError: there are not three runs, or too few labelled questions, or only one label.
    """
    if len(runs) != len(STRATEGIES):
        raise UsageError(
            f"{len(runs)} runs given: three are needed, without retrieval, with one and with several, in this order"
        )
    by_id = [{row["id"]: row for row in rows} for _, rows in runs]
    questions = [row for name, row in by_id[0].items() if all(name in other for other in by_id)]
    labelled = [(row, label) for row in questions if (label := label_of([other[row["id"]] for other in by_id]))]
    labels = Counter(label for _, label in labelled)
    if len(labelled) < MIN_QUESTIONS or len(labels) < 2:
        raise UsageError(
            f"nothing to fit on: labels {dict(labels)}; at least {MIN_QUESTIONS} questions and two labels are needed"
        )
    right = 0
    for fold in range(FOLDS):
        fitted = _fit([pair for pair in labelled if fold_of(pair[0]) != fold])
        right += sum(classified(row["question"], fitted) == label for row, label in labelled if fold_of(row) == fold)
    methods = tuple(name for name, _ in runs)
    return RouteFit(_fit(labelled), {name: labels[name] for name in STRATEGIES}, methods, right / len(labelled))


def label_of(rows: Sequence[Row]) -> Strategy | None:
    """Return the simplest strategy that is right; if none is, the one for the question's hops, if they are known."""
    for name, row in zip(STRATEGIES, rows, strict=True):
        if row["metrics"].get("em") == 1.0:
            return name
    hops = rows[0]["hops"]
    return None if hops is None else "multi" if hops > 1 else "single"


def _fit(labelled: Sequence[tuple[Row, Strategy]]) -> dict[Strategy, Mapping[str, float]]:
    features = [features_of(row["question"]) for row, _ in labelled]
    return {name: fit_logistic(features, [label == name for _, label in labelled]) for name in STRATEGIES}
