"""``polyhop reproduce``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from polyhop.cli import options as opt
from polyhop.cli.printing import say, say_pocket, say_read
from polyhop.cli.run import resumable
from polyhop.common.text import counted
from polyhop.engine.options import Group, PipelineOptions

LIST = "list"

app = opt.new_app()


@app.command("reproduce")
@opt.takes_options(Group.MODEL, "retriever", "reader", Group.PROMPTS, "max_calls", Group.RATES, without=("lm_for",))
def reproduce_(
    key: Annotated[
        str, typer.Argument(metavar="list|KEY", help="'list' shows every recipe; a key, such as tor/table2, runs it.")
    ],
    data: Annotated[
        Path | None,
        opt.option(help="A folder with one folder per benchmark: hotpotqa/dev.jsonl, hotpotqa/corpus.jsonl."),
    ] = None,
    dataset: Annotated[
        list[str] | None,
        opt.option(metavar="NAME=FILE", help="A benchmark's questions, or NAME/train=FILE; repeatable."),
    ] = None,
    corpus: Annotated[
        list[str] | None, opt.option(metavar="NAME=FILE", help="A benchmark's corpus or index folder; repeatable.")
    ] = None,
    *,
    options: PipelineOptions,
    lm_for: Annotated[
        list[str] | None,
        opt.option(
            "--lm-for",
            metavar="NAME=LM",
            help="Replacement for a model that the paper names, such as GPT-4; repeatable.",
        ),
    ] = None,
    checkpoint: Annotated[
        list[str] | None,
        opt.option(metavar="ROW=RETRIEVER", help="Retriever for a row of a trained model, such as MDR=mdr:FOLDER."),
    ] = None,
    instructions: Annotated[
        Path | None, opt.option(help="PromptRank's instructions, one per line, best first; default: polyhop's own.")
    ] = None,
    demos_from: Annotated[
        Path | None, opt.option(help="Labelled questions for PromptRank's demonstrations; default: polyhop's own ten.")
    ] = None,
    out: Annotated[
        Path | None, opt.option(help="A folder for the runs and the table; the same command again resumes it.")
    ] = None,
    limit: opt.Limit = None,
    repeat: Annotated[
        int | None, opt.option(min=1, help="Number of runs where the paper has several; default: as many as the paper.")
    ] = None,
    concurrency: opt.Concurrency = 16,
    skip_bad: opt.SkipBad = False,
    as_json: opt.Json = False,
) -> None:
    """Reproduce a table of the five papers. Shows the papers' numbers beside yours; 'list' shows all tables."""
    from polyhop.cli.progress import ProgressBar
    from polyhop.cli.recipes import print_recipes, print_reproduction
    from polyhop.cli.show import console, print_json
    from polyhop.data.corpora import open_corpus
    from polyhop.evaluation.reproduction.benchmarks import select_benchmarks
    from polyhop.evaluation.reproduction.reproduce import reproduce

    if key == LIST:
        print_recipes(as_json)
        return
    files = opt.pairs(dataset, "--dataset", "NAME=FILE"), opt.pairs(corpus, "--corpus", "NAME=FILE")
    benchmarks = select_benchmarks(data, *files)
    paths = {str(benchmark.corpus) for benchmark in benchmarks.values() if benchmark.corpus}
    corpora = {path: open_corpus(path, skip_bad=skip_bad) for path in sorted(paths)}
    with ProgressBar("questions") as progress, resumable(out):
        result = reproduce(
            key,
            {name: replace(given, corpus=corpora.get(str(given.corpus))) for name, given in benchmarks.items()},
            lms=opt.pairs(lm_for, "--lm-for", "NAME=LM"),
            checkpoints=opt.pairs(checkpoint, "--checkpoint", "ROW=RETRIEVER"),
            instructions=instructions,
            demos_from=demos_from,
            repeat=repeat,
            limit=limit,
            out=out,
            concurrency=concurrency,
            skip_bad=skip_bad,
            progress=progress.update,
            **options.arguments(),
        )
    for opened in corpora.values():
        say_read(opened)
    if as_json:
        print_json(result.to_dict())
    else:
        print_reproduction(result, console())
    say_pocket(options)
    if out:
        say(f"runs and table kept in {out}")
    if result.failed:
        say(f"{counted(result.failed, 'questions')} failed" + ("; the same command tries them again" if out else ""))
        raise typer.Exit(1)
