"""Triplets that a model extracted from passages (open information extraction), in the files of HippoRAG.

A file is one JSON object, ``{"docs": [{"idx", "passage", "extracted_entities", "extracted_triples"}]}``. A passage is
its title and its text with a line break between them, so that it is found in any corpus that has it, whatever its id.
HippoRAG (Gutiérrez et al., 2024 and 2025) releases such files, and reads those that are written here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import md5
from pathlib import Path
from typing import Any

import orjson

from polyhop.common.files import atomic_write
from polyhop.common.text import normalise_unicode
from polyhop.errors import DataError
from polyhop.types import Passage

PARTS = ("head", "relation", "tail")


@dataclass(frozen=True, slots=True)
class Extraction:
    """The named entities and the triplets of a passage; a triplet has ``head``, ``relation`` and ``tail``."""

    passage: str
    entities: tuple[str, ...]
    triplets: tuple[Mapping[str, str], ...]


def content_of(passage: Passage) -> str:
    """Write a passage as the files do.

    >>> content_of(Passage("1", "Alien", "A film of 1979."))
    'Alien\\nA film of 1979.'
    """
    return f"{passage.title}\n{passage.text}"


def key_of(content: str) -> str:
    """Return the key under which the content of a passage is looked up: without differences of spacing or encoding."""
    return " ".join(normalise_unicode("NFC", content).split())


def read_openie(path: str | Path) -> dict[str, Extraction]:
    """Read the extractions of a file, by ``key_of`` their passages. Rows that are not triplets, which models sometimes
    write, are dropped; of a passage that occurs twice the last one counts.

    Raises:
        DataError: the file cannot be read, or has another form.
    """
    path = Path(path).expanduser()
    try:
        docs = orjson.loads(path.read_bytes())["docs"]
        found = (_extraction(doc) for doc in docs)
        return {key_of(extraction.passage): extraction for extraction in found}
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path) from None
    except (orjson.JSONDecodeError, LookupError, TypeError, AttributeError) as error:
        message = f'is not a file of triplets: {{"docs": [{{"passage": …, "extracted_triples": …}}]}} ({error!r:.80})'
        raise DataError(message, path) from None


def write_openie(path: str | Path, extractions: Iterable[Extraction]) -> None:
    """Write extractions into a file, which is replaced in one step.

    Raises:
        DataError: the file cannot be written.
    """
    docs = [
        {
            "idx": f"chunk-{md5(found.passage.encode(), usedforsecurity=False).hexdigest()}",
            "passage": found.passage,
            "extracted_entities": found.entities,
            "extracted_triples": [[triplet[part] for part in PARTS] for triplet in found.triplets],
        }
        for found in extractions
    ]
    with atomic_write(Path(path)) as stream:
        stream.write(orjson.dumps({"docs": docs}))


def _extraction(doc: Mapping[str, Any]) -> Extraction:
    if not isinstance(doc["passage"], str):
        raise TypeError("a passage that is no text")
    entities = tuple(filter(None, map(_text, doc.get("extracted_entities") or ())))
    rows = [tuple(map(_text, row)) for row in doc["extracted_triples"] or () if isinstance(row, list)]
    triplets = tuple(dict(zip(PARTS, row, strict=True)) for row in rows if len(row) == len(PARTS) and all(row))
    return Extraction(doc["passage"], entities, triplets)


def _text(part: Any) -> str:
    return " ".join(str(part).split()) if isinstance(part, (str, int, float)) else ""
