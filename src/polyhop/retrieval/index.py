"""An index: a corpus made searchable, in one folder of memory-mapped files.

It holds the passages, a BM25 index over them, and their links; TF-IDF joins it when first asked for. Built to one
side and renamed when whole, so a killed build leaves nothing that opens.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from polyhop.data.corpora import Corpus
from polyhop.errors import IndexFolderError, UnknownName
from polyhop.places import cache_folder, locked
from polyhop.retrieval.bm25 import BM25_FOLDER, BM25Writer, Stemmer
from polyhop.retrieval.folder import OTHER_CACHE, check, made, new_folder, remove, seal
from polyhop.retrieval.links import LinkMode, Links, build_links
from polyhop.retrieval.store import PassageStore, StoreWriter
from polyhop.types import Passage

KIND, VERSION = "index", 1

_REPORT_EVERY = 1000


class Index:
    """An opened index folder. Opening reads its manifest and maps its files; safe across threads.

    Attributes:
        folder: where it is.
        name: its corpus' name.
        fingerprint: of the corpus it was built from.
        stemmer, stop_words, link_mode: what it was built with; ``link_mode`` is where its links really come from.
        facts: its whole manifest.
        passages: every passage, by ordinal or id.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.facts = check(folder, kind=KIND, version=VERSION)
        self.name: str = self.facts["name"]
        self.fingerprint: str = self.facts["fingerprint"]
        self.stemmer: Stemmer = self.facts["stemmer"]
        self.stop_words: bool = self.facts["stop_words"]
        self.link_mode: LinkMode = self.facts["links"]
        self.passages = PassageStore(folder)
        self._links = Links(folder) if self.link_mode else None

    def __len__(self) -> int:
        return len(self.passages)

    def __repr__(self) -> str:
        return f"Index({str(self.folder)!r}, passages={len(self)})"

    def links(self, passage: Passage) -> list[Passage]:
        """The passages this one links to; [] for a passage the index does not hold, and without links."""
        ordinal = self.passages.ordinal(passage.id) if self._links else None
        if self._links is None or ordinal is None:
            return []
        return [self.passages.get(target) for target in self._links.of(ordinal)]


def build_index(
    corpus: Corpus,
    folder: str | Path,
    *,
    stemmer: Stemmer = "english",
    stop_words: bool = True,
    links: LinkMode = "titles",
    overwrite: bool = False,
    progress: Callable[[int], object] | None = None,
) -> Index:
    """Index a corpus into ``folder``.

    Memory is bounded by the ids and then, with ``links``, the titles: about 110 bytes a passage beside 400 MB.

    Args:
        stemmer: ``english`` or None.
        stop_words: whether English stop words are dropped, here and from queries.
        links: ``titles`` (the corpus' own hyperlinks or, where it has none, the titles its texts mention), ``own``, or
            False.
        overwrite: replace an index that stands there; anything else is never touched.
        progress: called with the number of passages done, now and then and at the end.

    Raises:
        DataError: the corpus is empty, malformed or repeats an id.
        IndexFolderError: something stands at ``folder``.
    """
    from importlib.metadata import version

    _check_settings(stemmer, links)
    folder = Path(folder)
    with new_folder(folder, kind=KIND, overwrite=overwrite) as building:
        fingerprint, count, has_links = corpus.fingerprint, 0, False
        with StoreWriter(building) as store, BM25Writer(building / BM25_FOLDER, stemmer, stop_words) as bm25:
            for passage in corpus.unique():
                bm25.add(store.add(passage), passage)
                has_links = has_links or bool(passage.links)
                count += 1
                if progress and count % _REPORT_EVERY == 0:
                    progress(count)
        mode: LinkMode = "own" if links and (has_links or links == "own") else links
        mentions = build_links(PassageStore(building), building, own=mode == "own") if mode else 0
        facts = {
            "name": corpus.name,
            "fingerprint": fingerprint,
            "passages": count,
            "skipped": corpus.skipped,
            "mentions": mentions,
            "stemmer": stemmer,
            "stop_words": stop_words,
            "links": mode,
            "libraries": {"tantivy": version("tantivy"), "numpy": version("numpy")},
        }
        seal(building, kind=KIND, version=VERSION, facts=facts)
    if progress:
        progress(count)
    return open_index(folder)


def open_index(folder: str | Path, *, corpus: Corpus | None = None) -> Index:
    """Open an index folder, checked; with ``corpus``, also that it was built from that corpus as it now is.

    Raises:
        IndexFolderError: it is missing, partial, damaged, of another format version, or of another corpus.
    """
    index = Index(Path(folder))
    if corpus is not None and not corpus.is_index and index.fingerprint != corpus.fingerprint:
        message = f"it was built from {index.name!r} in another state than {corpus.path or corpus.name}; build it again"
        raise IndexFolderError(message, index.folder)
    return index


def index_for(
    corpus: Corpus,
    *,
    stemmer: Stemmer = "english",
    stop_words: bool = True,
    links: LinkMode = "titles",
    progress: Callable[[int], object] | None = None,
) -> Index:
    """The index of a corpus: its own if it is an index folder, else one in the cache, built on first use.

    A second process that wants the same index waits for the first. A cached index that is damaged is built again.

    Raises:
        DataError: as ``build_index`` and ``open_index`` do.
    """
    _check_settings(stemmer, links)
    if corpus.is_index and corpus.path is not None:
        return open_index(corpus.path)
    settings = repr((VERSION, corpus.fingerprint, corpus.skip_bad, stemmer, stop_words, links))
    folder = cache_folder() / "indexes" / hashlib.sha256(settings.encode()).hexdigest()[:32]
    made(folder.parent, OTHER_CACHE)
    with locked(folder.with_suffix(".lock")):
        if folder.exists():
            try:
                return open_index(folder)
            except IndexFolderError:
                remove(folder)
        return build_index(corpus, folder, stemmer=stemmer, stop_words=stop_words, links=links, progress=progress)


def _check_settings(stemmer: object, links: object) -> None:
    if stemmer not in ("english", None):
        raise UnknownName("stemmer", str(stemmer), ["english"], "Or None, for no stemming.")
    if links not in ("titles", "own", False):
        raise UnknownName("kind of links", str(links), ["titles", "own"], "Or False, for none.")
