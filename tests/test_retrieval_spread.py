"""Shards encoded by workers that may be lost: every one once, in order; told by a cluster that is played."""

from __future__ import annotations

import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from polyhop.cli.app import app
from polyhop.errors import ServiceError
from polyhop.retrieval.spread import AT_HAND, in_order


class Lost(Exception):
    """What Ray raises of a call whose actor is gone."""


class Wrong(Lost):
    """What Ray raises of a call that raised."""


class Scene:
    """The part of Ray that is used; of ``losses`` calls the worker is lost."""

    exceptions = SimpleNamespace(RayError=Lost, RayTaskError=Wrong)

    def __init__(self, seed: int, losses: int, error: Exception | None = None) -> None:
        self.draw, self.losses, self.error = random.Random(seed), losses, error
        self.living: list[Any] = []
        self.at_hand = self.most = 0

    def begin(self) -> Any:
        worker = SimpleNamespace(gone=False)
        worker.encode = SimpleNamespace(remote=lambda shard: self._sent(worker, shard))
        self.living.append(worker)
        return worker

    def _sent(self, worker: Any, shard: list[int]) -> Any:
        self.at_hand += 1
        self.most = max(self.most, self.at_hand)
        return worker, shard

    def get(self, sent: Any) -> Any:
        worker, shard = sent
        self.at_hand -= 1
        if self.error:
            raise self.error
        if self.losses and self.draw.random() < 0.5:
            self.losses -= 1
            worker.gone = True
        if worker.gone:
            raise Lost("killed")
        return np.array(shard)

    def kill(self, worker: Any) -> None:
        self.living.remove(worker)


def shards(count: int) -> Iterator[list[Any]]:
    return ([number] for number in range(count))


@given(st.integers(1, 5), st.integers(0, 40), st.integers(0, 2), st.integers(0, 99))
def test_vectors_come_in_order_whatever_is_lost(many: int, count: int, losses: int, seed: int) -> None:
    scene = Scene(seed, losses)
    found = [int(made[0]) for made in in_order(scene, scene.begin, many, shards(count))]
    assert found == list(range(count))
    assert not scene.living
    if not losses:
        assert scene.most <= many * AT_HAND


def test_what_cannot_be_encoded_ends_it_with_the_reason() -> None:
    wrong = Scene(0, 0, Wrong("Traceback …\nUsageError: no such file"))
    with pytest.raises(ServiceError, match="a worker cannot encode: UsageError: no such file"):
        list(in_order(wrong, wrong.begin, 2, shards(9)))
    gone = Scene(0, 0, Lost("killed for its memory"))
    with pytest.raises(ServiceError, match=r"3 workers were lost .* killed for its memory"):
        list(in_order(gone, gone.begin, 2, shards(9)))
    assert not wrong.living
    assert not gone.living


def test_only_encoding_is_spread() -> None:
    made = CliRunner().invoke(app, ["index", "build", "demo", "--out", "nowhere", "--engine", "ray"])
    assert "name an encoder (--dense)" in str(made.exception)
