"""ColBERT: another retriever's candidates, or any list of passages, ranked by MaxSim over their tokens' vectors.

Sources: Khattab and Zaharia, "ColBERT: Efficient and Effective Passage Search via Contextualized Late Interaction over
BERT", 2020; Santhanam, Khattab, Saad-Falcon, Potts and Zaharia, "ColBERTv2: Effective and Efficient Retrieval via
Lightweight Late Interaction", 2022. Followed: the encoders (2020, §3.2; 2022, §3.1), MaxSim (2020, §3.3), reranking
the first 1,000 hits of BM25 (2020, §4.2). Differs: candidates come from a retriever over passages, not from the
centroids of token vectors (2022, §3.4); vectors take one byte per number instead of residuals of 1 or 2 bits
(``token_vectors.py``).

Taken from the released code (github.com/stanford-futuredata/ColBERT): the names of the weights (``bert.*``,
``linear.weight``), ``artifact.metadata``, the marker after [CLS], the [MASK]s that fill up a query and are not attended
to, passages without vectors for punctuation, and the bar between title and text. No real checkpoint of ColBERTv2 was
available: these facts are tested on checkpoints with random weights, against a second implementation.

One example: "Who directed the film that Ann Lee starred in?" shares few words with "Dark Mill is a picture by Rolf
Anders, with Ann Lee in the lead", but "directed" is near "by" there, "film" near "picture", "starred" near "lead".
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import orjson
from numpy.typing import NDArray

from polyhop.common.batching import index_batches
from polyhop.common.registry import check_at_least, check_options, path_and_options, with_options
from polyhop.common.text import counted
from polyhop.errors import DataError, SettingError, UsageError
from polyhop.retrieval.base import OverIndex, Retriever
from polyhop.retrieval.checkpoints import Dtype, Pretrained, check_finite
from polyhop.retrieval.reranking import ScoringReranker, ranked
from polyhop.retrieval.token_vectors import Vectors, codes_of, max_sims, token_vectors
from polyhop.types import Passage

if TYPE_CHECKING:
    from polyhop.retrieval.index import Index

FIRST, RERANKED = 1000, 100
"""Default number of passages to rank: of the retriever's candidates, and of the hits given to the reranker."""

METADATA = "artifact.metadata"
_WEIGHTS = ("model.safetensors", "pytorch_model.bin")
_ADDED = 3
"""Tokens around a text: [CLS], the marker, [SEP]."""
_OF_CHECKPOINT = ("query_tokens", "passage_tokens", "batch_size", "device", "dtype")
_MACHINE = ("batch_size", "device")


class Colbert(OverIndex):
    """ColBERT over an index. Safe across threads; ties are broken by passage id.

    It ranks the ``first`` candidates of the retriever ``start``, or ``k`` if that is more. Opening it encodes the
    passages that are not encoded yet, and resumes after a stop.
    """

    def __init__(
        self, index: Index, checkpoint: ColbertCheckpoint, start: Retriever, *, first: int = FIRST, name: str = ""
    ) -> None:
        check_at_least(1, first=first)
        self.name, self.start, self.first = name or checkpoint.name, start, first
        self._index, self._checkpoint = index, checkpoint
        self._tokens = token_vectors(index, checkpoint.name, checkpoint.key, checkpoint.size, checkpoint.passages)

    def _scored_many(self, queries: Sequence[str], k: int) -> list[list[tuple[Passage, float]]]:
        found = self.start.search_many(queries, max(k, self.first))
        return [self._ranked(query, passages)[:k] for query, passages in zip(queries, found, strict=True)]

    def _ranked(self, query: str, passages: Sequence[Passage]) -> list[tuple[Passage, float]]:
        """Rank the passages that the index holds, best first."""
        ordinals = {passage: self._index.passages.ordinal(passage.id) for passage in passages}
        held = {passage: self._tokens.of(ordinal) for passage, ordinal in ordinals.items() if ordinal is not None}
        if not held:
            return []
        return ranked(list(held), max_sims(self._checkpoint.query(query), list(held.values())).tolist())


class ColbertReranker(ScoringReranker):
    """A reranker by MaxSim. It encodes the hits at every query, so it needs no index."""

    def __init__(self, checkpoint: ColbertCheckpoint, *, first: int = RERANKED, name: str = "") -> None:
        check_at_least(1, first=first)
        self.name, self.first = name or checkpoint.name, first
        self._checkpoint = checkpoint

    def scores(self, query: str, passages: Sequence[Passage]) -> list[float]:
        """Return the MaxSim of each passage."""
        codes = [codes_of(vectors) for vectors in self._checkpoint.passages(passages)]
        scores: list[float] = max_sims(self._checkpoint.query(query), codes).tolist()
        return scores


def open_colbert(index: Index, spec: str, open_start: Callable[[str, Index], Retriever]) -> Colbert:
    """Open ``PATH[?OPTIONS]``: ``start`` (a retriever's name, by default bm25; write an ``&`` in it as ``%26``),
    ``first``, ``query_tokens``, ``passage_tokens``, ``batch_size``, ``device``, ``dtype``.

    Raises:
        UsageError: the checkpoint or the retriever cannot be opened.
    """
    name, checkpoint, own = _opened(spec, ("start", "first"))
    start = open_start(unquote(str(own.pop("start", "bm25"))), index)
    return Colbert(index, checkpoint, start, **own, name=name)


def open_colbert_reranker(spec: str) -> ColbertReranker:
    """Open ``PATH[?OPTIONS]``, as ``open_colbert`` does but without ``start``."""
    name, checkpoint, own = _opened(spec, ("first",))
    return ColbertReranker(checkpoint, **own, name=name)


def _opened(spec: str, own: Sequence[str]) -> tuple[str, ColbertCheckpoint, dict[str, Any]]:
    """Return the name with all options that change a ranking, the checkpoint, and the options that are not its own."""
    path, given = path_and_options("colbert", spec, "&".join(f"{option}=…" for option in own))
    if not path:
        raise SettingError("colbert: needs the folder of a checkpoint, as in colbert:colbertv2.0")
    check_options("colbert", given, (*own, *_OF_CHECKPOINT))
    name = with_options(f"colbert:{path}", {option: value for option, value in given.items() if option not in _MACHINE})
    theirs = {option: given.pop(option) for option in _OF_CHECKPOINT if option in given}
    return name, ColbertCheckpoint(f"colbert:{path}", path, **theirs), given


# --- the checkpoint ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Recipe:
    """The settings that a checkpoint was trained with, named as in its ``artifact.metadata``; by default ColBERTv2's.
    ``query_maxlen`` and ``doc_maxlen`` are in tokens."""

    query_maxlen: int = 32
    doc_maxlen: int = 180
    mask_punctuation: bool = True
    attend_to_mask_tokens: bool = False
    similarity: str = "cosine"
    query_token_id: str = "[unused0]"
    doc_token_id: str = "[unused1]"


class ColbertCheckpoint:
    """A ColBERT checkpoint: BERT's states through one linear layer give a vector of length 1 per token.

    ``path`` is a folder with ``config.json``, the tokenizer and the weights. ``query_tokens`` and ``passage_tokens``
    replace the lengths in the checkpoint. Without ``model.safetensors``, ``pytorch_model.bin`` is read by torch's
    loader of weights, which runs no code. Safe across threads: one batch runs at a time.

    Attributes:
        size: numbers per vector.
        key: a hash of everything that changes the vectors of a passage.
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
        check_at_least(1, batch_size=batch_size)
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
            raise UsageError(f"{name}: its config.json is of {self._from.config.model_type}; ColBERT needs bert")
        if (needed := max(self.recipe.query_maxlen, self.recipe.doc_maxlen)) > (
            max_positions := self._from.positions()
        ):
            raise SettingError(f"{name} takes at most {max_positions} tokens; {needed} are requested")
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
        """Encode a query alone, so that the result does not depend on other queries: (query_maxlen, size)."""
        (row,) = self._around(self.recipe.query_token_id, [text], self.recipe.query_maxlen)
        filled = self.recipe.query_maxlen - len(row)
        attended = [1] * len(row) + [int(self.recipe.attend_to_mask_tokens)] * filled
        row += [self._ids["[MASK]"]] * filled
        vectors: Vectors = self._vectors(np.array([row]), np.array([attended]))[0]
        return vectors

    def passages(self, passages: Sequence[Passage]) -> list[Vectors]:
        """Encode passages, in batches of similar length: (tokens, size) each, in order."""
        if not passages:
            return []
        rows = self._around(self.recipe.doc_token_id, list(map(shown, passages)), self.recipe.doc_maxlen)
        found: list[Vectors] = [np.zeros((0, self.size), np.float32)] * len(rows)
        for numbers in index_batches(list(map(len, rows)), self._batch_size):
            vectors = self._vectors(*self._padded([rows[number] for number in numbers]))
            for number, own in zip(numbers, vectors, strict=True):
                found[number] = own[[i for i, token in enumerate(rows[number]) if token not in self._skipped]]
        return found

    def _padded(self, rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Pad rows of tokens; return them with the attention mask."""
        shape = len(rows), max(map(len, rows))
        ids, attended = np.full(shape, self._from.tokenizer.pad_token_id, np.int64), np.zeros(shape, np.int64)
        for i, row in enumerate(rows):
            ids[i, : len(row)], attended[i, : len(row)] = row, 1
        return ids, attended

    def _around(self, marker: str, texts: list[str], max_tokens: int) -> list[list[int]]:
        """Tokenize each text as [CLS], the marker, its first tokens, [SEP]."""
        tokenizer = self._from.tokenizer
        with self._lock:
            rows = tokenizer(texts, add_special_tokens=False, truncation=True, max_length=max_tokens - _ADDED)[
                "input_ids"
            ]
        return [[tokenizer.cls_token_id, self._ids[marker], *row, tokenizer.sep_token_id] for row in rows]

    def _vectors(self, ids: NDArray[np.int64], attended: NDArray[np.int64]) -> Vectors:
        """Run the network: (texts, tokens, size), each vector of length 1."""
        torch, device = self._from.torch, self._from.device
        with self._lock, torch.inference_mode():
            given = {"input_ids": ids, "attention_mask": attended}
            states = self._network(**{key: torch.from_numpy(value).to(device) for key, value in given.items()})
            vectors = torch.nn.functional.linear(states.last_hidden_state, self._linear).float()
            made: Vectors = torch.nn.functional.normalize(vectors, dim=2).cpu().numpy()
        check_finite(self.name, "vectors", made)
        return made

    def _punctuation(self) -> set[int]:
        """Return the first token of each punctuation mark, as in the released code."""
        rows = self._from.tokenizer(list(string.punctuation), add_special_tokens=False)["input_ids"]
        return {row[0] for row in rows if row}

    def _token(self, token: str) -> int:
        known = self._from.tokenizer.get_vocab()
        if token not in known:
            raise UsageError(f"{self.name}: its tokenizer knows no {token}, so it is not that of a ColBERT model")
        return int(known[token])

    def _opened(self) -> tuple[Any, Any]:
        """Open BERT, and the weights of the layer behind it, (size, width)."""
        path = next((self._folder / file for file in _WEIGHTS if (self._folder / file).is_file()), None)
        if path is None:
            raise DataError(f"{self.name}: neither {' nor '.join(_WEIGHTS)} exists", self._folder)
        given = self._from.weights(path)
        network = self._from.transformers.BertModel(self._from.config, add_pooling_layer=False)
        wanted = network.state_dict().keys()
        lacking = sorted(key for key in wanted if f"bert.{key}" not in given)
        if lacking or "linear.weight" not in given:
            what = "linear.weight" if not lacking else f"{counted(len(lacking), 'weights')}, such as bert.{lacking[0]}"
            raise UsageError(f"{self.name} lacks {what}: it is not a ColBERT checkpoint")
        network = self._from.filled(network, {key: given[f"bert.{key}"] for key in wanted}, self._folder)
        linear = given["linear.weight"]
        if linear.ndim != 2 or linear.shape[1] != self._from.config.hidden_size:
            raise DataError(f"its linear.weight is of shape {tuple(linear.shape)}", self._folder)
        return network, linear.to(device=self._from.device, dtype=self._from.dtype)


def shown(passage: Passage) -> str:
    """Write a passage as ColBERT reads it.

    >>> shown(Passage("1", "Alien", "A film of 1979.")), shown(Passage("1", "", "A film."))
    ('Alien | A film of 1979.', 'A film.')
    """
    return " | ".join(part for part in (passage.title.strip(), passage.text.strip()) if part)


def _recipe(name: str, path: Path | None) -> Recipe:
    """Read ``artifact.metadata``. Raises ``UsageError`` if it needs something that is not supported."""
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
        raise UsageError(f"{name}: its similarity is {recipe.similarity}; only cosine is supported")
    if min(recipe.query_maxlen, recipe.doc_maxlen) <= _ADDED:
        raise DataError(f"{name}: its lengths must be above {_ADDED} tokens", path)
    return recipe
