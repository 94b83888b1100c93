"""The token vectors of an index's passages by one checkpoint, a byte a number, mapped from a folder of their own.

Made as ``vectors.py`` makes those of whole passages: in shards, going on after a stop. 128 bytes a token at ColBERTv2's
size: about 16 KB for a passage of 100 words, 8 bytes more for where it ends. ColBERTv2's own residuals of 2 bits take a
quarter of that, and centroids that have to be learned from the whole corpus first.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polyhop.retrieval.late_interaction.maxsim import Codes, Vectors, codes_of
from polyhop.retrieval.vectors import encoded_folder, shards, surely_done
from polyhop.types import Passage

if TYPE_CHECKING:
    from polyhop.retrieval.index import Index

VERSION = 1

Encode: TypeAlias = Callable[[Sequence[Passage]], Sequence[Vectors]]
"""Passages to vectors: (tokens, size) each."""

_CODES, _ENDS = "codes", "ends"


class TokenVectors(NamedTuple):
    """``codes``: of all tokens, (tokens, size), by direction; ``ends``: of each passage within them, in the index's
    order."""

    codes: Codes
    ends: NDArray[np.uint64]

    def of(self, ordinal: int) -> Codes:
        """Those of one passage, (tokens, size)."""
        return self.codes[int(self.ends[ordinal - 1]) if ordinal else 0 : int(self.ends[ordinal])]


def token_vectors(index: Index, name: str, key: str, size: int, encode: Encode) -> TokenVectors:
    """Those of an index; made on first use, which a second process waits for. ``key`` changes with whatever changes
    them; ``size``: numbers of a vector.

    Raises:
        IndexFolderError: the folder is damaged.
    """

    def write(making: Path) -> dict[str, Any]:
        tokens = _write(index, size, encode, making)
        return {"encoder": name, "size": size, "passages": index.rows, "tokens": tokens}

    folder = encoded_folder(index, "tokens", repr((VERSION, index.fingerprint, key, size)), write)
    ends = np.memmap(folder / _ENDS, np.uint64, "r")
    return TokenVectors(np.memmap(folder / _CODES, np.int8, "r", shape=(int(ends[-1]), size)), ends)


def _write(index: Index, size: int, encode: Encode, making: Path) -> int:
    """Write the two files, a passage's end once its codes are on the disk; the number of tokens."""
    done = surely_done(making / _ENDS, np.dtype(np.uint64).itemsize)
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


def _put(stream: Any, numbers: NDArray[Any]) -> None:
    stream.write(numbers.tobytes())
    stream.flush()
    os.fsync(stream.fileno())
