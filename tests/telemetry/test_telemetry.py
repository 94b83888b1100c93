"""OpenTelemetry receives the spans of a question with their parents and times, and no texts unless asked to."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from polyhop.answer import Answer
from polyhop.engine.engine import Engine
from polyhop.engine.models import Models
from polyhop.engine.run import Run
from polyhop.engine.tool_call import Calls
from polyhop.errors import LMError, SettingError
from polyhop.evaluation.runner import evaluate
from polyhop.lm.base import Capabilities, Completion, TokenUsage
from polyhop.lm.openai import OpenAICompatible
from polyhop.lm.scripted import ScriptedLM
from polyhop.lm.tools import Tool, ToolCall
from polyhop.pipeline import Pipeline
from polyhop.prompts.tasks.answers import ANSWER_COT
from polyhop.telemetry import traced
from polyhop.telemetry.attributes import MAX_CHARACTERS, content_of, describe
from polyhop.telemetry.tracing import CAPTURE, captures_content
from polyhop.trace import Ask, Branch, Note, Readout, Score, Searched
from polyhop.types import Passage, Question, Span
from tests.kit.custom_method import RIGHT, using
from tests.kit.random_world import still
from tests.kit.scene import Scene

pytestmark = pytest.mark.extra

SCENE = {
    "hits": {"Q": "a b", "next": "c"},
    "reviews": {"a": "search next", "b": "unreadable", "a c": "accept Rome"},
    "answer": "Rome",
}


class Exporter:
    """A tracer provider that keeps its spans in memory."""

    def __init__(self, sampler: Any = None) -> None:
        sdk = pytest.importorskip("opentelemetry.sdk.trace")
        export = pytest.importorskip("opentelemetry.sdk.trace.export")
        memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
        self._kept = memory.InMemorySpanExporter()
        self.provider = sdk.TracerProvider(sampler=sampler, shutdown_on_exit=False)
        self.provider.add_span_processor(export.SimpleSpanProcessor(self._kept))

    @property
    def spans(self) -> list[Any]:
        return list(self._kept.get_finished_spans())

    @property
    def root(self) -> Any:
        (root,) = (span for span in self.spans if span.name.startswith("invoke_workflow"))
        return root

    def of(self, answer: Answer) -> dict[int, Any]:
        """The spans of a trace's steps, by step."""
        steps = {span.attributes["polyhop.step"]: span for span in self.spans if span is not self.root}
        assert steps.keys() == {step.id for step in answer.trace.steps if not isinstance(step, Note)}
        return steps


@pytest.fixture
def exporter() -> Exporter:
    return Exporter()


async def played(
    exporter: Exporter, method: str = "tor", *, content: bool = False, **arguments: Any
) -> tuple[Answer, Scene]:
    scene = Scene(**SCENE)  # type: ignore[arg-type]
    async with Pipeline(method=method, lm=scene.model, retriever=scene._search, **arguments) as pipeline:
        traced(pipeline, corpus="wiki", provider=exporter.provider, content=content)
        return await pipeline.aask("Q"), scene


def seconds(span: Any) -> tuple[float, float]:
    return span.start_time / 1e9, span.end_time / 1e9


async def test_a_question_is_a_tree_of_spans_with_the_times_of_its_steps(exporter: Exporter) -> None:
    before = time.time()
    answer, _ = await played(exporter)
    after = time.time()
    assert answer.text == "Rome"
    root, spans = exporter.root, exporter.of(answer)
    began, ended = seconds(root)
    assert before <= began <= ended <= after + 0.001
    assert root.parent is None
    for step in answer.trace.steps:
        if isinstance(step, Note):
            continue
        span = spans[step.id]
        above = root if step.parent is None else spans[step.parent]
        assert span.parent.span_id == above.context.span_id
        assert span.context.trace_id == root.context.trace_id
        assert seconds(span) == pytest.approx((began + step.started, began + step.started + step.seconds), abs=1e-5)
        assert seconds(above)[0] - 1e-5 <= seconds(span)[0] <= seconds(span)[1] <= seconds(above)[1] + 1e-3
        assert tuple(span.attributes["polyhop.after"]) == step.after


async def test_names_kinds_and_attributes_follow_the_conventions(exporter: Exporter) -> None:
    answer, _ = await played(exporter)
    root, spans = exporter.root, exporter.of(answer)
    assert root.name == "invoke_workflow tor"
    assert root.kind.name == "INTERNAL"
    assert root.attributes["gen_ai.operation.name"] == "invoke_workflow"
    assert root.attributes["gen_ai.workflow.name"] == "tor"
    assert root.attributes["polyhop.supported"] is answer.supported
    assert root.attributes["polyhop.calls"] == answer.usage.calls
    assert root.status.status_code.name == "UNSET"
    for step in answer.trace.steps:
        span: Any = spans.get(step.id)
        match step:
            case Ask():
                assert span.name == "chat scripted"
                assert span.attributes["gen_ai.operation.name"] == "chat"
                assert span.attributes["gen_ai.provider.name"] == "polyhop"
                assert span.attributes["gen_ai.request.model"] == "scripted"
                assert span.attributes["gen_ai.response.finish_reasons"] == ("stop",)
                assert span.attributes["gen_ai.usage.input_tokens"] == step.prompt_tokens
                assert span.attributes["gen_ai.usage.output_tokens"] == step.completion_tokens
                assert span.attributes["polyhop.task"] == step.task
                assert span.attributes["polyhop.readable"] is (step.output is not None)
                assert span.kind.name == "INTERNAL"  # in this process
            case Searched():
                assert span.name == "retrieval wiki"
                assert span.attributes["gen_ai.operation.name"] == "retrieval"
                assert span.attributes["gen_ai.data_source.id"] == "wiki"
                assert span.attributes["gen_ai.request.top_k"] == step.k
                assert span.attributes["polyhop.passages"] == len(step.passages)
                assert span.kind.name == "CLIENT"
            case Branch():
                assert span.name == step.name
                assert span.attributes["polyhop.verdict"] == step.verdict
    read = [span.attributes.get("polyhop.readable") for span in spans.values()]
    assert False in read  # the scene has a reply that cannot be read
    spent = sum(span.attributes.get("gen_ai.usage.input_tokens", 0) for span in spans.values())
    assert spent == answer.usage.prompt_tokens


async def test_no_text_is_exported_by_default(exporter: Exporter) -> None:
    secrets = ["Zanzibar", "Kilimanjaro", "Serengeti", "Ngorongoro"]
    passage = Passage("p1", "Kilimanjaro", "Serengeti")
    model = ScriptedLM({"answer.read_cot": {"answer": "Ngorongoro"}, "answer.read": {"answer": "Ngorongoro"}})
    for content in (False, True):
        sink = Exporter()
        async with Pipeline(method="one-r", lm=model, retriever=lambda query, k: [passage]) as pipeline:
            await traced(pipeline, provider=sink.provider, content=content).aask("Where is Zanzibar?")
        everything = "".join(span.to_json() for span in sink.spans)
        assert [secret in everything for secret in secrets] == [content] * 4


async def test_messages_are_those_that_were_sent(exporter: Exporter) -> None:
    answer, scene = await played(exporter, content=True)
    spans = exporter.of(answer)
    sent = {request.digest(): request.messages for request in scene.model.calls}
    for call in answer.trace.calls:
        inputs = json.loads(spans[call.id].attributes["gen_ai.input.messages"])
        assert inputs == [
            {"role": turn["role"], "parts": [{"type": "text", "content": turn["content"]}]}
            for turn in sent[call.prompt_hash]
        ]
        (output,) = json.loads(spans[call.id].attributes["gen_ai.output.messages"])
        text = {"type": "text", "content": call.text}
        assert output == {"role": "assistant", "parts": [text], "finish_reason": "stop"}
    for search in answer.trace.searches:
        span = spans[search.id]
        assert span.attributes["gen_ai.retrieval.query.text"] == search.query
        found = json.loads(span.attributes["gen_ai.retrieval.documents"])
        assert [row["id"] for row in found] == [passage.id for passage in search.passages]
    (question,) = json.loads(exporter.root.attributes["gen_ai.input.messages"])
    assert question["parts"][0]["content"] == "Q"
    (found,) = json.loads(exporter.root.attributes["gen_ai.output.messages"])
    assert found["parts"][0]["content"] == "Rome"


class Query(BaseModel):
    query: str


async def test_tool_calls_and_their_results_are_parts_of_messages() -> None:
    async def method(run: Run) -> Any:
        tools = [Tool("search", "Find passages.", Query)]
        found = await run.ask_with_tools(ANSWER_COT, tools, question="Q")
        assert isinstance(found, Calls)
        turns = await found.results(run, lambda call: asyncio.sleep(0, "a passage"))
        return await run.ask_with_tools(ANSWER_COT, tools, turns, question="Q")

    called = ToolCall(id="c1", name="search", text='{"query": "Alien"}')
    reply = Completion(text="So:", tool_calls=(called,), finish_reason="tool_calls")
    model = ScriptedLM({"answer.cot": [reply, RIGHT]}, capabilities=Capabilities(tools=True))
    _, answer = await using(method, model)
    engine = Engine(models=Models({"default": model}))
    first, second = answer.trace.calls
    (output,) = json.loads(content_of(first, answer.trace.steps, engine)["gen_ai.output.messages"])
    call = {"type": "tool_call", "id": "c1", "name": "search", "arguments": {"query": "Alien"}}
    parts = [{"type": "text", "content": "So:"}, call]
    assert output == {"role": "assistant", "parts": parts, "finish_reason": "tool_call"}
    assert describe(first, engine, None).attributes["gen_ai.response.finish_reasons"] == ("tool_call",)
    *_, turn, result = json.loads(content_of(second, answer.trace.steps, engine)["gen_ai.input.messages"])
    assert turn == {"role": "assistant", "parts": parts}
    response = {"type": "tool_call_response", "id": "c1", "response": "a passage"}
    assert result == {"role": "tool", "parts": [response]}


async def test_reasoning_is_a_separate_part_before_the_text(exporter: Exporter) -> None:
    usage = TokenUsage(prompt_tokens=9, completion_tokens=4, reasoning_tokens=3)
    reply = Completion(text="Answer: Rome", reasoning="It must be Rome.", finish_reason="length", usage=usage)
    async with Pipeline(method="direct", lm=ScriptedLM(lambda task, fields: reply)) as pipeline:
        answer = await traced(pipeline, provider=exporter.provider, content=True).aask("Where?")
    (output,) = json.loads(exporter.of(answer)[0].attributes["gen_ai.output.messages"])
    assert [part["type"] for part in output["parts"]] == ["reasoning", "text"]
    attributes = exporter.of(answer)[0].attributes
    assert attributes["gen_ai.response.finish_reasons"] == ("length",)
    assert (attributes["gen_ai.usage.output_tokens"], attributes["gen_ai.usage.reasoning.output_tokens"]) == (4, 3)


async def test_notes_are_events_where_they_were_made(exporter: Exporter) -> None:
    answer, _ = await played(exporter, content=True, max_calls=2)
    note = next(step for step in answer.trace.steps if isinstance(step, Note))
    above = exporter.root if note.parent is None else exporter.of(answer)[note.parent]
    (event,) = (event for event in above.events if event.name == note.name)
    assert json.loads(event.attributes["polyhop.note"]) == dict(note.data)
    assert event.timestamp / 1e9 == pytest.approx(seconds(exporter.root)[0] + note.started, abs=1e-5)
    assert exporter.root.attributes["polyhop.budget_spent"] == "max_calls"


async def test_a_cached_reply_reports_no_tokens(exporter: Exporter, tmp_path: Any) -> None:
    for cached in (False, True):
        sink = Exporter()
        async with Pipeline(
            method="direct", lm=ScriptedLM({"answer.direct": "Rome"}), cache=tmp_path / "c"
        ) as pipeline:
            answer = await traced(pipeline, provider=sink.provider).aask("Where?")
        attributes = sink.of(answer)[0].attributes
        assert attributes["polyhop.cached"] is cached
        assert ("gen_ai.usage.input_tokens" in attributes) is not cached


async def test_a_failed_question_reports_its_steps_so_far(exporter: Exporter) -> None:
    def script(task: str, fields: Any) -> Any:
        return LMError("the server said: Zanzibar") if task == "tor.review" else {"answer": "Rome"}

    async with Pipeline(
        method="tor", lm=ScriptedLM(script), retriever=lambda query, k: [Passage("a", "A", "x")]
    ) as asked:
        traced(asked, provider=exporter.provider)
        with pytest.raises(LMError):
            await asked.aask("Q")
    assert exporter.root.status.status_code.name == "ERROR"
    assert exporter.root.attributes["error.type"] == "LMError"
    assert {span.name for span in exporter.spans} >= {"invoke_workflow tor", "retrieval"}
    assert "Zanzibar" not in "".join(span.to_json() for span in exporter.spans)


async def test_a_cancelled_question_is_reported(exporter: Exporter) -> None:
    async with Pipeline(method="direct", lm=ScriptedLM({"answer.direct": "Rome"}, latency=60)) as pipeline:
        traced(pipeline, provider=exporter.provider)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(pipeline.aask("Where?"), 0.01)
    assert exporter.root.attributes["error.type"] == "CancelledError"


async def test_concurrent_questions_have_their_own_parents(exporter: Exporter) -> None:
    tracer = exporter.provider.get_tracer("test")
    async with Pipeline(method="direct", lm=ScriptedLM({"answer.direct": "Rome"}, latency=0.001)) as pipeline:
        traced(pipeline, provider=exporter.provider)

        async def asked(name: str) -> None:
            with tracer.start_as_current_span(name):
                await pipeline.aask(f"Where is {name}?")

        await asyncio.gather(*map(asked, "abc"))
    by_id = {span.context.span_id: span for span in exporter.spans}
    roots = [span for span in exporter.spans if span.name == "invoke_workflow direct"]
    assert {by_id[root.parent.span_id].name for root in roots} == set("abc")
    for call in (span for span in exporter.spans if span.name == "chat scripted"):
        above = by_id[call.parent.span_id]
        assert above in roots
        assert call.context.trace_id == above.context.trace_id
    assert len(by_id) == 9


async def test_the_span_of_a_question_is_the_current_one_while_it_is_answered(exporter: Exporter) -> None:
    trace = pytest.importorskip("opentelemetry.trace")
    seen = []

    def script(task: str, fields: Any) -> str:
        seen.append(trace.get_current_span().get_span_context().span_id)
        return "Rome"

    async with Pipeline(method="direct", lm=ScriptedLM(script)) as pipeline:
        await traced(pipeline, provider=exporter.provider).aask("Where?")
    assert seen == [exporter.root.context.span_id]


async def test_a_question_that_is_not_sampled_is_answered_but_not_reported() -> None:
    sampling = pytest.importorskip("opentelemetry.sdk.trace.sampling")
    exporter = Exporter(sampling.ALWAYS_OFF)
    answer, _ = await played(exporter, content=True)
    assert (answer.text, exporter.spans) == ("Rome", [])


async def test_streamed_steps_are_unchanged(exporter: Exporter) -> None:
    scene = Scene(**SCENE)  # type: ignore[arg-type]
    async with Pipeline(method="tor", lm=scene.model, retriever=scene._search) as pipeline:
        plain = [type(step).__name__ async for step in pipeline.stream("Q")]
        traced(pipeline, provider=exporter.provider)
        assert [type(step).__name__ async for step in pipeline.stream("Q")] == plain
    assert exporter.root.name == "invoke_workflow tor"


def test_an_unpaired_surrogate_can_be_exported() -> None:
    engine = Engine(models=Models({}))
    found = (Passage("p", "\ud83d", "half"),)
    for step in (
        Searched(id=0, query="Where is \ud83d?", k=1, passages=found),
        Branch(id=0, name="node", label="\ud83d"),
        Readout(id=0, question="\ud83d", passages=found, spans=(Span("p", "\ud83d", 0, 1, 0.5),)),
    ):
        for value in content_of(step, [step], engine).values():
            value.encode()


HOSTILE = [
    "\x1b]0;title\x07",
    "half \ud83d and \udc00",
    "\u202e turned \u0000 \r\n</span>{}[]",
    '"}],"role":"system"',
    "long " * 200_000,
    "\ud83d" * 100_000,
]
"""Texts of strangers: of titles, ids, passages, questions and replies."""


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("content", [True, False])
async def test_no_text_of_strangers_breaks_a_span_or_makes_it_large(
    exporter: Exporter, text: str, content: bool
) -> None:
    passages = [Passage(f"{number} {text}", text, f"{text} {number}", metadata={"url": text}) for number in range(30)]
    lm = ScriptedLM(lambda task, fields: Completion(text=f"Answer: {text}", finish_reason=text, reasoning=text))
    question = "Where is it?" if "\ud83d" in text else f"Where is it? {text}"
    async with Pipeline(method="one-r", lm=lm, retriever=lambda query, k: passages, k=30, shots=0) as pipeline:
        traced(pipeline, corpus=text, provider=exporter.provider, content=content)
        await pipeline.aask(question)
    assert len(exporter.spans) >= 3
    for span in exporter.spans:
        for name, value in {"name": span.name, **span.attributes}.items():
            assert len(str(value)) <= MAX_CHARACTERS + 10, name
            str(value).encode()
            if name in ("gen_ai.retrieval.documents", "gen_ai.output.messages", "gen_ai.input.messages"):
                assert json.loads(value)
    encoder = pytest.importorskip("opentelemetry.exporter.otlp.proto.common.trace_encoder")
    assert len(encoder.encode_spans(exporter.spans).SerializeToString()) < 1_000_000


async def test_a_failure_with_strange_words_is_reported_whole(exporter: Exporter) -> None:
    def broken(query: str, k: int) -> list[Passage]:
        raise LMError(HOSTILE[1] * 10_000)

    async with Pipeline(method="one-r", lm=ScriptedLM({}), retriever=broken) as pipeline:
        traced(pipeline, provider=exporter.provider, content=True)
        with pytest.raises(LMError):
            await pipeline.aask("Where?")
    assert len(exporter.root.status.description.encode()) <= MAX_CHARACTERS


async def test_a_served_model_is_reported_by_name_and_server() -> None:
    model = OpenAICompatible("llama3:8b", url="https://llm.example:8443/v1", api_key="k", chat=False)
    async with Pipeline(method="direct", lm=model, seed=7) as pipeline:
        ask = Ask(id=0, task="answer.direct", model=model.name, fields={}, output={}, text="x")
        call = describe(ask, pipeline.engine, None)
        scored = Score(id=0, task="t", model=model.name, targets=("x",), logprobs=(0.0,), temperature=1.4)
        score = describe(scored, pipeline.engine, None)
    assert (call.name, call.is_remote) == ("text_completion llama3:8b", True)
    assert (score.name, score.is_remote) == ("score llama3:8b", True)
    assert score.attributes["gen_ai.request.temperature"] == 1.4
    assert call.attributes["gen_ai.provider.name"] == "openai"
    assert call.attributes["server.address"] == "llm.example"
    assert call.attributes["server.port"] == 8443
    assert call.attributes["gen_ai.request.seed"] == 7


@pytest.mark.parametrize(
    ("word", "on"),
    [
        *((word, True) for word in ("true", "SPAN_ONLY", "span_and_event")),
        *((word, False) for word in ("", "False", "NO_CONTENT", "EVENT_ONLY")),
    ],
)
def test_the_environment_opts_in_to_content(word: str, on: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CAPTURE, word)
    assert captures_content() is on


def test_an_unknown_value_in_the_environment_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CAPTURE, "yes")
    with pytest.raises(SettingError, match="SPAN_ONLY"):
        captures_content()


async def test_a_run_over_a_dataset_reports_each_question(
    exporter: Exporter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", exporter.provider)
    questions = [Question(str(number), f"Where is {number}?", ("Rome",)) for number in range(3)]
    lm = ScriptedLM({"answer.direct": {"answer": "Rome"}})
    for telemetry in (False, True):
        evaluate(questions, None, "direct", lm, out=tmp_path / str(telemetry), telemetry=telemetry)
    assert [span.name for span in exporter.spans].count("invoke_workflow direct") == 3
    plain, traced_too = (json.loads((tmp_path / name / "run.json").read_text()) for name in ("False", "True"))
    assert still(plain) == still(traced_too)


def asked(**environment: str) -> subprocess.CompletedProcess[str]:
    """``polyhop ask --telemetry``, in a process of its own."""
    pytest.importorskip("opentelemetry.sdk.trace")
    others = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    command = [sys.executable, "-m", "polyhop", "ask", "--telemetry", "--json", "--method", "direct", "Who is he?"]
    given = {**others, **environment}
    return subprocess.run(command, env=given, capture_output=True, text=True, timeout=300, check=False)


def test_spans_go_to_the_configured_exporter_and_results_to_stdout() -> None:
    done = asked(OTEL_TRACES_EXPORTER="console", OTEL_RESOURCE_ATTRIBUTES="deployment.environment=test")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["trace"]["method"] == "direct"
    parts = ("\n" + done.stderr).split("\n{")[1:]
    spans = [json.JSONDecoder().raw_decode("{" + part)[0] for part in parts]  # a word to the person may follow
    assert [span["name"] for span in spans] == ["chat pocket", "invoke_workflow direct"]
    assert spans[0]["resource"]["attributes"]["service.name"] == "polyhop"
    assert spans[0]["resource"]["attributes"]["deployment.environment"] == "test"


def test_an_unknown_exporter_is_an_error_that_suggests_the_nearest() -> None:
    done = asked(OTEL_TRACES_EXPORTER="consle")
    assert done.returncode == 2
    assert "did you mean 'console'?" in done.stderr
    assert "Traceback" not in done.stderr
