"""BM25 by tantivy: k1 1.2, b 0.75, over title and text as one field.

Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, equation 3.15, with
Lucene's idf, ln(1 + (N - n + 0.5) / (n + 0.5)), and its lengths in one byte (exact to 40 words, then in steps).

Words are lower-cased, stop words dropped, accents folded and, in English, stemmed (Snowball): by one analyser, for the
index and for its queries alike. Each distinct word of a query counts once.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from polyhop.errors import IndexFolderError
from polyhop.retrieval.base import OverIndex
from polyhop.retrieval.folder import remove
from polyhop.retrieval.store import tied_until
from polyhop.text import STOP_WORDS
from polyhop.types import Passage

if TYPE_CHECKING:
    import tantivy

    from polyhop.retrieval.index import Index

Stemmer: TypeAlias = Literal["english"] | None

BM25_FOLDER = "bm25"

_ANALYSER, _BODY, _ORDINAL = "polyhop", "body", "ordinal"
_POSSESSIVE = "s"  # what is left of "King's" once the apostrophe has parted it

_HEAP, _THREADS = 256 * 2**20, 2
_SPARE = 6
"""Hits fetched beyond ``k``, so that a small tie at the cut needs no second search."""


def analyser(stemmer: Stemmer, stop_words: bool) -> tantivy.TextAnalyzer:
    """Turns text into terms.

    >>> analyser("english", True).analyze("Who wrote the King's songs for Dvořák?")
    ['wrote', 'king', 'song', 'dvorak']
    """
    import tantivy

    steps = [tantivy.Filter.lowercase()]
    if stop_words:
        steps.append(tantivy.Filter.custom_stopword([*sorted(STOP_WORDS), _POSSESSIVE]))
    steps.append(tantivy.Filter.ascii_fold())
    if stemmer:
        steps.append(tantivy.Filter.stemmer(stemmer))
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    for step in steps:
        builder = builder.filter(step)
    return builder.build()


class BM25Writer:
    """Writes the BM25 index of passages into a folder of its own, whole once its block ends well, in bounded memory."""

    def __init__(self, folder: Path, stemmer: Stemmer, stop_words: bool) -> None:
        import tantivy

        folder.mkdir()
        index = _unwatched(tantivy.Index(_schema(), path=str(folder)))
        index.register_tokenizer(_ANALYSER, analyser(stemmer, stop_words))
        self._document = tantivy.Document
        self._writer = index.writer(_HEAP, _THREADS)

    def __enter__(self) -> BM25Writer:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None:
            self._writer.commit()
            self._writer.wait_merging_threads()
        else:
            self._writer.rollback()

    def add(self, ordinal: int, passage: Passage) -> None:
        """Index a passage under its ordinal."""
        self._writer.add_document(self._document(body=f"{passage.title}\n{passage.text}", ordinal=ordinal))


class BM25(OverIndex):
    """BM25 over an index. Safe across threads; ties are broken by passage id, also at the cut."""

    name = "bm25"

    def __init__(self, index: Index) -> None:
        import tantivy

        self._index = index
        self._analyser = analyser(index.stemmer, index.stop_words)
        self._schema = _schema()
        self._searcher = _open(index.folder / BM25_FOLDER).searcher()
        self._query, self._should = tantivy.Query, tantivy.Occur.Should

    def _scored(self, query: str, k: int) -> list[tuple[Passage, float]]:
        """Each passage with its BM25 score."""
        terms = dict.fromkeys(self._analyser.analyze(query))
        if not terms:
            return []
        return self._index.passages.best(self._hits(list(terms), k), k)

    def search_among(self, query: str, ordinals: Collection[int], k: int) -> list[tuple[Passage, float]]:
        """The ``k`` best of the passages with these ordinals, each with its score, as if found by ``search_scored``.

        The ranking of the whole corpus is read down until they are all met.
        """
        terms = list(dict.fromkeys(self._analyser.analyze(query)))
        depth = max(1, k)
        while terms:
            hits = self._hits(terms, depth)
            sure = hits[: tied_until(hits, depth - 1)] if len(hits) > depth else hits
            found = [hit for hit in sure if hit[1] in ordinals]
            if len(found) >= min(k, len(ordinals)) or len(hits) < depth:
                return self._index.passages.best(found, k)
            depth *= 4
        return []

    def _hits(self, terms: Sequence[str], k: int) -> list[tuple[float, int]]:
        """Scores and ordinals by falling score, at least the first ``k`` and all that tie with the ``k``-th."""
        clauses = [
            (self._should, self._query.term_query(self._schema, _BODY, term, index_option="freq")) for term in terms
        ]
        query = self._query.boolean_query(clauses)
        limit = min(k + _SPARE, len(self._index))
        while True:
            found = self._searcher.search(query, limit, count=False).hits
            ordinals = self._searcher.fast_field_values(_ORDINAL, [address for _, address in found])
            hits = [(score, cast(int, ordinal)) for (score, _), ordinal in zip(found, ordinals, strict=True)]
            if len(hits) < limit or limit == len(self._index) or tied_until(hits, k - 1) < limit:
                return hits
            limit = min(4 * limit, len(self._index))


def _schema() -> tantivy.Schema:
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field(_BODY, tokenizer_name=_ANALYSER, index_option="freq")
    builder.add_integer_field(_ORDINAL, fast=True)
    return builder.build()


def _open(folder: Path) -> tantivy.Index:
    """Open a tantivy folder by links in a temporary one: tantivy takes a lock, and our folder may be read-only.

    Raises:
        IndexFolderError: tantivy cannot read it.
    """
    from importlib.metadata import version

    import tantivy

    try:
        if sys.platform == "win32":  # links need a privilege there
            return _unwatched(tantivy.Index.open(str(folder)))
        view = Path(tempfile.mkdtemp(prefix="polyhop-"))
        try:
            for path in folder.resolve().iterdir():
                if path.suffix != ".lock":
                    (view / path.name).symlink_to(path)
            return _unwatched(tantivy.Index.open(str(view)))
        finally:
            remove(view)
    except (ValueError, OSError) as error:
        message = f"tantivy {version('tantivy')} cannot read it ({error}); build the index again"
        raise IndexFolderError(message, folder) from error


def _unwatched(index: tantivy.Index) -> tantivy.Index:
    """Load the index now and never again: tantivy would watch for changes, and there are none once it is built."""
    index.config_reader(reload_policy="manual")
    return index
