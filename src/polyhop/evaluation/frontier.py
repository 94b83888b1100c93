"""The Pareto frontier of accuracy and cost: the runs that no other run beats at no more cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from polyhop.engine.budget import Prices
from polyhop.errors import UnknownName, UsageError
from polyhop.evaluation.agreement import on_common_questions
from polyhop.evaluation.figures import scored, shared_metric
from polyhop.evaluation.report import Report
from polyhop.evaluation.statistics import Mean

COSTS: Mapping[str, Callable[[Report, Prices | None], float]] = {
    "calls": lambda report, _: report.usage.calls,
    "tokens": lambda report, _: report.usage.prompt_tokens + report.usage.completion_tokens,
    "money": lambda report, prices: _money(report, prices),
    "seconds": lambda report, _: report.usage.critical_seconds,
}
"""The total costs of a run, by name. ``seconds``: along the chain of calls that had to wait for each other."""


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """A run's score and its cost per question.

    ``behind``: the first run that is at least as good and as cheap, and better in one of the two; None on the frontier.
    """

    score: Mean
    cost: float
    behind: str | None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {"score": self.score.to_dict(), "cost": self.cost, "behind": self.behind}


def frontier(
    reports: Mapping[str, Report], cost: str, metric: str | None = None, prices: Prices | None = None
) -> dict[str, FrontierPoint]:
    """Place every run that has the metric on cost and score, the cheapest first; equal runs share the frontier.

    Only the questions that all of these runs answered count. A run without the metric, such as one that only retrieves,
    is left out.

    Args:
        metric: by default the one that ``figures.shared_metric`` names.

    Raises:
        UnknownName: no such cost; no run has the metric.
        SettingError: a price is lacking.
        UsageError: no prices, or no question in common.
    """
    if cost not in COSTS:
        raise UnknownName("cost", cost, COSTS)
    metric = metric or shared_metric(reports)
    having = {name: report for name, report in reports.items() if metric in scored(report)}
    if not having:
        raise UnknownName(
            "metric of these runs", metric, {name for report in reports.values() for name in scored(report)}
        )
    runs = {name: report for name, report in on_common_questions(having).items() if metric in scored(report)}
    if not runs:
        raise UsageError(f"no question that all of these runs answered has the metric {metric}: {', '.join(having)}")
    costs = {name: COSTS[cost](report, prices) / len(report.rows) for name, report in runs.items()}
    scores = {name: report.metrics[metric].value for name, report in runs.items()}

    def beats(run: str, other: str) -> bool:
        gained, saved = scores[run] - scores[other], costs[other] - costs[run]
        return gained >= 0 and saved >= 0 and (gained > 0 or saved > 0)

    order = sorted(runs, key=lambda name: (costs[name], -scores[name]))
    return {
        name: FrontierPoint(
            runs[name].metrics[metric], costs[name], next((other for other in order if beats(other, name)), None)
        )
        for name in order
    }


def _money(report: Report, prices: Prices | None) -> float:
    if prices is None:
        raise UsageError("money needs prices: --price PROMPT:COMPLETION per million tokens, or a table by model")
    return prices.total(report.usage)
