"""An encoder over onnxruntime: a checkpoint's export, without torch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.common.registry import with_options
from polyhop.retrieval.encoders.base import Pooled
from polyhop.retrieval.encoders.families import recipe_of
from polyhop.retrieval.encoders.layers import read_layer
from polyhop.retrieval.onnx_network import Exported

_STATES = ("last_hidden_state", "token_embeddings")


class OnnxEncoder(Pooled):
    """``folder`` as ``Exported``'s; the graph gives ``last_hidden_state`` or ``token_embeddings``, (texts, tokens,
    width). ``recipe`` as ``TransformersEncoder``'s."""

    def __init__(self, folder: str, *, batch_size: int = 32, **recipe: Any) -> None:
        name, self._folder = f"dense:onnx:{folder}", Path(folder).expanduser()
        self._network = Exported(name, folder, _STATES)
        super().__init__(name, recipe_of(name, folder, recipe, self._read), batch_size)
        self.name = with_options(name, recipe)
        self._layer = read_layer(name, self._file, self.recipe.layer) if self.recipe.layer else None
        self._tokenizer = self._network.tokenizer
        padding = self._tokenizer.padding or {}
        known = {key: padding[key] for key in ("pad_id", "pad_token", "pad_type_id") if key in padding}
        self._tokenizer.enable_padding(**known)
        self._tokenizer.enable_truncation(self.recipe.max_tokens)
        self.size = self._states(["a"])[0].shape[2] if self._layer is None else len(self._layer.weight)
        digest = hashlib.sha256(repr(self.recipe._replace(query="")).encode())
        for path in self._network.files:
            with path.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
        self.key = digest.hexdigest()

    def _states(self, texts: Sequence[str]) -> tuple[NDArray[Any], NDArray[Any]]:
        found = self._tokenizer.encode_batch(list(texts))
        mask = np.array([row.attention_mask for row in found], np.int64)
        given = {
            "input_ids": np.array([row.ids for row in found], np.int64),
            "attention_mask": mask,
            "token_type_ids": np.array([row.type_ids for row in found], np.int64),
        }
        return self._network(given), mask

    def _read(self, path: str) -> bytes | None:
        file = self._file(path)
        return None if file is None else file.read_bytes()

    def _file(self, path: str) -> Path | None:
        file = self._folder / path
        return file if file.is_file() else None
