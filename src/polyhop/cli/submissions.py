"""``polyhop data predictions``: the predictions of a run, written for the scorers of benchmarks or for Ragas."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from polyhop.cli import options as opt
from polyhop.cli.datasets import WrittenTo, opened, say_written, write_text, write_to
from polyhop.cli.printing import say
from polyhop.common.text import counted
from polyhop.data.contexts import Context, contexts_of
from polyhop.data.lines import write_objects
from polyhop.data.questions import Dataset
from polyhop.data.submissions import (
    Row,
    hotpotqa_submission,
    kilt_submission,
    musique_submission,
    ragas_samples,
    trec_run,
    two_wiki_submission,
)
from polyhop.errors import DataError, UnknownName, UsageError
from polyhop.types import Passage, Question

HANDED_IN = ("hotpotqa", "2wiki", "musique", "kilt", "trec-run", "ragas")


def data_predictions(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    to: Annotated[str, opt.option(help="hotpotqa, 2wiki, musique, kilt, trec-run or ragas.")],
    out: WrittenTo = None,
    dataset: Annotated[
        Path | None, opt.option(help="The dataset of the run: gives the order and, for musique, the paragraph numbers.")
    ] = None,
    form: opt.DatasetFormat = None,
) -> None:
    """Write predictions for a scorer, or for Ragas."""
    from polyhop.evaluation.store import PREDICTIONS, read_predictions

    if to not in HANDED_IN:
        raise UnknownName("form of predictions", to, HANDED_IN)
    if to == "musique" and dataset is None:
        raise UsageError("--to musique requires --dataset: support is given by the paragraph numbers of MuSiQue's file")
    if not (run / PREDICTIONS).is_file():
        raise DataError(f"not a run's folder: it has no {PREDICTIONS}", run)
    rows: list[Row] = list(read_predictions(run / PREDICTIONS))
    contexts = _contexts(opened(dataset, form)) if dataset is not None else {}
    if dataset is not None:
        rows = _in_order(rows, list(contexts))
    write_to(out, lambda stream: _write_submission(to, rows, contexts, run, stream))
    say_written(f"predictions of {counted(len(rows), 'questions')}", out)
    if missing := len(contexts) - len(rows) if contexts else 0:
        say(f"no prediction for {counted(missing, 'questions')} of the dataset; an official scorer expects all of them")
    if to in ("hotpotqa", "2wiki") and rows and not any(row.get("facts") for row in rows):
        say("no supporting facts: the corpus does not say where sentences begin, unlike one from contexts")


def _write_submission(
    to: str, rows: Sequence[Row], contexts: Mapping[str, Sequence[Context]], run: Path, stream: BinaryIO
) -> int:
    match to:
        case "hotpotqa":
            return write_objects([hotpotqa_submission(rows)], stream)
        case "2wiki":
            return write_objects([two_wiki_submission(rows)], stream)
        case "musique":
            return write_objects(musique_submission(rows, contexts), stream)
        case "kilt":
            return write_objects(kilt_submission(rows), stream)
        case "ragas":
            return write_objects(ragas_samples(rows, partial(_ranked, run)), stream)
        case _:
            return write_text(trec_run(rows, f"polyhop-{run.resolve().name}"), stream)


def _ranked(run: Path, row: Row) -> Sequence[Passage]:
    from polyhop.evaluation.store import ranked_passages

    passages = ranked_passages(run, row)
    if passages is None:
        raise DataError(
            f"the trace of question {row['id']!r}, which has the texts of its passages, cannot be read", run
        )
    return passages


def _contexts(dataset: Dataset) -> dict[str, list[Context]]:
    """Return the contexts of each question of a dataset, in its order."""
    found: dict[str, list[Context]] = {}
    for number, row, question in dataset.valid_records():
        try:
            contexts = contexts_of(row or {})
        except ValueError as error:
            raise dataset.source.fault(number, str(error)) from None
        if isinstance(question, Question):
            found[question.id] = contexts
    return found


def _in_order(rows: Iterable[Row], order: Sequence[str]) -> list[Row]:
    """Return a run's lines in a dataset's order."""
    by_id = {row["id"]: row for row in rows}
    if strange := by_id.keys() - set(order):
        raise UsageError(f"the dataset has no question {min(strange)!r}, which the run answers: is it another one?")
    return [by_id[id] for id in order if id in by_id]
