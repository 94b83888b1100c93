"""The passages of an index, memory-mapped: JSON lines, the place of each, and a look-up by id."""

from __future__ import annotations

import mmap
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Literal

import orjson

from polyhop.data.corpora import INDEX_PASSAGES
from polyhop.errors import DataError, IndexFolderError
from polyhop.types import Passage

OFFSETS, ID_HASHES, ID_ORDINALS = "passages.offsets", "passages.id_hashes", "passages.id_ordinals"

TIE = 1e-5
"""Scores closer than this share of themselves are tied: a float32 sum depends on the order of its terms."""


class StoreWriter:
    """Writes passages of distinct ids, whole once its block ends well; holds 16 bytes each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = (folder / INDEX_PASSAGES).open("wb", buffering=1 << 20)
        self._offsets, self._hashes = array("Q", [0]), array("Q")

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self._file.close()
        if error is None:
            self._write_tables()

    def add(self, passage: Passage) -> int:
        """Append a passage; its ordinal.

        Raises:
            DataError: the passage holds what JSON cannot.
        """
        try:
            line = orjson.dumps(passage.to_dict())
        except TypeError as error:
            raise DataError(f"passage {passage.id!r} cannot be written as JSON: {error}") from error
        self._file.write(line)
        self._file.write(b"\n")
        self._offsets.append(self._offsets[-1] + len(line) + 1)
        self._hashes.append(_hash(passage.id))
        return len(self._hashes) - 1

    def _write_tables(self) -> None:
        import numpy as np

        hashes = np.frombuffer(self._hashes, dtype=np.uint64)
        order = np.argsort(hashes, kind="stable")
        np.frombuffer(self._offsets, dtype=np.uint64).tofile(self.folder / OFFSETS)
        hashes[order].tofile(self.folder / ID_HASHES)
        order.astype(np.uint32).tofile(self.folder / ID_ORDINALS)


class PassageStore:
    """The passages of an index folder by ordinal or id; nothing is held but maps of the files. Safe across threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lines = map_bytes(folder / INDEX_PASSAGES)
        self._offsets = map_numbers(folder / OFFSETS, "Q")
        self._hashes = map_numbers(folder / ID_HASHES, "Q")
        self._ordinals = map_numbers(folder / ID_ORDINALS, "I")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __iter__(self) -> Iterator[Passage]:
        """All passages in order, read as a stream: a map walked from end to end would count as memory used."""
        with (self.folder / INDEX_PASSAGES).open("rb", buffering=1 << 20) as stream:
            for ordinal, line in enumerate(stream):
                yield self._parse(line, ordinal)

    def get(self, ordinal: int) -> Passage:
        """The passage at ``ordinal``, from 0 in the order of the corpus.

        Raises:
            IndexError: there is none.
            IndexFolderError: its record is damaged.
        """
        if not 0 <= ordinal < len(self):
            raise IndexError(f"no passage {ordinal} among {len(self)}")
        return self._parse(self._lines[self._offsets[ordinal] : self._offsets[ordinal + 1]], ordinal)

    def _parse(self, line: bytes, ordinal: int) -> Passage:
        try:
            row = orjson.loads(line)
            return Passage(row["id"], row["title"], row["text"], tuple(row.get("links", ())), row.get("metadata") or {})
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise IndexFolderError(f"passage {ordinal} is damaged; build the index again", self.folder) from error

    def by_id(self, id: str) -> Passage | None:
        """The passage with this id, or None."""
        ordinal = self.ordinal(id)
        return None if ordinal is None else self.get(ordinal)

    def ordinal(self, id: str) -> int | None:
        """Where the passage with this id stands, or None."""
        wanted = _hash(id)
        place = bisect_left(self._hashes, wanted)
        while place < len(self._hashes) and self._hashes[place] == wanted:  # two ids may share a hash
            ordinal = self._ordinals[place]
            if self.get(ordinal).id == id:
                return ordinal
            place += 1
        return None

    def best(self, hits: Sequence[tuple[float, int]], k: int) -> list[tuple[Passage, float]]:
        """The first ``k`` of hits ``(score, ordinal)``, given by falling score; tied ones in the order of their ids."""
        found: list[tuple[Passage, float]] = []
        start = 0
        while start < len(hits) and len(found) < k:
            end = tied_until(hits, start)
            group = [(self.get(ordinal), score) for score, ordinal in hits[start:end]]
            found += sorted(group, key=lambda hit: hit[0].id) if len(group) > 1 else group
            start = end
        return found[:k]


def tied_until(hits: Sequence[tuple[float, int]], start: int) -> int:
    """The end of the run of tied hits that begins at ``start``.

    >>> tied_until([(3.0, 7), (3.0, 2), (2.5, 1)], 0)
    2
    """
    end = start + 1
    while end < len(hits) and hits[end - 1][0] - hits[end][0] <= TIE * hits[end - 1][0]:
        end += 1
    return end


def map_bytes(path: Path) -> mmap.mmap | bytes:
    """A file's bytes, mapped; b"" for an empty file, which cannot be mapped.

    Raises:
        IndexFolderError: the file is missing.
    """
    try:
        with path.open("rb") as stream:
            if not path.stat().st_size:
                return b""
            return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise IndexFolderError(f"partial: {path.name} is missing; build the index again", path.parent) from None


def map_numbers(path: Path, code: Literal["I", "Q"]) -> memoryview:
    """A file of unsigned numbers of 4 (``I``) or 8 (``Q``) bytes as a mapped sequence."""
    return memoryview(map_bytes(path)).cast(code)


def _hash(id: str) -> int:
    return int.from_bytes(blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8).digest(), sys.byteorder)
