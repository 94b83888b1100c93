"""A cache of recent answers, bounded by count and by bytes."""

from __future__ import annotations

from collections import OrderedDict

from polyhop.serve.requests import AskResponse
from polyhop.trace import Ask, Searched, Trace

_STEP, _PASSAGE = 1_000, 500
"""Approximate bytes of a step and of a passage, in addition to their texts."""


class AnswerCache:
    """Keep at most ``max_answers`` recent answers, in about ``max_bytes`` of memory. The latest is always kept."""

    def __init__(self, max_answers: int, max_bytes: int) -> None:
        self.max_answers, self._max_bytes = max_answers, max_bytes
        self._by_id: OrderedDict[str, tuple[AskResponse, int]] = OrderedDict()
        self._bytes = 0

    def add(self, response: AskResponse) -> None:
        """Keep an answer, and drop the oldest if there is no room."""
        size = bytes_of(response.answer.trace)
        self._by_id[response.trace_id] = response, size
        self._bytes += size
        while len(self._by_id) > self.max_answers or (self._bytes > self._max_bytes and len(self._by_id) > 1):
            _, (_, freed) = self._by_id.popitem(last=False)
            self._bytes -= freed

    def get(self, trace_id: str, client: str) -> AskResponse | None:
        """Return an answer that was given to this client; None if it is not kept."""
        found, _ = self._by_id.get(trace_id, (None, 0))
        return found if found is not None and found.request.client == client else None

    def newest_first(self, client: str) -> list[AskResponse]:
        """Return every kept answer that was given to this client."""
        return [kept for kept, _ in reversed(self._by_id.values()) if kept.request.client == client]


def bytes_of(trace: Trace) -> int:
    """Estimate the memory of a trace. Passages that several steps share count once."""
    passages = {p.id: p for step in trace.steps if isinstance(step, Searched) for p in step.passages}
    held = sum(_PASSAGE + len(passage.title) + len(passage.text) for passage in passages.values())
    replies = sum(2 * len(step.text) for step in trace.steps if isinstance(step, Ask))  # the text and its parsed form
    return _STEP * len(trace.steps) + held + replies
