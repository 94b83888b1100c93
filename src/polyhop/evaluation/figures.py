"""The figures of a report that are shown, and their labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from polyhop.engine.budget import Prices
from polyhop.errors import UsageError
from polyhop.evaluation.errors import MEANINGS, count_errors
from polyhop.evaluation.report import Report
from polyhop.evaluation.statistics import Mean


def is_shown(metric: str) -> bool:
    """Passages are scored at more ranks and in more ways than fit a table: it has those with a label and a profile's
    own, JSON has all."""
    return "@" not in metric or "." in metric or metric in _LABELS


def scored(report: Report) -> dict[str, Mean]:
    """Return the metrics that apply to a run."""
    return {name: mean for name, mean in report.metrics.items() if applies(name, report.usage.searches)}


def applies(metric: str, searches: int) -> bool:
    """Return True if a metric applies to a run with N searches: without a search nothing is ranked, so recall is not 0.

    >>> applies("recall_mean@5", 0), applies("em", 0)
    (False, True)
    """
    return searches > 0 or "@" not in metric


def shared_metric(reports: Mapping[str, Report]) -> str:
    """The metric to weigh runs by: the first of the usual ones, then of those shown, that at least two runs have.

    A single run shares its metrics with itself. Raises ``UsageError`` if there is no such metric.
    """
    counted = Counter(name for report in reports.values() for name in scored(report))
    for name in (*_USUAL, *filter(is_shown, counted)):
        if counted[name] >= min(2, len(reports)) > 0:
            return name
    raise UsageError(f"no metric is shared by two of these runs: {', '.join(reports) or 'there are none'}")


def label(name: str) -> str:
    """A metric's or statistic's name as papers have it."""
    return _LABELS.get(name, name)


def costs(report: Report, prices: Prices | None = None) -> dict[str, str]:
    """Return the cost per question, by name."""
    n, usage = max(1, len(report.rows)), report.usage
    mark = " (estimated)" if usage.tokens_estimated else ""
    texts = {
        "model calls": f"{usage.calls / n:.1f}",
        "calls in a row": f"{usage.layers / n:.1f}",
        "searches": f"{usage.searches / n:.1f}",
        "prompt tokens": f"{usage.prompt_tokens / n:,.0f}" + mark,
        "completion tokens": f"{usage.completion_tokens / n:,.0f}" + mark,
        "words in": f"{usage.prompt_words / n:,.0f}",
        "words out": f"{usage.completion_words / n:,.0f}",
        "seconds": f"{usage.seconds / n:.2f}",
        "seconds on the critical path": f"{usage.critical_seconds / n:.2f}",
    }
    return texts if prices is None else {**texts, "money": money(prices.total(usage) / n)}


def cost_label(name: str, reports: Iterable[Report]) -> str:
    """Name a cost for a table of these runs: seconds that may include waiting for other questions say so."""
    return "seconds (with queueing)" if name == "seconds" and any(report.queued for report in reports) else name


def numbers(reports: Mapping[str, Report], prices: Prices | None = None) -> list[list[object]]:
    """Runs as rows of bare numbers for a program to read: every metric (0 to 1) and statistic with the bounds of its
    interval and its number of questions, what a question cost, and how many fell to each class of error. The first row
    is the head."""
    names = [
        (kind, name)
        for kind in ("metrics", "statistics")
        for name in dict.fromkeys(name for report in reports.values() for name in getattr(report, kind))
    ]
    parts = ("value", "low", "high", "n")
    columns = [name if part == "value" else f"{name} {part}" for _, name in names for part in parts]
    counted = ("calls", "layers", "searches", "prompt_tokens", "completion_tokens", "seconds", "critical_seconds")
    paid = ["money"] if prices else []
    rows: list[list[object]] = [
        [
            "run",
            "method",
            "lm",
            "dataset",
            "questions",
            *columns,
            *counted,
            *paid,
            *(f"error {name}" for name in MEANINGS),
        ]
    ]
    for run, report in reports.items():
        n = max(1, len(report.rows))
        means = [getattr(report, kind).get(name) for kind, name in names]
        cells = [None if mean is None else getattr(mean, part) for mean in means for part in parts]
        cost = [getattr(report.usage, name) / n for name in counted]
        cost += [prices.total(report.usage) / n] if prices else []
        errors = count_errors(report.rows)
        wrong = [errors.get(name, 0) for name in MEANINGS]
        rows.append([run, report.method, report.lm, report.dataset, len(report.rows), *cells, *cost, *wrong])
    return rows


def money(value: float) -> str:
    """A question often costs less than a hundredth.

    >>> money(0.0012345)
    '0.001234'
    """
    return f"{value:.4g}"


_USUAL = ("f1", "em", "cover_em")

_LABELS: Mapping[str, str] = {
    "em": "EM",
    "f1": "F1",
    "cover_em": "cover-EM",
    "reviews": "#API (reviews)",
    "documents": "#Doc",
    "rate": "Rate (#Doc/#API, %)",
    "evidence": "#Evidence",
    **{f"recall_mean@{k}": f"recall@{k} mean" for k in (2, 5, 15)},
    **{f"recall_all@{k}": f"R@{k} (all gold)" for k in (2, 5, 10, 20)},
    **{f"ar@{k}": f"AR@{k} (answer)" for k in (2, 10, 20)},
}
