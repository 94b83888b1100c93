"""A pipeline whose questions are told to OpenTelemetry.

The span of a question is the current one while it is answered, so whoever instruments HTTP sees the requests under it.
The spans of its steps are written when it is over, with the times they had: only then does a trace know which step
stands under which.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from polyhop._version import __version__
from polyhop.answer import Answer
from polyhop.common.extras import load
from polyhop.engine.run import Engine
from polyhop.pipeline import Pipeline
from polyhop.redaction import redacted
from polyhop.telemetry.attributes import answer_content, content_of, described, json_text, outcome, sendable, whole
from polyhop.telemetry.exporting import captures_content
from polyhop.trace import Note, Step, plain
from polyhop.types import Kind

_SECOND = 1_000_000_000


def traced(
    pipeline: Pipeline, *, corpus: str | None = None, provider: Any = None, content: bool | None = None
) -> Pipeline:
    """The same pipeline, which from now on tells OpenTelemetry of every question it answers.

    ``corpus``: the name its searches are told by. ``provider``: a ``TracerProvider`` other than the program's.
    ``content``: whether texts are told; by default what the environment says. Raises ``MissingExtra``.
    """
    api = load("opentelemetry.trace", "otel", "telemetry")
    pipeline.engine = TracedEngine(
        **{item.name: getattr(pipeline.engine, item.name) for item in fields(Engine)},
        api=api,
        tracer=api.get_tracer("polyhop", __version__, tracer_provider=provider),
        corpus=corpus,
        content=captures_content() if content is None else content,
    )
    return pipeline


@dataclass(frozen=True, kw_only=True)
class TracedEngine(Engine):
    """An engine that writes spans by ``tracer``, texts where ``content`` is set."""

    api: Any
    tracer: Any
    corpus: str | None
    content: bool

    async def answer(
        self,
        function: Callable[..., Awaitable[Answer]],
        name: str,
        question: str,
        kind: Kind,
        settings: Mapping[str, Any],
        listen: Callable[[Step], object] | None = None,
    ) -> Answer:
        """``Engine.answer`` inside a span; a question that fails or is cut short is told as far as it came."""
        told: dict[int, Step] = {}

        def hear(step: Step) -> None:
            told[step.id] = step
            if listen is not None:
                listen(step)

        clock, wall = asyncio.get_running_loop().time, time.time_ns()
        began = clock()
        attributes = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": name, "polyhop.kind": kind}
        root = self.tracer.start_span(f"invoke_workflow {name}", attributes=attributes, start_time=wall)
        spans = _Spans(self, root, wall)
        try:
            with self.api.use_span(root, record_exception=False, set_status_on_exception=False):
                answer = await super().answer(function, name, question, kind, settings, hear)
            spans.answered(settings, answer)
        except BaseException as error:
            spans.failed(error, [told[number] for number in sorted(told)])
            raise
        finally:
            root.end(wall + int((clock() - began) * _SECOND))
        return answer


@dataclass(frozen=True, slots=True)
class _Spans:
    """The spans of one question, under its ``root``, which began at ``wall`` (nanoseconds of the epoch)."""

    engine: TracedEngine
    root: Any
    wall: int

    def answered(self, settings: Mapping[str, Any], answer: Answer) -> None:
        """Tell what was found, and every step of its trace."""
        if self.root.is_recording():
            texts = {**answer_content(answer), "polyhop.settings": json_text(plain(settings))}
            self.root.set_attributes(sendable({**outcome(answer), **(texts if self.engine.content else {})}))
            self._write(answer.trace.steps)

    def failed(self, error: BaseException, steps: Sequence[Step]) -> None:
        """Tell why there is no answer, and the steps that were begun."""
        if self.root.is_recording():
            self.root.set_attribute("error.type", type(error).__qualname__)
            # a server's own words may quote the prompt
            why = whole(redacted(str(error))) if self.engine.content else None
            self.root.set_status(self.engine.api.StatusCode.ERROR, why)
            self._write(steps)

    def _write(self, steps: Sequence[Step]) -> None:
        """A span for each step, under that of its parent, which comes before it; a note is an event there."""
        spans: dict[int | None, Any] = {}
        for step in steps:
            above = spans.get(step.parent, self.root)
            if isinstance(step, Note):
                data = {"polyhop.note": json_text(plain(step.data))} if self.engine.content else {}
                above.add_event(step.name, data, self._at(step.started))
                continue
            told = described(step, self.engine, self.engine.corpus)
            texts = content_of(step, steps, self.engine) if self.engine.content else {}
            spans[step.id] = self.engine.tracer.start_span(
                whole(told.name),
                context=self.engine.api.set_span_in_context(above),
                kind=self.engine.api.SpanKind.CLIENT if told.outside else self.engine.api.SpanKind.INTERNAL,
                attributes={
                    "polyhop.step": step.id,
                    "polyhop.after": step.after,
                    **sendable({**told.attributes, **texts}),
                },
                start_time=self._at(step.started),
            )
        for step in steps:
            if step.id in spans:
                spans[step.id].end(self._at(step.started + step.seconds))

    def _at(self, seconds: float) -> int:
        return self.wall + int(seconds * _SECOND)
