"""An encoder over a checkpoint of transformers or sentence-transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from polyhop.common.registry import with_options
from polyhop.errors import UsageError
from polyhop.retrieval.encoders.base import Pooled
from polyhop.retrieval.encoders.families import recipe_of
from polyhop.retrieval.encoders.layers import read_layer
from polyhop.retrieval.pretrained import Dtype, Pretrained


class TransformersEncoder(Pooled):
    """``path_or_name``, ``device`` and ``dtype`` as ``Pretrained``'s. Opening it reads its weights.

    ``recipe``: what is to be otherwise than the family's or the checkpoint's own (``families.Recipe``'s fields).
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
        super().__init__(name, recipe_of(name, path_or_name, recipe, self._read), batch_size)
        self.name = with_options(name, {**recipe, **({} if dtype == "float32" else {"dtype": dtype})})
        layer = self.recipe.layer
        self._layer = read_layer(name, self._from.file, layer) if layer else None
        self._most = min(self.recipe.max_tokens, self._from.positions())
        self._network = self._opened()
        self.size = len(self._layer.weight) if self._layer else int(self._from.config.hidden_size)
        settings = (self.recipe._replace(query=""), self._most, dtype)
        self.key = self._from.key(settings, [f"{layer}/model.safetensors"] if layer else [])

    def _states(self, texts: Sequence[str]) -> tuple[NDArray[Any], NDArray[Any]]:
        with self._from.torch.inference_mode():
            batch = self._from.tokenizer(
                list(texts), padding=True, truncation=True, max_length=self._most, return_tensors="pt"
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

    def _read(self, path: str) -> bytes | None:
        file = self._from.file(path)
        return None if file is None else file.read_bytes()
