"""The postings of an index: for each term the passages that have it, and how often, in a folder that is memory-mapped.

They are built on first use and stored in the index's folder: 5 bytes per distinct term of a passage. Terms are words of
the index's analysis, or the buckets of hashed bigrams, of which those in use are stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyhop.common.files import locked
from polyhop.errors import IndexFolderError
from polyhop.retrieval.analysis import Analysis
from polyhop.retrieval.hashed_bigrams import HashedBigrams, buckets
from polyhop.retrieval.sealed_folder import check, new_folder, sidecar_dir, write_manifest
from polyhop.retrieval.store import allocate, map_bytes, map_numbers

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from polyhop.retrieval.index import Index

KIND, VERSION = "TF-IDF", 1
MAX_TF = 255
"""Maximum count of a term in a passage: counts are kept in one byte."""

_BLOCK = 20_000  # passages whose postings are sorted together in memory


@dataclass(frozen=True, slots=True)
class Weighting:
    """The weight of a term in a text: ``tf(count)`` · ``idf(passages, those that have it)``, of numbers or arrays.

    ``has_unit_length``: True if a text's weights are scaled to a vector of length 1.
    """

    tf: Callable[[Any], Any]
    idf: Callable[[int, Any], Any]
    has_unit_length: bool


class Vocabulary(ABC):
    """The terms of texts, by number. ``folder``: the name of the folder of their postings."""

    folder: str

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis

    @abstractmethod
    def number(self, texts: Iterable[str]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """Return the numbers of the terms of each text, in its order, and the number of terms of each text."""

    @abstractmethod
    def write(self, folder: Path, used: NDArray[np.int64]) -> None:
        """Write the terms of the passages, whose numbers, ``used``, are in ascending order."""

    @abstractmethod
    def open(self, folder: Path) -> None:
        """Open what ``write`` has written."""

    @abstractmethod
    def find(self, text: str) -> list[tuple[int, int]]:
        """Return the terms of a text that passages have, by their positions in ``used``, each with its count."""


class Words(Vocabulary):
    """The words of the analysis, numbered in the order of their first look-up."""

    folder = "tfidf"

    def __init__(self, analysis: Analysis) -> None:
        super().__init__(analysis)
        self._numbering = _Numbering()

    def number(self, texts: Iterable[str]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        return _numbered(map(self._analysis.terms, texts), self._numbering)

    def write(self, folder: Path, used: NDArray[np.int64]) -> None:
        import numpy as np

        order = sorted(self._numbering)  # by code point, which is the order of the UTF-8 bytes too
        encoded = [term.encode() for term in order]
        (folder / "terms").write_bytes(b"".join(encoded))
        ends = np.cumsum(np.fromiter(map(len, encoded), dtype=np.uint64, count=len(encoded)))
        ends.astype(np.uint64).tofile(folder / "term_ends")
        numbers = np.fromiter(map(self._numbering.__getitem__, order), dtype=np.uint32, count=len(order))
        numbers.tofile(folder / "term_numbers")

    def open(self, folder: Path) -> None:
        self._terms = _TermList(folder)

    def find(self, text: str) -> list[tuple[int, int]]:
        counts = Counter(self._analysis.terms(text))
        return [(number, count) for term, count in counts.items() if (number := self._terms.find(term)) is not None]


class Buckets(Vocabulary):
    """The words and bigrams of DrQA, each numbered by its hash."""

    folder = "tfidf-bigram"

    def __init__(self, analysis: Analysis) -> None:
        super().__init__(analysis)
        self._bigrams = HashedBigrams(analysis)

    def number(self, texts: Iterable[str]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        distinct = _Numbering()
        numbers, lengths = _numbered(map(self._bigrams.terms, texts), distinct)
        return buckets(list(distinct))[numbers], lengths

    def write(self, folder: Path, used: NDArray[np.int64]) -> None:
        used.astype("<u4").tofile(folder / "buckets")

    def open(self, folder: Path) -> None:
        self._used = map_numbers(folder / "buckets", "I")

    def find(self, text: str) -> list[tuple[int, int]]:
        counts = Counter(buckets(self._bigrams.terms(text)).tolist())
        positions = ((bisect_left(self._used, bucket), bucket) for bucket in counts)
        return [(i, counts[bucket]) for i, bucket in positions if i < len(self._used) and self._used[i] == bucket]


class Postings:
    """The opened postings of an index.

    Attributes:
        folder: theirs.
        starts: the start of each term's postings, and the end of all.
        ordinals, counts: of each posting, the passage and the count of the term in it.
        norms: the length of each passage's vector; None if vectors are not scaled.
    """

    def __init__(
        self,
        index: Index,
        vocabulary: Vocabulary,
        weighting: Weighting,
        progress: Callable[[int], object] | None = None,
    ) -> None:
        import numpy as np

        self.folder = folder = _folder_for(index, vocabulary, weighting, progress)
        vocabulary.open(folder)
        self.starts = map_numbers(folder / "starts", "Q")
        self.ordinals = np.frombuffer(map_bytes(folder / "ordinals"), dtype=np.uint32)
        self.counts = np.frombuffer(map_bytes(folder / "counts"), dtype=np.uint8)
        self.norms = np.frombuffer(map_bytes(folder / "norms"), dtype=np.float32) if weighting.has_unit_length else None

    def row(self, term: int) -> slice:
        """Return the positions of a term's postings."""
        return slice(self.starts[term], self.starts[term + 1])


class _TermList:
    """The sorted terms of a postings folder and their numbers, memory-mapped."""

    def __init__(self, folder: Path) -> None:
        self._bytes = map_bytes(folder / "terms")
        self._ends = map_numbers(folder / "term_ends", "Q")
        self._numbers = map_numbers(folder / "term_numbers", "I")

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, i: int) -> bytes:
        return self._bytes[self._ends[i - 1] if i else 0 : self._ends[i]]

    def find(self, term: str) -> int | None:
        """Return the number of a term, or None."""
        wanted = term.encode()
        i = bisect_left(self, wanted)
        return self._numbers[i] if i < len(self) and self[i] == wanted else None


class _Numbering(dict[str, int]):
    """Numbers terms in the order of their first look-up."""

    def __missing__(self, term: str) -> int:
        number = self[term] = len(self)
        return number


def _numbered(texts: Iterable[Iterable[str]], numbering: _Numbering) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Number the terms of texts; return all numbers, and the number of terms of each text."""
    import numpy as np

    numbers, lengths = array("I"), array("I")
    for terms in texts:
        before = len(numbers)
        numbers.extend(map(numbering.__getitem__, terms))
        lengths.append(len(numbers) - before)
    return np.frombuffer(numbers, dtype=np.uint32), np.frombuffer(lengths, dtype=np.uint32)


def _folder_for(
    index: Index, vocabulary: Vocabulary, weighting: Weighting, progress: Callable[[int], object] | None
) -> Path:
    """Return the folder of the postings, built on first use; it is in the cache if the index is read-only."""
    folder = sidecar_dir(index.state, vocabulary.folder, repr((index.fingerprint, *index.analysis.settings)))
    if not folder.is_dir():
        with locked(folder.with_suffix(".lock")):
            if not folder.is_dir():
                with new_folder(folder, kind=KIND, within=folder.parent) as building:
                    _build(index, building, vocabulary, weighting, progress)
                    write_manifest(building, kind=KIND, version=VERSION, facts={"fingerprint": index.fingerprint})
    facts = check(folder, kind=KIND, version=VERSION)
    if facts["fingerprint"] != index.fingerprint:
        raise IndexFolderError(f"made for another corpus than {index.name!r}; remove it", folder)
    return folder


def _build(
    index: Index,
    folder: Path,
    vocabulary: Vocabulary,
    weighting: Weighting,
    progress: Callable[[int], object] | None,
) -> None:
    """Write the postings in two passes: first sorted blocks, then each block scattered to its positions.

    The vocabulary and the postings of one block of passages are in memory.
    """
    import numpy as np

    passages = (
        f"{passage.title}\n{passage.text}" if index.passages.is_live(ordinal) else ""  # removed ones have no terms
        for ordinal, passage in enumerate(index.passages.all_rows())
    )
    blocks: list[tuple[int, int, Path]] = []
    used = np.zeros(0, dtype=np.int64)
    for start in range(0, index.rows, _BLOCK):
        end = min(start + _BLOCK, index.rows)
        blocks.append((start, end, folder / f"block{start}"))
        used = np.union1d(used, _write_block(islice(passages, end - start), vocabulary, blocks[-1][2]))
        if progress:
            progress(end)
    vocabulary.write(folder, used)
    frequency = np.zeros(len(used), dtype=np.int64)
    for _, _, path in blocks:
        terms, _, _ = _read_block(path, used)
        frequency += np.bincount(terms, minlength=len(used))
    starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(frequency)])
    starts.astype(np.uint64).tofile(folder / "starts")
    size = max(1, int(starts[-1]))  # a file of no bytes cannot be mapped
    ordinals = np.memmap(folder / "ordinals", dtype=np.uint32, mode="w+", shape=(size,))
    counts = np.memmap(folder / "counts", dtype=np.uint8, mode="w+", shape=(size,))
    for name in ("ordinals", "counts"):
        allocate(folder / name)
    idf = weighting.idf(len(index), frequency)
    norms = np.ones(index.rows, dtype=np.float32)
    free = starts[:-1].copy()
    for start, end, path in blocks:
        terms, documents, tf = _read_block(path, used)
        distinct, first, sizes = np.unique(terms, return_index=True, return_counts=True)
        positions = free[terms] + np.arange(len(terms)) - np.repeat(first, sizes)
        ordinals[positions], counts[positions] = documents + start, tf
        free[distinct] += sizes
        weights = weighting.tf(tf.astype(np.float64)) * idf[terms]
        lengths = np.sqrt(np.bincount(documents, weights**2, minlength=end - start))
        norms[start:end] = np.where(lengths > 0, lengths, 1)
        path.unlink()
    if weighting.has_unit_length:
        norms.tofile(folder / "norms")


def _write_block(texts: Iterable[str], vocabulary: Vocabulary, path: Path) -> NDArray[np.int64]:
    """Write the distinct (term, text) pairs, sorted, and the count of each; return the distinct terms."""
    import numpy as np

    terms, lengths = vocabulary.number(texts)
    documents = np.repeat(np.arange(len(lengths), dtype=np.uint64), lengths)
    pairs = terms.astype(np.uint64) << np.uint64(32) | documents
    pairs, tf = np.unique(pairs, return_counts=True)
    with path.open("wb") as stream:
        np.save(stream, pairs, allow_pickle=False)
        np.save(stream, tf.clip(max=MAX_TF).astype(np.uint8), allow_pickle=False)
    return np.unique(pairs >> np.uint64(32)).astype(np.int64)


def _read_block(path: Path, used: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """Read the positions of the terms in ``used``, the passages within the block, and the counts."""
    import numpy as np

    with path.open("rb") as stream:
        pairs, tf = np.load(stream, allow_pickle=False), np.load(stream, allow_pickle=False)
    terms = (pairs >> np.uint64(32)).astype(np.int64)
    return np.searchsorted(used, terms), (pairs & np.uint64(2**32 - 1)).astype(np.int64), tf
