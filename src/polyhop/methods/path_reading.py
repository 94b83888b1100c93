"""Answers from paths: a reader reads each, and the best reading counts (PromptRank, §3.2 and Appendix C.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import exp
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from polyhop.answer import Answer
from polyhop.common.text import normalise
from polyhop.errors import UsageError
from polyhop.methods.context import cut_to_fit
from polyhop.methods.paths import Path
from polyhop.types import Evidence, Passage, Span

if TYPE_CHECKING:
    from polyhop.engine.run import Run

Combine: TypeAlias = Literal["raw", "scaled"]

QUESTION_TOKENS, PATH_TOKENS, ANSWER_TOKENS = 64, 512, 30
"""Appendix C.1: the maximum number of tokens of the question, of the path and of an answer."""


class Reading(NamedTuple):
    """The answer that the reader takes from a path, with its confidence on its own scale."""

    path: Path
    answer: str
    confidence: float


async def ask_reader(
    question: str, run: Run, ranking: Answer, paths: Sequence[Path], scores: Mapping[Path, float],
    weight: float, combine: Combine,
) -> Answer:  # fmt: skip
    """Answer from each of the paths; take the answer of the best reading (§3.2, Appendix C.1). A claim is read as a
    yes-or-no question."""
    if run.kind == "long":
        raise UsageError("a reader extracts short answers and writes no paragraph: give answer_by=lm")
    question = f"Is it true that {question.rstrip('. ')}?" if run.kind == "fact" else question
    read: dict[Path, Reading] = {}
    with run.gathering():
        await run.gather(*(read_path(question, run, path, read) for path in paths), finish_all=True)
    readings = [read[path] for path in paths if path in read]
    statistics = {**ranking.statistics, "paths read": len(paths), "paths answered": len(readings)}
    if not readings:
        return replace(ranking, abstained=run.allow_unanswerable, statistics=statistics)
    best = max(readings, key=worth(readings, scores, weight, combine))
    if run.allow_unanswerable and best.confidence <= run.reader_threshold:
        return replace(ranking, abstained=True, statistics=statistics)
    return replace(
        ranking,
        text=best.answer,
        evidence=(Evidence(best.path, best.answer),),
        confidence=probability(best.confidence, run.reader_threshold),
        statistics=statistics,
    )


async def read_path(question: str, run: Run, path: Path, read: dict[Path, Reading]) -> None:
    """Have the reader answer from one path, read as one input; its first answer goes into ``read``."""

    def fits(passages: Sequence[Passage]) -> bool:
        return sum(run.count_tokens(passage.text) for passage in passages) <= PATH_TOKENS

    def is_answer(span: Span) -> bool:
        is_short = run.reader_has_tokenizer or run.count_tokens(span.text) <= ANSWER_TOKENS
        return span.answerable and span.end >= span.start and bool(normalise(span.text)) and is_short

    shown: Sequence[Passage] = path
    asked = question
    if not run.reader_has_tokenizer:  # else it cuts by its own tokens
        asked, shown = run.truncate(question, QUESTION_TOKENS), cut_to_fit(path, fits, run)
    spans = await run.read_path(asked, shown)
    if found := next(filter(is_answer, spans), None):
        read[path] = Reading(path, found.text.strip(), found.confidence)


def worth(
    readings: Sequence[Reading], scores: Mapping[Path, float], weight: float, combine: Combine
) -> Callable[[Reading], float]:
    """Weigh a reading: λ · path score + (1 − λ) · reader's confidence. ``raw``: both as they are, as in MDR's code;
    ``scaled``: each brought to 0 to 1 over the readings, so that λ means the same for every reader and model."""
    scale = _scale if combine == "scaled" else _unchanged
    path_score = scale([scores[reading.path] for reading in readings])
    confidence = scale([reading.confidence for reading in readings])
    return lambda reading: weight * path_score(scores[reading.path]) + (1 - weight) * confidence(reading.confidence)


def _unchanged(values: Sequence[float]) -> Callable[[float], float]:
    return lambda value: value


def _scale(values: Sequence[float]) -> Callable[[float], float]:
    """Scale the values to 0 to 1; to 0 if all are equal."""
    least, spread = min(values), max(values) - min(values)
    return lambda value: (value - least) / spread if spread else 0.0


def probability(confidence: float, threshold: float) -> float:
    """Convert a reader's confidence to 0 to 1: unchanged if its threshold lies in that range, else as a logit.

    >>> probability(0.7, threshold=0.5), probability(1.5, threshold=1.5)
    (0.7, 0.5)
    """
    if 0 < threshold < 1:
        return min(1.0, max(0.0, confidence))
    return 1 / (1 + exp(min(700.0, threshold - confidence)))
