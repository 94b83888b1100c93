"""``polyhop tune``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.text import Text

from polyhop.cli import show as draw
from polyhop.cli.ask import say
from polyhop.cli.progress import Watched
from polyhop.data.corpora import open_corpus
from polyhop.data.questions import read_questions
from polyhop.evaluation.settings import write_settings
from polyhop.evaluation.tuning import GE_GRID, Point, ReaderFit, Tuned, fit_reader, tune
from polyhop.retrieval.index import index_for


def run_tune_reader(
    dataset: Path,
    corpus: Path,
    reader: str,
    retriever: str,
    k: int,
    limit: int | None,
    skip_bad: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Fit a reader's threshold and print it beside the reader's own."""
    questions = read_questions(dataset, limit=limit, skip_bad=skip_bad)
    index = index_for(open_corpus(corpus, skip_bad=skip_bad))
    with Watched("passages") as progress:
        fit = fit_reader(questions, index, reader, retriever=retriever, k=k, progress=progress.update)
    if out:
        fitted_on = {"dataset": dataset.name, "questions": fit.questions, "reader": fit.reader}
        settings = {"confidence": fit.fitted.at}
        scores = {"f1": fit.fitted.f1}
        write_settings(out, {"method": "searchain", "settings": settings, "fitted_on": fitted_on, "scores": scores})
    if as_json:
        draw.print_json(fit.to_dict())
    else:
        _print_fit(fit)
    if out:
        say(f"settings kept in {out}: polyhop run --method searchain --set-from {out}")


def run_tune_ge(
    dataset: Path,
    corpus: Path,
    grid: Mapping[str, str | None],
    arguments: Mapping[str, Any],
    out: Path | None,
    as_json: bool,
) -> None:
    """Try a grid of k1 and k2, print it, and keep the best point's settings."""
    values: dict[str, Sequence[Any]] = {
        name: given.split(",") if given is not None else GE_GRID[name] for name, given in grid.items()
    }
    index = index_for(open_corpus(corpus, skip_bad=arguments["skip_bad"]))
    with Watched("answers") as progress:
        try:
            tuned = tune("ge", values, dataset, index, progress=progress.update, **arguments)
        except KeyboardInterrupt:
            work = arguments["work"]
            say(f"\nstopped; the same command goes on where it was: {work}" if work else "\nstopped (no --work)")
            raise typer.Exit(130) from None
    if out:
        write_settings(out, tuned.file)
    if as_json:
        draw.print_json(tuned.to_dict())
    else:
        _print_tuned(tuned)
    if out:
        say(f"settings kept in {out}: polyhop run --method {tuned.method} --set-from {out}")


def _print_fit(fit: ReaderFit) -> None:
    to = draw.console()
    told = (
        f"{fit.reader} · {fit.questions} questions ({fit.left_out} left out) · {fit.cases} passages, {fit.right} answer"
    )
    to.print(Text(told, style="bold"))
    rows = [["", "θ", "F1", "precision", "recall"]]
    for name, found in (("fitted", fit.fitted), ("default", fit.default)):
        scores = (f"{100 * value:.1f}" for value in (found.f1, found.precision, found.recall))
        rows.append([name, f"{found.at:.4g}", *scores])
    draw.print_rows(rows, to)
    to.print(f"AUROC: {'unknown' if fit.auroc is None else f'{fit.auroc:.3f}'}")


def _print_tuned(tuned: Tuned) -> None:
    to = draw.console()
    report = tuned.best.report
    to.print(Text(f"{tuned.method} · {report.lm} · {report.dataset} · {len(report.rows)} questions", style="bold"))
    names = list(tuned.best.settings)
    rows = [[*names, *tuned.best.to_dict()["scores"], "calls", "searches", "failed", ""]]
    rows += [_row(point, best=point is tuned.best) for point in tuned.points]
    draw.print_rows(rows, to)
    if tuned.gain:
        gain = tuned.gain
        told = f"{100 * (gain.second - gain.first):+.1f} ({100 * gain.low:+.1f} … {100 * gain.high:+.1f})"
        to.print(
            f"{tuned.objective} over the defaults: {told}, on the questions it was chosen by; confirm it on others"
        )


def _row(point: Point, *, best: bool) -> list[str]:
    told = point.to_dict()
    scores = [f"{100 * value:.1f}" for value in told["scores"].values()]
    costs = [f"{told['calls']:.1f}", f"{told['searches']:.1f}", str(told["failed"])]
    return [*map(str, point.settings.values()), *scores, *costs, "best" if best else ""]
