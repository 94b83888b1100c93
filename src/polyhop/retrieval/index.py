"""An index: a corpus made searchable, in one folder of memory-mapped files.

It holds the passages, a BM25 index over them, and their links. Retrievers add what else they need on first use. It
changes from one whole state to the next (``snapshots.py``), so a killed build or update leaves the old state.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import NoneType
from typing import Any

from polyhop.common.files import cache_folder, locked
from polyhop.data.corpora import Corpus
from polyhop.data.index_folder import INDEX_MANIFEST
from polyhop.errors import IndexFolderError, UnknownName
from polyhop.retrieval.analysis import Analysis
from polyhop.retrieval.inverted_index import BM25_FOLDER, BM25Writer
from polyhop.retrieval.links import LinkMode, Links, build_links
from polyhop.retrieval.sealed_folder import OTHER_CACHE, ensure_dir, remove
from polyhop.retrieval.sharding import MapShards
from polyhop.retrieval.snapshots import commit_state, first_state, read_state
from polyhop.retrieval.store import PassageStore, StoreWriter
from polyhop.types import Passage

KIND, VERSION = "index", 2

_REPORT_EVERY = 1000

_FACTS: Mapping[str, tuple[type, ...]] = {
    "name": (str,),
    "fingerprint": (str,),
    "language": (str, NoneType),
    "stemmer": (str, NoneType),
    "stop_words": (bool,),
    "links": (str, bool),
}
"""The entries of every manifest of an index, checked because it may come from a stranger."""


class Index:
    """An opened index folder. Opening reads its manifest and maps its files; safe across threads.

    It stays as it was opened, whatever updates the folder meanwhile. Its length counts its passages.

    Attributes:
        folder: where it is.
        state: the folder of the state it reads, with whatever was made of that.
        name: its corpus' name.
        fingerprint: of the corpus it was built from.
        analysis: how its texts became terms.
        link_mode: where its links really come from.
        facts: its whole manifest.
        passages: every passage, by ordinal or id.
        rows: how many ordinals there are, those of removed passages too.
        let_go: called, lets writers remove its state once another counts, which else they do when this index is gone.
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
        self._links = Links(self.state) if self.link_mode else None

    def __len__(self) -> int:
        return len(self.passages)

    def __repr__(self) -> str:
        return f"Index({str(self.folder)!r}, passages={len(self)})"

    def links(self, passage: Passage) -> list[Passage]:
        """The passages this one links to; [] for a passage the index does not hold, and without links."""
        ordinal = self.passages.ordinal(passage.id) if self._links else None
        if self._links is None or ordinal is None:
            return []
        try:
            return [self.passages.get(target) for target in self._links.of(ordinal)]
        except IndexError:
            raise IndexFolderError("its links are damaged; build the index again", self.folder) from None


def build_index(
    corpus: Corpus,
    folder: str | Path,
    *,
    stem: bool = True,
    stop_words: bool = True,
    links: LinkMode = "titles",
    overwrite: bool = False,
    progress: Callable[[int], object] | None = None,
    map_shards: MapShards = map,
) -> Index:
    """Index a corpus into ``folder``, in its language.

    Memory is bounded by the ids and then, with ``links``, the titles: about 265 bytes a passage beside 180 MB.

    Args:
        stem: whether words are stemmed, here and in queries; no matter in a language cut by characters.
        stop_words: whether stop words are dropped, here and from queries.
        links: ``titles`` (the corpus' own hyperlinks or, where it has none, the titles its texts mention), ``own``, or
            False.
        overwrite: replace an index that stands there; anything else is never touched.
        progress: called with the number of passages done, now and then and at the end.
        map_shards: how links are found in shards of passages, such as all over a cluster (``sharding.py``).

    Raises:
        DataError: the corpus is empty, malformed or repeats an id.
        IndexFolderError: something stands at ``folder``.
        UnknownName: there is no analysis for the corpus' language.
    """
    analysis = _analysis(corpus, stem, stop_words)
    _check_links(links)
    folder = Path(folder)
    with first_state(folder, kind=KIND, overwrite=overwrite) as state:
        fingerprint = corpus.fingerprint
        facts = fill(state, corpus.unique(), analysis, links, progress, map_shards)
        finish(state, facts | {"name": corpus.name, "fingerprint": fingerprint, **corpus.facts})
    return open_index(folder)


def fill(
    state: Path,
    passages: Iterable[Passage],
    analysis: Analysis,
    links: LinkMode,
    progress: Callable[[int], object] | None = None,
    map_shards: MapShards = map,
) -> dict[str, Any]:
    """Write the files of an index of distinct passages; what its manifest is to say of them."""
    count = linking = 0
    with StoreWriter(state) as store, BM25Writer(state / BM25_FOLDER, analysis) as bm25:
        for passage in passages:
            bm25.add(store.add(passage), passage)
            linking += bool(passage.links)
            count += 1
            if progress and count % _REPORT_EVERY == 0:
                progress(count)
    if progress:
        progress(count)
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
    """The source of links, given that ``linking`` passages have their own."""
    return "own" if asked and linking else asked


def finish(state: Path, facts: dict[str, Any]) -> None:
    """Make a filled state the one that counts."""
    from importlib.metadata import version

    libraries = {"tantivy": version("tantivy"), "numpy": version("numpy")}
    commit_state(state, kind=KIND, version=VERSION, facts=facts | {"libraries": libraries})


def open_index(folder: str | Path, *, corpus: Corpus | None = None) -> Index:
    """Open an index folder, checked; with ``corpus``, also that it was built from that corpus as it now is.

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
    progress: Callable[[int], object] | None = None,
) -> Index:
    """The index of a corpus: its own if it is an index folder, else one in the cache, built on first use.

    A second process that wants the same index waits for the first. A cached index that is damaged is built again.

    Raises:
        DataError: as ``build_index`` and ``open_index`` do.
    """
    _check_links(links)
    analysis = _analysis(corpus, stem, stop_words)
    if corpus.is_index and corpus.path is not None:
        return open_index(corpus.path, corpus=corpus)
    settings = repr((VERSION, corpus.fingerprint, corpus.skip_bad, *analysis.settings, links))
    folder = cache_folder() / "indexes" / hashlib.sha256(settings.encode()).hexdigest()[:32]
    ensure_dir(folder.parent, OTHER_CACHE)
    with locked(folder.with_suffix(".lock")):
        if folder.exists():
            try:
                return open_index(folder, corpus=corpus)
            except IndexFolderError:
                remove(folder)
        return build_index(corpus, folder, stem=stem, stop_words=stop_words, links=links, progress=progress)


def _analysis(corpus: Corpus, stem: bool, stop_words: bool) -> Analysis:
    return Analysis(corpus.language or "english", stem, stop_words)


def _check_links(links: object) -> None:
    if links not in ("titles", "own", False):
        raise UnknownName("kind of links", str(links), ["titles", "own"], "Or False, for none.")
