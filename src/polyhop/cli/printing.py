"""The plain output of the command line; no control characters reach a terminal.

Names of files, ids, titles, questions and replies come from strangers. Tables and colours are drawn by ``show.console``
by the same rule; nothing else in the command line prints.
"""

from __future__ import annotations

import logging
import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from polyhop.common.text import printable, printable_lines
from polyhop.redaction import redacted

if TYPE_CHECKING:
    from polyhop.data.corpus import Corpus
    from polyhop.engine.options import PipelineOptions

POCKET_IS = (
    "pocket is a small trained reader with rules: it has no general knowledge and writes no prose; "
    "for a language model: --lm openai:MODEL or --lm openai:MODEL@URL"
)


def write(text: str) -> None:
    """Write a result to stdout: unchanged to a file or a pipe, as printable lines to a terminal."""
    valid = text.encode("utf-8", "replace").decode()  # a file name may contain an unpaired surrogate
    sys.stdout.write(printable_lines(valid) if sys.stdout.isatty() else valid)


def say(message: str) -> None:
    """Write a message for the user to stderr."""
    sys.stderr.write(f"{_wrapped(printable_lines(message))}\n")


def say_read(corpus: Corpus | None) -> None:
    """Say how many documents were read and in which encodings guessed, and what part of any corpus was not read:
    malformed lines, bad documents, files of other kinds."""
    if corpus is not None and corpus.passages and (corpus.documents or corpus.left_out):
        say(corpus.summary)


def say_pocket(options: PipelineOptions) -> None:
    """Say what ``pocket`` is, if it is the model."""
    if options.lm == "pocket":
        say(POCKET_IS)


def print_error(message: str) -> None:
    """Write an error to stderr: as one line to a file or a pipe, wrapped between words to a terminal."""
    sys.stderr.write(f"{_wrapped(f'polyhop: {printable(message)}')}\n")


@contextmanager
def warnings_shown() -> Iterator[None]:
    """Show the package's warnings on stderr within the block, as errors are shown."""
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
        return _wrapped(printable(super().format(record)))


def _wrapped(text: str) -> str:
    """Return a text for stderr: in a terminal, its lines are broken between words."""
    if not sys.stderr.isatty():
        return text
    text = redacted(text)  # before a line may end within a secret
    width = shutil.get_terminal_size().columns
    fill = textwrap.TextWrapper(width, replace_whitespace=False, break_long_words=False, break_on_hyphens=False).fill
    return "\n".join(fill(line) if len(line) > width else line for line in text.split("\n"))
