"""Search corpora; build and update index folders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polyhop.cli import options as opt
from polyhop.errors import UsageError

app = typer.Typer()
index_app = typer.Typer(help="Build, update or inspect an index folder.", no_args_is_help=True)
app.add_typer(index_app, name="index")


@app.command()
def search(
    index: Annotated[
        str, typer.Argument(help="An index folder, any corpus, or a retriever with its own corpus, such as web:brave.")
    ],
    query: Annotated[str, typer.Argument(help="The search query.")],
    k: Annotated[int, opt.option("-k", min=1, help="Number of passages.")] = 5,
    retriever: opt.MethodRetriever = None,
    rerank: opt.Rerank = None,
    lm: opt.Lm = "pocket",
    lm_option: opt.LmOption = None,
    max_tokens_per_call: opt.MaxTokensPerCall = None,
    links: Annotated[bool, opt.option("--links", help="Show the links of each passage.")] = False,
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
        raise UsageError(f"{index} is already a retriever; omit --retriever {retriever}, or name a corpus")
    asking = {"lm": lm, **opt.lm_arguments(locals())}
    run_search(corpus, query, k, {"retriever": retriever, "rerank": rerank, **asking}, links, as_json)


@index_app.command("build")
def index_build(
    corpus: Annotated[Path, typer.Argument(help=opt.CORPUS_HELP)],
    out: Annotated[Path, opt.option(help="The index folder to write.")],
    language: opt.Language = None,
    stem: Annotated[bool, opt.option(help="Stem words, by the language of the corpus.")] = True,
    keep_stop_words: Annotated[bool, opt.option("--keep-stop-words", help="Index stop words too.")] = False,
    links: Annotated[
        str, opt.option(help="titles (the corpus' hyperlinks, else title mentions), own or none.")
    ] = "titles",
    dense: Annotated[
        str | None,
        opt.option(help="Also encode it, for the retriever dense:NAME; after an interrupt the same command resumes."),
    ] = None,
    dense_index: Annotated[
        str,
        opt.option(help="Index of the nearest vectors: auto (by size), exact or ivf-rabitq."),
    ] = "auto",
    overwrite: Annotated[bool, opt.option("--overwrite", help="Replace an existing index.")] = False,
    engine: Annotated[str | None, opt.option(help="ray: find links and encode passages on a Ray cluster.")] = None,
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
    dense: Annotated[str | None, opt.option(help="Also load vectors of this encoder.")] = None,
    overwrite: Annotated[bool, opt.option("--overwrite", help="Replace another corpus that is loaded there.")] = False,
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
    replace: Annotated[bool, opt.option("--replace", help="Replace passages with the same ids.")] = False,
    skip_bad: opt.SkipBad = False,
    as_json: opt.Json = False,
) -> None:
    """Add passages to an index without rebuilding it."""
    from polyhop.cli.updates import run_add

    run_add(index, opt.corpus_of(corpus, None, skip_bad), replace, as_json)


@index_app.command("remove")
def index_remove(
    index: Annotated[Path, typer.Argument(help="An index folder.")],
    ids: Annotated[list[str] | None, typer.Argument(help="The ids of the passages.")] = None,
    ids_file: Annotated[
        Path | None, opt.option("--ids", help="A file of ids, one per line; - for standard input.")
    ] = None,
    missing_ok: Annotated[bool, opt.option("--missing-ok", help="Ignore ids that do not exist.")] = False,
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
    """Read vectors from DPR's pickles, safely."""
    from polyhop.cli.corpora import run_vectors

    run_vectors(index, files, out)


@index_app.command("info")
def index_info(
    index: Annotated[Path, typer.Argument(help="An index folder.")],
    as_json: opt.Json = False,
) -> None:
    """Show the contents of an index folder."""
    from polyhop.cli.corpora import run_info

    run_info(index, as_json)
