"""Passages of a corpus's files: each with its location, or the fault of its row."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from polyhop.common.sentences import passage_spans
from polyhop.data.lines import first_of, id_of, json_type, mapping_of, read_objects, require, strings_of, text_of
from polyhop.data.sources import Source
from polyhop.data.wikipedia import read_database, read_page
from polyhop.errors import DataError
from polyhop.types import Passage

ID_FIELDS = ("id", "_id", "pid", "passage_id", "docid", "idx")
TEXT_FIELDS = ("text", "contents", "paragraph_text", "content")
LONG_TEXTS = {"body": "title", "context": "corpus_name"}
"""Fields with the whole text of an article (MultiHop-RAG) or a book (GraphRAG-Bench), and the fields of their titles.
Such a text is cut into passages."""

TEXT_COLUMNS = frozenset({*TEXT_FIELDS, *LONG_TEXTS})
MAPPED = frozenset({"id", "title", "text", "links", "metadata"})
"""The fields to which the columns of a file of rows can be mapped."""

Location: TypeAlias = tuple[Path | None, int | None]
"""The file of a passage and its line or row, from 1, as far as they exist."""

Items: TypeAlias = Iterator[tuple[Passage | DataError, Location]]
"""Passages, or faults to be raised or counted."""


def passage_id(title: str, text: str) -> str:
    """Return 20 hex digits of a title and text, independent of the spaces between words.

    >>> passage_id("Emma", "Emma is  a novel.") == passage_id("Emma", "Emma is a novel. ")
    True
    """
    plain = "\0".join(" ".join(part.split()) for part in (title, text))
    return hashlib.blake2b(plain.encode(), digest_size=10).hexdigest()


def read_passage(row: dict[str, Any]) -> Passage:
    """Read one corpus line as a passage. One without an id gets one made from its title and text.

    >>> read_passage({"id": 7, "contents": '"Ada Lovelace"\\nShe wrote the first program.'})
    Passage(id='7', title='Ada Lovelace', text='She wrote the first program.', links=(), metadata={})

    Raises:
        ValueError: a field is missing, of another type, or empty; the message says which.
    """
    field = require(row, TEXT_FIELDS)
    text = text_of(row, field)
    title = row.get("title") or ""
    if not isinstance(title, str):
        raise ValueError(f"'title' is {json_type(title)}, expected a string")
    if field == "contents" and not title:
        first, _, rest = text.strip().partition("\n")
        if rest.strip():
            title, text = _unquoted(first), rest.strip()
    name = first_of(row, ID_FIELDS)
    id = id_of(row, name) if name else passage_id(title, text)
    return Passage(id, title, text, links=strings_of(row, "links"), metadata=mapping_of(row, "metadata"))


def table_delimiter(start: bytes) -> str | None:
    """Return the delimiter of a table that begins with the header of a corpus; None for anything else."""
    header = start.partition(b"\n")[0].decode("utf-8-sig", errors="replace").lower()
    delimiter = "\t" if "\t" in header else ","
    return delimiter if TEXT_COLUMNS & {name.strip(' "\r') for name in header.split(delimiter)} else None


def _unquoted(title: str) -> str:
    """Return a title without the quotation marks that some corpora put around it.

    >>> _unquoted(' "Anarchism" '), _unquoted('"Heroes" (song)')
    ('Anarchism', '"Heroes" (song)')
    """
    title = title.strip()
    wrapped = len(title) > 1 and title[0] == title[-1] == '"' and '"' not in title[1:-1]
    return title[1:-1].strip() if wrapped else title


def cut_text(row: dict[str, Any]) -> Iterator[Passage] | None:
    """Cut one of ``LONG_TEXTS`` into passages of about 100 words; None for a row with a text of its own.

    Raises:
        ValueError: a field has another type, or is empty.
    """
    name = next((name for name, title in LONG_TEXTS.items() if name in row and title in row), None)
    if name is None or row.keys() & {*TEXT_FIELDS}:
        return None
    title, text = text_of(row, LONG_TEXTS[name]), text_of(row, name)
    cuts = (" ".join(text[start:end].split()) for start, end in passage_spans(text))
    return (Passage(passage_id(title, cut), title, cut) for cut in cuts)


def passages_in_files(paths: Iterable[Path]) -> Items:
    """Yield the passages of files of JSON lines."""
    return passages_in((path, number, row) for path in paths for number, row in read_objects(path))


def passages_in(objects: Iterable[tuple[Path, int, dict[str, Any] | DataError]]) -> Items:
    """Yield the passages of numbered lines."""
    for path, number, row in objects:
        try:
            for item in [row] if isinstance(row, DataError) else _passages_of(row):
                yield item, (path, number)
        except ValueError as error:
            yield DataError(str(error), path, number), (path, number)


def passages_in_source(source: Source) -> Items:
    """Yield the passages of a JSON array, a table or a dataset of the Hub."""
    for number, row in source.rows():
        try:
            for item in [row] if isinstance(row, DataError) else _passages_of(row):
                yield item, (source.path, None)
        except ValueError as error:
            yield source.fault(number, str(error)), (source.path, None)


def _passages_of(row: dict[str, Any]) -> Iterable[Passage]:
    """Return the passages of a row: several if it is a page of HotpotQA's Wikipedia, whose text is a list, or a long
    text, else one."""
    return read_page(row) if isinstance(row.get("text"), list) else cut_text(row) or [read_passage(row)]


def passages_in_database(path: Path) -> Items:
    """Yield the passages of PathRetriever's database."""
    for number, found in read_database(path):
        for item in [found] if isinstance(found, DataError) else found:
            yield item, (path, number)
