"""The measurements of ``benchmarks/pocket.py``: every figure of a row, for one data set and one method.

Each function takes a ``Job`` and should run in a new process (``fresh``): a process keeps what the network has encoded,
which would make the next method fast.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Self, TypeAlias, TypeVar
from unittest.mock import patch

import numpy as np
from training.examples import steps_of

from benchmarks import pocket_data
from polyhop import Passage, Pipeline, Question, metrics
from polyhop.data.corpora import open_corpus
from polyhop.evaluation.calibration import auroc, best_threshold, calibration_bins, calibration_error, threshold
from polyhop.evaluation.report import Report
from polyhop.evaluation.runner import evaluate
from polyhop.evaluation.statistics import means
from polyhop.lm.pocket import paths as path_scorer
from polyhop.lm.pocket.encoder.cache import predict
from polyhop.lm.pocket.encoder.network import encoder
from polyhop.lm.pocket.reading import judge
from polyhop.lm.pocket.reading.answer import read_path
from polyhop.lm.pocket.tasks.tor import RELEVANT_ABOVE, SUFFICIENT_ABOVE
from polyhop.metrics.rankings import gold_ranks, score_gold
from polyhop.readers import open_reader
from polyhop.retrieval.index import Index, index_for

Figures: TypeAlias = dict[str, Any]
T = TypeVar("T")

RECALL_AT = (2, 5, 10, 20)
GOLD = "gold passages"
"""Stands for a method: reading the gold passages, an upper bound for all methods up to chance."""
NO_RULES = " without rules"
"""After a method: answering without the rules for comparisons and chains of relations."""
_RULES: dict[str, Any] = {"question.find_comparison": None, "answer.decompose": [], "answer.settle": None}
"""These rules, and what each gives if it finds nothing."""
HITS = 2  # that a single question is read off
BATCH = 20  # paths that are looked at together
CROWD = 16  # questions under way at once, where what is said must not hang on it
TIMED = 60  # questions a set whose seconds are measured
STARTS = 5  # fresh starts that are timed
CORES = 2
_EVERY = 1_000_000  # more passages than any ranking has


@dataclass(frozen=True)
class Job:
    """A data set, its questions, and the method, retriever or other component that is measured on them."""

    data: Path
    name: str
    split: str
    limit: int | None
    what: str = ""

    @cached_property
    def questions(self) -> list[Question]:
        """The questions."""
        return pocket_data.questions(self.data, self.name, self.split, self.limit)

    @cached_property
    def index(self) -> Index:
        """The index of the set's whole corpus."""
        return index_for(open_corpus(self.data / self.name / "corpus.jsonl"))

    def gold(self, question: Question) -> list[Passage]:
        """Return a question's gold passages."""
        return self.passages(question.gold_ids)

    def passages(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages with these ids."""
        return [found for each in ids if (found := self.index.passages.by_id(each)) is not None]


def fresh(work: Callable[..., T], *arguments: Any) -> T:
    """Run ``work(*arguments)`` in a new process, on two cores."""
    with ProcessPoolExecutor(1, get_context("spawn"), initializer=_on_two_cores) as process:
        return process.submit(work, *arguments).result()


def _on_two_cores() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])


def retrieval(job: Job) -> Figures:
    """Return the recall of a retriever, and for ``hops`` the ceiling: the share of gold among all it ranks, which are
    those of the first search and of its scored paths."""
    is_hops = job.what == "hops"
    method, options = ("hops", {"k": 1, "rank_limit": _EVERY}) if is_hops else ("one-r", {"retriever": job.what})
    with Pipeline(job.index, method, "pocket", **options) as pipeline:
        pipeline.search("warm", 1)
        encoder()
        with Timed() as timed:
            ranked = [
                list(pipeline.ask(question).passages) if is_hops else pipeline.search(question.text, max(RECALL_AT))
                for question in job.questions
            ]
    rows = [_ranked(question, passages) for question, passages in zip(job.questions, ranked, strict=True)]
    if not is_hops:
        rows = [{**row, "ceiling": None} for row in rows]
    recalls = {name: mean.to_dict() for name, mean in means(rows).items()}
    each = 1000 / max(1, len(rows))
    return {"questions": len(rows), **recalls, "ms": each * timed.wall, "CPU ms": each * timed.cpu}


def _ranked(question: Question, passages: Sequence[Passage]) -> dict[str, float | None]:
    scores, ranks = score_gold(passages, question, RECALL_AT), gold_ranks(passages, question)
    means = {f"R@{k}": scores.get(f"recall_mean@{k}") for k in RECALL_AT}
    ceiling = sum(map(isfinite, ranks)) / len(ranks) if ranks else None
    return {**means, "all@5": scores.get("recall_all@5"), "ceiling": ceiling}


class Timed:
    """The wall seconds and CPU seconds of a block."""

    def __enter__(self) -> Self:
        self.wall, self.cpu = -time.perf_counter(), -time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall, self.cpu = self.wall + time.perf_counter(), self.cpu + time.process_time()


def answers(job: Job) -> Figures:
    """Return a method's answers, their costs and confidences; ``METHOD@RETRIEVER`` replaces its retriever, and with
    ``NO_RULES`` behind it a method answers without the rules."""
    method, options = job.what.removesuffix(NO_RULES), dict[str, Any]()
    if method == GOLD:
        gold = {question.text: job.gold(question) for question in job.questions}
        method, options = "one-r", {"retriever": lambda query, k: gold[query]}
    elif "@" in method:
        method, _, options["retriever"] = method.partition("@")
    encoder()
    with Timed() as timed, without_rules() if job.what.endswith(NO_RULES) else nullcontext():
        report = answered(job, method, concurrency=1, **options)
    n, metric = max(1, len(report.rows)), {"F1": "f1", "EM": "em", "R@5": "recall_mean@5"}
    scores = {name: report.metrics[of].to_dict() for name, of in metric.items() if of in report.metrics}
    return {
        "questions": len(report.rows),
        "failed": len(report.failed),
        **scores,
        "calls": report.usage.calls / n,
        "searches": report.usage.searches / n,
        "seconds": timed.wall / n,
        "CPU": timed.cpu / n,
        "MB": peak_mb(),
        "predictions": [_predicted(row) for row in report.rows],
    }


@contextmanager
def without_rules() -> Iterator[None]:
    """Turn off the rules that compare two values and follow chains of relations; the encoder and the linear models
    beside it are left."""
    with ExitStack() as stack:
        for rule, nothing in _RULES.items():
            stack.enter_context(patch(f"polyhop.lm.pocket.reading.{rule}", return_value=nothing))
        yield


def answered(job: Job, method: str, questions: Sequence[Question] | None = None, **options: Any) -> Report:
    """Return the report of a method, by default on all questions of a job."""
    every = job.questions if questions is None else questions
    return evaluate(every, job.index, method, "pocket", metrics="default", **options)


def _predicted(row: Mapping[str, Any]) -> Figures:
    scores = {name: row["metrics"].get(name) for name in ("em", "f1")}
    found = {name: row[name] for name in ("id", "prediction", "confidence")}
    return {**found, **scores, "passages": row["passages"][:5]}


def peak_mb() -> float:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def sureness(cases: Sequence[tuple[float, bool]]) -> Figures:
    """Return the quality of confidences; each case is a confidence, 0 to 1, and whether its answer was right.

    >>> sureness([(0.9, True), (0.4, False)])
    {'cases': 2, 'right': 0.5, 'AUROC': 1.0, 'ECE': 0.25}
    """
    sure, right = [each for each, _ in cases], [good for _, good in cases]
    error = calibration_error(calibration_bins(sure, right))
    figures = {"AUROC": auroc(sure, right), "ECE": error}
    return {"cases": len(cases), "right": sum(right) / max(1, len(right)), **_rounded(figures)}


def _rounded(values: Mapping[str, float | None]) -> dict[str, float | None]:
    return {name: None if value is None else round(value, 6) for name, value in values.items()}


def confidence(predictions: Sequence[Mapping[str, Any]]) -> Figures:
    """Return ``sureness`` of a method's answers, and the cases; an answer is right if its EM is 1."""
    cases = [(each["confidence"], each["em"] == 1) for each in predictions if each["confidence"] is not None]
    return {**sureness(cases), "judged": cases}


def read_cases(job: Job, predictions: Sequence[Mapping[str, Any]] | None) -> list[tuple[float, bool]]:
    """Return the cases of the reader: its most confident span over the passages that a method read, or over the gold
    passages without predictions; a question without a span (of yes or no) is no case."""
    reader: Any = open_reader("pocket")
    read = {each["id"]: each["passages"] for each in predictions or ()}
    found = []
    for question in job.questions:
        passages = job.gold(question) if predictions is None else job.passages(read.get(question.id, ()))
        if spans := reader.read(question.text, passages):
            right = metrics.exact_match(spans[0].text, question.answers) == 1
            found.append((round(spans[0].confidence, 6), bool(right)))
    return found


def reading(job: Job, predictions: Sequence[Mapping[str, Any]] | None) -> Figures:
    """Return ``sureness`` of ``read_cases``, and the cases."""
    cases = read_cases(job, predictions)
    return {**sureness(cases), "judged": cases}


def one_by_one(job: Job) -> Figures:
    """Return ``sureness`` of the reader over one passage at a time, as SearChain uses it, and the threshold of best F1:
    the single-hop sub-questions of a question (itself if it has none) over the answering passage and BM25's first."""
    reader: Any = open_reader("pocket")
    cases = []
    for question, answers, passages in singles(job):
        for passage in passages:
            if spans := reader.read(question, [passage]):
                right = metrics.exact_match(spans[0].text, answers) == 1
                cases.append((round(spans[0].confidence, 6), bool(right)))
    sure, good = [each for each, _ in cases], [right for _, right in cases]
    figures: dict[str, float | None] = {"F1 now": threshold(reader.threshold, sure, good).f1}
    if (best := best_threshold(sure, good)) is not None:
        figures |= {"best threshold": best.at, "F1 there": best.f1}
    return {**sureness(cases), **_rounded(figures), "judged": cases}


def singles(job: Job) -> Iterator[tuple[str, Sequence[str], list[Passage]]]:
    """Yield questions that one passage answers, each once, with its answers and the passages to try."""
    (part,) = (each for each in pocket_data.load(job.data, job.split, job.limit) if each.name == job.name)
    known: set[str] = set()
    for row in part.questions:
        steps = [(question, [answer], [pid]) for question, answer, pid in steps_of(row, part.passages)]
        for question, answers, gold in steps or [(row["question"], row["answers"], row["gold_pids"])]:
            if question not in known:
                known.add(question)
                tried = [*(part.passages[pid] for pid in gold), *part.search(question, HITS)]
                yield question, answers, list(dict.fromkeys(tried))


def reviews(job: Job) -> Figures:
    """Return the quality of reviews of paths: precision and recall of "relevant" and of "enough"."""
    pairs: dict[str, list[tuple[bool, bool]]] = {"relevance": [], "sufficiency": []}
    (part,) = (each for each in pocket_data.load(job.data, job.split, job.limit) if each.name == job.name)
    for row, path in pocket_data.paths(part):
        found = read_path(row["question"], path)
        is_relevant = not judge.is_hopeless(found) and judge.relevance(found) >= RELEVANT_ABOVE
        pairs["relevance"].append((is_relevant, pocket_data.all_gold(row, path)))
        if len(path) > 1:
            enough = judge.sufficiency(found) >= SUFFICIENT_ABOVE
            pairs["sufficiency"].append((enough, pocket_data.is_enough(row, path)))
    return decided(pairs[job.what])


def decided(pairs: Sequence[tuple[bool, bool]]) -> Figures:
    """Return precision and recall of decisions; each is the decision and the truth.

    >>> decided([(True, True), (True, False), (False, False)])
    {'paths': 3, 'precision': 0.5, 'recall': 1.0}
    """
    both = sum(said and true for said, true in pairs)
    said, true = (max(1, sum(pair[at] for pair in pairs)) for at in (0, 1))
    return {"paths": len(pairs), "precision": both / said, "recall": both / true}


@contextmanager
def timing_scores() -> Iterator[list[float]]:
    """Time each batch of paths that is scored in the block; yield the list of seconds."""
    scored, spent = path_scorer.path_scores, list[float]()

    def timed(question: str, paths: Sequence[Sequence[Passage]], found: Sequence[Passage]) -> list[float]:
        with Timed() as timing:
            scores = scored(question, paths, found)
        spent.append(timing.wall)
        return scores

    path_scorer.path_scores = timed
    try:
        yield spent
    finally:
        path_scorer.path_scores = scored


def speed(job: Job) -> Figures:
    """Return seconds per question of ``hops`` with its reading, ms per path scored in a batch, ms per path encoded in a
    batch, and memory."""
    questions, scored, spent = job.questions[:TIMED], 0.0, []
    with Pipeline(job.index, "hops", "pocket") as pipeline, timing_scores() as scoring:
        pipeline.ask("Who wrote the book that the first of these films is after?")  # opens all
        scoring.clear()
        for question in questions:
            with Timed() as timed:
                answer = pipeline.ask(question)
            spent.append(timed)
            scored += answer.statistics["paths scored"]
        mb = peak_mb()
        found = [pipeline.search(question.text, BATCH + 1) for question in questions]
    with Timed() as looking:
        looked = sum(
            len(predict(question.text, [(passages[0], other) for other in passages[1:]]))
            for question, passages in zip(questions, found, strict=True)
        )
    return {
        "questions": len(spent),
        "passages": job.index.rows,
        "median s": statistics.median(timed.wall for timed in spent),
        "p95 s": float(np.quantile([timed.wall for timed in spent], 0.95)),
        "CPU s": statistics.mean(timed.cpu for timed in spent),
        "paths": scored / len(spent),
        "ms a path": 1000 * sum(scoring) / scored,
        "ms a look": 1000 * looking.wall / max(1, looked),
        "CPU ms a look": 1000 * looking.cpu / max(1, looked),
        "MB": mb,
    }


_START = """
import time
begun = time.perf_counter()
import polyhop
imported = time.perf_counter()
from polyhop.lm.pocket.encoder.network import encoder
encoder()
print(imported - begun, time.perf_counter() - begun)
"""


def starting() -> Figures:
    """Return the seconds of ``import polyhop`` in a new process, without and with opening the network; medians."""
    seconds = []
    for _ in range(STARTS + 1):
        said = subprocess.run([sys.executable, "-c", _START], capture_output=True, text=True, check=True).stdout
        seconds.append([float(each) for each in said.split()])
    imported, opened = (
        statistics.median(column) for column in zip(*seconds[1:], strict=True)
    )  # the first fills caches
    return {"import s": imported, "load s": opened}


def twice(job: Job) -> Figures:
    """Return how many results of a method change if its questions are asked in another order and many at once."""
    one, other = (fresh(said, job, crowded) for crowded in (False, True))
    return differing(one, other)


Said: TypeAlias = dict[str, tuple[str, float | None, list[str]]]


def said(job: Job, crowded: bool) -> Said:
    """Return a method's answer, confidence and ranking by question; ``crowded``: many at once, last first."""
    order = job.questions[::-1] if crowded else job.questions
    report = answered(job, job.what, order, concurrency=CROWD if crowded else 1)
    return {row["id"]: (row["prediction"], row["confidence"], row["passages"]) for row in report.rows}


def differing(one: Said, other: Said) -> Figures:
    """Return how many answers, confidences and rankings differ between two runs.

    >>> differing({"q": ("Oslo", 0.5, ["1", "2"])}, {"q": ("Oslo", 0.5, ["2", "1"])})
    {'questions': 1, 'answers differ': 0, 'confidences differ': 0, 'rankings differ': 1}
    """
    names = ("answers differ", "confidences differ", "rankings differ")
    nothing = ("", None, ["nothing"])
    differ = {
        name: sum(one.get(each, nothing)[at] != other.get(each, nothing)[at] for each in one.keys() | other.keys())
        for at, name in enumerate(names)
    }
    return {"questions": len(one.keys() | other.keys()), **differ}


def looks_alike(job: Job) -> Figures:
    """Return how many encodings of a path differ between a batch and the path alone."""
    network, rows = encoder(), []
    with Pipeline(job.index, "one-r", "pocket") as pipeline:
        for question in job.questions:
            hits = pipeline.search(question.text, 4)
            rows += [network.build_input(question.text, hits[:size]) for size in range(1, len(hits) + 1)]
    together = network.predict(rows)
    differ = sum(network.predict([row]) != [look] for row, look in zip(rows, together, strict=True))
    return {"looks": len(rows), "looks differ": differ}
