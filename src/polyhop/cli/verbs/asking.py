"""Answer a question, or run and measure methods over a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polyhop.cli import options as opt

app = typer.Typer()


@app.command()
def demo(
    method: opt.Method = "tor",
    lm: opt.Lm = "pocket",
    lm_option: opt.LmOption = None,
    max_tokens_per_call: opt.MaxTokensPerCall = None,
    concurrency: opt.Concurrency = 8,
    as_json: opt.Json = False,
) -> None:
    """Answer three questions with their reasoning, then measure all. Questions and corpus are included."""
    from polyhop.cli.demo import run_demo

    run_demo(method, {"lm": lm, **opt.lm_arguments(locals())}, concurrency, as_json)


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="The question, in quotes.")],
    corpus: opt.CorpusPath = None,
    language: opt.Language = None,
    method: opt.Method = "tor",
    lm: opt.Lm = "pocket",
    lm_for: opt.LmFor = None,
    lm_option: opt.LmOption = None,
    max_tokens_per_call: opt.MaxTokensPerCall = None,
    retriever: opt.MethodRetriever = None,
    rerank: opt.Rerank = None,
    reader: opt.Reader = "pocket",
    settings: opt.Settings = None,
    set_from: opt.SetFrom = None,
    kind: Annotated[
        str, opt.option(help="Kind of question: qa, boolean (yes or no), slot, fact (a claim to check) or long.")
    ] = "qa",
    show: Annotated[str | None, opt.option(help="'trace' shows how the answer was found.")] = None,
    quiet: Annotated[bool, opt.option("--quiet", help="Show no steps while the question is answered.")] = False,
    skip_bad: opt.SkipBad = False,
    prompts: opt.Prompts = None,
    rendering: opt.Rendering = "text",
    cache: opt.Cache = None,
    max_calls: opt.MaxCalls = None,
    max_tokens: opt.MaxTokens = None,
    max_seconds: opt.MaxSeconds = None,
    max_cost: opt.MaxCost = None,
    price: opt.Price = None,
    abstain_below: opt.Abstain = None,
    seed: opt.Seed = None,
    max_concurrency: opt.MaxConcurrency = None,
    requests_per_minute: opt.Rpm = None,
    tokens_per_minute: opt.Tpm = None,
    timeout: opt.Timeout = None,
    telemetry: opt.Telemetry = False,
    as_json: opt.Json = False,
) -> None:
    """Answer one question over a corpus, with citations."""
    from polyhop.cli.ask import run_ask

    arguments = opt.pipeline_arguments(locals())
    opened = opt.corpus_of(corpus, language, skip_bad) if corpus else None
    run_ask(question, opened, method, arguments, kind, show, quiet, as_json, telemetry=telemetry)


@app.command()
def run(
    dataset: Annotated[
        Path, opt.option(help="Questions in any known format, hf:DATASET[:SPLIT], or 'demo'; see 'polyhop data'.")
    ],
    corpus: opt.CorpusPath = None,
    language: opt.Language = None,
    method: opt.Methods = "tor",
    lm: opt.Lm = "pocket",
    lm_for: opt.LmFor = None,
    lm_option: opt.LmOption = None,
    max_tokens_per_call: opt.MaxTokensPerCall = None,
    retriever: opt.MethodRetriever = None,
    rerank: opt.Rerank = None,
    reader: opt.Reader = "pocket",
    settings: opt.Settings = None,
    set_from: opt.SetFrom = None,
    setup: opt.Setup = None,
    out: Annotated[Path | None, opt.option(help="The run's folder; the same command again resumes it.")] = None,
    batch: Annotated[
        Path | None,
        opt.option(
            metavar="DIR",
            help="Write model calls to batch files in this folder instead of sending them, and read their results.",
        ),
    ] = None,
    limit: opt.Limit = None,
    concurrency: opt.Concurrency = 16,
    engine: opt.Engine = None,
    address: opt.Address = None,
    workers: opt.Workers = None,
    skip_bad: opt.SkipBad = False,
    form: opt.DatasetFormat = None,
    metrics: opt.Metrics = None,
    repeat: Annotated[
        int, opt.option(min=1, help="Repeat the run N times, with seeds SEED, SEED+1, …; each is kept in OUT/seed-K.")
    ] = 1,
    prompts: opt.Prompts = None,
    rendering: opt.Rendering = "text",
    cache: opt.Cache = None,
    max_calls: opt.MaxCalls = None,
    max_tokens: opt.MaxTokens = None,
    max_seconds: opt.MaxSeconds = None,
    max_cost: opt.MaxCost = None,
    price: opt.Price = None,
    abstain_below: opt.Abstain = None,
    seed: opt.Seed = None,
    max_concurrency: opt.MaxConcurrency = None,
    requests_per_minute: opt.Rpm = None,
    tokens_per_minute: opt.Tpm = None,
    timeout: opt.Timeout = None,
    telemetry: opt.Telemetry = False,
    as_json: opt.Json = False,
) -> None:
    """Run a method, or several, over a dataset and measure it."""
    from polyhop.cli.run import run_run

    arguments = opt.pipeline_arguments(locals())
    opened = opt.corpus_of(corpus, language, skip_bad) if corpus else None
    run_run(
        dataset,
        opened,
        method,
        {**arguments, "telemetry": telemetry, "engine": opt.engine_of(engine, address, workers)},
        out,
        limit,
        concurrency,
        skip_bad,
        metrics,
        form,
        repeat,
        setup,
        as_json,
        batch,
    )


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(help="The sweep, a TOML file: [run], [[grid]] and [[point]].")],
    out: Annotated[
        Path | None, opt.option(help="A folder with one run folder per point; the same command again resumes it.")
    ] = None,
    dry_run: Annotated[
        bool, opt.option("--dry-run", help="Estimate calls, tokens and cost without calling the model.")
    ] = False,
    sample: Annotated[
        int, opt.option(min=1, help="Number of questions that pocket answers for the estimate of --dry-run.")
    ] = 5,
    price: opt.Price = None,
    as_json: opt.Json = False,
) -> None:
    """Run methods at many settings and show one table. Calls that points share are made once."""
    from polyhop.cli.sweep import run_sweep

    run_sweep(file, out, dry_run, sample, price, as_json)


@app.command("reproduce")
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
    lm: opt.Lm = "pocket",
    lm_for: Annotated[
        list[str] | None,
        opt.option(
            "--lm-for",
            metavar="NAME=LM",
            help="Replacement for a model that the paper names, such as GPT-4; repeatable.",
        ),
    ] = None,
    lm_option: opt.LmOption = None,
    max_tokens_per_call: opt.MaxTokensPerCall = None,
    retriever: opt.MethodRetriever = None,
    reader: opt.Reader = "pocket",
    checkpoint: Annotated[
        list[str] | None,
        opt.option(metavar="ROW=RETRIEVER", help="Retriever for a row of a trained model, such as MDR=mdr:FOLDER."),
    ] = None,
    instructions: Annotated[
        Path | None, opt.option(help="PromptRank's instructions, one per line, best first; default: polyhop's own.")
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
    prompts: opt.Prompts = None,
    rendering: opt.Rendering = "text",
    cache: opt.Cache = None,
    max_calls: opt.MaxCalls = None,
    max_concurrency: opt.MaxConcurrency = None,
    requests_per_minute: opt.Rpm = None,
    tokens_per_minute: opt.Tpm = None,
    timeout: opt.Timeout = None,
    as_json: opt.Json = False,
) -> None:
    """Reproduce a table of the five papers. Shows their numbers beside polyhop's; 'list' shows all tables."""
    from polyhop.cli.reproduce import LIST, run_list, run_reproduce

    if key == LIST:
        run_list(as_json)
        return
    arguments = opt.pipeline_arguments({**locals(), "lm_for": None, "settings": None})
    limits = {"limit": limit, "repeat": repeat, "concurrency": concurrency, "skip_bad": skip_bad}
    arguments |= {**limits, "instructions": instructions}
    run_reproduce(key, data, dataset, corpus, lm_for, checkpoint, arguments, out, as_json)
