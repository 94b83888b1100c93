"""The path scorer as a question uses it: its work is a step of the trace, and counts as the question's own time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from polyhop.common.turns import timed
from polyhop.trace import Note
from polyhop.trace.recorder import Recorder
from polyhop.types import Passage, PathScorer, SplitQuestion

Paths = Sequence[Sequence[Passage]]
T = TypeVar("T")
SCORED = "path scoring"
LED = "leads"
SPLIT = "split"
READ = "step"
"""The names of its notes."""


@dataclass(frozen=True, slots=True)
class RecordedPathScorer:
    """A ``PathScorer`` whose calls are recorded with their time."""

    scorer: PathScorer
    recorder: Recorder

    async def scores(self, question: str, paths: Paths, found: Sequence[Passage]) -> Sequence[float]:
        """Score each path with all that the scorer has."""
        call = self.scorer.scores(question, paths, found)
        return await self._awaited(call, SCORED, lambda _: {"paths": len(paths)})

    async def leads(self, question: str, path: Sequence[Passage], max_leads: int) -> list[str]:
        """Extract names to search for next from a path."""
        return await self._awaited(self.scorer.leads(question, path, max_leads), LED, lambda names: {"names": names})

    async def split(self, question: str) -> SplitQuestion | None:
        """Split a question about something that it only describes."""

        def data(parts: SplitQuestion | None) -> dict[str, Any]:
            return {"question": question, "inner": parts.inner if parts else None}

        return await self._awaited(self.scorer.split(question), SPLIT, data)

    async def read_step(
        self, question: str, passages: Sequence[Passage], known: Sequence[str]
    ) -> tuple[str, Passage] | None:
        """Read the answer to a step of a question off one of the passages."""

        def data(read: tuple[str, Passage] | None) -> dict[str, Any]:
            answer, passage = (read[0], read[1].id) if read else (None, None)
            return {"question": question, "answer": answer, "passage": passage}

        return await self._awaited(self.scorer.read_step(question, passages, known), READ, data)

    def linear_scores(self, question: str, paths: Paths, found: Sequence[Passage]) -> Sequence[float]:
        """Score each path with a linear model alone."""
        return self._called(lambda: self.scorer.linear_scores(question, paths, found), paths)

    def likelihood_scores(self, question: str, paths: Paths) -> Sequence[float]:
        """Score each path by the likelihood of the question after it."""
        return self._called(lambda: self.scorer.likelihood_scores(question, paths), paths)

    async def _awaited(self, call: Awaitable[T], name: str, data: Callable[[T], dict[str, Any]]) -> T:
        """Await a call, and record it with what it returned."""
        step = self.recorder.open()
        result, step.own = await timed(call)
        self.recorder.close(step, Note, name=name, data=data(result))
        return result

    def _called(self, work: Callable[[], Sequence[float]], paths: Paths) -> Sequence[float]:
        step = self.recorder.open()
        scores = work()
        self.recorder.close(step, Note, name=SCORED, data={"paths": len(paths)})
        return scores
