"""The encoder that polyhop brings, for dense search: no torch, no download."""

from __future__ import annotations

from collections.abc import Sequence

from polyhop.lm.pocket.encoder.network import WIDTH, encoder, fingerprint
from polyhop.retrieval.encoders.base import Vectors, shown
from polyhop.types import Passage


class PocketEncoder:
    """Vectors of pocket's network: the mean of a text's pieces, of length 1. ``key``: the network's hash."""

    name = "pocket"
    size = WIDTH

    def __init__(self) -> None:
        self.key = fingerprint()

    def queries(self, texts: Sequence[str]) -> Vectors:
        """(texts, size)."""
        return encoder().embed([text.strip() for text in texts])

    def passages(self, passages: Sequence[Passage]) -> Vectors:
        """(passages, size), of title and text."""
        return encoder().embed([shown(passage) for passage in passages])
