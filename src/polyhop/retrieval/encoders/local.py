"""Encoders that run on this machine: checkpoints by transformers or onnxruntime, and the built-in one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyhop.common.registry import with_options
from polyhop.errors import UsageError
from polyhop.lm.pocket.encoder.network import EMBEDDER, FOLDER, WIDTH, embedder, fingerprint
from polyhop.lm.pocket.reading.comparison import canonical
from polyhop.retrieval.checkpoints import Dtype, Exported, Pretrained, digest
from polyhop.retrieval.encoders.base import Pooled, Vectors, shown
from polyhop.retrieval.encoders.families import recipe_of
from polyhop.retrieval.encoders.stored import read_layers
from polyhop.types import Passage

_STATES = ("last_hidden_state", "token_embeddings")


class PocketEncoder:
    """The built-in encoder: no torch, no download. Its vectors, the mean over the pieces of a text, have length 1.

    ``key`` is the hash of the network.
    """

    name = "pocket"
    size = WIDTH

    def __init__(self) -> None:
        self.key = fingerprint(FOLDER / EMBEDDER)

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Encode queries, two things that one compares in alphabetical order: (texts, size)."""
        return embedder().embed([canonical(text.strip()) for text in texts])

    def passages(self, passages: Sequence[Passage]) -> Vectors:
        """Encode titles and texts: (passages, size)."""
        return embedder().embed([shown(passage) for passage in passages])


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
        self._network = self._opened()
        max_tokens = min(self.recipe.max_tokens, self._from.positions())
        ids = self._from.tokenizer.get_vocab()
        self._ready(
            read_layers(name, self._from.file, self.recipe.layers),
            max_tokens,
            self._from.tokenizer.pad_token_id,
            end_id(name, self.recipe.end, ids.get),
        )
        self._check_attention(list(ids.values()))
        settings = (self.recipe._replace(query=""), max_tokens, dtype)
        self.key = self._from.key(settings, [f"{layer}/model.safetensors" for layer in self.recipe.layers])

    def _token_ids(self, texts: Sequence[str], max_tokens: int) -> list[list[int]]:
        rows: list[list[int]] = self._from.tokenizer(list(texts), truncation=True, max_length=max_tokens)["input_ids"]
        return rows

    def _pool(self, ids: NDArray[np.int64], mask: NDArray[np.int64], weights: Vectors) -> Vectors:
        torch = self._from.torch
        with torch.inference_mode():
            given, masked, weighed = (torch.from_numpy(each).to(self._from.device) for each in (ids, mask, weights))
            states = self._network(input_ids=given, attention_mask=masked).last_hidden_state.float()
            states = states.masked_fill(masked[:, :, None] == 0, 0)
            pooled: Vectors = torch.einsum("bt,btd->bd", weighed, states).cpu().numpy()
        return pooled

    def _opened(self) -> Any:
        config = self._from.config
        is_t5 = config.model_type == "t5"
        network = self._from.network("T5EncoderModel" if is_t5 else "AutoModel", without="pooler.", what="encoder")
        if getattr(config, "is_encoder_decoder", False) and not is_t5:
            raise UsageError(f"{self.name} is a {config.model_type} checkpoint; an encoder is needed")
        return network

    def _check_attention(self, ids: Sequence[int]) -> None:
        """Check that a decoder reads both ways if its config says so, as gte-Qwen2's and EmbeddingGemma's do: older
        versions of transformers read forwards only, without a word, and the vectors are useless."""
        config = self._from.config
        if getattr(config, "is_causal", True) and not getattr(config, "use_bidirectional_attention", False):
            return
        pairs = np.array([[ids[0], ids[1]], [ids[0], ids[2]]])
        first = np.array([[1, 0], [1, 0]], np.float32)
        one, other = self._pool(pairs, np.ones_like(pairs), first)
        if np.allclose(one, other, rtol=1e-4):
            raise UsageError(
                f"{self.name} reads both ways, which transformers {self._from.transformers.__version__} cannot do with "
                f"{config.model_type}: upgrade transformers, or ask a server for its vectors (dense:openai:MODEL@URL)"
            )


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
        self._tokenizer = self._network.tokenizer
        pad = (self._tokenizer.padding or {}).get("pad_id", 0)
        self._tokenizer.no_padding()
        layers = read_layers(name, self._network.file, self.recipe.layers)
        end = end_id(name, self.recipe.end, self._tokenizer.token_to_id)
        self._ready(layers, self.recipe.max_tokens, pad, end)
        self.key = digest(self.recipe._replace(query=""), self._network.files)

    def _token_ids(self, texts: Sequence[str], max_tokens: int) -> list[list[int]]:
        self._tokenizer.enable_truncation(max_tokens)
        return [row.ids for row in self._tokenizer.encode_batch(list(texts))]

    def _pool(self, ids: NDArray[np.int64], mask: NDArray[np.int64], weights: Vectors) -> Vectors:
        states = self._network({"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)})
        pooled: Vectors = np.einsum("bt,btd->bd", weights, np.where(mask[:, :, None] == 0, 0, states), dtype=np.float32)
        return pooled


def end_id(name: str, mark: str, find: Callable[[str], int | None]) -> int | None:
    """Return the id of the token that ends each text; None if there is no such mark. Raises ``UsageError`` if the
    tokenizer does not know it."""
    found = find(mark) if mark else None
    if mark and found is None:
        raise UsageError(f"{name}: its tokenizer has no token {mark}, in which its texts end; name another: ?end=TOKEN")
    return found
