"""Token vectors: stored in one byte per number, and compared by MaxSim.

MaxSim is the sum, over the tokens of a query, of the largest cosine with a token of the passage (Khattab and Zaharia,
"ColBERT", 2020, §3.3). Token vectors have length 1, so only their direction is stored: whole numbers of one byte, the
largest of them 127. Compared with vectors of 32 bits, a score changes by less than a thousandth of its maximum, no more
than with residuals of one byte to centroids (``benchmarks/late.py``), and nothing has to be trained. A query's vectors
become whole numbers too, so that products are exact in 32 bits: no score depends on the other passages of a batch.

The vectors of an index's passages are written like those of ``vectors.py``: shard by shard, resumed after a stop,
mapped from their own folder. At ColBERTv2's size a token takes 128 bytes, a passage of 100 words about 16 KB.
ColBERTv2's own residuals of 2 bits take a quarter of that, but need centroids trained on the whole corpus.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polyhop.data.index_folder import manifest_of
from polyhop.retrieval.vectors import carried, encoded_folder, shards, surely_done
from polyhop.types import Passage

if TYPE_CHECKING:
    from polyhop.retrieval.index import Index

Codes = NDArray[np.int8]
Vectors = NDArray[np.float32]
Encode: TypeAlias = Callable[[Sequence[Passage]], Sequence[Vectors]]
"""Encodes passages: (tokens, size) each."""

VERSION = 1

LEVELS = 127
"""The largest number of a code."""
_EXACT = 2**24
"""Whole numbers up to this are exact in 32 bits, and so are their sums in any order."""
_BLOCK = 8192
"""Tokens multiplied at once, so that they stay in a processor's cache."""

_CODES, _ENDS = "codes", "ends"


def codes_of(vectors: Vectors) -> Codes:
    """Encode the directions of vectors, (tokens, size), in whole numbers of one byte.

    >>> codes_of(np.array([[0.6, -0.8]], np.float32)).tolist()
    [[95, -127]]
    """
    return _whole(vectors, LEVELS).astype(np.int8)


def max_sims(query: Vectors, passages: Sequence[Codes]) -> NDArray[np.float64]:
    """Score each passage by MaxSim: (passages,), from 0 to the number of tokens of the query.

    Args:
        query: (tokens of the query, size).
        passages: (tokens of the passage, size) each, at least one token.

    >>> query = np.array([[1, 0], [0, 1]], np.float32)
    >>> max_sims(query, [codes_of(np.array([[0.6, 0.8]], np.float32)), codes_of(query)]).round(2).tolist()
    [1.4, 2.0]
    """
    asked = _whole(query, _EXACT // (LEVELS * query.shape[1]))
    lengths = _lengths(asked.astype(np.float64))
    scores = np.zeros(len(passages))
    for block in _blocks([len(passage) for passage in passages]):
        tokens = np.concatenate(passages[block.start : block.stop]).astype(np.float32)
        cosines = tokens @ asked.T / _lengths(tokens)[:, None]
        starts = np.cumsum([0, *(len(passage) for passage in passages[block.start : block.stop - 1])])
        best = np.maximum.reduceat(cosines, starts, axis=0)
        scores[block.start : block.stop] = (best / lengths).sum(1, dtype=np.float64)
    return scores


def _whole(vectors: Vectors, max_code: int) -> Vectors:
    """Scale vectors to whole numbers, the largest of each being ``max_code``; 0 stays 0."""
    largest = np.abs(vectors).max(1, keepdims=True)
    return np.rint(np.asarray(vectors, np.float32) * (max_code / np.where(largest > 0, largest, 1)))


def _lengths(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the length of each vector; 1 for a vector of zeros, so that its cosine is 0."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return np.where(lengths > 0, lengths, 1)


def _blocks(sizes: Sequence[int]) -> list[range]:
    """Group neighbours whose sizes add up to a block or little more.

    >>> _blocks([5000, 5000, 1, 1])
    [range(0, 2), range(2, 4)]
    """
    blocks, start, held = [], 0, 0
    for end, size in enumerate(sizes, 1):
        held += size
        if held >= _BLOCK or end == len(sizes):
            blocks.append(range(start, end))
            start, held = end, 0
    return blocks


# --- on the disk ------------------------------------------------------------------------------------------------------


class TokenVectors(NamedTuple):
    """The codes of all tokens, (tokens, size), and the end of each passage in them, in the order of the index."""

    codes: Codes
    ends: NDArray[np.uint64]

    def of(self, ordinal: int) -> Codes:
        """Return the codes of one passage, (tokens, size)."""
        return self.codes[int(self.ends[ordinal - 1]) if ordinal else 0 : int(self.ends[ordinal])]


def token_vectors(index: Index, name: str, key: str, size: int, encode: Encode) -> TokenVectors:
    """Open the token vectors of an index; the first use encodes them, and a second process waits for it. ``key``
    changes with everything that changes them; ``size`` is numbers per vector.

    Raises:
        IndexFolderError: the folder is damaged.
    """

    def write(making: Path) -> dict[str, Any]:
        tokens = _write(index, size, encode, making)
        return {"encoder": name, "size": size, "passages": index.rows, "tokens": tokens}

    folder = encoded_folder(index, "tokens", repr((VERSION, key, size)), write)
    return _opened(folder, size, index.rows)


def _opened(folder: Path, size: int, passages: int) -> TokenVectors:
    ends = np.memmap(folder / _ENDS, np.uint64, "r", shape=(passages,))
    return TokenVectors(np.memmap(folder / _CODES, np.int8, "r", shape=(int(ends[-1]), size)), ends)


def _write(index: Index, size: int, encode: Encode, making: Path) -> int:
    """Write the two files, the end of a passage after its codes are on the disk; return the number of tokens."""
    done = max(surely_done(making / _ENDS, np.dtype(np.uint64).itemsize), _carried(making))
    with (making / _CODES).open("ab") as codes, (making / _ENDS).open("ab") as ends:
        ends.truncate(done * np.dtype(np.uint64).itemsize)
        tokens = int(np.fromfile(making / _ENDS, np.uint64)[-1]) if done else 0
        codes.truncate(tokens * size)
        for shard in shards(index, done):
            made = [codes_of(vectors) for vectors in encode(shard)]
            counts = tokens + np.cumsum([len(vectors) for vectors in made])
            _put(codes, np.concatenate(made))
            _put(ends, counts.astype(np.uint64))
            tokens = int(counts[-1])
    return tokens


def carry_token_vectors(old: Path, new: Path, kept: NDArray[np.intp] | None) -> None:
    """Start the token vectors of an index's next state with those of its old one, as ``carry_vectors`` does."""
    for part in carried(old, new, "tokens", kept, _carried):
        vectors = _opened(part.folder, part.facts["size"], part.held)
        ends = np.cumsum(np.diff(vectors.ends, prepend=np.uint64(0))[part.rows], dtype=np.uint64)
        ends.tofile(part.making / _ENDS)
        with (part.making / _CODES).open("wb") as codes:
            for row in part.rows.tolist():
                vectors.of(row).tofile(codes)
        part.seal(tokens=int(ends[-1]))


def _carried(making: Path) -> int:
    """Return the number of passages whose vectors a folder certainly holds, by its manifest."""
    facts = manifest_of(making)
    if not facts.keys() >= {"passages", "tokens", "size"}:
        return 0
    is_whole = (making / _CODES).stat().st_size >= facts["tokens"] * facts["size"]
    return int(facts["passages"]) if is_whole else 0


def _put(stream: Any, numbers: NDArray[Any]) -> None:
    stream.write(numbers.tobytes())
    stream.flush()
    os.fsync(stream.fileno())
