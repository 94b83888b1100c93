"""The vectors of an index's passages by one encoder: a matrix in half precision, mapped from a folder of its own.

It stands in the folder of the index's state or, where that may not be written to, in the cache, under a name that
changes with the corpus and the encoder: vectors of another state are never met. Passages are encoded in shards;
stopped at any moment, encoding goes on after the last shard that is surely whole. 2 bytes a number: 1.5 GB for a
million passages of 768.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polyhop.common.files import locked
from polyhop.common.progress import report_progress
from polyhop.data.index_folder import manifest_of
from polyhop.errors import IndexFolderError, UsageError
from polyhop.retrieval.sealed_folder import check, ensure_dir, sidecar_dir, write_manifest, writing
from polyhop.retrieval.sharding import MapShards, in_shards
from polyhop.types import Passage

if TYPE_CHECKING:
    from polyhop.retrieval.index import Index

Encode: TypeAlias = Callable[[Sequence[Passage]], NDArray[np.float32]]
"""Passages to vectors: (passages, size)."""

KIND, VERSION = "encoding", 1

_FILE = "vectors"
_SHARD = 128  # passages


class PassageEncoder(NamedTuple):
    """An encoder of passages. ``key`` changes with whatever changes their vectors; ``open`` is called if there are
    passages to encode, ``map_shards`` with its result; ``size``: numbers per vector."""

    name: str
    key: str
    size: int
    open: Callable[[], Encode]
    map_shards: MapShards = map


def passage_vectors(index: Index, encoder: PassageEncoder) -> NDArray[np.float16]:
    """The vectors, (passages, size), in the index's order; made on first use, which a second process waits for.

    Raises:
        UsageError: the encoder gives what is no number, or none of 16 bits.
        IndexFolderError: the folder is damaged.
    """
    key = repr((VERSION, encoder.key, encoder.size))
    folder = encoded_folder(index, "vectors", key, lambda making: _write(index, encoder, making))
    return np.memmap(folder / _FILE, np.float16, "r", shape=(index.rows, encoder.size))


def encodings(index: Index) -> list[dict[str, Any]]:
    """The encodings in an index's folder: for each its ``encoder``, ``size`` and ``passages``; for token vectors also
    the number of ``tokens``.

    Raises:
        IndexFolderError: a folder of them is damaged.
    """
    folders = [*sorted(index.state.glob("vectors-*")), *sorted(index.state.glob("tokens-*"))]
    manifests = [check(folder, kind=KIND, version=VERSION) for folder in folders if folder.is_dir()]
    return [
        {key: facts[key] for key in ("encoder", "size", "passages", "tokens") if key in facts} for facts in manifests
    ]


def encoded_folder(index: Index, name: str, key: str, write: Callable[[Path], Mapping[str, Any]]) -> Path:
    """The folder ``NAME-…`` of an index's encoding, identified by ``key``; made on first use, which a second
    process waits for. ``write`` fills a folder, going on from what a stopped one left there, and gives its facts.

    Raises:
        IndexFolderError: the folder is damaged.
    """
    name = f"{name}-{sha256(key.encode()).hexdigest()[:16]}"
    folder = sidecar_dir(index.state, name, repr((index.fingerprint, key)))
    if not folder.is_dir():
        with writing(folder), locked(folder.with_suffix(".lock")):
            if not folder.is_dir():
                making = folder.with_name(f".{folder.name}")
                ensure_dir(making, within=making.parent)
                write_manifest(making, kind=KIND, version=VERSION, facts=write(making))
                making.rename(folder)
    check(folder, kind=KIND, version=VERSION)
    return folder


def carry_vectors(old: Path, new: Path, kept: NDArray[np.intp] | None) -> None:
    """Begin the vectors of an index's next state with those of its old one, all or the rows ``kept``: where they are
    asked for, encoding goes on after them."""
    for folder in (*old.glob("vectors-*"), *old.glob(".vectors-*")):
        try:
            facts = manifest_of(folder) if folder.name.startswith(".") else check(folder, kind=KIND, version=VERSION)
            rows = _carried(folder)
        except IndexFolderError:  # made anew when asked for
            continue
        if not rows:
            continue
        vectors = np.memmap(folder / _FILE, np.float16, "r", shape=(rows, facts["size"]))
        taken = np.arange(rows) if kept is None else kept[kept < rows]
        making = new / f".{folder.name.removeprefix('.')}"
        ensure_dir(making, within=new)
        with (making / _FILE).open("wb") as stream:
            for start in range(0, len(taken), _SHARD):
                vectors[taken[start : start + _SHARD]].tofile(stream)
        about = {"encoder": facts["encoder"], "size": facts["size"], "passages": len(taken)}
        write_manifest(making, kind=KIND, version=VERSION, facts=about)


def _carried(making: Path) -> int:
    """The number of passages whose vectors a folder surely holds, by its manifest: it may begin with those."""
    facts = manifest_of(making)
    rows = int(facts.get("passages", 0))
    return rows if rows and (making / _FILE).stat().st_size >= 2 * rows * facts["size"] else 0


def surely_done(path: Path, passage_bytes: int) -> int:
    """The number of passages that a file surely holds after a stop: whole shards, without the last one, which may have
    been lost on its way to the disk."""
    begun = path.stat().st_size // (passage_bytes * _SHARD) if path.exists() else 0
    return max(0, begun - 1) * _SHARD


def shards(index: Index, done: int) -> Iterator[list[Passage]]:
    """The passages after the first ``done``, a shard at a time; progress is reported after each."""
    with report_progress("passages encoded", done) as tell:
        for shard in in_shards(index.passages.all_rows(done), _SHARD):
            yield shard
            done += len(shard)
            tell(done, index.rows)


def _write(index: Index, encoder: PassageEncoder, making: Path) -> dict[str, Any]:
    path = making / _FILE
    done = max(surely_done(path, 2 * encoder.size), _carried(making))
    encode = encoder.open()
    with path.open("ab") as stream:
        stream.truncate(2 * encoder.size * done)
        for made in encoder.map_shards(encode, shards(index, done)):
            with np.errstate(over="ignore"):  # reported below
                vectors = made.astype(np.float16)
            if not np.isfinite(vectors).all():
                raise UsageError(f"{encoder.name} gives vectors that are not numbers of 16 bits")
            stream.write(vectors.tobytes())
            stream.flush()
            os.fsync(stream.fileno())
    return {"encoder": encoder.name, "size": encoder.size, "passages": index.rows}
