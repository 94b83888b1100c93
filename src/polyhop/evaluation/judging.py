"""A language model's judgement of a run's answers: if they are correct, and if the passages that they cite state them.

A judge is not an official metric: the metric's name and the report name the judge and its prompt. Verdicts
are kept beside the run, in ``judged.jsonl``, and asked for once; the run's own metrics and usage stay as they are. An
empty prediction is wrong, and an answer without citations unfaithful, without being asked about; a reply that cannot
be read twice is counted, and no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from polyhop.answer import Answer
from polyhop.common.aio import gather
from polyhop.engine.options import LM
from polyhop.engine.support import MAX_PASSAGES
from polyhop.errors import DataError
from polyhop.evaluation.predictions import Row
from polyhop.evaluation.report import Report
from polyhop.evaluation.runner import CONCURRENCY, Progress, call_settings
from polyhop.evaluation.store import SavedLines, read_trace
from polyhop.pipeline import Pipeline
from polyhop.prompts.tasks import Task
from polyhop.prompts.tasks.parts import JUDGE_ANSWER
from polyhop.prompts.tasks.support import JUDGE_FAITHFUL
from polyhop.trace import Usage, add_usage
from polyhop.types import Passage

if TYPE_CHECKING:
    from polyhop.engine.run import Run

JUDGED = "judged.jsonl"

Verdict = Mapping[str, Any]
"""A line of ``judged.jsonl``: judge, the fields of the prediction's line that it depends on, its value (None: the reply
could not be read) and what it cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """A question to a judge about the line of a prediction.

    ``depends_on``: the fields of the line that the verdict is kept by. ``applies``: true if the line is judged.
    ``unasked``: the value that needs no model; None if one is needed. ``asked``: the fields of the call. ``value``: the
    part of its output that is kept, under the name ``kept``. ``metrics``: the scores that a value gives.
    """

    task: Task[Any]
    depends_on: tuple[str, ...]
    kept: str
    applies: Callable[[Row], Any]
    unasked: Callable[[Row], Any]
    asked: Callable[[Path, Row], Mapping[str, Any]]
    value: Callable[[Any, Mapping[str, Any]], Any]
    metrics: Callable[[Any], Mapping[str, float]]


def _cited(folder: Path, row: Row) -> list[Passage]:
    """Return the passages that a line cites, with their texts, from its trace."""
    try:
        trace = read_trace(folder, row)
        known = {passage["id"]: passage for passage in trace["passages"]} | trace["trace"]["passages"]
        return [Passage(id, title, known[id]["text"]) for id, title in row["cited"][:MAX_PASSAGES]]
    except (OSError, ValueError, KeyError, TypeError):
        why = f"the trace of question {row['id']!r}, which has the texts of its passages, cannot be read"
        raise DataError(why, folder) from None


def _groundedness(claims: Mapping[str, Any]) -> dict[str, float]:
    """The share of claims that cited passages state, and of cited passages that state a claim."""
    stated_by: Sequence[Sequence[int]] = claims["stated_by"]
    if not claims["passages"]:
        return {"faithfulness": 0.0}
    stating = {number for numbers in stated_by for number in numbers}
    return {
        "faithfulness": sum(map(bool, stated_by)) / len(stated_by),
        "citation_precision": len(stating) / claims["passages"],
    }


CORRECT = Criterion(
    task=JUDGE_ANSWER,
    depends_on=("id", "question", "answers", "prediction"),
    kept="correct",
    applies=lambda row: row["answers"],
    unasked=lambda row: None if row["prediction"].strip() else False,
    asked=lambda folder, row: {"answers": row["answers"], "prediction": row["prediction"]},
    value=lambda output, asked: output.correct,
    metrics=lambda correct: {"accuracy": float(correct)},
)
FAITHFUL = Criterion(
    task=JUDGE_FAITHFUL,
    depends_on=("id", "question", "prediction", "cited"),
    kept="claims",
    applies=lambda row: "cited" in row and row["prediction"].strip() and not row["abstained"],
    unasked=lambda row: None if row["cited"] else {"claims": [], "stated_by": [], "passages": 0},
    asked=lambda folder, row: {"prediction": row["prediction"], "passages": _cited(folder, row)},
    value=lambda output, asked: {
        "claims": output.claims,
        "stated_by": output.stated_by(len(asked["passages"])),
        "passages": len(asked["passages"]),
    },
    metrics=_groundedness,
)


def judge_answers(
    report: Report,
    folder: str | Path,
    lm: LM,
    *,
    by: Criterion = CORRECT,
    concurrency: int = CONCURRENCY,
    progress: Progress | None = None,
    **options: Any,
) -> Report:
    """The report of a run, in progress too, with the judge's metrics.

    They are ``judge(LM).accuracy`` or, ``by=FAITHFUL``, ``judge(LM).faithfulness`` and ``.citation_precision``.
    ``Report.judge`` says who judged, by which prompt, and at what cost; of faithfulness under ``faithful``.

    ``options``: those of ``Pipeline`` that a model's calls have (prompts, rendering, cache, lm_options,
    max_tokens_per_call).

    Raises:
        LMError: the judge cannot be reached; verdicts given before are kept.
        UsageError: another process is judging here.
        DataError: the verdicts cannot be read or written, or a trace that is needed is gone.
    """
    task = by.task.name
    with Pipeline(None, "direct", lm, **options) as pipeline:
        engine = pipeline.engine
        judge = {
            "lm": engine.model_of(task).name,
            "task": task,
            "prompt": engine.prompts.hashes()[task],
            "rendering": engine.rendering_of(engine.model_of(task)),
            **{name: value for name, value in call_settings(engine).items() if value is not None},
        }
        rows = [row for row in report.rows if row.get("answering", True) and by.applies(row)]
        with _Verdicts(Path(folder), judge, by) as verdicts:
            before = len(verdicts.held)
            pipeline.wait(_all(pipeline, rows, verdicts, concurrency, progress))
            return _with(report, rows, verdicts, asked=len(verdicts.held) - before)


async def _all(
    pipeline: Pipeline, rows: Sequence[Row], verdicts: _Verdicts, concurrency: int, progress: Progress | None
) -> None:
    todo = [row for row in rows if not verdicts.known(row)]
    waiting: Iterator[Row] = iter(todo)
    done = len(rows) - len(todo)
    by = verdicts.by

    async def work() -> None:
        nonlocal done
        for row in waiting:
            outputs: list[Any] = []

            async def judge(question: str, run: Run, outputs: list[Any] = outputs, **asked: Any) -> Answer:
                outputs.append(await run.ask(by.task, final=True, question=question, **asked))
                return Answer("judged")

            asked = by.asked(verdicts.folder, row)
            found = await pipeline.engine.answer(judge, "judge", row["question"], row.get("kind", "qa"), asked)
            unread = found.usage.defaulted_by_task.get(by.task.name, 0)
            verdicts.add(row, None if unread else by.value(outputs[0], asked), found.usage)
            done += 1
            if progress:
                progress(done, len(rows))

    await gather(*(work() for _ in range(max(1, concurrency))))


def _with(report: Report, rows: Sequence[Row], verdicts: _Verdicts, *, asked: int) -> Report:
    name, by = f"judge({verdicts.judge['lm']})", verdicts.by
    values = {row["id"]: verdicts.value(row) for row in rows}
    found = {
        id: {f"{name}.{metric}": score for metric, score in by.metrics(value).items()}
        for id, value in values.items()
        if value is not None
    }
    judged = [{**row, "metrics": {**row["metrics"], **found.get(row["id"], {})}} for row in report.rows]
    usages = [Usage.from_dict(verdict["usage"]) for row in rows if (verdict := verdicts.of(row))]
    metrics = dict.fromkeys(metric for scores in found.values() for metric in scores)
    statement = {
        **verdicts.judge,
        "metric": ", ".join(metrics) or name,
        "verdicts": len(found),
        "unread": len(values) - len(found),
        "asked_now": asked,
        "usage": add_usage(usages).to_dict(),
    }
    whole = Report.of(judged, report.failed, method=report.method, lm=report.lm, dataset=report.dataset)
    statement = {**statement, **report.judge} if by is CORRECT else {**report.judge, "faithful": statement}
    return replace(whole, unscored=report.unscored, judge=statement, throughput=report.throughput)


class _Verdicts:
    """One judge's verdicts in a run's folder: those given before, and new ones, each written as it is given."""

    def __init__(self, folder: Path, judge: Mapping[str, str], by: Criterion) -> None:
        self.folder, self.judge, self.by = folder, judge, by
        self.held: dict[bytes, Verdict] = {}
        busy = "another process is judging here; wait for it"
        self._lines = SavedLines(folder / JUDGED, self._take, lock="judge.lock", busy=busy, noun="verdict")

    def __enter__(self) -> _Verdicts:
        return self

    def __exit__(self, *error: object) -> None:
        self._lines.close()

    def known(self, row: Row) -> bool:
        """Return True if a line needs no question to the judge."""
        return self.by.unasked(row) is not None or self.of(row) is not None

    def value(self, row: Row) -> Any:
        """Return the value of a line's verdict; None if the reply could not be read."""
        unasked = self.by.unasked(row)
        verdict = self.of(row)
        return unasked if unasked is not None else verdict and verdict[self.by.kept]

    def of(self, row: Row) -> Verdict | None:
        """Return the verdict on a line's prediction; None if it has none, or what it depends on changed."""
        return self.held.get(self._key(row))

    def add(self, row: Row, value: Any, usage: Usage) -> None:
        """Save a verdict."""
        named = {name: row[name] for name in self.by.depends_on}
        verdict = {"judge": self.judge, **named, self.by.kept: value, "usage": usage.to_dict()}
        self._lines.append(verdict)
        self.held[self._key(row)] = verdict

    def _take(self, verdict: Verdict) -> None:
        if verdict["judge"] == self.judge:
            self.held[self._key(verdict)] = verdict

    def _key(self, row: Row) -> bytes:
        return orjson.dumps([row[name] for name in self.by.depends_on])
