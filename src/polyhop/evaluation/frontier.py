"""What accuracy costs: of several runs, those that no other beats at no more cost (the Pareto frontier)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from polyhop.engine.prices import Prices
from polyhop.errors import UnknownName, UsageError
from polyhop.evaluation.agreement import common
from polyhop.evaluation.report import Report
from polyhop.evaluation.statistics import Mean

COSTS: Mapping[str, Callable[[Report, Prices | None], float]] = {
    "calls": lambda report, _: report.usage.calls,
    "tokens": lambda report, _: report.usage.prompt_tokens + report.usage.completion_tokens,
    "money": lambda report, prices: _money(report, prices),
    "seconds": lambda report, _: report.usage.critical_seconds,
}
"""What a run can cost, in all. ``seconds``: along the chain of calls that had to wait for each other."""


@dataclass(frozen=True, slots=True)
class Point:
    """A run by its score and its cost a question. ``behind``: the first run that is as good and as cheap, and one of
    the two more so; None on the frontier."""

    score: Mean
    cost: float
    behind: str | None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        return {"score": self.score.to_dict(), "cost": self.cost, "behind": self.behind}


def frontier(
    reports: Mapping[str, Report], cost: str, metric: str = "f1", prices: Prices | None = None
) -> dict[str, Point]:
    """Every run over the questions that all have answered, the cheapest first; equal runs share the frontier.

    Raises:
        UnknownName: no such cost; not every run has the metric.
        SettingError: a price is lacking.
        UsageError: no prices, or no question in common.
    """
    if cost not in COSTS:
        raise UnknownName("cost", cost, COSTS)
    runs = common(reports)
    for report in runs.values():
        if metric not in report.metrics:
            raise UnknownName("metric of every run", metric, set.intersection(*(set(r.metrics) for r in runs.values())))
    costs = {name: COSTS[cost](report, prices) / len(report.rows) for name, report in runs.items()}
    scores = {name: report.metrics[metric].value for name, report in runs.items()}

    def beats(one: str, other: str) -> bool:
        gained, saved = scores[one] - scores[other], costs[other] - costs[one]
        return gained >= 0 and saved >= 0 and (gained > 0 or saved > 0)

    order = sorted(runs, key=lambda name: (costs[name], -scores[name]))
    return {
        name: Point(
            runs[name].metrics[metric], costs[name], next((other for other in order if beats(other, name)), None)
        )
        for name in order
    }


def _money(report: Report, prices: Prices | None) -> float:
    if prices is None:
        raise UsageError("money needs prices: --price PROMPT:COMPLETION a million tokens, or a table by model")
    return prices.total(report.usage)
