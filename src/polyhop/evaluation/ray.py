"""A run distributed over a Ray cluster; its folder is the same as that of a run in one process.

The driver runs the questions and writes the results as it does alone (``runner.run_questions``), but sends each
question to a worker with a free slot. Work is shared by single questions: a slow worker takes fewer, no worker waits
for another one's last question, and a question whose worker is lost goes to another. Each worker is a process with its
own pipeline and its share of every cap, so that the shares add up to the whole, even while a worker is lost.
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

from polyhop._version import __version__
from polyhop.answer import Answer
from polyhop.common.ray import CPUS, connected, environment, split_evenly, worker_count
from polyhop.engine.budget import Prices
from polyhop.engine.models import Models
from polyhop.engine.options import LM
from polyhop.engine.parts import LOCAL
from polyhop.errors import PolyhopError, ServiceError, SettingError, UsageError
from polyhop.evaluation.ray_worker import RemoteError, Worker, WorkerSetup
from polyhop.evaluation.runner import Ask, run_settings
from polyhop.net.limits import MAX_CONCURRENCY, MINUTE
from polyhop.pipeline import Pipeline
from polyhop.types import Question

logger = logging.getLogger("polyhop.ray")

STARTS_WITHIN = 300.0
"""Seconds that a worker may take to start before it is given up."""
ENDS_WITHIN = 10.0
"""Seconds that workers may take to save cached replies and spans at the end."""
MAX_LOSSES = 3
"""Maximum number of workers lost over a question before it fails: the question may be the reason."""

RATES = ("requests_per_minute", "tokens_per_minute")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ray:
    """A Ray cluster that answers a run's questions: ``evaluate(..., engine=Ray(address="head:6379", workers=8))``.

    ``address``: as ``connected`` takes it; by default this machine is used. ``workers``: the number of processes; by
    default one per core, and at most as many as ``concurrency`` and the caps can be divided into. ``concurrency`` and
    caps on calls hold for the whole run; limits per question are unchanged.
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
        """Start the workers and yield the function that answers a question in place of the ``pipeline``.

        The pipeline was opened with ``lm`` and ``options``; ``left`` questions remain. The workers end with the block.

        Raises:
            UsageError: an argument exists only in this process, or a worker cannot open what this process opened.
            ServiceError: no cluster answers, or no worker starts.
        """
        check_serialisable({"lm": lm, **options})
        if not left:
            yield pipeline.aask
            return
        setup = WorkerSetup(
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
            max_workers = min(worker_count(ray, self.workers), left)
            parts = divide_run(max_workers, concurrency, call_caps(lm, options))
            workers = Workers(ray, setup, parts, pipeline.engine.models)
            try:
                workers.start()
                yield workers.aask
            finally:
                workers.close()


@dataclass(frozen=True, slots=True)
class WorkerShare:
    """A worker's share of a run: its maximum number of concurrent questions, and its caps on model calls by name."""

    concurrency: int
    caps: Mapping[str, int]


class Workers:
    """The workers of a run, seen from the driver: a queue of free slots, one per concurrent question.

    What one worker learns of the ``models`` goes to all with their next questions.
    The slots of a lost worker are no longer used. Another worker replaces it, with the same share; if the share has a
    rate limit per minute, only after a minute.
    """

    def __init__(self, ray: Any, setup: WorkerSetup, parts: Sequence[WorkerShare], models: Models) -> None:
        self._ray, self._setup, self._parts, self._models = ray, ray.put(setup), parts, models
        self._kind = ray.remote(Worker)
        self._started: dict[Any, WorkerShare] = {}
        self._live: set[Any] = set()
        self._replacements: set[asyncio.Task[None]] = set()
        self._expected = 0  # workers that are live or starting
        self._free_slots: asyncio.Queue[Any] = asyncio.Queue()
        self._last_tries = asyncio.Lock()

    def start(self) -> None:
        """Wait for the workers that the cluster has room for. Raises the error that keeps one from working."""
        asked = {worker.opened.remote(): worker for worker in map(self._start_worker, self._parts)}
        waiting, until = list(asked), time.monotonic() + STARTS_WITHIN
        while waiting and time.monotonic() < until:
            came, waiting = self._ray.wait(waiting, timeout=max(0.0, until - time.monotonic()))
            for ref in came:
                try:
                    self._check(self._ray.get(ref))
                except self._ray.exceptions.RayError as error:
                    raise ServiceError(f"a worker could not be started: {_first_line(error)}") from None
                self._live.add(asked[ref])
        for ref in waiting:
            self._stop(asked[ref])
        if not self._live:
            raise ServiceError(f"the cluster had no room for a worker ({CPUS} CPUs) in {STARTS_WITHIN:.0f} s")
        if waiting:
            logger.warning(
                "%d of %d workers could not be started for lack of resources; the others continue",
                len(waiting),
                len(asked),
            )
        self._expected = len(self._live)
        ready = [self._started[worker].concurrency for worker in self._live]
        for turn in range(max(ready)):  # in turns, so that a few questions are spread, too
            for worker in self._live:
                if turn < self._started[worker].concurrency:
                    self._free_slots.put_nowait(worker)

    async def aask(self, question: Question) -> Answer:
        """Return a worker's answer; if a worker is lost, try another one.

        The last attempt is made for one question at a time: a question that brings its worker down must not use up
        another question's last attempt.
        """
        for tried in range(MAX_LOSSES):
            async with self._last_tries if tried == MAX_LOSSES - 1 else nullcontext():
                worker = await self._free()
                try:
                    found, learnt = await worker.ask.remote(question, self._models.learnt())
                except self._ray.exceptions.RayTaskError as error:
                    self._free_slots.put_nowait(worker)
                    raise PolyhopError(f"the answer could not be sent: {_first_line(error)}") from None
                except self._ray.exceptions.RayError as error:
                    self._replace_lost(worker, error)
                    continue
                self._free_slots.put_nowait(worker)
                self._models.remember(learnt)
                if isinstance(found, RemoteError):
                    raise found.error()
                answer: Answer = found
                return answer
        raise PolyhopError(f"its worker was lost {MAX_LOSSES} times; does the question take too much memory?")

    def close(self) -> None:
        """Stop all workers, and give them ``ENDS_WITHIN`` seconds to save their data."""
        try:
            closing = [worker.close.remote() for worker in self._live]
            if closing:
                self._ray.wait(closing, num_returns=len(closing), timeout=ENDS_WITHIN)
        finally:
            for worker in list(self._started):
                self._stop(worker)

    async def _free(self) -> Any:
        """Wait for a free slot of a live worker."""
        while (worker := await self._free_slots.get()) is not None:
            if worker in self._live:
                return worker
        self._free_slots.put_nowait(None)  # for whoever asks next
        raise ServiceError("all workers of the cluster were lost, and no others could be started")

    def _start_worker(self, part: WorkerShare) -> Any:
        kind = self._kind.options(num_cpus=CPUS, max_concurrency=part.concurrency + 1)
        worker = kind.remote(self._setup, part.caps)
        self._started[worker] = part
        return worker

    def _stop(self, worker: Any) -> None:
        del self._started[worker]
        self._live.discard(worker)
        self._ray.kill(worker)

    def _replace_lost(self, worker: Any, error: Exception) -> None:
        """Replace a lost worker, once, however many of its questions report the loss."""
        if worker in self._live:
            logger.warning("a worker was lost, its questions go to others: %s", _first_line(error))
            part = self._started[worker]
            self._stop(worker)
            replacement = asyncio.get_running_loop().create_task(self._replace(part))
            self._replacements.add(replacement)
            replacement.add_done_callback(self._replacements.discard)

    async def _replace(self, part: WorkerShare) -> None:
        if any(name in part.caps for name in RATES):
            await asyncio.sleep(MINUTE)  # the lost worker's calls still count
        worker = self._start_worker(part)
        try:
            async with asyncio.timeout(STARTS_WITHIN):
                self._check(await worker.opened.remote())
        except (self._ray.exceptions.RayError, PolyhopError, TimeoutError) as error:
            logger.warning("no other worker could be started for it: %s", _first_line(error) or "no room")
            self._stop(worker)
            self._expected -= 1
            if not self._expected:
                self._free_slots.put_nowait(None)
        else:
            self._live.add(worker)
            for _ in range(part.concurrency):
                self._free_slots.put_nowait(worker)

    @staticmethod
    def _check(opened: tuple[str, RemoteError | None]) -> None:
        machine, failure = opened
        if failure is not None:
            raise failure.error(
                f"the worker on {machine} cannot do what this process can, which needs the same files "
                "under the same names and the same packages there: "
            )


def call_caps(lm: LM, options: Mapping[str, Any]) -> dict[str, int]:
    """Return the caps on model calls, by option; a served model always has one on concurrent calls.

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
    """Divide a run among at most ``workers`` workers; the shares add up to the whole, each at least 1 of everything.

    >>> [part.concurrency for part in divide_run(4, 6, {})], len(divide_run(4, 6, {"requests_per_minute": 3}))
    ([2, 2, 1, 1], 3)
    """
    many = max(1, min(workers, concurrency, *caps.values()))
    cap_shares = {name: split_evenly(cap, many) for name, cap in caps.items()}
    return [
        WorkerShare(share, {name: cap_shares[name][i] for name in cap_shares})
        for i, share in enumerate(split_evenly(max(1, concurrency), many))
    ]


def check_serialisable(options: Mapping[str, Any]) -> None:
    """Raise ``UsageError`` for a model, retriever or other object that cannot be sent to another process."""
    for name, value in options.items():
        if not _plain(value):
            raise UsageError(
                f"{name}={value!r} is an object of this program, which cannot be sent to a worker: give its "
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
