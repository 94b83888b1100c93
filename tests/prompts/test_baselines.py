"""The replies of the closed-book baselines and self-ask, as models write them: what is read, and what is refused."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.prompts.book import PromptBook
from polyhop.prompts.parsing import Malformed
from polyhop.prompts.prompt import Rendering
from polyhop.prompts.tasks import TASKS
from polyhop.prompts.tasks.decomposition import PlannedResponse
from polyhop.prompts.tasks.self_ask import FollowUp, FollowUps

BOOK = PromptBook()
PENDING = {"question": "Q", "passages": [], "history": [{"sub_question": "Who made it?", "answer": None}]}


def read(task: str, text: str, **fields: Any) -> dict[str, Any]:
    return BOOK[task].read(text, fields).model_dump()


# --- self-ask, one turn ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "intermediate", "follow_up", "answer"),
    [
        ("Follow up: Who made it then?", None, "Who made it then?", None),
        ("Yes.\nFollow-up question 1: Who else?", None, "Who else?", None),
        ("**Follow up:** Who else?", None, "Who else?", None),
        ("Intermediate answer: Ann Lee.\nFollow up: Where was she born?", "Ann Lee.", "Where was she born?", None),
        ("Answer 1: Ann Lee.\n\nSubquestion 2: Where was she born?", "Ann Lee.", "Where was she born?", None),
        ("Answer: Ann Lee\nFollow up: Where was she born?", "Ann Lee", "Where was she born?", None),
        ("Intermediate answer: Ann.\nSo the final answer is: Ann Lee.", "Ann.", None, "Ann Lee"),
        ("Final answer: Ann Lee", None, None, "Ann Lee"),
        # the pending follow-up said again, then answered
        ("Follow up: Who made it?\nIntermediate answer: Ann\nFollow up: Where?", "Ann", "Where?", None),
        ("Follow up: Who made it?\nIntermediate answer: Ann\nSo the final answer is: Ann", "Ann", None, "Ann"),
        ("Follow up: Who made it?", None, "Who made it?", None),
        ("Follow up: Who made it?\nIntermediate answer: Ann", "Ann", "Who made it?", None),
        # what is made up after the follow-up is not read
        ("Follow up: Where?\nIntermediate answer: Rome\nSo the final answer is: Rome.", None, "Where?", None),
        ("Intermediate answer: none\nFollow up: Where?", None, "Where?", None),
    ],
)
def test_a_turn_is_read(text: str, intermediate: str | None, follow_up: str | None, answer: str | None) -> None:
    output = read("self_ask.turn", text, **PENDING, conclude=False)
    assert output == {"intermediate": intermediate, "follow_up": follow_up, "answer": answer}


@pytest.mark.parametrize("text", ["Ann Lee", "Intermediate answer: Ann Lee", "Follow up:", "Yes.", "Follow up: none"])
def test_a_turn_without_follow_up_or_answer_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match="Follow up"):
        read("self_ask.turn", text, **PENDING, conclude=False)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Intermediate answer: Ann\nSo the final answer is: Ann Lee.", "Ann Lee"),
        (
            "Intermediate answer: Ann\nFollow up: Where?\nIntermediate answer: Rome\nSo the final answer is: Rome",
            "Rome",
        ),
        ("Ann Lee", "Ann Lee"),
    ],
)
def test_at_the_end_the_final_answer_is_read_anywhere(text: str, answer: str) -> None:
    output = read("self_ask.turn", text, **PENDING, conclude=True)
    assert (output["answer"], output["follow_up"]) == (answer, None)


@pytest.mark.parametrize("text", ["Follow up: Where?", "Intermediate answer: Ann"])
def test_at_the_end_a_follow_up_is_no_answer(text: str) -> None:
    with pytest.raises(Malformed, match="final answer"):
        read("self_ask.turn", text, **PENDING, conclude=True)


# --- self-ask, all at once ---------------------------------------------------------------------------------------


def test_a_whole_chain_is_read() -> None:
    text = (
        "Main question: Q\nAre follow-up questions needed: Yes\n\nFollow-up 1: Who made it?\n"
        "Intermediate answer 1: Ann Lee.\n\nFollow-up 2: Where was she born?\nIntermediate answer 2: In Rome.\n\n"
        "Final answer: Rome"
    )
    steps = [("Who made it?", "Ann Lee."), ("Where was she born?", "In Rome.")]
    assert read("self_ask.chain", text) == {
        "steps": [{"sub_question": question, "answer": answer} for question, answer in steps],
        "answer": "Rome",
    }


@pytest.mark.parametrize(
    ("text", "steps", "answer"),
    [
        ("Are follow up questions needed here: No.\nSo the final answer is: Rome.", 0, "Rome"),
        ("Follow up: Who?\nFollow up: Where?\nSo the final answer is: Rome.", 2, "Rome"),
        ("Rome", 0, "Rome"),
    ],
)
def test_a_chain_without_steps_or_answers_is_read(text: str, steps: int, answer: str) -> None:
    output = read("self_ask.chain", text)
    assert (len(output["steps"]), output["answer"]) == (steps, answer)


@pytest.mark.parametrize("text", ["Follow up: Who?", "Follow up: Who?\nIntermediate answer: Ann.", "Hm.\nLet me see."])
def test_a_chain_without_an_end_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match="final answer"):
        read("self_ask.chain", text)


# --- lists and plans ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("1. A b?\n2. C d?", ["A b?", "C d?"]),
        ("Sure, here they are:\n\n1) A b?\n2) C d?", ["A b?", "C d?"]),
        ("Sub-question 1: A b?\nSub-question 2: C d?", ["A b?", "C d?"]),
        ("- A b?\n- C d?", ["A b?", "C d?"]),
        ("**1.** A b?\n**2.** C d?", ["A b?", "C d?"]),
        ("A b?\nC d?", ["A b?", "C d?"]),
        ("1. A\nb?", ["A b?"]),
        ("1. none\n2. A b?", ["A b?"]),
    ],
)
def test_sub_questions_are_read(text: str, items: list[str]) -> None:
    assert read("least_to_most.decompose", text) == {"sub_questions": items}


@pytest.mark.parametrize("text", ["I cannot.", "1.", "…"])
def test_no_sub_question_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        read("least_to_most.decompose", text)


@pytest.mark.parametrize(
    ("text", "recitations"),
    [
        (
            "1. Alien is a film of 1979.\n2. Ridley Scott made it.",
            ["Alien is a film of 1979.", "Ridley Scott made it."],
        ),
        ("Recitation 1: Alien is a film.\nRecitation 2: It is by Scott.", ["Alien is a film.", "It is by Scott."]),
        ("Alien is a film.\nIt came out in\n1979.", ["Alien is a film. It came out in 1979."]),
        ("1979 was the year of Alien.", ["1979 was the year of Alien."]),
    ],
)
def test_recitations_are_read(text: str, recitations: list[str]) -> None:
    assert read("recite.recall", text) == {"recitations": recitations}


@pytest.mark.parametrize(
    ("text", "plan", "rationale"),
    [
        ("Plan:\n1. Find A.\n2. Find B.\nSolution: It is so. The answer is C.", ["Find A.", "Find B."], "It is so."),
        ("**Plan**\n1. Find A.\n\n**Execution:**\nIt is so.\nThe answer is C.", ["Find A."], "It is so."),
        ("It is so. The answer is C.", [], "It is so."),
        ("Plan: none needed\nSolution: C", [], None),
    ],
)
def test_a_plan_and_its_solution_are_read(text: str, plan: list[str], rationale: str | None) -> None:
    assert read("plan_solve.solve", text) == {"plan": plan, "rationale": rationale, "answer": "C"}


def test_a_plan_alone_is_refused() -> None:
    with pytest.raises(Malformed, match="The answer is"):
        read("plan_solve.solve", "Plan:\n1. Find A.\n2. Find B.")


# --- there and back ----------------------------------------------------------------------------------------------

WORDS = st.sampled_from(["Ann Lee", "Rome", "12 May 1903", "Who made it", "the film Alien"])
MAYBE = st.none() | WORDS
AGAIN = settings(max_examples=200, deadline=None, derandomize=True, database=None)


@AGAIN
@given(st.lists(st.tuples(WORDS, MAYBE), max_size=4), WORDS)
def test_a_chain_is_read_back_as_written(steps: list[tuple[str, str | None]], answer: str) -> None:
    output = FollowUps.model_validate({"steps": [{"sub_question": q, "answer": a} for q, a in steps], "answer": answer})
    for rendering in get_args(Rendering):
        written = TASKS["self_ask.chain"].write_text(output, {}) if rendering == "text" else output.model_dump_json()
        assert BOOK["self_ask.chain"].read(written, {}, rendering) == output


@AGAIN
@given(MAYBE, MAYBE, WORDS, st.booleans())
def test_a_turn_is_read_back_as_written(
    intermediate: str | None, asked: str | None, answer: str, conclude: bool
) -> None:
    asks = None if conclude else asked
    output = FollowUp(intermediate=intermediate, follow_up=asks, answer=None if asks else answer)
    fields = {"history": [{"sub_question": "Before?", "answer": None}] if intermediate else [], "conclude": conclude}
    assert BOOK["self_ask.turn"].read(TASKS["self_ask.turn"].write_text(output, fields), fields) == output


@AGAIN
@given(st.lists(WORDS.map(lambda words: f"{words}."), max_size=4), WORDS)
def test_a_plan_is_read_back_as_written(plan: list[str], answer: str) -> None:
    output = PlannedResponse(plan=plan, rationale="It is so.", answer=answer)
    assert BOOK["plan_solve.solve"].read(TASKS["plan_solve.solve"].write_text(output, {}), {}) == output
