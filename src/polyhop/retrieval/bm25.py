"""BM25 by tantivy: k1 1.2, b 0.75, over title and text as one field.

Source: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, equation 3.15, with
Lucene's idf, ln(1 + (N - n + 0.5) / (n + 0.5)), and its lengths in one byte (exact to 40 words, then in steps).

Text becomes terms by the index' ``Analysis``, for the index and for its queries alike. Each distinct term of a query
counts once.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

from polyhop.errors import IndexFolderError
from polyhop.retrieval.analysis import Analysis
from polyhop.retrieval.base import OverIndex
from polyhop.retrieval.sealed_folder import remove
from polyhop.retrieval.store import tied_until
from polyhop.types import Passage

if TYPE_CHECKING:
    import tantivy

    from polyhop.retrieval.index import Index

BM25_FOLDER = "bm25"

_ANALYSER, _BODY, _ORDINAL = "polyhop", "body", "ordinal"

_HEAP, _THREADS = 256 * 2**20, 2
_SPARE = 6
"""Hits fetched beyond ``k``, so that a small tie at the cut needs no second search."""


class BM25Writer:
    """Writes the BM25 index of passages into a folder of its own, whole once its block ends well, in bounded memory.

    With ``base``, the folder of an earlier one, it begins as that one stands: its files, which tantivy never changes,
    are shared by links.
    """

    def __init__(self, folder: Path, analysis: Analysis, base: Path | None = None) -> None:
        import tantivy

        folder.mkdir()
        if base:
            _share(base, folder)
        self._base, self._analysis, self._document = base, analysis, tantivy.Document
        with _told_of(base), _system_errors():
            index = _unwatched(tantivy.Index(_schema(), path=str(folder)))
            index.register_tokenizer(_ANALYSER, analysis.tokenizer())
            self._writer = index.writer(_HEAP, 1 if base else _THREADS)  # a segment for each thread

    def __enter__(self) -> BM25Writer:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None:
            with _told_of(self._base), _system_errors():
                self._writer.commit()
                self._writer.wait_merging_threads()
        else:
            with suppress(ValueError):  # on a full disk it fails too
                self._writer.rollback()

    def add(self, ordinal: int, passage: Passage) -> None:
        """Index a passage under its ordinal."""
        body = self._analysis.prepared(f"{passage.title}\n{passage.text}")
        try:
            self._writer.add_document(self._document(body=body, ordinal=ordinal))
        except ValueError as error:  # its threads met an error of the system, which they do not tell
            raise OSError(f"tantivy cannot write its files ({error})") from error

    def remove(self, ordinals: Iterable[int]) -> None:
        """Find the passages with these ordinals, written before, no more. The statistics still count them."""
        import tantivy

        for first, last in _runs(sorted(ordinals)):
            span = tantivy.Query.range_query(_schema(), _ORDINAL, tantivy.FieldType.Integer, first, last)
            self._writer.delete_documents_by_query(span)


class BM25(OverIndex):
    """BM25 over an index. Safe across threads; ties are broken by passage id, also at the cut."""

    name = "bm25"

    def __init__(self, index: Index) -> None:
        import tantivy

        self._index = index
        self._schema = _schema()
        self._searcher = _open(index.state / BM25_FOLDER).searcher()
        self._query, self._should = tantivy.Query, tantivy.Occur.Should

    def _scored(self, query: str, k: int) -> list[tuple[Passage, float]]:
        """Each passage with its BM25 score."""
        terms = dict.fromkeys(self._index.analysis.terms(query))
        if not terms:
            return []
        return self._index.passages.best(self._hits(list(terms), k), k)

    def search_among(self, query: str, ordinals: Collection[int], k: int) -> list[tuple[Passage, float]]:
        """The ``k`` best of the passages with these ordinals, each with its score, as if found by ``search_scored``.

        The ranking of the whole corpus is read down until they are all met.
        """
        terms = list(dict.fromkeys(self._index.analysis.terms(query)))
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
            with _told_of(self._index.folder):
                found = self._searcher.search(query, limit, count=False).hits
                ordinals = self._searcher.fast_field_values(_ORDINAL, [address for _, address in found])
            hits = [(score, cast(int, ordinal)) for (score, _), ordinal in zip(found, ordinals, strict=True)]
            if len(hits) < limit or limit == len(self._index) or tied_until(hits, k - 1) < limit:
                return hits
            limit = min(4 * limit, len(self._index))


def _share(base: Path, folder: Path) -> None:
    """Put the files of a tantivy folder into another one too: linked where that can be done, else copied."""
    for path in base.iterdir():
        if path.suffix == ".lock":
            continue
        try:
            if path.suffix == ".json":  # tantivy writes these anew
                raise OSError
            (folder / path.name).hardlink_to(path)
        except OSError:
            shutil.copyfile(path, folder / path.name)


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The unbroken runs of rising numbers, each by its ends.

    >>> list(_runs([1, 2, 3, 7, 9, 10]))
    [(1, 3), (7, 7), (9, 10)]
    """
    start = 0
    for end in range(1, len(numbers) + 1):
        if end == len(numbers) or numbers[end] > numbers[end - 1] + 1:
            yield numbers[start], numbers[end - 1]
            start = end


@contextmanager
def _system_errors() -> Iterator[None]:
    """Raise an error of the system that tantivy tells of, such as a full disk, as that error."""
    try:
        yield
    except ValueError as error:
        if number := re.search(r"os error (\d+)", str(error)):
            raise OSError(int(number[1]), os.strerror(int(number[1]))) from error
        raise


@contextmanager
def _told_of(folder: Path | None) -> Iterator[None]:
    """Raise what tantivy says over the files of a folder as ours. Over some it panics, which is no ``Exception``."""
    try:
        yield
    except BaseException as error:
        if folder and (isinstance(error, ValueError) or type(error).__name__ == "PanicException"):
            from importlib.metadata import version

            message = f"tantivy {version('tantivy')} cannot read it ({str(error)[:200]}); build the index again"
            raise IndexFolderError(message, folder) from error
        raise


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
    import tantivy

    with _told_of(folder):
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


def _unwatched(index: tantivy.Index) -> tantivy.Index:
    """Load the index now and never again: tantivy would watch for changes, and there are none once it is built."""
    index.config_reader(reload_policy="manual")
    return index
