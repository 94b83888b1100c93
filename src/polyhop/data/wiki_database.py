"""PathRetriever's sqlite database of Wikipedia (Asai et al., "Learning to Retrieve Reasoning Paths over Wikipedia Graph
for Question Answering", 2020) as passages with hyperlinks.

One table, ``documents(id, text, linked_title, original_title)``. ``id`` is the title in decomposed Unicode with ``_0``
after it; ``linked_title`` the titles the text links to, joined by tabs. Of abstracts (HotpotQA) ``text`` is their
sentences, joined by tabs; of whole pages (Natural Questions) it is paragraphs with anchors, a blank line between them,
the first the title, and ``linked_title`` is empty: each of the others becomes a passage, ``Title_0``, ``Title_1`` …
A page without text is no passage.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from polyhop.data.hyperlinks import page_titles, unlinked
from polyhop.data.lines import MAX_LINE_BYTES, id_of, json_type, require
from polyhop.errors import DataError
from polyhop.types import Passage

MAGIC = b"SQLite format 3\0"

_COLUMNS = ("id", "text", "linked_title", "original_title")
_FIELDS = ", ".join(_COLUMNS)
_NUMBER = re.compile(r"_[0-9]+$")


@contextmanager
def open_database(path: Path) -> Iterator[sqlite3.Connection]:
    """The database, open for reading alone and only if it has the table; no value in it may exceed ``MAX_LINE_BYTES``.

    Raises:
        DataError: it is not a database, damaged, or of other tables.
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
                raise DataError(f"unknown sqlite database: it has {found}; expected documents({_FIELDS})", path)
            database.text_factory = bytes  # a text that is not UTF-8 is its row's fault, not the whole file's
            yield database
    except sqlite3.Error as error:
        raise DataError(f"cannot be read as sqlite: {error}", path) from error


def read_database(path: Path) -> Iterator[tuple[int, list[Passage] | DataError]]:
    """Each row as its number and its passages, or the fault it has, to raise or to count.

    Raises:
        DataError: as ``open_database`` does.
    """
    with open_database(path) as database:
        for number, *values in database.execute(f"SELECT rowid, {_FIELDS} FROM documents"):
            try:
                yield number, _passages(dict(zip(_COLUMNS, map(_decoded, values), strict=True)))
            except ValueError as error:
                yield number, DataError(str(error), path, number)


def _decoded(value: Any) -> Any:
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
        texts = {f"{article}_{place}": unlinked(paragraph) for place, paragraph in enumerate(paragraphs[1:])}
    else:
        plain, links = unlinked(text.replace("\t", ""))
        texts = {id: (plain, page_titles(linked.split("\t")) or links)}
    return [Passage(name, title, plain.strip(), links) for name, (plain, links) in texts.items() if plain.strip()]


def _string(row: Mapping[str, Any], name: str) -> str:
    value = row[name]
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{name!r} is {json_type(value)}, expected a string")
    return value
