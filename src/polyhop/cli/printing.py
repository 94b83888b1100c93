"""The plain output of the command line. What a terminal would obey never reaches one.

Names of files, ids, titles, questions and replies were written by strangers. Tables and colours are drawn by
``show.console``, which keeps the same rule; nothing else of the command line prints.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from polyhop.common.text import printable, printable_lines

if TYPE_CHECKING:
    from polyhop.data.corpora import Corpus
    from polyhop.engine.options import PipelineOptions

POCKET_IS = (
    "pocket is a small trained reader with rules: it has no general knowledge and writes no prose; "
    "for a language model: --lm openai:MODEL or --lm openai:MODEL@URL"
)


def write(text: str) -> None:
    """Write a result to stdout: as it is to a file or a pipe, printable lines to a terminal."""
    valid = text.encode("utf-8", "replace").decode()  # a name of a file may hold half of a surrogate pair
    sys.stdout.write(printable_lines(valid) if sys.stdout.isatty() else valid)


def say(message: str) -> None:
    """Write a message to a person, on stderr."""
    sys.stderr.write(f"{printable_lines(message)}\n")


def say_left_out(corpus: Corpus | None) -> None:
    """Say what part of a corpus was not read: malformed lines, bad documents, files of other kinds."""
    if corpus is not None and corpus.passages and corpus.left_out:
        say(corpus.summary)


def say_pocket(options: PipelineOptions) -> None:
    """Say what ``pocket`` is, if it is the model."""
    if options.lm == "pocket":
        say(POCKET_IS)


def print_error(message: str) -> None:
    """Write what went wrong, on one line of stderr."""
    sys.stderr.write(f"polyhop: {printable(message)}\n")


@contextmanager
def warnings_shown() -> Iterator[None]:
    """Show the warnings of the package on stderr within the block, one line each."""
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine())
    logger = logging.getLogger("polyhop")
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))
