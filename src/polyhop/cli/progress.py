"""Progress of long work on stderr: a bar with a rate and an end in a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

EVERY = 5.0
"""Seconds between two plain lines."""


class Watched:
    """``with Watched("questions") as progress``: then ``progress.update(done, total)``; total None where unknown."""

    def __init__(self, noun: str) -> None:
        self.noun = noun
        self._begun = self._told = time.monotonic()
        self._bar: Progress | None = None
        if sys.stderr.isatty():
            self._bar = Progress(
                TextColumn(noun),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[rate]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task(noun, total=None, rate="")

    def update(self, done: int, total: int | None = None) -> None:
        """So much is done."""
        seconds = max(time.monotonic() - self._begun, 1e-9)
        rate = f"{done / seconds:,.1f}/s"
        if self._bar is not None:
            self._bar.update(self._task, completed=done, total=total, rate=rate)
        elif done == total or time.monotonic() - self._told >= EVERY:
            self._told = time.monotonic()
            sys.stderr.write(plain_line(self.noun, done, total, rate, seconds) + "\n")

    def __enter__(self) -> Watched:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def plain_line(noun: str, done: int, total: int | None, rate: str, seconds: float) -> str:
    """One line of progress.

    >>> plain_line("questions", 50, 200, "5.0/s", 10.0)
    '50/200 questions, 5.0/s, about 30 s to go'
    >>> plain_line("passages", 5000, None, "500.0/s", 10.0)
    '5,000 passages, 500.0/s'
    """
    if total is None:
        return f"{done:,} {noun}, {rate}"
    left = (total - done) * seconds / done if done else None
    end = "" if left is None or done == total else f", about {left:,.0f} s to go"
    return f"{done:,}/{total:,} {noun}, {rate}{end}"
