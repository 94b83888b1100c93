"""``polyhop index`` and ``polyhop search``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from rich.text import Text

from polyhop.answer import location_of
from polyhop.cli import show as draw
from polyhop.cli.ask import say_left_out
from polyhop.cli.printing import say
from polyhop.cli.progress import ProgressBar
from polyhop.common.text import counted
from polyhop.data.corpora import Corpus
from polyhop.data.index_folder import INDEX_MANIFEST
from polyhop.errors import UnknownName, UsageError
from polyhop.evaluation.ray import Ray
from polyhop.pipeline import Pipeline
from polyhop.retrieval.analysis import Analysis
from polyhop.retrieval.approximate import AUTO, check_kind, dense_indexes, in_words
from polyhop.retrieval.dense import Dense
from polyhop.retrieval.encoders import open_encoder
from polyhop.retrieval.encoders.pickled import take_vectors
from polyhop.retrieval.index import Index, build_index, open_index
from polyhop.retrieval.links import LinkMode
from polyhop.retrieval.sharding import cluster_map, encode_by_name
from polyhop.retrieval.vectors import encodings


def run_build(
    corpus: Corpus,
    out: Path,
    stem: bool,
    keep_stop_words: bool,
    links: str,
    dense: str | None,
    dense_index: str,
    overwrite: bool,
    as_json: bool,
    engine: Ray | None = None,
) -> None:
    """Build an index folder, with progress; ``dense``: an encoder, whose vectors it gets too, and a dense index.
    ``engine``: where links are found and passages encoded, if not here."""
    mode, stop_words = _link_mode(links), not keep_stop_words
    if dense_index != AUTO and not dense:
        raise UsageError(f"--dense-index {dense_index}: is of an encoder's vectors; name one (--dense)")
    check_kind(dense_index)
    if engine and not (mode or dense):
        raise UsageError("--engine ray: without links there is nothing to spread; name an encoder (--dense)")
    encoder = open_encoder(dense) if dense else None  # first, so that an error comes before the work
    index = _resumable_index(corpus, out, stem, stop_words, mode) if dense and not overwrite else None
    with cluster_map(engine.address, engine.workers) if engine else nullcontext(map) as map_shards:
        if index is None:
            with ProgressBar("passages") as progress:
                index = build_index(
                    corpus,
                    out,
                    stem=stem,
                    stop_words=stop_words,
                    links=mode,
                    overwrite=overwrite,
                    progress=progress.update,
                    map_shards=map_shards,
                )
        if encoder and dense:
            encoding = encode_by_name(dense, map_shards) if engine else map_shards
            say(f"dense index, {Dense(index, encoder, kind=dense_index, map_shards=encoding).how}")
    _say_index(index, as_json)
    if corpus.documents:
        say(corpus.summary)
    else:
        say_left_out(corpus)


def run_vectors(index: Path, files: Sequence[Path], out: Path) -> None:
    """Write the vectors of pickles as one file, in the order of an index."""
    opened = open_index(index)
    size = take_vectors(opened, files, out)
    what = f"{counted(len(opened), 'vectors')} of {counted(size, 'numbers')}"
    say(f"{out}: {what}, for --retriever dense:vectors:{out}@ENCODER")


def run_info(index: Path, as_json: bool) -> None:
    """Say what an index folder holds."""
    _say_index(open_index(index), as_json)


def run_search(
    corpus: Corpus | None, query: str, k: int, arguments: Mapping[str, Any], links: bool, as_json: bool
) -> None:
    """Print the best passages of a corpus for a query; ``arguments`` are a ``Pipeline``'s."""
    with Pipeline(corpus, **arguments) as pipeline:
        say_left_out(corpus)
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
        where = location_of(passage.metadata) or passage.id
        head = Text.assemble((f"{rank}. {draw.clean(passage.title)}", "bold"), (f"  {draw.clean(where)}", "dim"))
        below = [Text(draw.clean(passage.text, 300))]
        if linked[passage.id]:
            below.append(Text("→ " + ", ".join(draw.clean(p.title) for p in linked[passage.id]), style="blue"))
        draw.print_prose(draw.Entry(head, below, indent=3), to)
    if not found:
        say("nothing found")


def _resumable_index(corpus: Corpus, out: Path, stem: bool, stop_words: bool, links: LinkMode) -> Index | None:
    """The index that stands at ``out``, where it is of this corpus and these settings: its encoding goes on."""
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
