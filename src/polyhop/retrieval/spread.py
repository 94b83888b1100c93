"""Passages worked on all over a Ray cluster, shard by shard; what comes of them comes in the order of one process.

A worker is sent once what it is to do, and has two shards at hand, one to work on and one to go on with. The shards are
those of one process, so the same comes of each. Where a worker is lost, another comes and is given its shards.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

from numpy.typing import NDArray

from polyhop.cluster import CPUS, environment, joined, settle, wanted
from polyhop.errors import ServiceError
from polyhop.retrieval.encoders import open_encoder
from polyhop.retrieval.shards import Each
from polyhop.types import Passage

AT_HAND = 2
"""Shards of a worker, sent and not yet back."""
MOST_LOSSES = 3
"""A shard over which so many workers are lost ends the work."""


class Worker:
    """The process elsewhere: what it does to each shard that it is sent."""

    def __init__(self, work: Callable[[Any], Any], folder: str, variables: dict[str, str]) -> None:
        settle(folder, variables)
        self._work = work

    def do(self, shard: Any) -> Any:
        """What comes of a shard."""
        return self._work(shard)


@contextmanager
def spread(address: str | None, workers: int | None) -> Iterator[Each]:
    """What has shards worked on by such processes. They come with the first shard: where there is none, none comes.

    Raises:
        UsageError: there is no room for so many workers.
        ServiceError: no cluster is there; or, from the shards, a worker cannot go on, or is lost again and again.
    """
    with joined(address) as ray:
        many = wanted(ray, workers)
        kind = ray.remote(Worker).options(num_cpus=CPUS)

        def each(work: Callable[[Any], Any], shards: Iterable[Any]) -> Iterator[Any]:
            sent = ray.put(work)
            return in_order(ray, lambda: kind.remote(sent, os.getcwd(), environment()), many, shards)

        yield each


def by_name(encoder: str, each: Each) -> Each:
    """``each`` for shards to encode: each worker opens the encoder of this name, which itself is not sent."""
    return lambda _, shards: each(partial(_encoded, encoder), shards)


_opened = cache(open_encoder)


def _encoded(encoder: str, passages: Sequence[Passage]) -> NDArray[Any]:
    return _opened(encoder).passages(passages)


def in_order(ray: Any, begin: Callable[[], Any], many: int, shards: Iterable[Any]) -> Iterator[Any]:
    """What comes of the shards, by so many workers at once."""
    workers: list[Any] = []
    under_way: deque[list[Any]] = deque()  # the place of a worker, a shard, what comes of it
    try:
        for number, shard in enumerate(shards):
            if len(workers) < many:
                workers.append(begin())
            place = number % many
            under_way.append([place, shard, workers[place].do.remote(shard)])
            if len(under_way) == many * AT_HAND:
                yield _first(ray, begin, workers, under_way)
        while under_way:
            yield _first(ray, begin, workers, under_way)
    finally:
        for worker in workers:
            ray.kill(worker)


def _first(ray: Any, begin: Callable[[], Any], workers: list[Any], under_way: deque[list[Any]]) -> Any:
    """What comes of the first shard, once it is there."""
    why = ""
    for _ in range(MOST_LOSSES):
        place, _, made = under_way[0]
        try:
            found = ray.get(made)
        except ray.exceptions.RayTaskError as error:
            raise ServiceError(f"a worker cannot go on: {_last_line(error)}") from None
        except ray.exceptions.RayError as error:
            why = _last_line(error)
            ray.kill(workers[place])
            workers[place] = begin()
            for one in under_way:
                if one[0] == place:
                    one[2] = workers[place].do.remote(one[1])
        else:
            under_way.popleft()
            return found
    raise ServiceError(
        f"{MOST_LOSSES} workers were lost one after another; give the same command again. The last: {why}"
    )


def _last_line(error: BaseException) -> str:
    return str(error).strip().rpartition("\n")[2]
