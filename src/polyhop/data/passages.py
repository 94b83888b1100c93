"""Passages of a corpus's files: each with its location, or the fault of its row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from polyhop.data.lines import id_of, json_type, mapping_of, read_objects, require, strings_of, text_of
from polyhop.data.wikipedia import read_database, read_page
from polyhop.errors import DataError
from polyhop.types import Passage

ID_FIELDS = ("id", "_id", "pid", "passage_id")
TEXT_FIELDS = ("text", "contents")

Location: TypeAlias = tuple[Path | None, int | None]
"""The file of a passage and its line or row, from 1, as far as they exist."""

Items: TypeAlias = Iterator[tuple[Passage | DataError, Location]]
"""Passages, or faults to be raised or counted."""


def read_passage(row: dict[str, Any]) -> Passage:
    """Read one corpus line as a passage.

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
    """Return a title without the quotation marks that some corpora put around it.

    >>> _unquoted(' "Anarchism" '), _unquoted('"Heroes" (song)')
    ('Anarchism', '"Heroes" (song)')
    """
    title = title.strip()
    wrapped = len(title) > 2 and title[0] == title[-1] == '"' and '"' not in title[1:-1]
    return title[1:-1].strip() if wrapped else title


def passages_in_files(paths: Iterable[Path]) -> Items:
    """Yield the passages of files of JSON lines."""
    return passages_in((path, number, row) for path in paths for number, row in read_objects(path))


def passages_in(objects: Iterable[tuple[Path, int, dict[str, Any] | DataError]]) -> Items:
    """Yield the passages of numbered rows. A row whose text is a list is a page of HotpotQA's Wikipedia."""
    for path, number, row in objects:
        location = (path, number)
        if isinstance(row, DataError):
            yield row, location
            continue
        try:
            for passage in read_page(row) if isinstance(row.get("text"), list) else [read_passage(row)]:
                yield passage, location
        except ValueError as error:
            yield DataError(str(error), *location), location


def passages_in_database(path: Path) -> Items:
    """Yield the passages of PathRetriever's database."""
    for number, found in read_database(path):
        for item in [found] if isinstance(found, DataError) else found:
            yield item, (path, number)
