"""Progress of long work, such as encoding a corpus, for whoever shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeAlias


class Progress(Protocol):
    """A display of progress."""

    def update(self, done: int, total: int | None = None) -> object:
        """Show that ``done`` of ``total`` items are done."""
        ...


OpenProgress: TypeAlias = Callable[[str, int], AbstractContextManager[Progress]]
"""Opens a ``Progress`` for items of a name, such as ``passages``, of which some were done before."""

_open_progress: ContextVar[OpenProgress | None] = ContextVar("open_progress", default=None)


@contextmanager
def show_progress(open_progress: OpenProgress) -> Iterator[None]:
    """Show the work that starts within the block by ``open_progress(noun, done_before)``."""
    token = _open_progress.set(open_progress)
    try:
        yield
    finally:
        _open_progress.reset(token)


@contextmanager
def report_progress(noun: str, done_before: int = 0) -> Iterator[Callable[[int, int | None], object]]:
    """Yield a function to call with the number of ``noun`` that are done, and their total; None if unknown.

    >>> with report_progress("passages") as report:
    ...     report(1, 2)
    """
    if open_progress := _open_progress.get():
        with open_progress(noun, done_before) as progress:
            yield progress.update
    else:
        yield lambda done, total: None
