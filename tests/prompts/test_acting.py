"""The replies of the baselines that search in turns, as models write them: what is read, and what is refused."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.prompts.book import PromptBook
from polyhop.prompts.parsing import Malformed
from polyhop.prompts.prompt import Rendering
from polyhop.prompts.tasks.acting import ACTIONS, Continuation, Move, read_action
from polyhop.prompts.tasks.answers import Response
from polyhop.prompts.tasks.decomposition import Decomposition, Valuation

BOOK = PromptBook()
STEP = {"thought": "Who?", "action": "Search", "argument": "maker", "passages": []}
TASKS = (
    "react.act", "react.finish", "toolformer.write", "toolformer.finish", "tot_ir.propose", "tot_ir.value",
    "tot_ir.answer", "plan_solve_ir.plan", "plan_solve_ir.solve",
)  # fmt: skip
FIELDS: dict[str, dict[str, Any]] = {
    "react.act": {"question": "Q", "steps": [STEP]},
    "react.finish": {"question": "Q", "steps": [STEP]},
    "toolformer.write": {"question": "Q", "written": []},
    "toolformer.finish": {"question": "Q", "written": []},
    "tot_ir.propose": {"question": "Q", "history": [], "count": 3},
    "tot_ir.value": {"question": "Q", "history": [], "sub_question": "Who?", "passages": []},
    "tot_ir.answer": {"question": "Q", "history": [], "passages": []},
    "plan_solve_ir.plan": {"question": "Q"},
    "plan_solve_ir.solve": {"question": "Q", "plan": ["Who?"], "passages": []},
}


def read(task: str, text: str, rendering: Rendering = "text") -> Any:
    return BOOK[task].read(text, FIELDS[task], rendering)


# --- ReAct -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "thought", "action", "argument"),
    [
        ("Thought 2: Ann.\nAction 2: Search[Ann Lee]", "Ann.", "Search", "Ann Lee"),
        ("Thought: Ann.\nAction: Lookup[born]", "Ann.", "Lookup", "born"),
        ("Action 2: Finish[Rome]", None, "Finish", "Rome"),
        ("**Thought 2:** Ann.\n**Action 2:** Search[Ann Lee]", "Ann.", "Search", "Ann Lee"),
        ("**Action 2**: **Search[Ann Lee]**", None, "Search", "Ann Lee"),
        ("Action 2: `Search[Ann Lee]`", None, "Search", "Ann Lee"),
        ("Ann made it, so who?\nAction 2: search[Ann Lee]", "Ann made it, so who?", "Search", "Ann Lee"),
        ("Action 2: Look up[born]", None, "Lookup", "born"),
        ("Action 2: LookUp[born]", None, "Lookup", "born"),
        ("Action 2: Search(Ann Lee (singer))", None, "Search", "Ann Lee (singer)"),
        ('Action 2: Search("Ann Lee")', None, "Search", "Ann Lee"),
        ('Action 2: Search "Ann Lee"', None, "Search", "Ann Lee"),
        ("Action 2: Search: Ann Lee", None, "Search", "Ann Lee"),
        ("Action 2: Search\nAction Input 2: Ann Lee", None, "Search", "Ann Lee"),
        ("Action 2:\nSearch[Ann Lee]", None, "Search", "Ann Lee"),
        ("I should Search[Ann Lee].", "I should", "Search", "Ann Lee"),
        ("Search[Ann Lee", None, "Search", "Ann Lee"),  # cut off
        ("Action 2: Finish[Opus 3 [sic]]", None, "Finish", "Opus 3 [sic]"),
        ("Action 2: Search[Ann Lee] and then Lookup[born]", None, "Search", "Ann Lee"),
        # what comes after the first action is made up
        ("Action 2: Search[Ann]\nObservation 2: Rome.\nAction 3: Finish[Rome]", None, "Search", "Ann"),
        # an action inside a thought is not taken
        ("Thought 2: Search[a] gave it.\nAction 2: Finish[Rome]", "Search[a] gave it.", "Finish", "Rome"),
        # an action without a word is none
        ("Action 2: Lookup[]\nAction 2: Finish[Rome]", "Action 2: Lookup[]", "Finish", "Rome"),
        ("Ann was born in Rome. So the final answer is Rome.", "Ann was born in Rome.", "Finish", "Rome"),
        ('{"action": "search", "argument": "Ann Lee"}', None, "Search", "Ann Lee"),
        ('{"thought": "Who?", "action": " Lookup ", "argument": 1931}', "Who?", "Lookup", "1931"),
    ],
)  # fmt: skip
def test_a_move_is_read(text: str, thought: str | None, action: str, argument: str) -> None:
    assert read("react.act", text).model_dump() == {"thought": thought, "action": action, "argument": argument}


@pytest.mark.parametrize(
    "text", ["Ann Lee", "Thought 2: I should search.", "Action 2: Search[]", "Action 2: Walk[Rome]"]
)
def test_a_reply_without_an_action_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match=r"Search\[<query>\], Lookup\[<keyword>\] or Finish\[<answer>\]"):
        read("react.act", text)


def test_a_json_action_that_is_none_is_refused() -> None:
    for text in ('{"action": "Walk", "argument": "Rome"}', '{"action": "Search", "argument": ""}', '{"thought": "x"}'):
        with pytest.raises(Malformed):
            read("react.act", text, "json")


@pytest.mark.parametrize(
    ("text", "rationale", "answer"),
    [
        ("Thought 4: So it is.\nAction 4: Finish[Rome]", "So it is.", "Rome"),
        ("Finish[Rome]", None, "Rome"),
        ("Action 4: Search[more]\nAction 5: Finish[Rome]", "Action 4: Search[more]", "Rome"),
        ("She was born there. The answer is Rome.", "She was born there.", "Rome"),
        ("Rome", None, "Rome"),
    ],
)
def test_the_last_action_finishes(text: str, rationale: str | None, answer: str) -> None:
    assert read("react.finish", text).model_dump() == {"rationale": rationale, "answer": answer}


@pytest.mark.parametrize("text", ["Action 4: Search[more]", "Lookup[born]", "Finish[]", "Hm.\nLet me see."])
def test_at_the_end_another_action_is_no_answer(text: str) -> None:
    with pytest.raises(Malformed, match="Finish"):
        read("react.finish", text)


def test_only_the_named_actions_are_found() -> None:
    assert read_action("Action 1: Retrieve[Rome]") is None
    found = read_action("Action 1: Retrieve[Rome]", (*ACTIONS, "Retrieve"))
    assert found is not None
    assert (found.name, found.argument) == ("Retrieve", "Rome")


# --- Toolformer --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "before", "query"),
    [
        ('It was made by [Search("Who made it?")]', "It was made by", "Who made it?"),
        ('It was made by [Search("Who made it?") → Ann] Ann. The answer is Ann.', "It was made by", "Who made it?"),
        ("It was made by [Search(Who made it?)]", "It was made by", "Who made it?"),
        ("It was made by [Search(Who made it?) -> Ann]", "It was made by", "Who made it?"),
        ('It was made by [Search("Who made it?"', "It was made by", "Who made it?"),
        ('[WikiSearch("Mill (film)")]', None, "Mill (film)"),
        ('It was made by [Search: "Who made it?"]', "It was made by", "Who made it?"),
        ('Search("Who made it?")', None, "Who made it?"),
        ('`[Search("Who made it?")]`', None, "Who made it?"),
        ('[Search("")] Ann [Search("Who is Ann?")]', '[Search("")] Ann', "Who is Ann?"),
    ],
)
def test_a_call_is_read(text: str, before: str | None, query: str) -> None:
    assert read("toolformer.write", text).model_dump() == {"text": before, "query": query, "answer": None}


@pytest.mark.parametrize(
    ("text", "before", "answer"),
    [
        ("She was born in Rome. The answer is Rome.", "She was born in Rome.", "Rome"),
        ("Rome", None, "Rome"),
        ("The search (long) was for Rome. The answer is Rome.", "The search (long) was for Rome.", "Rome"),
    ],
)
def test_a_text_without_a_call_ends_with_the_answer(text: str, before: str | None, answer: str) -> None:
    assert read("toolformer.write", text).model_dump() == {"text": before, "query": None, "answer": answer}


def test_a_text_without_call_or_answer_is_refused() -> None:
    with pytest.raises(Malformed, match="Search"):
        read("toolformer.write", "It was made.\nAnd then it was shown.")


# --- Tree of Thoughts, Plan-and-Solve ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "answer", "value"),
    [
        ("Finding: Ann Lee\nValue: likely", "Ann Lee", "likely"),
        ("**Finding:** Ann Lee\n**Value:** Sure.", "Ann Lee", "sure"),
        ("Finding: none\nValue: impossible", None, "impossible"),
        ("Value: sure\nFinding: Rome", "Rome", "sure"),
        ("The film is by Ann Lee.\nlikely", None, "likely"),
        ("It is not sure yet, but likely.", None, "likely"),
        ("Is it sure or impossible? It is likely.", None, "likely"),
        ('{"answer": "Ann", "value": "Likely"}', "Ann", "likely"),
        ('{"answer": "N/A", "value": "impossible"}', None, "impossible"),
    ],
)
def test_a_value_is_read(text: str, answer: str | None, value: str) -> None:
    assert read("tot_ir.value", text).model_dump() == {"answer": answer, "value": value}


@pytest.mark.parametrize("text", ["Finding: Ann Lee", "Value: high", "surely"])
def test_no_value_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match="Value"):
        read("tot_ir.value", text)


@pytest.mark.parametrize("task", ["tot_ir.propose", "plan_solve_ir.plan"])
def test_questions_are_read_off_a_list(task: str) -> None:
    assert read(task, "Sure:\n1. Who made it?\n2. Where was Ann born?").sub_questions == [
        "Who made it?",
        "Where was Ann born?",
    ]
    with pytest.raises(Malformed):
        read(task, "I do not know.")


# --- whatever is written -----------------------------------------------------------------------------------------

LINE = st.text("abcXYZ 019.,'-", min_size=1, max_size=20).map(str.strip).filter(lambda text: text.strip(" .,'-"))
WORD = LINE.filter(lambda text: text.lower().rstrip(".") not in ("none", "null", "na"))
SAME_EACH_TIME = settings(max_examples=150, deadline=None, derandomize=True, database=None)


@SAME_EACH_TIME
@given(
    thought=st.none() | WORD.map(lambda text: f"x {text}"),
    action=st.sampled_from(ACTIONS),
    argument=WORD.map(lambda text: f"x {text} x"),
)
def test_a_move_written_is_read_back(thought: str | None, action: str, argument: str) -> None:
    move = Move.model_validate({"thought": thought, "action": action, "argument": argument})
    written = BOOK["react.act"].task.write_text(move, FIELDS["react.act"])
    assert written.splitlines()[-1].startswith("Action 2: ")
    read_back = read("react.act", written).model_dump()
    assert {name: " ".join((value or "").split()) for name, value in read_back.items()} == {
        name: " ".join((value or "").split()) for name, value in move.model_dump().items()
    }


PIECES = [
    "Thought 1:", "Action 1:", "Action Input:", "Search[", "Lookup", "Finish[", "]", "[", "(", ")", '"', "→", "\n",
    "[Search(", "Search:", "Value:", "sure", "not likely", "Finding:", "1.", "- ", "The answer is", "{", "}", "```",
    '{"action": "search", "argument": "x"}', "Observation 1:", "ActionPath 1: Start->Search[x]",
]  # fmt: skip


@SAME_EACH_TIME
@given(text=st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=12).map(" ".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    for task in TASKS:
        for rendering in get_args(Rendering):
            try:
                output = read(task, text, rendering)
            except Malformed:
                continue
            assert isinstance(output, (Move, Response, Continuation, Decomposition, Valuation))
            assert output.missing() is None
