"""``polyhop data``: datasets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polyhop.cli import options as opt

app = typer.Typer()
data_app = typer.Typer(help="Convert, check, count and sample datasets; hand in predictions.", no_args_is_help=True)
app.add_typer(data_app, name="data")


@data_app.command("convert")
def data_convert(
    dataset: opt.DatasetPath,
    to: Annotated[str, opt.option(help="flashrag, jsonl (plain lines) or trec-qrels (its gold passages).")],
    out: opt.WrittenTo = None,
    form: opt.DatasetFormat = None,
    corpus: Annotated[
        Path | None, opt.option(help="Where trec-qrels finds the ids of gold passages that are known by title.")
    ] = None,
    limit: opt.Limit = None,
    skip_bad: opt.SkipBad = False,
) -> None:
    """Write a dataset in another form."""
    from polyhop.cli.data import run_convert

    run_convert(dataset, to, out, form, corpus, limit, skip_bad)


@data_app.command("validate")
def data_validate(dataset: opt.DatasetPath, form: opt.DatasetFormat = None, as_json: opt.Json = False) -> None:
    """Name every fault of a dataset with its place. Exits 1 if there is one."""
    from polyhop.cli.data import run_validate

    run_validate(dataset, form, as_json)


@data_app.command("stats")
def data_stats(
    dataset: opt.DatasetPath,
    corpus: Annotated[Path | None, opt.option(help="Tell how much of the gold this corpus has.")] = None,
    form: opt.DatasetFormat = None,
    skip_bad: opt.SkipBad = False,
    as_json: opt.Json = False,
) -> None:
    """Count what a dataset holds."""
    from polyhop.cli.data import run_stats

    run_stats(dataset, corpus, form, skip_bad, as_json)


@data_app.command("sample")
def data_sample(
    dataset: opt.DatasetPath,
    n: Annotated[int, opt.option("-n", min=1, help="How many questions.")] = 500,
    seed: Annotated[int, opt.option(help="Another seed draws others.")] = 0,
    stratify: Annotated[
        str | None, opt.option(help="Keep the shares of type, kind, hops or a field of the metadata.")
    ] = None,
    out: opt.WrittenTo = None,
    form: opt.DatasetFormat = None,
    skip_bad: opt.SkipBad = False,
) -> None:
    """Draw questions, the same ones on every machine."""
    from polyhop.cli.data import run_sample

    run_sample(dataset, n, seed, stratify, out, form, skip_bad)


@data_app.command("corpus-from-contexts")
def data_corpus_from_contexts(
    datasets: Annotated[list[Path], typer.Argument(help="Files of HotpotQA, 2WikiMultiHopQA or MuSiQue.")],
    out: Annotated[Path, opt.option(help="The corpus to write, JSON lines.")],
    questions: Annotated[Path | None, opt.option(help="Also write the questions, their gold passages by id.")] = None,
    form: opt.DatasetFormat = None,
    skip_bad: opt.SkipBad = False,
) -> None:
    """Make a corpus of the passages datasets bring along."""
    from polyhop.cli.data import run_corpus_from_contexts

    run_corpus_from_contexts(datasets, out, questions, form, skip_bad)


@data_app.command("predictions")
def data_predictions(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    to: Annotated[str, opt.option(help="hotpotqa, 2wiki, musique, kilt or trec-run.")],
    out: opt.WrittenTo = None,
    dataset: Annotated[
        Path | None, opt.option(help="The dataset that was run: its order, and for musique its paragraphs' numbers.")
    ] = None,
    form: opt.DatasetFormat = None,
) -> None:
    """Write a run's predictions for a benchmark's scorer."""
    from polyhop.cli.data import run_predictions

    run_predictions(run, to, out, dataset, form)
