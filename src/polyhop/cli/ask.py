"""``polyhop ask`` and ``polyhop demo``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer

from polyhop.cli import options as opt
from polyhop.cli.printing import say, say_pocket, say_read
from polyhop.engine.options import PipelineOptions
from polyhop.errors import UnknownName, UsageError
from polyhop.types import Kind, Question

if TYPE_CHECKING:
    from polyhop.answer import Answer
    from polyhop.data.corpus import Corpus

KINDS = get_args(Kind)
SHOWN, MEASURED = 3, 20
"""Number of questions of the demo that are answered before the eyes, and of those that are measured."""

NEXT_STEPS = """
Next, with a folder of your own:
  polyhop ask "YOUR QUESTION" --corpus YOUR_FOLDER
  polyhop serve --corpus YOUR_FOLDER    (a web page; needs polyhop[serve])"""

app = opt.new_app()


@app.command()
@opt.takes_options("method", "lm", "lm_option", "max_tokens_per_call", "reasoning_tokens")
def demo(
    options: PipelineOptions,
    full: Annotated[
        bool, opt.option("--full", help="Show every step of the three answers, and measure all questions.")
    ] = False,
    concurrency: opt.Concurrency = 8,
    as_json: opt.Json = False,
) -> None:
    """Answer three questions, one with its tree, and measure 20. Questions and corpus are included."""
    from rich.rule import Rule
    from rich.text import Text

    from polyhop.cli import show as draw
    from polyhop.cli.answers import print_answer
    from polyhop.cli.progress import ProgressBar
    from polyhop.cli.run import finish
    from polyhop.cli.traces import trace_tree
    from polyhop.data import DEMO
    from polyhop.data.questions import read_questions
    from polyhop.evaluation.runner import evaluate
    from polyhop.metrics.answers import exact_match
    from polyhop.pipeline import Pipeline

    arguments = {"method": options.method, **options.arguments()}
    say_pocket(options)
    if not as_json:
        to = draw.console()
        with Pipeline(DEMO, **arguments) as pipeline:
            for number, question in enumerate(read_questions(DEMO, limit=SHOWN)):
                answer = pipeline.ask(question)
                to.print(Rule(style="dim"))
                if not full:
                    to.print(Text(question.text, style="bold"))
                print_answer(answer, show_trace=full, to=to)
                is_right = exact_match(answer.text, question.answers) == 1
                mark = (" ✓", "green") if is_right else (" ✗", "red")
                to.print(Text.assemble((f"Gold answer: {question.answers[0]}", "dim"), mark))
                if number == 0 and not full:
                    to.print()
                    draw.print_prose(trace_tree(answer.trace, brief=True, plain=to.color_system is None), to)
        to.print(Rule(style="dim"))
    limit = None if full else MEASURED
    with ProgressBar("questions") as progress:
        report = evaluate(DEMO, DEMO, limit=limit, concurrency=concurrency, progress=progress.update, **arguments)
    finish(report, None, as_json, brief=not full)
    if not as_json:
        to.print(Text(NEXT_STEPS))


@app.command()
@opt.takes_options()
def ask(
    question: Annotated[str, typer.Argument(help="The question, in quotes.")],
    corpus: opt.CorpusPath = None,
    language: opt.Language = None,
    *,
    options: PipelineOptions,
    kind: Annotated[
        str, opt.option(help="Kind of question: qa, boolean (yes or no), slot, fact (a claim to check) or long.")
    ] = "qa",
    show: Annotated[
        str | None, opt.option(help="trace: how the answer was found; thoughts: also the models' reasoning.")
    ] = None,
    quiet: Annotated[bool, opt.option("--quiet", help="Show no steps while the question is answered.")] = False,
    skip_bad: opt.SkipBad = False,
    telemetry: opt.Telemetry = False,
    as_json: opt.Json = False,
) -> None:
    """Answer one question over a corpus, with citations."""
    import asyncio

    from polyhop.cli import show as draw
    from polyhop.cli.answers import cut_replies, print_answer
    from polyhop.cli.live import can_show

    opened = opt.corpus_of(corpus, language, skip_bad) if corpus else None
    if show not in (None, "trace", "thoughts"):
        raise UsageError(f"--show {show}: must be 'trace' or 'thoughts'")
    if kind not in KINDS:
        raise UnknownName("kind of question", kind, KINDS)
    asked = Question("", question, kind=cast("Kind", kind))
    answer = asyncio.run(_answer(asked, opened, options, live=can_show() and not quiet, telemetry=telemetry))
    say_pocket(options)
    if cut := cut_replies(answer.usage):
        say(cut)
    if as_json:
        draw.print_json(answer.to_dict())
    else:
        print_answer(answer, show_trace=show is not None, show_thoughts=show == "thoughts", to=draw.console())


async def _answer(
    question: Question, corpus: Corpus | None, options: PipelineOptions, *, live: bool, telemetry: bool
) -> Answer:
    from polyhop.cli.live import show_live
    from polyhop.pipeline import Pipeline
    from polyhop.telemetry import start, traced

    async with Pipeline(corpus, options.method, **options.arguments()) as pipeline:
        if telemetry:
            start()
            traced(pipeline, corpus=corpus.name if corpus else None)
        say_read(corpus)
        return await (show_live(pipeline.stream(question)) if live else pipeline.aask(question))
