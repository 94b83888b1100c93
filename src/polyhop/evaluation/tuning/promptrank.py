"""Fitting PromptRank to a language model on labelled questions: its instructions, temperature, demonstrations and λ.

Khalifa et al., 2023, §2.2, §3 and Appendix C.1: the instruction of best R@2 on 128 questions, found without a
temperature, then the temperature, each by itself; ensembles of the best instructions, by max and by mean. Our addition:
then the demonstrations, then λ by the answers. The defaults take part, and of equally good values the first is kept.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from polyhop.common.text import counted
from polyhop.data.questions import read_questions
from polyhop.engine.options import LM, Source
from polyhop.errors import SettingError, UnknownName, UsageError
from polyhop.evaluation.compare import Difference, difference
from polyhop.evaluation.runner import CONCURRENCY, Progress, run_settings
from polyhop.evaluation.runs import open_index
from polyhop.evaluation.tuning.bench import Bench
from polyhop.evaluation.tuning.demonstrations import write_demonstrations
from polyhop.evaluation.tuning.instructions import our_instructions, ranked_instructions, write_instructions
from polyhop.evaluation.tuning.staged import Checkpoint, Stage, StagedSearch, StagedSearchResult, Trial
from polyhop.methods.path_prompts import TASK, draw_pairs, read_demonstrations
from polyhop.methods.path_score import NO_INSTRUCTION
from polyhop.methods.registry import method_named
from polyhop.pipeline import Pipeline
from polyhop.readers.base import AnyReader
from polyhop.retrieval import retrievers
from polyhop.retrieval.index import Index
from polyhop.types import Question

METHOD = "promptrank"
LIMIT = 128
TEMPERATURES = (0.7, 1.0, 1.2, 1.4, 1.7, 2.0)
WEIGHTS = (0.5, 0.7, 0.8, 0.9, 0.95, 1.0)
"""Values of λ."""
DEMO_SEEDS: tuple[int | None, ...] = (None, 0, 1, 2, 3)
"""Values of ``demo_seed``: the first demonstrations of the file, and four draws of them."""
ENSEMBLES = ("max", "mean")
"""§2.2: the ways to combine the scores of several instructions."""

RECALL, OBJECTIVES = "recall_all@2", ("f1", "em")
KEPT = (RECALL, "recall_all@10", "ar@2", *OBJECTIVES)
SEARCHED = frozenset(
    {
        *("instruction", "instructions", "instructions_from", "ensemble", "ensemble_size", "temperature"),
        *("demos", "demo_seed", "path_weight", "answer_by"),
    }
)
"""Settings that are found, not given."""


def tune_promptrank(
    dataset: str | Path | Sequence[Question],
    corpus: Source | None = None,
    lm: LM = "pocket",
    *,
    instructions: Sequence[str] | None = None,
    temperatures: Sequence[float] = TEMPERATURES,
    ensembles: Sequence[int] = (),
    demos: int = 0,
    demo_seeds: Sequence[int | None] = DEMO_SEEDS,
    reader: str | AnyReader | None = None,
    weights: Sequence[float] = WEIGHTS,
    objective: str = "f1",
    instructions_out: str | Path | None = None,
    demos_out: str | Path | None = None,
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
    3. with ``ensembles``, the best N instructions together for each N of them, by max and by mean; then again
    ``temperatures`` for the best ensemble, which is kept if it beats the one instruction; 4. with ``demos``, which of
    them (by ``demo_seeds``): all by R@2, without answering; 5. with a ``reader``, the ``weights`` of the path beside
    its confidence (λ), by ``objective``.

    ``instructions_out``: a file for the instructions, best first. ``demos_out``: a file for the gold paths of the
    questions as demonstrations, which ``demos`` are then drawn from unless ``demos_from`` is given.
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
    title = Path(dataset).name if isinstance(dataset, (str, Path)) else "questions"
    _check_gold(questions, answers=reader is not None)
    fixed = _fixed(options)
    candidates = Candidates(
        tuple(dict.fromkeys((None, NO_INSTRUCTION, *(our_instructions() if instructions is None else instructions)))),
        _typed("temperature", temperatures),
        _typed("ensemble_size", ensembles) if ensembles else (),
        _typed("demos", [demos])[0],
        _typed("demo_seed", demo_seeds) if demos else (),
        _typed("path_weight", weights) if reader is not None else (),
    )
    candidates.check()
    if demos_out is not None:
        corpus = _write_demonstrations(demos_out, questions, corpus, skip_bad)
        fixed = {"demos_from": str(demos_out), **fixed} if demos else fixed
    usual = {"answer_by": "none", "instruction": None, "temperature": candidates.usual_temperature}
    opened = Pipeline(corpus, METHOD, lm, reader=reader, **{**options, **fixed, **usual, **candidates.hardest})
    with Checkpoint(work) as checkpoint, opened as pipeline:
        _check_demonstrations(pipeline, questions)
        inputs = {"demonstrations": _digest(pipeline.settings["demos_from"])}
        bench = Bench(pipeline, questions, title, checkpoint, kept=KEPT, concurrency=concurrency, inputs=inputs)
        bench.watch(progress, candidates.trials)
        first = bench.measure({**fixed, **usual})
        stages, ranked = _search(bench, first, candidates, objective, pipeline.engine.prompts.scored(TASK).instruction)
        run = run_settings(bench.at(stages[-1].best.settings), title)
    if instructions_out is not None:
        write_instructions(instructions_out, ranked, f"{counted(len(questions), 'questions')} of {title}, {run['lm']}")
    bare = [replace(stage, trials=[_without_answering(trial) for trial in stage.trials]) for stage in stages]
    prefix, colon, _ = run["retriever"].partition(":")
    start = run["retriever"] if prefix + colon in retrievers() else None
    reads = run["reader"] if reader is not None else None
    usual_trial, gain = _without_answering(first), _gain(first, bare)
    return StagedSearchResult(METHOD, title, run["lm"], start, reads, fixed, usual_trial, bare, gain)


@dataclass(frozen=True, slots=True)
class Candidates:
    """The values that each stage tries, typed. ``ensembles``: numbers of instructions."""

    instructions: Sequence[str | None]
    temperatures: Sequence[float]
    ensembles: Sequence[int]
    demos: int
    demo_seeds: Sequence[int | None]
    weights: Sequence[float]

    def check(self) -> None:
        """Raise ``SettingError`` if an ensemble has more instructions than there are."""
        available = len(self.instructions) - 1  # all but none
        if self.ensembles and max(self.ensembles) > available:
            raise SettingError(f"an ensemble of {max(self.ensembles)}: there are {available} instructions")

    @property
    def usual_temperature(self) -> float | None:
        """The temperature of the defaults: the method's own, unless the model can only be asked at 1."""
        return 1.0 if list(self.temperatures) == [1.0] else None

    @property
    def hardest(self) -> dict[str, Any]:
        """Settings that need all that any trial needs."""
        reads = {"answer_by": "reader", "path_weight": self.weights[0]} if self.weights else {}
        return {"temperature": max(self.temperatures, key=lambda value: abs(value - 1)), "demos": self.demos, **reads}

    @property
    def trials(self) -> int:
        """The number of measurements, with the first, that of the defaults."""
        ensembles = len(ENSEMBLES) * len(self.ensembles) + len(self.temperatures) if self.ensembles else 0
        single = len(self.instructions) + len(self.temperatures)
        return 1 + single + ensembles + len(self.demo_seeds) + len(self.weights)


def _search(
    bench: Bench, first: Trial, candidates: Candidates, objective: str, own: str
) -> tuple[list[Stage], list[str]]:
    """Search stage by stage from the trial of the defaults, ``first``; return the stages and the ranked instructions.
    ``own``: the prompt file's instruction."""
    search = StagedSearch(bench.measure, first.settings, RECALL)
    temperatures = [{"temperature": value} for value in candidates.temperatures]
    tried = [{"instruction": value, "temperature": 1.0} for value in candidates.instructions]
    found = search.stage("instruction", tried, marks=2)
    ranked = ranked_instructions(found, own, first.settings.get("instruction_position", "after"))
    # the defaults take part: what was found by parts may be worse than the whole of them
    single = search.stage("temperature", temperatures, also=[first]).best
    if sizes := candidates.ensembles:
        together = [{"instructions": tuple(ranked[:size]), "ensemble": how} for size in sizes for how in ENSEMBLES]
        search.stage("ensemble", together)
        search.stage("ensemble temperature", temperatures, also=[single])
    if seeds := candidates.demo_seeds:
        search.stage("demonstrations", [{"demos": candidates.demos, "demo_seed": seed} for seed in seeds])
    if weights := candidates.weights:
        answered = [{"answer_by": "reader", "path_weight": value} for value in weights]
        search.stage("path_weight", answered, objective=objective)
    return search.stages, ranked


def _write_demonstrations(
    path: str | Path, questions: Sequence[Question], corpus: Source | None, skip_bad: bool
) -> Index:
    """Write the questions' gold paths; return the corpus, opened."""
    index = open_index(corpus, skip_bad)
    if index is None:
        raise UsageError("demonstrations are gold passages of the corpus: give the corpus")
    write_demonstrations(path, questions, index)
    return index


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


def _check_demonstrations(pipeline: Pipeline, questions: Sequence[Question]) -> None:
    """Raise ``SettingError`` if there are too few demonstrations for a question, which may be among them."""
    demos, file = pipeline.settings["demos"], pipeline.settings["demos_from"]
    available = read_demonstrations(file) if file else pipeline.engine.prompts.scored(TASK).demonstrations
    for question in questions if demos else ():
        draw_pairs(available, demos // 2, None, question.text)


def _digest(file: str) -> str | None:
    return blake2b(Path(file).read_bytes()).hexdigest() if file else None


def _chosen(questions: Sequence[Question], limit: int | None, sample: int | None) -> Sequence[Question]:
    if len({question.id for question in questions}) < len(questions):
        raise UsageError("two questions have the same id")
    if sample is not None:
        questions = random.Random(sample).sample(questions, len(questions))
    return questions[:limit]


def _check_gold(questions: Sequence[Question], *, answers: bool) -> None:
    lacking = [question.id for question in questions if not (question.gold_ids or question.gold_titles)]
    if not questions:
        raise UsageError("tuning needs questions: the dataset has none")
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
