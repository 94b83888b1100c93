"""Passages worked on all over a Ray cluster, shard by shard; what comes of them comes in the order of one process.

A worker fetches once what it is to do, and has two shards at hand, one to work on and one to go on with. The shards are
those of one process, so the same comes of each. Where a worker is lost, another comes and is given its shards.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from numpy.typing import NDArray

from polyhop.common.ray import CPUS, environment, joined, settle, wanted
from polyhop.errors import ServiceError
from polyhop.retrieval.encoders import open_encoder
from polyhop.retrieval.shards import Each
from polyhop.types import Passage

AT_HAND = 2
"""Shards of a worker, sent and not yet back."""
MOST_LOSSES = 3
"""A shard over which so many workers are lost ends the work."""


class Worker:
    """The process elsewhere. It keeps what it is to do to its shards, which may be large, until there is other work."""

    def __init__(self, fetch: Callable[[Any], Any], folder: str, variables: dict[str, str]) -> None:
        settle(folder, variables)
        self._fetch = fetch
        self._sent: Any = None
        self._work: Callable[[Any], Any]

    def do(self, sent: Sequence[Any], shard: Any) -> Any:
        """What comes of a shard; ``sent``: where the work is, in a sequence, or Ray would fetch it for every shard."""
        if sent != self._sent:
            self._work = self._fetch(sent[0])
            self._sent = sent
        return self._work(shard)


class Workers:
    """So many such processes. Each comes with the first shard for it, and stays for all work that there is."""

    def __init__(self, ray: Any, many: int) -> None:
        self._ray, self._many = ray, many
        self._kind = ray.remote(Worker).options(num_cpus=CPUS)
        self._there: list[Any] = []

    def each(self, work: Callable[[Any], Any], shards: Iterable[Any]) -> Iterator[Any]:
        """What comes of the shards, in their order."""
        sent = [self._ray.put(work)]
        under_way: deque[_Under] = deque()
        for number, shard in enumerate(shards):
            place = number % self._many
            if place == len(self._there):
                self._there.append(self._begin())
            under_way.append(_Under(place, shard, self._there[place].do.remote(sent, shard)))
            if len(under_way) == self._many * AT_HAND:
                yield self._first(sent, under_way)
        while under_way:
            yield self._first(sent, under_way)

    def end(self) -> None:
        """Have them all go."""
        while self._there:
            self._ray.kill(self._there.pop())

    def _begin(self) -> Any:
        return self._kind.remote(self._ray.get, os.getcwd(), environment())

    def _first(self, sent: Sequence[Any], under_way: deque[_Under]) -> Any:
        """What comes of the first shard, once it is there."""
        why = ""
        for _ in range(MOST_LOSSES):
            place = under_way[0].place
            try:
                found = self._ray.get(under_way[0].made)
            except self._ray.exceptions.RayTaskError as error:
                raise ServiceError(f"a worker cannot go on: {_last_line(error)}") from None
            except self._ray.exceptions.RayError as error:
                why = _last_line(error)
                self._ray.kill(self._there[place])
                self._there[place] = self._begin()
                for one in under_way:
                    if one.place == place:
                        one.made = self._there[place].do.remote(sent, one.shard)
            else:
                under_way.popleft()
                return found
        raise ServiceError(
            f"{MOST_LOSSES} workers were lost one after another; give the same command again. The last: {why}"
        )


@dataclass(slots=True)
class _Under:
    """A shard under way: at which worker, and what comes of it."""

    place: int
    shard: Any
    made: Any


@contextmanager
def spread(address: str | None, workers: int | None) -> Iterator[Each]:
    """What has shards worked on by such processes, the same ones for all work of the block. They come with the first
    shards: where there is none, none comes.

    Raises:
        UsageError: there is no room for so many workers.
        ServiceError: no cluster is there; or, from the shards, a worker cannot go on, or is lost again and again.
    """
    with joined(address) as ray:
        there = Workers(ray, wanted(ray, workers))
        try:
            yield there.each
        finally:
            there.end()


def by_name(encoder: str, each: Each) -> Each:
    """``each`` for shards to encode: each worker opens the encoder of this name, which itself is not sent."""
    return lambda _, shards: each(partial(_encoded, encoder), shards)


_opened = cache(open_encoder)


def _encoded(encoder: str, passages: Sequence[Passage]) -> NDArray[Any]:
    return _opened(encoder).passages(passages)


def _last_line(error: BaseException) -> str:
    return str(error).strip().rpartition("\n")[2]
