"""Pocket's reader: the same rules and small linear model that answer for ``lm="pocket"``, as an extractive reader."""

from __future__ import annotations

from collections.abc import Sequence

from polyhop.lm.pocket.extracting import extract
from polyhop.types import Passage, Span


class PocketReader:
    """Reads every passage by itself. Confidence, 0 to 1: about how often such a span is right."""

    name = "pocket"
    threshold = 0.5

    def read(self, question: str, passages: Sequence[Passage]) -> list[Span]:
        """At most one span a passage, the surest first."""
        found = [span for passage in passages if (span := extract(question, passage))]
        return sorted(found, key=lambda span: -span.confidence)
