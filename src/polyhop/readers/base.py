"""What the engine asks of a reader. Any ``(question, passages) -> spans`` callable serves too (``types.Read``)."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from polyhop.errors import SettingError, UsageError
from polyhop.lm.base import Capabilities
from polyhop.types import Passage, Read, Span, SpanChoice

if TYPE_CHECKING:
    from typing_extensions import TypeIs

DEFAULT_THRESHOLD = 0.5
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


@runtime_checkable
class SpanReader(Reader, Protocol):
    """A reader whose way to pick a span can be chosen at each read; ``span`` is the one it takes unless told."""

    span: SpanChoice

    def read(
        self, question: str, passages: Sequence[Passage], *, span: SpanChoice | None = None
    ) -> Sequence[Span] | Awaitable[Sequence[Span]]:
        """The answer spans, best first, picked so."""
        ...


class Asks(Protocol):
    """A run's own ``ask``: its calls are traced, within the budget, and cached."""

    async def __call__(self, task: str, *, options: Any = None, **fields: Any) -> Any:
        """The task's typed output, its reply in ``.completion``."""
        ...

    def capabilities(self, task: str) -> Capabilities:
        """What the model can do that is asked this task."""
        ...


@runtime_checkable
class AskingReader(Protocol):
    """A reader that asks a language model. It may have ``needs``, as an ``AskingRetriever``."""

    name: str
    threshold: float

    async def read_by(self, ask: Asks, question: str, passages: Sequence[Passage]) -> Sequence[Span]:
        """The answer spans, best first; [] where it sees none."""
        ...


def threshold_of(reader: Reader | AskingReader | Read | None) -> float:
    """The confidence above which a reader's answers can be trusted.

    >>> threshold_of(lambda question, passages: [])
    0.5
    """
    return float(getattr(reader, "threshold", DEFAULT_THRESHOLD))


async def spans_of(
    reader: Reader | AskingReader | Read | None,
    question: str,
    passages: Sequence[Passage],
    *,
    span: SpanChoice | None = None,
    ask: Asks | None = None,
) -> list[Span]:
    """What a reader finds; ``UsageError`` without one, when it must ``ask`` and cannot, or when it gives anything but
    spans. ``span`` is for readers that pick their spans so: ``SettingError`` with any other."""
    if reader is None:
        raise UsageError("this method reads passages: give reader= a name or a (question, passages) -> spans callable")
    found: Any
    if span is not None:
        found = span_reader(reader, span).read(question, passages, span=span)
    elif reads_by_asking(reader):
        if ask is None:
            raise UsageError(f"the reader {reader.name} asks a language model, and none is at hand here; try pocket")
        found = reader.read_by(ask, question, passages)
    else:
        found = reader.read(question, passages) if reads(reader) else reader(question, passages)
    if inspect.isawaitable(found):
        found = await found
    if isinstance(found, (str, bytes)) or not isinstance(found, Iterable):
        raise UsageError(f"the reader must return polyhop.Span objects, not a {type(found).__name__}")
    spans = list(found)
    if strange := next((type(span).__name__ for span in spans if not isinstance(span, Span)), None):
        raise UsageError(f"the reader must return polyhop.Span objects, not a list with a {strange}")
    return spans


# What a reader is was checked when it was opened; by these it is told from others at each reading, as retrievers are.


def reads_by_asking(reader: object) -> TypeIs[AskingReader]:
    """Whether it asks a language model."""
    return hasattr(reader, "read_by")


def reads(reader: object) -> TypeIs[Reader]:
    """Whether it is more than a callable."""
    return hasattr(reader, "read")


def span_reader(reader: Reader | AskingReader | Read | None, span: SpanChoice) -> SpanReader:
    """A reader whose way to pick spans can be chosen; ``SettingError`` for any other."""
    if isinstance(reader, SpanReader):
        return reader
    name = getattr(reader, "name", "your own")
    raise SettingError(f"span={span}: the reader {name} picks its spans its own way; dpr:PATH can be told")
