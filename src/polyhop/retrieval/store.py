"""The passages of an index, memory-mapped: JSON lines, the offset and checksum of each line, and a look-up by id.

A passage keeps its ordinal, the number of its row, through updates: new passages come last, and the row of a removed
one stays, marked by a byte.
"""

from __future__ import annotations

import mmap
import os
import shutil
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from zlib import crc32

import orjson

from polyhop.common.files import open_inside
from polyhop.data.index_folder import INDEX_PASSAGES, INDEX_REMOVED
from polyhop.errors import DataError, IndexFolderError
from polyhop.types import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

OFFSETS, CHECKSUMS = "passages.offsets", "passages.checksums"
ID_HASHES, ID_ORDINALS = "passages.id_hashes", "passages.id_ordinals"

TIE = 1e-5
"""Relative difference below which scores are tied: a float32 sum depends on the order of its terms."""


class StoreWriter:
    """Writes passages with distinct ids; they are complete once its block succeeds. It holds 20 bytes per passage.

    With ``base``, they follow the rows of that store, of which the ordinals ``removed`` are marked as removed.
    """

    def __init__(self, folder: Path, base: PassageStore | None = None, removed: Iterable[int] = ()) -> None:
        self.folder = folder
        self._base, self._removed = base, list(removed)
        if base:
            for name in (INDEX_PASSAGES, OFFSETS, CHECKSUMS):
                shutil.copyfile(base.folder / name, folder / name)
        self._file = (folder / INDEX_PASSAGES).open("ab", buffering=1 << 20)
        self._rows = base.rows if base else 0
        self._end = self._file.tell()
        self._offsets = array("Q") if base else array("Q", [0])
        self._checksums, self._hashes = array("I"), array("Q")

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self._file.close()
        if error is None:
            self._write_tables()

    def add(self, passage: Passage) -> int:
        """Append a passage and return its ordinal.

        Raises:
            DataError: the passage holds a value that JSON cannot represent.
        """
        try:
            line = orjson.dumps(passage.to_dict())
        except TypeError as error:
            raise DataError(f"passage {passage.id!r} cannot be written as JSON: {error}") from error
        line += b"\n"
        self._file.write(line)
        self._end += len(line)
        self._offsets.append(self._end)
        self._checksums.append(crc32(line))
        self._hashes.append(_hash(passage.id))
        return self._rows + len(self._hashes) - 1

    def _write_tables(self) -> None:
        import numpy as np

        for name, added in ((OFFSETS, self._offsets), (CHECKSUMS, self._checksums)):
            with (self.folder / name).open("ab") as stream:
                added.tofile(stream)
        hashes = np.frombuffer(self._hashes, dtype=np.uint64)
        ordinals = np.arange(self._rows, self._rows + len(hashes), dtype=np.uint32)
        removed = np.zeros(self._rows + len(hashes), dtype=np.bool_)
        if self._base:
            known_hashes, known_ordinals = self._base.id_table()
            hashes, ordinals = np.concatenate([known_hashes, hashes]), np.concatenate([known_ordinals, ordinals])
            if self._base.removed is not None:
                removed[: self._rows] = self._base.removed
        order = np.argsort(hashes, kind="stable")
        hashes[order].tofile(self.folder / ID_HASHES)
        ordinals[order].tofile(self.folder / ID_ORDINALS)
        removed[self._removed] = True
        if removed.any():
            removed.tofile(self.folder / INDEX_REMOVED)


class PassageStore:
    """The passages of an index folder, by ordinal or id. Its files are mapped, not read. Safe across threads.

    Attributes:
        rows: the number of rows, removed passages included; the length counts the others.
        removed: (rows,), True for removed passages; None if there are none.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lines = map_bytes(folder / INDEX_PASSAGES)
        self._offsets = map_numbers(folder / OFFSETS, "Q")
        self._checksums = map_numbers(folder / CHECKSUMS, "I")
        self._hashes = map_numbers(folder / ID_HASHES, "Q")
        self._ordinals = map_numbers(folder / ID_ORDINALS, "I")
        self.rows = len(self._checksums)
        self.removed = _removed(folder)
        marked = self.rows if self.removed is None else len(self.removed)
        if not len(self._offsets) - 1 == len(self._hashes) == len(self._ordinals) == marked == self.rows:
            raise IndexFolderError("its tables are of different lengths; build the index again", folder)
        self._length = self.rows - (0 if self.removed is None else int(self.removed.sum()))

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Passage]:
        """Read all passages in order, as a stream: reading the whole map would count as used memory."""
        return (passage for ordinal, passage in enumerate(self.all_rows()) if self.is_live(ordinal))

    def all_rows(self, start: int = 0) -> Iterator[Passage]:
        """Read the passages of all rows from ``start``, with removed ones, as a stream."""
        return (self._parse(line, ordinal) for ordinal, line in enumerate(self.all_lines(start), start))

    def all_lines(self, start: int = 0) -> Iterator[bytes]:
        """Read the lines of ``all_rows`` unchecked: the JSON of ``Passage.to_dict``."""
        with (self.folder / INDEX_PASSAGES).open("rb", buffering=1 << 20) as stream:
            stream.seek(min(self._offsets[start], len(self._lines)))
            yield from stream

    def get(self, ordinal: int) -> Passage:
        """Return the passage at ``ordinal``, from 0 in the order of the corpus.

        Raises:
            IndexError: there is none, or it was removed.
            IndexFolderError: its line is damaged.
        """
        if not 0 <= ordinal < self.rows:
            raise IndexError(f"no passage {ordinal} among {self.rows}")
        if not self.is_live(ordinal):
            raise IndexError(f"passage {ordinal} was removed")
        return self._parse(self._lines[self._offsets[ordinal] : self._offsets[ordinal + 1]], ordinal)

    def is_live(self, ordinal: int) -> bool:
        """Return False if the passage of a row was removed."""
        return self.removed is None or not self.removed[ordinal]

    def _parse(self, line: bytes, ordinal: int) -> Passage:
        if ordinal >= self.rows or crc32(line) != self._checksums[ordinal]:
            raise IndexFolderError(f"passage {ordinal} is damaged; build the index again", self.folder)
        try:
            row = orjson.loads(line)
            texts = (row["id"], row["title"], row["text"], *(links := tuple(row.get("links", ()))))
            if not all(isinstance(text, str) for text in texts):
                raise TypeError(texts)
            return Passage(row["id"], row["title"], row["text"], links, row.get("metadata") or {})
        except (ValueError, KeyError, TypeError, AttributeError):
            message = f"passage {ordinal} is not as it was written; build the index again"
            raise IndexFolderError(message, self.folder) from None

    def by_id(self, id: str) -> Passage | None:
        """Return the passage with this id, or None."""
        ordinal = self.ordinal(id)
        return None if ordinal is None else self.get(ordinal)

    def ordinal(self, id: str) -> int | None:
        """Return the ordinal of the passage with this id, or None."""
        wanted = _hash(id)
        i = bisect_left(self._hashes, wanted)
        while i < len(self._hashes) and self._hashes[i] == wanted:  # two ids may share a hash
            ordinal = self._ordinals[i]
            if ordinal >= self.rows:
                raise IndexFolderError(f"{ID_ORDINALS} is damaged; build the index again", self.folder)
            if self.is_live(ordinal) and self.get(ordinal).id == id:
                return ordinal
            i += 1
        return None

    def id_table(self) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
        """Return the hashes of the ids of all rows, rising, and the ordinal of each."""
        import numpy as np

        return np.frombuffer(self._hashes, dtype=np.uint64), np.frombuffer(self._ordinals, dtype=np.uint32)

    def best(self, hits: Sequence[tuple[float, int]], k: int) -> list[tuple[Passage, float]]:
        """Return the first ``k`` of hits ``(score, ordinal)``, given by falling score; ties are broken by passage id.

        Raises:
            IndexFolderError: a passage does not exist, so the index that found it is damaged.
        """
        found: list[tuple[Passage, float]] = []
        start = 0
        while start < len(hits) and len(found) < k:
            end = tied_until(hits, start)
            try:
                group = [(self.get(ordinal), score) for score, ordinal in hits[start:end]]
            except (IndexError, TypeError) as error:
                raise IndexFolderError(f"is damaged ({error}); build the index again", self.folder) from None
            found += sorted(group, key=lambda hit: hit[0].id) if len(group) > 1 else group
            start = end
        return found[:k]

    def best_scored(
        self, ordinals: NDArray[np.intp], scores: NDArray[np.floating[Any]], k: int
    ) -> list[tuple[Passage, float]]:
        """Return the ``k`` best of passages in any order, as ``best`` does."""
        import numpy as np

        if len(scores) > k:
            kept = scores >= np.partition(scores, len(scores) - k)[len(scores) - k] * (1 - TIE)
            ordinals, scores = ordinals[kept], scores[kept]
        order = np.argsort(-scores, kind="stable")
        return self.best(list(zip(scores[order].tolist(), ordinals[order].tolist(), strict=True)), k)


def _removed(folder: Path) -> NDArray[np.bool_] | None:
    if not (folder / INDEX_REMOVED).exists():
        return None
    import numpy as np

    return np.frombuffer(map_bytes(folder / INDEX_REMOVED), dtype=np.bool_)


def tied_until(hits: Sequence[tuple[float, int]], start: int) -> int:
    """Return the end of the run of tied hits that begins at ``start``.

    >>> tied_until([(3.0, 7), (3.0, 2), (2.5, 1)], 0)
    2
    """
    end = start + 1
    while end < len(hits) and hits[end - 1][0] - hits[end][0] <= TIE * hits[end - 1][0]:
        end += 1
    return end


def map_bytes(path: Path) -> mmap.mmap | bytes:
    """Map a file's bytes; b"" for an empty file, which cannot be mapped.

    Raises:
        IndexFolderError: the file is missing or cannot be read.
    """
    try:
        with open_inside(path.parent, path.name) as stream:
            if not path.stat().st_size:
                return b""
            return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise IndexFolderError(f"partial: {path.name} is missing; build the index again", path.parent) from None
    except OSError as error:
        message = f"{path.name} cannot be read: {error.strerror}; build the index again"
        raise IndexFolderError(message, path.parent) from None


def allocate(path: Path) -> None:
    """Reserve disk space for a whole file before it is written as a map: a full disk is an ``OSError`` now, but would
    kill the process later. Does nothing if the system does not support it."""
    if hasattr(os, "posix_fallocate") and (size := path.stat().st_size):
        with path.open("rb+") as stream:
            os.posix_fallocate(stream.fileno(), 0, size)


def map_numbers(path: Path, code: Literal["I", "Q"]) -> memoryview:
    """Map a file of unsigned numbers of 4 (``I``) or 8 (``Q``) bytes as a sequence.

    Raises:
        IndexFolderError: the file is missing, or its size is not a multiple of theirs.
    """
    try:
        return memoryview(map_bytes(path)).cast(code)
    except TypeError:
        raise IndexFolderError(f"{path.name} is truncated; build the index again", path.parent) from None


def _hash(id: str) -> int:
    return int.from_bytes(blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8).digest(), sys.byteorder)
