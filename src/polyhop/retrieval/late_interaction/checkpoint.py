"""A ColBERT checkpoint: BERT's states through one linear layer, a vector of length 1 for every token.

Sources: Khattab and Zaharia, "ColBERT", 2020, §3.2; Santhanam, Khattab, Saad-Falcon, Potts and Zaharia, "ColBERTv2:
Effective and Efficient Retrieval via Lightweight Late Interaction", 2022, §3.1. Facts of the released code
(github.com/stanford-futuredata/ColBERT): the weights' names (``bert.*``, ``linear.weight``), ``artifact.metadata``, the
marker behind [CLS], [MASK]s that fill a query up and are not attended to, marks of punctuation without a vector in
passages, title and text joined by a bar. No real checkpoint of ColBERTv2 was at hand: what is tested are these facts,
on checkpoints of random weights, against a second statement of them.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from polyhop.common.extras import require
from polyhop.common.text import counted
from polyhop.errors import DataError, SettingError, UsageError
from polyhop.retrieval.late_interaction.maxsim import Vectors
from polyhop.retrieval.pretrained import Dtype, Pretrained
from polyhop.types import Passage

METADATA = "artifact.metadata"
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_ADDED = 3
"""Tokens around a text: [CLS], the marker, [SEP]."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """The settings of a checkpoint's training, named as in its ``artifact.metadata``; ColBERTv2's by default.
    ``query_maxlen`` and ``doc_maxlen`` are in tokens."""

    query_maxlen: int = 32
    doc_maxlen: int = 180
    mask_punctuation: bool = True
    attend_to_mask_tokens: bool = False
    similarity: str = "cosine"
    query_token_id: str = "[unused0]"
    doc_token_id: str = "[unused1]"


class ColbertCheckpoint:
    """A folder with ``config.json``, the tokenizer and the weights of ColBERT's. Safe across threads: one batch is
    worked on at a time.

    ``query_tokens`` and ``passage_tokens``: lengths other than the checkpoint's own. ``pytorch_model.bin``, where there
    is no ``model.safetensors``, is read by torch's loader of weights alone, which runs no code.

    Attributes:
        size: numbers of a vector.
        key: of all that changes a passage's vectors.
    """

    def __init__(
        self,
        name: str,
        path: str,
        *,
        query_tokens: int | None = None,
        passage_tokens: int | None = None,
        batch_size: int = 32,
        device: str | None = None,
        dtype: Dtype = "float32",
    ) -> None:
        for setting, value in (("query_tokens", query_tokens), ("passage_tokens", passage_tokens)):
            if value is not None and (not isinstance(value, int) or value <= _ADDED):
                raise SettingError(f"{setting}={value}: must be above {_ADDED}, the tokens around a text")
        if not isinstance(batch_size, int) or batch_size < 1:
            raise SettingError(f"batch_size={batch_size}: must be at least 1")
        self.name, self._folder = name, Path(path).expanduser()
        if not path or not self._folder.is_dir():
            raise DataError(
                f"{name}: no such folder; give that of a ColBERT checkpoint, as in colbert:models/colbertv2"
            )
        self._from = Pretrained(name, path, device=device, dtype=dtype)
        recipe = _recipe(name, self._from.file(METADATA))
        recipe = replace(recipe, query_maxlen=query_tokens or recipe.query_maxlen)
        self.recipe = replace(recipe, doc_maxlen=passage_tokens or recipe.doc_maxlen)
        if self._from.config.model_type != "bert":
            raise UsageError(f"{name}: its config.json is of {self._from.config.model_type}; ColBERT is made of bert")
        if (needed := max(self.recipe.query_maxlen, self.recipe.doc_maxlen)) > (
            max_positions := self._from.positions()
        ):
            raise SettingError(f"{name} takes at most {max_positions} tokens; it is asked for {needed}")
        self._ids = {
            token: self._token(token) for token in (self.recipe.query_token_id, self.recipe.doc_token_id, "[MASK]")
        }
        self._skipped = self._punctuation() if self.recipe.mask_punctuation else set()
        self._batch_size, self._lock = batch_size, Lock()
        self._network, self._linear = self._opened()
        self.size: int = len(self._linear)
        settings = self.recipe.doc_maxlen, self.recipe.mask_punctuation, self.recipe.doc_token_id, dtype
        self.key = self._from.key(settings, _WEIGHTS)

    def query(self, text: str) -> Vectors:
        """(query_maxlen, size). Alone, so that it is the same whatever else is asked."""
        (row,) = self._around(self.recipe.query_token_id, [text], self.recipe.query_maxlen)
        filled = self.recipe.query_maxlen - len(row)
        attended = [1] * len(row) + [int(self.recipe.attend_to_mask_tokens)] * filled
        row += [self._ids["[MASK]"]] * filled
        vectors: Vectors = self._vectors(np.array([row]), np.array([attended]))[0]
        return vectors

    def passages(self, passages: Sequence[Passage]) -> list[Vectors]:
        """(tokens, size) each, in order; those of like length share a batch."""
        if not passages:
            return []
        rows = self._around(self.recipe.doc_token_id, list(map(shown, passages)), self.recipe.doc_maxlen)
        found: list[Vectors] = [np.zeros((0, self.size), np.float32)] * len(rows)
        by_length = sorted(range(len(rows)), key=lambda number: len(rows[number]))
        for start in range(0, len(rows), self._batch_size):
            numbers = by_length[start : start + self._batch_size]
            vectors = self._vectors(*self._padded([rows[number] for number in numbers]))
            for number, own in zip(numbers, vectors, strict=True):
                found[number] = own[[i for i, token in enumerate(rows[number]) if token not in self._skipped]]
        return found

    def _padded(self, rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Tokens side by side, and which of them are attended to."""
        shape = len(rows), max(map(len, rows))
        ids, attended = np.full(shape, self._from.tokenizer.pad_token_id, np.int64), np.zeros(shape, np.int64)
        for i, row in enumerate(rows):
            ids[i, : len(row)], attended[i, : len(row)] = row, 1
        return ids, attended

    def _around(self, marker: str, texts: list[str], max_tokens: int) -> list[list[int]]:
        """[CLS], the marker, a text's first tokens, [SEP], for each text."""
        tokenizer = self._from.tokenizer
        with self._lock:
            rows = tokenizer(texts, add_special_tokens=False, truncation=True, max_length=max_tokens - _ADDED)[
                "input_ids"
            ]
        return [[tokenizer.cls_token_id, self._ids[marker], *row, tokenizer.sep_token_id] for row in rows]

    def _vectors(self, ids: NDArray[np.int64], attended: NDArray[np.int64]) -> Vectors:
        """(texts, tokens, size), each of length 1."""
        torch, device = self._from.torch, self._from.device
        with self._lock, torch.inference_mode():
            given = {"input_ids": ids, "attention_mask": attended}
            states = self._network(**{key: torch.from_numpy(value).to(device) for key, value in given.items()})
            vectors = torch.nn.functional.linear(states.last_hidden_state, self._linear).float()
            made: Vectors = torch.nn.functional.normalize(vectors, dim=2).cpu().numpy()
        if not np.isfinite(made).all():
            raise UsageError(f"{self.name} gives vectors that are not numbers; in float32 it may not")
        return made

    def _punctuation(self) -> set[int]:
        """The first token of each punctuation mark, as in the released code."""
        rows = self._from.tokenizer(list(string.punctuation), add_special_tokens=False)["input_ids"]
        return {row[0] for row in rows if row}

    def _token(self, token: str) -> int:
        known = self._from.tokenizer.get_vocab()
        if token not in known:
            raise UsageError(f"{self.name}: its tokenizer knows no {token}, so it is no ColBERT's")
        return int(known[token])

    def _opened(self) -> tuple[Any, Any]:
        """BERT, and the weights of the layer behind it, (size, width)."""
        given = self._given()
        network = self._from.transformers.BertModel(self._from.config, add_pooling_layer=False)
        wanted = network.state_dict().keys()
        lacking = sorted(key for key in wanted if f"bert.{key}" not in given)
        if lacking or "linear.weight" not in given:
            what = "linear.weight" if not lacking else f"{counted(len(lacking), 'weights')}, such as bert.{lacking[0]}"
            raise UsageError(f"{self.name} lacks {what}: it is no ColBERT checkpoint")
        try:
            network.load_state_dict({key: given[f"bert.{key}"] for key in wanted})
        except RuntimeError as error:
            raise DataError(f"its weights are of another shape than config.json says: {error}", self._folder) from error
        linear = given["linear.weight"]
        if linear.ndim != 2 or linear.shape[1] != self._from.config.hidden_size:
            raise DataError(f"its linear.weight is of shape {tuple(linear.shape)}", self._folder)
        placed: dict[str, Any] = {"device": self._from.device, "dtype": self._from.dtype}
        return network.to(**placed).eval(), linear.to(**placed)

    def _given(self) -> dict[str, Any]:
        """The checkpoint's weights by name."""
        path = next((self._folder / file for file in _WEIGHTS if (self._folder / file).is_file()), None)
        if path is None:
            raise DataError(f"{self.name}: neither {' nor '.join(_WEIGHTS)} is there", self._folder)
        reader: Callable[..., Any] = require("safetensors.torch", "hf", self.name).load_file
        if path.suffix == ".bin":
            reader = self._torch_weights
        try:
            given: dict[str, Any] = reader(path)
            return {key.removeprefix("module."): value for key, value in given.items()}
        except Exception as error:  # OSError, pickle's, torch's and safetensors' own: no common family
            raise DataError(f"{self.name}: {path.name} cannot be read: {error}", path) from error

    def _torch_weights(self, path: Path) -> Any:
        return self._from.torch.load(path, map_location="cpu", weights_only=True)


def shown(passage: Passage) -> str:
    """A passage as ColBERT reads it.

    >>> shown(Passage("1", "Alien", "A film of 1979.")), shown(Passage("1", "", "A film."))
    ('Alien | A film of 1979.', 'A film.')
    """
    return " | ".join(part for part in (passage.title.strip(), passage.text.strip()) if part)


def _recipe(name: str, path: Path | None) -> Recipe:
    """Read ``artifact.metadata``; ``UsageError`` if it needs something that is not supported here."""
    if path is None:
        return Recipe()
    try:
        metadata = orjson.loads(path.read_bytes())
        given = {item.name: metadata.get(item.name) for item in fields(Recipe)}
        known = {key: value for key, value in given.items() if value is not None}
    except (orjson.JSONDecodeError, AttributeError) as error:
        raise DataError(f"{name}: its {METADATA} is damaged: {error}", path) from error
    for item in fields(Recipe):
        if type(known.get(item.name, item.default)) is not type(item.default):
            raise DataError(f"{name}: {item.name} is {known[item.name]!r}", path)
    recipe = Recipe(**known)
    if recipe.similarity != "cosine":
        raise UsageError(f"{name}: its similarity is {recipe.similarity}; known here is cosine alone")
    if min(recipe.query_maxlen, recipe.doc_maxlen) <= _ADDED:
        raise DataError(f"{name}: its lengths must be above {_ADDED} tokens", path)
    return recipe
