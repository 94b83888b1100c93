"""Runs and sweeps as tables, and messages about their failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from polyhop.cli.answers import cut_replies
from polyhop.cli.forms import CSV, RAW_CSV, WRITERS, comma_separated, latex, markdown, put
from polyhop.cli.printing import say
from polyhop.cli.show import as_json, clean, console, print_json, print_rows
from polyhop.common.text import counted
from polyhop.engine.budget import Prices
from polyhop.evaluation.compare import Comparison, EnsembleScores
from polyhop.evaluation.errors import count_errors
from polyhop.evaluation.figures import (
    FrontierPoint,
    costs,
    distinct,
    frontier,
    is_shown,
    label,
    money,
    scored,
    shared_metric,
)
from polyhop.evaluation.repeats import Repeated, Spread
from polyhop.evaluation.report import Report
from polyhop.evaluation.results import NOTHING, Cell, Results, main_columns, results
from polyhop.evaluation.statistics import Mean
from polyhop.evaluation.sweeps.estimate import Cost, Estimate
from polyhop.evaluation.sweeps.sweep import SweepResult, count_calls

Rows = list[list[str]]
_CACHE_DEPENDENT = ("layers", "seconds", "throughput")
"""Costs that depend on what was cached before; a run's own report shows them."""
_BRIEF_COSTS = ("model calls", "searches", "seconds (own time)")


def print_report(report: Report, to: Console, prices: Prices | None = None, *, brief: bool = False) -> None:
    """Print a run's metrics, cost and errors as small tables; with ``brief``, only what matters most."""
    title = f"{report.method} · {report.lm} · {report.dataset} · {counted(len(report.rows), 'questions')}"
    to.print(Text(title, style="bold"))
    rows = [["metric", "percent", "95 %", "n"]]
    shown = main_columns({"": report}) if brief else distinct({"": report})
    for name in filter(report.metrics.__contains__, shown):
        mean = report.metrics[name]
        rows.append([label(name), f"{100 * mean.value:.1f}", _interval(mean, 100, 1), str(mean.n)])
    print_rows(rows, to, names=1)
    if brief:
        spent = costs(report, prices)
        print_rows([["per question", "mean"], *([name, spent[name]] for name in _BRIEF_COSTS)], to, names=1)
        return
    rows = [["per question", "mean", "95 %"]]
    for name, mean in report.statistics.items():
        rows.append([label(name), f"{mean.value:.2f}", _interval(mean, 1, 2)])
    rows += [[name, value, ""] for name, value in costs(report, prices).items()]
    print_rows(rows, to, names=1)
    if errors := count_errors(report.rows):
        n = len(report.rows)
        wrong = [[name, str(count), f"{100 * count / n:.1f}"] for name, count in errors.items()]
        print_rows([["errors", "questions", "percent"], *wrong], to, names=1)
    if report.parsed_at_first_try is not None:
        defaulted = sum(report.usage.defaulted_by_task.values())
        to.print(f"replies parsed at first try: {100 * report.parsed_at_first_try:.1f} %; safe defaults: {defaulted}")
    if report.unread:
        to.print(f"{counted(report.unread, 'answers')} kept from replies in another form")
    if cut := cut_replies(report.usage):
        to.print(cut)


def results_rows(table: Results, *, plain: bool) -> list[list[str | Text]]:
    """Return a results table for the terminal: the best in bold, the second underlined, or marked up if ``plain``."""
    styles = {"best": ("bold", "**"), "second": ("underline", "_")}

    def shown(cell: str | Cell) -> str | Text:
        if isinstance(cell, str):
            return cell
        style, markup = styles[cell.rank] if cell.rank else ("", "")
        markup = markup if plain else ""
        return Text.assemble((f"{markup}{cell.text}{markup}", style), cell.mark, f" {cell.interval}".rstrip())

    return [[shown(cell) for cell in row] for row in table.texts()]


def print_results(table: Results, form: str, content: Any, out: Path | None = None) -> None:
    """Print a results table; ``content`` is its JSON."""
    if form in (CSV, RAW_CSV):
        put(comma_separated(table.numbers(), raw=form == RAW_CSV), out)
    elif form == "markdown":
        put(markdown(table.texts()) + "".join(f"\n{note}\n" for note in table.notes), out)
    elif form == "latex":
        put(latex(table.texts()) + "".join(f"% {note}\n" for note in table.notes), out)
    elif form == "json":
        put(as_json(content), out)
    else:
        to = console()
        print_rows(results_rows(table, plain=not to.is_terminal), to, names=1)
        for note in table.notes:
            to.print(Text(note, style="dim"))


def repeated(runs: Repeated) -> Rows:
    """Return metrics and statistics as rows: mean over the runs, standard deviation, interval over questions."""
    rows = [["over seeds " + ", ".join(map(str, runs.reports)), "mean", "std", "95 %", "n"]]
    parts = ((runs.metrics(), 100, 1), (runs.statistics(), 1, 2))
    for spreads, scale, digits in parts:
        for name in filter(is_shown, spreads):
            each = spreads[name]
            values = (f"{scale * value:.{digits}f}" for value in (each.mean, each.std))
            rows.append([label(name), *values, _interval(each, scale, digits), str(each.n)])
    return rows


def _frontier_rows(points: Mapping[str, FrontierPoint], cost: str, metric: str) -> Rows:
    """Return runs as rows, the cheapest first; each says if another is better and cheaper."""
    rows = [["run", label(metric), f"{cost} per question", "frontier"]]
    for name, point in points.items():
        price = money(point.cost) if cost == "money" else f"{point.cost:,.2f}"
        rows.append(
            [name, _spread(point.score, 100, 1), price, "yes" if point.behind is None else f"no: {point.behind}"]
        )
    return rows


def print_comparison(names: tuple[str, str], comparison: Comparison, shown: Iterable[str], to: Console) -> None:
    """Print two runs' metrics, the differences with interval and p, and the questions that flipped."""
    rows = [["metric", *names, "change", "95 %", "p", "Holm's p", "better, worse", "n"]]
    for name in shown:
        if (d := comparison.metrics.get(name)) is None:
            continue
        values = (f"{100 * d.first:.1f}", f"{100 * d.second:.1f}", f"{100 * (d.second - d.first):+.1f}")
        sure = (f"{100 * d.low:+.1f}…{100 * d.high:+.1f}", f"{d.p:.4f}", _p(d.corrected))
        rows.append([label(name), *values, *sure, f"{d.better}, {d.worse}", str(d.n)])
    if len(rows) > 1:
        print_rows(rows, to, names=1)
    known = {*scored(comparison.first), *scored(comparison.second)} - comparison.metrics.keys()
    if lacking := [label(name) for name in shown if name in known]:
        to.print(f"not compared, because one of the two lacks it: {', '.join(lacking)}")
    if (misled := comparison.misled) is not None:
        to.print(
            f"misled: {100 * misled.value:.1f} % of the {counted(misled.n, 'questions')} right without search "
            "went wrong with it"
        )
    if comparison.flipped:
        to.print(Text(f"\n{counted(len(comparison.flipped), 'questions')} right in one run only:", style="bold"))
        print_rows([["question", *names], *map(list, comparison.flipped)], to)


def print_ensemble(
    found: EnsembleScores, labels: Mapping[str, str], reports: Mapping[str, Report], shown: Sequence[str], to: Console
) -> None:
    """Print how far runs agree, and the scores of a majority vote and of a perfect choice among them."""
    to.print(Text(f"On the {counted(found.n, 'questions')} that all runs answered:", style="bold"))
    rows = [["metric", *reports, "majority", "oracle"]]
    for name in (each for each in shown if each in found.oracle):
        each = [scored(report).get(name) for report in reports.values()]
        rows.append([label(name), *(_spread(m, 100, 1) for m in (*each, found.majority.get(name), found.oracle[name]))])
    print_rows(rows, to, names=1)
    rows = [["agreement", "same answer %", "kappa of right and wrong"]]
    for pair, agreement in found.pairs.items():
        kappa = NOTHING if agreement.kappa is None else f"{agreement.kappa:.2f}"
        rows.append([" · ".join(labels[name] for name in pair), _spread(agreement.same, 100, 1), kappa])
    to.print()
    print_rows(rows, to, names=1)


def print_frontier(
    reports: Mapping[str, Report], form: str, cost: str, metric: str | None, prices: Prices | None, out: Path | None
) -> None:
    """Print the runs that no other run beats at the same or lower cost."""
    metric = metric or shared_metric(reports)
    points = frontier(reports, cost, metric, prices)
    runs = {name: point.to_dict() for name, point in points.items()}
    without = [name for name in reports if name not in points]
    if without:
        say(f"left out, without {label(metric)}: {', '.join(without)}")
    row = {"cost": cost, "metric": metric, "runs": runs, "left_out": without}
    print_as(form, row, _frontier_rows(points, cost, metric), out)


def print_repeated(runs: Repeated, form: str, out: Path | None = None) -> None:
    """Print mean and standard deviation over runs."""
    print_as(form, runs.to_dict(), repeated(runs), out)
    if runs.identical:
        say("all repeats are equal: neither the method nor the model uses random numbers")


def say_unscored(report: Report) -> None:
    """Say why requested metrics are missing, each reason once."""
    for why in dict.fromkeys(report.unscored.values()):
        names = [name for name, each in report.unscored.items() if each == why]
        say(f"not scored: {', '.join(names)}: {why}")


def say_causes(reports: Iterable[Report]) -> None:
    """Say why questions of these runs failed: each cause with its count, the most frequent first, at most three."""
    failures = Counter(why for report in reports for why in report.failed.values())
    for why, count in failures.most_common(3):
        say(f"  {count:,} x {clean(why, 1000)}")


def say_failed(report: Report, again: str = "") -> None:
    """Say how many questions failed and why; ``again``: the remedy. Prints nothing if none failed."""
    if report.failed:
        count = len(report.failed)
        first = clean(next(iter(report.failed)))
        say(f"{count:,} {'question' if count == 1 else 'questions'} failed{again}. The first: {first}")
        say_causes([report])


def print_as(form: str, value: Any, rows: list[list[str]], out: Path | None) -> None:
    """Print as JSON, as a table in another format, or as a table for the terminal."""
    if form == "json":
        put(as_json(value), out)
    elif form in WRITERS:
        put(WRITERS[form](rows), out)
    else:
        print_rows(rows, console(), names=1)


def print_sweep(swept: SweepResult) -> None:
    """Print a sweep's points, with the calls that were asked and the replies that points shared."""
    to = console()
    reports = swept.reports
    first = next(iter(reports.values()))
    to.print(
        Text(
            f"{first.dataset} · {counted(len(first.rows), 'questions')} · {counted(len(reports), 'points')}",
            style="bold",
        )
    )
    columns = [name for name in main_columns(reports) if name not in _CACHE_DEPENDENT]
    head, *rows = results_rows(results(reports, columns), plain=not to.is_terminal)
    lines: list[list[str | Text]] = [["point", *head[1:], "asked", "shared"]]
    for row, report in zip(rows, reports.values(), strict=True):
        counts, n = count_calls([report]), max(1, len(report.rows))
        lines.append([*row, f"{counts['asked'] / n:.1f}", f"{counts['shared'] / n:.1f}"])
    _print_points(lines, to)
    counts = count_calls(reports.values())
    to.print(
        f"{counts['asked']:,} of {counted(counts['calls'], 'calls')} asked "
        f"({_share(counts['asked'], counts['calls'])}); "
        f"{counted(counts['shared'], 'replies')} shared"
    )


def _print_points(rows: Sequence[Sequence[str | Text]], to: Console) -> None:
    """Print rows by point; a name of several settings takes a line for each, so that it fits the terminal."""
    lines: list[list[str | Text]] = []
    for row in rows:
        first, *others = str(row[0]).split(",")
        lines.append([first, *row[1:]])
        lines += [[f"+ {other}", *[""] * len(row[1:])] for other in others]
    print_rows(lines, to, names=1)


def print_estimate(estimated: Estimate, as_json: bool) -> None:
    """Print the calls and tokens that a sweep would take."""
    if as_json:
        print_json(estimated.to_dict())
        return
    to = console()
    alone, asked = estimated.totals()
    money = ["money"] if alone.money is not None else []
    rows = [["point", "calls alone", "asked", "tokens in", "tokens out", *money]]
    rows += [
        [name, f"{cost.calls:,.0f}", *_cost_cells(estimated.asked[name])] for name, cost in estimated.alone.items()
    ]
    rows.append(["all points", f"{alone.calls:,.0f}", *_cost_cells(asked)])
    rows.append(["without sharing", f"{alone.calls:,.0f}", *_cost_cells(alone)])
    _print_points(rows, to)
    to.print(f"{_share(asked.calls, alone.calls)} of the calls that separate runs would make")
    say(
        f"estimated from {estimated.sample} of {counted(estimated.questions, 'questions')}, answered by pocket "
        "instead of the models, which were not called: another model takes other steps and writes other replies"
    )


def _cost_cells(cost: Cost) -> Iterable[str]:
    yield from (f"{value:,.0f}" for value in (cost.calls, cost.prompt_tokens, cost.completion_tokens))
    if cost.money is not None:
        yield f"{cost.money:,.4g}"


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "none"


def _spread(mean: Mean | None, scale: float, digits: int) -> str:
    """Format a mean and half of its interval's width."""
    return NOTHING if mean is None else f"{scale * mean.value:.{digits}f} ±{scale * mean.half_width:.{digits}f}"


def _interval(mean: Mean | Spread, scale: float, digits: int) -> str:
    return f"{scale * mean.low:.{digits}f} … {scale * mean.high:.{digits}f}"


def _p(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.4f}"
