"""Run one method over many questions concurrently, and save each as it finishes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

from polyhop.answer import Answer
from polyhop.common.aio import gather, is_waiting
from polyhop.data.contexts import corpus_of_contexts, is_contexts, questions_with_contexts
from polyhop.data.questions import open_questions, read_questions, with_answerability
from polyhop.engine.engine import Engine
from polyhop.engine.options import LM, Source
from polyhop.errors import CorpusTooLarge, CutReply, PolyhopError, ServiceError, SettingError, UsageError
from polyhop.evaluation.gold import with_gold
from polyhop.evaluation.predictions import Lines, Row, prediction, scored
from polyhop.evaluation.report import Report
from polyhop.evaluation.store import VOLATILE, RunFolder
from polyhop.metrics import Metrics, choose_profiles
from polyhop.metrics.profiles import DEFAULT
from polyhop.pipeline import Pipeline
from polyhop.redaction import redacted
from polyhop.retrieval.base import Reranked
from polyhop.telemetry import traced
from polyhop.types import Question

CONCURRENCY = 16
"""Default maximum number of concurrent questions."""

MAX_CONSECUTIVE_FAILURES = 10
"""Number of consecutive failed questions after which the run stops: something is wrong with all of them."""

Progress = Callable[[int, int], None]
Ask = Callable[[Question], Awaitable[Answer]]


class Executor(Protocol):
    """An executor of a run's questions outside this process, such as a Ray cluster."""

    def answering(
        self, pipeline: Pipeline, lm: LM, options: Mapping[str, Any], concurrency: int, left: int, *, telemetry: bool
    ) -> AbstractContextManager[Ask]:
        """Open the workers for ``left`` questions; yield the function that answers one."""
        ...


def evaluate(
    dataset: str | Path | Sequence[Question],
    corpus: Source | None = None,
    method: str = "tor",
    lm: LM = "pocket",
    *,
    out: str | Path | None = None,
    limit: int | None = None,
    concurrency: int = CONCURRENCY,
    skip_bad: bool = False,
    progress: Progress | None = None,
    title: str | None = None,
    metrics: Metrics = None,
    telemetry: bool = False,
    engine: Executor | None = None,
    **options: Any,
) -> Report:
    """Answer a dataset's questions and report metrics, statistics and cost.

    ``corpus="contexts"`` answers each question from the contexts of its own record.
    ``out``: the run's folder; predictions are appended there as questions finish, and a stopped run resumes there.
    ``title``: the dataset's name; by default its file's. ``metrics``: names of metric profiles; by default ``default``
    and that of the benchmark the questions come from. ``telemetry``: report every question to OpenTelemetry.
    ``engine``: answers the questions outside this process. ``options``: those of ``Pipeline`` and the method's
    settings.

    A question that fails is named in ``Report.failed`` and tried again by the next run on the folder. So is a question
    that waits for a batch (``evaluation.batches``); a run's folder has no metrics while any question waits.
    """
    if limit is not None and limit < 0:
        raise SettingError(f"limit={limit}: must be a number of questions, 0 or more")
    questions, corpus = read_inputs(dataset, corpus, skip_bad=skip_bad)
    if strange := next((type(q).__name__ for q in questions if not isinstance(q, Question)), None):
        raise UsageError(f"the questions of a dataset are polyhop.Question objects, not a list with a {strange}")
    if options.get("allow_unanswerable"):
        questions = with_answerability(questions)
    profiles = choose_profiles(questions, metrics)
    questions = questions[:limit]
    name = title or (Path(dataset).name if isinstance(dataset, (str, Path)) else "questions")
    if len({question.id for question in questions}) < len(questions):
        raise UsageError("two questions have the same id")
    if not options.get("allow_unanswerable"):
        options = {"abstain_below": 0, **options}  # the best guess counts, however unsure
    with Pipeline(corpus, method, lm, **options) as pipeline, ExitStack() as leaving:
        if telemetry:
            traced(pipeline, corpus=getattr(corpus, "name", None))
        settings = {
            **run_settings(pipeline, name),
            "metrics": profiles.to_dict(),
            VOLATILE: {"concurrency": concurrency},
        }
        folder = RunFolder(out, settings, questions) if out is not None else None
        if folder is not None:
            leaving.callback(folder.close)  # once all is written: another process would lose rows to ``finish``
            pipeline.engine.models.remember(folder.learnt)
        if "gold" in pipeline.method.needs(pipeline.settings):
            questions = with_gold(questions, pipeline.index)
        try:
            if engine:
                left = len(questions) - len(folder.finished if folder else ())
                elsewhere = engine.answering(pipeline, lm, options, concurrency, left, telemetry=telemetry)
            work = run_questions(
                pipeline,
                questions,
                folder,
                concurrency=concurrency,
                progress=progress,
                profiles=profiles.names,
                ask=leaving.enter_context(elsewhere) if engine else None,
            )
            before, begun = len(folder.finished if folder else ()), monotonic()
            answered, failed = pipeline.wait(work)
            throughput = (len(answered) - before) / max(monotonic() - begun, 1e-9)
        finally:
            pipeline.close()
        scored_rows, unscored = scored(answered, profiles.names)  # all at once: some metrics pair questions
        rows = Lines(scored_rows) if folder else list(scored_rows)
        waiting = len(questions) - len(rows) - len(failed)
        pace = throughput if throughput > 0 or folder is None else folder.throughput
        named = {"method": method, "lm": settings["lm"], "dataset": name}
        report = Report.of(rows, failed, **named, unscored=unscored, waiting=waiting, throughput=pace)
        if folder is not None and not waiting:
            folder.keep_demonstrations(report.usage.shots_by_task)
            folder.finish(rows, report.to_dict())
        return report


def read_inputs(
    dataset: str | Path | Sequence[Question], corpus: Source | None, *, skip_bad: bool = False
) -> tuple[list[Question], Source | None]:
    """Return the questions of a dataset, and the corpus of their contexts if that is the one asked for."""
    own = is_contexts(corpus)
    if not isinstance(dataset, (str, Path)):
        questions = list(dataset)
    elif own:
        questions = questions_with_contexts(open_questions(dataset, skip_bad=skip_bad))
    else:
        questions = read_questions(dataset, skip_bad=skip_bad)
    return questions, corpus_of_contexts(questions) if own else corpus


async def run_questions(
    pipeline: Pipeline,
    questions: Sequence[Question],
    folder: RunFolder | None,
    *,
    concurrency: int,
    progress: Progress | None = None,
    profiles: Sequence[str] = (DEFAULT,),
    ask: Ask | None = None,
) -> tuple[Sequence[Row], dict[str, str]]:
    """Return the prediction rows in dataset order, and the failures by question id; questions that wait are in neither.

    ``ask`` answers a question instead of the pipeline. Rows are not kept in memory if they go into a folder.
    """
    results = _Results(pipeline, folder, profiles)
    todo = iter([(n, q) for n, q in enumerate(questions) if q.id not in results.finished])

    async def work() -> None:
        for position, question in todo:
            try:
                answer = await (ask or pipeline.aask)(question)
            except Exception as error:  # noqa: BLE001 - counted
                results.fail(question, error)
            else:
                results.keep(position, question, answer)
            if progress:
                progress(results.count, len(questions))

    await gather(*(work() for _ in range(max(1, concurrency))))
    return results.in_order(questions), results.failed


class _Results:
    """The results of a run as its questions finish: rows in the folder, or in memory without one, and failures."""

    def __init__(self, pipeline: Pipeline, folder: RunFolder | None, profiles: Sequence[str]) -> None:
        self._pipeline, self._folder, self._profiles = pipeline, folder, profiles
        self._rows: dict[str, Row] = {}
        self._failed_in_a_row = self._waiting = 0
        self.finished: Collection[str] = folder.finished if folder else self._rows.keys()
        self.failed: dict[str, str] = {}

    @property
    def count(self) -> int:
        """Return the number of questions that need no more work in this run."""
        return len(self.finished) + len(self.failed) + self._waiting

    def in_order(self, questions: Sequence[Question]) -> Sequence[Row]:
        """Return the rows in the order of the questions."""
        return self._folder.rows() if self._folder else [self._rows[q.id] for q in questions if q.id in self._rows]

    def keep(self, position: int, question: Question, answer: Answer) -> None:
        """Write the answer, then its row. An unforeseen error costs this question's row alone, and is named: the answer
        is paid for. A ``DataError``, such as a full disk, is raised."""
        held = ""
        try:
            if self._folder:
                held = f"; the answer is in {self._folder.keep_answer(position, answer)}"
            row = prediction(question, answer, position, answers=self._pipeline.answers, profiles=self._profiles)
            if self._folder:
                self._folder.append(row)
            else:
                self._rows[question.id] = row
        except PolyhopError:
            raise
        except Exception as error:  # noqa: BLE001 - counted
            self.fail(question, PolyhopError(f"answered, but the row could not be written: {error!r}{held}"))
        else:
            self._failed_in_a_row = 0
        if self._folder:
            self._folder.keep_learnt(self._pipeline.engine.models.learnt())

    def fail(self, question: Question, error: Exception) -> None:
        """Count a question without a row; raise the error if the next ones would fail too."""
        if is_waiting(error):
            self._waiting += 1
            self._failed_in_a_row = 0
        else:
            self._failed_in_a_row += 1
            self.failed[question.id] = redacted(str(error) if isinstance(error, PolyhopError) else repr(error))
        hopeless = isinstance(error, (ServiceError, CorpusTooLarge)) and not isinstance(error, CutReply)
        if self._failed_in_a_row >= MAX_CONSECUTIVE_FAILURES or (not self.finished and hopeless):
            if isinstance(error, PolyhopError):
                raise error
            raise PolyhopError(f"every question fails: {error!r}") from error


def run_settings(pipeline: Pipeline, dataset: str) -> dict[str, Any]:
    """Return every setting of a run, as ``run.json`` holds it."""
    needs = frozenset(pipeline.method.needs(pipeline.settings))
    scores = any(need.startswith("score") for need in needs)
    retriever, reader = pipeline.engine.retriever, pipeline.engine.reader
    asks = pipeline.answers or scores or (retriever is not None and retriever.base_retriever is not None)
    models = pipeline.engine.models.by_name if asks else {}
    reranked = retriever.base_retriever if isinstance(retriever, Reranked) else retriever
    searched: Any = pipeline.index or (retriever and retriever.innermost)
    links = pipeline.index.facts["links_asked"] if pipeline.index else None
    return {
        "method": pipeline.method.name,
        "settings": {name: list(v) if isinstance(v, tuple) else v for name, v in pipeline.settings.items()},
        "lm": ", ".join(
            redacted(model.name if name == "default" else f"{name}={model.name}")
            for name, model in sorted(models.items())
        )
        or "no model",
        "retriever": redacted((retriever and retriever.name) or "of the caller's own"),
        "retriever_settings": (reranked and getattr(reranked.source, "chosen", None)) or None,
        "reranker": pipeline.reranker.name if pipeline.reranker else None,
        "reranker_settings": getattr(pipeline.reranker, "chosen", None) or None,
        "reader": ((reader and reader.name) or "of the caller's own") if "reader" in needs else None,
        "corpus": getattr(searched, "fingerprint", None),
        "language": str(searched.analysis) if hasattr(searched, "analysis") else None,
        "links": None if links == "titles" else links,  # as most indexes have them
        "rendering": pipeline.engine.renderings,
        **call_settings(pipeline.engine),
        "seed": pipeline.engine.seed,
        "abstain_below": pipeline.abstain_below or None,
        "allow_unanswerable": pipeline.engine.allow_unanswerable or None,
        "verify_support": pipeline.engine.verify_support or None,
        "calibration": pipeline.engine.calibration and pipeline.engine.calibration.fingerprint,
        "budget": pipeline.engine.budget.to_dict(),
        "prompts": pipeline.engine.prompts.hashes(),
        "dataset": dataset,
    }


def call_settings(engine: Engine) -> dict[str, Any]:
    """Return the settings that change a run's model calls: extra fields of each model's requests, and token limits."""
    bodies = {name: getattr(model, "extra_body", None) for name, model in sorted(engine.models.by_name.items())}
    said = {name: body for name, body in bodies.items() if body}
    return {
        "lm_options": said or None,
        "max_tokens_per_call": engine.max_tokens_per_call,
        "reasoning_tokens": engine.reasoning_tokens,
        "role_options": engine.role_options or None,
    }
