"""An index: a corpus made searchable, in one folder of memory-mapped files.

It holds the passages, a BM25 index over them, and their links. Retrievers add other data on first use. It changes from
one complete state to the next (``sealed_folder.py``), so that a killed build or update leaves the old state.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from types import NoneType
from typing import Any

from polyhop.common.files import cache_folder, locked
from polyhop.data.corpus import Corpus
from polyhop.data.index_folder import INDEX_MANIFEST
from polyhop.errors import IndexFolderError, UnknownName
from polyhop.retrieval.analysis import Analysis
from polyhop.retrieval.inverted_index import BM25_FOLDER, BM25Writer
from polyhop.retrieval.links import LINKING_VERSION, LinkMode, Links, build_links
from polyhop.retrieval.sealed_folder import OTHER_CACHE, commit_state, ensure_dir, first_state, read_state, remove
from polyhop.retrieval.sharding import MapShards
from polyhop.retrieval.store import PassageStore, StoreWriter
from polyhop.types import Passage

KIND, VERSION = "index", 2

_FACTS: Mapping[str, tuple[type, ...]] = {
    "name": (str,),
    "fingerprint": (str,),
    "language": (str, NoneType),
    "stemmer": (str, NoneType),
    "stop_words": (bool,),
    "links": (str, bool),
}
"""Entries that the manifest of an index must have. They are checked, because it may come from a stranger."""


class Index:
    """An opened index folder. Opening reads its manifest and maps its files; safe across threads.

    It does not change if the folder is updated later. Its length is the number of its passages.

    Attributes:
        state: the folder of its state, with the data derived from it.
        name: the name of its corpus.
        fingerprint: the fingerprint of the corpus it was built from.
        analysis: the analysis of its texts.
        link_mode: the source of its links.
        link_tables: its links; None without.
        facts: its manifest.
        passages: every passage, by ordinal or id.
        rows: the number of ordinals, with those of removed passages.
        let_go: a function that lets writers remove its state once it is replaced, even before this object is freed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state, self.facts, holding = read_state(folder, kind=KIND, version=VERSION)
        self.let_go = weakref.finalize(self, holding.close)
        for name, kinds in _FACTS.items():
            if not isinstance(self.facts.get(name), kinds):
                message = f"its {INDEX_MANIFEST} gives no usable {name!r}; build the index again"
                raise IndexFolderError(message, folder)
        self.name: str = self.facts["name"]
        self.fingerprint: str = self.facts["fingerprint"]
        self.analysis = Analysis(
            self.facts.get("language") or "english", self.facts["stemmer"] is not None, self.facts["stop_words"]
        )
        self.link_mode: LinkMode = self.facts["links"]
        self.passages = PassageStore(self.state)
        self.rows = self.passages.rows
        self.link_tables = Links(self.state) if self.link_mode else None

    def __len__(self) -> int:
        return len(self.passages)

    def __repr__(self) -> str:
        return f"Index({str(self.folder)!r}, passages={len(self)})"

    def links(self, passage: Passage) -> list[Passage]:
        """Return the passages this one links to; [] for an unknown passage, and without links."""
        ordinal = self.passages.ordinal(passage.id) if self.link_tables else None
        if self.link_tables is None or ordinal is None:
            return []
        try:
            return [self.passages.get(target) for target in self.link_tables.of(ordinal)]
        except IndexError:
            raise IndexFolderError("its links are damaged; build the index again", self.folder) from None

    def document(self, passage: Passage) -> list[Passage]:
        """Return the passages of the document of this one, in order: those around it with its source or, if it has no
        source, its title; [] for an unknown passage."""
        ordinal, document = self.passages.ordinal(passage.id), _document_of(passage)
        if ordinal is None:
            return []

        def beside(ordinals: Iterable[int]) -> Iterator[Passage]:
            live = map(self.passages.get, filter(self.passages.is_live, ordinals))
            return takewhile(lambda other: document and _document_of(other) == document, live)

        before, after = beside(range(ordinal - 1, -1, -1)), beside(range(ordinal + 1, self.rows))
        return [*list(before)[::-1], self.passages.get(ordinal), *after]


def _document_of(passage: Passage) -> tuple[str, str] | None:
    """Return a key that the passages of one document share; None for a passage with neither source nor title."""
    source = passage.metadata.get("source")
    if isinstance(source, str) and source:
        return "source", source
    return ("title", passage.title) if passage.title else None


def build_index(
    corpus: Corpus,
    folder: str | Path,
    *,
    stem: bool = True,
    stop_words: bool = True,
    links: LinkMode = "titles",
    overwrite: bool = False,
    map_shards: MapShards = map,
) -> Index:
    """Index a corpus into ``folder``, in its language, and report progress (``common/progress.py``).

    Memory grows with the ids and, with ``links``, the titles: 180 MB plus about 265 bytes per passage.

    Args:
        stem: stem words, in texts and queries; it has no effect in a language without blanks.
        stop_words: drop stop words, from texts and queries.
        links: ``titles`` (the corpus' own hyperlinks or, if it has none, the titles its texts mention), ``own``, or
            False.
        overwrite: replace an existing index; anything else is never touched.
        map_shards: finds links in shards of passages, here or on a cluster (``sharding.py``).

    Raises:
        DataError: the corpus is empty, malformed or repeats an id.
        IndexFolderError: something exists at ``folder``.
        UnknownName: there is no analysis for the language of the corpus.
    """
    analysis = _analysis(corpus, stem, stop_words)
    _check_links(links)
    folder = Path(folder)
    with first_state(folder, kind=KIND, overwrite=overwrite) as state:
        fingerprint = corpus.fingerprint
        facts = fill(state, corpus.unique(), analysis, links, map_shards)
        finish(state, facts | {"name": corpus.name, "fingerprint": fingerprint, **corpus.facts})
    return open_index(folder)


def fill(
    state: Path,
    passages: Iterable[Passage],
    analysis: Analysis,
    links: LinkMode,
    map_shards: MapShards = map,
) -> dict[str, Any]:
    """Write the files of an index of distinct passages; return its facts for the manifest."""
    count = linking = 0
    with StoreWriter(state) as store, BM25Writer(state / BM25_FOLDER, analysis) as bm25:
        for passage in passages:
            bm25.add(store.add(passage), passage)
            linking += bool(passage.links)
            count += 1
    mode = link_mode(links, linking)
    mentions = (
        build_links(PassageStore(state), state, analysis, own=mode == "own", map_shards=map_shards) if mode else 0
    )
    return {
        "passages": count,
        "mentions": mentions,
        "links": mode,
        "links_asked": links,
        "linking": linking,
        "language": analysis.language,
        "stemmer": analysis.stemmer,
        "stop_words": analysis.stop_words,
    }


def link_mode(asked: LinkMode, linking: int) -> LinkMode:
    """Return the source of links, given the number of passages with their own links."""
    return "own" if asked and linking else asked


def finish(state: Path, facts: dict[str, Any]) -> None:
    """Make a filled state the current one."""
    from importlib.metadata import version

    libraries = {"tantivy": version("tantivy"), "numpy": version("numpy")}
    commit_state(state, kind=KIND, version=VERSION, facts=facts | {"libraries": libraries})


def open_index(folder: str | Path, *, corpus: Corpus | None = None) -> Index:
    """Open and check an index folder; with ``corpus``, check that it was built from the current content of that corpus.

    Raises:
        IndexFolderError: it is missing, partial, damaged, of another format version, or of another corpus or language.
    """
    index = Index(Path(folder))
    if corpus is not None and corpus.language not in (None, index.analysis.language):
        message = f"it was built in {index.analysis.language}, not {corpus.language}; build another"
        raise IndexFolderError(message, index.folder)
    if corpus is not None and not corpus.is_index and index.fingerprint != corpus.fingerprint:
        message = f"it was built from {index.name!r} in another state than {corpus.path or corpus.name}; build it again"
        raise IndexFolderError(message, index.folder)
    if corpus is not None and not corpus.is_index:
        corpus.restore(index.facts)
    return index


def index_for(
    corpus: Corpus,
    *,
    stem: bool = True,
    stop_words: bool = True,
    links: LinkMode = "titles",
) -> Index:
    """Open the index of a corpus: the corpus itself if it is an index folder, else one in the cache, built on first
    use.

    A second process with the same corpus waits for the first. A damaged index in the cache is built again.

    Raises:
        DataError: as ``build_index`` and ``open_index`` do.
    """
    _check_links(links)
    analysis = _analysis(corpus, stem, stop_words)
    if corpus.is_index and corpus.path is not None:
        return open_index(corpus.path, corpus=corpus)
    settings = repr((VERSION, LINKING_VERSION, corpus.fingerprint, corpus.skip_bad, *analysis.settings, links))
    folder = cache_folder() / "indexes" / hashlib.sha256(settings.encode()).hexdigest()[:32]
    ensure_dir(folder.parent, OTHER_CACHE)
    with locked(folder.with_suffix(".lock")):
        if folder.exists():
            try:
                return open_index(folder, corpus=corpus)
            except IndexFolderError:
                remove(folder)
        return build_index(corpus, folder, stem=stem, stop_words=stop_words, links=links)


def _analysis(corpus: Corpus, stem: bool, stop_words: bool) -> Analysis:
    return Analysis(corpus.language or "english", stem, stop_words)


def _check_links(links: object) -> None:
    if links not in ("titles", "own", False):
        raise UnknownName("kind of links", str(links), ["titles", "own"], "Or False, for none.")
