"""Open a corpus of any format: a reader per format."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType

import orjson

from polyhop.common.files import digest_of, path_text
from polyhop.data import path_or_demo
from polyhop.data.converting.converter import TABLES, Converter, suffix_of
from polyhop.data.corpus import Corpus, Read, Unread
from polyhop.data.documents import READING_VERSION, document_files, read_documents, source_of, survey
from polyhop.data.index_folder import is_broken_index, is_index, manifest_of, read_index
from polyhop.data.lines import json_type, part_of, peek
from polyhop.data.passages import (
    MAPPED,
    TEXT_COLUMNS,
    Items,
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
    "database; a document or a folder of them (.txt, .log, .md, .rst, .adoc, .org, .html, .epub, .xlsx, .pptx, .csv, "
    ".tsv, .eml, .mbox, .ipynb, README and the like, source code; .pdf and .docx by the extra docs); an index folder; "
    "hf:DATASET[:CONFIG]; a list of Passage"
)


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
    if suffix_of(path.name) and path.is_file() and not _is_table_of_passages(path):
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
    read: Read,
    skip_bad: bool,
    files: Callable[[], Iterable[Path]] | None = None,
    unread: Callable[[], Unread] | None = None,
    fields: Mapping[str, str] = MappingProxyType({}),
    count: Callable[[], int] | None = None,
) -> Corpus:
    """Return the corpus of a file, or of the ``files`` of a folder."""

    def fingerprint() -> str:
        version = READING_VERSION if unread else _mark(fields)
        return digest_of(files() if files else [path], path if path.is_dir() else path.parent, version)

    return Corpus(_name(path), read, fingerprint, path=path, skip_bad=skip_bad, unread=unread, count=count)


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
    if is_broken_index(folder):
        raise DataError("an index, but a partial or damaged one; build the index again", folder)
    if next(document_files(folder), None):
        return _from_documents(folder, skip_bad)
    seen = ", ".join(sorted(entry.name for entry in folder.iterdir())[:8]) or "nothing"
    accepted = "documents (.txt, .md, .html, .pdf, .docx, …; see docs/corpora.md), corpus.jsonl, or an index"
    raise DataError(f"no corpus in this folder; it holds {seen}. Accepted in a folder: {accepted}.", folder)


def _from_documents(path: Path, skip_bad: bool) -> Corpus:
    root = path if path.is_dir() else path.parent

    def files() -> list[Path]:
        return survey(path)[0] if path.is_dir() else [path]

    def unread() -> Unread:
        return survey(path)[1] if path.is_dir() else Unread()

    def read() -> Items:
        for item, file in read_documents((file, source_of(file, root)) for file in files()):
            yield item, (file, None)

    return _of_files(path, read, skip_bad or path.is_dir(), files, unread, count=lambda: len(files()))


def corpus_of_files(name: str, files: Mapping[str, Path], unread: Unread, converter: Converter | None = None) -> Corpus:
    """Open documents that are stored under other names than people know them by, such as uploaded ones.

    Args:
        files: documents by the relative path that people know them by. Only this path is shown.
        unread: the number of files left out before, by kind and reason.
        converter: converts the documents; it can be stopped.
    """
    sources = {path: source for source, path in files.items()}

    def renamed(error: DataError, source: str) -> DataError:
        return DataError(str(error).removeprefix(f"{error.path}: "), source)

    def read() -> Items:
        try:
            for item, file in read_documents(((file, source) for source, file in files.items()), converter):
                source = sources[file]
                yield renamed(item, source) if isinstance(item, DataError) else item, (Path(source), None)
        except DataError as error:
            raise renamed(error, sources.get(Path(str(error.path)), name)) from None

    def fingerprint() -> str:
        digest = hashlib.sha256(READING_VERSION)
        for source, file in files.items():
            digest.update(orjson.dumps([source, hashlib.sha256(file.read_bytes()).hexdigest()]))
        return digest.hexdigest()[:32]

    return Corpus(name, read, fingerprint, path=None, skip_bad=True, unread=lambda: unread, count=lambda: len(files))


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
