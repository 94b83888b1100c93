"""Vectors and tensors from files that cannot run code: ``.npy``, ``.fvecs`` and ``.safetensors``, memory-mapped.

Pickles, which DPR's and FlashRAG's tools write, can run any code when they are opened, so they are never read here. The
error says how to convert one to ``.npy`` (``pickled.py``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from polyhop.errors import DataError, UsageError
from polyhop.retrieval.encoders.base import Layer

Matrix: TypeAlias = NDArray[np.float16] | NDArray[np.float32]

KINDS = ".npy, .fvecs and .safetensors"

RAW = """\
import numpy; numpy.save("{1}.npy", numpy.memmap("{0}", "float32").reshape(-1, SIZE))"""

CONVERT = """\
import torch; from safetensors.torch import save_file
save_file(torch.load("pytorch_model.bin", "cpu", weights_only=True), "model.safetensors")"""

_PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".bin")
_NUMBERS = {"F16": "<f2", "F32": "<f4"}
_MAX_HEADER_BYTES = 100_000_000
_BLOCK = 2**22


def read_vectors(path: str | Path, rows: int, size: int) -> Matrix:
    """Read the vectors of a corpus' passages from a file, (rows, size), in the order of the corpus.

    Raises:
        DataError: the file is absent, damaged, of another kind or shape, or holds values that are not numbers.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise DataError("no such file of vectors", path)
    matrix = _opened(path)
    if matrix.shape != (rows, size):
        shape = " x ".join(map(str, matrix.shape))
        raise DataError(f"holds {shape} numbers; the corpus and its encoder make {rows} x {size}", path)
    step = max(1, _BLOCK // size)
    for start in range(0, rows, step):
        if not np.isfinite(matrix[start : start + step]).all():
            raise DataError("holds a value that is not a number (NaN or infinite)", path)
    return matrix


def read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Map the tensors of a safetensors file, of floats of 16 or 32 bits.

    Raises:
        DataError: the file is damaged, or a tensor has another type.
    """
    try:
        with path.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if length > _MAX_HEADER_BYTES:
                raise DataError("is not a safetensors file", path)
            header = orjson.loads(stream.read(length))
        header.pop("__metadata__", None)
        return {name: _tensor(path, 8 + length, **about) for name, about in header.items()}
    except (OSError, ValueError, TypeError, AttributeError, KeyError, OverflowError) as error:
        raise DataError(f"is not a complete safetensors file of F16 or F32 numbers ({error})", path) from error


def read_layers(name: str, file: Callable[[str], Path | None], folders: Sequence[str]) -> list[Layer]:
    """Read the linear layers that some checkpoints of sentence-transformers, such as GTR and EmbeddingGemma, have after
    the pooling. ``file`` finds the files of the checkpoint by their paths.

    Raises:
        DataError: the weights of one are missing or damaged, or do not fit those before.
        UsageError: it is more than a linear layer with or without a tanh.
    """
    layers = [_layer(name, file, folder) for folder in folders]
    for before, after in itertools.pairwise(layers):
        if after.weight.shape[1] != len(before.weight):
            raise DataError(f"{name}: its layers ({', '.join(folders)}) do not fit each other")
    return layers


def _layer(name: str, file: Callable[[str], Path | None], folder: str) -> Layer:
    weights, config = file(f"{folder}/model.safetensors"), file(f"{folder}/config.json")
    if weights is None:
        raise DataError(
            f"{name}: {folder}/model.safetensors is missing. A pytorch_model.bin there is a pickle, which can run code "
            f"and is never read; if you trust it, convert it in Python:\n{CONVERT}"
        )
    try:
        settings = orjson.loads(config.read_bytes()) if config else {}
        activation = str(settings.get("activation_function", "Identity")).rpartition(".")[2]
    except (orjson.JSONDecodeError, AttributeError) as error:
        raise DataError(f"{name}: {folder}/config.json is damaged: {error}") from error
    if activation not in ("Identity", "Tanh") or settings.get("use_residual"):
        raise UsageError(
            f"{name}: the layer in {folder} ends in {activation if activation != 'Identity' else 'a residual'}; only a "
            "linear layer is supported, with a tanh or without"
        )
    tensors = {key: np.asarray(value, np.float32) for key, value in read_tensors(weights).items()}
    weight, bias = tensors.get("linear.weight"), tensors.get("linear.bias")
    if weight is None or weight.ndim != 2 or (bias is not None and bias.shape != weight.shape[:1]):
        raise DataError("holds no linear.weight with its linear.bias", weights)
    return Layer(weight, bias, activation == "Tanh")


def _opened(path: Path) -> Matrix:
    match path.suffix.lower():
        case ".npy":
            return _npy(path)
        case ".fvecs":
            return _fvecs(path)
        case ".safetensors":
            return _only(path, read_tensors(path))
        case suffix if suffix in _PICKLES:
            raise DataError(
                "is a pickle, which can run any code, so it is not opened here; one of ids and vectors, as DPR writes "
                f"it, becomes an .npy by: polyhop index vectors INDEX {path.name} --out {path.stem}.npy",
                path,
            )
        case ".memmap":
            raise DataError(
                "is raw numbers without their shape. Convert it in Python, with its SIZE:\n"
                + RAW.format(path.name, path.stem),
                path,
            )
    raise DataError(f"is of a kind that is not read; vectors come as {KINDS}", path)


def _npy(path: Path) -> Matrix:
    try:
        matrix: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy's reader of headers has no family of errors
        raise DataError(f"is not a complete .npy file of numbers ({error})", path) from error
    if not isinstance(matrix, np.ndarray) or matrix.ndim != 2:
        raise DataError("holds no matrix: a row of numbers for each passage is needed", path)
    if matrix.dtype.str not in ("<f2", "<f4"):
        raise DataError(f"holds {matrix.dtype}; save it as float16 or float32", path)
    return matrix


def _fvecs(path: Path) -> Matrix:
    size = path.stat().st_size
    first = np.fromfile(path, "<i4", 1)
    width = int(first[0]) if len(first) else 0
    if width < 1 or size % (4 * (width + 1)):
        raise DataError("is not a complete .fvecs file: each row is a length and that many numbers of 32 bits", path)
    table = np.memmap(path, "<i4", "r", shape=(size // (4 * (width + 1)), width + 1))
    if (table[:, 0] != width).any():
        raise DataError("is not a .fvecs file: its rows differ in length", path)
    return table[:, 1:].view("<f4")


def _only(path: Path, tensors: dict[str, NDArray[Any]]) -> Matrix:
    if len(tensors) != 1:
        raise DataError(f"must hold one tensor, the passages' vectors; it holds {len(tensors)}", path)
    (matrix,) = tensors.values()
    if matrix.ndim != 2:
        raise DataError("holds no matrix: a row of numbers for each passage is needed", path)
    return matrix


def _tensor(path: Path, offset: int, *, dtype: str, shape: list[int], data_offsets: list[int]) -> NDArray[Any]:
    kind = np.dtype(_NUMBERS[dtype])
    begin, end = data_offsets
    if min(begin, *shape, 0) < 0 or end - begin != kind.itemsize * int(np.prod(shape, dtype=object)):
        raise ValueError("its header contradicts itself")
    if end == begin:
        return np.zeros(shape, kind)
    return np.memmap(path, kind, "r", offset + begin, tuple(shape))
