"""``polyhop search`` and ``polyhop index``."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import replace as with_values
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polyhop.cli import options as opt
from polyhop.cli.printing import say, say_read
from polyhop.common.text import counted
from polyhop.engine.options import Group, PipelineOptions
from polyhop.errors import DataError, UnknownName, UsageError

if TYPE_CHECKING:
    from polyhop.data.corpus import Corpus
    from polyhop.retrieval.index import Index
    from polyhop.retrieval.links import LinkMode
    from polyhop.retrieval.updating import Updated

app = opt.new_app()
index_app = opt.new_app(help="Build, update or inspect an index folder.", no_args_is_help=True)
app.add_typer(index_app, name="index")


@app.command()
@opt.takes_options("retriever", "rerank", "lm", "lm_option", "max_tokens_per_call", "reasoning_tokens")
def search(
    index: Annotated[
        str, typer.Argument(help="An index folder, any corpus, or a retriever with its own corpus, such as web:brave.")
    ],
    query: Annotated[str, typer.Argument(help="The search query.")],
    k: Annotated[int, opt.option("-k", min=1, help="Number of passages.")] = 5,
    *,
    options: PipelineOptions,
    links: Annotated[bool, opt.option("--links", help="Show the links of each passage.")] = False,
    language: opt.Language = None,
    skip_bad: opt.SkipBad = False,
    as_json: opt.Json = False,
) -> None:
    """Search a corpus."""
    from rich.text import Text

    from polyhop.answer import location_of
    from polyhop.cli import show as draw
    from polyhop.pipeline import Pipeline
    from polyhop.retrieval import brings_corpus

    opened = None
    if not brings_corpus(index):
        opened = opt.corpus_of(Path(index), language, skip_bad)
    elif options.retriever is None:
        options = with_values(options, retriever=index)
    else:
        raise UsageError(f"{index} is already a retriever; omit --retriever {options.retriever}, or name a corpus")
    with Pipeline(opened, **options.arguments()) as pipeline:
        say_read(opened)
        found = pipeline.search(query, k)
        retriever = pipeline.engine.retriever
        linked = {passage.id: retriever.links(passage) if links and retriever else [] for passage in found}
    if as_json:
        draw.print_json(
            [{**p.to_dict(), **({"links": [to.id for to in linked[p.id]]} if links else {})} for p in found]
        )
        return
    to = draw.console()
    for rank, passage in enumerate(found, 1):
        where = location_of(passage) or passage.id
        head = Text.assemble((f"{rank}. {draw.clean(passage.title)}", "bold"), (f"  {draw.clean(where)}", "dim"))
        below = [Text(draw.clean(passage.text, 300))]
        if linked[passage.id]:
            below.append(Text("→ " + ", ".join(draw.clean(p.title) for p in linked[passage.id]), style="blue"))
        draw.print_prose(draw.Entry(head, below, indent=3), to)
    if not found:
        say("nothing found")


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
    fields: opt.CorpusFields = None,
    as_json: opt.Json = False,
) -> None:
    """Build an index folder of a corpus."""
    from polyhop.retrieval.approximate import AUTO, check_kind
    from polyhop.retrieval.dense import Dense
    from polyhop.retrieval.encoders import open_encoder
    from polyhop.retrieval.index import build_index
    from polyhop.retrieval.sharding import cluster_map, encode_by_name

    opened = opt.corpus_of(corpus, language, skip_bad, fields)
    executor = opt.engine_of(engine, address, workers)
    mode, stop_words = _link_mode(links), not keep_stop_words
    if dense_index != AUTO and not dense:
        raise UsageError(f"--dense-index {dense_index}: requires an encoder; name one (--dense)")
    check_kind(dense_index)
    if executor and not (mode or dense):
        raise UsageError("--engine ray: without links there is nothing to distribute; name an encoder (--dense)")
    encoder = open_encoder(dense) if dense else None  # first, so that an error comes before the work
    built = _resumable_index(opened, out, stem, stop_words, mode) if dense and not overwrite else None
    with cluster_map(executor.address, executor.workers) if executor else nullcontext(map) as map_shards:
        if built is None:
            built = build_index(
                opened,
                out,
                stem=stem,
                stop_words=stop_words,
                links=mode,
                overwrite=overwrite,
                map_shards=map_shards,
            )
        if encoder and dense:
            encoding = encode_by_name(dense, map_shards) if executor else map_shards
            say(f"dense index, {Dense(built, encoder, kind=dense_index, map_shards=encoding).how}")
    _say_index(built, as_json)
    say_read(opened)


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
    from polyhop.cli.show import print_json
    from polyhop.retrieval.encoders import open_encoder
    from polyhop.retrieval.engines import load, open_store, parse_address
    from polyhop.retrieval.index import index_for

    opened = opt.corpus_of(corpus, language, skip_bad)
    address = parse_address(engine)
    store = open_store(address)  # first, so that an error comes before the work
    try:
        encoder = open_encoder(wanted) if (wanted := dense or address.dense) else None
        index = index_for(opened)
        say_read(opened)
        outcome = load(index, store, encoder, overwrite=overwrite)
    finally:
        store.close()
    if as_json:
        print_json({"address": address.shown, "outcome": outcome, **store.manifest.to_dict()})
        return
    say(f"{outcome}: {store.manifest} at {address.shown}")


@index_app.command("add")
def index_add(
    index: Annotated[Path, typer.Argument(help="An index folder.")],
    corpus: Annotated[Path, typer.Argument(help=opt.CORPUS_HELP)],
    replace: Annotated[bool, opt.option("--replace", help="Replace passages with the same ids.")] = False,
    skip_bad: opt.SkipBad = False,
    fields: opt.CorpusFields = None,
    as_json: opt.Json = False,
) -> None:
    """Add passages to an index without rebuilding it."""
    from polyhop.retrieval.updating import add_passages

    opened = opt.corpus_of(corpus, None, skip_bad, fields)
    done = add_passages(index, opened, replace=replace)
    _say_updated(done, as_json)
    say_read(opened)


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
    from polyhop.retrieval.updating import remove_passages

    if ids_file is None and not ids:
        raise UsageError("which passages? name their ids, or a file of them (--ids)")
    every = [*(ids or []), *(_ids_in(ids_file) if ids_file else [])]
    _say_updated(remove_passages(index, every, missing_ok=missing_ok), as_json)


@index_app.command("vectors")
def index_vectors(
    index: Annotated[Path, typer.Argument(help="An index folder.")],
    files: Annotated[list[Path], typer.Argument(help="Pickles of ids and vectors.")],
    out: Annotated[Path, opt.option(help="The .npy file to write, for dense:vectors:FILE@ENCODER.")],
) -> None:
    """Read vectors from DPR's pickles, safely."""
    from polyhop.retrieval.encoders.pickled import take_vectors
    from polyhop.retrieval.index import open_index

    opened = open_index(index)
    size = take_vectors(opened, files, out)
    what = f"{counted(len(opened), 'vectors')} of {counted(size, 'numbers')}"
    say(f"{out}: {what}, for --retriever dense:vectors:{out}@ENCODER")


@index_app.command("triplets")
@opt.takes_options("lm", "lm_option", "max_tokens_per_call", "reasoning_tokens", Group.PROMPTS, Group.RATES)
def index_triplets(
    corpus: Annotated[Path, typer.Argument(help="An index folder, or any corpus.")],
    out: Annotated[Path, opt.option(help="The file to write, or to continue, for hipporag:FILE and triplets:FILE.")],
    *,
    options: PipelineOptions,
    batch: Annotated[
        Path | None,
        opt.option(metavar="DIR", help="Write model calls to batch files in this folder, and read their results."),
    ] = None,
    limit: Annotated[int | None, opt.option(min=1, help="Only the first N passages that the file lacks.")] = None,
    concurrency: Annotated[int, opt.option(min=1, help="Number of passages read at the same time.")] = 16,
    language: opt.Language = None,
    skip_bad: opt.SkipBad = False,
    as_json: opt.Json = False,
) -> None:
    """Extract the triplets of every passage by a language model."""
    from polyhop.cli.progress import ProgressBar
    from polyhop.cli.run import resumable, through
    from polyhop.cli.show import print_json
    from polyhop.evaluation.extraction import extract_triplets
    from polyhop.retrieval.index import index_for

    index = index_for(opt.corpus_of(corpus, language, skip_bad))
    arguments = {**options.arguments(), "out": out, "skip_bad": skip_bad}
    with resumable(out), through(batch, (), arguments) as given, ProgressBar("passages") as progress:
        del given["skip_bad"]
        done = extract_triplets(index, limit=limit, concurrency=concurrency, progress=progress.update, **given)
        for id, why in list(done.failed.items())[:3]:
            say(f"{id}: {why}")
    if as_json:
        print_json({name: getattr(done, name) for name in ("known", "new", "triplets", "unread", "failed")})
    else:
        held = f"{counted(done.triplets, 'triplets')} of {counted(done.known + done.new, 'passages')}"
        unread = f"; {counted(done.unread, 'replies')} could not be read" if done.unread else ""
        say(f"{out}: {held}, {done.new:,} of them new, by {counted(done.usage.calls, 'calls')}{unread}")
    if done.failed:
        say(f"{counted(len(done.failed), 'passages')} failed; the same command tries them again")
        raise typer.Exit(1)


@index_app.command("info")
def index_info(
    index: Annotated[Path, typer.Argument(help="An index folder.")],
    as_json: opt.Json = False,
) -> None:
    """Show the contents of an index folder."""
    from polyhop.retrieval.index import open_index

    _say_index(open_index(index), as_json)


def _resumable_index(corpus: Corpus, out: Path, stem: bool, stop_words: bool, links: LinkMode) -> Index | None:
    """Return the index at ``out`` if it has this corpus and these settings, so that its encoding resumes."""
    from polyhop.data.index_folder import INDEX_MANIFEST
    from polyhop.retrieval.analysis import Analysis
    from polyhop.retrieval.index import open_index

    if not (out / INDEX_MANIFEST).is_file():
        return None
    index = open_index(out, corpus=corpus)
    analysis = Analysis(corpus.language or "english", stem, stop_words)
    same = (index.analysis.settings, index.facts["links_asked"]) == (analysis.settings, links)
    return index if same else None


def _link_mode(name: str) -> LinkMode:
    modes: dict[str, LinkMode] = {"titles": "titles", "own": "own", "none": False}
    if name not in modes:
        raise UnknownName("kind of links", name, modes)
    return modes[name]


def _say_index(index: Index, as_json: bool) -> None:
    from rich.text import Text

    from polyhop.cli import show as draw
    from polyhop.retrieval.approximate import dense_indexes, in_words
    from polyhop.retrieval.vectors import encodings

    encoded, facts = encodings(index), {**index.facts, "language": index.analysis.language}
    found_by = dense_indexes(index)
    if as_json:
        draw.print_json({**facts, "dense": encoded, "dense_indexes": found_by})
        return
    for name in ("name", "passages", "mentions", "links", "language", "stemmer", "stop_words", "fingerprint"):
        draw.console().print(Text(f"{name}: {facts[name]}"))
    for vectors in encoded:
        count = vectors.get("tokens", vectors["passages"])
        line = f"vectors: {count} of {counted(vectors['size'], 'numbers')} by {vectors['encoder']}"
        draw.console().print(Text(line))
    for row in found_by:
        draw.console().print(Text(f"dense index of {row['encoder']}, {in_words(row)}"))


def _ids_in(file: Path) -> list[str]:
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
        return [id for line in data.decode("utf-8-sig").split("\n") if (id := line.rstrip("\r"))]
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", file) from None
    except UnicodeDecodeError as error:
        raise DataError(f"is not UTF-8 text: {error.reason} at byte {error.start}", file) from None


def _say_updated(done: Updated, as_json: bool) -> None:
    from rich.text import Text

    from polyhop.cli import show as draw

    counts = {name: getattr(done, name) for name in ("added", "replaced", "standing", "removed")}
    passages = len(done.index)
    if as_json:
        draw.print_json({**counts, "passages": passages, "fingerprint": done.index.fingerprint})
        return
    words = {"standing": "unchanged"}
    parts = [f"{count:,} {words.get(name, name)}" for name, count in counts.items() if count]
    draw.console().print(Text(f"{', '.join(parts) or 'nothing to do'}; the index has {counted(passages, 'passages')}"))
