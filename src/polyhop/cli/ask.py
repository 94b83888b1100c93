"""``polyhop ask``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from polyhop.cli import show as draw
from polyhop.data.corpora import Corpus
from polyhop.errors import UsageError
from polyhop.pipeline import Pipeline

POCKET_IS = (
    "pocket answers by classical text statistics, not by a language model; "
    "for real answers name one: --lm openai:MODEL or --lm openai:MODEL@URL"
)


def run_ask(
    question: str, corpus: Corpus | None, method: str, arguments: Mapping[str, Any], show: str | None, as_json: bool
) -> None:
    """Answer one question and print it."""
    if show not in (None, "trace"):
        raise UsageError(f"--show {show}: must be 'trace'")
    with Pipeline(corpus, method, **arguments) as pipeline:
        say_skipped(corpus)
        answer = pipeline.ask(question)
    if arguments["lm"] == "pocket":
        say(POCKET_IS)
    if as_json:
        draw.print_json(answer.to_dict())
    else:
        draw.print_answer(answer, show_trace=show == "trace", to=draw.console())


def say_skipped(corpus: Corpus | None) -> None:
    """Say how many bad lines or documents ``--skip-bad`` left out, where any."""
    if corpus is not None and corpus.skipped:
        say(f"{corpus.skipped} malformed lines or documents were skipped")


def say(message: str) -> None:
    """A line for the person, on stderr."""
    sys.stderr.write(f"{message}\n")
