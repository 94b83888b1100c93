"""Datasets of the command line: opened and read with a word on their format, and what is written of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from polyhop.cli import options as opt
from polyhop.cli.printing import say
from polyhop.common.files import atomic_write
from polyhop.common.text import counted
from polyhop.data import DEMO
from polyhop.data.contexts import questions_with_contexts
from polyhop.data.questions import Dataset, open_questions, read_questions
from polyhop.types import Question

DatasetPath = Annotated[
    Path, typer.Argument(metavar="DATASET", help="Questions in any known format, hf:DATASET[:SPLIT], or 'demo'.")
]
WrittenTo = Annotated[Path | None, opt.option("--out", help="The file to write; default: stdout.")]


def opened(
    dataset: str | Path,
    form: str | None = None,
    *,
    skip_bad: bool = False,
    fields: Mapping[str, str] | None = None,
) -> Dataset:
    """Open a dataset and say which format it is read as, and why."""
    found = open_questions(dataset, format=form, skip_bad=skip_bad, fields=fields)
    say(f"{found.name} is read as {found.format.name}: {found.reason}")
    return found


def read(
    dataset: Path,
    form: str | None,
    *,
    skip_bad: bool,
    fields: Mapping[str, str] | None = None,
    contexts: bool = False,
) -> list[Question]:
    """Read all questions of a dataset, with their contexts or without, and say which format it has unless it is the
    demo."""
    if str(dataset) == DEMO and form is None and fields is None:
        return read_questions(dataset)
    source = opened(dataset, form, skip_bad=skip_bad, fields=fields)
    questions = questions_with_contexts(source) if contexts else list(source)
    say_skipped(source)
    return questions


@contextmanager
def _target(out: Path | None) -> Iterator[BinaryIO]:
    """Open the output: a file, replaced once complete, or stdout."""
    if out is not None:
        with atomic_write(out) as stream:
            yield stream
        return
    sys.stdout.flush()
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


def write_to(out: Path | None, write: Callable[[BinaryIO], int]) -> int:
    """Write to a file, or to stdout without one; return what ``write`` does, a count."""
    with _target(out) as stream:
        return write(stream)


def write_text(lines: Iterable[str], to: BinaryIO) -> int:
    """Write lines; return their number."""
    count = 0
    for count, line in enumerate(lines, 1):  # noqa: B007
        to.write(line.encode() + b"\n")
    return count


def say_written(what: str, out: Path | None) -> None:
    """Say what was written, unless it went to stdout."""
    if out is not None:
        say(f"{what} written to {out}")


def say_skipped(dataset: Dataset) -> None:
    """Say how many malformed rows were left out, if any."""
    if dataset.skipped:
        say(f"skipped {counted(dataset.skipped, 'malformed rows')} of {dataset.name}")
