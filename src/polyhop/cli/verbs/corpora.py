"""Corpora: searched, and built into index folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polyhop.cli import options as opt
from polyhop.errors import UsageError

app = typer.Typer()
index_app = typer.Typer(help="Build an index folder of a corpus, or look into one.", no_args_is_help=True)
app.add_typer(index_app, name="index")


@app.command()
def search(
    index: Annotated[
        str, typer.Argument(help="An index folder, any corpus, or a retriever that brings its own, as web:brave.")
    ],
    query: Annotated[str, typer.Argument(help="What to look for.")],
    k: Annotated[int, opt.option("-k", min=1, help="How many passages.")] = 5,
    retriever: opt.MethodRetriever = None,
    rerank: opt.Rerank = None,
    lm: opt.Lm = "pocket",
    lm_option: opt.LmOption = None,
    max_tokens_per_call: opt.MaxTokensPerCall = None,
    links: Annotated[bool, opt.option("--links", help="Show what each passage links to.")] = False,
    language: opt.Language = None,
    skip_bad: opt.SkipBad = False,
    as_json: opt.Json = False,
) -> None:
    """Search a corpus."""
    from polyhop.cli.corpora import run_search
    from polyhop.retrieval import brings_corpus

    corpus = None
    if not brings_corpus(index):
        corpus = opt.corpus_of(Path(index), language, skip_bad)
    elif retriever is None:
        retriever = index
    else:
        raise UsageError(f"{index} is a retriever already; leave out --retriever {retriever}, or name a corpus")
    asking = {"lm": lm, **opt.lm_arguments(locals())}
    run_search(corpus, query, k, {"retriever": retriever, "rerank": rerank, **asking}, links, as_json)


@index_app.command("build")
def index_build(
    corpus: Annotated[Path, typer.Argument(help=opt.CORPUS_HELP)],
    out: Annotated[Path, opt.option(help="The index folder to write.")],
    language: opt.Language = None,
    stem: Annotated[bool, opt.option(help="Stem words, by the corpus' language.")] = True,
    keep_stop_words: Annotated[bool, opt.option("--keep-stop-words", help="Index stop words too.")] = False,
    links: Annotated[
        str, opt.option(help="titles (the corpus' hyperlinks, else title mentions), own or none.")
    ] = "titles",
    dense: Annotated[
        str | None,
        opt.option(help="Encode it too, for the retriever dense:NAME; after a stop the same command goes on."),
    ] = None,
    dense_index: Annotated[
        str,
        opt.option(help="How the nearest vectors are found: auto (by size), exact or ivf-rabitq."),
    ] = "auto",
    overwrite: Annotated[bool, opt.option("--overwrite", help="Replace an index that is there.")] = False,
    engine: Annotated[
        str | None, opt.option(help="ray: links are found and passages encoded all over a Ray cluster.")
    ] = None,
    address: opt.Address = None,
    workers: opt.Workers = None,
    skip_bad: opt.SkipBad = False,
    as_json: opt.Json = False,
) -> None:
    """Build an index folder of a corpus."""
    from polyhop.cli.corpora import run_build

    opened = opt.corpus_of(corpus, language, skip_bad)
    elsewhere = opt.engine_of(engine, address, workers)
    run_build(opened, out, stem, keep_stop_words, links, dense, dense_index, overwrite, as_json, elsewhere)


@index_app.command("load")
def index_load(
    corpus: Annotated[Path, typer.Argument(help="An index folder, or any corpus.")],
    engine: Annotated[
        str,
        typer.Argument(
            help="elastic:URL/INDEX, opensearch:URL/INDEX, qdrant:URL/COLLECTION, qdrant:FOLDER or "
            "postgres://HOST/DATABASE#TABLE."
        ),
    ],
    language: opt.Language = None,
    dense: Annotated[str | None, opt.option(help="Load vectors by this encoder too.")] = None,
    overwrite: Annotated[bool, opt.option("--overwrite", help="Replace another corpus that was loaded there.")] = False,
    skip_bad: opt.SkipBad = False,
    as_json: opt.Json = False,
) -> None:
    """Load a corpus into a search engine."""
    from polyhop.cli.loading import run_load

    run_load(opt.corpus_of(corpus, language, skip_bad), engine, dense, overwrite, as_json)


@index_app.command("add")
def index_add(
    index: Annotated[Path, typer.Argument(help="An index folder.")],
    corpus: Annotated[Path, typer.Argument(help=opt.CORPUS_HELP)],
    replace: Annotated[bool, opt.option("--replace", help="Replace passages of the same ids by these.")] = False,
    skip_bad: opt.SkipBad = False,
    as_json: opt.Json = False,
) -> None:
    """Add passages to an index, without a rebuild."""
    from polyhop.cli.updates import run_add

    run_add(index, opt.corpus_of(corpus, None, skip_bad), replace, as_json)


@index_app.command("remove")
def index_remove(
    index: Annotated[Path, typer.Argument(help="An index folder.")],
    ids: Annotated[list[str] | None, typer.Argument(help="The ids of the passages.")] = None,
    ids_file: Annotated[
        Path | None, opt.option("--ids", help="A file of ids, one a line; - for standard input.")
    ] = None,
    missing_ok: Annotated[bool, opt.option("--missing-ok", help="Pass over ids that are not there.")] = False,
    as_json: opt.Json = False,
) -> None:
    """Remove passages from an index."""
    from polyhop.cli.updates import run_remove

    run_remove(index, ids or [], ids_file, missing_ok, as_json)


@index_app.command("vectors")
def index_vectors(
    index: Annotated[Path, typer.Argument(help="An index folder.")],
    files: Annotated[list[Path], typer.Argument(help="Pickles of ids and vectors.")],
    out: Annotated[Path, opt.option(help="The .npy file to write, for dense:vectors:FILE@ENCODER.")],
) -> None:
    """Take vectors out of DPR's pickles, safely."""
    from polyhop.cli.corpora import run_vectors

    run_vectors(index, files, out)


@index_app.command("info")
def index_info(
    index: Annotated[Path, typer.Argument(help="An index folder.")],
    as_json: opt.Json = False,
) -> None:
    """Say what an index folder holds."""
    from polyhop.cli.corpora import run_info

    run_info(index, as_json)
