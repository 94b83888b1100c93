"""The path scorer as a question uses it: its work is a step of the trace, and counts as the question's own time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from polyhop.common.turns import timed
from polyhop.trace import Note
from polyhop.trace.recorder import Recorder
from polyhop.types import Passage, PathScorer, T

Paths = Sequence[Sequence[Passage]]
SCORED, LED = "path scoring", "leads"
"""The names of its notes."""


@dataclass(frozen=True, slots=True)
class RecordedPathScorer:
    """A ``PathScorer`` whose calls are recorded with their time."""

    scorer: PathScorer
    recorder: Recorder

    async def scores(self, question: str, paths: Paths, found: Sequence[Passage]) -> Sequence[float]:
        """Score each path with all that the scorer has."""
        return await self._awaited(self.scorer.scores(question, paths, found), SCORED, paths=len(paths))

    async def leads(self, question: str, path: Sequence[Passage], max_leads: int) -> list[str]:
        """Extract names to search for next from a path."""
        found = self.scorer.leads(question, path, max_leads)
        return await self._awaited(found, LED, passages=[passage.id for passage in path])

    def linear_scores(self, question: str, paths: Paths, found: Sequence[Passage]) -> Sequence[float]:
        """Score each path with a linear model alone."""
        return self._called(lambda: self.scorer.linear_scores(question, paths, found), paths)

    def likelihood_scores(self, question: str, paths: Paths) -> Sequence[float]:
        """Score each path by the likelihood of the question after it."""
        return self._called(lambda: self.scorer.likelihood_scores(question, paths), paths)

    async def _awaited(self, work: Awaitable[T], name: str, **data: Any) -> T:
        step = self.recorder.open()
        result, step.own = await timed(work)
        step.close(Note, name=name, data=data)
        return result

    def _called(self, work: Callable[[], Sequence[float]], paths: Paths) -> Sequence[float]:
        step = self.recorder.open()
        scores = work()
        step.close(Note, name=SCORED, data={"paths": len(paths)})
        return scores
