"""A checkpoint of transformers: settings and tokenizer are read at once, weights on first use.

Weights are read from safetensors alone, and no code that comes with a checkpoint is run.
"""

from __future__ import annotations

import inspect
import re
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from polyhop.common.extras import is_installed, require
from polyhop.common.text import counted
from polyhop.errors import DataError, MissingExtra, SettingError, UsageError
from polyhop.lm.hf.layers import cache_argument, pack, patch_attention
from polyhop.lm.hf.tokens import Tokens

Dtype: TypeAlias = Literal["float32", "float16", "bfloat16"]

_HUB_NAME = re.compile(r"[\w.-]+(?:/[\w.-]+)?")


class Checkpoint:
    """A model before its weights are loaded.

    ``scores``: True if it can score text. ``max_tokens``: its limit, or None. ``fingerprint``: of the files, or the
    hub's revision.
    """

    def __init__(self, name: str, path_or_name: str, device: str | None, dtype: Dtype) -> None:
        if not is_installed("hf"):
            raise MissingExtra(f"the model {name}", "hf")
        if dtype not in get_args(Dtype):
            raise SettingError(f"dtype={dtype!r}: must be {', '.join(map(repr, get_args(Dtype)))}")
        folder = Path(path_or_name).expanduser()
        self._is_local = bool(path_or_name) and folder.is_dir()
        if not self._is_local and not _HUB_NAME.fullmatch(path_or_name):
            raise DataError(
                f"{name}: a checkpoint's folder or its name on the Hugging Face hub, as in hf:google/t5-xl-lm-adapt"
            )
        self.name, self.dtype = name, dtype
        self._source = str(folder) if self._is_local else path_or_name
        self._torch, self._transformers = (
            require(module, "hf", f"the model {name}") for module in ("torch", "transformers")
        )
        self.device = self._checked_device(device)
        self._config = self._pretrained(self._transformers.AutoConfig)
        self.is_encoder_decoder = bool(self._config.is_encoder_decoder)
        self._kind = self._class()
        self.tokens = self._open_tokens()
        self.scores, self.max_tokens = self._reach()
        self.fingerprint = _fingerprint(folder) if self._is_local else str(getattr(self._config, "_commit_hash", None))

    def model(self) -> Any:
        """Load the network with its weights onto its device."""
        auto = (
            self._transformers.AutoModelForSeq2SeqLM
            if self.is_encoder_decoder
            else self._transformers.AutoModelForCausalLM
        )
        for setting in ("activation_function", "hidden_act", "dense_act_fn"):
            if getattr(self._config, setting, None) == "gelu_new":
                setattr(self._config, setting, "gelu_pytorch_tanh")  # the same function as one operation, not eight
        model, loading = self._pretrained(
            auto,
            config=self._config,
            use_safetensors=True,
            output_loading_info=True,
            dtype=getattr(self._torch, self.dtype),
        )
        if lacking := sorted(loading["missing_keys"]):
            raise UsageError(
                f"{self.name} lacks {counted(len(lacking), 'weights')}, such as {lacking[0]}: "
                "it was not trained as a language model"
            )
        model.to(self.device).eval()
        pack(model)
        patch_attention(model)
        return model

    def _pretrained(self, kind: Any, **options: Any) -> Any:
        try:
            return kind.from_pretrained(
                self._source, local_files_only=self._is_local, trust_remote_code=False, **options
            )
        except Exception as error:  # OSError, ValueError, those of safetensors and of the hub: no common family
            raise DataError(f"{self.name} cannot be opened: {error}") from error

    def _class(self) -> Any:
        mapping = "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING" if self.is_encoder_decoder else "MODEL_FOR_CAUSAL_LM_MAPPING"
        known = getattr(self._transformers, mapping)
        if type(self._config) not in known:
            raise UsageError(
                f"{self.name} is a {self._config.model_type} checkpoint, which writes no text: "
                "T5's, GPT-2's, OPT's and Llama's families do"
            )
        kind = known[type(self._config)]
        has_attention = getattr(self._config.get_text_config(), "num_attention_heads", None) is not None
        if not has_attention or cache_argument(kind.forward) is None:
            raise UsageError(f"{self.name} is a {self._config.model_type} model, without attention: not known here")
        return kind

    def _open_tokens(self) -> Tokens:
        tokenizer = self._pretrained(self._transformers.AutoTokenizer)
        if not getattr(tokenizer, "is_fast", False):
            raise UsageError(f"{self.name} has no fast tokenizer (tokenizer.json), which is needed")
        return Tokens(tokenizer, is_encoder_decoder=self.is_encoder_decoder)

    def _reach(self) -> tuple[bool, int | None]:
        """Return True if the model can score, and its maximum number of tokens.

        A causal model scores if each token can be given its mask and its position: not if layers work otherwise than by
        attention, or know positions by distance alone. With a sliding window, text has to fit in it.
        """
        config = self._config.get_text_config()
        most = getattr(config, "max_position_embeddings", None)
        if self.is_encoder_decoder:
            return True, most
        layers = set(getattr(config, "layer_types", None) or ())
        window = getattr(config, "sliding_window", None)
        if window and (not layers or "sliding_attention" in layers):
            most = min(window, most or window)
        takes, cache = inspect.signature(self._kind.forward).parameters, cache_argument(self._kind.forward)
        placeable = {"position_ids", cache} <= takes.keys() and not getattr(config, "alibi", False)
        return placeable and layers <= {"full_attention", "sliding_attention"}, most

    def _checked_device(self, device: str | None) -> str:
        torch = self._torch
        there = [name for name in ("cuda", "mps") if getattr(torch, name).is_available()]
        if device is None:
            return "cuda" if "cuda" in there else "cpu"
        kind = device.partition(":")[0]
        if kind not in ("cpu", *there):
            raise SettingError(f"device={device!r}: here is {' and '.join(['cpu', *there])}")
        return device


def _fingerprint(folder: Path) -> str:
    """Hash the files' names, sizes and times: for the cache, a retrained checkpoint is another model."""
    files = sorted(path for path in folder.iterdir() if path.suffix in (".json", ".safetensors", ".model", ".jinja"))
    stats = [(path.name, (stat := path.stat()).st_size, stat.st_mtime_ns) for path in files]
    return blake2b(repr(stats).encode(), digest_size=8).hexdigest()
