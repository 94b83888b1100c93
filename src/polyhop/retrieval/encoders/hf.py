"""An encoder over a checkpoint of transformers or sentence-transformers.

Weights are read from safetensors alone, and no code that comes with a checkpoint is run.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from numpy.typing import NDArray

from polyhop.errors import DataError, MissingExtra, SettingError, UsageError
from polyhop.extras import installed, load
from polyhop.retrieval.encoders.base import Pooled, named
from polyhop.retrieval.encoders.families import recipe_of
from polyhop.retrieval.encoders.layers import read_layer

Dtype: TypeAlias = Literal["float32", "float16", "bfloat16"]

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")

_WITH_OFFSET = ("roberta", "xlm-roberta", "camembert", "mpnet")
"""Types whose positions begin behind the padding's."""

CONVERT = """\
import torch; from safetensors.torch import save_file
save_file({k: v.clone() for k, v in torch.load("pytorch_model.bin", "cpu", weights_only=True).items()}, \
"model.safetensors", {"format": "pt"})"""


class TransformersEncoder(Pooled):
    """``path_or_name``: a folder, or a name on the Hugging Face hub. Opening it reads its weights.

    ``recipe``: what is to be otherwise than the family's or the checkpoint's own (``families.Recipe``'s fields).
    ``device``: as torch names it; None is CUDA where there is one, else the CPU. ``dtype``: bfloat16 is faster
    on processors that have it, 1.5 times on one with AVX-512, and its vectors differ in the third digit.
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
        if not installed("hf"):
            raise MissingExtra(name, "hf")
        if dtype not in get_args(Dtype):
            raise SettingError(f"dtype={dtype!r}: must be {', '.join(map(repr, get_args(Dtype)))}")
        folder = Path(path_or_name).expanduser()
        self._local = bool(path_or_name) and folder.is_dir()
        self._source = str(folder) if self._local else path_or_name
        if not self._local and not _HUB_NAME.fullmatch(path_or_name):
            raise DataError(f"{name}: no such folder; give that of a checkpoint, or a name on the Hugging Face hub")
        self._torch, self._transformers = (load(module, "hf", name) for module in ("torch", "transformers"))
        super().__init__(name, recipe_of(name, path_or_name, recipe, self._read), batch_size)
        self.name = named(name, {**recipe, **({} if dtype == "float32" else {"dtype": dtype})})
        self._config = self._pretrained(self._transformers.AutoConfig)
        self._tokenizer = self._pretrained(self._transformers.AutoTokenizer)
        if self._tokenizer.pad_token is None:
            raise UsageError(f"{name}: its tokenizer has no padding token, so it is no encoder's")
        self._layer = read_layer(name, self._file, self.recipe.layer) if self.recipe.layer else None
        self._most = min(self.recipe.max_tokens, self._positions())
        self._dtype, self._device = dtype, device or ("cuda" if self._torch.cuda.is_available() else "cpu")
        self._network = self._opened()
        self.size = len(self._layer.weight) if self._layer else int(self._config.hidden_size)
        self.key = self._key()

    def _states(self, texts: Sequence[str]) -> tuple[NDArray[Any], NDArray[Any]]:
        with self._torch.inference_mode():
            batch = self._tokenizer(
                list(texts), padding=True, truncation=True, max_length=self._most, return_tensors="pt"
            ).to(self._device)
            states = self._network(**batch).last_hidden_state
            return states.float().cpu().numpy(), batch["attention_mask"].cpu().numpy()

    def _opened(self) -> Any:
        is_t5 = self._config.model_type == "t5"
        auto = self._transformers.T5EncoderModel if is_t5 else self._transformers.AutoModel
        network, told = self._pretrained(
            auto, use_safetensors=True, output_loading_info=True, dtype=getattr(self._torch, self._dtype)
        )
        if lacking := sorted(key for key in told["missing_keys"] if not key.startswith("pooler.")):
            raise UsageError(f"{self.name} lacks {len(lacking)} weights, {lacking[0]} one: it is no encoder")
        if getattr(self._config, "is_encoder_decoder", False) and not is_t5:
            raise UsageError(f"{self.name} is a {self._config.model_type} checkpoint; an encoder is needed")
        return network.to(self._device).eval()

    def _positions(self) -> int:
        """The most tokens the network can take."""
        limits = [getattr(self._config, "max_position_embeddings", None), self._tokenizer.model_max_length]
        if limits[0] and self._config.model_type in _WITH_OFFSET:
            limits[0] -= self._config.pad_token_id + 1
        return min(int(limit) for limit in limits if limit and limit > 0)

    def _pretrained(self, kind: Any, **options: Any) -> Any:
        try:
            return kind.from_pretrained(self._source, local_files_only=self._local, trust_remote_code=False, **options)
        except Exception as error:  # OSError, ValueError, those of safetensors and of the hub: no common family
            advice = ""
            if self._local and Path(self._source, "pytorch_model.bin").exists():
                advice = f"\npytorch_model.bin is a pickle, never read here; if you trust it, convert it:\n{CONVERT}"
            raise DataError(f"{self.name} cannot be opened: {error}{advice}") from error

    def _read(self, path: str) -> bytes | None:
        file = self._file(path)
        return None if file is None else file.read_bytes()

    def _file(self, path: str) -> Path | None:
        """A file of the checkpoint; None where it has none, or where it cannot be had."""
        if self._local:
            file = Path(self._source, path)
            return file if file.is_file() else None
        found = self._transformers.utils.cached_file(
            self._source,
            path,
            _raise_exceptions_for_gated_repo=False,
            _raise_exceptions_for_missing_entries=False,
            _raise_exceptions_for_connection_errors=False,
        )
        return None if found is None else Path(found)

    def _key(self) -> str:
        digest = hashlib.sha256(repr((self.recipe._replace(query=""), self._most, self._dtype)).encode())
        if not self._local:
            digest.update(repr((self._source, getattr(self._config, "_commit_hash", None))).encode())
            return digest.hexdigest()
        folder = Path(self._source)
        files = {*folder.glob("*.safetensors"), folder / "config.json", *folder.glob("tokenizer*.json")}
        if self.recipe.layer:
            files.add(folder / self.recipe.layer / "model.safetensors")
        for path in sorted(file for file in files if file.is_file()):
            with path.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
        return digest.hexdigest()
