"""A checkpoint of transformers that retrieval runs: its folder, how it is opened, and the key of its vectors.

Weights are read from safetensors alone, and no code that comes with a checkpoint is run.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from polyhop.common.extras import is_installed, require
from polyhop.common.text import counted
from polyhop.errors import DataError, MissingExtra, SettingError, UsageError

Dtype: TypeAlias = Literal["float32", "float16", "bfloat16"]

_HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")

_WITH_OFFSET = ("roberta", "xlm-roberta", "camembert", "mpnet")
"""Types whose positions begin behind the padding's."""

CONVERT = """\
import torch; from safetensors.torch import save_file
save_file({k: v.clone() for k, v in torch.load("pytorch_model.bin", "cpu", weights_only=True).items()}, \
"model.safetensors", {"format": "pt"})"""


class Pretrained:
    """``path_or_name``: a folder, or a name on the Hugging Face hub; ``name``: what it is opened as, for messages.

    ``device``: as torch names it; None is CUDA where there is one, else the CPU. ``dtype``: bfloat16 is faster on
    processors that have it, 1.5 times on one with AVX-512, and results differ in the third digit.

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
        """Open the checkpoint by the class of transformers of this name."""
        options |= {"local_files_only": self.local, "trust_remote_code": False}
        try:
            return getattr(self.transformers, kind).from_pretrained(self.source, **options)
        except Exception as error:  # OSError, ValueError, those of safetensors and of the hub: no common family
            advice = ""
            if self.local and Path(self.source, "pytorch_model.bin").exists():
                advice = f"\npytorch_model.bin is a pickle, never read here; if you trust it, convert it:\n{CONVERT}"
            raise DataError(f"{self.name} cannot be opened: {error}{advice}") from error

    def network(self, kind: str, *, without: str = "", what: str) -> Any:
        """The network of a class, ready to run. ``without``: weights of this prefix may be lacking; ``what`` it is not
        where others are."""
        network, info = self.part(kind, use_safetensors=True, output_loading_info=True, dtype=self.dtype)
        if lacking := sorted(key for key in info["missing_keys"] if not (without and key.startswith(without))):
            raise UsageError(
                f"{self.name} lacks {counted(len(lacking), 'weights')}, such as {lacking[0]}: it is no {what}"
            )
        return network.to(self.device).eval()

    def positions(self) -> int:
        """The most tokens the network can take."""
        limits = [getattr(self.config, "max_position_embeddings", None), self.tokenizer.model_max_length]
        if limits[0] and self.config.model_type in _WITH_OFFSET:
            limits[0] -= self.config.pad_token_id + 1
        return min(int(limit) for limit in limits if limit and limit > 0)

    def file(self, path: str) -> Path | None:
        """A file of the checkpoint; None where it has none, or where it cannot be had."""
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
        """A digest of the checkpoint, of the ``others`` among its files, and of ``settings``."""
        digest = hashlib.sha256(repr(settings).encode())
        if not self.local:
            digest.update(repr((self.source, getattr(self.config, "_commit_hash", None))).encode())
            return digest.hexdigest()
        folder = Path(self.source)
        files = {*folder.glob("*.safetensors"), folder / "config.json", *folder.glob("tokenizer*.json")}
        files.update(folder / path for path in others)
        for path in sorted(file for file in files if file.is_file()):
            with path.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
        return digest.hexdigest()
