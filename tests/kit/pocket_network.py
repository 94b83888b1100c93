"""A cheap stand-in for the network of ``pocket``: it records its inputs, and its outputs depend on them alone."""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest
from numpy.typing import NDArray

from polyhop.lm.pocket.encoder import cache
from polyhop.lm.pocket.encoder import network as networks
from polyhop.lm.pocket.encoder.inputs import KINDS, EncoderOutput, SpanPrediction, TitledText
from polyhop.lm.pocket.reading.answer import clear_cache

Row = tuple[str, tuple[TitledText, ...]]


class Network:
    """Predicts the first word of every passage, with numbers from a hash.

    ``batches``: the inputs of each call; ``began``: set by the first call; ``may_go``: a call waits while it is
    cleared.
    """

    def __init__(self) -> None:
        self.batches: list[list[Row]] = []
        self.threads: set[int] = set()
        self.began, self.may_go = threading.Event(), threading.Event()
        self.may_go.set()
        self.waited = True
        self.error: Exception | None = None

    def build_input(self, question: str, path: Sequence[TitledText]) -> Row:
        return question, tuple(path)

    def predict(self, rows: Sequence[Row]) -> list[EncoderOutput]:
        self.batches.append(list(rows))
        self.threads.add(threading.get_ident())
        self.began.set()
        self.waited = self.may_go.wait(10) and self.waited
        if self.error is not None:
            raise self.error
        return [_output(*row) for row in rows]

    def embed(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """Vectors of length 1, from a hash of each text."""
        angles = [zlib.crc32(text.encode()) / 2**31 for text in texts]
        return [np.array([np.cos(angle), np.sin(angle)], np.float32) for angle in angles]

    @property
    def shown(self) -> list[Row]:
        """All inputs, in order."""
        return [row for batch in self.batches for row in batch]


def _output(question: str, path: Sequence[TitledText]) -> EncoderOutput:
    seed = zlib.crc32(repr((question, [(passage.title, passage.text) for passage in path])).encode())
    odds = round(seed % 1000 / 100 - 5, 4)
    spans = [
        SpanPrediction(i, False, 0, len(passage.text.split()[0]), -1.0 - i)
        for i, passage in enumerate(path)
        if passage.text.split()
    ]
    return EncoderOutput(odds, -odds, odds, dict.fromkeys(KINDS, 0.25), tuple(spans))


@contextmanager
def using_network(network: Network) -> Iterator[Network]:
    """Use this network in ``pocket``, with an empty cache before and after."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(networks, "encoder", lambda: network)
        patch.setattr(networks, "embedder", lambda: network)
        patch.setattr(cache, "_cache", OrderedDict())
        clear_cache()
        yield network
        clear_cache()
