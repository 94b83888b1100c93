"""Corpora: a reader per format, each a re-iterable stream of passages in constant memory."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import orjson

from polyhop.common.files import digest_of, path_text
from polyhop.common.text import printable
from polyhop.data import path_or_demo
from polyhop.data.converting.converter import SUFFIXES, TABLES
from polyhop.data.documents import READING_VERSION, document_files, read_documents, survey
from polyhop.data.index_folder import is_broken_index, is_index, manifest_of, read_index
from polyhop.data.lines import json_type, part_of, peek
from polyhop.data.passages import (
    MAPPED,
    TEXT_COLUMNS,
    Items,
    Location,
    passage_id,
    passages_in,
    passages_in_database,
    passages_in_files,
    passages_in_source,
    table_delimiter,
)
from polyhop.data.sources import Source, is_hub_name, open_hub, open_source, parse_hub_name, read_array, read_csv
from polyhop.data.wikipedia import SQLITE_MAGIC, dump_files, is_tar, open_database, read_dump_archive
from polyhop.errors import DataError, UnknownName
from polyhop.types import Passage

FORMATS = (
    "JSON lines, a JSON array, or a table with a header (CSV, TSV), .gz and .bz2 too, of title and "
    "text|contents|paragraph_text|body, and id|_id|pid|passage_id|docid|idx or none; a folder with corpus.jsonl "
    "(BEIR); HotpotQA's processed Wikipedia (its folder, its .tar.bz2 or one of its files); PathRetriever's sqlite "
    "database; a document or a folder of them (.txt, .md, .html, .epub, .xlsx, .pptx, .csv, .tsv, .eml, .mbox, .ipynb, "
    "source code; .pdf and .docx by the extra docs); an index folder; hf:DATASET[:CONFIG]; a list of Passage"
)

Unread: TypeAlias = Counter[tuple[str, str]]
"""The number of files of a folder that are not read, by kind and reason."""

_Reader: TypeAlias = Callable[[], Items]

_MAX_NAMED = 8  # kinds of files, and bad documents, that a summary names


class Corpus:
    """A named stream of passages. Each iteration reads it again; nothing is held.

    Attributes:
        name: the name of its file or folder, for people.
        path: its file or folder; None for passages handed in.
        passages, documents: the numbers that the latest iteration read; ``documents`` is 0 unless they are documents.
        skipped: the number of bad lines left out with ``skip_bad``, or of documents of a folder that cannot be read;
            ``faults`` names the first of such documents, with the reason.
        guesses: the first documents whose encoding was guessed, with its name; ``guessed`` is their number.
        language: the language of its texts, for search; None for English or, for an index folder, the language it was
            built in.
    """

    language: str | None = None

    def __init__(
        self,
        name: str,
        read: _Reader,
        fingerprint: Callable[[], str],
        *,
        path: Path | None,
        skip_bad: bool,
        unread: Callable[[], Unread] | None = None,
    ) -> None:
        self.name, self.path, self.skip_bad = name, path, skip_bad
        self._read, self._fingerprint, self._unread = read, fingerprint, unread
        self._reset()

    def _reset(self) -> None:
        self.passages = self.documents = self.skipped = self.guessed = 0
        self.faults: list[str] = []
        self.guesses: list[str] = []

    def __repr__(self) -> str:
        return f"Corpus({self.name!r})"

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits that change with the passages. For files, a cheap digest of size, time and sampled content."""
        return self._fingerprint()

    @property
    def is_index(self) -> bool:
        """True if this is the corpus inside an index folder."""
        return self.path is not None and is_index(self.path)

    @property
    def facts(self) -> dict[str, Any]:
        """The counts of the latest iteration, which an index of this corpus stores."""
        return {name: getattr(self, name) for name in ("documents", "skipped", "guessed", "faults", "guesses")}

    def restore(self, facts: Mapping[str, Any]) -> None:
        """Restore ``facts`` from an index of this corpus, as they were when it was built."""
        numbers = [facts.get(name) for name in ("passages", "documents", "skipped", "guessed")]
        self.passages, self.documents, self.skipped, self.guessed = (n if isinstance(n, int) else 0 for n in numbers)
        lists = [facts.get(name) for name in ("faults", "guesses")]
        self.faults, self.guesses = (
            [printable(str(item)) for item in items] if isinstance(items, list) else [] for items in lists
        )

    @property
    def left_out(self) -> list[str]:
        """Everything that is not read: files by kind, links out of the folder, and the bad documents (by name) and bad
        lines (by number) of the latest iteration. Scans a folder again."""
        kinds = (self._unread() if self._unread else Unread()).most_common()
        shown = [f"{_count_text(number, kind)} ({reason})" for (kind, reason), number in kinds[:_MAX_NAMED]]
        if more := sum(number for _, number in kinds[_MAX_NAMED:]):
            shown.append(f"{_count_text(more, 'file')} of other kinds")
        shown += self.faults
        if more := self.skipped - len(self.faults):
            kind = "malformed line" if self._unread is None else "more document" if self.faults else "document"
            shown.append(_count_text(more, kind))
        return shown

    @property
    def summary(self) -> str:
        """The numbers read and left out, in words."""
        files = [_count_text(self.documents, "file")] if self.documents else []
        read = ", ".join([*files, _count_text(self.passages, "passage")])
        more = self.guessed - len(self.guesses)
        guesses = [*self.guesses, *([_count_text(more, "more file")] if more else [])]
        named = {"left out": self.left_out, "encoding guessed": guesses}
        return "; ".join([read, *(f"{name}: {', '.join(items)}" for name, items in named.items() if items)])

    def __iter__(self) -> Iterator[Passage]:
        """Yield the passages in order.

        Raises:
            DataError: a line or row is malformed (the message gives file and number), unless ``skip_bad``; or there is
                no passage.
        """
        return (passage for passage, _ in self._valid())

    def unique(self) -> Iterator[Passage]:
        """Yield the passages in order, each id once, to build an index from. Holds the ids.

        Raises:
            DataError: as iterating does, and for a repeated id, unless ``skip_bad``.
        """
        seen: set[str] = set()
        for passage, location in self._valid():
            if passage.id not in seen:
                seen.add(passage.id)
                yield passage
            elif passage.id == passage_id(passage.title, passage.text):
                self.passages -= 1  # the same passage again
            elif self.skip_bad:
                self.passages, self.skipped = self.passages - 1, self.skipped + 1
            else:
                raise DataError(
                    f"duplicate id {passage.id!r}{self._first_location(passage.id, location[0])}", *location
                )

    def _valid(self) -> Iterator[tuple[Passage, Location]]:
        self._reset()
        latest = None
        for item, location in self._read():
            if isinstance(item, Passage):
                self.passages += 1
                if self._unread and location[0] != latest:
                    latest = location[0]
                    self._count_document(item)
                yield item, location
            elif self.skip_bad:
                self._skip(item, location)
            else:
                raise item
        if not self.passages:
            excuse = f"; left out: {', '.join(left_out)}" if (left_out := self.left_out) else ""
            raise DataError(f"no passages in it{excuse}", self.path or self.name)

    def _count_document(self, first: Passage) -> None:
        """Count the document of a passage, the first from it."""
        self.documents += 1
        if encoding := first.metadata.get("encoding"):
            self.guessed += 1
            if len(self.guesses) < _MAX_NAMED:
                self.guesses.append(printable(f"{first.metadata['source']} ({encoding})"))

    def _skip(self, fault: DataError, location: Location) -> None:
        self.skipped += 1
        path = location[0]
        if self._unread and path and len(self.faults) < _MAX_NAMED:
            name = path.relative_to(self.path) if self.path and self.path != path else path.name
            reason = str(fault).removeprefix(f"{path}: ")
            self.faults.append(printable(f"{name} ({reason})"))

    def _first_location(self, id: str, here: Path | None) -> str:
        """Describe the first use of ``id`` in an error message; reads again up to it."""
        for item, (path, line) in self._read():
            if isinstance(item, Passage) and item.id == id:
                on_line = f" on line {line}" if line else ""
                in_file = f" in {path}" if path != here or not line else ""
                return f"; first{on_line}{in_file}" if path else ""
        return ""


def _count_text(number: int, kind: str) -> str:
    """Return a number with its noun.

    >>> _count_text(1, "file"), _count_text(2, "file without a suffix"), _count_text(2, ".pptx")
    ('1 file', '2 files without a suffix', '2 .pptx')
    """
    noun, gap, rest = kind.partition(" without")
    return f"{number:,} {noun}{'s' * (number != 1 and not kind.startswith('.'))}{gap}{rest}"


def open_corpus(
    source: str | Path | Iterable[Passage] | Corpus,
    *,
    skip_bad: bool = False,
    language: str | None = None,
    fields: Mapping[str, str] | None = None,
) -> Corpus:
    """Open a corpus of any format (see ``FORMATS``), or the one that ships with the package, ``demo``. Cheap: only the
    first line is read.

    A one-shot iterator is held as a list, since a corpus is read more than once; anything re-iterable is not.
    ``language``, such as ``german``, selects the stemmer and stop words of an index. ``fields`` maps our own fields to
    those of a file of rows, or of the Hub, as in ``{"text": "Body", "title": "Headline"}``.

    Raises:
        DataError: it is missing or of an unknown format (the message names the content and the accepted formats).
        UnknownName: a field is none of ours.
    """
    if isinstance(source, Corpus):
        return source
    if strange := next((name for name in fields or () if name not in MAPPED), None):
        raise UnknownName("field of a passage", strange, MAPPED)
    corpus = _of_columns(Path(str(source)), fields, skip_bad) if fields else _opened(source, skip_bad)
    corpus.language = language
    return corpus


def _opened(source: str | Path | Iterable[Passage], skip_bad: bool) -> Corpus:
    if not isinstance(source, str | os.PathLike):
        return _from_passages(source, skip_bad)
    path = path_or_demo(Path(source), "passages")
    if is_hub_name(path):
        return _from_hub(str(path), skip_bad)
    if path.is_dir():
        return _from_folder(path, skip_bad)
    if path.suffix.lower() in SUFFIXES and path.is_file() and not _is_table_of_passages(path):
        return _from_documents(path, skip_bad)
    return _from_lines(path, skip_bad)


def _is_table_of_passages(path: Path) -> bool:
    """Return True if a table has a column of texts, so that its rows are passages and not those of a document."""
    return path.suffix.lower() in TABLES and table_delimiter(peek(path)) is not None


def _from_lines(path: Path, skip_bad: bool) -> Corpus:
    start = peek(path)
    if not start:
        raise DataError("no passages in it: the file is empty", path)
    if start.startswith(b"{"):
        return _of_files(path, lambda: passages_in_files([path]), skip_bad)
    if is_tar(start):
        return _of_files(path, lambda: passages_in(read_dump_archive(path)), skip_bad)
    if start.startswith(SQLITE_MAGIC):
        with open_database(path):  # report its faults now
            return _of_files(path, lambda: passages_in_database(path), skip_bad)
    if start.startswith(b"["):
        return _of_files(
            path, lambda: passages_in_source(Source(path, "JSON array", lambda: read_array(path))), skip_bad
        )
    if delimiter := table_delimiter(start):
        table = Source(path, "CSV", lambda: read_csv(path, delimiter, TEXT_COLUMNS))
        return _of_files(path, lambda: passages_in_source(table), skip_bad)
    raise DataError(f"unknown corpus format: begins with {start[:40]!r}. Accepted: {FORMATS}.", path)


def _of_columns(path: Path, fields: Mapping[str, str], skip_bad: bool) -> Corpus:
    """Return the corpus of a file of rows, or of the Hub, whose columns are mapped."""
    if is_hub_name(path):
        return _from_hub(str(path), skip_bad, fields)
    source = open_source(path, fields.values()).renamed(fields)
    return _of_files(path, lambda: passages_in_source(source), skip_bad, fields=fields)


def _from_hub(name: str, skip_bad: bool, fields: Mapping[str, str] = MappingProxyType({})) -> Corpus:
    """Return a corpus of the Hub. Its fingerprint is that of its name: a later version there is not noticed."""
    source = open_hub(name, corpus=True).renamed(fields)
    short = parse_hub_name(name, corpus=True)[0].rpartition("/")[2]

    def fingerprint() -> str:
        return hashlib.sha256(name.encode() + _mark(fields)).hexdigest()[:32]

    return Corpus(short, lambda: passages_in_source(source), fingerprint, path=None, skip_bad=skip_bad)


def _of_files(
    path: Path,
    read: _Reader,
    skip_bad: bool,
    files: Callable[[], Iterable[Path]] | None = None,
    unread: Callable[[], Unread] | None = None,
    fields: Mapping[str, str] = MappingProxyType({}),
) -> Corpus:
    """Return the corpus of a file, or of the ``files`` of a folder."""

    def fingerprint() -> str:
        version = READING_VERSION if unread else _mark(fields)
        return digest_of(files() if files else [path], path if path.is_dir() else path.parent, version)

    return Corpus(_name(path), read, fingerprint, path=path, skip_bad=skip_bad, unread=unread)


def _mark(fields: Mapping[str, str]) -> bytes:
    return repr(sorted(fields.items())).encode() if fields else b""


def _from_folder(folder: Path, skip_bad: bool) -> Corpus:
    if is_index(folder):
        own = str(manifest_of(folder).get("fingerprint", ""))
        return Corpus(
            _name(folder), lambda: passages_in(read_index(folder)), lambda: own, path=folder, skip_bad=skip_bad
        )
    for name in ("corpus.jsonl", "corpus.jsonl.gz"):
        if (folder / name).is_file():
            return _from_lines(part_of(folder, name), skip_bad)
    if next(dump_files(folder), None):
        pages = partial(dump_files, folder)
        return _of_files(folder, lambda: passages_in_files(pages()), skip_bad, files=pages)
    if next(document_files(folder), None):
        return _from_documents(folder, skip_bad)
    if is_broken_index(folder):
        raise DataError("an index, but a partial or damaged one; build the index again", folder)
    seen = ", ".join(sorted(entry.name for entry in folder.iterdir())[:8]) or "nothing"
    raise DataError(f"no corpus in this folder; it holds {seen}. Accepted: {FORMATS}.", folder)


def _from_documents(path: Path, skip_bad: bool) -> Corpus:
    root = path if path.is_dir() else path.parent

    def files() -> list[Path]:
        return survey(path)[0] if path.is_dir() else [path]

    def unread() -> Unread:
        return survey(path)[1] if path.is_dir() else Unread()

    def read() -> Items:
        for item, file in read_documents(files(), root):
            yield item, (file, None)

    return _of_files(path, read, skip_bad or path.is_dir(), files, unread)


def _from_passages(source: Iterable[Passage], skip_bad: bool) -> Corpus:
    passages = tuple(source) if isinstance(source, Iterator) else source

    def read() -> Items:
        for number, item in enumerate(passages, start=1):
            if not isinstance(item, Passage):
                message = f"item {number} of the corpus is {json_type(item)}, expected a Passage"
                yield DataError(message), (None, None)
            elif not item.id or not item.text.strip():
                yield DataError(f"item {number} of the corpus has an empty {'text' if item.id else 'id'}"), (None, None)
            else:
                yield item, (None, None)

    def fingerprint() -> str:
        digest = hashlib.sha256()
        for item, _ in read():
            if isinstance(item, Passage):
                digest.update(orjson.dumps(item.to_dict(), option=orjson.OPT_SORT_KEYS, default=repr) + b"\n")
        return digest.hexdigest()[:32]

    return Corpus("passages", read, fingerprint, path=None, skip_bad=skip_bad)


def _name(path: Path) -> str:
    """Return a name for people: the folder's for a plain ``corpus.jsonl``, else the file's own without its suffixes.

    >>> _name(Path("data/hotpotqa/corpus.jsonl.gz")), _name(Path("wiki18.jsonl"))
    ('hotpotqa', 'wiki18')
    """
    path = Path(path_text(path.resolve()))
    stem = path.name.split(".")[0] or path.name
    return path.parent.name if stem == "corpus" and path.parent.name else stem
