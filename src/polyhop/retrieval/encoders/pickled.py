"""Convert vectors from pickles, as DPR's tools write them: pairs of a passage's id and its vector.

A pickle names the functions to call when it is opened, and may name any. The reader here accepts only those that build
NumPy's arrays and stops at any other before it calls anything. It runs in a separate process without environment
variables and with limited memory, time and output, so that a fault of the reader stays there.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polyhop.common.progress import report_progress
from polyhop.common.text import counted
from polyhop.errors import DataError
from polyhop.retrieval.store import allocate

if TYPE_CHECKING:
    from polyhop.retrieval.index import Index

_OF_ARRAYS = frozenset(
    (module, name)
    for room in ("numpy.core", "numpy._core")  # by NumPy 1 and by NumPy 2
    for module, name in (
        (f"{room}.multiarray", "_reconstruct"),
        (f"{room}.multiarray", "scalar"),
        (f"{room}.numeric", "_frombuffer"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("_codecs", "encode"),  # bytes, in the protocols of Python 2
    )
)
_MEMORY, _MEMORY_A_BYTE = 2**31, 8
_SECONDS, _BYTES_A_SECOND = 60, 5_000_000
_IDS, _VECTORS = "ids.json", "vectors.npy"
_MORE_IDS = 5  # in a message


def take_vectors(index: Index, files: Sequence[Path], out: Path) -> int:
    """Write the vectors of pickles as one ``.npy`` of 16 bits, (rows, size), for ``dense:vectors:FILE@ENCODER``: one
    row per passage of an index in its order, zeros for removed ones. Return the size.

    Raises:
        DataError: a file is not a pickle of ids and vectors or names a function that no array needs; an id occurs twice
        or
            is not in the index; a passage has no vector; ``out`` exists already.
    """
    if out.exists():
        raise DataError("exists already; name another file", out)
    matrix: np.memmap[Any, np.dtype[np.float16]] | None = None
    met = np.zeros(index.rows, np.bool_)
    making = out.with_name(f".{out.name}")
    try:
        with report_progress("vectors taken") as tell:
            for path in files:
                ids, vectors = _read_apart(path)
                if matrix is None:
                    matrix = np.lib.format.open_memmap(making, "w+", np.float16, (index.rows, vectors.shape[1]))
                    allocate(making)
                if vectors.shape[1] != matrix.shape[1]:
                    raise DataError(f"has vectors of {vectors.shape[1]} numbers, those before {matrix.shape[1]}", path)
                rows = _rows(index, ids, met, path)
                matrix[rows] = vectors
                met[rows] = True
                tell(int(met.sum()), len(index))
        removed = index.passages.removed
        lacking = np.flatnonzero(~met if removed is None else ~(met | removed))
        if matrix is None or len(lacking):
            named = ", ".join(repr(index.passages.get(row).id) for row in lacking[:_MORE_IDS].tolist())
            raise DataError(f"no vector for {len(lacking)} of {counted(len(index), 'passages')}: {named}", out)
        matrix.flush()
        making.rename(out)
        return int(matrix.shape[1])
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror or error}", out) from None
    finally:
        making.unlink(missing_ok=True)


def _rows(index: Index, ids: Sequence[str], met: NDArray[np.bool_], path: Path) -> NDArray[np.int64]:
    rows = np.empty(len(ids), np.int64)
    for i, id in enumerate(ids):
        row = index.passages.ordinal(id)
        if row is None:
            raise DataError(f"has a vector for {id!r}, which is not a passage of {index.name!r}", path)
        rows[i] = row
    if met[rows].any() or len(np.unique(rows)) < len(rows):
        raise DataError("has a second vector for the same passage", path)
    return rows


def _read_apart(path: Path) -> tuple[list[str], NDArray[np.float16]]:
    """Read the ids and vectors of a pickle in a separate process."""
    if not path.is_file():
        raise DataError("no such file of vectors", path)
    size = path.stat().st_size
    with TemporaryDirectory(prefix="polyhop-") as folder:
        command = [sys.executable, "-P", "-m", __name__, str(path.resolve()), folder, str(size)]
        try:
            done = subprocess.run(
                command,
                env={"PYTHONPATH": str(Path(__file__).parents[3])},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS + size / _BYTES_A_SECOND,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise DataError("takes too long to read; it is not a plain list of ids and vectors", path) from None
        if done.returncode:
            message = done.stdout.decode(errors="replace").strip()
            raise DataError(message or "cannot be read within the memory that such a file needs", path)
        ids = json.loads(Path(folder, _IDS).read_bytes())
        return ids, np.load(Path(folder, _VECTORS), allow_pickle=False)


# --- in the separate process ----------------------------------------------------------------------------------------


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _OF_ARRAYS:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which no vector needs")
        return super().find_class(module, name)


def _main(path: str, folder: str, size: str) -> None:
    limit = _MEMORY + _MEMORY_A_BYTE * int(size)
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    except (ImportError, ValueError, OSError):  # a system without such limits
        pass
    try:
        with Path(path).open("rb") as stream:
            ids, vectors = _pairs(_ArraysOnly(stream).load())
    except Exception as error:  # a pickle may fail in any way
        sys.stdout.write(f"is not a pickle of ids and vectors: {error or type(error).__name__}")
        raise SystemExit(1) from error
    Path(folder, _IDS).write_text(json.dumps(ids))
    np.save(Path(folder, _VECTORS), vectors)


def _pairs(rows: Any) -> tuple[list[str], NDArray[np.float16]]:
    if not isinstance(rows, list | tuple) or not rows:
        raise ValueError(f"it holds a {type(rows).__name__}, not a list of pairs")
    ids, vectors = [], []
    for row in rows:
        if not isinstance(row, list | tuple) or len(row) != 2 or not isinstance(row[0], str | int):
            raise ValueError("a row is not a pair of an id and a vector")
        ids.append(str(row[0]))
        vectors.append(np.asarray(row[1], np.float32))
    matrix = np.stack(vectors)
    if matrix.ndim != 2:
        raise ValueError("a vector is not a row of numbers")
    with np.errstate(over="ignore"):  # reported below
        halves = matrix.astype(np.float16)
    if not np.isfinite(halves).all():
        raise ValueError("a vector holds a value that is not a number of 16 bits")
    return ids, halves


if __name__ == "__main__":
    _main(*sys.argv[1:])
