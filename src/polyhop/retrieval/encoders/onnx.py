"""An encoder over onnxruntime: a checkpoint's export, without torch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.errors import DataError, MissingExtra, UsageError
from polyhop.extras import installed, load
from polyhop.retrieval.encoders.base import Pooled, named
from polyhop.retrieval.encoders.families import recipe_of
from polyhop.retrieval.encoders.layers import read_layer

_GRAPHS = ("model.onnx", "onnx/model.onnx")
_STATES = ("last_hidden_state", "token_embeddings")


class OnnxEncoder(Pooled):
    """``folder``: with ``tokenizer.json`` and ``model.onnx`` (or ``onnx/model.onnx``, as sentence-transformers' lie).

    The graph takes ``input_ids`` and, where it wants them, ``attention_mask`` and ``token_type_ids``; it gives
    ``last_hidden_state`` or ``token_embeddings``, (texts, tokens, width). ``recipe`` as ``TransformersEncoder``'s.
    """

    def __init__(self, folder: str, *, batch_size: int = 32, **recipe: Any) -> None:
        name, self._folder = f"dense:onnx:{folder}", Path(folder).expanduser()
        if not installed("onnx"):
            raise MissingExtra(name, "onnx")
        graphs = [path for path in _GRAPHS if (self._folder / path).is_file()]
        if not folder or not graphs or not (self._folder / "tokenizer.json").is_file():
            raise DataError(f"{name} needs a folder with model.onnx and tokenizer.json", self._folder)
        super().__init__(name, recipe_of(name, folder, recipe, self._read), batch_size)
        self.name = named(name, recipe)
        self._layer = read_layer(name, self._file, self.recipe.layer) if self.recipe.layer else None
        graph = self._folder / graphs[0]
        self._open(graph)
        self.size = self._states(["a"])[0].shape[2] if self._layer is None else len(self._layer.weight)
        digest = hashlib.sha256(repr(self.recipe._replace(query="")).encode())
        for path in (graph, self._folder / "tokenizer.json"):
            with path.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
        self.key = digest.hexdigest()

    def _open(self, graph: Path) -> None:
        runtime, tokenizers = (load(module, "onnx", self.name) for module in ("onnxruntime", "tokenizers"))
        try:
            self._session = runtime.InferenceSession(str(graph), providers=runtime.get_available_providers())
            self._tokenizer = tokenizers.Tokenizer.from_file(str(self._folder / "tokenizer.json"))
        except Exception as error:  # neither library has a family of errors of its own
            raise DataError(f"{self.name} cannot be opened: {error}", self._folder) from error
        padding = self._tokenizer.padding or {}
        known = {key: padding[key] for key in ("pad_id", "pad_token", "pad_type_id") if key in padding}
        self._tokenizer.enable_padding(**known)
        self._tokenizer.enable_truncation(self.recipe.max_tokens)
        self._wants = {given.name for given in self._session.get_inputs()}
        gives = [output.name for output in self._session.get_outputs()]
        if strange := self._wants - {"input_ids", "attention_mask", "token_type_ids"}:
            raise UsageError(f"{self.name} wants {', '.join(sorted(strange))}, which no tokenizer gives")
        if not (states := [output for output in gives if output in _STATES]):
            raise UsageError(f"{self.name} gives {', '.join(gives)}: must give {' or '.join(_STATES)}")
        self._gives = states[0]

    def _states(self, texts: Sequence[str]) -> tuple[NDArray[Any], NDArray[Any]]:
        found = self._tokenizer.encode_batch(list(texts))
        mask = np.array([one.attention_mask for one in found], np.int64)
        given = {
            "input_ids": np.array([one.ids for one in found], np.int64),
            "attention_mask": mask,
            "token_type_ids": np.array([one.type_ids for one in found], np.int64),
        }
        try:
            (states,) = self._session.run([self._gives], {key: given[key] for key in self._wants})
        except Exception as error:  # onnxruntime has no family of errors
            raise UsageError(f"{self.name} cannot be run; was it exported with free axes? {error}") from error
        return states, mask

    def _read(self, path: str) -> bytes | None:
        file = self._file(path)
        return None if file is None else file.read_bytes()

    def _file(self, path: str) -> Path | None:
        file = self._folder / path
        return file if file.is_file() else None
