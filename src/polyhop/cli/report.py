"""``polyhop report`` and ``polyhop compare``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polyhop.cli import options as opt
from polyhop.cli.printing import say
from polyhop.common.files import path_text
from polyhop.common.text import counted
from polyhop.engine.options import Group, PipelineOptions
from polyhop.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from polyhop.engine.budget import Prices
    from polyhop.evaluation.report import Report

Where = Annotated[
    list[str] | None,
    opt.option(
        "--where",
        metavar="CONDITION",
        help="Only questions that meet this condition in the first run, such as 'corrected > 0' or 'gold in reach'; "
        "repeatable.",
    ),
]

Runs = Annotated[
    list[str],
    typer.Argument(
        metavar="[NAME=]DIR...", help="Folders of runs, finished or in progress, or folders that hold runs."
    ),
]
Columns = Annotated[
    str | None,
    opt.option(
        "--columns",
        metavar="NAMES",
        help="Columns in this order, separated by commas: metrics, statistics, and calls, layers, searches, tokens, "
        "seconds, throughput, money.",
    ),
]

_PART_COSTS = ("words_in", "words_out", "parsed", "calls", "tokens")
"""The costs shown with all metrics and statistics in a table by parts."""

app = opt.new_app()


@app.command()
@opt.takes_options("lm_option", "max_tokens_per_call", "reasoning_tokens", Group.PROMPTS, "price")
def report(
    runs: Runs,
    form: Annotated[
        str | None,
        opt.option(
            "--to",
            "--format",
            help="table, markdown, latex, csv, json or html; default: from the ending of --out, else table.",
        ),
    ] = None,
    columns: Columns = None,
    baseline: Annotated[
        str | None,
        opt.option(metavar="RUN", help="Mark what differs significantly from this run: its name, method or folder."),
    ] = None,
    out: Annotated[Path | None, opt.option(help="Write it to this file: .md, .tex, .csv, .json or .html.")] = None,
    traces: Annotated[
        int, opt.option(min=0, help="Number of questions with traces in an html page, wrong answers first.")
    ] = 100,
    by: Annotated[
        str | None, opt.option(help="Group questions by 'type', 'hops' or a statistic of the first run.")
    ] = None,
    metrics: opt.Metrics = None,
    dataset: Annotated[
        Path | None, opt.option(help="Score again with this file's gold answers, such as one with more aliases.")
    ] = None,
    judge: Annotated[
        str | None, opt.option(metavar="LM", help="Also let this model judge the answers; verdicts are cached.")
    ] = None,
    faithful: Annotated[
        bool,
        opt.option(
            "--faithful", help="Let the judge also check whether the cited passages state each claim of an answer."
        ),
    ] = False,
    *,
    options: PipelineOptions,
    concurrency: opt.Concurrency = 16,
    conditions: Where = None,
    frontier: Annotated[
        str | None,
        opt.option(
            help="Show the runs that no other run beats at the same or lower cost: calls, tokens, money or seconds."
        ),
    ] = None,
    metric: Annotated[
        str | None, opt.option(help="Metric for --frontier; default: F1, or one that two runs share.")
    ] = None,
    raw_csv: Annotated[
        bool, opt.option("--raw-csv", help="Leave text in CSV unescaped; a spreadsheet may read it as a formula.")
    ] = False,
) -> None:
    """Show the scores and costs of runs. No model is called except a judge."""
    from polyhop.cli import show as draw
    from polyhop.cli import tables
    from polyhop.cli.forms import CSV, RAW_CSV, comma_separated, form_of, put
    from polyhop.engine.budget import Prices
    from polyhop.evaluation.figures import numbers, run_names
    from polyhop.evaluation.pages.page import page
    from polyhop.evaluation.repeats import is_repeated, read_repeated
    from polyhop.evaluation.report import where
    from polyhop.evaluation.results import results

    form = form_of(form, out)
    if raw_csv and form != CSV:
        raise UsageError(f"--raw-csv: the format is {form}; add --format csv, or leave it out")
    form = RAW_CSV if raw_csv else form
    prices = None if options.prices is None else Prices.of(options.prices)
    scoring = {"metrics": metrics, "dataset": dataset}
    whole = len(runs) == 1 and not (by or conditions or frontier or judge or columns) and form != "html"
    if whole and is_repeated(runs[0]):
        tables.print_repeated(read_repeated(runs[0], **scoring), form, out)
        return
    reports, given = _read(runs, scoring)
    if judge is not None:
        judging = {**options.arguments(), "lm": judge, "concurrency": concurrency}
        reports = {run: _judged(report, run, judging, faithful=faithful) for run, report in reports.items()}
    elif faithful:
        raise UsageError("--faithful requires --judge LM")
    for report in reports.values():
        tables.say_unscored(report)
        tables.say_failed(report)
    if conditions:
        reports = where(reports, conditions)
    names = run_names(reports, given)
    named = {names[run]: report for run, report in reports.items()}
    by_folder = {given.get(run, run): report for run, report in reports.items()}
    chosen = None if columns is None else [name.strip() for name in columns.split(",") if name.strip()]
    against = None if baseline is None else names.get(baseline.rstrip("/"), baseline)
    if frontier is not None:
        tables.print_frontier(by_folder, form, frontier, metric, prices, out)
    elif by is not None and form != "html":
        _print_parts(named if against else by_folder, by, chosen, against, prices, form, out)
    elif form == "table" and len(reports) == 1 and chosen is None:
        tables.print_report(next(iter(reports.values())), draw.console(), prices)
    elif form in (CSV, RAW_CSV) and chosen is None and against is None:
        put(comma_separated(numbers(by_folder, prices), raw=raw_csv), out)
    else:
        table = results(named, chosen, baseline=against, prices=prices, intervals=chosen is None)
        if form == "html":
            parts = _by_value(reports, by) if by is not None else {}
            put(page(reports, parts=parts, prices=prices, traces=traces, names=names, table=table), out)
        else:
            content = _jsonable(by_folder, prices) if chosen is None and against is None else table.records()
            tables.print_results(table, form, content, out)


@app.command()
def compare(
    runs: Runs,
    conditions: Where = None,
    metric: Annotated[
        str | None,
        opt.option(help="Metrics to compare, separated by commas; p is corrected for these; default: all shown."),
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Compare runs with the first one, question by question. Also shows their agreement."""
    from polyhop.cli import show as draw
    from polyhop.cli import tables
    from polyhop.evaluation.compare import compare_all, ensemble, on_common_questions
    from polyhop.evaluation.figures import run_names
    from polyhop.evaluation.report import where
    from polyhop.evaluation.results import MAIN, results

    reports, given = _read(runs, {})
    if len(reports) < 2:
        raise UsageError("a comparison requires two runs: name another folder")
    if conditions:
        reports = where(reports, conditions)
    baseline, *others = reports
    family = _family(reports, metric)
    found = compare_all(reports[baseline], [reports[name] for name in others], family=family)
    comparisons = dict(zip(others, found, strict=True))
    whole = ensemble(reports)
    if as_json:
        rows = [{"run": name, **each.to_dict()} for name, each in comparisons.items()]
        draw.print_json({"baseline": baseline, "comparisons": rows, "together": whole.to_dict()})
        return
    to = draw.console()
    labels = run_names(reports, given)
    named = {labels[run]: report for run, report in reports.items()}
    shown = family if metric is not None else [name for name in MAIN if name in family] or family
    table = results(
        named, shown, baseline=labels[baseline], comparisons={labels[run]: found for run, found in comparisons.items()}
    )
    tables.print_results(table, "table", None)
    to.print()
    for name, each in comparisons.items():
        tables.print_comparison((labels[baseline], labels[name]), each, family, to)
        to.print()
    shared = {labels[name]: report for name, report in on_common_questions(reports).items()}
    tables.print_ensemble(whole, labels, shared, family, to)


def _read(runs: Sequence[str], scoring: Mapping[str, Any]) -> tuple[dict[str, Report], dict[str, str]]:
    """Read the runs by folder, those in a folder of runs too; also return the names that were given, by folder."""
    from polyhop.evaluation.store import read_report, run_folders

    reports: dict[str, Report] = {}
    names: dict[str, str] = {}
    for run in runs:
        name, _, path = run.partition("=") if "=" in run and not Path(run).exists() else ("", "", run)
        whole = Path(path)
        for folder in run_folders(whole):
            key = path_text(folder)
            reports[key] = read_report(folder, **scoring)
            if name:
                names[key] = "/".join([name, *folder.relative_to(whole).parts])
    return reports, names


def _family(reports: Mapping[str, Report], metrics: str | None) -> list[str]:
    from polyhop.evaluation.figures import distinct

    if metrics is None:
        return distinct(reports)
    known = dict.fromkeys(name for report in reports.values() for name in report.metrics)
    wanted = [name.strip() for name in metrics.split(",") if name.strip()]
    for name in wanted or [""]:
        if name not in known:
            raise UnknownName("metric of these runs", name, known)
    return wanted


def _print_parts(
    reports: Mapping[str, Report],
    by: str,
    columns: Sequence[str] | None,
    baseline: str | None,
    prices: Prices | None,
    form: str,
    out: Path | None,
) -> None:
    """Print the parts of ``_by_value`` as runs; those of one part are ranked, and compared with the baseline's part."""
    from polyhop.cli import show as draw
    from polyhop.cli import tables
    from polyhop.evaluation.figures import distinct
    from polyhop.evaluation.results import all_statistics, compared_parts, results

    alone = len(reports) == 1
    by_value = _by_value(reports, by)
    divided = {
        part: {part if alone else f"{run}, {part}": report for run, report in runs.items()}
        for part, runs in by_value.items()
    }
    parts = {name: report for runs in divided.values() for name, report in runs.items()}
    paid = ["money"] if prices is not None else []
    every = [*distinct(parts), *all_statistics(parts), *_PART_COSTS, *paid]
    groups = [list(runs) for runs in divided.values()]
    shown = list(columns or every)
    comparisons = compared_parts(by_value, shown, baseline) if baseline else None
    table = results(
        parts,
        shown,
        baseline=baseline,
        prices=prices,
        intervals=columns is None,
        groups=groups,
        comparisons=comparisons,
    )
    if form == "table" and columns is None:  # many columns: they are easier to read as rows
        rows = tables.results_rows(table, plain=not draw.console().is_terminal)
        draw.print_rows(draw.turned(rows), draw.console(), names=1)
    else:
        whole = columns is None and baseline is None
        tables.print_results(table, form, _jsonable(parts, prices) if whole else table.records(), out)


def _by_value(reports: Mapping[str, Report], by: str) -> dict[str, dict[str, Report]]:
    """Divide every run by the values that the first run has for ``by``."""
    parts: dict[str, dict[str, Report]] = {}
    for value, part in next(iter(reports.values())).by(by).items():
        ids = {row["id"] for row in part.rows}
        parts[f"{by} {value}"] = {run: _among(ids, report) for run, report in reports.items()}
    return parts


def _among(ids: set[str], report: Report) -> Report:
    return report.only(lambda row: row["id"] in ids)


def _jsonable(reports: Mapping[str, Report], prices: Prices | None) -> dict[str, Any]:
    money = {name: {"money": prices.total(report.usage)} if prices else {} for name, report in reports.items()}
    return {name: {**report.to_dict(), **money[name]} for name, report in reports.items()}


def _judged(report: Report, run: str, judge: Mapping[str, Any], *, faithful: bool) -> Report:
    """Add the judge's verdicts to a report; say who judged and how."""
    from polyhop.cli.progress import ProgressBar
    from polyhop.evaluation.judging import CORRECT, FAITHFUL, judge_answers

    for by in (CORRECT, FAITHFUL) if faithful else (CORRECT,):
        with ProgressBar("verdicts") as progress:
            report = judge_answers(report, run, by=by, progress=progress.update, **judge)
        row = report.judge if by is CORRECT else report.judge["faithful"]
        say(
            f"judged by {row['lm']}, prompt {row['task']} {row['prompt']} ({row['rendering']}): "
            f"{counted(row['verdicts'], 'verdicts')}, {row['asked_now']} new; "
            f"{counted(row['unread'], 'replies')} could not be read"
        )
    return report
