"""A page's tables and plots: written when the page is, so that they need no script."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from polyhop.common.text import counted
from polyhop.engine.budget import Prices
from polyhop.errors import UsageError
from polyhop.evaluation.errors import MEANINGS, count_errors
from polyhop.evaluation.figures import costs, distinct, frontier, label, scored, shared_metric
from polyhop.evaluation.plots import Bar, Dot, bars, scatter
from polyhop.evaluation.report import Report
from polyhop.evaluation.results import MAIN, NOTHING, Cell, Results
from polyhop.evaluation.statistics import Mean

Reports = Mapping[str, Report]


def summary(reports: Reports, parts: Mapping[str, Reports], prices: Prices | None, table: Results) -> str:
    """Tables and plots of the runs, and of the same runs on each of ``parts`` of the questions, by its name."""
    folded = [
        f"<details><summary>{escape(name)}: "
        f"{counted(max(len(report.rows) for report in runs.values()), 'questions')}</summary>"
        f"{tables(runs, prices)}</details>"
        for name, runs in parts.items()
    ]
    main = f"<h2>Results</h2>{results_table(table)}<h2>All figures</h2>" if len(reports) > 1 else ""
    return "\n".join([main, tables(reports, prices), *folded, "<h2>Plots</h2>", plots(reports, parts)])


def results_table(table: Results) -> str:
    """The results table: the best of a column in bold, the second underlined."""
    head, *rows = table.texts()
    shown = [f'<th scope="row">{_cell(row[0])}</th>' + _cells("td", row[1:]) for row in rows]
    notes = "".join(f'<p class="dim">{escape(note)}</p>' for note in table.notes)
    return (
        f'{_scroll("Results")}<table><thead><tr><th scope="col">run</th>{_cells("th", head[1:])}</tr></thead>'
        f"<tbody>{''.join(f'<tr>{row}</tr>' for row in shown)}</tbody></table></div>{notes}"
    )


def _scroll(name: str) -> str:
    """Open a part that scrolls sideways, also by keyboard."""
    return f'<div class="scroll" tabindex="0" role="group" aria-label="{name}">'


_RANKS = {"best": "<strong>{}</strong>", "second": "<u>{}</u>"}


def _cell(cell: str | Cell) -> str:
    if isinstance(cell, str):
        return escape(cell)
    figure = _RANKS.get(cell.rank or "", "{}").format(escape(cell.text)) + cell.mark
    return f'{figure} <span class="interval">{cell.interval}</span>' if cell.interval else figure


def _cells(tag: str, cells: Iterable[str | Cell]) -> str:
    return "".join(f'<{tag} class="number">{_cell(cell)}</{tag}>' for cell in cells)


def tables(reports: Reports, prices: Prices | None = None) -> str:
    """The runs' figures, a column each: metrics with their intervals, errors, the methods' statistics, cost."""
    runs = list(reports.values())
    paid = [costs(report, prices) for report in runs]
    errors = [count_errors(report.rows) for report in runs]
    parts = [
        _row("questions", [str(len(report.rows)) for report in runs]),
        _group("percent, with the 95 % interval", runs),
        *(_row(label(name), [_mean(scored(r).get(name), 100, 1) for r in runs]) for name in answers_first(reports)),
    ]
    if any(errors):
        parts.append(_group("wrong answers (EM 0) by error", runs))
        for name, meaning in MEANINGS.items():
            if any(name in counts for counts in errors):
                parts.append(_row(name, [str(counts.get(name, 0)) for counts in errors], meaning))
    parts.append(_group("cost per question", runs))
    names = dict.fromkeys(name for cost in paid for name in cost)
    parts += [_row(name, [escape(cost.get(name, NOTHING)) for cost in paid]) for name in names]
    parts.append(_row("replies parsed at first try", [_percent(report.parsed_at_first_try) for report in runs]))
    if any(report.unread for report in runs):
        parts.append(_row("answers kept from replies in another form", [str(report.unread) for report in runs]))
    return _table(reports, parts) + _own(reports)


def answers_first(reports: Reports) -> list[str]:
    """Return the metrics that tables show: those of answers, then those of retrieval, which name a rank."""
    return sorted(distinct(reports), key=lambda name: "@" in name)


def settings_table(settings: Mapping[str, Mapping[str, str]]) -> str:
    """The settings of each run, by name, folded; settings that no run has are left out."""
    names = dict.fromkeys(name for each in settings.values() for name, value in each.items() if value)
    rows = "".join(_row(name, [escape(each.get(name) or NOTHING) for each in settings.values()]) for name in names)
    head = "".join(f'<th scope="col" class="number">{escape(run)}</th>' for run in settings)
    return (
        f'<details><summary>Settings of the runs</summary>{_scroll("Settings")}<table class="settings"><thead><tr>'
        f'<th scope="col">run</th>{head}</tr></thead><tbody>{rows}</tbody></table></div></details>'
    )


def _own(reports: Reports) -> str:
    """The methods' own counts, folded: each method has others."""
    runs = reports.values()
    names = dict.fromkeys(name for report in runs for name in report.statistics)
    rows = [_row(label(name), [_mean(report.statistics.get(name), 1, 2) for report in runs]) for name in names]
    if not rows:
        return ""
    return f"<details><summary>The methods' own counts, per question</summary>{_table(reports, rows)}</details>"


def _table(reports: Reports, rows: Iterable[str]) -> str:
    head = "".join(f'<th scope="col" class="number">{escape(name)}</th>' for name in reports)
    return (
        f'{_scroll("Figures")}<table><thead><tr><th scope="col">run</th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def plots(reports: Reports, parts: Mapping[str, Reports]) -> str:
    """Accuracy with intervals, accuracy against cost, calls by task, errors by class; those that there is data for."""
    drawn = [
        _figure("Accuracy", "percent, with 95 % intervals", _accuracy(reports)),
        _figure("Accuracy by part", "percent, with 95 % intervals", _by_part(parts)),
        *(
            _figure(f"Accuracy by {cost}", "the dashed line: no run does better for less", _cost(reports, cost))
            for cost in ("calls", "tokens")
        ),
        _figure("Model calls by task", "per question", _calls(reports)),
        _figure("Errors", "wrong answers (EM 0), percent of all questions", _errors(reports)),
    ]
    return f'<div class="plots">{"".join(drawn)}</div>'


def _accuracy(reports: Reports) -> str:
    names = _plotted(reports)
    return bars("Accuracy", {label(name): _runs(reports, name) for name in names}, axis_max=100) if names else ""


def _by_part(parts: Mapping[str, Reports]) -> str:
    """The first metric that is drawn, for each part."""
    names = [name for runs in parts.values() for name in _plotted(runs)[:1]]
    if not names:
        return ""
    groups = {f"{label(names[0])}, {part}": _runs(runs, names[0]) for part, runs in parts.items()}
    return bars("Accuracy by part", groups, axis_max=100)


def _runs(reports: Reports, metric: str) -> list[Bar]:
    means = [scored(report).get(metric) for report in reports.values()]
    return [
        Bar(run, 100 * mean.value, 100 * mean.low, 100 * mean.high, number)
        for number, (run, mean) in enumerate(zip(reports, means, strict=True))
        if mean is not None
    ]


def _cost(reports: Reports, cost: str) -> str:
    """Empty for a single run, if runs share no question or no metric, and if all cost the same."""
    if len(reports) < 2:
        return ""
    try:
        points = frontier(reports, cost, shared_metric(reports))
    except UsageError:
        return ""
    differ = len({f"{point.cost:.2g}" for point in points.values()}) > 1
    return cost_plot(reports, cost) if differ else ""


def cost_plot(reports: Reports, cost: str, metric: str | None = None) -> str:
    """Runs by what a question cost and what they score, with the frontier; those without the metric are named below.

    Raises what ``frontier`` does.
    """
    metric = metric or shared_metric(reports)
    points = frontier(reports, cost, metric)
    without = [run for run in reports if run not in points]
    series = {run: number for number, run in enumerate(reports)}
    dots = [
        Dot(run, p.cost, 100 * p.score.value, 100 * p.score.low, 100 * p.score.high, p.behind is None, series[run])
        for run, p in points.items()
    ]
    return scatter(
        f"{label(metric)} by {cost}",
        dots,
        x_label=f"{cost} per question",
        y_label=f"{label(metric)}, percent",
        note=f"left out, without {label(metric)}: {', '.join(without)}" if without else "",
    )


def _calls(reports: Reports) -> str:
    groups = {}
    for number, (run, report) in enumerate(reports.items()):
        n = max(1, len(report.rows))
        tasks = sorted(report.usage.calls_by_task.items(), key=lambda item: -item[1])
        if tasks:
            groups[run] = [Bar(task, count / n, series=number, text=f"{count / n:.2f}") for task, count in tasks]
    return bars("Model calls by task", groups) if groups else ""


def _errors(reports: Reports) -> str:
    groups = {}
    for number, (run, report) in enumerate(reports.items()):
        if found := count_errors(report.rows):
            n = len(report.rows)
            groups[run] = [
                Bar(name, 100 * count / n, series=number, text=f"{100 * count / n:.1f}")
                for name, count in found.items()
            ]
    return bars("Errors", groups) if groups else ""


def _figure(title: str, about: str, drawing: str) -> str:
    if not drawing:
        return ""
    return f'<figure><figcaption>{escape(title)}<span class="dim">{escape(about)}</span></figcaption>{drawing}</figure>'


def _plotted(reports: Reports) -> list[str]:
    """Return the metrics that are drawn: the main ones that a run has, else the first four."""
    shown = distinct(reports)
    return [name for name in MAIN if name in shown] or shown[:4]


def _group(name: str, runs: Sequence[Report]) -> str:
    return f'<tr><th class="group" scope="rowgroup" colspan="{len(runs) + 1}">{escape(name)}</th></tr>'


def _row(name: str, cells: Iterable[str], about: str = "") -> str:
    note = f' <span class="interval">{escape(about)}</span>' if about else ""
    shown = "".join(f'<td class="number">{cell}</td>' for cell in cells)
    return f'<tr><th scope="row">{escape(name)}{note}</th>{shown}</tr>'


def _mean(mean: Mean | None, scale: float, digits: int) -> str:
    if mean is None:
        return NOTHING
    interval = f"{scale * mean.low:.{digits}f} – {scale * mean.high:.{digits}f}"
    return f'{scale * mean.value:.{digits}f} <span class="interval">{interval}</span>'


def _percent(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.1f} %"
