"""Process passages shard by shard: in this process, as ``map`` does, or all over a Ray cluster.

On a cluster, a worker fetches its function once and has two shards at hand: one it works on and one that waits. The
shards are the same as in one process and their results come in the same order, so the outcome is the same. If a worker
is lost, another one starts and gets its shards.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from polyhop.common.ray import CPUS, connected, environment, prepare_worker, worker_count
from polyhop.errors import ServiceError
from polyhop.types import Passage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from polyhop.retrieval.encoders.base import Encoder

T = TypeVar("T")

MapShards: TypeAlias = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""Applies a function to every shard, as ``map`` does, here or elsewhere; yields the results in order."""

SHARDS_PER_WORKER = 2
"""Shards sent to a worker and not yet returned."""
MAX_LOSSES = 3
"""Workers that may be lost over one shard before the work ends."""


def in_shards(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Split items into lists of ``size``; the last one may be shorter.

    >>> list(in_shards("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    rest = iter(items)
    while shard := list(islice(rest, size)):
        yield shard


class Worker:
    """A process of the cluster. It keeps its function, which may be large, until it gets another one."""

    def __init__(self, fetch: Callable[[Any], Any], folder: str, variables: dict[str, str]) -> None:
        prepare_worker(folder, variables)
        self._fetch = fetch
        self._reference: Any = None
        self._function: Callable[[Any], Any]

    def do(self, reference: Sequence[Any], shard: Any) -> Any:
        """Process a shard. ``reference`` to the function is inside a sequence, else Ray would fetch it every time."""
        if reference != self._reference:
            self._function = self._fetch(reference[0])
            self._reference = reference
        return self._function(shard)


class Workers:
    """A fixed number of workers. Each starts with its first shard and stays until ``end``."""

    def __init__(self, ray: Any, count: int) -> None:
        self._ray, self._count = ray, count
        self._kind = ray.remote(Worker).options(num_cpus=CPUS)
        self._actors: list[Any] = []

    def map(self, function: Callable[[Any], Any], shards: Iterable[Any]) -> Iterator[Any]:
        """Apply ``function`` to every shard; yield the results in order."""
        reference = [self._ray.put(function)]
        pending: deque[_Pending] = deque()
        for number, shard in enumerate(shards):
            worker = number % self._count
            if worker == len(self._actors):
                self._actors.append(self._start())
            pending.append(_Pending(worker, shard, self._actors[worker].do.remote(reference, shard)))
            if len(pending) == self._count * SHARDS_PER_WORKER:
                yield self._first_result(reference, pending)
        while pending:
            yield self._first_result(reference, pending)

    def end(self) -> None:
        """Stop all workers."""
        while self._actors:
            self._ray.kill(self._actors.pop())

    def _start(self) -> Any:
        return self._kind.remote(self._ray.get, os.getcwd(), environment())

    def _first_result(self, reference: Sequence[Any], pending: deque[_Pending]) -> Any:
        """Wait for the first pending shard; replace its worker if that was lost."""
        reason = ""
        for _ in range(MAX_LOSSES):
            worker = pending[0].worker
            try:
                result = self._ray.get(pending[0].result)
            except self._ray.exceptions.RayTaskError as error:
                raise ServiceError(f"a worker cannot go on: {_last_line(error)}") from None
            except self._ray.exceptions.RayError as error:
                reason = _last_line(error)
                self._ray.kill(self._actors[worker])
                self._actors[worker] = self._start()
                for task in pending:
                    if task.worker == worker:
                        task.result = self._actors[worker].do.remote(reference, task.shard)
            else:
                pending.popleft()
                return result
        raise ServiceError(
            f"{MAX_LOSSES} workers were lost one after another; give the same command again. The last: {reason}"
        )


@dataclass(slots=True)
class _Pending:
    """A shard in progress: its worker's number and a reference to its result."""

    worker: int
    shard: Any
    result: Any


@contextmanager
def cluster_map(address: str | None, workers: int | None) -> Iterator[MapShards]:
    """Map shards over workers of a cluster, the same ones for all work of the block. They start with the first shards.

    Raises:
        UsageError: the cluster has no room for that many workers.
        ServiceError: the cluster cannot be reached; or, from the shards, a worker fails or is lost again and again.
    """
    with connected(address) as ray:
        pool = Workers(ray, worker_count(ray, workers))
        try:
            yield pool.map
        finally:
            pool.end()


def encode_by_name(encoder: str, map_shards: MapShards) -> MapShards:
    """Encode shards by ``map_shards``: every worker opens the encoder of this name; the encoder itself is not sent."""
    return lambda _, shards: map_shards(partial(_encode, encoder), shards)


@cache
def _opened(encoder: str) -> Encoder:
    from polyhop.retrieval.encoders import open_encoder

    return open_encoder(encoder)


def _encode(encoder: str, passages: Sequence[Passage]) -> NDArray[Any]:
    return _opened(encoder).passages(passages)


def _last_line(error: BaseException) -> str:
    return str(error).strip().rpartition("\n")[2]
