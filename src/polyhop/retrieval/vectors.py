"""The vectors of an index's passages by one encoder: a matrix in half precision, mapped from its own folder.

The folder is inside that of the index's state or, if that is read-only, in the cache. Its name depends on the corpus
and the encoder, so that other vectors are never used. Passages are encoded in shards; after a stop, encoding resumes
behind the last shard that is certainly complete. A number takes 2 bytes: 1.5 GB per million passages of 768 numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
    from polyhop.retrieval.encoders.base import Encoder
    from polyhop.retrieval.index import Index

Encode: TypeAlias = Callable[[Sequence[Passage]], NDArray[np.float32]]
"""Encodes passages: (passages, size)."""

KIND, VERSION = "encoding", 1

_FILE = "vectors"
_SHARD = 128  # passages


class PassageEncoder(NamedTuple):
    """An encoder of passages. ``key`` changes with everything that changes their vectors; ``size`` is numbers per
    vector. ``open`` is called only if there are passages to encode; ``map_shards`` applies its result."""

    name: str
    key: str
    size: int
    open: Callable[[], Encode]
    map_shards: MapShards = map


def passage_vectors(index: Index, encoder: PassageEncoder) -> NDArray[np.float16]:
    """Open the vectors, (passages, size), in the order of the index. The first use encodes them, and a second process
    waits for it.

    Raises:
        UsageError: the encoder returns values that are not numbers of 16 bits.
        IndexFolderError: the folder is damaged.
    """
    key = repr((VERSION, encoder.key, encoder.size))
    folder = encoded_folder(index, "vectors", key, lambda making: _write(index, encoder, making))
    return np.memmap(folder / _FILE, np.float16, "r", shape=(index.rows, encoder.size))


def text_vectors(index: Index, texts: Sequence[str], encoder: Encoder) -> NDArray[np.float16]:
    """Open the vectors, (texts, size), of texts that belong to an index, such as names; each has the length 1. The
    first use encodes them as passages without a title.

    Raises:
        UsageError, IndexFolderError: as ``passage_vectors`` does.
    """

    def unit(passages: Sequence[Passage]) -> NDArray[np.float32]:
        vectors = encoder.passages(passages)
        scaled: NDArray[np.float32] = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return scaled

    def write(making: Path) -> dict[str, Any]:
        done = surely_done(making / _FILE, 2 * encoder.size)
        rest = in_shards((Passage("", "", text) for text in texts[done:]), _SHARD)
        about = PassageEncoder(encoder.name, encoder.key, encoder.size, lambda: unit)
        _append(making / _FILE, about, done, _reported("texts encoded", rest, done, len(texts)))
        return {"encoder": encoder.name, "size": encoder.size, "texts": len(texts)}

    digest = sha256("\0".join(texts).encode()).hexdigest()
    folder = encoded_folder(index, "texts", repr((VERSION, encoder.key, encoder.size, digest)), write)
    return np.memmap(folder / _FILE, np.float16, "r", shape=(len(texts), encoder.size))


def encodings(index: Index) -> list[dict[str, Any]]:
    """List the encodings in an index's folder: the ``encoder``, ``size`` and ``passages`` of each, and for token
    vectors the number of ``tokens``.

    Raises:
        IndexFolderError: a folder of them is damaged.
    """
    folders = [*sorted(index.state.glob("vectors-*")), *sorted(index.state.glob("tokens-*"))]
    manifests = [check(folder, kind=KIND, version=VERSION) for folder in folders if folder.is_dir()]
    return [
        {key: facts[key] for key in ("encoder", "size", "passages", "tokens") if key in facts} for facts in manifests
    ]


def encoded_folder(index: Index, name: str, key: str, write: Callable[[Path], Mapping[str, Any]]) -> Path:
    """Return the folder ``NAME-…`` of an index's encoding with this ``key``. The first use makes it, and a second
    process waits for it. ``write`` fills a folder, from where a stopped one left off, and returns its facts.

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


class Carried(NamedTuple):
    """An encoding of an index's old state: its folder and facts, how many passages it holds, those of them that stand,
    and the folder for the next state."""

    folder: Path
    facts: dict[str, Any]
    held: int
    rows: NDArray[np.intp]
    making: Path

    def seal(self, **facts: Any) -> None:
        """Declare the folder for the next state begun. Encoding resumes after what it holds when that is requested."""
        about = {"encoder": self.facts["encoder"], "size": self.facts["size"], "passages": len(self.rows), **facts}
        write_manifest(self.making, kind=KIND, version=VERSION, facts=about)


def carried(
    old: Path, new: Path, name: str, kept: NDArray[np.intp] | None, held_by: Callable[[Path], int]
) -> Iterator[Carried]:
    """Yield the encodings of this name in an index's old state, whole or begun, and make a folder for each in its next
    one. ``kept``: the rows that stand, by default all; ``held_by``: how many passages a folder certainly holds."""
    for folder in (*old.glob(f"{name}-*"), *old.glob(f".{name}-*")):
        try:
            facts = manifest_of(folder) if folder.name.startswith(".") else check(folder, kind=KIND, version=VERSION)
            held = held_by(folder)
        except IndexFolderError:  # encoded again when requested
            continue
        rows = np.arange(held) if kept is None else kept[kept < held]
        if len(rows):
            making = new / f".{folder.name.removeprefix('.')}"
            ensure_dir(making, within=new)
            yield Carried(folder, facts, held, rows, making)


def carry_vectors(old: Path, new: Path, kept: NDArray[np.intp] | None) -> None:
    """Start the vectors of an index's next state with those of its old one, all or the rows ``kept``."""
    for part in carried(old, new, "vectors", kept, _carried):
        vectors = np.memmap(part.folder / _FILE, np.float16, "r", shape=(part.held, part.facts["size"]))
        with (part.making / _FILE).open("wb") as stream:
            for start in range(0, len(part.rows), _SHARD):
                vectors[part.rows[start : start + _SHARD]].tofile(stream)
        part.seal()


def _carried(making: Path) -> int:
    """Return the number of passages whose vectors a folder certainly holds, by its manifest."""
    facts = manifest_of(making)
    rows = int(facts.get("passages", 0))
    return rows if rows and (making / _FILE).stat().st_size >= 2 * rows * facts["size"] else 0


def surely_done(path: Path, passage_bytes: int) -> int:
    """Return the number of passages that a file certainly holds after a stop: all shards but the last one, which may
    not have reached the disk."""
    begun = path.stat().st_size // (passage_bytes * _SHARD) if path.exists() else 0
    return max(0, begun - 1) * _SHARD


def shards(index: Index, done: int) -> Iterator[list[Passage]]:
    """Yield the passages after the first ``done``, in shards, and report progress after each."""
    return _reported("passages encoded", in_shards(index.passages.all_rows(done), _SHARD), done, index.rows)


def _reported(what: str, parts: Iterable[list[Passage]], done: int, total: int) -> Iterator[list[Passage]]:
    with report_progress(what, done) as report:
        for shard in parts:
            yield shard
            done += len(shard)
            report(done, total)


def _write(index: Index, encoder: PassageEncoder, making: Path) -> dict[str, Any]:
    done = max(surely_done(making / _FILE, 2 * encoder.size), _carried(making))
    _append(making / _FILE, encoder, done, shards(index, done))
    return {"encoder": encoder.name, "size": encoder.size, "passages": index.rows}


def _append(path: Path, encoder: PassageEncoder, done: int, parts: Iterable[list[Passage]]) -> None:
    """Encode shards behind the first ``done`` vectors of a file."""
    encode = encoder.open()
    with path.open("ab") as stream:
        stream.truncate(2 * encoder.size * done)
        for made in encoder.map_shards(encode, parts):
            with np.errstate(over="ignore"):  # reported below
                vectors = made.astype(np.float16)
            if not np.isfinite(vectors).all():
                raise UsageError(f"{encoder.name} gives vectors that are not numbers of 16 bits")
            stream.write(vectors.tobytes())
            stream.flush()
            os.fsync(stream.fileno())
