"""``polyhop index`` and ``polyhop search``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.text import Text

from polyhop.cli import show as draw
from polyhop.cli.ask import say
from polyhop.cli.progress import Watched
from polyhop.data.corpora import INDEX_MANIFEST, Corpus, open_corpus
from polyhop.errors import UnknownName
from polyhop.pipeline import Pipeline
from polyhop.retrieval.base import links_of
from polyhop.retrieval.bm25 import Stemmer
from polyhop.retrieval.dense import Dense
from polyhop.retrieval.encoders import open_encoder
from polyhop.retrieval.index import Index, build_index, open_index
from polyhop.retrieval.links import LinkMode
from polyhop.retrieval.vectors import encodings


def run_build(
    corpus: Path,
    out: Path,
    stem: bool,
    keep_stop_words: bool,
    links: str,
    dense: str | None,
    overwrite: bool,
    skip_bad: bool,
    as_json: bool,
) -> None:
    """Build an index folder, with progress; ``dense``: an encoder, whose vectors it gets too."""
    opened, mode = open_corpus(corpus, skip_bad=skip_bad), _link_mode(links)
    stemmer: Stemmer = "english" if stem else None
    encoder = open_encoder(dense) if dense else None  # first, so that what cannot be opened is told before the work
    index = _standing(opened, out, stemmer, not keep_stop_words, mode) if dense and not overwrite else None
    if index is None:
        with Watched("passages") as progress:
            index = build_index(
                opened,
                out,
                stemmer=stemmer,
                stop_words=not keep_stop_words,
                links=mode,
                overwrite=overwrite,
                progress=progress.update,
            )
    if encoder:
        Dense(index, encoder)
    _say_index(index, as_json)
    if opened.skipped:
        say(f"{opened.skipped} malformed lines were skipped")


def run_info(index: Path, as_json: bool) -> None:
    """Say what an index folder holds."""
    _say_index(open_index(index), as_json)


def run_search(index: Path, query: str, k: int, arguments: Mapping[str, Any], links: bool, as_json: bool) -> None:
    """Print the best passages of a corpus for a query; ``arguments`` are a ``Pipeline``'s."""
    with Pipeline(index, **arguments) as pipeline:
        found = pipeline.search(query, k)
        linked = {passage.id: links_of(pipeline.engine.retriever, passage) if links else [] for passage in found}
    if as_json:
        draw.print_json(
            [{**p.to_dict(), **({"links": [to.id for to in linked[p.id]]} if links else {})} for p in found]
        )
        return
    to = draw.console()
    for rank, passage in enumerate(found, 1):
        to.print(Text.assemble((f"{rank}. {draw.clean(passage.title)}", "bold"), (f"  {passage.id}", "dim")))
        to.print(Text("   " + draw.clean(passage.text, 300)))
        if linked[passage.id]:
            to.print(Text("   → " + ", ".join(draw.clean(p.title) for p in linked[passage.id]), style="blue"))
    if not found:
        say("nothing found")


def _standing(corpus: Corpus, out: Path, stemmer: Stemmer, stop_words: bool, links: LinkMode) -> Index | None:
    """The index that stands at ``out``, where it is of this corpus and these settings: its encoding goes on."""
    if not (out / INDEX_MANIFEST).is_file():
        return None
    index = open_index(out, corpus=corpus)
    same = (index.stemmer, index.stop_words, bool(index.link_mode)) == (stemmer, stop_words, bool(links))
    return index if same else None


def _link_mode(name: str) -> LinkMode:
    modes: dict[str, LinkMode] = {"titles": "titles", "own": "own", "none": False}
    if name not in modes:
        raise UnknownName("kind of links", name, modes)
    return modes[name]


def _say_index(index: Index, as_json: bool) -> None:
    encoded = encodings(index)
    if as_json:
        draw.print_json({**index.facts, "dense": encoded})
        return
    for name in ("name", "passages", "mentions", "links", "stemmer", "stop_words", "fingerprint"):
        draw.console().print(Text(f"{name}: {index.facts[name]}"))
    for facts in encoded:
        draw.console().print(Text(f"vectors: {facts['passages']} of {facts['size']} numbers by {facts['encoder']}"))
