"""``polyhop demo``: answer and measure the included questions over the included corpus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.rule import Rule
from rich.text import Text

from polyhop.cli import show as draw
from polyhop.cli.answers import print_answer
from polyhop.cli.ask import POCKET_IS
from polyhop.cli.printing import say
from polyhop.cli.progress import ProgressBar
from polyhop.cli.run import finish
from polyhop.data import DEMO
from polyhop.data.questions import read_questions
from polyhop.evaluation.runner import evaluate
from polyhop.pipeline import Pipeline

SHOWN = 3
"""Number of questions whose reasoning is shown before all are measured."""


def run_demo(method: str, arguments: Mapping[str, Any], concurrency: int, as_json: bool) -> None:
    """Index the demo corpus, answer three questions with their traces, then measure all of them. ``arguments``: the
    model's, as ``Pipeline`` takes them."""
    if arguments["lm"] == "pocket":
        say(POCKET_IS)
    if not as_json:
        to = draw.console()
        with Pipeline(DEMO, method, **arguments) as pipeline:
            for question in read_questions(DEMO, limit=SHOWN):
                answer = pipeline.ask(question)
                to.print(Rule(style="dim"))
                print_answer(answer, show_trace=True, to=to)
                to.print(Text(f"Gold: {question.answers[0]}", style="dim"))
        to.print(Rule(style="dim"))
    with ProgressBar("questions") as progress:
        report = evaluate(DEMO, DEMO, method, concurrency=concurrency, progress=progress.update, **arguments)
    finish(report, None, as_json)
