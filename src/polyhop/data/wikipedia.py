"""Wikipedia with hyperlinks: HotpotQA's processed dump, and PathRetriever's sqlite database.

HotpotQA (Yang et al., 2018): the dump of 1 October 2017 at https://hotpotqa.github.io/wiki-readme.html, in two forms.
In the abstracts (``enwiki-20171001-pages-meta-current-withlinks-abstracts``), a line has ``id``, ``url``, ``title``,
``text`` (a list of sentences), ``text_with_links`` (the same with anchors) and token offsets of both. In the whole
pages (``…-processed``), ``text`` is a list of paragraphs, each a list of sentences with anchors; the first paragraph is
the title. Sentences include the space between them. The lines are in files ``AA/wiki_00.bz2``, ``AA/wiki_01.bz2`` … of
a folder, or of the ``.tar.bz2`` itself, which is read without writing anything to disk.

PathRetriever (Asai et al., "Learning to Retrieve Reasoning Paths over Wikipedia Graph for Question Answering", 2020):
one table, ``documents(id, text, linked_title, original_title)``. ``id`` is the title in decomposed Unicode, followed by
``_0``; ``linked_title`` holds the titles that the text links to, joined by tabs. For abstracts (HotpotQA), ``text`` is
their sentences, joined by tabs. For whole pages (Natural Questions), it is paragraphs with anchors, separated by blank
lines, and ``linked_title`` is empty; the first paragraph is the title, and each other one becomes a passage,
``Title_0``, ``Title_1`` … A page without text gives no passage.
"""

from __future__ import annotations

import re
import sqlite3
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Self, cast
from urllib.parse import unquote

from polyhop.data.documents import files_under
from polyhop.data.lines import (
    DAMAGED,
    MAX_LINE_BYTES,
    array_of,
    id_of,
    json_type,
    objects_in,
    open_bytes,
    require,
    text_of,
    unpack,
)
from polyhop.errors import DataError
from polyhop.types import Passage

SQLITE_MAGIC = b"SQLite format 3\0"

_DUMP_FILE = re.compile(r"(?:^|/)((?:[A-Z]{2}/)?wiki_[0-9]+(?:\.bz2|\.gz)?)$")
_TARGET = re.compile(r"""<a\s[^<>]*?href\s*=\s*["']?([^"'<>]*)""", re.IGNORECASE)
_ANCHOR = re.compile(r"</?a(?:\s[^<>]*)?>", re.IGNORECASE)
_COLUMNS = ("id", "text", "linked_title", "original_title")
_COLUMN_LIST = ", ".join(_COLUMNS)
_NUMBER = re.compile(r"_[0-9]+$")

_MAX_HEADER_BYTES = 2**16  # of a tar member's extended header; tarfile reads one whole, whatever size it claims
_EXTENSIONS = frozenset(
    {
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
        tarfile.SOLARIS_XHDTYPE,
        tarfile.GNUTYPE_LONGNAME,
        tarfile.GNUTYPE_LONGLINK,
        tarfile.GNUTYPE_SPARSE,
    }
)


def strip_links(markup: str) -> tuple[str, tuple[str, ...]]:
    """Return a text without its anchors, and the titles they lead to. Anchors may be nested, unclosed or lack a target.

    >>> strip_links('He met <a href="ada%20Lovelace%23Life">Ada</a> in <a href="Paris">Paris</a>.')
    ('He met Ada in Paris.', ('Ada Lovelace', 'Paris'))
    """
    return _ANCHOR.sub("", markup), linked_titles(markup)


def linked_titles(markup: str) -> tuple[str, ...]:
    """Return the titles that a text's anchors lead to, in order, each once. A target is a percent-encoded title, as
    WikiExtractor writes it."""
    return page_titles(map(unquote, _TARGET.findall(markup)))


def page_titles(targets: Iterable[str]) -> tuple[str, ...]:
    """Return the titles of the pages that links lead to, in order, each once: without the section, and with a capital
    first letter, as in Wikipedia.

    >>> page_titles(["political philosophy", "Émile_Zola#Works", "Political philosophy", "#top"])
    ('Political philosophy', 'Émile Zola')
    """
    titles = (" ".join(target.partition("#")[0].replace("_", " ").split()) for target in targets)
    return tuple(dict.fromkeys(title[0].upper() + title[1:] for title in titles if title))


def read_page(row: Mapping[str, Any]) -> list[Passage]:
    """Read a line of the dump: an abstract is one passage, a whole page one per paragraph (``12#1`` is the first after
    the title); none for a page without text, of which the dump has some.

    >>> linked = ["She", ' <a href="writing">wrote</a>.']
    >>> read_page({"id": "12", "title": "Ada", "text": ["She", " wrote."], "text_with_links": linked})
    [Passage(id='12', title='Ada', text='She wrote.', links=('Writing',), metadata={})]

    Raises:
        ValueError: a field is missing or of another type.
    """
    id, title = id_of(row, require(row, ("id",))), text_of(row, require(row, ("title",)))
    if any(isinstance(part, list) for part in row["text"]):
        paragraphs = [_joined({"text": part}, "text") for part in row["text"]]
        return [
            Passage(f"{id}#{i}", title, text.strip(), links)
            for i, (text, links) in enumerate(map(strip_links, paragraphs))
            if text.strip() and (i or text.strip() != title)
        ]
    text = _joined(row, "text").strip()
    links = linked_titles(_joined(row, "text_with_links"))
    return [Passage(id, title, text, links)] if text else []


def _joined(row: Mapping[str, Any], name: str) -> str:
    """Return the sentences of a field as one text; "" if it is absent or null."""
    sentences = array_of(row, name, "an array of sentences")
    for part in sentences:
        if not isinstance(part, str):
            raise ValueError(f"{name!r} holds {json_type(part)}, expected sentences")
    return "".join(sentences)


def dump_files(folder: Path) -> Iterator[Path]:
    """Yield the dump's files under a folder, sorted by path."""
    return files_under(folder, lambda name: _DUMP_FILE.search(name) is not None)


def is_tar(start: bytes) -> bool:
    """Return True if the first bytes of an unpacked file are those of a tar archive."""
    return start[257:262] == b"ustar"


def read_dump_archive(path: Path) -> Iterator[tuple[Path, int, dict[str, Any] | DataError]]:
    """Yield each line of the dump's files in an archive: its path (the archive's, then the file's), its number, and its
    object or fault. Other members are ignored; one line is held at a time.

    Raises:
        DataError: the archive is damaged or has headers that would fill the memory.
    """
    try:
        with open_bytes(path) as stream, tarfile.open(fileobj=stream, mode="r|", tarinfo=_Header) as archive:
            while member := archive.next():
                archive.members.clear()  # type: ignore[attr-defined]  # it would keep every header it has seen
                name = _DUMP_FILE.search(member.name)
                if name and member.isreg():
                    location = path / name[1]
                    lines = unpack(cast(BinaryIO, archive.extractfile(member)), member.size, location)
                    for number, row in objects_in(lines, location):
                        yield location, number, row
    except (tarfile.TarError, *DAMAGED) as error:
        raise DataError(f"damaged archive: {error}", path) from error


class _Header(tarfile.TarInfo):
    """A member's header. A damaged header, which tarfile takes for the end, and one that claims too much are errors."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        try:
            header = super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if any(buf):
                raise tarfile.ReadError(f"a member's header is damaged ({error})") from None
            raise  # a block of zeros, or nothing: the end
        if header.type in _EXTENSIONS and header.size > _MAX_HEADER_BYTES:
            raise tarfile.ReadError(f"an extended header of {header.size} bytes")
        return header


@contextmanager
def open_database(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the database read-only, if it has the table. No value in it may exceed ``MAX_LINE_BYTES``.

    Raises:
        DataError: it is not a database, is damaged, or has other tables.
    """
    try:
        uri = f"{path.resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, check_same_thread=False)) as database:
            database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_LINE_BYTES)
            database.execute("PRAGMA trusted_schema = OFF")
            tables = sorted(name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'"))
            columns = {row[1] for row in database.execute("PRAGMA table_info(documents)")}
            if "documents" not in tables or not columns.issuperset(_COLUMNS):
                found = f"documents({', '.join(sorted(columns))})" if columns else ", ".join(tables) or "no table"
                raise DataError(f"unknown sqlite database: it has {found}; expected documents({_COLUMN_LIST})", path)
            database.text_factory = bytes  # text that is not UTF-8 is the fault of its row, not of the whole file
            yield database
    except sqlite3.Error as error:
        raise DataError(f"cannot be read as sqlite: {error}", path) from error


def read_database(path: Path) -> Iterator[tuple[int, list[Passage] | DataError]]:
    """Yield the number of each row, and its passages or its fault, to be raised or counted.

    Raises:
        DataError: as ``open_database`` does.
    """
    with open_database(path) as database:
        for number, *values in database.execute(f"SELECT rowid, {_COLUMN_LIST} FROM documents"):
            try:
                yield number, _passages(dict(zip(_COLUMNS, map(_decode, values), strict=True)))
            except ValueError as error:
                yield number, DataError(str(error), path, number)


def _decode(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{value[:40]!r} is not UTF-8 text (byte {error.start})") from None


def _passages(row: Mapping[str, Any]) -> list[Passage]:
    id, text = id_of(row, require(row, ("id",))), _string(row, require(row, ("text",)))
    article = _NUMBER.sub("", id)
    title, linked = _string(row, "original_title") or article, _string(row, "linked_title")
    paragraphs = [text] if linked else text.split("\n\n")
    if len(paragraphs) > 1:
        texts = {f"{article}_{i}": strip_links(paragraph) for i, paragraph in enumerate(paragraphs[1:])}
    else:
        plain, links = strip_links(text.replace("\t", ""))
        texts = {id: (plain, page_titles(linked.split("\t")) or links)}
    return [Passage(name, title, plain.strip(), links) for name, (plain, links) in texts.items() if plain.strip()]


def _string(row: Mapping[str, Any], name: str) -> str:
    value = row[name]
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{name!r} is {json_type(value)}, expected a string")
    return value
