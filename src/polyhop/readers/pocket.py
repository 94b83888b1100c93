"""Pocket's reader and path scorer: the same encoder and rules that answer for ``lm="pocket"``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from polyhop.common.turns import in_thread
from polyhop.readers.base import locate
from polyhop.types import BlindReading, Kind, Passage, Span

if TYPE_CHECKING:
    from polyhop.lm.pocket.reading.descriptions import Split


class PocketReader:
    """A reader of passages, each alone, and of paths. Confidence, 0 to 1: the passage is relevant and the span is its
    answer; of a path: it is sufficient, and the answer is right among its candidates.

    The threshold was chosen on held-out single-hop questions of 2Wiki and MuSiQue: F1 is 83 % there, and no other
    threshold is significantly better (86 % at 0.6); on HotpotQA's whole questions F1 falls above it."""

    name = "pocket"
    threshold = 0.2

    def read(self, question: str, passages: Sequence[Passage]) -> list[Span]:
        """Return at most one span per passage, the most confident first."""
        from polyhop.lm.pocket.reading.judge import extract_span  # late: most methods read nothing

        found = [span for passage in passages if (span := extract_span(question, passage))]
        return sorted(found, key=lambda span: -span.confidence)

    def read_path(self, question: str, path: Sequence[Passage]) -> list[Span]:
        """Return the answer of a path read as a whole, "yes" and "no" among them; [] if it has none."""
        from polyhop.lm.pocket.reading.judge import path_answer

        answer, confidence = path_answer(question, path)
        return [locate(answer, path, confidence)] if answer and confidence > 0 else []


class PocketSupportReader:
    """Reads the passages that an answer cites as pocket reads passages to answer, a few articles as one path."""

    async def read_alone(self, question: str, passages: Sequence[Passage], kind: Kind) -> BlindReading:
        """Answer the question from the passages alone, off the event loop."""
        return await asyncio.to_thread(self._read, question, list(passages), kind)

    def _read(self, question: str, passages: list[Passage], kind: Kind) -> BlindReading:
        from polyhop.lm.pocket.encoder.cache import MAX_PASSAGES
        from polyhop.lm.pocket.reading.answer import UNKNOWN
        from polyhop.lm.pocket.reading.comparison import canonical
        from polyhop.lm.pocket.reading.correctness import reading_features
        from polyhop.lm.pocket.reading.weighing import weigh_answers
        from polyhop.lm.pocket.tasks import do
        from polyhop.lm.pocket.tasks.reading import ANSWER_CONFIDENCE

        question = canonical(question)
        paths = [tuple(passages)] if len(passages) <= MAX_PASSAGES else []
        fields = {"question": question, "passages": passages, "paths": paths, "kind": kind}
        answer, confidence = do("answer.read", fields)[ANSWER_CONFIDENCE]
        if answer == UNKNOWN:
            return BlindReading(None, confidence)
        features = reading_features(question, passages, weigh_answers(question, passages, paths))
        return BlindReading(answer, confidence, features={name: round(value, 3) for name, value in features.items()})


class PocketPathScorer:
    """Scores paths by pocket's linear model and its encoder (``lm/pocket/paths.py``); splits questions and reads their
    steps by the encoder."""

    async def scores(self, question: str, paths: Sequence[Sequence[Passage]], found: Sequence[Passage]) -> list[float]:
        """Score each path with the linear model and the encoder, off the event loop."""
        from polyhop.lm.pocket import paths as pocket_paths

        return await in_thread(pocket_paths.path_scores, question, paths, found)

    def linear_scores(self, question: str, paths: Sequence[Sequence[Passage]], found: Sequence[Passage]) -> list[float]:
        """Score each path with the linear model alone."""
        from polyhop.lm.pocket import paths as pocket_paths

        return pocket_paths.linear_scores(question, paths, found)

    def likelihood_scores(self, question: str, paths: Sequence[Sequence[Passage]]) -> list[float]:
        """Score each path by the likelihood of the question's words after it."""
        from polyhop.lm.pocket import paths as pocket_paths

        return pocket_paths.likelihood_scores(question, paths)

    async def leads(self, question: str, path: Sequence[Passage], max_leads: int) -> list[str]:
        """Extract names to search for next from a path, off the event loop."""
        from polyhop.lm.pocket import paths as pocket_paths

        return await in_thread(pocket_paths.leads, question, path, max_leads)

    async def split(self, question: str) -> Split | None:
        """Split a question about something that it only describes, off the event loop."""
        from polyhop.lm.pocket.reading import descriptions

        return await in_thread(descriptions.split, question)

    async def read_step(
        self, question: str, passages: Sequence[Passage], known: Sequence[str]
    ) -> tuple[str, Passage] | None:
        """Read the answer to a step of a question off one of the passages, off the event loop."""
        from polyhop.lm.pocket.reading import documents

        return await in_thread(documents.read_step, question, passages, known)
