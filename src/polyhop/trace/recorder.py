"""Records the steps of one question as they happen, and who had to wait for whom."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

from polyhop.trace import Branch, Step, Trace
from polyhop.types import Passage

_Key = tuple[int, ...]


class _Strand:
    """The steps of one asyncio task, in order.

    A task inherits the strand that spawned it (context variables are copied to new tasks) and opens its own at its
    first step. Tasks spawned together form a fork: their steps come after what the parent had done before it, and the
    parent's next step, or its next fork, after theirs. A task that is late to its first step (it waited for a
    semaphore) still belongs to the fork its parent waits at; one that forks before any step of its own is not seen, so
    it opens a branch first. Keys sort in the order of a sequential run whatever the timing: a fork ``c`` stands at
    ``(…, c)`` among the parent's steps, the steps of its i-th task at ``(…, c, i, …)``.
    """

    __slots__ = ("children", "fork", "frontier", "path", "spawned", "step_count", "task", "waiting")

    def __init__(self, task: asyncio.Task[Any] | None, path: _Key, frontier: tuple[_Key, ...]) -> None:
        self.task, self.path, self.frontier = task, path, frontier
        self.step_count = self.spawned = 0
        self.fork: int | None = None
        self.waiting: object = None
        self.children: list[_Strand] = []

    @property
    def over(self) -> bool:
        return self.task is None or self.task.done()

    def spawn(self, task: asyncio.Task[Any] | None) -> _Strand:
        waiting = getattr(self.task, "_fut_waiter", None)  # what the parent awaits: one future for the whole fork
        still = waiting is not None and waiting is self.waiting
        if self.fork is None or (not still and all(child.over for child in self.children)):
            self.join()
            self.waiting = waiting
            self.fork, self.spawned, self.step_count = self.step_count, 0, self.step_count + 1
        assert self.fork is not None
        child = _Strand(task, (*self.path, self.fork, self.spawned), self.frontier)
        self.spawned += 1
        self.children.append(child)
        return child

    def join(self) -> tuple[_Key, ...]:
        """What a next step waits for: the last steps done here and in every spawned task that is over."""
        if over := [child for child in self.children if child.over]:
            self.children = [child for child in self.children if not child.over]
            ends = (key for child in over for key in child.join())
            self.frontier = tuple(dict.fromkeys((*self.frontier, *ends)))
        return self.frontier

    def next_key(self) -> _Key:
        self.fork = None
        key = (*self.path, self.step_count)
        self.step_count += 1
        return key


_strand: ContextVar[_Strand] = ContextVar("polyhop_strand")
_parent: ContextVar[_Key | None] = ContextVar("polyhop_parent", default=None)


@dataclass(slots=True)
class OpenStep:
    """A step under way: ``close`` records it."""

    recorder: Recorder
    key: _Key
    parent: _Key | None
    after: tuple[_Key, ...]
    started: float
    number: int = 0
    verdict: str | None = None

    def close(self, kind: type[Step], **data: Any) -> None:
        """Record the step as ``kind`` with its own ``data``; its seconds end now."""
        if self.recorder.silent:
            return
        clock = self.recorder.clock() - self.started
        step = self.recorder.closed[self.key] = partial(kind, started=self.started, seconds=clock, **data)
        self.recorder.tell(self, step)


class Recorder:
    """Collects the steps of one question. Enter it around the method; ``trace`` afterwards."""

    def __init__(
        self, question: str, method: str, *, silent: bool = False, listen: Callable[[Step], object] | None = None
    ) -> None:
        self.question, self.method, self.silent, self.listen = question, method, silent, listen
        self.opened: dict[_Key, OpenStep] = {}
        self.closed: dict[_Key, Callable[..., Step]] = {}  # each but for its number and place, known at the end
        self.budget: str | None = None
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()

    def clock(self) -> float:
        """Seconds since the question was begun."""
        return self._loop.time() - self._start

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Steps opened inside belong to this recorder's first strand, or to tasks spawned from it."""
        strand = _strand.set(_Strand(asyncio.current_task(), (), ()))
        parent = _parent.set(None)
        try:
            yield
        finally:
            _strand.reset(strand)
            _parent.reset(parent)

    def open(self) -> OpenStep:
        """Begin a step here and now: under the enclosing branch, after all this task has waited for."""
        if self.silent:
            return OpenStep(self, (), None, (), self.clock())
        task, strand = asyncio.current_task(), _strand.get()
        if strand.task is not task:
            strand = strand.spawn(task)
            _strand.set(strand)
        after = strand.join()
        key = strand.next_key()
        strand.frontier = (key,)
        step = self.opened[key] = OpenStep(self, key, _parent.get(), after, self.clock(), len(self.opened))
        return step

    def tell(self, opened: OpenStep, step: Callable[..., Step]) -> None:
        """Let whoever listens know of a step, numbered in the order of opening; its parent was opened before it."""
        if self.listen is not None:
            parent = None if opened.parent is None else self.opened[opened.parent].number
            self.listen(step(id=opened.number, parent=parent))

    @contextmanager
    def branch(self, name: str, label: str, passages: Sequence[Passage] = ()) -> Iterator[OpenStep]:
        """Steps inside stand under this branch; set ``verdict`` on what is yielded."""
        step = self.open()
        told: dict[str, Any] = {"name": name, "label": label, "passages": tuple(passages)}
        self.tell(step, partial(Branch, started=step.started, **told))
        try:
            with self.beneath(step):
                yield step
        finally:
            step.close(Branch, **told, verdict=step.verdict)

    @staticmethod
    @contextmanager
    def beneath(step: OpenStep) -> Iterator[None]:
        """Steps opened inside stand under ``step``."""
        token = _parent.set(step.key)
        try:
            yield
        finally:
            _parent.reset(token)

    def trace(self) -> Trace:
        """The closed steps, numbered from 0 in the algorithm's order."""
        number = {key: index for index, key in enumerate(sorted(self.closed))}
        steps = []
        for key, index in number.items():
            opened = self.opened[key]
            above = opened.parent
            while above is not None and above not in number:  # it was cut short, and never recorded
                above = self.opened[above].parent
            after = tuple(sorted({number[before] for before in self._closed_before(opened)}))
            steps.append(self.closed[key](id=index, parent=None if above is None else number[above], after=after))
        return Trace(self.question, self.method, tuple(steps), self.budget)

    def _closed_before(self, step: OpenStep) -> Iterator[_Key]:
        """What a step waited for, looking through steps that were cut short and so never recorded."""
        for before in step.after:
            if before in self.closed:
                yield before
            else:
                yield from self._closed_before(self.opened[before])
