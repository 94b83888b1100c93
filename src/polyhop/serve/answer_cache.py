"""The latest answers, held in memory to be looked at: so many of them, and no more than so many bytes."""

from __future__ import annotations

from collections import OrderedDict

from polyhop.serve.requests import Answered
from polyhop.trace import Ask, Searched, Trace

_STEP, _PASSAGE = 1_000, 500
"""Bytes that a step and a passage take beside their texts, about."""


class Kept:
    """At most the latest ``most`` answers, and fewer where they take more than about ``most_bytes``; the last one is
    kept however large it is."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self.most, self._most_bytes = most, most_bytes
        self._by_id: OrderedDict[str, tuple[Answered, int]] = OrderedDict()
        self._bytes = 0

    def add(self, answered: Answered) -> None:
        """Keep an answer; the oldest make room for it."""
        size = bytes_of(answered.answer.trace)
        self._by_id[answered.trace_id] = answered, size
        self._bytes += size
        while len(self._by_id) > self.most or (self._bytes > self._most_bytes and len(self._by_id) > 1):
            _, (_, freed) = self._by_id.popitem(last=False)
            self._bytes -= freed

    def get(self, trace_id: str, client: str) -> Answered | None:
        """An answer that was given to this client."""
        found, _ = self._by_id.get(trace_id, (None, 0))
        return found if found is not None and found.asked.client == client else None

    def newest_first(self, client: str) -> list[Answered]:
        """Every answer that was given to this client."""
        return [kept for kept, _ in reversed(self._by_id.values()) if kept.asked.client == client]


def bytes_of(trace: Trace) -> int:
    """The memory that a trace takes, about: passages that steps share are there once."""
    passages = {p.id: p for step in trace.steps if isinstance(step, Searched) for p in step.passages}
    held = sum(_PASSAGE + len(passage.title) + len(passage.text) for passage in passages.values())
    replies = sum(2 * len(step.text) for step in trace.steps if isinstance(step, Ask))  # as they came and as read
    return _STEP * len(trace.steps) + held + replies
