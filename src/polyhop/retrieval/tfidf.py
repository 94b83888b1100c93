"""TF-IDF cosine over the passages of an index, alone or followed by links and BM25, and between a few texts.

A text is the vector of its terms' weights (1 + ln tf) · idf, idf = ln((1 + N) / (1 + n)) + 1, scaled to length 1: the
weights of scikit-learn's ``TfidfVectorizer(sublinear_tf=True)``. Terms are those of BM25's analysis. The postings are
built from the index on first use and stored in its folder: 5 bytes per distinct term of a passage.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from math import log, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from polyhop.common.files import locked
from polyhop.errors import IndexFolderError, UsageError
from polyhop.retrieval.analysis import ENGLISH, Analysis
from polyhop.retrieval.base import OverIndex
from polyhop.retrieval.bm25 import BM25
from polyhop.retrieval.sealed_folder import check, new_folder, sidecar_dir, write_manifest
from polyhop.retrieval.store import TIE, allocate, map_bytes, map_numbers
from polyhop.types import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from polyhop.retrieval.index import Index

_Key = TypeVar("_Key")

KIND, VERSION = "TF-IDF", 1

FIRST = 100
"""Default number of hits of TF-IDF in the pool that BM25 ranks."""

_BLOCK = 20_000  # passages whose postings are sorted together in memory
_MAX_TF = 255  # counts are kept in one byte


class TfIdf(OverIndex):
    """TF-IDF cosine over an index. Safe across threads; ties are broken by passage id, also at the cut.

    Opening it builds the postings if the index has none yet: about a minute per million passages.
    """

    name = "tfidf"

    def __init__(self, index: Index, *, progress: Callable[[int], object] | None = None) -> None:
        import numpy as np

        self._index = index
        self._folder = folder = _folder_for(index, progress)
        self._terms = _TermList(folder)
        self._starts = map_numbers(folder / "starts", "Q")
        self._ordinals = np.frombuffer(map_bytes(folder / "ordinals"), dtype=np.uint32)
        self._counts = np.frombuffer(map_bytes(folder / "counts"), dtype=np.uint8)
        self._norms = np.frombuffer(map_bytes(folder / "norms"), dtype=np.float32)
        self._log_counts = 1 + np.log(np.arange(_MAX_TF + 1, dtype=np.float32).clip(1))

    def _scored(self, query: str, k: int) -> list[tuple[Passage, float]]:
        """Score each passage by its cosine to the query, from 0 to 1."""
        try:
            return self._ranked(query, k)
        except (IndexError, ValueError, ZeroDivisionError) as error:
            raise IndexFolderError(f"its postings are damaged ({error}); remove them", self._folder) from error

    def _ranked(self, query: str, k: int) -> list[tuple[Passage, float]]:
        import numpy as np

        counts = Counter(self._index.analysis.terms(query))
        known = [(number, count) for term, count in counts.items() if (number := self._terms.find(term)) is not None]
        rows = [slice(self._starts[number], self._starts[number + 1]) for number, _ in known]
        idf = [_idf(len(self._index), row.stop - row.start) for row in rows]
        weights = unit({number: (1 + log(count)) * idf[i] for i, (number, count) in enumerate(known)})
        scores = np.zeros(self._index.rows, dtype=np.float32)
        for (number, _), row, rarity in zip(known, rows, idf, strict=True):
            scores[self._ordinals[row]] += self._log_counts[self._counts[row]] * np.float32(weights[number] * rarity)
        scores /= self._norms
        found = np.flatnonzero(scores)
        if len(found) > k:
            least = np.partition(scores[found], len(found) - k)[len(found) - k]
            found = found[scores[found] >= least * (1 - TIE)]
        found = found[np.argsort(-scores[found], kind="stable")]
        hits = list(zip(scores[found].tolist(), found.tolist(), strict=True))
        return self._index.passages.best(hits, k)


class TfIdfBM25(OverIndex):
    """BM25 over the ``first`` hits of TF-IDF, or ``k`` if that is more, and the passages they link to. Safe across
    threads; ties are broken by passage id.

    Source: the baseline "TF-IDF + BM25" of PromptRank (Khalifa et al., "Few-shot Reranking for Multi-hop QA via
    Language Model Prompting", 2023), Table 1. The paper gives no details, and its code does not contain the baseline.
    Our choice: the first 100 hits of TF-IDF, where PromptRank starts too; all their links; BM25 with the statistics of
    the whole corpus, not of the pool. A linked passage without a word of the query is not ranked.
    """

    name = "tfidf-bm25"

    def __init__(self, index: Index, *, first: int = FIRST) -> None:
        if not index.link_mode:
            raise UsageError(f"{self.name} follows links, and the index was built without: build it with links")
        self._index, self._first = index, first
        self._tfidf, self._bm25 = TfIdf(index), BM25(index)

    def _scored(self, query: str, k: int) -> list[tuple[Passage, float]]:
        hits = self._tfidf.search(query, max(k, self._first))
        pool = dict.fromkeys([*hits, *(target for hit in hits for target in self._index.links(hit))])
        ordinals = {ordinal for passage in pool if (ordinal := self._index.passages.ordinal(passage.id)) is not None}
        return self._bm25.search_among(query, ordinals, k)


def similarities(text: str, texts: Sequence[str], analysis: Analysis = ENGLISH) -> list[float]:
    """Compute the TF-IDF cosine of ``text`` to each of ``texts``, from 0 to 1. Document frequencies are counted in
    ``texts``.

    >>> [round(value, 2) for value in similarities("jazz drummer", ["A drummer of jazz.", "A jazz club.", "A river."])]
    [1.0, 0.37, 0.0]
    """
    vectors = [Counter(analysis.terms(text)) for text in texts]
    frequency = Counter(term for vector in vectors for term in vector)
    idf = {term: _idf(len(texts), count) for term, count in frequency.items()}
    query = weigh(Counter(analysis.terms(text)), idf)
    documents = (weigh(vector, idf) for vector in vectors)
    return [sum(weight * document.get(term, 0.0) for term, weight in query.items()) for document in documents]


def weigh(counts: Mapping[str, int], idf: Mapping[str, float]) -> dict[str, float]:
    """Return the vector of a text, of length 1, over its terms that have an idf."""
    return unit({term: (1 + log(count)) * idf[term] for term, count in counts.items() if term in idf})


def unit(vector: Mapping[_Key, float]) -> dict[_Key, float]:
    """Scale a vector to length 1; an empty one stays empty.

    >>> unit({"a": 3.0, "b": 4.0})
    {'a': 0.6, 'b': 0.8}
    """
    length = sqrt(sum(weight * weight for weight in vector.values()))
    return {key: weight / length for key, weight in vector.items()}


def _idf(texts: int, having: int) -> float:
    return log((1 + texts) / (1 + having)) + 1


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


def _folder_for(index: Index, progress: Callable[[int], object] | None) -> Path:
    """Return the folder of the postings, built on first use; it is in the cache if the index is read-only."""
    folder = sidecar_dir(index.state, "tfidf", repr((index.fingerprint, *index.analysis.settings)))
    if not folder.is_dir():
        with locked(folder.with_suffix(".lock")):
            if not folder.is_dir():
                with new_folder(folder, kind=KIND, within=folder.parent) as building:
                    _build(index, building, progress)
                    write_manifest(building, kind=KIND, version=VERSION, facts={"fingerprint": index.fingerprint})
    facts = check(folder, kind=KIND, version=VERSION)
    if facts["fingerprint"] != index.fingerprint:
        raise IndexFolderError(f"made for another corpus than {index.name!r}; remove it", folder)
    return folder


def _build(index: Index, folder: Path, progress: Callable[[int], object] | None) -> None:
    """Write the postings in two passes: first sorted blocks, then each block scattered to its positions.

    The vocabulary and the postings of one block of passages are in memory.
    """
    import numpy as np

    numbering = _Numbering()
    passages = index.passages.all_rows()
    blocks: list[tuple[int, int, Path]] = []
    for start in range(0, index.rows, _BLOCK):
        end = min(start + _BLOCK, index.rows)
        blocks.append((start, end, folder / f"block{start}"))
        _write_block(enumerate(islice(passages, end - start), start), index, numbering, blocks[-1][2])
        if progress:
            progress(end)
    _write_terms(numbering, folder)
    frequency = np.zeros(len(numbering), dtype=np.int64)
    for _, _, path in blocks:
        terms, _, _ = _read_block(path)
        frequency += np.bincount(terms, minlength=len(numbering))
    starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(frequency)])
    starts.astype(np.uint64).tofile(folder / "starts")
    size = max(1, int(starts[-1]))  # a file of no bytes cannot be mapped
    ordinals = np.memmap(folder / "ordinals", dtype=np.uint32, mode="w+", shape=(size,))
    counts = np.memmap(folder / "counts", dtype=np.uint8, mode="w+", shape=(size,))
    for name in ("ordinals", "counts"):
        allocate(folder / name)
    idf = np.log((1 + len(index)) / (1 + frequency)) + 1
    norms = np.ones(index.rows, dtype=np.float32)
    free = starts[:-1].copy()
    for start, end, path in blocks:
        terms, documents, tf = _read_block(path)
        distinct, first, sizes = np.unique(terms, return_index=True, return_counts=True)
        positions = free[terms] + np.arange(len(terms)) - np.repeat(first, sizes)
        ordinals[positions], counts[positions] = documents + start, tf
        free[distinct] += sizes
        weights = (1 + np.log(tf, dtype=np.float64)) * idf[terms]
        lengths = np.sqrt(np.bincount(documents, weights**2, minlength=end - start))
        norms[start:end] = np.where(lengths > 0, lengths, 1)
        path.unlink()
    norms.tofile(folder / "norms")


def _write_block(passages: Iterable[tuple[int, Passage]], index: Index, numbering: _Numbering, path: Path) -> None:
    """Write the distinct (term, passage) pairs of numbered passages, sorted, and the count of each. Removed passages
    have no terms."""
    import numpy as np

    analyse = index.analysis.terms
    terms, lengths = array("I"), array("I")
    for ordinal, passage in passages:
        found = analyse(f"{passage.title}\n{passage.text}") if index.passages.is_live(ordinal) else []
        terms.extend(map(numbering.__getitem__, found))
        lengths.append(len(found))
    documents = np.repeat(np.arange(len(lengths), dtype=np.uint64), np.frombuffer(lengths, dtype=np.uint32))
    pairs = np.frombuffer(terms, dtype=np.uint32).astype(np.uint64) << np.uint64(32) | documents
    pairs, tf = np.unique(pairs, return_counts=True)
    with path.open("wb") as stream:
        np.save(stream, pairs, allow_pickle=False)
        np.save(stream, tf.clip(max=_MAX_TF).astype(np.uint8), allow_pickle=False)


def _read_block(path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """Read the terms, the passages within the block, and the counts."""
    import numpy as np

    with path.open("rb") as stream:
        pairs, tf = np.load(stream, allow_pickle=False), np.load(stream, allow_pickle=False)
    return (pairs >> np.uint64(32)).astype(np.int64), (pairs & np.uint64(2**32 - 1)).astype(np.int64), tf


def _write_terms(numbering: _Numbering, folder: Path) -> None:
    import numpy as np

    order = sorted(numbering)  # by code point, which is the order of the UTF-8 bytes too
    encoded = [term.encode() for term in order]
    (folder / "terms").write_bytes(b"".join(encoded))
    ends = np.cumsum(np.fromiter(map(len, encoded), dtype=np.uint64, count=len(encoded)))
    ends.astype(np.uint64).tofile(folder / "term_ends")
    np.fromiter(map(numbering.__getitem__, order), dtype=np.uint32, count=len(order)).tofile(folder / "term_numbers")
