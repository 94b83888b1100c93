"""Measurements of a method's settings on the same questions, with one open pipeline."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from hashlib import blake2b
from typing import Any

import orjson

from polyhop.common.text import counted
from polyhop.errors import PolyhopError
from polyhop.evaluation.runner import Progress, run_questions, run_settings
from polyhop.evaluation.runs import MemoizingReader, MemoizingRetriever
from polyhop.evaluation.tuning.staged import Checkpoint, Scores, Trial
from polyhop.pipeline import Pipeline
from polyhop.readers import Reader, as_reader
from polyhop.retrieval.base import Retriever, as_retriever
from polyhop.types import Question


class Bench:
    """Measures settings with one pipeline: its model, index and cache stay open between them, and each search, link
    and reading is made once. ``kept``: the metrics of a question to keep; ``inputs``: what a saved measurement must
    also have been made with."""

    def __init__(
        self,
        pipeline: Pipeline,
        questions: Sequence[Question],
        title: str,
        checkpoint: Checkpoint,
        *,
        kept: Sequence[str],
        concurrency: int,
        inputs: Mapping[str, Any],
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
            **inputs,
        }
        self._questions, self._title, self._checkpoint = questions, title, checkpoint
        self._kept, self._concurrency = kept, concurrency
        self._progress: Progress | None = None
        self._done = self._reported = self._total = 0

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
        scores = self._checkpoint.once(described, lambda: self._pipeline.wait(self._scores(pipeline)))
        self._done += len(self._questions)
        self._report(0)
        return Trial(settings, scores)

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
        return {
            row["id"]: {name: row["metrics"][name] for name in self._kept if name in row["metrics"]} for row in rows
        }
