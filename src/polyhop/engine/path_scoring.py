"""The path scorer as a question uses it: its work is a step of the trace, and counts as the question's own time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from polyhop.common.turns import timed
from polyhop.trace import Note
from polyhop.trace.recorder import Recorder
from polyhop.types import Passage, PathScorer, SplitQuestion

Paths = Sequence[Sequence[Passage]]
SCORED, LED, SPLIT, READ = "path scoring", "leads", "split", "step"
"""The names of its notes."""


@dataclass(frozen=True, slots=True)
class RecordedPathScorer:
    """A ``PathScorer`` whose calls are recorded with their time."""

    scorer: PathScorer
    recorder: Recorder

    async def scores(self, question: str, paths: Paths, found: Sequence[Passage]) -> Sequence[float]:
        """Score each path with all that the scorer has."""
        step = self.recorder.open()
        scores, step.own = await timed(self.scorer.scores(question, paths, found))
        self.recorder.close(step, Note, name=SCORED, data={"paths": len(paths)})
        return scores

    async def leads(self, question: str, path: Sequence[Passage], max_leads: int) -> list[str]:
        """Extract names to search for next from a path."""
        step = self.recorder.open()
        names, step.own = await timed(self.scorer.leads(question, path, max_leads))
        self.recorder.close(step, Note, name=LED, data={"names": names})
        return names

    async def split(self, question: str) -> SplitQuestion | None:
        """Split a question about something that it only describes."""
        step = self.recorder.open()
        parts, step.own = await timed(self.scorer.split(question))
        self.recorder.close(step, Note, name=SPLIT, data={"question": question, "inner": parts and parts.inner})
        return parts

    async def read_step(
        self, question: str, passages: Sequence[Passage], known: Sequence[str]
    ) -> tuple[str, Passage] | None:
        """Read the answer to a step of a question off one of the passages."""
        step = self.recorder.open()
        read, step.own = await timed(self.scorer.read_step(question, passages, known))
        answer, passage = read or (None, None)
        data = {"question": question, "answer": answer, "passage": passage and passage.id}
        self.recorder.close(step, Note, name=READ, data=data)
        return read

    def linear_scores(self, question: str, paths: Paths, found: Sequence[Passage]) -> Sequence[float]:
        """Score each path with a linear model alone."""
        return self._called(lambda: self.scorer.linear_scores(question, paths, found), paths)

    def likelihood_scores(self, question: str, paths: Paths) -> Sequence[float]:
        """Score each path by the likelihood of the question after it."""
        return self._called(lambda: self.scorer.likelihood_scores(question, paths), paths)

    def _called(self, work: Callable[[], Sequence[float]], paths: Paths) -> Sequence[float]:
        step = self.recorder.open()
        scores = work()
        self.recorder.close(step, Note, name=SCORED, data={"paths": len(paths)})
        return scores
