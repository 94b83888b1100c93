"""Corpora: every format one reader, each a re-iterable stream of passages in constant memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from polyhop.data.documents import SUFFIXES, document_files, read_documents
from polyhop.data.lines import id_of, json_type, mapping_of, peek, read_objects, require, strings_of, text_of
from polyhop.data.shipped import or_shipped
from polyhop.data.sources import read_csv
from polyhop.data.wiki_database import MAGIC, open_database, read_database
from polyhop.data.wiki_dump import dump_files, is_archive, read_archive, read_page
from polyhop.errors import DataError
from polyhop.places import locked
from polyhop.text import counted
from polyhop.types import Passage

ID_FIELDS = ("id", "_id", "pid", "passage_id")
TEXT_FIELDS = ("text", "contents")

INDEX_MANIFEST, INDEX_READERS = "manifest.json", "readers.lock"
INDEX_PASSAGES, INDEX_REMOVED = "passages.jsonl", "passages.removed"
"""What makes an index folder a corpus too (written by ``polyhop.retrieval``): the manifest names the folder inside it
that holds the passages, a byte for each where some were removed, and what readers lock."""

FORMATS = (
    "JSON lines (.gz and .bz2 too) of id|_id|pid|passage_id, title and text, or of id and contents with the title on "
    "its first line (FlashRAG); a folder with corpus.jsonl (BEIR); DPR's id, text and title, tab-separated; HotpotQA's "
    "processed Wikipedia (its folder, its .tar.bz2 or one of its files); PathRetriever's sqlite database; a document "
    "or a folder of them (.txt, .md, .html, .epub; .pdf and .docx by the extra docs); an index folder; a list of "
    "Passage"
)

_DPR_HEAD, _HEAD = b"id\ttext\ttitle", frozenset({"text"})

Place: TypeAlias = tuple[Path | None, int | None]
"""Where a passage stands: its file and 1-based line or row, as far as there are such."""

_Items: TypeAlias = Iterator[tuple[Passage | DataError, Place]]
_Reader: TypeAlias = Callable[[], _Items]

_SAMPLES, _SAMPLE_BYTES = 64, 16 * 1024


class Corpus:
    """A named stream of passages. Iterating reads it anew; nothing is held.

    Attributes:
        name: of its file or folder, for people.
        path: its file or folder; None for passages handed in.
        skipped: the bad lines left out by the latest iteration, with ``skip_bad``.
        language: of its texts, for search; None for English or, of an index folder, the one it was built in.
    """

    language: str | None = None

    def __init__(
        self, name: str, read: _Reader, fingerprint: Callable[[], str], *, path: Path | None, skip_bad: bool
    ) -> None:
        self.name, self.path, self.skip_bad, self.skipped = name, path, skip_bad, 0
        self._read, self._fingerprint = read, fingerprint

    def __repr__(self) -> str:
        return f"Corpus({self.name!r})"

    @cached_property
    def fingerprint(self) -> str:
        """32 hex digits that change with the passages; of files, from their size, time and sampled content: cheap."""
        return self._fingerprint()

    @property
    def is_index(self) -> bool:
        """Whether this is an index folder's own corpus."""
        return self.path is not None and _is_index(self.path)

    def __iter__(self) -> Iterator[Passage]:
        """The passages in order.

        Raises:
            DataError: a malformed line or row (file and number are named) unless ``skip_bad``; or no passage at all.
        """
        return (passage for passage, _ in self._good())

    def unique(self) -> Iterator[Passage]:
        """The passages in order, each id once: what an index is built from. Holds the ids.

        Raises:
            DataError: as iterating does, and for an id seen before, unless ``skip_bad``.
        """
        seen: set[str] = set()
        for passage, place in self._good():
            if passage.id not in seen:
                seen.add(passage.id)
                yield passage
            elif self.skip_bad:
                self.skipped += 1
            else:
                raise DataError(f"duplicate id {passage.id!r}{self._first_place(passage.id, place[0])}", *place)

    def _good(self) -> Iterator[tuple[Passage, Place]]:
        self.skipped = count = 0
        for item, place in self._read():
            if isinstance(item, Passage):
                count += 1
                yield item, place
            elif self.skip_bad:
                self.skipped += 1
            else:
                raise item
        if not count:
            skipped = f" ({counted(self.skipped, 'bad lines')} skipped)" if self.skipped else ""
            raise DataError(f"no passages in it{skipped}", self.path or self.name)

    def _first_place(self, id: str, here: Path | None) -> str:
        """Read again up to the first use of ``id``, to name it in an error."""
        for item, (path, line) in self._read():
            if isinstance(item, Passage) and item.id == id:
                at = f" on line {line}" if line else ""
                where = f" in {path}" if path != here or not line else ""
                return f"; first{at}{where}" if path else ""
        return ""


def open_corpus(
    source: str | Path | Iterable[Passage] | Corpus, *, skip_bad: bool = False, language: str | None = None
) -> Corpus:
    """Open a corpus, whatever its format (see ``FORMATS``), or the one that ships inside, ``demo``. Cheap: nothing is
    read but the first line.

    A one-shot iterator is held as a list, since a corpus is read more than once; anything re-iterable is not.
    ``language``, such as ``german``, is what an index of it stems and drops stop words by.

    Raises:
        DataError: it is missing or of an unknown format (the message names what was seen and what is accepted).
    """
    if isinstance(source, Corpus):
        return source
    corpus = _opened(source, skip_bad)
    corpus.language = language
    return corpus


def _opened(source: str | Path | Iterable[Passage], skip_bad: bool) -> Corpus:
    if not isinstance(source, str | os.PathLike):
        return _from_passages(source, skip_bad)
    path = or_shipped(Path(source), "passages")
    if path.is_dir():
        return _from_folder(path, skip_bad)
    if path.suffix.lower() in SUFFIXES and path.is_file():
        return _from_documents(path, path.parent, skip_bad)
    return _from_lines(path, skip_bad)


def read_passage(row: dict[str, Any]) -> Passage:
    """One corpus line as a passage.

    >>> read_passage({"id": 7, "contents": '"Ada Lovelace"\\nShe wrote the first program.'})
    Passage(id='7', title='Ada Lovelace', text='She wrote the first program.', links=(), metadata={})

    Raises:
        ValueError: a field is missing, of another type, or empty; the message says which.
    """
    id = id_of(row, require(row, ID_FIELDS))
    field = require(row, TEXT_FIELDS)
    text = text_of(row, field)
    title = row.get("title") or ""
    if not isinstance(title, str):
        raise ValueError(f"'title' is {json_type(title)}, expected a string")
    if field == "contents" and not title:
        first, _, rest = text.strip().partition("\n")
        if rest.strip():
            title, text = _unquoted(first), rest.strip()
    return Passage(id, title, text, links=strings_of(row, "links"), metadata=mapping_of(row, "metadata"))


def _unquoted(title: str) -> str:
    """A title without the quotation marks some corpora wrap it in.

    >>> _unquoted(' "Anarchism" '), _unquoted('"Heroes" (song)')
    ('Anarchism', '"Heroes" (song)')
    """
    title = title.strip()
    wrapped = len(title) > 2 and title[0] == title[-1] == '"' and '"' not in title[1:-1]
    return title[1:-1].strip() if wrapped else title


def _from_lines(path: Path, skip_bad: bool) -> Corpus:
    start = peek(path)
    if not start:
        raise DataError("no passages in it: the file is empty", path)
    if start.startswith(b"{"):
        return _of_file(path, lambda: _in_lines([path]), skip_bad)
    if is_archive(start):
        return _of_file(path, lambda: _in_objects(read_archive(path)), skip_bad)
    if start.startswith(MAGIC):
        with open_database(path):  # whatever is wrong with it is told now
            return _of_file(path, lambda: _in_rows(path), skip_bad)
    if start.lower().startswith(_DPR_HEAD):
        return _of_file(path, lambda: _in_objects((path, n, row) for n, row in read_csv(path, "\t", _HEAD)), skip_bad)
    raise DataError(f"unknown corpus format: begins with {start[:40]!r}. Accepted: {FORMATS}.", path)


def _of_file(path: Path, read: _Reader, skip_bad: bool) -> Corpus:
    return Corpus(_name(path), read, lambda: _of_files([path], path.parent), path=path, skip_bad=skip_bad)


def _in_lines(paths: Iterable[Path]) -> _Items:
    return _in_objects((path, number, row) for path in paths for number, row in read_objects(path))


def _in_objects(objects: Iterable[tuple[Path, int, dict[str, Any] | DataError]]) -> _Items:
    for path, number, row in objects:
        place = (path, number)
        if isinstance(row, DataError):
            yield row, place
            continue
        try:
            for passage in read_page(row) if isinstance(row.get("text"), list) else [read_passage(row)]:
                yield passage, place
        except ValueError as error:
            yield DataError(str(error), *place), place


def _in_rows(path: Path) -> _Items:
    for number, found in read_database(path):
        for item in [found] if isinstance(found, DataError) else found:
            yield item, (path, number)


def _from_folder(folder: Path, skip_bad: bool) -> Corpus:
    if _is_index(folder):
        fingerprint = str(_manifest(folder).get("fingerprint", ""))
        return Corpus(_name(folder), lambda: _in_index(folder), lambda: fingerprint, path=folder, skip_bad=skip_bad)
    for name in ("corpus.jsonl", "corpus.jsonl.gz"):
        if (folder / name).is_file():
            return _from_lines(folder / name, skip_bad)
    if next(dump_files(folder), None):
        pages = partial(dump_files, folder)
        return Corpus(
            _name(folder),
            lambda: _in_lines(pages()),
            lambda: _of_files(pages(), folder),
            path=folder,
            skip_bad=skip_bad,
        )
    if next(document_files(folder), None):
        return _from_documents(folder, folder, skip_bad)
    if _manifest(folder).get("kind") == "index" or next(folder.glob("state-*"), None):
        raise DataError("an index, but a partial or damaged one; build the index again", folder)
    seen = ", ".join(sorted(entry.name for entry in folder.iterdir())[:8]) or "nothing"
    raise DataError(f"no corpus in this folder; it holds {seen}. Accepted: {FORMATS}.", folder)


def _from_documents(path: Path, root: Path, skip_bad: bool) -> Corpus:
    def files() -> Iterator[Path]:
        return document_files(path) if path.is_dir() else iter([path])

    def read() -> _Items:
        for item, file in read_documents(files(), root):
            yield item, (file, None)

    return Corpus(_name(path), read, lambda: _of_files(files(), root), path=path, skip_bad=skip_bad)


def _from_passages(source: Iterable[Passage], skip_bad: bool) -> Corpus:
    passages = tuple(source) if isinstance(source, Iterator) else source

    def read() -> _Items:
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


def _in_index(folder: Path) -> _Items:
    state = _state(folder)
    with locked(state / INDEX_READERS, wait=False, shared=True):
        if state != _state(folder):  # a writer was quicker
            yield from _in_index(folder)
            return
        removed = (state / INDEX_REMOVED).read_bytes() if (state / INDEX_REMOVED).is_file() else b""
        for item, (path, line) in _in_lines([state / INDEX_PASSAGES]):
            if not (line and removed[line - 1 : line] == b"\1"):
                yield item, (path, line)


def _is_index(path: Path) -> bool:
    return (_state(path) / INDEX_PASSAGES).is_file()


def _state(folder: Path) -> Path:
    return folder / str(_manifest(folder).get("state", ""))


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        found = orjson.loads((folder / INDEX_MANIFEST).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _name(path: Path) -> str:
    """A name for people: the folder's for a plain ``corpus.jsonl``, else the file's own without its suffixes.

    >>> _name(Path("data/hotpotqa/corpus.jsonl.gz")), _name(Path("wiki18.jsonl"))
    ('hotpotqa', 'wiki18')
    """
    path = path.resolve()
    stem = path.name.split(".")[0] or path.name
    return path.parent.name if stem == "corpus" and path.parent.name else stem


def _of_files(paths: Iterable[Path], root: Path) -> str:
    """A digest of each file's place under ``root``, size, time of change and evenly spread samples of its bytes."""
    digest = hashlib.sha256()
    for path in paths:
        status = path.stat()
        name = os.fsencode(path.relative_to(root))
        digest.update(b"%s\0%d %d\0" % (name, status.st_size, status.st_mtime_ns))
        with path.open("rb") as stream:
            step = max(_SAMPLE_BYTES, status.st_size // _SAMPLES)
            for start in range(0, status.st_size, step):
                stream.seek(start)
                digest.update(stream.read(_SAMPLE_BYTES))
    return digest.hexdigest()[:32]
