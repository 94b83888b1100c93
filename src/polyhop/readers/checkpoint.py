"""The base of readers with a trained checkpoint: one worker thread, batches across questions, spans from windows."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from polyhop.common.turns import measured, worked
from polyhop.errors import SettingError, UsageError
from polyhop.readers.spans import Logits, Window, Windows, answered, characters, check_lengths, joint
from polyhop.types import Passage, Span

Ids = NDArray[np.int64]
Item = TypeVar("Item")
"""The source of one answer: a passage, or a path of them."""


class Batch(NamedTuple):
    """Windows side by side, padded on the right, each of shape ``(windows, tokens)``."""

    ids: Ids
    mask: Ids
    types: Ids


class Scores(NamedTuple):
    """The output of a checkpoint for one window, without padding; ``relevance`` if it judges the passage."""

    start: Logits
    end: Logits
    relevance: float = 0.0


class _Job(NamedTuple):
    question: str
    items: Sequence[Any]
    pick: Callable[[Any, Sequence[Any], Sequence[Scores]], Span]
    spans: Future[tuple[list[Span], float]]


class CheckpointReader(ABC, Generic[Item]):
    """A reader with a checkpoint, which is opened at the first read. Loading and inference run on the reader's own
    thread, so ``read`` may be awaited from any loop and thread; waiting reads are combined into batches of
    ``batch_size`` windows. The spans do not depend on the rest of a batch; confidences only in their last digits.
    """

    has_tokenizer = True

    def __init__(
        self, name: str, *, max_answer_tokens: int, max_tokens: int, stride: int, batch_size: int, threshold: float
    ) -> None:
        for setting, value in (("max_answer_tokens", max_answer_tokens), ("batch_size", batch_size)):
            if value < 1:
                raise SettingError(f"{setting}={value}: must be at least 1")
        check_lengths(max_tokens, stride)
        self.name, self.threshold = name, threshold
        self.max_answer_tokens, self.max_tokens, self.stride = max_answer_tokens, max_tokens, stride
        self.batch_size = batch_size
        self._windows: Windows | None = None
        self._waiting: deque[_Job] = deque()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix=name)  # ends with the reader

    async def _picked(
        self, question: str, items: Sequence[Item], pick: Callable[[Item, Sequence[Any], Sequence[Scores]], Span]
    ) -> list[Span]:
        """Return one span per item, selected by ``pick``: the answerable first, in order of confidence."""
        job = _Job(question, tuple(items), pick, Future())
        self._waiting.append(job)
        self._worker.submit(self._drain)
        return await worked(asyncio.wrap_future(job.spans))

    @abstractmethod
    def _open(self) -> Any:
        """Open the checkpoint; its ``tokenizers.Tokenizer``."""

    @abstractmethod
    def _show(self, windows: Windows, question: str, item: Item) -> Sequence[Window]:
        """Return the windows of one item."""

    @abstractmethod
    def _score(self, batch: Batch) -> tuple[Any, Any, Any]:
        """Start and end logits, ``(windows, tokens)``, and relevance logits, ``(windows,)`` or None."""

    def _drain(self) -> None:
        """Read the waiting questions, at most a batch; later drains read the rest."""
        jobs: list[_Job] = []
        while self._waiting and len(jobs) < self.batch_size:
            job = self._waiting.popleft()
            if job.spans.set_running_or_notify_cancel():
                jobs.append(job)
        try:
            found, seconds = measured(self._read, jobs) if jobs else ([], 0.0)
        except Exception as error:  # noqa: BLE001 - raised where the spans are awaited
            for job in jobs:
                job.spans.set_exception(error)
        else:
            for job, spans in zip(jobs, found, strict=True):
                job.spans.set_result((spans, seconds))

    def _read(self, jobs: Sequence[_Job]) -> list[list[Span]]:
        if self._windows is None:
            self._windows = Windows(self._open(), self.max_tokens, self.stride)
        cut = self._windows
        shown = [[(item, self._show(cut, job.question, item)) for item in job.items] for job in jobs]
        scores = iter(self._scores([w for pairs in shown for _, windows in pairs for w in windows], cut.pad))
        return [
            sorted(
                (job.pick(item, windows, [next(scores) for _ in windows]) for item, windows in pairs),
                key=lambda span: (not span.answerable, -span.confidence),
            )
            for job, pairs in zip(jobs, shown, strict=True)
        ]

    def _scores(self, windows: Sequence[Window], pad: int) -> list[Scores]:
        """Score many windows, in their order; windows of similar length share a batch."""
        by_length = sorted(range(len(windows)), key=lambda number: len(windows[number].ids))
        found: dict[int, Scores] = {}
        for begin in range(0, len(windows), self.batch_size):
            numbers = by_length[begin : begin + self.batch_size]
            chosen = [windows[number] for number in numbers]
            found.update(zip(numbers, self._unpadded(chosen, self._score(_batch(chosen, pad))), strict=True))
        return [found[number] for number in range(len(windows))]

    def _unpadded(self, windows: Sequence[Window], logits: tuple[Any, Any, Any]) -> Iterator[Scores]:
        start, end = (np.asarray(part, np.float64) for part in logits[:2])
        relevance = np.zeros(len(windows)) if logits[2] is None else np.asarray(logits[2], np.float64)
        for row, window in enumerate(windows):
            length = len(window.ids)
            scores = Scores(start[row, :length], end[row, :length], float(relevance[row]))
            if np.isnan([scores.start.sum(), scores.end.sum(), scores.relevance]).any():
                raise UsageError(f"{self.name} gives scores that are not numbers; in float32 it may not")
            yield scores


class PassageReader(CheckpointReader[Passage]):
    """A reader with a checkpoint that reads every passage by itself."""

    async def read(self, question: str, passages: Sequence[Passage]) -> list[Span]:
        """Return one span per passage with text: the answerable first, in order of confidence.

        Raises:
            DataError: the checkpoint cannot be opened.
            UsageError: it is not of this reader's kind, or its scores are not numbers.
        """
        return await self._picked(question, with_text(passages), self._span)

    @abstractmethod
    def _span(self, passage: Passage, windows: Sequence[Window], scores: Sequence[Scores]) -> Span:
        """Return the answer of one passage by the scores of its windows."""


def with_text(passages: Sequence[Passage]) -> list[Passage]:
    """Return the passages that have text."""
    return [passage for passage in passages if passage.text.strip()]


class NoAnswerReader(PassageReader):
    """A SQuAD 2 reader (Rajpurkar et al., 2018): the first token's start plus end logit is the score of no
    answer, the least of it over a passage's windows counts.

    Confidence, 0 to 1: the best span against no answer, by the softmax over their two scores.
    """

    def _show(self, windows: Windows, question: str, item: Passage) -> list[Window]:
        return windows.pair(question, item.text)

    def _span(self, passage: Passage, windows: Sequence[Window], scores: Sequence[Scores]) -> Span:
        no_answer = min(float(of.start[0] + of.end[0]) for of in scores)
        found = [
            (span, window.offsets)
            for window, of in zip(windows, scores, strict=True)
            if (span := joint(inside(of.start, window), inside(of.end, window), self.max_answer_tokens))
        ]
        if not found:
            return Span(passage.id, "", 0, 0, 0.0, answerable=False)
        best, offsets = max(found, key=lambda one: one[0].score)
        start, end = characters(best, offsets, passage.text)
        there = end > start and best.score > no_answer
        return Span(passage.id, passage.text[start:end], start, end, answered(best.score, no_answer), there)


def inside(logits: Logits, window: Window) -> Logits:
    """Return the logits of the passage's own tokens."""
    return logits[window.inside.start : window.inside.stop]


def _batch(windows: Sequence[Window], pad: int) -> Batch:
    shape = len(windows), max(len(window.ids) for window in windows)
    ids, mask, types = np.full(shape, pad, np.int64), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    for row, window in enumerate(windows):
        length = len(window.ids)
        ids[row, :length], mask[row, :length], types[row, :length] = window.ids, 1, window.types
    return Batch(ids, mask, types)
