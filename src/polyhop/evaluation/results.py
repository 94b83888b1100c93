"""A results table as papers print it: runs as rows, chosen measures as columns.

The best figure of a column and the second are ranked, and the figures that differ significantly from a baseline's are
marked, here alone; each form of the table shows that in its own way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Literal, TypeAlias

from polyhop.common.text import counted
from polyhop.engine.budget import Prices
from polyhop.errors import UnknownName
from polyhop.evaluation.compare import Comparison, compare_all, compare_pairs
from polyhop.evaluation.figures import COSTS, distinct, label, scored
from polyhop.evaluation.report import Report
from polyhop.evaluation.statistics import Mean

Reports: TypeAlias = Mapping[str, Report]
Rank: TypeAlias = Literal["best", "second"]
RANKS: tuple[Rank, ...] = ("best", "second")

NOTHING = "–"

MARKS: Mapping[str, float] = {"‡": 0.01, "†": 0.05}
"""The mark of a figure whose corrected p is below this bound, the smallest bound first."""

MAIN = ("em", "f1", "cover_em", "recall_mean@5", "recall_all@5")
MAIN_COSTS = ("calls", "layers", "tokens", "seconds", "throughput")
"""The default columns: of the metrics those that a run has or, if none has any, all that tables show."""

_LABELS = {"layers": "in a row", "throughput": "questions/s", "parsed": "parsed at first try"}
_FORMS = {"calls": ",.1f", "layers": ",.1f", "searches": ",.1f", "seconds": ",.2f", "money": ".4g"}
_TIME = "seconds: a question's own time, without waiting for its turn; questions/s: those of the whole run"


@dataclass(frozen=True, slots=True)
class Measure:
    """A column: a figure per run. ``better``: 1 if more is better, -1 if less is, 0 if neither."""

    name: str
    label: str
    of: Callable[[Report], Mean | float | None]
    better: int
    scale: float = 1
    form: str = ",.2f"

    def cell(self, report: Report, intervals: bool) -> Cell:
        """Return the figure of a run."""
        found = self.of(report)
        if found is None:
            return Cell()
        value = self.scale * (found.value if isinstance(found, Mean) else found)
        width = f"±{self.scale * found.half_width:{self.form}}" if intervals and isinstance(found, Mean) else ""
        return Cell(f"{value:{self.form}}", round(value, 6), width)


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure on its column's scale, with its text, half of its interval, its rank and its mark of significance.

    A run without the measure has no value. A cost of 0 has no rank: the method does without.
    """

    text: str = NOTHING
    value: float | None = None
    interval: str = ""
    rank: Rank | None = None
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Results:
    """A results table.

    ``rows``: cells by the runs' names. ``facts``: by name, those of dataset, model and number of questions that differ
    between the runs. ``tested``: the columns whose figures were compared with a baseline's. ``notes`` belong below.
    """

    columns: Sequence[Measure]
    rows: Mapping[str, Sequence[Cell]]
    facts: Mapping[str, Mapping[str, object]]
    tested: Collection[str]
    notes: Sequence[str]

    def texts(self) -> list[list[str | Cell]]:
        """Return the head and the rows."""
        rows: list[list[str | Cell]] = [["run", *next(iter(self.facts.values())), *(c.label for c in self.columns)]]
        rows += ([name, *map(str, self.facts[name].values()), *row] for name, row in self.rows.items())
        return rows

    def numbers(self) -> list[list[object]]:
        """Return the head and the rows as bare numbers; the mark of a tested figure has its own column."""
        names = [(column.name, f"{column.name} significance") for column in self.columns]
        rows: list[list[object]] = [["run", *next(iter(self.facts.values())), *self._flat(names)]]
        for name, row in self.rows.items():
            rows.append([name, *self.facts[name].values(), *self._flat([(cell.value, cell.mark) for cell in row])])
        return rows

    def records(self) -> dict[object, dict[object, object]]:
        """Return the bare numbers by run and column."""
        (_, *head), *rows = self.numbers()
        return {name: dict(zip(head, values, strict=True)) for name, *values in rows}

    def _flat(self, pairs: Sequence[tuple[object, str]]) -> list[object]:
        """Return the first of each pair, and the second too if its column was tested."""
        paired = zip(self.columns, pairs, strict=True)
        return [item for column, pair in paired for item in pair[: 1 + (column.name in self.tested)]]


def results(
    reports: Reports,
    columns: Sequence[str] | None = None,
    *,
    baseline: str | None = None,
    prices: Prices | None = None,
    intervals: bool = False,
    groups: Sequence[Sequence[str]] | None = None,
    comparisons: Mapping[str, Comparison] | None = None,
) -> Results:
    """Make a results table of runs, by name.

    Args:
        columns: names of metrics, of the methods' statistics, and of costs; by default the main ones.
        baseline: the name of a run; figures that differ from its figures on the same questions are marked.
        intervals: add half of the 95 % interval to each mean.
        groups: the runs that are ranked together; by default those of one dataset.
        comparisons: of runs with the baseline; by default those of its dataset are compared by the metrics shown.

    Raises:
        UnknownName: no run has such a measure; there is no such run.
        UsageError: a run shares no question with the baseline.
    """
    known = measures(reports, prices)
    names = main_columns(reports, prices) if columns is None else list(dict.fromkeys(columns))
    for name in names or [""]:
        if name not in known:
            raise UnknownName("column", name, known)
    chosen = [known[name] for name in names]
    rows = {run: [measure.cell(report, intervals) for measure in chosen] for run, report in reports.items()}
    for group in groups or _by_dataset(reports):
        for i, measure in enumerate(chosen):
            _rank(rows, group, i, measure.better)
    notes = ["the best of a column is bold, the second underlined"] if len(reports) > 1 else []
    tested = [name for name in names if baseline and any(name in report.metrics for report in reports.values())]
    if baseline is not None:
        comparisons = _compared(reports, tested, baseline) if comparisons is None else comparisons
        tests = sum(len(comparison.metrics) for comparison in comparisons.values())
        about = f"paired permutation test, Holm's correction for {counted(tests, 'tests')}"
        notes.append(f"† p < 0.05, ‡ p < 0.01: differs from {baseline} ({about})")
        _mark(rows, comparisons, names)
    if {"seconds", "throughput"} & {*names}:
        notes.append(_TIME)
    return Results(chosen, rows, _facts(reports), tested, notes)


def measures(reports: Reports, prices: Prices | None = None) -> dict[str, Measure]:
    """Return every column that a table of these runs can have, by name."""
    found: dict[str, Measure] = {}
    for name in all_statistics(reports):
        found[name] = Measure(name, label(name), partial(_statistic, name), 0)
    for name in dict.fromkeys(name for report in reports.values() for name in scored(report)):
        found[name] = Measure(name, label(name), partial(_score, name), 1, 100, ".1f")
    for name, total in COSTS.items():
        if name != "money" or prices is not None:
            shown = _LABELS.get(name, name.replace("_", " "))
            found[name] = Measure(name, shown, partial(_cost, total, prices), -1, 1, _FORMS.get(name, ",.0f"))
    found["throughput"] = Measure("throughput", _LABELS["throughput"], attrgetter("throughput"), 1)
    found["parsed"] = Measure("parsed", _LABELS["parsed"], attrgetter("parsed_at_first_try"), 1, 100, ".1f")
    return found


def all_statistics(reports: Reports) -> list[str]:
    """Return the methods' own statistics."""
    return list(dict.fromkeys(name for report in reports.values() for name in report.statistics))


def main_columns(reports: Reports, prices: Prices | None = None) -> list[str]:
    """Return the default columns."""
    having = distinct(reports)
    costs = [name for name in MAIN_COSTS if name != "throughput" or any(r.throughput for r in reports.values())]
    return [*([name for name in MAIN if name in having] or having), *(["money"] if prices else []), *costs]


def _score(name: str, report: Report) -> Mean | None:
    return scored(report).get(name)


def _statistic(name: str, report: Report) -> Mean | None:
    return report.statistics.get(name)


def _cost(total: Callable[[Report, Prices | None], float], prices: Prices | None, report: Report) -> float:
    return total(report, prices) / max(1, len(report.rows))


def _rank(rows: Mapping[str, list[Cell]], group: Sequence[str], i: int, better: int) -> None:
    """Rank the figures of one column; those that read alike share a rank."""
    usable = [run for run in group if (value := rows[run][i].value) is not None and (value or better > 0)]
    if not better or len(usable) < 2:
        return
    best_first = sorted(usable, key=lambda run: -better * (rows[run][i].value or 0))
    for rank, text in zip(RANKS, dict.fromkeys(rows[run][i].text for run in best_first), strict=False):
        for run in usable:
            if rows[run][i].text == text:
                rows[run][i] = replace(rows[run][i], rank=rank)


def _compared(reports: Reports, metrics: Collection[str], baseline: str) -> dict[str, Comparison]:
    """Compare the other runs on the baseline's dataset with it."""
    if baseline not in reports:
        raise UnknownName("run", baseline, reports)
    trimmed = {run: report.with_metrics(metrics) for run, report in reports.items()}
    group = next(group for group in _by_dataset(reports) if baseline in group)
    others = [run for run in group if run != baseline]
    return dict(zip(others, compare_all(trimmed[baseline], [trimmed[run] for run in others]), strict=True))


def compared_parts(parts: Mapping[str, Reports], metrics: Collection[str], baseline: str) -> dict[str, Comparison]:
    """Compare the runs of every part with the baseline's, as "RUN, PART"; p is corrected over all parts.

    Raises:
        UnknownName: there is no such run.
    """
    pairs: dict[str, tuple[Report, Report]] = {}
    for part, runs in parts.items():
        if baseline not in runs:
            raise UnknownName("run", baseline, runs)
        first = runs[baseline].with_metrics(metrics)
        same = {run: report for run, report in runs.items() if run != baseline and report.dataset == first.dataset}
        pairs |= {f"{run}, {part}": (first, report.with_metrics(metrics)) for run, report in same.items()}
    return dict(zip(pairs, compare_pairs(pairs.values()), strict=True))


def _mark(rows: Mapping[str, list[Cell]], comparisons: Mapping[str, Comparison], columns: Sequence[str]) -> None:
    """Mark the figures that differ from the baseline's."""
    for run, comparison in comparisons.items():
        for i, name in enumerate(columns):
            difference = comparison.metrics.get(name)
            if difference is not None and difference.corrected is not None:
                mark = next((mark for mark, bound in MARKS.items() if difference.corrected < bound), "")
                rows[run][i] = replace(rows[run][i], mark=mark)


def _by_dataset(reports: Reports) -> list[list[str]]:
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for run, report in reports.items():
        groups[report.dataset].append(run)
    return list(groups.values())


def _facts(reports: Reports) -> dict[str, dict[str, object]]:
    facts = {
        run: {"dataset": report.dataset, "lm": report.lm if report.usage.calls else NOTHING, "n": len(report.rows)}
        for run, report in reports.items()
    }
    differing = [key for key in ("dataset", "lm", "n") if len({row[key] for row in facts.values()} - {NOTHING}) > 1]
    return {run: {key: row[key] for key in differing} for run, row in facts.items()}
