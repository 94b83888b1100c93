"""Report and compare finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polyhop.cli import options as opt

app = typer.Typer()


@app.command()
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
    lm_option: opt.LmOption = None,
    max_tokens_per_call: opt.MaxTokensPerCall = None,
    concurrency: opt.Concurrency = 16,
    prompts: opt.Prompts = None,
    rendering: opt.Rendering = "text",
    cache: opt.Cache = None,
    conditions: opt.Where = None,
    price: opt.Price = None,
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
    from polyhop.cli.report import run_report

    options = {"concurrency": concurrency, "prompts": prompts, "rendering": rendering, "cache": cache}
    judging = {"lm": judge, **options, **opt.lm_arguments(locals())} if judge else None
    scoring = {"metrics": metrics, "dataset": dataset}
    run_report(runs, form, by, conditions or [], price, frontier, metric, scoring, judging, out, traces, raw_csv)


@app.command()
def compare(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs over the same questions, the baseline first.")],
    conditions: opt.Where = None,
    metric: Annotated[
        str | None,
        opt.option(help="Metrics to compare, separated by commas; p is corrected for these; default: all shown."),
    ] = None,
    as_json: opt.Json = False,
) -> None:
    """Compare runs with the first one, question by question. Also shows how far they agree."""
    from polyhop.cli.report import run_compare

    run_compare(runs, conditions or [], metric, as_json)
