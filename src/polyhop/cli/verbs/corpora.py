"""Corpora: searched, and built into index folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polyhop.cli import options as opt

app = typer.Typer()
index_app = typer.Typer(help="Build an index folder of a corpus, or look into one.", no_args_is_help=True)
app.add_typer(index_app, name="index")


@app.command()
def search(
    index: Annotated[Path, typer.Argument(help="An index folder, or any corpus.")],
    query: Annotated[str, typer.Argument(help="What to look for.")],
    k: Annotated[int, opt.option("-k", min=1, help="How many passages.")] = 5,
    retriever: opt.Retriever = "bm25",
    rerank: opt.Rerank = None,
    lm: opt.Lm = "pocket",
    links: Annotated[bool, opt.option("--links", help="Show what each passage links to.")] = False,
    as_json: opt.Json = False,
) -> None:
    """Search a corpus."""
    from polyhop.cli.corpora import run_search

    run_search(index, query, k, {"retriever": retriever, "rerank": rerank, "lm": lm}, links, as_json)


@index_app.command("build")
def index_build(
    corpus: Annotated[Path, typer.Argument(help=opt.CORPUS_HELP)],
    out: Annotated[Path, opt.option(help="The index folder to write.")],
    stem: Annotated[bool, opt.option(help="Stem English words.")] = True,
    keep_stop_words: Annotated[bool, opt.option("--keep-stop-words", help="Index stop words too.")] = False,
    links: Annotated[
        str, opt.option(help="titles (the corpus' hyperlinks, else title mentions), own or none.")
    ] = "titles",
    dense: Annotated[
        str | None,
        opt.option(help="Encode it too, for the retriever dense:NAME; after a stop the same command goes on."),
    ] = None,
    overwrite: Annotated[bool, opt.option("--overwrite", help="Replace an index that is there.")] = False,
    skip_bad: opt.SkipBad = False,
    as_json: opt.Json = False,
) -> None:
    """Build an index folder of a corpus."""
    from polyhop.cli.corpora import run_build

    run_build(corpus, out, stem, keep_stop_words, links, dense, overwrite, skip_bad, as_json)


@index_app.command("info")
def index_info(
    index: Annotated[Path, typer.Argument(help="An index folder.")],
    as_json: opt.Json = False,
) -> None:
    """Say what an index folder holds."""
    from polyhop.cli.corpora import run_info

    run_info(index, as_json)
