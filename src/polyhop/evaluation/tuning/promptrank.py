"""Fitting PromptRank to a language model: its instruction, temperature, demonstrations and λ on labelled questions.

Khalifa et al., 2023, §2.2, §3 and Appendix C.1: the instruction of best R@2 on 128 questions, found without a
temperature, then the temperature, each by itself. Our addition: then the demonstrations, then λ by the answers. The
defaults take part, and of equally good values the first is kept. Each search, link and reading is made once.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from polyhop.common.aio import LoopThread
from polyhop.common.text import counted
from polyhop.data.questions import read_questions
from polyhop.engine.options import LM, Source
from polyhop.errors import PolyhopError, SettingError, UnknownName, UsageError
from polyhop.evaluation.compare import Difference, difference
from polyhop.evaluation.runner import CONCURRENCY, Progress, run_questions, run_settings
from polyhop.evaluation.runs import MemoizingReader, MemoizingRetriever
from polyhop.evaluation.tuning.instructions import read_instructions
from polyhop.evaluation.tuning.staged import Checkpoint, Scores, Stage, StagedSearchResult, Trial
from polyhop.methods.paths import NO_INSTRUCTION, TASK
from polyhop.methods.registry import method_named
from polyhop.pipeline import Pipeline
from polyhop.readers import Reader, as_reader
from polyhop.readers.base import AnyReader
from polyhop.retrieval import retrievers
from polyhop.retrieval.base import Retriever, as_retriever
from polyhop.types import Question

METHOD = "promptrank"
LIMIT = 128
TEMPERATURES = (0.7, 1.0, 1.2, 1.4, 1.7, 2.0)
WEIGHTS = (0.5, 0.7, 0.8, 0.9, 0.95, 1.0)
"""Values of λ."""
DEMO_SEEDS: tuple[int | None, ...] = (None, 0, 1, 2, 3)
"""Values of ``demo_seed``: the prompt file's first demonstrations, and four draws of them."""

RECALL, OBJECTIVES = "recall_all@2", ("f1", "em")
KEPT = (RECALL, "recall_all@10", "ar@2", *OBJECTIVES)
SEARCHED = frozenset({"instruction", "instructions", "temperature", "demos", "demo_seed", "path_weight", "answer_by"})
"""Settings that are found, not given."""


class Step(NamedTuple):
    """The candidates of one stage."""

    name: str
    objective: str
    values: Sequence[Mapping[str, Any]]
    marks: int = 0


def tune_promptrank(
    dataset: str | Path | Sequence[Question],
    corpus: Source | None = None,
    lm: LM = "pocket",
    *,
    instructions: Sequence[str] | None = None,
    temperatures: Sequence[float] = TEMPERATURES,
    demos: int = 0,
    demo_seeds: Sequence[int | None] = DEMO_SEEDS,
    reader: str | AnyReader | None = None,
    weights: Sequence[float] = WEIGHTS,
    objective: str = "f1",
    work: str | Path | None = None,
    limit: int | None = LIMIT,
    sample: int | None = None,
    concurrency: int = CONCURRENCY,
    skip_bad: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> StagedSearchResult:
    """Search PromptRank's settings one after the other, each with the best of those before.

    1. ``instructions`` (ours by default), the prompt file's own and none, at temperature 1; 2. ``temperatures``;
    3. with ``demos``, which of them (by ``demo_seeds``): all by R@2, without answering;
    4. with a ``reader``, the ``weights`` of the path beside its confidence (λ), by ``objective``.

    ``limit``: the number of questions, the first ones or, by the seed ``sample``, drawn at random. ``work``: a folder
    for the measurements; the same search resumes there. Only measurements with the same questions, corpus, prompts,
    model and settings count. ``options``: those of ``Pipeline`` and the method's other settings.

    Raises:
        UsageError: a question lacks gold, a setting or option does not fit, the model cannot score: before any call.
        PolyhopError: a question failed.
    """
    if objective not in OBJECTIVES:
        raise UnknownName("objective", objective, OBJECTIVES)
    questions = read_questions(dataset, skip_bad=skip_bad) if isinstance(dataset, (str, Path)) else list(dataset)
    questions = list(_chosen(questions, limit, sample))
    _check_gold(questions, answers=reader is not None)
    fixed = _fixed(options)
    tried = read_instructions() if instructions is None else instructions
    temperatures_tried = _typed("temperature", temperatures)
    steps = [
        _instructions(tried),
        Step("temperature", RECALL, [{"temperature": value} for value in temperatures_tried], marks=1),
    ]
    steps += [_demonstrations(demos, demo_seeds)] if demos else []
    steps += [_weights(weights, objective)] if reader is not None else []
    usual = {"answer_by": "none", "instruction": None, "temperature": 1.0 if temperatures_tried == [1.0] else None}
    title = Path(dataset).name if isinstance(dataset, (str, Path)) else "questions"
    with Checkpoint(work) as checkpoint, _opened(corpus, lm, reader, {**options, **usual}, steps) as pipeline:
        bench = _Bench(pipeline, questions, title, checkpoint, concurrency)
        bench.watch(progress, 1 + sum(len(step.values) for step in steps))
        try:
            first = bench.measure({**fixed, **usual})
            stages: list[Stage] = []
            best: Mapping[str, Any] = first.settings
            for step in steps:
                trials = [bench.measure({**best, **values}) for values in step.values]
                if step.name == "temperature":  # what was found by parts may be worse than the whole of the defaults
                    trials.insert(0, first)
                stages.append(Stage(step.name, step.objective, trials, step.marks))
                best = stages[-1].best.settings
            run = run_settings(bench.at(best), title)
        finally:
            bench.close()
    bare = [replace(stage, trials=[_without_answering(trial) for trial in stage.trials]) for stage in stages]
    prefix, colon, _ = run["retriever"].partition(":")
    start = run["retriever"] if prefix + colon in retrievers() else None
    reads = run["reader"] if reader is not None else None
    usual_trial, gain = _without_answering(first), _gain(first, bare)
    return StagedSearchResult(METHOD, title, run["lm"], start, reads, fixed, usual_trial, bare, gain)


class _Bench:
    """Measures settings with one pipeline: its model, index and cache stay open between them."""

    def __init__(
        self, pipeline: Pipeline, questions: Sequence[Question], title: str, checkpoint: Checkpoint, concurrency: int
    ) -> None:
        engine = pipeline.engine
        found = engine.retriever and engine.retriever.source
        reader = engine.reader and engine.reader.source
        self._pipeline = copy.copy(pipeline)
        self._pipeline.engine = replace(
            engine,
            retriever=as_retriever(MemoizingRetriever(found)) if isinstance(found, Retriever) else engine.retriever,
            reader=as_reader(MemoizingReader(reader)) if isinstance(reader, Reader) else engine.reader,
        )
        models = engine.models.by_name
        self._same = {
            "models": {name: str(getattr(model, "identity", model.name)) for name, model in models.items()},
            "questions": blake2b(orjson.dumps([asdict(question) for question in questions])).hexdigest(),
        }
        self._questions, self._title, self._checkpoint, self._concurrency = questions, title, checkpoint, concurrency
        self._progress: Progress | None = None
        self._done = self._reported = self._total = 0
        self._thread = LoopThread()

    def watch(self, progress: Progress | None, trials: int) -> None:
        """Report the progress of N trials, in questions."""
        self._progress, self._total = progress, trials * len(self._questions)

    def at(self, settings: Mapping[str, Any]) -> Pipeline:
        """Return the pipeline with other settings of its method."""
        other = copy.copy(self._pipeline)
        other.settings = other.method.resolve(settings)
        other.answers = other.method.answers(other.settings)
        return other

    def measure(self, settings: Mapping[str, Any]) -> Trial:
        """Run the method with these settings, or take the saved measurement."""
        pipeline = self.at(settings)
        described = {**self._same, **run_settings(pipeline, self._title)}
        scores = self._checkpoint.once(described, lambda: self._thread.run(self._scores(pipeline)))
        self._done += len(self._questions)
        self._report(0)
        return Trial(settings, scores)

    def close(self) -> None:
        """Stop the event loop."""
        self._thread.stop()

    def _report(self, now: int) -> None:
        """Report the questions of earlier trials and ``now`` questions of this one."""
        done = self._done + now
        if self._progress and done > self._reported:
            self._reported = done
            self._progress(done, self._total)

    async def _scores(self, pipeline: Pipeline) -> Scores:
        rows, failed = await run_questions(
            pipeline, self._questions, None, concurrency=self._concurrency, progress=lambda done, _: self._report(done)
        )
        if failed:
            name, why = next(iter(failed.items()))
            raise PolyhopError(
                f"{counted(len(failed), 'questions')} failed: nothing can be compared. The first, {name}: {why}"
            )
        return {row["id"]: {name: row["metrics"][name] for name in KEPT if name in row["metrics"]} for row in rows}


def _instructions(tried: Sequence[str]) -> Step:
    candidates = dict.fromkeys((None, NO_INSTRUCTION, *tried))
    values = [{"instruction": instruction, "temperature": 1.0} for instruction in candidates]
    return Step("instruction", RECALL, values, marks=2)


def _demonstrations(demos: int, seeds: Sequence[int | None]) -> Step:
    (demos,) = _typed("demos", [demos])
    return Step("demonstrations", RECALL, [{"demos": demos, "demo_seed": seed} for seed in _typed("demo_seed", seeds)])


def _weights(tried: Sequence[float], objective: str) -> Step:
    values = [{"answer_by": "reader", "path_weight": value} for value in _typed("path_weight", tried)]
    return Step("path_weight", objective, values)


def _typed(name: str, values: Sequence[Any]) -> list[Any]:
    """Return the distinct values of a setting, typed."""
    if not values:
        raise SettingError(f"{name}: no value to try")
    return list(dict.fromkeys(method_named(METHOD).resolve({name: value})[name] for value in values))


def _fixed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the method's fixed settings, typed."""
    known = method_named(METHOD)
    if searched := sorted(options.keys() & SEARCHED):
        raise UsageError(f"{searched[0]} is tuned: do not give it a value")
    given = {name: value for name, value in options.items() if name in known.settings}
    return {name: value for name, value in known.resolve(given).items() if name in given}


def _opened(
    corpus: Source | None,
    lm: LM,
    reader: str | AnyReader | None,
    options: Mapping[str, Any],
    steps: Sequence[Step],
) -> Pipeline:
    """Open a pipeline whose settings need all that any step needs, so that errors are found before the first call."""
    hardest = {name: value for step in steps for values in step.values for name, value in values.items()}
    temperatures_tried = [
        values["temperature"] for step in steps if step.name == "temperature" for values in step.values
    ]
    hardest["temperature"] = max(temperatures_tried, key=lambda temperature: abs(temperature - 1))
    pipeline = Pipeline(corpus, METHOD, lm, reader=reader, **{**options, **hardest})
    there = len(pipeline.engine.prompts.scored(TASK).demonstrations)
    if there < (wanted := pipeline.settings["demos"]):
        pipeline.close()
        raise SettingError(f"demos={wanted}: the prompt file has {there}")
    return pipeline


def _chosen(questions: Sequence[Question], limit: int | None, sample: int | None) -> Sequence[Question]:
    if len({question.id for question in questions}) < len(questions):
        raise UsageError("two questions have the same id")
    if sample is not None:
        questions = random.Random(sample).sample(questions, len(questions))
    return questions[:limit]


def _check_gold(questions: Sequence[Question], *, answers: bool) -> None:
    lacking = [question.id for question in questions if not (question.gold_ids or question.gold_titles)]
    if not questions:
        raise UsageError("tuning needs questions, and there are none")
    if lacking:
        raise UsageError(
            f"tuning promptrank needs gold passages (gold_pids or gold_titles): none for {len(lacking)} of "
            f"{counted(len(questions), 'questions')}, such as {lacking[0]}"
        )
    if answers and (without := next((question.id for question in questions if not question.answers), None)):
        raise UsageError(f"tuning λ needs gold answers: the question {without} has none")


def _without_answering(trial: Trial) -> Trial:
    """Drop ``answer_by``, which was not searched, so that a settings file does not hold it."""
    return replace(trial, settings={name: value for name, value in trial.settings.items() if name != "answer_by"})


def _gain(usual: Trial, stages: Sequence[Stage]) -> Difference:
    found = [stage.best for stage in stages if stage.objective == RECALL][-1]
    return difference([(usual.questions[name][RECALL], scores[RECALL]) for name, scores in found.questions.items()])
