"""Checkpoints of networks that retrieval runs, by transformers or by onnxruntime.

Weights are read from safetensors, and no code that comes with a checkpoint is run.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from polyhop.common.extras import is_installed, require
from polyhop.common.text import counted
from polyhop.errors import DataError, MissingExtra, SettingError, UsageError

Dtype: TypeAlias = Literal["float32", "float16", "bfloat16"]

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")

_WITH_OFFSET = ("roberta", "xlm-roberta", "camembert", "mpnet")
"""Types whose positions begin after that of the padding."""

CONVERT = """\
import torch; from safetensors.torch import save_file
save_file({k: v.clone() for k, v in torch.load("pytorch_model.bin", "cpu", weights_only=True).items()}, \
"model.safetensors", {"format": "pt"})"""

_GRAPHS = ("model.onnx", "onnx/model.onnx")
_FIELDS = {"input_ids", "attention_mask", "token_type_ids"}


class Pretrained:
    """A checkpoint of transformers.

    Args:
        name: its name in messages.
        path_or_name: a folder, or a name on the Hugging Face hub.
        device: as torch names it; None is CUDA if available, else the CPU.
        dtype: bfloat16 is faster on processors that support it (1.5 times with AVX-512); results differ in the third
            digit.

    Raises:
        MissingExtra: torch or transformers are not installed.
        DataError: there is no such checkpoint, or it cannot be opened.
    """

    def __init__(self, name: str, path_or_name: str, *, device: str | None, dtype: Dtype) -> None:
        if not is_installed("hf"):
            raise MissingExtra(name, "hf")
        if dtype not in get_args(Dtype):
            raise SettingError(f"dtype={dtype!r}: must be {', '.join(map(repr, get_args(Dtype)))}")
        folder = Path(path_or_name).expanduser()
        self.local = bool(path_or_name) and folder.is_dir()
        self.source = str(folder) if self.local else path_or_name
        if not self.local and not _HUB_NAME.fullmatch(path_or_name):
            raise DataError(f"{name}: no such folder; give that of a checkpoint, or a name on the Hugging Face hub")
        self.name = name
        self.torch, self.transformers = (require(module, "hf", name) for module in ("torch", "transformers"))
        self.config = self.part("AutoConfig")
        self.tokenizer = self.part("AutoTokenizer")
        if self.tokenizer.pad_token is None:
            raise UsageError(f"{name}: its tokenizer has no padding token, so it is no encoder's")
        self.dtype = getattr(self.torch, dtype)
        self.device = device or ("cuda" if self.torch.cuda.is_available() else "cpu")

    def part(self, kind: str, **options: Any) -> Any:
        """Open the checkpoint by the class of transformers with this name."""
        options |= {"local_files_only": self.local, "trust_remote_code": False}
        try:
            return getattr(self.transformers, kind).from_pretrained(self.source, **options)
        except Exception as error:  # OSError, ValueError, those of safetensors and of the hub: no common family
            advice = ""
            if self.local and Path(self.source, "pytorch_model.bin").exists():
                advice = f"\npytorch_model.bin is a pickle, never read here; if you trust it, convert it:\n{CONVERT}"
            raise DataError(f"{self.name} cannot be opened: {error}{advice or self._own_code()}") from error

    def network(self, kind: str, *, without: str = "", what: str) -> Any:
        """Open the network of a class, ready to run. Weights with the prefix ``without`` may be missing; if others are,
        an error says that the checkpoint is no ``what``."""
        network, info = self.part(kind, use_safetensors=True, output_loading_info=True, dtype=self.dtype)
        if lacking := sorted(key for key in info["missing_keys"] if not (without and key.startswith(without))):
            raise UsageError(
                f"{self.name} lacks {counted(len(lacking), 'weights')}, such as {lacking[0]}: it is no {what}"
                f"{self._own_code()}"
            )
        return network.to(self.device).eval()

    def _own_code(self) -> str:
        """Say what works for a checkpoint that comes with code, such as NV-Embed's; "" for any other."""
        config = self.file("config.json")
        if config is None or b'"auto_map"' not in config.read_bytes():
            return ""
        return (
            ".\nIt comes with code of its own, which is never run here. A server can run it: dense:openai:MODEL@URL "
            "for an encoder, --rerank vllm:MODEL@URL for a reranker"
        )

    def weights(self, path: Path) -> dict[str, Any]:
        """Read the weights of a file by name; of a ``.bin`` by torch's loader of weights, which runs no code."""
        safetensors = require("safetensors.torch", "hf", self.name)
        try:
            if path.suffix == ".bin":
                given = self.torch.load(path, map_location="cpu", weights_only=True)
            else:
                given = safetensors.load_file(path)
            return {key.removeprefix("module."): value for key, value in given.items()}
        except Exception as error:  # OSError, pickle's, torch's and safetensors' own: no common family
            raise DataError(f"{self.name}: {path.name} cannot be read: {error}", path) from error

    def filled(self, network: Any, weights: Mapping[str, Any], path: Path) -> Any:
        """Fill a network with weights from ``path`` and make it ready to run."""
        try:
            network.load_state_dict(weights)
        except RuntimeError as error:
            raise DataError(f"its weights are of another shape than config.json says: {error}", path) from error
        return network.to(device=self.device, dtype=self.dtype).eval()

    def positions(self) -> int:
        """Return the maximum number of tokens that the network can read."""
        limits = [getattr(self.config, "max_position_embeddings", None), self.tokenizer.model_max_length]
        if limits[0] and self.config.model_type in _WITH_OFFSET:
            limits[0] -= self.config.pad_token_id + 1
        return min(int(limit) for limit in limits if limit and limit > 0)

    def file(self, path: str) -> Path | None:
        """Return the path of a file of the checkpoint; None if it has none, or if it cannot be downloaded."""
        if self.local:
            file = Path(self.source, path)
            return file if file.is_file() else None
        found = self.transformers.utils.cached_file(
            self.source,
            path,
            _raise_exceptions_for_gated_repo=False,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
        return None if found is None else Path(found)

    def key(self, settings: object, others: Iterable[str] = ()) -> str:
        """Hash the checkpoint, the ``others`` among its files, and ``settings``."""
        if not self.local:
            commit = repr((self.source, getattr(self.config, "_commit_hash", None)))
            return hashlib.sha256(repr(settings).encode() + commit.encode()).hexdigest()
        folder = Path(self.source)
        files = {*folder.glob("*.safetensors"), folder / "config.json", *folder.glob("tokenizer*.json")}
        return digest(settings, sorted(files.union(folder / path for path in others)))


class Exported:
    """A network exported for onnxruntime, with its tokenizer: no torch is needed.

    ``folder`` holds ``tokenizer.json`` and ``model.onnx`` (or ``onnx/model.onnx``, as sentence-transformers writes it).
    The graph reads ``input_ids`` and optionally ``attention_mask`` and ``token_type_ids``, each (texts, tokens); its
    output is the first of ``outputs`` that it has. ``name`` is for messages.

    Raises:
        MissingExtra: onnxruntime or tokenizers are not installed.
        DataError: the folder lacks a file, or it cannot be opened.
        UsageError: the graph has other inputs or outputs.
    """

    def __init__(self, name: str, folder: str, outputs: Sequence[str]) -> None:
        self.name, self.folder = name, Path(folder).expanduser()
        if not is_installed("onnx"):
            raise MissingExtra(name, "onnx")
        graphs = [path for path in _GRAPHS if (self.folder / path).is_file()]
        if not folder or not graphs or not (self.folder / "tokenizer.json").is_file():
            raise DataError(f"{name} needs a folder with model.onnx and tokenizer.json", self.folder)
        self.files = (self.folder / graphs[0], self.folder / "tokenizer.json")
        runtime, tokenizers = (require(module, "onnx", name) for module in ("onnxruntime", "tokenizers"))
        graph, words = map(str, self.files)
        try:
            self._session = runtime.InferenceSession(graph, providers=runtime.get_available_providers())
            self.tokenizer = tokenizers.Tokenizer.from_file(words)
        except Exception as error:  # neither library has a family of errors of its own
            raise DataError(f"{name} cannot be opened: {error}", self.folder) from error
        self._inputs = {given.name for given in self._session.get_inputs()}
        if strange := self._inputs - _FIELDS:
            raise UsageError(f"{name} wants {', '.join(sorted(strange))}, which no tokenizer gives")
        names = [output.name for output in self._session.get_outputs()]
        if not (named := [output for output in outputs if output in names]):
            raise UsageError(f"{name} gives {', '.join(names)}: must give {' or '.join(outputs)}")
        self._output = named[0]

    def __call__(self, given: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Run the network on a batch."""
        try:
            (made,) = self._session.run([self._output], {key: given[key] for key in self._inputs})
        except Exception as error:  # onnxruntime has no family of errors
            raise UsageError(f"{self.name} cannot be run; was it exported with free axes? {error}") from error
        result: NDArray[Any] = made
        return result

    def file(self, path: str) -> Path | None:
        """Return the path of a file of the folder; None if it has none."""
        file = self.folder / path
        return file if file.is_file() else None


def digest(settings: object, files: Iterable[Path]) -> str:
    """Hash settings and those of the files that exist, in their order."""
    found = hashlib.sha256(repr(settings).encode())
    for path in files:
        if path.is_file():
            with path.open("rb") as stream:
                found.update(hashlib.file_digest(stream, "sha256").digest())
    return found.hexdigest()


def check_finite(name: str, what: str, values: NDArray[Any]) -> None:
    """Raise ``UsageError`` if a network returned values that are not numbers."""
    if not np.isfinite(values).all():
        raise UsageError(f"{name} gives {what} that are not numbers; try float32")
