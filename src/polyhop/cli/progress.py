"""Progress of long work on stderr: a bar with rate and remaining time in a terminal, else occasional plain lines."""

from __future__ import annotations

import sys
import time

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from polyhop.cli.printing import say
from polyhop.cli.show import console

EVERY = 5.0
"""Seconds between plain lines."""


class ProgressBar:
    """A progress display: ``with ProgressBar("questions") as progress`` and ``progress.update(done, total)``.

    ``total`` is None if unknown. ``before``: the number of items done earlier, which the rate leaves out.
    """

    def __init__(self, noun: str, before: int = 0) -> None:
        self.noun, self._before = noun, before
        self._begun = self._last_line = time.monotonic()
        self._bar: Progress | None = None
        if sys.stderr.isatty():
            self._bar = Progress(
                TextColumn(noun),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[pace]}"),
                console=console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task(noun, total=None, pace="")

    def update(self, done: int, total: int | None = None) -> None:
        """Report that ``done`` items of ``total`` are done."""
        seconds = max(time.monotonic() - self._begun, 1e-9)
        rate = pace(done - self._before, None if total is None else total - self._before, seconds)
        if self._bar is not None:
            self._bar.start()  # not earlier: the work before may show its own bar
            self._bar.update(self._task, completed=done, total=total, pace=rate)
        elif done == total or time.monotonic() - self._last_line >= EVERY:
            self._last_line = time.monotonic()
            count = f"{done:,}" if total is None else f"{done:,}/{total:,}"
            say(f"{count} {self.noun}, {rate}")

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def pace(done: int, total: int | None, seconds: float) -> str:
    """Return the rate and, after a tenth of the work, the remaining time: the first items say little of the others.

    >>> pace(50, 200, 10.0), pace(5000, None, 10.0), pace(3, 200, 1.0)
    ('5.0/s, about 30 s to go', '500.0/s', '3.0/s')
    """
    rate = f"{done / seconds:,.1f}/s"
    return (
        f"{rate}, about {(total - done) * seconds / done:,.0f} s to go"
        if total and total / 10 <= done < total
        else rate
    )
