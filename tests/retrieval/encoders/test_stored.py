"""Vectors from files: the three kinds read alike, pickles never, and broken ones are errors."""

from __future__ import annotations

import json
import pickle
import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polyhop.errors import DataError
from polyhop.retrieval.encoders.stored import RAW, read_tensors, read_vectors

VECTORS = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32)


def write(folder: Path, kind: str, matrix: Any = VECTORS) -> Path:
    """A file of a kind: its suffix, and for numbers of 16 bits a 16 before it."""
    path = folder / f"v.{kind.removeprefix('16')}"
    matrix = matrix.astype(np.float16) if kind.startswith("16") else matrix
    if kind.endswith("npy"):
        np.save(path, matrix)
    elif kind.endswith("fvecs"):
        path.write_bytes(b"".join(np.int32(len(row)).tobytes() + row.tobytes() for row in matrix))
    else:
        path.write_bytes(safetensors({"vectors": matrix}))
    return path


def safetensors(tensors: dict[str, Any]) -> bytes:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    body = b""
    for name, tensor in tensors.items():
        dtype = {"float16": "F16", "float32": "F32", "int64": "I64"}[tensor.dtype.name]
        offsets = [len(body), len(body) + tensor.nbytes]
        header[name] = {"dtype": dtype, "shape": tensor.shape, "data_offsets": offsets}
        body += tensor.tobytes()
    encoded = json.dumps(header).encode()
    return len(encoded).to_bytes(8, "little") + encoded + body


KINDS = ["npy", "16npy", "fvecs", "safetensors", "16safetensors"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_read_as_it_was_written(tmp_path: Path, kind: str) -> None:
    read = read_vectors(write(tmp_path, kind), 7, 5)
    assert np.array_equal(read, VECTORS.astype(np.float16) if kind.startswith("16") else VECTORS)
    assert read.dtype == (np.float16 if kind.startswith("16") else np.float32)
    assert not read.flags.writeable


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(8, 5), (7, 4), (5, 7)])
def test_another_shape_is_refused(tmp_path: Path, kind: str, shape: tuple[int, int]) -> None:
    with pytest.raises(DataError, match=rf"holds 7 x 5 numbers; .* make {shape[0]} x {shape[1]}"):
        read_vectors(write(tmp_path, kind), *shape)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_refused(tmp_path: Path, kind: str, value: float) -> None:
    matrix = VECTORS.copy()
    matrix[6, 4] = value
    with pytest.raises(DataError, match="holds a value that is not a number"):
        read_vectors(write(tmp_path, kind, matrix), 7, 5)


class Trap:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (Path.touch, (self.path,))


@pytest.mark.parametrize("name", ["v.pkl", "v.pickle", "v.pt", "v.bin", "v.npy", "v.fvecs", "v.safetensors"])
def test_a_pickle_is_never_opened(tmp_path: Path, name: str) -> None:
    trap = tmp_path / "sprung"
    (tmp_path / name).write_bytes(pickle.dumps(Trap(trap)))
    with pytest.raises(DataError) as raised:
        read_vectors(tmp_path / name, 7, 5)
    if name.rpartition(".")[2] in ("pkl", "pickle", "pt", "bin"):
        assert "so it is not opened here; one of ids and vectors" in str(raised.value)
        assert f"index vectors INDEX {name} --out v.npy" in str(raised.value)
    objects = np.array([[Trap(trap)]], object)
    np.save(tmp_path / "objects.npy", objects, allow_pickle=True)
    with pytest.raises(DataError, match=r"is not a complete \.npy file"):
        read_vectors(tmp_path / "objects.npy", 7, 5)
    assert not trap.exists()


def test_the_advice_on_raw_numbers_makes_a_file_that_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    VECTORS.tofile("emb.memmap")
    with pytest.raises(DataError, match="is raw numbers without their shape"):
        read_vectors("emb.memmap", 7, 5)
    exec(RAW.format("emb.memmap", "emb").replace("SIZE", "5"))  # noqa: S102
    assert np.array_equal(read_vectors("emb.npy", 7, 5), VECTORS)


@pytest.mark.parametrize(
    ("name", "data", "match"),
    [
        ("v.npy", b"", "is not a complete"),
        ("v.fvecs", b"", "is not a complete"),
        ("v.fvecs", np.array([-1, 0], np.int32).tobytes(), "is not a complete"),
        ("v.fvecs", np.array([1, 0, 2, 0], np.int32).tobytes(), "differ in length"),
        ("v.safetensors", b"", "is not a complete"),
        ("v.safetensors", safetensors({}), "must hold one tensor, .* it holds 0"),
        ("v.safetensors", safetensors({"a": VECTORS, "b": VECTORS}), "it holds 2"),
        ("v.safetensors", safetensors({"a": VECTORS[0]}), "holds no matrix"),
        ("v.safetensors", safetensors({"a": np.zeros((7, 5), np.int64)}), "of F16 or F32 numbers"),
        ("v.txt", b"1 2 3", r"vectors come as \.npy, \.fvecs and \.safetensors"),
    ],
)
def test_a_file_that_is_none_is_an_error(tmp_path: Path, name: str, data: bytes, match: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=match):
        read_vectors(tmp_path / name, 7, 5)


def test_numbers_and_shapes_that_are_not_vectors_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file of vectors"):
        read_vectors(tmp_path / "v.npy", 7, 5)
    for matrix, match in ((VECTORS.astype(float), "holds float64; save it as"), (VECTORS[0], "holds no matrix")):
        np.save(tmp_path / "v.npy", matrix)
        with pytest.raises(DataError, match=match):
            read_vectors(tmp_path / "v.npy", 7, 5)
    np.savez(tmp_path / "z", a=VECTORS)
    (tmp_path / "z.npz").rename(tmp_path / "z.npy")
    with pytest.raises(DataError):
        read_vectors(tmp_path / "z.npy", 7, 5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_a_broken_file_is_an_error_or_its_numbers(tmp_path: Path, kind: str, seed: int) -> None:
    path = write(tmp_path, kind)
    draw, data = random.Random(seed), bytearray(path.read_bytes())
    for _ in range(draw.randint(1, 4)):
        match draw.randrange(4):
            case 0:
                del data[draw.randrange(len(data) + 1) :]
            case 1:
                data[draw.randrange(len(data)) if data else 0 :][:1] = bytes([draw.randrange(256)])
            case 2:
                data += draw.randbytes(draw.randint(1, 9))
            case _ if data:
                data[draw.randrange(min(len(data), 90))] = draw.randrange(256)
    path.write_bytes(data)
    with suppress(DataError):
        assert read_vectors(path, 7, 5).shape == (7, 5)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    about=st.fixed_dictionaries(
        {
            "dtype": st.sampled_from(["F16", "F32", "F64", 3]),
            "shape": st.lists(st.integers(-3, 2**40), max_size=3) | st.none(),
            "data_offsets": st.lists(st.integers(-9, 2**40), min_size=1, max_size=3) | st.none(),
        }
    ),
    more=st.dictionaries(st.sampled_from(["x", "__metadata__"]), st.none() | st.integers(), max_size=2),
)
def test_a_header_that_lies_is_an_error(tmp_path: Path, about: Any, more: Any) -> None:
    encoded = json.dumps({"a": about, **more}).encode()
    path = tmp_path / "v.safetensors"
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + bytes(64))
    with suppress(DataError):
        assert sum(tensor.nbytes for tensor in read_tensors(path).values()) <= 64
