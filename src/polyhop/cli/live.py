"""A live view of a question: a small tree of its steps on stderr, which disappears with the answer."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from itertools import groupby
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from polyhop.answer import Answer
from polyhop.cli import show as draw
from polyhop.cli.traces import FOLDED, TraceStyle, describe, describe_group, seconds, tokens_of
from polyhop.common.progress import show_progress
from polyhop.common.text import counted
from polyhop.trace import CALLS, Branch, Searched, Step

QUIET = 0.3
"""Seconds before anything is shown."""
_MAX_LINES = 14
_ROWS_LEFT = 4
"""Rows of the terminal that stay free for earlier output."""


def can_show() -> bool:
    """Return True if stderr is a terminal that can redraw lines."""
    return sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


async def show_live(steps: AsyncGenerator[Step | Answer, None]) -> Answer:
    """Show the steps of a ``Pipeline.stream`` as they happen; return its answer."""
    tree = Steps()
    async with aclosing(steps):
        with _draw(tree):
            async for step in steps:
                if isinstance(step, Answer):
                    return step
                tree.add(step)
    raise AssertionError("a stream ends with its answer")


@contextmanager
def _draw(tree: Steps) -> Iterator[None]:
    to = draw.console(stderr=True)
    live = Live(tree, console=to, refresh_per_second=10, transient=True, redirect_stdout=False)
    with live, show_progress(tree.working):
        yield


class Steps:
    """The steps so far: the last lines of their tree, with a finished branch on one line, and their cost."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._spinner = Spinner("dots")
        self._lock = threading.Lock()  # steps come from the loop, drawing is a thread's
        self._steps: dict[int, Step] = {}
        self._under: dict[int | None, list[int]] = {}
        self._open: set[int] = set()
        self.work = ""

    def add(self, step: Step) -> None:
        """Add a step as ``Pipeline.stream`` yields it; a branch comes twice."""
        with self._lock:
            if step.id not in self._steps:
                self._under.setdefault(step.parent, []).append(step.id)
                if isinstance(step, Branch):
                    self._open.add(step.id)
            else:
                self._open.discard(step.id)
            self._steps[step.id] = step

    @contextmanager
    def working(self, noun: str, before: int) -> Iterator[_Work]:
        """Show long work within a step, as ``common.progress`` reports it."""
        yield _Work(self, noun)
        self.work = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        passed = time.monotonic() - self._begun
        if passed < QUIET:
            return
        with self._lock:
            steps = list(self._steps.values())
            rows = list(self._rows(None, 0))
            for parent in self._under.keys() - {None, *self._steps}:  # a search is reported when it ends
                rows += self._rows(parent, 1)
        yield from _last(rows, max(1, min(_MAX_LINES, console.height - _ROWS_LEFT)))
        self._spinner.update(text=self._status(steps, passed))
        yield self._spinner

    def _rows(self, parent: int | None, depth: int) -> Iterator[_Row]:
        children = [self._steps[name] for name in self._under.get(parent, ())]
        for kind, steps in groupby(children, key=lambda step: step.kind):
            alike = list(steps)
            if kind in FOLDED:
                yield _Row(depth, alike)
                continue
            for step in alike:
                yield _Row(depth, [step], step.id in self._open)
                if step.id in self._open:
                    yield from self._rows(step.id, depth + 1)

    def _status(self, steps: Sequence[Step], passed: float) -> Text:
        calls = [step for step in steps if isinstance(step, CALLS)]
        searches = sum(isinstance(step, Searched) for step in steps)
        counts = [counted(len(calls), "calls"), counted(searches, "searches")]
        parts = [seconds(passed), *counts, f"{counted(sum(map(tokens_of, calls)), 'tokens')}", self.work]
        return Text(" · ".join(filter(None, parts)), style="dim")


class _Row(NamedTuple):
    """A line of the tree: a step, or several that are shown as one."""

    depth: int
    steps: Sequence[Step]
    is_open: bool = False

    def drawn(self) -> Text:
        """Return the row as one line, cut at the terminal's width."""
        first, *others = self.steps
        line, below = (describe_group(self.steps), ()) if others else describe(first, TraceStyle())
        shown = Text.assemble("  " * self.depth, line, *(f"  {text.plain}" for text in below[:1]))
        shown.no_wrap, shown.overflow = True, "ellipsis"
        return shown


def _last(rows: Sequence[_Row], max_rows: int) -> Iterator[Text]:
    """Yield the last rows and the open branches that contain them."""
    dropped: set[int] = set()
    if len(rows) > max_rows:
        ended = [i for i, row in enumerate(rows) if not row.is_open]
        dropped = set(ended[: len(rows) - max_rows + 1])
    if dropped:
        yield Text(f"… {counted(len(dropped), 'earlier steps')}", style="dim")
    for row in [row for i, row in enumerate(rows) if i not in dropped][-max_rows:]:
        yield row.drawn()


class _Work:
    """Progress of long work within a step, shown by ``Steps``."""

    def __init__(self, steps: Steps, noun: str) -> None:
        self._steps, self._noun = steps, noun

    def update(self, done: int, total: int | None = None) -> None:
        """Report that ``done`` items of ``total`` are done."""
        self._steps.work = f"{done:,} {self._noun}" if total is None else f"{done:,}/{total:,} {self._noun}"
