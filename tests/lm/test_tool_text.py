"""Tools as text: calls read from the forms that models write, and conversations for models that take no tools."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from polyhop.lm.base import Completion, Message, Request
from polyhop.lm.tool_text import MAX_CALLS, Written, in_text, read_calls, with_calls
from polyhop.lm.tool_turns import assistant_message, result_message
from polyhop.lm.tools import Tool, ToolCall


class Query(BaseModel):
    query: str
    k: int = 5
    titles: list[str] = []
    exact: bool = False
    year: int | None = None


class Empty(BaseModel):
    pass


SEARCH, DONE = Tool("search", "Find passages.", Query), Tool("done", "End.", Empty)
TOOLS = (SEARCH, DONE)
ALIEN = '{"query": "Alien"}'
CALL = '{"name": "search", "arguments": {"query": "Alien"}}'
LLAMA = '{"name": "search", "parameters": {"query": "Alien"}}'
XML = "<function=search>\n<parameter=query>\nAlien\n</parameter>\n</function>"


@pytest.mark.parametrize(
    "text",
    [
        f"<tool_call>\n{CALL}\n</tool_call>",
        f"<tool_call>{CALL}",
        f"<tool_call>\n{XML}\n</tool_call>",
        XML,
        "<tool_call><function=search><parameter=query>Alien</parameter></function></tool_call>",
        "<tool_call>\n<function=search>\n<parameter=query>\nAlien",
        f"[TOOL_CALLS][{CALL}]",
        f"[TOOL_CALLS] {CALL}",
        f"[TOOL_CALLS]search[ARGS]{ALIEN}",
        f"[TOOL_CALLS]search[CALL_ID]a1b2c3d4e[ARGS]{ALIEN}",
        f"[TOOL_CALLS]search{ALIEN}",
        f"<|python_tag|>{LLAMA}",
        LLAMA,
        CALL,
        f"[{CALL}]",
        f"```json\n{CALL}\n```",
        '{"type": "function", "function": {"name": "search", "arguments": {"query": "Alien"}}}',
        '{"type": "function", "name": "search", "parameters": {"query": "Alien"}}',
        '{"function": "search", "parameters": {"query": "Alien"}}',
        f"[TOOL_REQUEST]{CALL}[END_TOOL_REQUEST]",
    ],
)
def test_a_call_is_read_in_every_form(text: str) -> None:
    assert read_calls(text, TOOLS) == ("", [Written("search", ALIEN)])
    assert read_calls(f"  {text}\n", TOOLS) == ("", [Written("search", ALIEN)])


@pytest.mark.parametrize(
    "text",
    [
        f"<tool_call>\n{CALL}\n</tool_call>\n<tool_call>\n{CALL}\n</tool_call>",
        f"<tool_call>{CALL}<tool_call>{CALL}",
        f"<tool_call>\n{CALL}\n{CALL}\n</tool_call>",
        f"<tool_call>\n{XML}\n</tool_call>\n<tool_call>\n{XML}\n</tool_call>",
        f"<tool_call>\n{XML}\n{XML}\n</tool_call>",
        f"[TOOL_CALLS][{CALL}, {CALL}]",
        f"[TOOL_CALLS]search[ARGS]{ALIEN}[TOOL_CALLS]search[ARGS]{ALIEN}",
        f"<|python_tag|>{LLAMA}; {LLAMA}",
        f"{LLAMA}; {LLAMA}",
        f"[{CALL}, {CALL}]",
        f"{CALL}\n{CALL}",
    ],
)
def test_parallel_calls_are_read(text: str) -> None:
    assert read_calls(text, TOOLS) == ("", 2 * [Written("search", ALIEN)])


def test_the_text_around_marked_calls_is_kept() -> None:
    text = f"I search first.\n\n<tool_call>\n{CALL}\n</tool_call>\nThen I read."
    assert read_calls(text, TOOLS) == ("I search first.\n\n\nThen I read.", [Written("search", ALIEN)])


@pytest.mark.parametrize(
    "text",
    [
        "The answer is Paris.",
        "",
        '{"answer": "Paris"}',
        '{"name": "Paris", "arguments": {}}',  # no tool of this name, and no mark
        f"It could be called as {CALL}.",
        f"{CALL}\nThat was a call.",
        '{"name": "search"}',
        "[1, 2]",
        "[]",
        "{",
        "a function=search> b",
    ],
)
def test_other_text_is_no_call(text: str) -> None:
    assert read_calls(text, TOOLS) == (text, [])


def test_a_copy_of_the_instruction_is_no_call() -> None:
    copied = in_text(conversation()).messages[0]["content"].partition("filled in:\n")[2]
    assert read_calls(f"{copied}\n<tool_call>{CALL}</tool_call>", TOOLS)[1] == [Written("search", ALIEN)]
    assert read_calls(copied, TOOLS) == (copied, [])


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('<tool_call>{"name": "search", "arguments": {"query": "Ali</tool_call>', "search"),
        ("<tool_call>search Alien</tool_call>", ""),
        ("<tool_call></tool_call>", ""),
        ("[TOOL_CALLS]search[ARGS]{broken", "search"),
        ("<|python_tag|>print('x')", ""),
        ('<tool_call>{"arguments": {}}</tool_call>', ""),
        ("<tool_call>[[1]]</tool_call>", ""),
        ('<tool_call>{"name": 3}</tool_call>', ""),
    ],
)
def test_a_broken_call_is_a_call_with_a_problem(text: str, name: str) -> None:
    rest, (written,) = read_calls(text, TOOLS)
    assert (rest, written.name) == ("", name)
    assert ToolCall(id="c", name=written.name, text=written.text).checked([SEARCH]).problem


def test_parameters_in_xml_have_the_types_of_the_tool() -> None:
    values = {"query": "1984", "k": "3", "titles": '["a", "b"]', "exact": "true", "year": "1979", "other": "x y"}
    body = "".join(f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in values.items())
    _, (written,) = read_calls(f"<tool_call>\n<function=search>\n{body}</function>\n</tool_call>", TOOLS)
    read = {"query": "1984", "k": 3, "titles": ["a", "b"], "exact": True, "year": 1979, "other": "x y"}
    assert json.loads(written.text) == read


# --- properties -------------------------------------------------------------------------------------------------------

NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,20}", fullmatch=True)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
CALLS = st.lists(st.tuples(NAMES, st.dictionaries(st.text(), VALUES, max_size=3)), min_size=1, max_size=4)
FORMS: dict[str, Any] = {
    "hermes": lambda calls: "\n".join(
        f"<tool_call>\n{json.dumps({'name': name, 'arguments': given})}\n</tool_call>" for name, given in calls
    ),
    "mistral": lambda calls: "[TOOL_CALLS]" + json.dumps([{"name": n, "arguments": given} for n, given in calls]),
    "mistral 3": lambda calls: "".join(f"[TOOL_CALLS]{name}[ARGS]{json.dumps(given)}" for name, given in calls),
    "llama": lambda calls: (
        "<|python_tag|>" + "; ".join(json.dumps({"name": name, "parameters": given}) for name, given in calls)
    ),
    "lm studio": lambda calls: "".join(
        f"[TOOL_REQUEST]{json.dumps({'name': name, 'arguments': given}, ensure_ascii=False)}[END_TOOL_REQUEST]"
        for name, given in calls
    ),
}


@pytest.mark.parametrize("form", FORMS)
@given(calls=CALLS)
def test_what_a_model_writes_is_what_is_read(form: str, calls: list[tuple[str, dict[str, Any]]]) -> None:
    text, written = read_calls(FORMS[form](calls), [])
    assert text == ""
    assert [(call.name, json.loads(call.text)) for call in written] == calls


PIECES = ["<tool_call>", "</tool_call>", "<function=search>", "</function>", "<parameter=query>", "[TOOL_CALLS]"]
PIECES += ["[ARGS]", "<|python_tag|>", "[TOOL_REQUEST]", "{", "}", "[", "]", '"', ":", CALL, "search", "\n", "```"]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=12).map("".join))
def test_any_text_is_read_and_every_mark_is_taken_for_a_call(text: str) -> None:
    rest, written = read_calls(text, TOOLS)
    assert rest == text if not written else len(rest) < len(text)
    if not written:
        assert "<tool_call>" not in text
        assert "[TOOL_CALLS]" not in text
    for call in written:
        found = ToolCall(id="c", name=call.name, text=call.text).checked(TOOLS)
        assert (found.arguments is None) == bool(found.problem)


@pytest.mark.parametrize("piece", ["<tool_call>", "[TOOL_CALLS]", '<tool_call>{"a": ', "[[", "<function=a>", "[ARGS]{"])
def test_a_long_hostile_reply_is_read_in_time(piece: str) -> None:
    text = piece * (60_000 // len(piece))
    rest, written = read_calls(text, TOOLS)
    assert len(rest) + len(written) > 0


# --- conversations ----------------------------------------------------------------------------------------------------


def conversation(*more: Message, **changes: Any) -> Request:
    turns: list[Message] = [{"role": "system", "content": "Answer."}, {"role": "user", "content": "Who made Alien?"}]
    defaults = {"task": "t", "fields": {}, "messages": [*turns, *more], "tools": TOOLS}
    return Request(**{**defaults, **changes})


def said(*calls: tuple[str, str], text: str = "") -> Completion:
    made = tuple(ToolCall(id=f"c{i}", name=name, text=given) for i, (name, given) in enumerate(calls))
    return Completion(text=text, tool_calls=made, carried={"reasoning": "Hm."})


def test_definitions_are_part_of_the_instruction() -> None:
    asked = in_text(conversation())
    assert (asked.tools, asked.stop) == ((), ("<tool_response>",))
    system, user = asked.messages
    assert system["content"].startswith("Answer.\n\n# Tools\n")
    for tool in TOOLS:
        assert json.dumps(tool.definition["function"]) in system["content"]
    assert "You may write several calls" in system["content"]
    assert user == {"role": "user", "content": "Who made Alien?"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tool_choice": "required"}, "In your next reply, call a tool."),
        ({"tool_choice": "done"}, "In your next reply, call the tool done."),
        ({"parallel_tool_calls": False}, "Write one call at a time."),
    ],
)
def test_a_choice_is_put_in_words(changes: dict[str, Any], words: str) -> None:
    assert words in in_text(conversation(**changes)).messages[0]["content"]
    assert words not in in_text(conversation()).messages[0]["content"]


def test_a_conversation_without_a_system_turn_gets_one() -> None:
    assert in_text(conversation(messages=[])).messages[0]["role"] == "system"


def test_calls_and_results_become_turns_that_alternate() -> None:
    reply = said(("search", ALIEN), ("search", "{broken"), text="I search.")
    results = [result_message(call, f"result {call.id}") for call in reply.tool_calls]
    asked = in_text(conversation(assistant_message(reply), *results, {"role": "user", "content": "Go on."}))
    assert [turn["role"] for turn in asked.messages] == ["system", "user", "assistant", "user"]
    assert all(turn.keys() == {"role", "content"} for turn in asked.messages)
    assert asked.messages[2]["content"] == (
        f"I search.\n<tool_call>\n{CALL}\n</tool_call>\n"
        '<tool_call>\n{"name": "search", "arguments": "{broken"}\n</tool_call>'
    )
    assert asked.messages[3]["content"] == (
        "<tool_response>\nresult c0\n</tool_response>\n\n<tool_response>\nresult c1\n</tool_response>\n\nGo on."
    )


@pytest.mark.parametrize(
    "mark", ["</tool_response>", "<tool_call>", "[TOOL_CALLS]", "[END_TOOL_REQUEST]", "<|im_end|>"]
)
def test_a_result_cannot_end_its_marks_or_look_like_a_call(mark: str) -> None:
    reply = said(("search", ALIEN))
    result = result_message(reply.tool_calls[0], f"a {mark} b")
    last = in_text(conversation(assistant_message(reply), result)).messages[-1]["content"]
    assert last.startswith("<tool_response>\na ")
    assert last.count("</tool_response>") == 1
    assert mark not in last.removesuffix("</tool_response>")


def test_the_last_reply_is_asked_for_without_tools_by_the_choice_none() -> None:
    asked = in_text(conversation(tool_choice="none"))
    assert (asked.messages[0]["content"], asked.stop) == ("Answer.", ())
    reply = Completion(text=f"<tool_call>{CALL}</tool_call>")
    assert with_calls(reply, conversation(tool_choice="none")) is reply


def test_a_reply_in_text_has_its_calls_with_ids_that_repeat() -> None:
    text = f"I search.\n<tool_call>\n{CALL}\n</tool_call>"
    reply = Completion(text=text, tokens=(text,), logprobs=(-1.0,))
    first, again = (with_calls(reply, conversation()) for _ in range(2))
    assert first == again
    assert (first.text, first.finish_reason, first.tokens) == ("I search.", "tool_calls", None)
    (call,) = first.tool_calls
    assert call.checked(TOOLS).arguments == {"query": "Alien", "k": 5, "titles": [], "exact": False, "year": None}


def test_a_reply_has_one_call_if_they_may_not_be_parallel_and_never_too_many() -> None:
    reply = Completion(text=f"<tool_call>{CALL}</tool_call>" * 100)
    assert len(with_calls(reply, conversation(parallel_tool_calls=False)).tool_calls) == 1
    assert len(with_calls(reply, conversation()).tool_calls) == MAX_CALLS


@pytest.mark.parametrize(
    "call", [f"<tool_call>{CALL}</tool_call>", "<tool_call>x ", "[TOOL_CALLS]", "<|python_tag|>x "]
)
def test_nothing_is_read_after_too_many_calls(call: str) -> None:
    text, calls = read_calls(f"I search. {call * MAX_CALLS}{call * 20_000} Done.", TOOLS)
    assert (text, len(calls)) == ("I search.", MAX_CALLS)


@pytest.mark.parametrize("reply", [Completion(text="Paris."), Completion(text="", value={"answer": "Paris"})])
def test_a_reply_without_calls_stays_as_it_is(reply: Completion) -> None:
    assert with_calls(reply, conversation()) is reply
