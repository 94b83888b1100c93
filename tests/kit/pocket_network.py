"""A network for tests that costs nothing: it notes what it is shown, and says what hangs on that alone."""

from __future__ import annotations

import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from polyhop.lm.pocket.encoder import cache as looking
from polyhop.lm.pocket.encoder import network as networks
from polyhop.lm.pocket.encoder.outputs import KINDS, EncoderOutput, SpanPrediction, TitledText
from polyhop.lm.pocket.reading import answer as studies

Row = tuple[str, tuple[TitledText, ...]]


class Network:
    """Reads every passage's first word; how likely, a hash says.

    ``batches``: the rows of each call; ``began``: set by the first; ``may_go``: cleared, a call waits for it.
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
        return [_look(*row) for row in rows]

    @property
    def shown(self) -> list[Row]:
        """All rows, in order."""
        return [row for batch in self.batches for row in batch]


def _look(question: str, path: Sequence[TitledText]) -> EncoderOutput:
    seed = zlib.crc32(repr((question, [(told.title, told.text) for told in path])).encode())
    odds = round(seed % 1000 / 100 - 5, 4)
    spans = [
        SpanPrediction(at, False, 0, len(told.text.split()[0]), -1.0 - at)
        for at, told in enumerate(path)
        if told.text.split()
    ]
    return EncoderOutput(odds, -odds, dict.fromkeys(KINDS, 0.25), tuple(spans))


@contextmanager
def using_network(network: Network) -> Iterator[Network]:
    """Inside, ``pocket`` looks by this network; no look of another is remembered, inside or after."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(networks, "encoder", lambda: network)
        patch.setattr(looking, "_cache", OrderedDict())
        studies.clear_cache()
        yield network
        studies.clear_cache()
