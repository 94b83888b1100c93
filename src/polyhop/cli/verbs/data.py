"""``polyhop data``: datasets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polyhop.cli import options as opt

app = typer.Typer()
data_app = typer.Typer(help="Convert, check, count and sample datasets; export predictions.", no_args_is_help=True)
app.add_typer(data_app, name="data")


@data_app.command("convert")
def data_convert(
    dataset: opt.DatasetPath,
    to: Annotated[str, opt.option(help="flashrag, jsonl (plain lines) or trec-qrels (its gold passages).")],
    out: opt.WrittenTo = None,
    form: opt.DatasetFormat = None,
    corpus: Annotated[
        Path | None, opt.option(help="Corpus in which trec-qrels finds the ids of gold passages known only by title.")
    ] = None,
    limit: opt.Limit = None,
    skip_bad: opt.SkipBad = False,
) -> None:
    """Write a dataset in another format."""
    from polyhop.cli.data import run_convert

    run_convert(dataset, to, out, form, corpus, limit, skip_bad)


@data_app.command("validate")
def data_validate(dataset: opt.DatasetPath, form: opt.DatasetFormat = None, as_json: opt.Json = False) -> None:
    """List every fault of a dataset with its location. Exits with 1 if there is one."""
    from polyhop.cli.data import run_validate

    run_validate(dataset, form, as_json)


@data_app.command("stats")
def data_stats(
    dataset: opt.DatasetPath,
    corpus: Annotated[Path | None, opt.option(help="Also show how much of the gold evidence this corpus has.")] = None,
    form: opt.DatasetFormat = None,
    skip_bad: opt.SkipBad = False,
    as_json: opt.Json = False,
) -> None:
    """Show statistics of a dataset."""
    from polyhop.cli.data import run_stats

    run_stats(dataset, corpus, form, skip_bad, as_json)


@data_app.command("sample")
def data_sample(
    dataset: opt.DatasetPath,
    n: Annotated[int, opt.option("-n", min=1, help="Number of questions.")] = 500,
    seed: Annotated[int, opt.option(help="Random seed of the sample.")] = 0,
    stratify: Annotated[
        str | None, opt.option(help="Keep the proportions of type, kind, hops or a metadata field.")
    ] = None,
    out: opt.WrittenTo = None,
    form: opt.DatasetFormat = None,
    skip_bad: opt.SkipBad = False,
) -> None:
    """Draw a random sample. It is the same on every machine."""
    from polyhop.cli.data import run_sample

    run_sample(dataset, n, seed, stratify, out, form, skip_bad)


@data_app.command("corpus-from-contexts")
def data_corpus_from_contexts(
    datasets: Annotated[list[Path], typer.Argument(help="Files of HotpotQA, 2WikiMultiHopQA or MuSiQue.")],
    out: Annotated[Path, opt.option(help="The corpus to write, JSON lines.")],
    questions: Annotated[Path | None, opt.option(help="Also write the questions, with gold passages by id.")] = None,
    form: opt.DatasetFormat = None,
    skip_bad: opt.SkipBad = False,
) -> None:
    """Build a corpus from the passages in datasets."""
    from polyhop.cli.data import run_corpus_from_contexts

    run_corpus_from_contexts(datasets, out, questions, form, skip_bad)


@data_app.command("predictions")
def data_predictions(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    to: Annotated[str, opt.option(help="hotpotqa, 2wiki, musique, kilt or trec-run.")],
    out: opt.WrittenTo = None,
    dataset: Annotated[
        Path | None, opt.option(help="The dataset of the run: gives the order and, for musique, the paragraph numbers.")
    ] = None,
    form: opt.DatasetFormat = None,
) -> None:
    """Write a run's predictions for a benchmark's scorer."""
    from polyhop.cli.data import run_predictions

    run_predictions(run, to, out, dataset, form)
