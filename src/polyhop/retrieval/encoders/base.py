"""Encoders of queries and passages, and the steps that all checkpoints share: pooling, a last layer, length 1."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from threading import Lock
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from polyhop.errors import SettingError, UsageError
from polyhop.retrieval.encoders.families import Recipe
from polyhop.types import Passage

Vectors = NDArray[np.float32]


class Encoder(Protocol):
    """Queries and passages to vectors whose inner product says how well they fit.

    ``key`` changes with whatever changes a passage's vector; ``size``: numbers of a vector.
    """

    name: str
    key: str
    size: int

    def queries(self, texts: Sequence[str]) -> Vectors:
        """(texts, size)."""
        ...

    def passages(self, passages: Sequence[Passage]) -> Vectors:
        """(passages, size)."""
        ...


class Layer(NamedTuple):
    """A linear layer: (out, in) and, where there is one, (out,)."""

    weight: Vectors
    bias: Vectors | None


class Pooled(ABC):
    """An encoder by a network's token states. Safe across threads: one batch is worked on at a time.

    A subclass gives the states; texts of like length share a batch.
    """

    def __init__(self, name: str, recipe: Recipe, batch_size: int) -> None:
        if not isinstance(batch_size, int) or batch_size < 1:
            raise SettingError(f"batch_size={batch_size}: must be at least 1")
        self.name, self.recipe = name, recipe
        self.size = 0
        self._batch_size, self._lock = batch_size, Lock()
        self._layer: Layer | None = None

    def queries(self, texts: Sequence[str]) -> Vectors:
        """(texts, size)."""
        return self._vectors([self.recipe.query + text.strip() for text in texts])

    def passages(self, passages: Sequence[Passage]) -> Vectors:
        """(passages, size), of title and text."""
        return self._vectors([self.recipe.passage + shown(passage) for passage in passages])

    @abstractmethod
    def _states(self, texts: Sequence[str]) -> tuple[NDArray[Any], NDArray[Any]]:
        """The last states, (texts, tokens, width), and which tokens are the texts' own, (texts, tokens)."""

    def _vectors(self, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self.size), np.float32)
        by_length = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        with self._lock:
            for start in range(0, len(texts), self._batch_size):
                numbers = by_length[start : start + self._batch_size]
                states, mask = self._states([texts[number] for number in numbers])
                vectors[numbers] = finished(states, mask, self.recipe, self._layer)
        if not np.isfinite(vectors).all():
            raise UsageError(f"{self.name} gives vectors that are not numbers; in float32 it may not")
        return vectors


def finished(states: NDArray[Any], mask: NDArray[Any], recipe: Recipe, layer: Layer | None) -> Vectors:
    """Token states, (texts, tokens, width), to vectors: pooled, through the layer, scaled, as the recipe says.

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
    """A passage as one text.

    >>> shown(Passage("1", "Alien", "A film of 1979."))
    'Alien A film of 1979.'
    """
    return f"{passage.title.strip()} {passage.text.strip()}".strip()


def similarities(encoder: Encoder, text: str, texts: Sequence[str]) -> list[float]:
    """The cosine of ``text`` to each of ``texts``, from 0 to 1 (0 where it is negative), all encoded as queries: what
    E5's authors advise for texts of one kind."""
    if not texts:
        return []
    first, *others = encoder.queries([text, *texts]).astype(np.float64)
    lengths = np.linalg.norm(others, axis=1) * np.linalg.norm(first)
    cosines: list[float] = np.clip(np.array(others) @ first / np.maximum(lengths, 1e-12), 0, 1).tolist()
    return cosines
