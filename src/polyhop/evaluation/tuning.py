"""Fitting on labelled questions what papers leave open: a reader's threshold θ, and a method's settings by a grid."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from polyhop.data.questions import read_questions
from polyhop.errors import PolyhopError, UnknownName, UsageError
from polyhop.evaluation.calibration import Threshold, auroc, best_threshold, threshold
from polyhop.evaluation.compare import Difference, compare
from polyhop.evaluation.grid import combinations, folder_name
from polyhop.evaluation.report import Report
from polyhop.evaluation.runner import CONCURRENCY, Progress, after, evaluate
from polyhop.methods.registry import method_named
from polyhop.pipeline import LM, LoopThread, Source
from polyhop.readers import AskingReader, Reader, open_reader, spans_of, threshold_of
from polyhop.retrieval import open_plain_retriever
from polyhop.retrieval.index import Index
from polyhop.text import normalise
from polyhop.types import Passage, Question, Read

GE_GRID: Mapping[str, Sequence[float]] = {"retrieve_below": (0.7, 0.8, 0.9), "keep_above": (0.4, 0.7, 0.85)}
"""Values of k1 and k2 to try: recorded answers' mean probabilities lie between 0.6 and 1 (benchmarks/confidence.py)."""

OBJECTIVES = ("f1", "em", "cover_em")
_REFERENCE = re.compile(r"#([1-9][0-9]?)(?![0-9])")
_VERDICTS = frozenset({"yes", "no", "noanswer"})


@dataclass(frozen=True, slots=True)
class ReaderFit:
    """A reader's threshold, fitted. ``cases`` (question, passage) pairs, ``right`` of which hold the answer;
    ``left_out`` questions have no gold answer that can stand in a passage (none at all, or yes and no). A written step
    counts as a question."""

    reader: str
    fitted: Threshold
    default: Threshold
    auroc: float | None
    questions: int
    left_out: int
    cases: int
    right: int

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        return {**plain, "fitted": self.fitted.to_dict(), "default": self.default.to_dict()}


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a grid and the run it was measured by."""

    settings: Mapping[str, Any]
    report: Report

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values: scores, and model calls and searches a question."""
        n = max(1, len(self.report.rows))
        usage = self.report.usage
        return {
            "settings": dict(self.settings),
            "scores": scores_of(self.report),
            "calls": usage.calls / n,
            "searches": usage.searches / n,
            "failed": len(self.report.failed),
        }


@dataclass(frozen=True, slots=True)
class Tuned:
    """A grid's points in order, the ``best`` of them, and its ``gain`` over the method's defaults where they are a
    point of the grid. The gain is measured where it was chosen, so it flatters: confirm it on other questions."""

    method: str
    objective: str
    fixed: Mapping[str, Any]
    points: Sequence[Point]
    best: Point
    gain: Difference | None

    @property
    def file(self) -> dict[str, Any]:
        """What a settings file holds: the method, its settings, where they were fitted and what they scored there."""
        report = self.best.report
        return {
            "method": self.method,
            "settings": {**self.fixed, **self.best.settings},
            "fitted_on": {"dataset": report.dataset, "questions": len(report.rows), "lm": report.lm},
            "scores": scores_of(report),
        }

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values: those of ``file`` and the whole grid."""
        gain = self.gain.to_dict() if self.gain else None
        grid = [point.to_dict() for point in self.points]
        return {**self.file, "objective": self.objective, "gain": gain, "grid": grid}


def fit_reader(
    questions: Sequence[Question],
    index: Index,
    reader: str | Reader | Read = "pocket",
    *,
    retriever: str = "bm25",
    k: int = 5,
    progress: Progress | None = None,
) -> ReaderFit:
    """The threshold θ at which ``confidence > θ`` best tells, by F1, whether a passage answers the question.

    A question with written steps is asked step by step, as a method would, each with the answers before it filled in.
    Read one by one are each question's gold passages and the retriever's first ``k`` hits. A passage answers when a
    gold answer stands in its title or text, normalised, as whole words. Where a reader sees no answer, no θ takes it.

    Raises:
        UsageError: no question can be judged, no passage answers, or the reader sees an answer nowhere.
    """
    opened = open_reader(reader) if isinstance(reader, str) else reader
    asked = [step for question in questions for step in steps_of(question)]
    judged = [question for question in asked if _in_passages(question)]
    thread = LoopThread()
    try:
        pairs = list(_pairs(judged, index, retriever, k))
        confidence = thread.run(_confidences(opened, pairs, progress))
    finally:
        thread.stop()
    right = [holds(passage, question.answers) for question, passage in pairs]
    if (fitted := best_threshold(confidence, right)) is None:
        why = "the reader saw no answer" if any(right) else "no gold answer stands"
        raise UsageError(f"nothing to fit on: {why} in any of {len(pairs)} passages of {len(judged)} questions")
    return ReaderFit(
        reader=getattr(opened, "name", "of the caller's own"),
        fitted=fitted,
        default=threshold(threshold_of(opened), confidence, right),
        auroc=auroc(confidence, right),
        questions=len(judged),
        left_out=len(asked) - len(judged),
        cases=len(pairs),
        right=sum(right),
    )


def steps_of(question: Question) -> list[Question]:
    """The steps of a question as questions of their own, "#1" replaced by the first one's answer and so on; the
    question alone where its steps lack a question or an answer.

    >>> steps = [("Who made Emma?", "Jane Austen"), ("Where was #1 born?", "Steventon")]
    >>> written = tuple({"question": question, "answer": answer} for question, answer in steps)
    >>> [step.text for step in steps_of(Question("q", "Where was its maker born?", steps=written))]
    ['Who made Emma?', 'Where was Jane Austen born?']
    """
    answers: list[str] = []
    found: list[Question] = []
    for number, step in enumerate(question.steps, 1):
        match step:
            case {"question": str() as text, "answer": str() as answer}:
                text = _REFERENCE.sub(lambda ref: _nth(answers, int(ref[1])) or ref[0], text)
                gold = (step["pid"],) if isinstance(step.get("pid"), str) else question.gold_ids
                answers.append(answer)
                found.append(
                    replace(question, id=f"{question.id}/{number}", text=text, answers=(answer,), gold_ids=gold)
                )
            case _:
                return [question]
    return found or [question]


def holds(passage: Passage, answers: Sequence[str]) -> bool:
    """Whether an answer stands in a passage's title or text, normalised, as whole words.

    >>> holds(Passage("1", "Oslo", "A party was held in Norway."), ["Art", "the norway"])
    True
    """
    text = f" {normalise(f'{passage.title} {passage.text}')} "
    return any(f" {gold} " in text for gold in map(normalise, answers) if gold)


def tune(
    method: str,
    grid: Mapping[str, Sequence[Any]],
    dataset: str | Path | Sequence[Question],
    corpus: Source | None = None,
    lm: LM = "pocket",
    *,
    objective: str = "f1",
    work: str | Path | None = None,
    limit: int | None = None,
    concurrency: int = CONCURRENCY,
    skip_bad: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Tuned:
    """Run a method at every point of a grid of its settings and choose the point of best ``objective``.

    Of equally good points the one with the fewest model calls is best, then the first. A named model's replies are
    cached, so a call that several points share is made once. ``work``: a folder with a run's folder for each point; the
    same command goes on there where it was stopped. ``options``: those of ``Pipeline`` and the method's other settings.

    Raises:
        UsageError: a setting, value or option does not fit; found before the first call.
        PolyhopError: at every point a question failed, so that none can be compared.
    """
    if objective not in OBJECTIVES:
        raise UnknownName("objective", objective, OBJECTIVES)
    fixed, points = _checked(method, grid, options)
    questions = read_questions(dataset, skip_bad=skip_bad) if isinstance(dataset, (str, Path)) else dataset
    questions = list(questions)[:limit]
    if not questions or not all(question.answers for question in questions):
        raise UsageError("tuning needs questions, and a gold answer for each")
    common: dict[str, Any] = {**options, "limit": limit, "concurrency": concurrency, "skip_bad": skip_bad}
    reports = []
    for number, point in enumerate(points):
        out = Path(work) / folder_name(point) if work is not None else None
        told = after(progress, number * len(questions), len(points) * len(questions))
        reports.append(evaluate(dataset, corpus, method, lm, out=out, progress=told, **{**common, **point}))
    measured = [Point(point, report) for point, report in zip(points, reports, strict=True)]
    best = _best(measured, objective)
    return Tuned(method, objective, fixed, measured, best, _gain(method, measured, best, objective))


def scores_of(report: Report) -> dict[str, float]:
    """The answer metrics of a run, each a mean, 0 to 1."""
    return {name: report.metrics[name].value for name in OBJECTIVES if name in report.metrics}


def _nth(answers: Sequence[str], number: int) -> str | None:
    return answers[number - 1] if 1 <= number <= len(answers) else None


def _in_passages(question: Question) -> bool:
    answers = {normalise(answer) for answer in question.answers} - {""}
    return bool(answers - _VERDICTS) and question.kind not in ("boolean", "fact", "long")


def _pairs(questions: Sequence[Question], index: Index, retriever: str, k: int) -> Iterator[tuple[Question, Passage]]:
    searcher = open_plain_retriever(retriever, index)
    titles = {title for question in questions if not question.gold_ids for title in question.gold_titles}
    titled = {passage.title: passage for passage in index.passages if passage.title in titles} if titles else {}
    for question in questions:
        by_id = [index.passages.by_id(name) for name in question.gold_ids]
        gold = [passage for passage in by_id or map(titled.get, question.gold_titles) if passage is not None]
        for passage in dict.fromkeys([*gold, *searcher.search(question.text, k)]):
            yield question, passage


async def _confidences(
    reader: Reader | AskingReader | Read, pairs: Sequence[tuple[Question, Passage]], progress: Progress | None
) -> list[float]:
    found = []
    for done, (question, passage) in enumerate(pairs, 1):
        spans = [span for span in await spans_of(reader, question.text, [passage]) if span.answerable and span.text]
        best = spans[0].confidence if spans else -math.inf
        found.append(-math.inf if math.isnan(best) else best)
        if progress:
            progress(done, len(pairs))
    return found


def _checked(
    method: str, grid: Mapping[str, Sequence[Any]], options: Mapping[str, Any]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The settings that stay as given, typed, and the grid's points, typed, each once."""
    known = method_named(method)
    if both := sorted(grid.keys() & options.keys()):
        raise UsageError(f"{both[0]} is what is tuned: it cannot be given a value of its own")
    given = {name: value for name, value in options.items() if name in known.settings}
    fixed = {name: value for name, value in known.resolve(given).items() if name in given}
    points = []
    for chosen in combinations(grid):
        typed = known.resolve({**given, **chosen})
        if (point := {name: typed[name] for name in chosen}) not in points:
            points.append(point)
    return fixed, points


def _best(points: Sequence[Point], objective: str) -> Point:
    whole = [point for point in points if not point.report.failed]
    if not whole:
        name, why = next(iter(points[0].report.failed.items()))
        raise PolyhopError(f"at every point of the grid a question failed; the first, {name}: {why}")
    return max(whole, key=lambda p: (p.report.metrics[objective].value, -p.report.usage.calls))


def _gain(method: str, points: Sequence[Point], best: Point, objective: str) -> Difference | None:
    defaults = method_named(method).settings
    usual = next((p for p in points if all(defaults[name].default == v for name, v in p.settings.items())), None)
    if usual is None or usual.report.failed:
        return None
    return compare(usual.report, best.report).metrics[objective]
