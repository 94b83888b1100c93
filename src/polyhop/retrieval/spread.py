"""Passages encoded all over a Ray cluster, shard by shard; the vectors come in the order of one process.

A worker has an encoder of its own and two shards at hand, one to work on and one to go on with. The shards are those of
one process, so each is encoded as there. Where a worker is lost, another comes and is given its shards.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from polyhop.cluster import CPUS, environment, joined, settle, wanted
from polyhop.errors import ServiceError
from polyhop.retrieval.encoders import open_encoder
from polyhop.retrieval.vectors import Each, Encode
from polyhop.types import Passage

AT_HAND = 2
"""Shards of a worker, sent and not yet back."""
MOST_LOSSES = 3
"""A shard over which so many workers are lost ends the encoding, which goes on there by the same command."""


class Encoding:
    """The process elsewhere: an encoder, opened when it is first asked."""

    def __init__(self, encoder: str, folder: str, variables: dict[str, str]) -> None:
        settle(folder, variables)
        self._encoder = open_encoder(encoder)

    def encode(self, passages: Sequence[Passage]) -> NDArray[Any]:
        """(passages, size)."""
        return self._encoder.passages(passages)


@contextmanager
def spread(encoder: str, address: str | None, workers: int | None) -> Iterator[Each]:
    """What encodes shards of passages by an encoder of this name, for ``vectors.passage_vectors``. The workers come
    with the first shard: vectors that are there need none.

    Raises:
        UsageError: there is no room for so many workers.
        ServiceError: no cluster is there; or, from the shards, a worker cannot encode, or is lost again and again.
    """
    with joined(address) as ray:
        many = wanted(ray, workers)
        kind = ray.remote(Encoding).options(num_cpus=CPUS)

        def begin() -> Any:
            return kind.remote(encoder, os.getcwd(), environment())

        def each(encode: Encode, shards: Iterable[Sequence[Passage]]) -> Iterator[NDArray[Any]]:
            return in_order(ray, begin, many, shards)

        yield each


def in_order(
    ray: Any, begin: Callable[[], Any], many: int, shards: Iterable[Sequence[Passage]]
) -> Iterator[NDArray[Any]]:
    """The vectors of the shards, by so many workers at once."""
    workers: list[Any] = []
    under_way: deque[list[Any]] = deque()  # the place of a worker, a shard, what comes of it
    try:
        for number, shard in enumerate(shards):
            if len(workers) < many:
                workers.append(begin())
            place = number % many
            under_way.append([place, shard, workers[place].encode.remote(shard)])
            if len(under_way) == many * AT_HAND:
                yield _first(ray, begin, workers, under_way)
        while under_way:
            yield _first(ray, begin, workers, under_way)
    finally:
        for worker in workers:
            ray.kill(worker)


def _first(ray: Any, begin: Callable[[], Any], workers: list[Any], under_way: deque[list[Any]]) -> NDArray[Any]:
    """The vectors of the first shard, once they are there."""
    why = ""
    for _ in range(MOST_LOSSES):
        place, _, vectors = under_way[0]
        try:
            found: NDArray[Any] = ray.get(vectors)
        except ray.exceptions.RayTaskError as error:
            raise ServiceError(f"a worker cannot encode: {_last_line(error)}") from None
        except ray.exceptions.RayError as error:
            why = _last_line(error)
            ray.kill(workers[place])
            workers[place] = begin()
            for one in under_way:
                if one[0] == place:
                    one[2] = workers[place].encode.remote(one[1])
        else:
            under_way.popleft()
            return found
    raise ServiceError(f"{MOST_LOSSES} workers were lost one after another; the same command goes on. The last: {why}")


def _last_line(error: BaseException) -> str:
    return str(error).strip().rpartition("\n")[2]
