"""Grid search of a method's settings: a run at every point, the best by the answers' scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyhop.engine.options import LM, Source
from polyhop.errors import PolyhopError, UnknownName, UsageError
from polyhop.evaluation.compare import Difference, compare
from polyhop.evaluation.report import Report
from polyhop.evaluation.runner import CONCURRENCY, Progress
from polyhop.evaluation.runs import RunInputs, RunSpec, combinations, folder_in, folder_name, run_all
from polyhop.methods.registry import method_named
from polyhop.types import Question

GE_GRID: Mapping[str, Sequence[float]] = {
    "retrieve_below": (0.8, 0.9, 0.95, 1.0),
    "keep_above": (0.2, 0.4, 0.6, 0.8),
}
"""Values of k1 and k2 to try; at a k1 of 1 nearly every answer is looked up (``benchmarks/confidence.py``)."""

OBJECTIVES = ("f1", "em", "cover_em")


@dataclass(frozen=True, slots=True)
class GridPoint:
    """One point of a grid and the run it was measured by."""

    settings: Mapping[str, Any]
    report: Report

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values: scores, and model calls and searches per question."""
        n = max(1, len(self.report.rows))
        usage = self.report.usage
        return {
            "settings": dict(self.settings),
            "scores": scores_of(self.report),
            "calls": usage.calls / n,
            "searches": usage.searches / n,
            "failed": len(self.report.failed),
        }


@dataclass(frozen=True, slots=True)
class GridSearchResult:
    """A grid's points in order, the ``best`` of them, and its ``gain`` over the method's defaults.

    ``gain`` is None if the defaults are not a point of the grid. It is measured on the questions it was chosen on, so
    it is optimistic: confirm it on other questions.
    """

    method: str
    objective: str
    fixed: Mapping[str, Any]
    points: Sequence[GridPoint]
    best: GridPoint
    gain: Difference | None

    @property
    def file(self) -> dict[str, Any]:
        """The content of a settings file: method, settings, the dataset they were fitted on, and their scores."""
        report = self.best.report
        return {
            "method": self.method,
            "settings": {**self.fixed, **self.best.settings},
            "fitted_on": {"dataset": report.dataset, "questions": len(report.rows), "lm": report.lm},
            "scores": scores_of(report),
        }

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values: those of ``file`` and the whole grid."""
        gain = self.gain.to_dict() if self.gain else None
        grid = [point.to_dict() for point in self.points]
        return {**self.file, "objective": self.objective, "gain": gain, "grid": grid}


def tune(
    method: str,
    grid: Mapping[str, Sequence[Any]],
    dataset: str | Path | Sequence[Question],
    corpus: Source | None = None,
    lm: LM = "pocket",
    *,
    objective: str = "f1",
    work: str | Path | None = None,
    limit: int | None = None,
    concurrency: int = CONCURRENCY,
    skip_bad: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> GridSearchResult:
    """Run a method at every point of a grid of its settings and choose the point of best ``objective``.

    Ties go to the point with the fewest model calls, then to the first. A named model's replies are cached, so a call
    that several points share is made once. ``work``: a folder with a run's folder per point; the same command resumes
    there. ``options``: those of ``Pipeline`` and the method's other settings.

    Raises:
        UsageError: a setting, value or option does not fit; found before the first call.
        PolyhopError: at every point a question failed, so that none can be compared.
    """
    if objective not in OBJECTIVES:
        raise UnknownName("objective", objective, OBJECTIVES)
    fixed, points = _checked(method, grid, options)
    inputs = RunInputs.read(dataset, corpus, limit=limit, skip_bad=skip_bad, metrics=options.get("metrics"))
    if not inputs.questions or not all(question.answers for question in inputs.questions):
        raise UsageError("tuning needs questions, and a gold answer for each")
    shared = {
        "corpus": inputs.corpus,
        "method": method,
        "lm": lm,
        "limit": limit,
        "concurrency": concurrency,
        "title": inputs.title,
        **options,
        "metrics": inputs.profiles,
    }
    specs = [
        RunSpec(i, inputs.questions, {**shared, **point, "out": folder_in(work, folder_name(point))})
        for i, point in enumerate(points)
    ]
    measured = [GridPoint(points[i], report) for i, report in run_all(specs, progress)]
    best = _best(measured, objective)
    return GridSearchResult(method, objective, fixed, measured, best, _gain(method, measured, best, objective))


def scores_of(report: Report) -> dict[str, float]:
    """Return the mean of each answer metric of a run, 0 to 1."""
    return {name: report.metrics[name].value for name in OBJECTIVES if name in report.metrics}


def _checked(
    method: str, grid: Mapping[str, Sequence[Any]], options: Mapping[str, Any]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the fixed settings and the grid's distinct points, all typed."""
    known = method_named(method)
    if both := sorted(grid.keys() & options.keys()):
        raise UsageError(f"{both[0]} is tuned: do not give it a value")
    given = {name: value for name, value in options.items() if name in known.settings}
    fixed = {name: value for name, value in known.resolve(given).items() if name in given}
    points = []
    for chosen in combinations(grid):
        typed = known.resolve({**given, **chosen})
        if (point := {name: typed[name] for name in chosen}) not in points:
            points.append(point)
    return fixed, points


def _best(points: Sequence[GridPoint], objective: str) -> GridPoint:
    whole = [point for point in points if not point.report.failed]
    if not whole:
        name, why = next(iter(points[0].report.failed.items()))
        raise PolyhopError(f"at every point of the grid a question failed; the first, {name}: {why}")
    return max(whole, key=lambda p: (p.report.metrics[objective].value, -p.report.usage.calls))


def _gain(method: str, points: Sequence[GridPoint], best: GridPoint, objective: str) -> Difference | None:
    defaults = method_named(method).settings
    usual = next((p for p in points if all(defaults[name].default == v for name, v in p.settings.items())), None)
    if usual is None or usual.report.failed:
        return None
    return compare(usual.report, best.report).metrics[objective]
