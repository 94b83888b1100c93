"""``polyhop ask``."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast, get_args

from polyhop.answer import Answer
from polyhop.cli import show as draw
from polyhop.cli.answers import cut_replies, print_answer
from polyhop.cli.live import can_show, show_live
from polyhop.cli.printing import say
from polyhop.data.corpora import Corpus
from polyhop.errors import UnknownName, UsageError
from polyhop.pipeline import Pipeline
from polyhop.telemetry import start, traced
from polyhop.types import Kind, Question

KINDS = get_args(Kind)

POCKET_IS = (
    "pocket is a small trained reader with rules: it has no general knowledge and writes no prose; "
    "for a language model: --lm openai:MODEL or --lm openai:MODEL@URL"
)


def run_ask(
    question: str,
    corpus: Corpus | None,
    method: str,
    arguments: Mapping[str, Any],
    kind: str,
    show: str | None,
    quiet: bool,
    as_json: bool,
    *,
    telemetry: bool = False,
) -> None:
    """Answer one question and print it; on a terminal its steps are shown as they happen, unless ``quiet``."""
    if show not in (None, "trace"):
        raise UsageError(f"--show {show}: must be 'trace'")
    if kind not in KINDS:
        raise UnknownName("kind of question", kind, KINDS)
    live = can_show() and not quiet
    asked = Question("", question, kind=cast("Kind", kind))
    answer = asyncio.run(_answered(asked, corpus, method, arguments, live, telemetry))
    if arguments["lm"] == "pocket":
        say(POCKET_IS)
    if cut := cut_replies(answer.usage):
        say(cut)
    if as_json:
        draw.print_json(answer.to_dict())
    else:
        print_answer(answer, show_trace=show == "trace", to=draw.console())


async def _answered(
    question: Question, corpus: Corpus | None, method: str, arguments: Mapping[str, Any], live: bool, telemetry: bool
) -> Answer:
    async with Pipeline(corpus, method, **arguments) as pipeline:
        if telemetry:
            start()
            traced(pipeline, corpus=corpus.name if corpus else None)
        say_left_out(corpus)
        return await (show_live(pipeline.stream(question)) if live else pipeline.aask(question))


def say_left_out(corpus: Corpus | None) -> None:
    """Say what of a corpus was not read, if anything: bad lines, bad documents, files of other kinds."""
    if corpus is not None and corpus.passages and corpus.left_out:
        say(corpus.summary)
