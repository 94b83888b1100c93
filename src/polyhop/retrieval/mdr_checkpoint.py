"""A checkpoint of MDR: RoBERTa's state of the first token, projected and normalised, is a text's vector.

Facts of the released code (github.com/facebookresearch/multihop_dense_retrieval): the weights' names (``encoder.*``,
``project.0``, ``project.1``), the lengths in tokens, the pairs, the title in Unicode's NFD form, the question mark
that is left out. Weights are read from safetensors alone, and no code that comes with a checkpoint is run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from polyhop.common.extras import is_installed, require
from polyhop.common.text import counted, normalise_unicode
from polyhop.errors import DataError, MissingExtra, SettingError, UsageError
from polyhop.types import Passage

Dtype: TypeAlias = Literal["float32", "float16", "bfloat16"]
Texts: TypeAlias = Sequence[str] | Sequence[tuple[str, str]]
Embed: TypeAlias = Callable[[Texts], NDArray[np.float32]]
"""Texts, or pairs of them, to vectors: (texts, size)."""

QUESTION_TOKENS, PAIR_TOKENS, PASSAGE_TOKENS = 70, 350, 300

SHARED, QUESTIONS, PASSAGES = "encoder", "q_encoder", "doc_encoder"
_PICKLES = (".pt", ".pth", ".bin", ".ckpt", ".pkl")

CONVERT = """\
import torch
from safetensors.torch import save_file

weights = torch.load("{0}", "cpu", weights_only=True)
save_file({{name: weight.clone() for name, weight in weights.items()}}, "{1}.safetensors")"""
"""The Python that a user runs to convert a released file to safetensors."""


class MdrCheckpoint:
    """A folder with ``config.json`` and the tokenizer of its RoBERTa, and the weights: ``q_encoder.safetensors`` for
    questions and ``doc_encoder.safetensors`` for passages, or ``encoder.safetensors`` for both. Safe across threads:
    one text batch is worked on at a time.

    Attributes:
        size: numbers of a vector.
        key: of all that changes a passage's vector.
    """

    def __init__(self, name: str, path: str, *, device: str | None, dtype: Dtype, batch_size: int) -> None:
        if not is_installed("hf"):
            raise MissingExtra(f"the retriever {name}", "hf")
        if dtype not in get_args(Dtype):
            raise SettingError(f"dtype={dtype!r}: must be {', '.join(map(repr, get_args(Dtype)))}")
        if batch_size < 1:
            raise SettingError(f"batch_size={batch_size}: must be at least 1")
        self.name, self._folder = name, Path(path).expanduser()
        if not path or not self._folder.is_dir():
            raise DataError(f"{name}: no such folder; as in mdr:FOLDER, with a checkpoint's weights, config, tokenizer")
        self._questions, self._passages = self._weights()
        self._torch, self._transformers, self._safetensors = (
            require(module, "hf", f"the retriever {name}") for module in ("torch", "transformers", "safetensors.torch")
        )
        self._device = device or ("cuda" if self._torch.cuda.is_available() else "cpu")
        self._dtype, self._batch_size = dtype, batch_size
        self._config = self._checked_config()
        self._tokenizer = self._pretrained(self._transformers.AutoTokenizer)
        self._lock = Lock()
        self.size: int = self._config.hidden_size
        self.key = self._key()

    def question_embedder(self) -> Callable[[Texts], NDArray[np.float32]]:
        """Opens what embeds questions, cut to 70 tokens, and pairs of a question and a text, cut to 350."""
        network = self._network(self._questions)

        def embed(texts: Texts) -> NDArray[np.float32]:
            paired = bool(texts) and not isinstance(texts[0], str)
            return self._embed(network, texts, PAIR_TOKENS if paired else QUESTION_TOKENS)

        return embed

    def passage_encoder(self) -> Callable[[Sequence[Passage]], NDArray[np.float32]]:
        """Opens what embeds passages, title and text paired and cut to 300 tokens; its network ends with it."""
        network = self._network(self._passages)
        return lambda passages: self._embed(network, [_shown(passage) for passage in passages], PASSAGE_TOKENS)

    def _embed(self, network: Any, texts: Texts, max_tokens: int) -> NDArray[np.float32]:
        torch = self._torch
        with self._lock, torch.inference_mode():
            ids = self._tokenizer(list(texts), truncation="longest_first", max_length=max_tokens)["input_ids"]
            vectors = np.zeros((len(ids), self.size), np.float32)
            by_length = sorted(range(len(ids)), key=lambda number: len(ids[number]))
            for start in range(0, len(ids), self._batch_size):
                numbers = by_length[start : start + self._batch_size]
                rows = [torch.tensor(ids[number]) for number in numbers]
                pad = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True)
                batch = pad(rows, padding_value=self._config.pad_token_id).to(self._device)
                mask = pad([torch.ones_like(row) for row in rows]).to(self._device)
                states = network["encoder"](input_ids=batch, attention_mask=mask).last_hidden_state
                vectors[numbers] = network["project"](states[:, 0]).float().cpu().numpy()
        if not np.isfinite(vectors).all():
            raise UsageError(f"{self.name} gives vectors that are not numbers; in float32 it may not")
        return vectors

    def _network(self, path: Path) -> Any:
        nn = self._torch.nn
        encoder = self._transformers.RobertaModel(self._config, add_pooling_layer=False)
        norm = nn.LayerNorm(self.size, eps=self._config.layer_norm_eps)
        project = nn.Sequential(nn.Linear(self.size, self.size), norm)
        network = nn.ModuleDict({"encoder": encoder, "project": project})
        try:
            given = self._safetensors.load_file(path)
        except Exception as error:  # OSError, and safetensors' own, which has no public family
            raise DataError(f"{self.name}: {path.name} cannot be read: {error}", path) from error
        given = {key.removeprefix("module."): value for key, value in given.items()}
        wanted = network.state_dict().keys()
        if lacking := sorted(wanted - given.keys()):
            raise DataError(
                f"it is no MDR encoder: it lacks {counted(len(lacking), 'weights')}, such as {lacking[0]}", path
            )
        try:
            network.load_state_dict({key: given[key] for key in wanted})
        except RuntimeError as error:
            raise DataError(f"its weights are of another shape than config.json says: {error}", path) from error
        return network.to(device=self._device, dtype=getattr(self._torch, self._dtype)).eval()

    def _weights(self) -> tuple[Path, Path]:
        """The files for questions and for passages."""
        stems = (SHARED, SHARED) if self._lies(SHARED) and not self._lies(QUESTIONS) else (QUESTIONS, PASSAGES)
        for stem in stems:
            if not self._lies(stem):
                raise DataError(f"{self.name}: {stem}.safetensors is missing" + self._advice(stem), self._folder)
        first, second = (self._folder / f"{stem}.safetensors" for stem in stems)
        return first, second

    def _lies(self, stem: str) -> bool:
        return (self._folder / f"{stem}.safetensors").is_file()

    def _advice(self, stem: str) -> str:
        there = {path.name for path in self._folder.iterdir() if path.suffix in _PICKLES}
        own = sorted(name for name in there if name.startswith(f"{stem}.")) or sorted(there)
        if not own:
            return f"; questions and passages need {QUESTIONS} and {PASSAGES}, or {SHARED} for both"
        return (
            f", and {own[0]} is a pickle, which can run code and is never read here. "
            f"If you trust it, convert it in Python:\n{CONVERT.format(own[0], stem)}"
        )

    def _checked_config(self) -> Any:
        config = self._pretrained(self._transformers.AutoConfig)
        if config.model_type != "roberta":
            raise UsageError(f"{self.name}: its config.json is of {config.model_type}; MDR is made of roberta")
        max_tokens = config.max_position_embeddings - config.pad_token_id - 1
        if max_tokens < PAIR_TOKENS:
            raise UsageError(f"{self.name} takes at most {counted(max_tokens, 'tokens')}; MDR reads {PAIR_TOKENS}")
        return config

    def _pretrained(self, kind: Any) -> Any:
        try:
            return kind.from_pretrained(str(self._folder), local_files_only=True, trust_remote_code=False)
        except Exception as error:  # OSError, ValueError and others: no common family
            raise DataError(f"{self.name} cannot be opened: {error}", self._folder) from error

    def _key(self) -> str:
        digest = hashlib.sha256(repr((self._dtype, PASSAGE_TOKENS)).encode())
        names = ("config.json", "tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt")
        for path in (self._passages, *(self._folder / name for name in names)):
            if path.is_file():
                with path.open("rb") as stream:
                    digest.update(hashlib.file_digest(stream, "sha256").digest())
        return digest.hexdigest()


def asked(query: str) -> str:
    """A question as MDR was trained on it.

    >>> asked(" Who made it? ")
    'Who made it'
    """
    return query.strip().removesuffix("?")


def _shown(passage: Passage) -> tuple[str, str]:
    return normalise_unicode("NFD", passage.title.strip()), passage.text.strip()
