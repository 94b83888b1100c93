"""``polyhop sweep``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from polyhop.cli import options as opt
from polyhop.cli import show as draw
from polyhop.cli import tables
from polyhop.cli.data import read
from polyhop.cli.forms import put
from polyhop.cli.printing import say, say_left_out
from polyhop.cli.progress import ProgressBar
from polyhop.cli.report import say_causes, say_unscored
from polyhop.cli.run import resumable
from polyhop.common.text import counted
from polyhop.data.corpora import open_corpus
from polyhop.engine.options import PipelineOptions
from polyhop.errors import UsageError
from polyhop.evaluation.pages.page import page
from polyhop.evaluation.sweeps.estimate import Cost, Estimate, estimate
from polyhop.evaluation.sweeps.plan import read_plan
from polyhop.evaluation.sweeps.sweep import SweepResult, count_calls, sweep

PAGE = "sweep.html"

_LEFT_OUT = ("in a row", "searches", "seconds")
"""Costs that depend on what was cached before; a run's own report shows them."""

app = opt.new_app()


@app.command("sweep")
@opt.takes_options("price")
def sweep_(
    file: Annotated[Path, typer.Argument(help="The sweep, a TOML file: [run], [[grid]] and [[point]].")],
    options: PipelineOptions,
    out: Annotated[
        Path | None, opt.option(help="A folder with one run folder per point; the same command again resumes it.")
    ] = None,
    dry_run: Annotated[
        bool, opt.option("--dry-run", help="Estimate calls, tokens and cost without calling the model.")
    ] = False,
    sample: Annotated[
        int, opt.option(min=1, help="Number of questions that pocket answers for the estimate of --dry-run.")
    ] = 5,
    as_json: opt.Json = False,
) -> None:
    """Run methods at many settings and show one table. Calls that points share are made once."""

    plan = read_plan(file)
    if options.prices is not None:
        plan = replace(plan, price=options.prices)
    if not dry_run and out is None:
        raise UsageError("a sweep needs a folder for its runs: --out DIR (or --dry-run, which calls no model)")
    if plan.corpus is not None:
        plan = replace(plan, corpus=open_corpus(plan.corpus, skip_bad=plan.skip_bad, language=plan.language))
    questions = read(Path(plan.dataset), plan.format, skip_bad=plan.skip_bad)
    if out is None or dry_run:
        with ProgressBar("answers by pocket") as progress:
            estimated = estimate(plan, sample=sample, questions=questions, progress=progress.update)
        say_left_out(plan.corpus)
        print_estimate(estimated, as_json)
        return
    with ProgressBar("answers") as progress, resumable(out):
        swept = sweep(plan, out, questions=questions, progress=progress.update)
    say_left_out(plan.corpus)
    finish(swept, out, as_json)


def finish(swept: SweepResult, out: Path, as_json: bool) -> None:
    """Print a sweep's table and what sharing saved, write its page with plots; exit 1 if a question failed."""

    if as_json:
        draw.print_json(swept.to_dict())
    else:
        _print_sweep(swept)
    for report in list(swept.reports.values())[:1]:
        say_unscored(report)
    say(f"runs kept in {out}; polyhop report {out}/*/ shows more of them")
    put(page({str(out / name): report for name, report in swept.reports.items()}), out / PAGE)
    if failed := {name: len(report.failed) for name, report in swept.reports.items() if report.failed}:
        counts = ", ".join(f"{count} of {name}" for name, count in failed.items())
        say(f"questions failed: {counts}; the same command tries them again")
        say_causes(swept.reports.values())
        raise typer.Exit(1)


def _print_sweep(swept: SweepResult) -> None:

    to = draw.console()
    reports = swept.reports
    first = next(iter(reports.values()))
    to.print(
        Text(
            f"{first.dataset} · {counted(len(first.rows), 'questions')} · {counted(len(reports), 'points')}",
            style="bold",
        )
    )
    head, *rows = tables.by_method(reports)
    kept = [i for i, name in enumerate(head) if name not in _LEFT_OUT]
    lines = [["point", *(head[i] for i in kept[1:]), "asked", "shared"]]
    for row, report in zip(rows, reports.values(), strict=True):
        counts, n = count_calls([report]), max(1, len(report.rows))
        lines.append([*(row[i] for i in kept), f"{counts['asked'] / n:.1f}", f"{counts['shared'] / n:.1f}"])
    _print_points(lines, to)
    counts = count_calls(reports.values())
    to.print(
        f"{counts['asked']:,} of {counted(counts['calls'], 'calls')} asked "
        f"({_share(counts['asked'], counts['calls'])}); "
        f"{counted(counts['shared'], 'replies')} shared"
    )


def _print_points(rows: list[list[str]], to: Console) -> None:
    """Print rows by point; a name of several settings takes a line for each, so that it fits the terminal."""

    lines = []
    for row in rows:
        first, *others = row[0].split(",")
        lines.append([first, *row[1:]])
        lines += [[f"+ {other}", *[""] * len(row[1:])] for other in others]
    draw.print_rows(lines, to, names=1)


def print_estimate(estimated: Estimate, as_json: bool) -> None:
    """Print the calls and tokens that a sweep would take."""

    if as_json:
        draw.print_json(estimated.to_dict())
        return
    to = draw.console()
    alone, asked = estimated.totals()
    money = ["money"] if alone.money is not None else []
    rows = [["point", "calls alone", "asked", "tokens in", "tokens out", *money]]
    rows += [[name, f"{cost.calls:,.0f}", *_cells(estimated.asked[name])] for name, cost in estimated.alone.items()]
    rows.append(["all points", f"{alone.calls:,.0f}", *_cells(asked)])
    rows.append(["without sharing", f"{alone.calls:,.0f}", *_cells(alone)])
    _print_points(rows, to)
    to.print(f"{_share(asked.calls, alone.calls)} of the calls that separate runs would make")
    say(
        f"estimated from {estimated.sample} of {counted(estimated.questions, 'questions')}, answered by pocket "
        "instead of the models, which were not called: another model takes other steps and writes other replies"
    )


def _cells(cost: Cost) -> Iterable[str]:
    yield from (f"{value:,.0f}" for value in (cost.calls, cost.prompt_tokens, cost.completion_tokens))
    if cost.money is not None:
        yield f"{cost.money:,.4g}"


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "none"
