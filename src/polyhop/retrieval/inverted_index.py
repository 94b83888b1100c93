"""The tantivy folder of an index: write, extend and open the inverted index of its passages.

The ``Analysis`` of the index makes terms of its texts and of its queries.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from polyhop.errors import IndexFolderError
from polyhop.retrieval.analysis import Analysis
from polyhop.retrieval.sealed_folder import remove
from polyhop.types import Passage

if TYPE_CHECKING:
    import tantivy

BM25_FOLDER = "bm25"

BODY, ORDINAL = "body", "ordinal"
"""The fields of a document: its text, and its passage's ordinal."""

_ANALYSER = "polyhop"
_HEAP, _THREADS = 256 * 2**20, 2


class BM25Writer:
    """Writes the BM25 index of passages into its own folder, in bounded memory; it is complete once its block succeeds.

    With ``base``, the folder of an earlier one, it starts with the content of that: its files, which tantivy never
    changes, are shared by hard links.
    """

    def __init__(self, folder: Path, analysis: Analysis, base: Path | None = None) -> None:
        import tantivy

        folder.mkdir()
        if base:
            _share(base, folder)
        self._base, self._analysis, self._document = base, analysis, tantivy.Document
        with translate_errors(base), system_errors():
            index = _unwatched(tantivy.Index(schema(), path=str(folder)))
            index.register_tokenizer(_ANALYSER, analysis.tokenizer())
            self._writer = index.writer(_HEAP, 1 if base else _THREADS)  # a segment per thread

    def __enter__(self) -> BM25Writer:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None:
            with translate_errors(self._base), system_errors():
                self._writer.commit()
                self._writer.wait_merging_threads()
        else:
            with suppress(ValueError):  # it also fails on a full disk
                self._writer.rollback()

    def add(self, ordinal: int, passage: Passage) -> None:
        """Index a passage under its ordinal."""
        body = self._analysis.prepared(f"{passage.title}\n{passage.text}")
        try:
            self._writer.add_document(self._document(body=body, ordinal=ordinal))
        except ValueError as error:  # its threads had a system error, which they do not report
            raise OSError(f"tantivy cannot write its files ({error})") from error

    def remove(self, ordinals: Iterable[int]) -> None:
        """Remove passages with these ordinals, written before, from searches. The statistics still count them."""
        import tantivy

        for first, last in _runs(sorted(ordinals)):
            span = tantivy.Query.range_query(schema(), ORDINAL, tantivy.FieldType.Integer, first, last)
            self._writer.delete_documents_by_query(span)


def _share(base: Path, folder: Path) -> None:
    """Share the files of a tantivy folder with another one: by links, or by copies if that fails."""
    for path in base.iterdir():
        if path.suffix == ".lock":
            continue
        try:
            if path.suffix == ".json":  # tantivy rewrites these
                raise OSError
            (folder / path.name).hardlink_to(path)
        except OSError:
            shutil.copyfile(path, folder / path.name)


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and last of each unbroken run of rising numbers.

    >>> list(_runs([1, 2, 3, 7, 9, 10]))
    [(1, 3), (7, 7), (9, 10)]
    """
    start = 0
    for end in range(1, len(numbers) + 1):
        if end == len(numbers) or numbers[end] > numbers[end - 1] + 1:
            yield numbers[start], numbers[end - 1]
            start = end


@contextmanager
def system_errors() -> Iterator[None]:
    """Raise a system error that tantivy reports, such as a full disk, as an ``OSError``."""
    try:
        yield
    except ValueError as error:
        if number := re.search(r"os error (\d+)", str(error)):
            raise OSError(int(number[1]), os.strerror(int(number[1]))) from error
        raise


@contextmanager
def translate_errors(folder: Path | None) -> Iterator[None]:
    """Raise tantivy's errors about a folder as ``IndexFolderError``. Its panics are not ``Exception``s."""
    try:
        yield
    except BaseException as error:
        if folder and (isinstance(error, ValueError) or type(error).__name__ == "PanicException"):
            from importlib.metadata import version

            message = f"tantivy {version('tantivy')} cannot read it ({str(error)[:200]}); build the index again"
            raise IndexFolderError(message, folder) from error
        raise


def schema() -> tantivy.Schema:
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field(BODY, tokenizer_name=_ANALYSER, index_option="freq")
    builder.add_integer_field(ORDINAL, fast=True)
    return builder.build()


def open_folder(folder: Path) -> tantivy.Index:
    """Open a tantivy folder through links in a temporary one: tantivy writes a lock, and the folder may be read-only.

    Raises:
        IndexFolderError: tantivy cannot read it.
    """
    import tantivy

    with translate_errors(folder):
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
    """Load the index once: tantivy would otherwise watch for changes, and there are none after the build."""
    index.config_reader(reload_policy="manual")
    return index
