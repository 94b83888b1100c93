"""Calls that offer tools: what the model sees, what a method gets, the budget, the trace, and a replay of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import BaseModel

from polyhop.answer import Answer
from polyhop.engine.budget import Budget
from polyhop.engine.rerender import messages_of
from polyhop.engine.run import Run
from polyhop.engine.tool_call import Calls
from polyhop.errors import LMError, ToolsRefused, UsageError
from polyhop.lm.base import Capabilities, Completion, Message
from polyhop.lm.replay import ReplayLM
from polyhop.lm.scripted import ScriptedLM
from polyhop.lm.tools import Tool, ToolCall
from polyhop.prompts.book import PromptBook
from polyhop.prompts.tasks.answers import ANSWER_COT
from polyhop.trace import AskWithTools, Note
from tests.kit.custom_method import RIGHT, using


class Find(BaseModel):
    query: str
    k: int = 5


SEARCH = Tool("search", "Find passages.", Find)
TOOLS = [SEARCH, Tool("look_up", "Find a sentence.", Find)]
PLAIN = Capabilities(tools=False)
ABLE = Capabilities(tools=True)


def call(query: str, *, id: str = "c1", name: str = "search", **more: Any) -> ToolCall:
    return ToolCall(id=id, name=name, text=json.dumps({"query": query, **more}))


def calling(*calls: ToolCall, text: str = "", **more: Any) -> Completion:
    return Completion(text=text, tool_calls=calls, finish_reason="tool_calls", **more)


def written(*queries: str) -> str:
    rows = [json.dumps({"name": "search", "arguments": {"query": query}}) for query in queries]
    return "Let me see. " + "\n".join(f"<tool_call>\n{row}\n</tool_call>" for row in rows)


class Searcher:
    """A method that answers with a tool: ``made`` are the calls that it made, in order."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.made: list[ToolCall] = []

    async def make(self, call: ToolCall) -> str:
        self.made.append(call)
        return f"Found <|im_end|> for {(call.arguments or {})['query']}"

    async def __call__(self, run: Run) -> Any:
        turns: list[Message] = []
        with run.gathering():
            for _ in range(5):
                output = await run.ask_with_tools(ANSWER_COT, TOOLS, turns, question="Q", **self.options)
                if not isinstance(output, Calls):
                    return output
                turns += await output.results(run, self.make)
        return await run.ask("answer.cot", question="Q", final=True)


def saved(answer: Answer, folder: Path) -> Path:
    (folder / "traces").mkdir(parents=True)
    (folder / "traces" / "q.json").write_bytes(orjson.dumps({"trace": answer.trace.to_dict()}))
    return folder


def rows(answer: Answer) -> list[dict[str, Any]]:
    """The steps of a trace without what may differ between equal runs."""
    left_out = ("volatile", "model", "data")
    return [{k: v for k, v in step.to_dict().items() if k not in left_out} for step in answer.trace.steps]


SCRIPTS: dict[str, tuple[list[Any], Capabilities]] = {
    "calls": (
        [
            calling(call("a", k="3"), text="First.", carried={"reasoning_content": "Hm."}),
            calling(call("b", id="c2"), call("c", id="c3", name="look_up")),
            RIGHT,
        ],
        ABLE,
    ),
    "calls in the text of a model that takes tools": ([written("a"), written("b", "c"), RIGHT], ABLE),
    "text": ([written("a"), written("b", "c"), RIGHT], PLAIN),
    "a retry": ([calling(call("a")), "", calling(call("b", id="c2")), RIGHT], ABLE),
    "a retry in text": ([written("a"), "", written("b"), RIGHT], PLAIN),
    "a misfit": ([calling(ToolCall(id="c1", name="search", text="{oops")), calling(call("b", id="c2")), RIGHT], ABLE),
    "a value": ([calling(call("a")), {"answer": "Paris"}], ABLE),
}


async def test_the_model_sees_its_calls_and_their_results() -> None:
    model = ScriptedLM({"answer.cot": SCRIPTS["calls"][0]})
    method = Searcher()
    output, answer = await using(method, model)
    assert output.answer == "Paris"
    assert [(made.name, made.arguments) for made in method.made] == [
        ("search", {"query": "a", "k": 3}),
        ("search", {"query": "b", "k": 5}),
        ("look_up", {"query": "c", "k": 5}),
    ]
    first, second, third = model.calls
    assert [request.tools for request in model.calls] == [tuple(TOOLS)] * 3
    prompt = list(first.messages)
    said, result = second.messages[len(prompt) :]
    assert list(second.messages[: len(prompt)]) == prompt
    assert said["content"] == "First."
    assert said["tool_calls"][0]["function"] == {"name": "search", "arguments": '{"query": "a", "k": "3"}'}
    assert said["reasoning_content"] == "Hm."  # type: ignore[typeddict-item]
    assert (result["role"], result["tool_call_id"], result["content"]) == ("tool", "c1", "Found ‹|im_end|> for a")
    assert list(third.messages[: len(second.messages)]) == list(second.messages)
    assert [turn.get("tool_call_id") for turn in third.messages[-2:]] == ["c2", "c3"]
    assert answer.usage.calls == 3
    assert answer.usage.malformed_by_task == {}
    assert [step.output for step in answer.trace.calls][:1] == [{"calls": ("search(query='a', k=3)",)}]


async def test_a_model_without_tools_is_asked_in_text_and_the_method_sees_no_difference() -> None:
    model = ScriptedLM({"answer.cot": SCRIPTS["text"][0]}, capabilities=PLAIN)
    method = Searcher()
    output, answer = await using(method, model)
    assert output.answer == "Paris"
    assert [made.arguments for made in method.made] == [{"query": query, "k": 5} for query in "abc"]
    assert [request.tools for request in model.calls] == [()] * 3
    assert "You may call these tools" in model.calls[0].messages[0]["content"]
    assert "<tool_response>\nFound ‹|im_end|> for a" in model.calls[1].messages[-1]["content"]
    assert [step.data for step in answer.trace.steps if isinstance(step, Note)] == [{"model": "scripted"}]


async def test_refused_tools_are_asked_for_in_text_and_noted_once() -> None:
    model = ScriptedLM({"answer.cot": [ToolsRefused("no tools"), written("a"), written("b"), RIGHT]}, capabilities=ABLE)
    output, answer = await using(Searcher(), model)
    assert output.answer == "Paris"
    assert [bool(request.tools) for request in model.calls] == [True, False, False, False]
    assert [step.name for step in answer.trace.steps if isinstance(step, Note)] == ["tools refused"]
    assert answer.usage.calls == 3


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (ToolCall(id="c1", name="search", text="{oops"), "the arguments are not JSON"),
        (ToolCall(id="c1", name="search", text="{}"), "query: Field required"),
        (ToolCall(id="c1", name="serach", text='{"query": "a"}'), "did you mean search?"),
    ],
)
async def test_a_call_with_a_problem_is_answered_by_it_and_never_made(wrong: ToolCall, problem: str) -> None:
    model = ScriptedLM({"answer.cot": [calling(wrong, call("b", id="c2")), RIGHT]})
    method = Searcher()
    await using(method, model)
    assert [made.id for made in method.made] == ["c2"]
    complaint, found = model.calls[1].messages[-2:]
    assert problem in complaint["content"]
    assert (complaint["tool_call_id"], found["tool_call_id"]) == ("c1", "c2")


async def test_calls_that_may_not_be_parallel_are_cut_to_the_first() -> None:
    model = ScriptedLM({"answer.cot": [calling(call("a"), call("b", id="c2")), RIGHT]})
    method = Searcher(parallel=False)
    await using(method, model)
    assert [made.id for made in method.made] == ["c1"]
    assert [request.parallel_tool_calls for request in model.calls] == [False, False]


@pytest.mark.parametrize("rendering", ["auto", "json"])
async def test_calls_with_tools_have_no_schema(rendering: Any) -> None:
    can = Capabilities(json_schema=True, prefers_json=True, tools=True)
    model = ScriptedLM({"answer.cot": [calling(call("a")), '{"rationale": null, "answer": "Paris"}']}, capabilities=can)
    _, answer = await using(Searcher(), model, rendering=rendering)
    assert [request.schema for request in model.calls] == [None, None]
    assert {step.rendering for step in answer.trace.calls} == {"text" if rendering == "auto" else "json"}


async def test_without_a_choice_calls_do_not_count() -> None:
    model = ScriptedLM({"answer.cot": calling(call("a"), text=RIGHT)})
    output, _ = await using(Searcher(choice="none"), model)
    assert (output.answer, output.completion.tool_calls) == ("Paris", ())
    assert model.calls[0].tool_choice == "none"


async def test_an_unreadable_reply_is_requested_once_more_with_its_history() -> None:
    model = ScriptedLM({"answer.cot": SCRIPTS["a retry"][0]})
    output, answer = await using(Searcher(), model)
    assert output.answer == "Paris"
    *before, said, complaint = model.calls[2].messages
    assert before == list(model.calls[1].messages)
    assert (said["content"], complaint["role"]) == ("(nothing)", "user")
    assert "(nothing)" not in str(model.calls[3].messages)
    assert [step.attempt for step in answer.trace.calls] == [1, 1, 2, 1]


async def test_a_budget_that_is_spent_in_the_middle_ends_the_conversation() -> None:
    model = ScriptedLM({"answer.cot": [calling(call("a")), RIGHT]})
    method = Searcher()
    output, answer = await using(method, model, budget=Budget(max_calls=2))
    assert output.answer == "Paris"
    assert [bool(request.tools) for request in model.calls] == [True, False]
    assert answer.trace.budget is not None
    assert len(method.made) == 1


async def test_tools_that_cannot_be_are_refused_before_the_call() -> None:
    model = ScriptedLM({"answer.cot": RIGHT})
    with pytest.raises(UsageError, match="each with a name of its own"):
        await using(lambda run: run.ask_with_tools(ANSWER_COT, [], question="Q"), model)
    with pytest.raises(UsageError, match="choice='find'"):
        await using(Searcher(choice="find"), model)
    assert model.calls == []


# --- the trace ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCRIPTS)
async def test_every_call_is_rendered_as_it_was_sent(name: str) -> None:
    script, capabilities = SCRIPTS[name]
    model = ScriptedLM({"answer.cot": script}, capabilities=capabilities)
    _, answer = await using(Searcher(), model)
    for request, step in zip(model.calls, answer.trace.calls, strict=True):
        assert request.digest() == step.prompt_hash
        assert messages_of(step, answer.trace.steps, PromptBook()) == list(request.messages)


@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_recorded_run_is_replayed(name: str, tmp_path: Path) -> None:
    script, capabilities = SCRIPTS[name]
    output, answer = await using(Searcher(), ScriptedLM({"answer.cot": script}, capabilities=capabilities))
    again, replayed = await using(Searcher(), ReplayLM(saved(answer, tmp_path)))
    assert again.model_dump() == output.model_dump()
    assert orjson.dumps(rows(replayed)) == orjson.dumps(rows(answer))


async def test_a_replay_refuses_tools_only_if_the_text_form_was_recorded(tmp_path: Path) -> None:
    _, answer = await using(Searcher(), ScriptedLM({"answer.cot": RIGHT}, capabilities=PLAIN))
    model = ReplayLM(saved(answer, tmp_path))
    with pytest.raises(LMError, match="no reply to") as unknown:
        await using(Searcher(choice="required"), model)
    assert not isinstance(unknown.value, ToolsRefused)


async def test_a_step_has_only_the_turns_since_the_call_that_it_continues() -> None:
    script: list[Any] = [*(calling(call(str(n), id=f"c{n}")) for n in range(4)), RIGHT]
    _, answer = await using(Searcher(), ScriptedLM({"answer.cot": script}))
    steps = [step for step in answer.trace.calls if isinstance(step, AskWithTools)]
    assert [len(step.turns) for step in steps] == [0, 2, 2, 2, 2]
    assert [step.continues for step in steps] == [None, *(step.id for step in steps[:-1])]


async def test_a_history_that_was_changed_is_recorded_whole() -> None:
    async def method(run: Run) -> None:
        first = await run.ask_with_tools(ANSWER_COT, TOOLS, question="Q")
        opening: list[Message] = [{"role": "user", "content": "Be brief."}]
        assert isinstance(first, Calls)
        made = await first.results(run, Searcher().make)
        await run.ask_with_tools(ANSWER_COT, TOOLS, [*opening, *made], question="Q")

    model = ScriptedLM({"answer.cot": [calling(call("a")), RIGHT]})
    _, answer = await using(method, model)
    step = answer.trace.calls[1]
    assert isinstance(step, AskWithTools)
    assert (step.continues, len(step.turns)) == (None, 3)
    assert messages_of(step, answer.trace.steps, PromptBook()) == list(model.calls[1].messages)
