"""``polyhop run``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from polyhop.cli import show as draw
from polyhop.cli import tables
from polyhop.cli.ask import say_left_out
from polyhop.cli.batch import through
from polyhop.cli.data import read
from polyhop.cli.printing import say
from polyhop.cli.progress import ProgressBar
from polyhop.cli.report import print_repeated, say_causes, say_failed, say_unscored
from polyhop.data import DEMO
from polyhop.data.corpora import Corpus, open_corpus
from polyhop.engine.budget import Prices
from polyhop.errors import UsageError
from polyhop.evaluation.repeats import Repeated, evaluate_repeated
from polyhop.evaluation.report import Report
from polyhop.evaluation.runner import evaluate
from polyhop.evaluation.runs import MethodReports, evaluate_methods, parse_methods
from polyhop.evaluation.setups import setup_settings
from polyhop.telemetry import start


def run_run(
    dataset: Path,
    corpus: Corpus | None,
    method: str,
    arguments: Mapping[str, Any],
    out: Path | None,
    limit: int | None,
    concurrency: int,
    skip_bad: bool,
    metrics: str | None,
    form: str | None,
    repeat: int,
    setup: str | None,
    as_json: bool,
    batch: Path | None = None,
) -> None:
    """Run a method or several over a dataset, show progress, print the table; exit 1 if a question failed, 3 if one
    waits for a batch."""
    names = parse_methods(method)
    if arguments.get("telemetry"):
        start()
    common = {
        **arguments,
        "out": out,
        "limit": limit,
        "concurrency": concurrency,
        "skip_bad": skip_bad,
        "metrics": metrics,
        "title": dataset.name,
    }
    questions = read(dataset, form, skip_bad=skip_bad)
    if corpus is None and str(dataset) == DEMO:
        corpus = open_corpus(dataset)
    if setup is not None:
        common |= {"setup": setup} if len(names) > 1 else setup_settings(setup, names[0], arguments, questions)
    if repeat > 1 and len(names) > 1:
        raise UsageError("--repeat repeats one method: name one")
    with resumable(out), through(batch, names, common) as common, ProgressBar("questions") as progress:
        if len(names) > 1:
            several = evaluate_methods(names, questions, corpus, progress=progress.update, **common)
        elif repeat > 1:
            runs = evaluate_repeated(repeat, questions, corpus, names[0], progress=progress.update, **common)
        else:
            report = evaluate(questions, corpus, names[0], progress=progress.update, **common)
    say_left_out(corpus)
    if len(names) > 1:
        finish_several(several, out, as_json)
    elif repeat > 1:
        finish_repeated(runs, out, as_json)
    else:
        finish(report, out, as_json, prices=arguments.get("prices"))


@contextmanager
def resumable(out: Path | None) -> Iterator[None]:
    """An interrupt inside ends the verb and says how the run goes on."""
    try:
        yield
    except KeyboardInterrupt:
        kept = f"the same command goes on where it was: {out}" if out else "nothing was kept (no --out)"
        say(f"\nstopped; {kept}")
        raise typer.Exit(130) from None


def finish_several(several: MethodReports, out: Path | None, as_json: bool) -> None:
    """Print several methods' reports as one table; exit 1 if a question of one failed."""
    if as_json:
        draw.print_json(several.to_dict())
    else:
        draw.print_rows(tables.by_method(several.reports), draw.console(), names=1)
        if any(report.queued for report in several.reports.values()):
            draw.console().print("seconds include queueing: several questions were under way at once", style="dim")
    for name, why in several.left_out.items():
        say(f"{name} was left out: {why}")
    if out:
        say(f"runs kept in {out}")
    if failed := {name: len(report.failed) for name, report in several.reports.items() if report.failed}:
        say("questions failed: " + ", ".join(f"{count} of {name}" for name, count in failed.items()))
        say_causes(several.reports.values())
        raise typer.Exit(1)


def finish_repeated(runs: Repeated, out: Path | None, as_json: bool) -> None:
    """Print mean and standard deviation over runs; exit 1 if a question of one failed."""
    print_repeated(runs, "json" if as_json else "table")
    if out:
        say(f"runs kept in {out}")
    if failed := {seed: len(report.failed) for seed, report in runs.reports.items() if report.failed}:
        say("questions failed: " + ", ".join(f"{count} with seed {seed}" for seed, count in failed.items()))
        say_causes(runs.reports.values())
        raise typer.Exit(1)


def finish(report: Report, out: Path | None, as_json: bool, prices: str | None = None) -> None:
    """Print a report; exit 1 if a question of it failed."""
    if as_json:
        draw.print_json(report.to_dict())
    else:
        tables.print_report(report, draw.console(), None if prices is None else Prices.of(prices))
    say_unscored(report)
    if out:
        say(f"run kept in {out}")
    say_failed(report, "; the same command tries them again" if out else "")
    if report.failed:
        raise typer.Exit(1)
