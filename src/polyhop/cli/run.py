"""``polyhop run``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from polyhop.cli import show as draw
from polyhop.cli.ask import say
from polyhop.cli.progress import Watched
from polyhop.errors import UnknownName
from polyhop.evaluation.compare import compare
from polyhop.evaluation.report import Report
from polyhop.evaluation.runner import evaluate
from polyhop.evaluation.store import read_report


def run_run(
    dataset: Path,
    corpus: Path | None,
    method: str,
    arguments: Mapping[str, Any],
    out: Path | None,
    limit: int | None,
    concurrency: int,
    skip_bad: bool,
    as_json: bool,
) -> None:
    """Run a method over a dataset, show progress, print the table; exit 1 if a question failed."""
    with Watched("questions") as progress:
        try:
            report = evaluate(
                dataset,
                corpus,
                method,
                out=out,
                limit=limit,
                concurrency=concurrency,
                skip_bad=skip_bad,
                progress=progress.update,
                **arguments,
            )
        except KeyboardInterrupt:
            say(
                f"\nstopped; the same command goes on where it was: {out}"
                if out
                else "\nstopped; nothing was kept (no --out)"
            )
            raise typer.Exit(130) from None
    finish(report, out, as_json)


def finish(report: Report, out: Path | None, as_json: bool) -> None:
    """Print a report; exit 1 if a question of it failed."""
    if as_json:
        draw.print_json(report.to_dict())
    else:
        draw.print_report(report, draw.console())
    if out:
        say(f"run kept in {out}")
    if report.failed:
        name, why = next(iter(report.failed.items()))
        again = "; the same command tries them again" if out else ""
        say(f"{len(report.failed)} questions failed{again}. The first, {draw.clean(name)}: {draw.clean(why)}")
        raise typer.Exit(1)


def run_report(runs: Sequence[Path], form: str) -> None:
    """Print one run's report, or several side by side."""
    reports = {str(run): read_report(run) for run in runs}
    if form == "json":
        draw.print_json({name: report.to_dict() for name, report in reports.items()})
    elif form == "markdown":
        sys.stdout.write(draw.markdown(draw.side_by_side(reports)))
    elif form != "table":
        raise UnknownName("format", form, ("table", "markdown", "json"))
    elif len(reports) == 1:
        draw.print_report(next(iter(reports.values())), draw.console())
    else:
        draw.print_rows(draw.side_by_side(reports), draw.console())


def run_compare(first: Path, second: Path, as_json: bool) -> None:
    """Print the difference between two runs."""
    comparison = compare(read_report(first), read_report(second))
    if as_json:
        draw.print_json(comparison.to_dict())
    else:
        draw.print_comparison(comparison, draw.console())
