"""``polyhop run``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from polyhop.cli import show as draw
from polyhop.cli.ask import say
from polyhop.cli.data import read
from polyhop.cli.progress import Watched
from polyhop.data.shipped import NAME as DEMO
from polyhop.errors import UnknownName
from polyhop.evaluation.compare import compare
from polyhop.evaluation.report import Report
from polyhop.evaluation.runner import evaluate
from polyhop.evaluation.several import Several, evaluate_several, named
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
    metrics: str | None,
    form: str | None,
    as_json: bool,
) -> None:
    """Run a method or several over a dataset, show progress, print the table; exit 1 if a question failed."""
    names = named(method)
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
        corpus = dataset
    with Watched("questions") as progress, _resumable(out):
        if len(names) > 1:
            several = evaluate_several(names, questions, corpus, progress=progress.update, **common)
        else:
            report = evaluate(questions, corpus, names[0], progress=progress.update, **common)
    if len(names) > 1:
        finish_several(several, out, as_json)
    else:
        finish(report, out, as_json)


@contextmanager
def _resumable(out: Path | None) -> Iterator[None]:
    """An interrupt inside ends the verb and says how the run goes on."""
    try:
        yield
    except KeyboardInterrupt:
        kept = f"the same command goes on where it was: {out}" if out else "nothing was kept (no --out)"
        say(f"\nstopped; {kept}")
        raise typer.Exit(130) from None


def finish_several(several: Several, out: Path | None, as_json: bool) -> None:
    """Print several methods' reports as one table; exit 1 if a question of one failed."""
    if as_json:
        draw.print_json(several.to_dict())
    else:
        draw.print_rows(draw.by_method(several.reports), draw.console(), names=1)
    for name, why in several.left_out.items():
        say(f"{name} was left out: {why}")
    if out:
        say(f"runs kept in {out}")
    if failed := {name: len(report.failed) for name, report in several.reports.items() if report.failed}:
        say("questions failed: " + ", ".join(f"{count} of {name}" for name, count in failed.items()))
        raise typer.Exit(1)


def finish(report: Report, out: Path | None, as_json: bool) -> None:
    """Print a report; exit 1 if a question of it failed."""
    if as_json:
        draw.print_json(report.to_dict())
    else:
        draw.print_report(report, draw.console())
    _tell_unscored(report)
    if out:
        say(f"run kept in {out}")
    if report.failed:
        name, why = next(iter(report.failed.items()))
        again = "; the same command tries them again" if out else ""
        say(f"{len(report.failed)} questions failed{again}. The first, {draw.clean(name)}: {draw.clean(why)}")
        raise typer.Exit(1)


def _tell_unscored(report: Report) -> None:
    """Why metrics that were wanted are not there, each reason once."""
    for why in dict.fromkeys(report.unscored.values()):
        names = [name for name, each in report.unscored.items() if each == why]
        say(f"not scored: {', '.join(names)}: {why}")


def run_report(
    runs: Sequence[Path], form: str, by: str | None, metrics: str | None = None, dataset: Path | None = None
) -> None:
    """Print one run's report, or several side by side; ``by`` a key, one for each of its values in the first run.
    ``metrics`` and ``dataset`` score them anew."""
    reports = {str(run): read_report(run, metrics=metrics, dataset=dataset) for run in runs}
    for report in reports.values():
        _tell_unscored(report)
    if by is not None:
        reports = _parts(reports, by)
    if form == "json":
        draw.print_json({name: report.to_dict() for name, report in reports.items()})
    elif form == "markdown":
        sys.stdout.write(draw.markdown(draw.side_by_side(reports, statistics=by is not None)))
    elif form != "table":
        raise UnknownName("format", form, ("table", "markdown", "json"))
    elif by is not None:
        draw.print_rows(draw.turned(draw.side_by_side(reports, statistics=True)), draw.console())
    elif len(reports) == 1:
        draw.print_report(next(iter(reports.values())), draw.console())
    else:
        draw.print_rows(draw.side_by_side(reports), draw.console())


def _parts(reports: Mapping[str, Report], by: str) -> dict[str, Report]:
    """Every run on the questions of each value that the first run has for ``by``."""
    parts: dict[str, Report] = {}
    for value, part in next(iter(reports.values())).by(by).items():
        ids = {row["id"] for row in part.rows}
        for run, report in reports.items():
            name = f"{by} {value}" if len(reports) == 1 else f"{run}, {by} {value}"
            parts[name] = _among(ids, report)
    return parts


def _among(ids: set[str], report: Report) -> Report:
    return report.only(lambda row: row["id"] in ids)


def run_compare(first: Path, second: Path, as_json: bool) -> None:
    """Print the difference between two runs."""
    comparison = compare(read_report(first), read_report(second))
    if as_json:
        draw.print_json(comparison.to_dict())
    else:
        draw.print_comparison(comparison, draw.console())
