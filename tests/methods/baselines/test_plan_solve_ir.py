"""Plan-and-Solve with retrieval, worked by hand: one plan, a search for each step, one solution."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.answer import Answer
from polyhop.trace import Searched
from tests.kit.scene import evidence, names
from tests.kit.scripted_run import play

HITS = {"Who?": "a b c d e f", "Where?": "g a", "When?": "h", "Why?": "i", "Q": "q"}


def searched(answer: Answer) -> list[tuple[str, int]]:
    return [(step.query, step.k) for step in answer.trace.steps if isinstance(step, Searched)]


def script(*plan: str, answer: str = "Rome") -> dict[str, Any]:
    return {"plan_solve_ir.plan": {"sub_questions": list(plan)}, "plan_solve_ir.solve": {"answer": answer}}


async def test_the_plan_is_searched_at_once_and_carried_out() -> None:
    said = {
        "plan_solve_ir.plan": "The plan:\n1. Who?\n2. Where?",
        "plan_solve_ir.solve": "Ann made it. She was born in Rome. The answer is Rome.",
    }
    answer, model = await play("plan-solve-ir", said, hits=HITS)
    plan, solve = model.calls
    assert plan.fields == {"question": "Q", "kind": "qa"}
    assert searched(answer) == [("Who?", 5), ("Where?", 5)]
    assert (solve.fields["plan"], names(solve.fields["passages"])) == (["Who?", "Where?"], "a b c d e g")
    assert solve.messages[-1]["content"].startswith(
        "Question: Q\n\nPlan:\n1. Who?\n2. Where?\n\nPassages:\n<passage 1>"
    )
    assert (answer.text, bool(answer.evidence), answer.usage.layers) == ("Rome", True, 2)
    assert names(answer.passages) == "a b c d e g"  # in the plan's order
    assert evidence(answer) == [("a b c d e g", "Rome")]
    assert answer.statistics == {"plan": 2, "searches": 2}
    assert answer.trace.calls[-1].final


@pytest.mark.parametrize(("options", "count"), [({}, 3), ({"max_searches": 1}, 1), ({"max_searches": 9}, 4)])
async def test_the_first_steps_are_searched_and_all_are_shown(options: dict[str, Any], count: int) -> None:
    answer, model = await play("plan-solve-ir", script("Who?", "Where?", "When?", "Why?"), hits=HITS, **options)
    assert [query for query, _ in searched(answer)] == ["Who?", "Where?", "When?", "Why?"][:count]
    assert model.calls[-1].fields["plan"] == ["Who?", "Where?", "When?", "Why?"]


async def test_a_step_planned_twice_is_searched_once() -> None:
    answer, _ = await play("plan-solve-ir", script("Who?", "Who?", ""), hits=HITS)
    assert (searched(answer), answer.statistics["plan"]) == ([("Who?", 5)], 1)


async def test_a_plan_that_cannot_be_read_is_the_question() -> None:
    answer, model = await play("plan-solve-ir", script() | {"plan_solve_ir.plan": "No."}, hits=HITS)
    assert searched(answer) == [("Q", 5)]
    assert model.calls[-1].fields["plan"] == ["Q"]
    assert (answer.text, answer.usage.defaulted_by_task) == ("Rome", {"plan_solve_ir.plan": 1})


async def test_a_solution_that_cannot_be_read_is_no_answer() -> None:
    answer, _ = await play("plan-solve-ir", script("Who?") | {"plan_solve_ir.solve": ""}, hits=HITS)
    assert (answer.text, answer.supported, answer.evidence, names(answer.passages)) == ("", False, (), "a b c d e")


async def test_without_hits_the_question_is_answered_closed_book() -> None:
    answer, model = await play("plan-solve-ir", script("Who?") | {"answer.cot": {"answer": "Oslo"}}, hits={})
    assert [call.task for call in model.calls] == ["plan_solve_ir.plan", "answer.cot"]
    assert (answer.text, answer.supported, answer.statistics) == ("Oslo", False, {"plan": 1, "searches": 1})


async def test_k_and_rank_limit() -> None:
    answer, model = await play("plan-solve-ir", script("Who?", "When?"), hits=HITS, k=2, rank_limit=1)
    assert names(model.calls[-1].fields["passages"]) == "a b h"
    assert names(answer.passages) == "a"


async def test_passages_are_cut_where_the_prompt_is_full() -> None:
    whole, _ = await play("plan-solve-ir", script("Who?", "When?"), hits=HITS, shots=0)
    tokens = whole.trace.calls[-1].prompt_tokens - 30
    answer, model = await play("plan-solve-ir", script("Who?", "When?"), hits=HITS, shots=0, context_tokens=tokens)
    assert names(model.calls[-1].fields["passages"]) == "a b c"
    assert answer.trace.calls[-1].prompt_tokens <= tokens
    assert names(answer.passages) == "a b c d e h"


async def test_the_budget_leaves_the_answer() -> None:
    answer, model = await play("plan-solve-ir", script("Who?"), hits=HITS, max_calls=1)
    assert [call.task for call in model.calls] == ["plan_solve_ir.solve"]
    assert model.calls[-1].fields["plan"] == ["Q"]
    assert names(model.calls[-1].fields["passages"]) == "q"
    assert (answer.text, answer.trace.budget) == ("Rome", "max_calls")


PIECES = '1.|- |2)|x?|\n|{|Plan:|"sub_questions": []|The answer is'.split("|")


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(said=st.lists(st.lists(st.sampled_from(PIECES), max_size=8).map(" ".join), min_size=1, max_size=4))
async def test_nothing_a_model_says_raises(said: list[str]) -> None:
    made = iter(range(100))
    answer, model = await play("plan-solve-ir", lambda task, fields: said[next(made) % len(said)], hits={"x?": "a b"})
    assert len(model.calls) <= 4
    assert len(searched(answer)) <= 3
