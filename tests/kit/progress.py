"""A display of progress that remembers what it was shown."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Seen:
    """Given to ``show_progress``: keeps every report with its noun."""

    every: list[tuple[str, int, int | None]] = field(default_factory=list)

    @contextmanager
    def __call__(self, noun: str, before: int) -> Iterator[_Shown]:
        """Open a display."""
        yield _Shown(self, noun)

    def reports(self, noun: str) -> list[tuple[int, int | None]]:
        """Return the reports of a noun, each as the number done and the total."""
        return [(done, total) for name, done, total in self.every if name == noun]


@dataclass
class _Shown:
    seen: Seen
    noun: str

    def update(self, done: int, total: int | None = None) -> None:
        """Remember a report."""
        self.seen.every.append((self.noun, done, total))
