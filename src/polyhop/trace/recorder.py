"""Records the steps of a question as they happen, and which steps waited for which."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar

from polyhop.trace import Branch, Step, Trace
from polyhop.types import Passage

T = TypeVar("T")

_Key = tuple[int, ...]


class _TaskTimeline:
    """The steps of one asyncio task, in order.

    Tasks that start together form a fork. Their steps come after what their parent had done before the fork; the
    parent's next step, or its next fork, comes after theirs. Keys sort in the order of a sequential run, whatever the
    timing: a fork has the key ``(…, n)`` among its parent's steps, the steps of its i-th task ``(…, n, i, …)``.

    ``Run.gather`` tells the recorder of its forks. A task that a method starts by other means inherits its parent's
    timeline (context variables are copied to new tasks) and gets its own at its first step. Such tasks belong to one
    fork if their parent still awaits the same object, or if some of them still run. A task of this sort that starts
    others before any step of its own is not seen: it must open a branch first.
    """

    __slots__ = ("awaited", "children", "frontier", "path", "step_count", "task", "untold_count", "untold_fork")

    def __init__(self, task: asyncio.Task[Any] | None, path: _Key, frontier: tuple[_Key, ...]) -> None:
        self.task, self.path, self.frontier = task, path, frontier
        self.children: list[_TaskTimeline] = []
        self.step_count = self.untold_count = 0
        self.untold_fork: _Key | None = None
        self.awaited: object = None

    @property
    def is_over(self) -> bool:
        return self.task is None or self.task.done()

    def next_key(self) -> _Key:
        """Return the key of the next step or fork."""
        self.untold_fork = None
        key = (*self.path, self.step_count)
        self.step_count += 1
        return key

    def add_child(self, task: asyncio.Task[Any] | None, path: _Key) -> _TaskTimeline:
        child = _TaskTimeline(task, path, self.frontier)
        self.children.append(child)
        return child

    def untold_child(self, task: asyncio.Task[Any] | None) -> _TaskTimeline:
        """Return the timeline of a task that was started without ``Run.gather``."""
        awaited = _awaited_by(self.task)
        same_fork = awaited is not None and awaited is self.awaited
        if self.untold_fork is None or (not same_fork and all(child.is_over for child in self.children)):
            self.join()
            self.untold_fork, self.untold_count, self.awaited = self.next_key(), 0, awaited
        self.untold_count += 1
        return self.add_child(task, (*self.untold_fork, self.untold_count - 1))

    def join(self) -> tuple[_Key, ...]:
        """Return what the next step waits for: the last steps here and in every child task that is over."""
        if over := [child for child in self.children if child.is_over]:
            self.children = [child for child in self.children if not child.is_over]
            ends = (key for child in over for key in child.join())
            self.frontier = tuple(dict.fromkeys((*self.frontier, *ends)))
            for child in over:
                child.task = None  # its context holds the child: both go now, without waiting for the garbage collector
        return self.frontier


def _awaited_by(task: asyncio.Task[Any] | None) -> object:
    """Return the innermost object that a task awaits; None if it awaits nothing."""
    awaited: object = task and task.get_coro()
    while (inner := getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)) is not None:
        awaited = inner
    return awaited


_timeline: ContextVar[_TaskTimeline] = ContextVar("polyhop_timeline")
_parent: ContextVar[_Key | None] = ContextVar("polyhop_parent", default=None)


@dataclass(slots=True)
class OpenStep:
    """A step in progress, until ``Recorder.close``."""

    key: _Key
    parent: _Key | None
    after: tuple[_Key, ...]
    started: float
    number: int = 0
    verdict: str | None = None
    own: float | None = None
    chain: float | None = None
    links: Mapping[str, OpenStep] = field(default_factory=dict)
    """The earlier steps that this one refers to, by the name of its field."""


class Recorder:
    """Collects the steps of one question: enter ``recording`` around the method, then call ``trace``."""

    def __init__(
        self, question: str, method: str, *, silent: bool = False, listen: Callable[[Step], object] | None = None
    ) -> None:
        self.question, self.method, self.silent, self.listen = question, method, silent, listen
        self.opened: dict[_Key, OpenStep] = {}
        self.closed: dict[_Key, tuple[type[Step], dict[str, Any]]] = {}  # without the numbers, known at the end
        self.budget: str | None = None
        self._loop = asyncio.get_running_loop()
        self._start = self._loop.time()

    def clock(self) -> float:
        """Return the seconds since the question started."""
        return self._loop.time() - self._start

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Steps opened inside belong to this recorder, as do those of tasks started inside."""
        timeline = _timeline.set(_TaskTimeline(asyncio.current_task(), (), ()))
        parent = _parent.set(None)
        try:
            yield
        finally:
            _timeline.reset(timeline)
            _parent.reset(parent)

    def open(self) -> OpenStep:
        """Begin a step under the enclosing branch, after everything that this task has waited for."""
        if self.silent:
            return OpenStep((), None, (), self.clock())
        timeline = self._current_timeline()
        after = timeline.join()
        key = timeline.next_key()
        timeline.frontier = (key,)
        step = self.opened[key] = OpenStep(key, _parent.get(), after, self.clock(), len(self.opened))
        return step

    def close(self, step: OpenStep, kind: type[Step], **data: Any) -> None:
        """Record a step as ``kind`` with its own ``data``; its time ends now."""
        if not self.silent:
            data |= {
                "started": step.started, "seconds": self.clock() - step.started, "own": step.own, "chain": step.chain
            }  # fmt: skip
            self.closed[step.key] = kind, data
            self.notify(step, kind, data)

    def fork(self) -> Callable[[Coroutine[Any, Any, T]], asyncio.Task[T]]:
        """Begin a fork; return the function that starts its tasks, in their order."""
        if self.silent:
            return asyncio.get_running_loop().create_task
        parent = self._current_timeline()
        parent.join()
        key, indexes = parent.next_key(), count()

        def start(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
            child = parent.add_child(None, (*key, next(indexes)))
            context = copy_context()
            context.run(_timeline.set, child)
            child.task = task = asyncio.get_running_loop().create_task(work, context=context)
            return task

        return start

    @staticmethod
    def _current_timeline() -> _TaskTimeline:
        task, timeline = asyncio.current_task(), _timeline.get()
        if timeline.task is not task:
            timeline = timeline.untold_child(task)
            _timeline.set(timeline)
        return timeline

    def notify(self, opened: OpenStep, kind: type[Step], data: Mapping[str, Any]) -> None:
        """Call the listener with a step, numbered in the order of opening; its parent was opened before it."""
        if self.listen is not None:
            parent = None if opened.parent is None else self.opened[opened.parent].number
            links: dict[str, Any] = {name: other.number for name, other in opened.links.items()}
            self.listen(kind(id=opened.number, parent=parent, **links, **data))

    @contextmanager
    def branch(self, name: str, label: str, passages: Sequence[Passage] = ()) -> Iterator[OpenStep]:
        """Put the steps inside under a branch; set ``verdict`` on the step that is yielded."""
        step = self.open()
        data: dict[str, Any] = {"name": name, "label": label, "passages": tuple(passages)}
        self.notify(step, Branch, {"started": step.started, **data})
        try:
            with self.beneath(step):
                yield step
        finally:
            self.close(step, Branch, **data, verdict=step.verdict)

    @staticmethod
    @contextmanager
    def beneath(step: OpenStep) -> Iterator[None]:
        """Put the steps opened inside under ``step``."""
        token = _parent.set(step.key)
        try:
            yield
        finally:
            _parent.reset(token)

    def trace(self) -> Trace:
        """Return the closed steps, numbered from 0 in the order of the algorithm."""
        number = {key: index for index, key in enumerate(sorted(self.closed))}
        steps = []
        for key, index in number.items():
            opened = self.opened[key]
            parent_key = opened.parent
            while parent_key is not None and parent_key not in number:  # it was cut short, and never recorded
                parent_key = self.opened[parent_key].parent
            after = tuple(sorted({number[before] for before in self._closed_before(opened)}))
            links = {name: number[other.key] for name, other in opened.links.items()}
            parent = None if parent_key is None else number[parent_key]
            kind, data = self.closed[key]
            steps.append(kind(id=index, parent=parent, after=after, **links, **data))
        return Trace(self.question, self.method, tuple(steps), self.budget)

    def _closed_before(self, step: OpenStep) -> Iterator[_Key]:
        """Yield the recorded steps that a step waited for, through those that were cut short."""
        for before in step.after:
            if before in self.closed:
                yield before
            else:
                yield from self._closed_before(self.opened[before])
