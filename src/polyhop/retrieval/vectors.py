"""The vectors of an index's passages by one encoder: a matrix in half precision, mapped from a folder of its own.

It stands in the index's folder or, where that may not be written to, in the cache, under a name that changes with the
corpus and the encoder: vectors of another state are never met. Passages are encoded in shards; stopped at any moment,
encoding goes on after the last shard that is surely whole. 2 bytes a number: 1.5 GB for a million passages of 768.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polyhop.errors import UsageError
from polyhop.places import locked
from polyhop.retrieval.folder import beside, check, seal
from polyhop.types import Passage
from polyhop.watching import watched

if TYPE_CHECKING:
    from polyhop.retrieval.index import Index

Encode: TypeAlias = Callable[[Sequence[Passage]], NDArray[np.float32]]
"""Passages to vectors: (passages, size)."""

KIND, VERSION = "encoding", 1

_FILE = "vectors"
_SHARD = 128  # passages


class PassageEncoder(NamedTuple):
    """What makes vectors of passages. ``key`` changes with whatever changes them; ``open`` is called where there are
    passages to encode; ``size``: numbers of a vector."""

    name: str
    key: str
    size: int
    open: Callable[[], Encode]


def passage_vectors(index: Index, encoder: PassageEncoder) -> NDArray[np.float16]:
    """The vectors, (passages, size), in the index's order; made on first use, which a second process waits for.

    Raises:
        UsageError: the encoder gives what is no number, or none of 16 bits.
        IndexFolderError: the folder is damaged.
    """
    key = repr((VERSION, index.fingerprint, encoder.key, encoder.size))
    folder = beside(index.folder, f"vectors-{sha256(key.encode()).hexdigest()[:16]}", key)
    if not folder.is_dir():
        with locked(folder.with_suffix(".lock")):
            if not folder.is_dir():
                _make(index, encoder, folder)
    check(folder, kind=KIND, version=VERSION)
    return np.memmap(folder / _FILE, np.float16, "r", shape=(len(index), encoder.size))


def encodings(index: Index) -> list[dict[str, Any]]:
    """What vectors stand in an index's folder: the ``encoder`` of each, their ``size`` and ``passages``.

    Raises:
        IndexFolderError: a folder of them is damaged.
    """
    folders = (folder for folder in sorted(index.folder.glob("vectors-*")) if folder.is_dir())
    told = [check(folder, kind=KIND, version=VERSION) for folder in folders]
    return [{key: facts[key] for key in ("encoder", "size", "passages")} for facts in told]


def _make(index: Index, encoder: PassageEncoder, folder: Path) -> None:
    making = folder.with_name(f".{folder.name}")
    making.mkdir(exist_ok=True)
    path = making / _FILE
    shard_bytes = 2 * encoder.size * _SHARD
    begun = path.stat().st_size // shard_bytes if path.exists() else 0
    done = max(0, begun - 1) * _SHARD  # the last one may have been lost on its way to the disk
    encode = encoder.open()
    with path.open("ab") as stream, watched("passages encoded", done) as tell:
        stream.truncate(2 * encoder.size * done)
        passages = islice(index.passages, done, None)
        while shard := list(islice(passages, _SHARD)):
            with np.errstate(over="ignore"):  # told of below
                vectors = encode(shard).astype(np.float16)
            if not np.isfinite(vectors).all():
                raise UsageError(f"{encoder.name} gives vectors that are not numbers of 16 bits")
            stream.write(vectors.tobytes())
            stream.flush()
            os.fsync(stream.fileno())
            done += len(shard)
            tell(done, len(index))
    seal(making, kind=KIND, version=VERSION, facts={"encoder": encoder.name, "size": encoder.size, "passages": done})
    making.rename(folder)
