"""Long work on the way to what was asked for, such as encoding a corpus: it tells whoever watches how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeAlias


class Progress(Protocol):
    """What shows how far a piece of work is."""

    def update(self, done: int, total: int | None = None) -> object:
        """So much is done, of so much."""
        ...


OpenProgress: TypeAlias = Callable[[str, int], AbstractContextManager[Progress]]
"""Opens a ``Progress`` for work on things of a name, such as ``passages``, some of which were done before."""

_show: ContextVar[OpenProgress | None] = ContextVar("show", default=None)


@contextmanager
def show_progress(show: OpenProgress) -> Iterator[None]:
    """What is begun within the block is shown by ``show``, called with its noun and how many were done before."""
    token = _show.set(show)
    try:
        yield
    finally:
        _show.reset(token)


@contextmanager
def report_progress(noun: str, before: int = 0) -> Iterator[Callable[[int, int], object]]:
    """What to call with the number of ``noun`` done and their total, while the block works on them; ``before``: so many
    were done already.

    >>> with report_progress("passages") as tell:
    ...     tell(1, 2)
    """
    if show := _show.get():
        with show(noun, before) as progress:
            yield progress.update
    else:
        yield lambda done, total: None
