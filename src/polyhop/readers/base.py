"""The shapes of a reader.

Users hand in a callable ``(question, passages) -> spans`` (``types.Read``), a ``Reader`` or an ``AskingReader``.
``as_reader`` wraps it once, when it is opened; from then on it is a ``RunReader``.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from polyhop.common.text import find_folded, normalise
from polyhop.errors import SettingError, UsageError
from polyhop.lm.base import Capabilities
from polyhop.types import Passage, QuestionRun, Read, Span, SpanChoice

DEFAULT_THRESHOLD = 0.5
"""The threshold of a callable without one: its confidence is taken as a probability."""

VERDICTS = ("yes", "no")
"""Answers that are not words of a passage."""


@runtime_checkable
class Reader(Protocol):
    """Finds answers in passages.

    ``threshold``: the confidence above which its answers can be trusted, on its own scale (a DPR reader's relevance
    logit: 1.5; a probability: 0.5). ``read`` may be async.
    """

    name: str
    threshold: float

    def read(self, question: str, passages: Sequence[Passage]) -> Sequence[Span] | Awaitable[Sequence[Span]]:
        """Return the answer spans, best first; [] if there are none."""
        ...


@runtime_checkable
class SpanReader(Reader, Protocol):
    """A reader that can select spans in several ways; ``span`` is its default."""

    span: SpanChoice

    def read(
        self, question: str, passages: Sequence[Passage], *, span: SpanChoice | None = None
    ) -> Sequence[Span] | Awaitable[Sequence[Span]]:
        """Return the answer spans, best first, selected in the way ``span``."""
        ...


@runtime_checkable
class PathReader(Reader, Protocol):
    """A reader that reads the passages of a path together."""

    def read_path(self, question: str, path: Sequence[Passage]) -> Sequence[Span] | Awaitable[Sequence[Span]]:
        """Return the answers of a path, best first; [] if there are none. "yes", "no" and words of a title start and
        end at 0."""
        ...


class Ask(Protocol):
    """A run's own ``ask``: its calls are traced, cached and within the budget."""

    async def __call__(self, task: str, *, options: Any = None, **fields: Any) -> Any:
        """Make a call; return the task's typed output, its reply in ``.completion``."""
        ...

    def capabilities(self, task: str) -> Capabilities:
        """Return the capabilities of the model of this task."""
        ...


@runtime_checkable
class AskingReader(Protocol):
    """A reader that asks a language model. It may have ``needs``, as an ``AskingRetriever``."""

    name: str
    threshold: float

    async def read_by(self, ask: Ask, question: str, passages: Sequence[Passage]) -> Sequence[Span]:
        """Return the answer spans, best first; [] if there are none."""
        ...


class RunReader(ABC):
    """A reader as the engine calls it: one coroutine, within a question's run.

    Attributes:
        name: None if the user's callable has none.
        threshold: the confidence above which its answers can be trusted, on its own scale.
        needs: the capabilities its model must have, as for an ``AskingRetriever``.
        uses_lm: True if it asks a language model, through its run.
        has_tokenizer: True if it cuts what it is shown by the tokens of its own checkpoint.
    """

    name: str | None
    threshold: float = DEFAULT_THRESHOLD
    needs: Iterable[str] = ()
    uses_lm = False
    has_tokenizer = False

    @abstractmethod
    async def read(
        self, question: str, passages: Sequence[Passage], run: QuestionRun | None, *, span: SpanChoice | None = None
    ) -> list[Span]:
        """Return the answer spans, best first; [] if there are none.

        Raises:
            SettingError: ``span`` is given to a reader that has no choice of it.
            UsageError: it asks a language model and ``run`` is None, or it returns anything but spans.
        """

    async def read_path(self, question: str, path: Sequence[Passage], run: QuestionRun | None) -> list[Span]:
        """Return the answers of a path, best first, read as one input by a reader that can; else passage by passage.

        "yes", "no" and words of a title start and end at 0. Raises as ``read``.
        """
        return await self.read(question, path, run)

    @property
    def source(self) -> Any:
        """The object that was wrapped; itself if there is none."""
        return self

    def check_span(self, span: SpanChoice | None) -> None:
        """Raise ``SettingError`` if ``span`` is given and the reader has no choice of it."""
        if span is not None and not isinstance(self.source, SpanReader):
            raise SettingError(
                f"span={span}: the reader {self.name or 'your own'} selects spans in its own way; dpr:PATH has a choice"
            )

    def check_run(self, run: QuestionRun | None) -> QuestionRun:
        """Return the run; raise ``UsageError`` if it is None."""
        if run is None:
            raise UsageError(f"the reader {self.name} asks a language model, and none is at hand here; try pocket")
        return run


AnyReader: TypeAlias = Reader | AskingReader | Read | RunReader
"""Everything that ``as_reader`` takes."""


def as_reader(source: AnyReader) -> RunReader:
    """Wrap a reader or a callable for the engine; a ``RunReader`` stays what it is.

    Raises:
        UsageError: it is neither.

    >>> as_reader(lambda question, passages: []).threshold
    0.5
    """
    if isinstance(source, RunReader):
        return source
    if not (callable(source) or isinstance(source, Reader | AskingReader)):
        raise UsageError(f"reader={source!r}: must be a name, a callable (question, passages) -> spans or a Reader")
    return _Wrapped(source)


class _Wrapped(RunReader):
    def __init__(self, source: Any) -> None:
        self._source = source
        self.name = getattr(source, "name", None)
        self.threshold = float(getattr(source, "threshold", DEFAULT_THRESHOLD))
        self.needs = getattr(source, "needs", ())
        self.uses_lm = isinstance(source, AskingReader)
        self.has_tokenizer = getattr(source, "has_tokenizer", False)
        self._function: Read = source.read if isinstance(source, Reader) else source

    @property
    def source(self) -> Any:
        return self._source

    async def read(
        self, question: str, passages: Sequence[Passage], run: QuestionRun | None, *, span: SpanChoice | None = None
    ) -> list[Span]:
        found: Any
        if span is not None:
            self.check_span(span)
            found = self._source.read(question, passages, span=span)
        elif self.uses_lm:
            found = self._source.read_by(_Ask(self.check_run(run)), question, passages)
        else:
            found = self._function(question, passages)
        return check_spans(await found if inspect.isawaitable(found) else found)

    async def read_path(self, question: str, path: Sequence[Passage], run: QuestionRun | None) -> list[Span]:
        if not isinstance(self._source, PathReader):
            return await self.read(question, path, run)
        found: Any = self._source.read_path(question, path)
        return check_spans(await found if inspect.isawaitable(found) else found)


@dataclass(frozen=True, slots=True)
class _Ask:
    run: QuestionRun

    async def __call__(self, task: str, *, options: Any = None, **fields: Any) -> Any:
        return await self.run.ask(task, options=options, **fields)

    def capabilities(self, task: str) -> Capabilities:
        found: Capabilities = self.run.capabilities(task)
        return found


def locate(answer: str, path: Sequence[Passage], confidence: float) -> Span:
    """Return an answer of a path as the span of the first text that contains it.

    "yes", "no" and words of no text start and end at 0 of the last passage.

    >>> locate("1931", [Passage("film", "Dark Mill", "A film of 1931.")], 0.9).start
    10
    """
    if normalise(answer) not in VERDICTS:
        for passage in path:
            if position := find_folded(answer, passage.text):
                start, end = position
                return Span(passage.id, passage.text[start:end], start, end, confidence)
    return Span(path[-1].id, answer, 0, 0, confidence)


def check_spans(found: Any) -> list[Span]:
    """Return the result of a reading as a list; raise ``UsageError`` if it contains anything but spans."""
    if isinstance(found, (str, bytes)) or not isinstance(found, Iterable):
        raise UsageError(f"the reader must return polyhop.Span objects, not a {type(found).__name__}")
    spans = list(found)
    if strange := next((type(span).__name__ for span in spans if not isinstance(span, Span)), None):
        raise UsageError(f"the reader must return polyhop.Span objects, not a list with a {strange}")
    return spans
