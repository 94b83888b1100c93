"""A run whose questions are answered all over a Ray cluster; what it keeps is what one process keeps.

The driver asks and writes, as it does alone (``runner.run_questions``); only that a question goes to a worker that has
a place free, and its answer comes back. So shares are single questions: a slow worker takes fewer, none waits for
another's last, and a question whose worker is lost goes to another. Each worker is a process with a pipeline of its
own and its part of every cap, so that the parts make the whole, also while one is lost.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polyhop import errors
from polyhop._version import __version__
from polyhop.answer import Answer
from polyhop.common.extras import require
from polyhop.common.ray import CPUS, connected, environment, prepare_worker, split_evenly, worker_count
from polyhop.engine.prices import Prices
from polyhop.errors import PolyhopError, ServiceError, SettingError, UsageError
from polyhop.evaluation.runner import Ask, run_settings
from polyhop.net.limits import MAX_CONCURRENCY, MINUTE
from polyhop.pipeline import LM, LOCAL, Pipeline
from polyhop.redaction import redacted
from polyhop.telemetry import start, traced
from polyhop.types import Question

logger = logging.getLogger("polyhop.ray")

STARTS_WITHIN = 300.0
"""Seconds in which a worker must be there; one that is not is given up."""
ENDS_WITHIN = 10.0
"""Seconds that workers have to write down what they hold."""
MAX_LOSSES = 3
"""A question whose worker was lost so often has failed: it may be the reason."""

RATES = ("requests_per_minute", "tokens_per_minute")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ray:
    """A Ray cluster that answers a run's questions: ``evaluate(..., engine=Ray(address="head:6379", workers=8))``.

    ``address``: see ``common.ray.connected``; without one, this machine will do. ``workers``: processes, by default one
    for each core, and no more than ``concurrency`` or a cap can be parted into. ``concurrency`` and caps on calls
    are of the whole run; limits on a question are as they are.
    """

    address: str | None = None
    workers: int | None = None

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise SettingError(f"workers={self.workers}: must be at least 1")

    @contextmanager
    def answering(
        self, pipeline: Pipeline, lm: LM, options: Mapping[str, Any], concurrency: int, left: int, *, telemetry: bool
    ) -> Iterator[Ask]:
        """What to ask instead of the ``pipeline``, which was opened with ``lm`` and ``options``; ``left`` questions are
        to come. The workers are there when the block is entered, and gone when it is left.

        Raises:
            UsageError: something was given that lives in this process alone, or a worker cannot open what this one did.
            ServiceError: no cluster or no worker is there.
        """
        check_serialisable({"lm": lm, **options})
        if not left:
            yield pipeline.aask
            return
        told = WorkerSetup(
            corpus=None if pipeline.index is None else pipeline.index.folder.resolve(),
            method=pipeline.method.name,
            lm=lm,
            options=options,
            settings={"polyhop": __version__, **run_settings(pipeline, "")},
            telemetry=telemetry,
            folder=os.getcwd(),
            environment=environment(),
            collect=gc.get_threshold(),
        )
        with connected(self.address) as ray:
            most = min(worker_count(ray, self.workers), left)
            workers = Workers(ray, told, divide_run(most, concurrency, call_caps(lm, options)))
            try:
                workers.start()
                yield workers.aask
            finally:
                workers.close()


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """What every worker is told: the arguments of its pipeline, what its settings must then be, and the circumstances
    of the driver that they are read in."""

    corpus: Path | None
    method: str
    lm: LM
    options: Mapping[str, Any]
    settings: Mapping[str, Any]
    telemetry: bool
    folder: str
    environment: dict[str, str]
    collect: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class WorkerShare:
    """A worker's part of a run: questions under way at once, and its caps on model calls by their name."""

    concurrency: int
    caps: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RemoteError:
    """An error on its way from a worker, by the name of its class."""

    kind: str
    message: str

    @classmethod
    def of(cls, error: BaseException) -> RemoteError:
        """As much of an error as can always be sent."""
        ours = isinstance(error, PolyhopError)
        return cls(type(error).__name__ if ours else "PolyhopError", redacted(str(error) if ours else repr(error)))

    def error(self, where: str = "") -> PolyhopError:
        """The error, made anew."""
        kind = getattr(errors, self.kind, PolyhopError)
        made: PolyhopError = kind.__new__(kind, where + self.message)  # some take other arguments than a message
        return made


class Worker:
    """The process elsewhere: a pipeline, opened once and asked many times. Nothing of it raises."""

    def __init__(self, told: WorkerSetup, caps: Mapping[str, int]) -> None:
        self.machine = prepare_worker(told.folder, told.environment)
        gc.set_threshold(*told.collect)
        self._telemetry = told.telemetry
        self._pipeline: Pipeline | None = None
        self._failure: RemoteError | None = None
        lm_options = {**(told.options.get("lm_options") or {}), **caps}
        try:
            self._pipeline = Pipeline(told.corpus, told.method, told.lm, **{**told.options, "lm_options": lm_options})
            self._check(self._pipeline, told.settings)
            if told.telemetry:
                start()
                traced(self._pipeline, corpus=getattr(self._pipeline.index, "name", None))
        except Exception as error:  # noqa: BLE001 - it is told there
            self._failure = RemoteError.of(error)

    async def opened(self) -> tuple[str, RemoteError | None]:
        """The machine's name, and why nothing can be asked here."""
        return self.machine, self._failure

    async def ask(self, question: Question) -> Answer | RemoteError:
        """The answer to a question."""
        assert self._pipeline is not None
        try:
            return await self._pipeline.aask(question)
        except Exception as error:  # noqa: BLE001 - the driver raises it
            return RemoteError.of(error)

    async def close(self) -> None:
        """Write down what is not yet: replies for the cache, spans."""
        if self._pipeline is not None:
            await self._pipeline.aclose()
        if self._telemetry:
            require("opentelemetry.trace", "otel", "telemetry").get_tracer_provider().shutdown()

    @staticmethod
    def _check(pipeline: Pipeline, wanted: Mapping[str, Any]) -> None:
        """Another index, prompt file or version would answer otherwise."""
        here = {"polyhop": __version__, **run_settings(pipeline, "")}
        if differ := sorted(name for name in here.keys() | wanted.keys() if here.get(name) != wanted.get(name)):
            name = differ[0]
            raise UsageError(f"{name} is {here.get(name)!r}, where the run was begun {wanted.get(name)!r}")


class Workers:
    """The workers of a run, as the driver has them: a queue of free places, each a question's.

    A lost worker's places are no longer given out. Another worker comes in its stead, with the same part; where there
    was a limit a minute only when that minute is over.
    """

    def __init__(self, ray: Any, told: WorkerSetup, parts: Sequence[WorkerShare]) -> None:
        self._ray, self._told, self._parts = ray, ray.put(told), parts
        self._kind = ray.remote(Worker)
        self._begun: dict[Any, WorkerShare] = {}
        self._there: set[Any] = set()
        self._coming: set[asyncio.Task[None]] = set()
        self._hopes = 0  # workers that are there or may come
        self._places: asyncio.Queue[Any] = asyncio.Queue()
        self._last_tries = asyncio.Lock()

    def start(self) -> None:
        """Wait for the workers, as far as there is room for them. Raises what hinders one from its work."""
        asked = {worker.opened.remote(): worker for worker in map(self._begin, self._parts)}
        waiting, until = list(asked), time.monotonic() + STARTS_WITHIN
        while waiting and time.monotonic() < until:
            came, waiting = self._ray.wait(waiting, timeout=max(0.0, until - time.monotonic()))
            for ref in came:
                try:
                    self._check(self._ray.get(ref))
                except self._ray.exceptions.RayError as error:
                    raise ServiceError(f"a worker could not be started: {_first_line(error)}") from None
                self._there.add(asked[ref])
        for ref in waiting:
            self._end(asked[ref])
        if not self._there:
            raise ServiceError(f"the cluster had no room for a worker ({CPUS} CPUs) in {STARTS_WITHIN:.0f} s")
        if waiting:
            logger.warning("%d of %d workers found no room; the others go on", len(waiting), len(asked))
        self._hopes = len(self._there)
        ready = [self._begun[worker].concurrency for worker in self._there]
        for turn in range(max(ready)):  # in turns, so that few questions are spread too
            for worker in self._there:
                if turn < self._begun[worker].concurrency:
                    self._places.put_nowait(worker)

    async def aask(self, question: Question) -> Answer:
        """The answer of a worker; of others, where one is lost over it.

        The last try is made one question at a time: a question that takes its worker down takes no other one's last
        try along.
        """
        for tried in range(MAX_LOSSES):
            async with self._last_tries if tried == MAX_LOSSES - 1 else nullcontext():
                worker = await self._free()
                try:
                    found = await worker.ask.remote(question)
                except self._ray.exceptions.RayTaskError as error:
                    self._places.put_nowait(worker)
                    raise PolyhopError(f"the answer could not be sent: {_first_line(error)}") from None
                except self._ray.exceptions.RayError as error:
                    self._lose(worker, error)
                    continue
                self._places.put_nowait(worker)
                if isinstance(found, RemoteError):
                    raise found.error()
                answer: Answer = found
                return answer
        raise PolyhopError(f"its worker was lost {MAX_LOSSES} times; does the question take too much memory?")

    def close(self) -> None:
        """End them all, and wait a little for what they write down. Nothing is asked any more."""
        try:
            closing = [worker.close.remote() for worker in self._there]
            if closing:
                self._ray.wait(closing, num_returns=len(closing), timeout=ENDS_WITHIN)
        finally:
            for worker in list(self._begun):
                self._end(worker)

    async def _free(self) -> Any:
        """A place at a worker that is there."""
        while (worker := await self._places.get()) is not None:
            if worker in self._there:
                return worker
        self._places.put_nowait(None)  # for whoever asks next
        raise ServiceError("all workers of the cluster were lost, and no others could be started")

    def _begin(self, part: WorkerShare) -> Any:
        kind = self._kind.options(num_cpus=CPUS, max_concurrency=part.concurrency + 1)
        worker = kind.remote(self._told, part.caps)
        self._begun[worker] = part
        return worker

    def _end(self, worker: Any) -> None:
        del self._begun[worker]
        self._there.discard(worker)
        self._ray.kill(worker)

    def _lose(self, worker: Any, error: Exception) -> None:
        """Have another come for a worker that is lost, once, however many of its questions tell of it."""
        if worker in self._there:
            logger.warning("a worker was lost, its questions go to others: %s", _first_line(error))
            part = self._begun[worker]
            self._end(worker)
            coming = asyncio.get_running_loop().create_task(self._replace(part))
            self._coming.add(coming)
            coming.add_done_callback(self._coming.discard)

    async def _replace(self, part: WorkerShare) -> None:
        if any(name in part.caps for name in RATES):
            await asyncio.sleep(MINUTE)  # what the lost one asked still counts
        worker = self._begin(part)
        try:
            async with asyncio.timeout(STARTS_WITHIN):
                self._check(await worker.opened.remote())
        except (self._ray.exceptions.RayError, PolyhopError, TimeoutError) as error:
            logger.warning("no other worker could be started for it: %s", _first_line(error) or "no room")
            self._end(worker)
            self._hopes -= 1
            if not self._hopes:
                self._places.put_nowait(None)
        else:
            self._there.add(worker)
            for _ in range(part.concurrency):
                self._places.put_nowait(worker)

    @staticmethod
    def _check(opened: tuple[str, RemoteError | None]) -> None:
        machine, failure = opened
        if failure is not None:
            raise failure.error(
                f"the worker on {machine} cannot do what this process can, which needs the same files "
                "under the same names and the same packages there: "
            )


def call_caps(lm: LM, options: Mapping[str, Any]) -> dict[str, int]:
    """The caps on model calls, by the name of the option; a served model has one on calls at once anyhow.

    >>> call_caps("openai:tiny", {"lm_options": {"requests_per_minute": 60, "timeout": 9.0}})
    {'max_concurrency': 64, 'requests_per_minute': 60}
    """
    given = options.get("lm_options") or {}
    names = [str(name).partition(":")[0] for name in (lm.values() if isinstance(lm, Mapping) else [lm])]
    served = {name for name in names if name not in LOCAL}
    usual = {"max_concurrency": MAX_CONCURRENCY} if served == {"openai"} else {}
    known = {name: given[name] for name in ("max_concurrency", *RATES) if given.get(name) is not None}
    return {**usual, **known}


def divide_run(workers: int, concurrency: int, caps: Mapping[str, int]) -> list[WorkerShare]:
    """The parts of at most so many workers, which add up to the whole; each has at least one of everything.

    >>> [part.concurrency for part in divide_run(4, 6, {})], len(divide_run(4, 6, {"requests_per_minute": 3}))
    ([2, 2, 1, 1], 3)
    """
    many = max(1, min(workers, concurrency, *caps.values()))
    each = {name: split_evenly(cap, many) for name, cap in caps.items()}
    return [
        WorkerShare(share, {name: each[name][number] for name in each})
        for number, share in enumerate(split_evenly(max(1, concurrency), many))
    ]


def check_serialisable(options: Mapping[str, Any]) -> None:
    """Raise ``UsageError`` for a model, retriever or other object, which no other process has."""
    for name, value in options.items():
        if not _plain(value):
            raise UsageError(
                f"{name}={value!r} is an object of this program, which a worker elsewhere does not have: give its "
                "name, as openai:MODEL@URL, bm25 or http://URL, which every worker opens by itself"
            )


def _plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_plain, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_plain, value))
    return value is None or isinstance(value, (bool, int, float, str, Path, Prices))


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "")
