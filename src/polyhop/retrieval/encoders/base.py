"""The base of encoders, and the steps that all checkpoints share: end marks, padding, pooling, layers, scaling."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from polyhop.common.batching import index_batches
from polyhop.common.registry import check_at_least
from polyhop.errors import DataError, SettingError
from polyhop.retrieval.checkpoints import check_finite
from polyhop.retrieval.encoders.families import Pooling, Recipe
from polyhop.types import Passage

Vectors = NDArray[np.float32]


class Encoder(Protocol):
    """Encodes queries and passages as vectors; their inner product is the score.

    ``key`` changes with everything that changes the vector of a passage; ``size`` is numbers per vector.
    """

    name: str
    key: str
    size: int

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Encode queries: (texts, size)."""
        ...

    def passages(self, passages: Sequence[Passage]) -> Vectors:
        """Encode passages: (passages, size)."""
        ...


class Layer(NamedTuple):
    """A linear layer: weights, (out, in), and optionally a bias, (out,); ``tanh`` follows it."""

    weight: Vectors
    bias: Vectors | None = None
    tanh: bool = False


class Pooled(ABC):
    """An encoder that pools the token states of a network, which a subclass runs. Safe across threads: one batch runs
    at a time, of texts of similar length.

    Texts are padded on the right. A causal network never sees what follows a token, and other networks are told by the
    mask, so that a vector does not depend on the padding.
    """

    size: int

    def __init__(self, name: str, recipe: Recipe, batch_size: int) -> None:
        check_at_least(1, batch_size=batch_size)
        self.name, self.recipe = name, recipe
        self._batch_size, self._lock = batch_size, Lock()

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Encode queries: (texts, size)."""
        return self._vectors([self.recipe.query + text.strip() for text in texts], self.recipe.query)

    def passages(self, passages: Sequence[Passage]) -> Vectors:
        """Encode titles and texts: (passages, size)."""
        return self._vectors([prefixed(self.recipe.passage, one) for one in passages], self.recipe.passage)

    @abstractmethod
    def _token_ids(self, texts: Sequence[str], max_tokens: int) -> list[list[int]]:
        """Tokenize texts and cut them."""

    @abstractmethod
    def _pool(self, ids: NDArray[np.int64], mask: NDArray[np.int64], weights: Vectors) -> Vectors:
        """Run the network on padded tokens, (texts, tokens), and sum each text's states by their weights: (texts,
        width). Padding, where the mask is 0, counts for nothing."""

    def _ready(self, layers: Sequence[Layer], max_tokens: int, pad: int, end: int | None) -> None:
        """Set what is known once the network is open. ``end`` is the token that ends each text, if it has one."""
        self._layers, self._max_tokens, self._pad, self._end = layers, max_tokens, pad, None
        one, other = (self._token_ids([text], max_tokens)[0][-1:] for text in ("a", "b"))
        if end is not None and [end] != one:
            self._end = end
        self._marks_end = self._end is not None or one == other
        ids, mask = _padded(self._ids(["a"]), pad)
        pooled = self._pool(ids, mask, pooling_weights(mask, self.recipe.pooling))
        if layers and layers[0].weight.shape[1] != pooled.shape[1]:
            raise DataError(f"{self.name}: its first layer does not fit the network's {pooled.shape[1]} numbers")
        width = finished(pooled, self.recipe._replace(dim=None), layers).shape[1]
        self.size = self.recipe.dim or width
        if self.size > width:
            raise SettingError(f"{self.name}: dim={self.size}: the encoder gives {width} numbers; dim keeps fewer")

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        if self._end is None:
            return self._token_ids(texts, self._max_tokens)
        return [[*row, self._end] for row in self._token_ids(texts, self._max_tokens - 1)]

    def _vectors(self, texts: Sequence[str], prefix: str) -> Vectors:
        vectors = np.zeros((len(texts), self.size), np.float32)
        with self._lock:
            rows = self._ids(texts)
            skip = 0 if self.recipe.pool_prefix or not prefix else len(self._ids([prefix])[0]) - self._marks_end
            for numbers in index_batches(list(map(len, rows)), self._batch_size):
                ids, mask = _padded([rows[number] for number in numbers], self._pad)
                weights = pooling_weights(mask, self.recipe.pooling, skip)
                vectors[numbers] = finished(self._pool(ids, mask, weights), self.recipe, self._layers)
        check_finite(self.name, "vectors", vectors)
        return vectors


def _padded(rows: Sequence[Sequence[int]], pad: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pad token ids on the right; return them and the mask of tokens, both (texts, tokens)."""
    shape = len(rows), max(map(len, rows))
    ids, mask = np.full(shape, pad, np.int64), np.zeros(shape, np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)], mask[i, : len(row)] = row, 1
    return ids, mask


def pooling_weights(mask: NDArray[np.int64], pooling: Pooling, skip: int = 0) -> Vectors:
    """Weigh the tokens of each text, (texts, tokens), without the first ``skip`` of them.

    >>> pooling_weights(np.array([[1, 1, 0]]), "mean").tolist()
    [[0.5, 0.5, 0.0]]
    >>> pooling_weights(np.array([[1, 1, 0]]), "last").tolist()
    [[0.0, 1.0, 0.0]]
    """
    kept: Vectors = mask.astype(np.float32)
    kept[:, :skip] = 0
    if pooling == "cls":
        kept *= kept.cumsum(1) == 1
    elif pooling == "last":
        kept *= kept.cumsum(1) == kept.sum(1, keepdims=True)
    kept /= np.maximum(kept.sum(1, keepdims=True), 1)
    return kept


def finished(pooled: Vectors, recipe: Recipe, layers: Sequence[Layer] = ()) -> Vectors:
    """Turn pooled states, (texts, width), into vectors: apply the layers, cut, scale, as the recipe says.

    >>> np.allclose(finished(np.array([[3, 4, 5]], np.float32), Recipe("mean", normalise=True, dim=2)), [[0.6, 0.8]])
    True
    """
    for layer in layers:
        pooled = pooled @ layer.weight.T + (0 if layer.bias is None else layer.bias)
        pooled = np.tanh(pooled) if layer.tanh else pooled
    pooled = pooled[:, : recipe.dim]
    if recipe.normalise:
        pooled = pooled / np.maximum(np.linalg.norm(pooled, axis=1, keepdims=True), 1e-12)
    return np.asarray(pooled, np.float32)


def prefixed(prefix: str, passage: Passage) -> str:
    """Write a passage behind its prefix, which shows the title where it says ``{title}``, as EmbeddingGemma's does.

    >>> prefixed("title: {title} | text: ", Passage("1", "", "A film of 1979."))
    'title: none | text: A film of 1979.'
    """
    if "{title}" not in prefix:
        return prefix + shown(passage)
    return prefix.replace("{title}", passage.title.strip() or "none") + passage.text.strip()


def shown(passage: Passage) -> str:
    """Write a passage as one text.

    >>> shown(Passage("1", "Alien", "A film of 1979."))
    'Alien A film of 1979.'
    """
    return f"{passage.title.strip()} {passage.text.strip()}".strip()


def similarities(encoder: Encoder, text: str, texts: Sequence[str]) -> list[float]:
    """Compute the cosine of ``text`` to each of ``texts``, from 0 to 1 (0 if it is negative). All are encoded as
    queries, as E5's authors recommend for texts of one kind."""
    if not texts:
        return []
    first, *others = encoder.queries([text, *texts]).astype(np.float64)
    lengths = np.linalg.norm(others, axis=1) * np.linalg.norm(first)
    cosines: list[float] = np.clip(np.array(others) @ first / np.maximum(lengths, 1e-12), 0, 1).tolist()
    return cosines
