"""The base of encoders, and the steps that all checkpoints share: pooling, a last layer, scaling to length 1."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from threading import Lock
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from polyhop.common.batching import index_batches
from polyhop.common.registry import check_at_least
from polyhop.retrieval.checkpoints import check_finite
from polyhop.retrieval.encoders.families import Recipe
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
    """A linear layer: weights, (out, in), and optionally a bias, (out,)."""

    weight: Vectors
    bias: Vectors | None


class Pooled(ABC):
    """An encoder that pools the token states of a network, which a subclass runs. Safe across threads: one batch runs
    at a time, of texts of similar length."""

    def __init__(self, name: str, recipe: Recipe, batch_size: int) -> None:
        check_at_least(1, batch_size=batch_size)
        self.name, self.recipe = name, recipe
        self.size = 0
        self._batch_size, self._lock = batch_size, Lock()
        self._layer: Layer | None = None

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Encode queries: (texts, size)."""
        return self._vectors([self.recipe.query + text.strip() for text in texts])

    def passages(self, passages: Sequence[Passage]) -> Vectors:
        """Encode titles and texts: (passages, size)."""
        return self._vectors([self.recipe.passage + shown(passage) for passage in passages])

    @abstractmethod
    def _states(self, texts: Sequence[str]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the last states, (texts, tokens, width), and the mask of tokens that are no padding, (texts,
        tokens)."""

    def _vectors(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self.size), np.float32)
        with self._lock:
            for numbers in index_batches(list(map(len, texts)), self._batch_size):
                states, mask = self._states([texts[number] for number in numbers])
                vectors[numbers] = finished(states, mask, self.recipe, self._layer)
        check_finite(self.name, "vectors", vectors)
        return vectors


def finished(states: NDArray[Any], mask: NDArray[Any], recipe: Recipe, layer: Layer | None) -> Vectors:
    """Turn token states, (texts, tokens, width), into vectors: pool, apply the layer, scale, as the recipe says.

    >>> states = np.array([[[3, 0], [0, 8], [9, 9]]], np.float32)
    >>> finished(states, np.array([[1, 1, 0]]), Recipe("mean", normalise=False), None).tolist()
    [[1.5, 4.0]]
    >>> finished(states, np.array([[1, 1, 0]]), Recipe("cls", normalise=True), None).tolist()
    [[1.0, 0.0]]
    """
    pooled = np.asarray(states[:, 0], np.float32)
    if recipe.pooling == "mean":
        weights = np.asarray(mask, np.float32)[:, :, None]
        pooled = (states * weights).sum(1, dtype=np.float32) / np.maximum(weights.sum(1), 1)
    if layer is not None:
        pooled = pooled @ layer.weight.T + (0 if layer.bias is None else layer.bias)
    if recipe.normalise:
        pooled = pooled / np.maximum(np.linalg.norm(pooled, axis=1, keepdims=True), 1e-12)
    return np.asarray(pooled, np.float32)


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
