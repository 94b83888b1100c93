"""``polyhop tune``: fit settings that the papers leave open."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polyhop.cli import options as opt

app = typer.Typer()
tune_app = typer.Typer(help="Fit settings that the papers leave open, on labelled questions.", no_args_is_help=True)
app.add_typer(tune_app, name="tune")


@tune_app.command("reader")
def tune_reader(
    dataset: opt.Labelled,
    corpus: opt.TunedCorpus,
    language: opt.Language = None,
    reader: opt.Reader = "pocket",
    retriever: opt.Retriever = "bm25",
    k: Annotated[int, opt.option("-k", min=1, help="Hits per question that are read beside the gold passages.")] = 5,
    limit: opt.Limit = None,
    skip_bad: opt.SkipBad = False,
    out: opt.SettingsOut = None,
    as_json: opt.Json = False,
) -> None:
    """Fit a reader's threshold. Above this confidence a passage counts as containing the answer."""
    from polyhop.cli.tune import run_tune_reader

    opened = opt.corpus_of(corpus, language, skip_bad)
    run_tune_reader(dataset, opened, reader, retriever, k, limit, skip_bad, out, as_json)


@tune_app.command("ge")
def tune_ge(
    dataset: opt.Labelled,
    corpus: opt.TunedCorpus,
    language: opt.Language = None,
    lm: opt.Lm = "pocket",
    lm_for: opt.LmFor = None,
    lm_option: opt.LmOption = None,
    max_tokens_per_call: opt.MaxTokensPerCall = None,
    retriever: opt.MethodRetriever = None,
    rerank: opt.Rerank = None,
    retrieve_below: Annotated[str | None, opt.option(help="Values to try, such as 0.7,0.8,0.9.")] = None,
    keep_above: Annotated[str | None, opt.option(help="Values to try, such as 0.4,0.7.")] = None,
    objective: Annotated[str, opt.option(help="f1, em or cover_em.")] = "f1",
    settings: opt.Settings = None,
    limit: opt.Limit = None,
    out: opt.SettingsOut = None,
    work: Annotated[
        Path | None, opt.option(help="A folder with one run per point; the same command again resumes it.")
    ] = None,
    concurrency: opt.Concurrency = 16,
    skip_bad: opt.SkipBad = False,
    prompts: opt.Prompts = None,
    rendering: opt.Rendering = "text",
    seed: opt.Seed = None,
    max_concurrency: opt.MaxConcurrency = None,
    requests_per_minute: opt.Rpm = None,
    tokens_per_minute: opt.Tpm = None,
    timeout: opt.Timeout = None,
    as_json: opt.Json = False,
) -> None:
    """Fit when GE retrieves and which answers it keeps. Searches a grid of retrieve_below and keep_above."""
    from polyhop.cli.tune import run_tune_ge

    grid = {"retrieve_below": retrieve_below, "keep_above": keep_above}
    search = {"limit": limit, "work": work, "concurrency": concurrency, "skip_bad": skip_bad, "objective": objective}
    arguments = {**opt.pipeline_arguments(locals()), **search}
    run_tune_ge(dataset, opt.corpus_of(corpus, language, skip_bad), grid, arguments, out, as_json)


@tune_app.command("promptrank")
def tune_promptrank(
    dataset: opt.Labelled,
    corpus: opt.TunedCorpus,
    language: opt.Language = None,
    lm: opt.Lm = "pocket",
    lm_for: opt.LmFor = None,
    lm_option: opt.LmOption = None,
    max_tokens_per_call: opt.MaxTokensPerCall = None,
    retriever: opt.MethodRetriever = None,
    instructions: Annotated[Path | None, opt.option(help="A file of instructions to try, one per line.")] = None,
    generate: Annotated[
        int | None, opt.option(min=1, help="Generate N instructions; polyhop's own come from 200.")
    ] = None,
    generator: Annotated[
        str | None, opt.option(help="Model that generates them, a T5 that fills gaps: hf:t5-base.")
    ] = None,
    temperatures: Annotated[str | None, opt.option(help="Values to try, such as 1,1.2,1.4.")] = None,
    demos: Annotated[int, opt.option(min=0, help="Also choose N demonstrations; an even number.")] = 0,
    reader: Annotated[str | None, opt.option(help="Also fit λ (path_weight) to this reader, such as pocket.")] = None,
    weights: Annotated[str | None, opt.option(help="Values of λ to try, such as 0.8,0.9.")] = None,
    objective: Annotated[str, opt.option(help="Metric that λ is fitted to: f1 or em.")] = "f1",
    settings: opt.Settings = None,
    limit: Annotated[int, opt.option(min=1, help="Use only the first N questions.")] = 128,
    sample: Annotated[int | None, opt.option(help="Draw the questions at random with this seed instead.")] = None,
    out: opt.SettingsOut = None,
    work: Annotated[
        Path | None, opt.option(help="A folder for measurements; the same command again resumes from it.")
    ] = None,
    concurrency: opt.Concurrency = 16,
    skip_bad: opt.SkipBad = False,
    prompts: opt.Prompts = None,
    cache: opt.Cache = None,
    max_concurrency: opt.MaxConcurrency = None,
    requests_per_minute: opt.Rpm = None,
    tokens_per_minute: opt.Tpm = None,
    timeout: opt.Timeout = None,
    as_json: opt.Json = False,
) -> None:
    """Find the instruction and temperature that suit a model. By R@2; then demonstrations and λ if requested."""
    from polyhop.cli.tune_promptrank import run_tune_promptrank

    arguments = opt.pipeline_arguments({name: value for name, value in locals().items() if name != "reader"})
    values = {"temperatures": temperatures, "weights": weights}
    search = {"demos": demos, "reader": reader, "objective": objective, "limit": limit, "sample": sample, "work": work}
    search |= {"concurrency": concurrency, "skip_bad": skip_bad}
    opened = opt.corpus_of(corpus, language, skip_bad)
    run_tune_promptrank(dataset, opened, instructions, generate, generator, values, arguments, search, out, as_json)
