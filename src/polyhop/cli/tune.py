"""``polyhop tune``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import typer
from rich.text import Text

from polyhop.cli import show as draw
from polyhop.cli.ask import say_left_out
from polyhop.cli.printing import say
from polyhop.cli.progress import ProgressBar
from polyhop.common.text import counted
from polyhop.data.corpora import Corpus
from polyhop.data.questions import read_questions
from polyhop.evaluation.compare import Difference
from polyhop.evaluation.tuning.grid_search import GE_GRID, GridPoint, GridSearchResult, tune
from polyhop.evaluation.tuning.readers import ReaderFit, fit_reader
from polyhop.evaluation.tuning.staged import StagedSearchResult
from polyhop.methods.registry import write_settings
from polyhop.retrieval.index import index_for

Found = TypeVar("Found", ReaderFit, GridSearchResult, StagedSearchResult)


def run_tune_reader(
    dataset: Path,
    corpus: Corpus,
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
    index = index_for(corpus)
    say_left_out(corpus)
    with ProgressBar("passages") as progress:
        fit = fit_reader(questions, index, reader, retriever=retriever, k=k, progress=progress.update)
    fitted_on = {"dataset": dataset.name, "questions": fit.questions, "reader": fit.reader}
    settings = {"method": "searchain", "settings": {"confidence": fit.fitted.at}, "fitted_on": fitted_on}
    end(fit, {**settings, "scores": {"f1": fit.fitted.f1}}, _print_fit, out, as_json)


def run_tune_ge(
    dataset: Path,
    corpus: Corpus,
    grid: Mapping[str, str | None],
    arguments: Mapping[str, Any],
    out: Path | None,
    as_json: bool,
) -> None:
    """Try a grid of k1 and k2, print it, and keep the best point's settings."""
    values: dict[str, Sequence[Any]] = {
        name: given.split(",") if given is not None else GE_GRID[name] for name, given in grid.items()
    }
    index = index_for(corpus)
    say_left_out(corpus)
    with ProgressBar("answers") as progress, resumable(arguments["work"]):
        tuned = tune("ge", values, dataset, index, progress=progress.update, **arguments)
    end(tuned, tuned.file, _print_tuned, out, as_json)


@contextmanager
def resumable(work: Path | None) -> Iterator[None]:
    """An interrupt inside ends the verb and says how the search goes on."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"\nstopped; the same command goes on where it was: {work}" if work else "\nstopped (no --work)")
        raise typer.Exit(130) from None


def end(
    found: Found, settings: Mapping[str, Any], show: Callable[[Found], None], out: Path | None, as_json: bool
) -> None:
    """Keep the settings that were found, and tell what was."""
    if out:
        write_settings(out, settings)
    if as_json:
        draw.print_json(found.to_dict())
    else:
        show(found)
    if out:
        say(f"settings kept in {out}: polyhop run --method {settings['method']} --set-from {out}")


def _print_fit(fit: ReaderFit) -> None:
    to = draw.console()
    questions, passages = counted(fit.questions, "questions"), counted(fit.cases, "passages")
    title = f"{fit.reader} · {questions} ({fit.left_out} left out) · {passages}, {fit.right} answer"
    to.print(Text(title, style="bold"))
    rows = [["", "θ", "F1", "precision", "recall"]]
    for name, found in (("fitted", fit.fitted), ("default", fit.default)):
        scores = (f"{100 * value:.1f}" for value in (found.f1, found.precision, found.recall))
        rows.append([name, f"{found.at:.4g}", *scores])
    draw.print_rows(rows, to)
    to.print(f"AUROC: {'unknown' if fit.auroc is None else f'{fit.auroc:.3f}'}")


def _print_tuned(tuned: GridSearchResult) -> None:
    to = draw.console()
    report = tuned.best.report
    to.print(
        Text(
            f"{tuned.method} · {report.lm} · {report.dataset} · {counted(len(report.rows), 'questions')}", style="bold"
        )
    )
    names = list(tuned.best.settings)
    rows = [[*names, *tuned.best.to_dict()["scores"], "calls", "searches", "failed", ""]]
    rows += [_row(point, best=point is tuned.best) for point in tuned.points]
    draw.print_rows(rows, to)
    if tuned.gain:
        to.print(gain_text(tuned.objective, tuned.gain))


def gain_text(objective: str, gain: Difference) -> str:
    """A gain with its interval, and what it is not."""
    change = f"{100 * (gain.second - gain.first):+.1f} ({100 * gain.low:+.1f} … {100 * gain.high:+.1f})"
    return f"{objective} over the defaults: {change}, on the questions it was chosen by; confirm it on others"


def _row(point: GridPoint, *, best: bool) -> list[str]:
    row = point.to_dict()
    scores = [f"{100 * value:.1f}" for value in row["scores"].values()]
    costs = [f"{row['calls']:.1f}", f"{row['searches']:.1f}", str(row["failed"])]
    return [*map(str, point.settings.values()), *scores, *costs, "best" if best else ""]
