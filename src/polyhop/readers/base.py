"""What the engine asks of a reader. Any ``(question, passages) -> spans`` callable serves too (``types.Read``)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from polyhop.errors import UsageError
from polyhop.types import Passage, Read, Span

USUAL_THRESHOLD = 0.5
"""Where a callable names no ``threshold`` of its own, its confidence is taken as a probability."""


@runtime_checkable
class Reader(Protocol):
    """Finds answers in passages.

    ``threshold``: the confidence above which its answers can be trusted, on its own scale (a DPR reader's relevance
    logit: 1.5; a probability: 0.5). ``read`` may be async.
    """

    name: str
    threshold: float

    def read(self, question: str, passages: Sequence[Passage]) -> Sequence[Span] | Awaitable[Sequence[Span]]:
        """The answer spans, best first; [] where it sees none."""
        ...


def threshold_of(reader: Reader | Read | None) -> float:
    """The confidence above which a reader's answers can be trusted.

    >>> threshold_of(lambda question, passages: [])
    0.5
    """
    return float(getattr(reader, "threshold", USUAL_THRESHOLD))


async def spans_of(reader: Reader | Read | None, question: str, passages: Sequence[Passage]) -> list[Span]:
    """What a reader finds; ``UsageError`` without one, or when it gives anything but spans."""
    if reader is None:
        raise UsageError("this method reads passages: give reader= a name or a (question, passages) -> spans callable")
    found: Any = reader.read(question, passages) if isinstance(reader, Reader) else reader(question, passages)
    if inspect.isawaitable(found):
        found = await found
    if isinstance(found, (str, bytes)) or not isinstance(found, Iterable):
        raise UsageError(f"the reader must return polyhop.Span objects, not a {type(found).__name__}")
    spans = list(found)
    if strange := next((type(span).__name__ for span in spans if not isinstance(span, Span)), None):
        raise UsageError(f"the reader must return polyhop.Span objects, not a list with a {strange}")
    return spans
