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

app = opt.new_app()


@app.command()
@opt.takes_options("lm_option", "max_tokens_per_call", "reasoning_tokens", Group.PROMPTS, "price")
def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, finished or in progress.")],
    form: Annotated[
        str | None,
        opt.option(
            "--format", help="table, markdown, latex, csv, json or html; default: from the ending of --out, else table."
        ),
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
    from polyhop.cli.forms import RAW_CSV, comma_separated, form_of, put
    from polyhop.engine.budget import Prices
    from polyhop.evaluation.figures import numbers
    from polyhop.evaluation.pages.page import page
    from polyhop.evaluation.repeats import is_repeated, read_repeated
    from polyhop.evaluation.report import where

    form = form_of(form, out)
    if raw_csv and form != "csv":
        raise UsageError(f"--raw-csv: the format is {form}; add --format csv, or leave it out")
    form = RAW_CSV if raw_csv else form
    prices = None if options.prices is None else Prices.of(options.prices)
    scoring = {"metrics": metrics, "dataset": dataset}
    whole = len(runs) == 1 and not (by or conditions or frontier or judge) and form != "html"
    if whole and is_repeated(runs[0]):
        tables.print_repeated(read_repeated(runs[0], **scoring), form, out)
        return
    reports = _read(runs, scoring)
    if judge is not None:
        judging = {**options.arguments(), "lm": judge, "concurrency": concurrency}
        reports = {run: _judged(report, run, judging) for run, report in reports.items()}
    for report in reports.values():
        tables.say_unscored(report)
        tables.say_failed(report)
    if conditions:
        reports = where(reports, conditions)
    if form == "html":
        parts = _by_value(reports, by) if by is not None else {}
        put(page(reports, parts=parts, prices=prices, traces=traces), out)
        return
    if by is not None:
        reports = _parts(reports, by)
    if frontier is not None:
        tables.print_frontier(reports, form, frontier, metric, prices, out)
    elif form == "table" and len(reports) == 1 and by is None:
        tables.print_report(next(iter(reports.values())), draw.console(), prices)
    elif form in ("csv", RAW_CSV):
        put(comma_separated(numbers(reports, prices), raw=raw_csv), out)
    else:
        rows = tables.side_by_side(reports, statistics=by is not None, prices=prices)
        tables.print_as(form, _jsonable(reports, prices), rows if form == "markdown" else draw.turned(rows), out)


@app.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs over the same questions, the baseline first.")],
    conditions: Where = None,
    metric: Annotated[
        str | None,
        opt.option(help="Metrics to compare, separated by commas; p is corrected for these; default: all shown."),
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Compare runs with the first one, question by question. Also shows how far they agree."""
    from polyhop.cli import show as draw
    from polyhop.cli import tables
    from polyhop.evaluation.compare import compare_all, ensemble, on_common_questions
    from polyhop.evaluation.report import where

    reports = _read(runs, {})
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
    labels = _labels(reports)
    for name, each in comparisons.items():
        tables.print_comparison((labels[baseline], labels[name]), each, family, to)
        to.print()
    shared = {labels[name]: report for name, report in on_common_questions(reports).items()}
    tables.print_ensemble(whole, labels, shared, family, to)


def _read(runs: Sequence[Path], scoring: Mapping[str, Any]) -> dict[str, Report]:
    """Read the runs by folder; a repeated run gives its repeats."""
    from polyhop.evaluation.repeats import is_repeated, read_repeated
    from polyhop.evaluation.store import read_report

    reports: dict[str, Report] = {}
    for run in runs:
        if is_repeated(run):
            repeats = read_repeated(run, **scoring).reports
            reports |= {f"{path_text(run)}/seed-{seed}": report for seed, report in repeats.items()}
        else:
            reports[path_text(run)] = read_report(run, **scoring)
    return reports


def _family(reports: Mapping[str, Report], metrics: str | None) -> list[str]:
    from polyhop.evaluation.figures import is_shown

    known = dict.fromkeys(name for report in reports.values() for name in report.metrics)
    if metrics is None:
        return list(filter(is_shown, known))
    wanted = [name.strip() for name in metrics.split(",") if name.strip()]
    for name in wanted or [""]:
        if name not in known:
            raise UnknownName("metric of these runs", name, known)
    return wanted


def _labels(reports: Mapping[str, Report]) -> dict[str, str]:
    """Return the names of runs in a table: the method if it is unique, else the folder."""
    methods = [report.method for report in reports.values()]
    return {name: each.method if methods.count(each.method) == 1 else name for name, each in reports.items()}


def _parts(reports: Mapping[str, Report], by: str) -> dict[str, Report]:
    """Return the parts of ``_by_value`` as runs."""
    alone = len(reports) == 1
    parts = _by_value(reports, by).items()
    return {part if alone else f"{run}, {part}": report for part, runs in parts for run, report in runs.items()}


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


def _judged(report: Report, run: str, judge: Mapping[str, Any]) -> Report:
    """Add the judge's verdicts to a report; say who judged and how."""
    from polyhop.cli.progress import ProgressBar
    from polyhop.evaluation.judging import judge_answers

    with ProgressBar("verdicts") as progress:
        report = judge_answers(report, run, progress=progress.update, **judge)
    judge_row = report.judge
    say(
        f"judged by {judge_row['lm']}, prompt {judge_row['task']} {judge_row['prompt']} ({judge_row['rendering']}): "
        f"{counted(judge_row['verdicts'], 'verdicts')}, {judge_row['asked_now']} new; "
        f"{counted(judge_row['unread'], 'replies')} could not be read"
    )
    return report
