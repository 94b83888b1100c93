"""Encoders that run on this machine: checkpoints by transformers or onnxruntime, and the built-in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.common.registry import with_options
from polyhop.errors import UsageError
from polyhop.lm.pocket.encoder.network import WIDTH, encoder, fingerprint
from polyhop.retrieval.checkpoints import Dtype, Exported, Pretrained, digest
from polyhop.retrieval.encoders.base import Pooled, Vectors, shown
from polyhop.retrieval.encoders.families import recipe_of
from polyhop.retrieval.encoders.stored import read_layer
from polyhop.types import Passage

_STATES = ("last_hidden_state", "token_embeddings")


class PocketEncoder:
    """The built-in encoder: no torch, no download. Its vectors, the mean over the pieces of a text, have length 1.

    ``key`` is the hash of the network.
    """

    name = "pocket"
    size = WIDTH

    def __init__(self) -> None:
        self.key = fingerprint()

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Encode queries: (texts, size)."""
        return encoder().embed([text.strip() for text in texts])

    def passages(self, passages: Sequence[Passage]) -> Vectors:
        """Encode titles and texts: (passages, size)."""
        return encoder().embed([shown(passage) for passage in passages])


class TransformersEncoder(Pooled):
    """A checkpoint of transformers or sentence-transformers. Opening it reads its weights.

    ``path_or_name``, ``device`` and ``dtype`` are as for ``Pretrained``. ``recipe`` replaces settings of the family's
    or the checkpoint's own recipe (the fields of ``families.Recipe``).
    """

    def __init__(
        self,
        path_or_name: str,
        *,
        device: str | None = None,
        dtype: Dtype = "float32",
        batch_size: int = 32,
        **recipe: Any,
    ) -> None:
        name = f"dense:{path_or_name}"
        self._from = Pretrained(name, path_or_name, device=device, dtype=dtype)
        super().__init__(name, recipe_of(name, path_or_name, recipe, self._from.file), batch_size)
        self.name = with_options(name, {**recipe, **({} if dtype == "float32" else {"dtype": dtype})})
        layer = self.recipe.layer
        self._layer = read_layer(name, self._from.file, layer) if layer else None
        self._max_tokens = min(self.recipe.max_tokens, self._from.positions())
        self._network = self._opened()
        self.size = len(self._layer.weight) if self._layer else int(self._from.config.hidden_size)
        settings = (self.recipe._replace(query=""), self._max_tokens, dtype)
        self.key = self._from.key(settings, [f"{layer}/model.safetensors"] if layer else [])

    def _states(self, texts: Sequence[str]) -> tuple[NDArray[Any], NDArray[Any]]:
        with self._from.torch.inference_mode():
            batch = self._from.tokenizer(
                list(texts), padding=True, truncation=True, max_length=self._max_tokens, return_tensors="pt"
            ).to(self._from.device)
            states = self._network(**batch).last_hidden_state
            return states.float().cpu().numpy(), batch["attention_mask"].cpu().numpy()

    def _opened(self) -> Any:
        config = self._from.config
        is_t5 = config.model_type == "t5"
        network = self._from.network("T5EncoderModel" if is_t5 else "AutoModel", without="pooler.", what="encoder")
        if getattr(config, "is_encoder_decoder", False) and not is_t5:
            raise UsageError(f"{self.name} is a {config.model_type} checkpoint; an encoder is needed")
        return network


class OnnxEncoder(Pooled):
    """A checkpoint exported for onnxruntime, without torch.

    ``folder`` is as for ``Exported``; the graph returns ``last_hidden_state`` or ``token_embeddings``, (texts, tokens,
    width). ``recipe`` is as for ``TransformersEncoder``.
    """

    def __init__(self, folder: str, *, batch_size: int = 32, **recipe: Any) -> None:
        name = f"dense:onnx:{folder}"
        self._network = Exported(name, folder, _STATES)
        super().__init__(name, recipe_of(name, folder, recipe, self._network.file), batch_size)
        self.name = with_options(name, recipe)
        self._layer = read_layer(name, self._network.file, self.recipe.layer) if self.recipe.layer else None
        self._tokenizer = self._network.tokenizer
        padding = self._tokenizer.padding or {}
        known = {key: padding[key] for key in ("pad_id", "pad_token", "pad_type_id") if key in padding}
        self._tokenizer.enable_padding(**known)
        self._tokenizer.enable_truncation(self.recipe.max_tokens)
        self.size = self._states(["a"])[0].shape[2] if self._layer is None else len(self._layer.weight)
        self.key = digest(self.recipe._replace(query=""), self._network.files)

    def _states(self, texts: Sequence[str]) -> tuple[NDArray[Any], NDArray[Any]]:
        found = self._tokenizer.encode_batch(list(texts))
        mask = np.array([row.attention_mask for row in found], np.int64)
        given = {
            "input_ids": np.array([row.ids for row in found], np.int64),
            "attention_mask": mask,
            "token_type_ids": np.array([row.type_ids for row in found], np.int64),
        }
        return self._network(given), mask
