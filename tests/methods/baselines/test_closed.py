"""The closed-book baselines, each worked by hand: the order of its calls and what every call saw."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from polyhop.errors import DataError
from polyhop.lm.base import Capabilities, Request
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods.baselines.auto_cot import TRIED, cluster_questions
from polyhop.pipeline import Pipeline
from tests.kit.scripted_run import play, sure

METHODS = ["cot-sc", "zero-few-cot", "auto-cot", "recite", "least-to-most", "plan-solve"]
PARTS = ["Who made it?", "Where was #1 born?"]


def shown(call: Request, turn: int = -1) -> str:
    return call.messages[turn]["content"]


def shots(call: Request) -> int:
    return sum(turn["role"] == "assistant" for turn in call.messages)


# --- what they share ---------------------------------------------------------------------------------------------


def script(task: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    recited = [f"R{next(_NUMBERS)}"]  # each recitation is another one
    return {"rationale": "So.", "answer": "x", "sub_questions": PARTS, "recitations": recited, "plan": ["P"]}


_NUMBERS = itertools.count()


@pytest.mark.parametrize("method", METHODS)
async def test_nothing_is_searched_and_the_last_call_is_final(method: str) -> None:
    answer, model = await play(method, script)
    assert answer.text == "x"
    assert (answer.passages, answer.evidence, answer.supported, answer.usage.searches) == ((), (), False, 0)
    assert [call.final for call in answer.trace.calls].count(True) == 1
    assert answer.trace.calls[-1].final
    assert not any("passages" in call.fields for call in model.calls)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("count", [0, 1, 3])
async def test_shots_are_the_demonstrations_shown(method: str, count: int) -> None:
    _, model = await play(method, script, shots=count)
    if method != "auto-cot":
        assert {shots(call) for call in model.calls} == {count}
    else:  # its own are part of the question
        assert {shots(call) for call in model.calls} == {0}
        assert len(model.calls[-1].fields["demonstrations"]) == count


@pytest.mark.parametrize("method", METHODS)
async def test_one_call_is_enough_for_an_answer(method: str) -> None:
    answer, model = await play(method, script, max_calls=1)
    assert (answer.text, len(model.calls)) == ("x", 1)


@pytest.mark.parametrize("method", METHODS)
async def test_what_cannot_be_read_is_no_answer(method: str) -> None:
    answer, _ = await play(method, lambda task, fields: "")
    assert answer.text == ""
    assert answer.confidence is None


@pytest.mark.parametrize("method", METHODS)
async def test_calls_and_answers_with_pocket(method: str) -> None:
    async with Pipeline(method=method, lm="pocket", cache=False) as qa:
        answer = await qa.aask("Which film is older, Alien or Jaws?")
    assert (answer.text, answer.abstained) == ("", True)  # without passages it knows of neither
    assert answer.usage.parsed_first_try == answer.usage.asked


# --- zero-few-cot (Kojima et al., 2022) --------------------------------------------------------------------------


async def test_the_phrase_stands_before_the_reasoning_in_question_and_demonstrations() -> None:
    answer, model = await play("zero-few-cot", {"zero_shot.cot": "First this. Then that. The answer is Rome."})
    (call,) = model.calls
    asked = [turn["content"] for turn in call.messages if turn["role"] == "user"]
    assert len(asked) == 4
    assert all(text.endswith("\nLet's think step by step.") for text in asked)
    assert (answer.text, answer.usage.layers) == ("Rome", 1)


async def test_its_demonstrations_are_those_of_a_chain_of_thought() -> None:
    _, model = await play("zero-few-cot", script)
    _, other = await play("cot", script)
    replies = [[t["content"] for t in lm.calls[0].messages if t["role"] == "assistant"] for lm in (model, other)]
    assert replies[0] == replies[1]


# --- auto-cot (Zhang et al., 2022) -------------------------------------------------------------------------------

POOL = [
    "Who directed the film Alien?",
    "Who directed the film Jaws?",
    "Who directed the film Heat?",
    "When did the war begin?",
    "When did the war end?",
]


@pytest.fixture
def pool(tmp_path: Path) -> str:
    path = tmp_path / "pool.txt"
    path.write_text("\n".join(POOL), encoding="utf-8")
    return str(path)


def demonstrated(model: ScriptedLM) -> list[str]:
    return [demo["question"] for demo in model.calls[-1].fields["demonstrations"]]


async def test_a_demonstration_of_each_cluster_by_zero_shot_reasoning(pool: str) -> None:
    answer, model = await play("auto-cot", script, pool=pool, shots=2)
    assert [call.task for call in model.calls] == ["zero_shot.cot", "zero_shot.cot", "auto_cot.answer"]
    assert [shots(call) for call in model.calls] == [0, 0, 0]
    nearest = [cluster[0] for cluster in cluster_questions(pool, 2)]
    assert [call.fields["question"] for call in model.calls] == [*nearest, "Q"]
    assert demonstrated(model) == nearest
    demo = f"Question: {nearest[0]}\nLet's think step by step. So. The answer is x.\n\n"
    assert shown(model.calls[-1]).startswith(demo)
    assert shown(model.calls[-1]).endswith("\n\nQuestion: Q\nLet's think step by step.")
    assert (answer.usage.layers, answer.statistics) == (2, {"demonstrations": 2})


async def test_questions_are_clustered_by_the_retrievers_encoder_if_it_has_one(pool: str) -> None:
    """Vectors that put the questions of the pool in another order than their words do."""
    model = ScriptedLM(script)
    vectors = {text: [float(n % 2), float((n + 1) % 2)] for n, text in enumerate(POOL)}
    encoder = Mock(queries=lambda texts: np.array([vectors[text] for text in texts], np.float32))
    retriever = Mock(encoder=encoder, search=lambda query, k: [], spec=["encoder", "search"])
    async with Pipeline(method="auto-cot", lm=model, retriever=retriever, pool=pool, shots=2) as pipeline:
        await pipeline.aask("Q")
    assert demonstrated(model) == [POOL[0], POOL[1]]
    assert [cluster[0] for cluster in cluster_questions(pool, 2)] != [POOL[0], POOL[1]]


@pytest.mark.parametrize(
    "bad",
    [
        {"rationale": None, "answer": "x"},
        {"rationale": "So.", "answer": ""},
        {"rationale": "One. Two. Three. Four. Five. Six.", "answer": "x"},
        "",
    ],
    ids=["no rationale", "no answer", "too many steps", "unreadable"],
)
async def test_the_next_nearest_takes_the_place_of_one_that_does_not_fit(pool: str, bad: Any) -> None:
    first, second, *_ = cluster_questions(pool, 2)[0]

    def said(task: str, fields: Mapping[str, Any]) -> Any:
        return bad if fields["question"] == first else script(task, fields)

    _, model = await play("auto-cot", said, pool=pool, shots=2)
    assert demonstrated(model)[0] == second


async def test_a_cluster_without_a_fitting_rationale_gives_none(pool: str) -> None:
    def said(task: str, fields: Mapping[str, Any]) -> Any:
        return script(task, fields) if "When" in fields["question"] or task == "auto_cot.answer" else {"answer": "x"}

    answer, model = await play("auto-cot", said, pool=pool, shots=2)
    assert len(demonstrated(model)) == 1
    assert answer.usage.calls_by_task == {"zero_shot.cot": TRIED + 1, "auto_cot.answer": 1}


async def test_long_questions_and_the_question_itself_demonstrate_nothing(pool: str) -> None:
    first = cluster_questions(pool, 2)[0][0]
    _, model = await play("auto-cot", script, pool=pool, shots=2, question=f"{first}!")
    assert first not in demonstrated(model)
    assert len(demonstrated(model)) == 2
    _, model = await play("auto-cot", script, pool=pool, shots=2, question_tokens=1)
    assert [call.task for call in model.calls] == ["auto_cot.answer"]


async def test_rationale_steps_is_how_many_a_rationale_may_have(pool: str) -> None:
    six = {"rationale": "One. Two. Three. Four. Five. Six.", "answer": "x"}
    _, model = await play("auto-cot", lambda task, fields: six, pool=pool, shots=2, rationale_steps=6)
    assert len(demonstrated(model)) == 2


@pytest.mark.parametrize(("own_pool", "kind"), [(True, "boolean"), (False, "qa")])
async def test_a_pool_of_ones_own_has_questions_of_the_kind_that_is_asked(pool: str, own_pool: bool, kind: str) -> None:
    """Those of the default pool have short answers."""
    model = ScriptedLM(script)
    async with Pipeline(method="auto-cot", lm=model, pool=pool if own_pool else "", shots=1) as qa:
        await qa.aask("Is it so?", kind="boolean")
    assert [call.fields["kind"] for call in model.calls] == [kind, "boolean"]


async def test_the_demonstrations_are_made_once_where_replies_are_cached(pool: str, tmp_path: Path) -> None:
    model = ScriptedLM(script)
    async with Pipeline(method="auto-cot", lm=model, pool=pool, shots=2, cache=True) as qa:
        first, second = await qa.aask("Q1"), await qa.aask("Q2")
    assert [call.task for call in model.calls] == [
        "zero_shot.cot",
        "zero_shot.cot",
        "auto_cot.answer",
        "auto_cot.answer",
    ]
    assert first.usage.calls == second.usage.calls == 3


async def test_the_budget_ends_the_demonstrations_not_the_answer(pool: str) -> None:
    answer, model = await play("auto-cot", script, pool=pool, shots=2, max_calls=2)
    assert [call.task for call in model.calls][-1] == "auto_cot.answer"
    assert (answer.text, len(model.calls), answer.trace.budget) == ("x", 2, "max_calls")


async def test_a_pool_that_is_not_there_is_an_error() -> None:
    with pytest.raises(DataError, match="nowhere"):
        await play("auto-cot", script, pool="nowhere.txt")


# --- recite (Sun et al., 2022) -----------------------------------------------------------------------------------


async def test_recitations_are_sampled_and_each_is_answered_from() -> None:
    recited = [{"recitations": ["A.", "B."]}, {"recitations": ["C."]}, {"recitations": ["D."]}]
    said = {"recite.recall": recited, "recite.answer": [{"answer": a} for a in ("Rome", "Oslo", "rome")]}
    answer, model = await play("recite", said, samples=3)
    assert [call.task for call in model.calls] == ["recite.recall"] * 3 + ["recite.answer"] * 3
    assert [call.temperature for call in model.calls] == [0.7] * 3 + [0.0] * 3
    assert [call.sample for call in model.calls[:3]] == [0, 1, 2]
    assert [call.fields["recitations"] for call in model.calls[3:]] == [["A.", "B."], ["C."], ["D."]]
    assert shown(model.calls[3]) == "Recited passages:\n1. A.\n2. B.\n\nQuestion: Q"
    assert (answer.text, answer.usage.layers) == ("Rome", 2)
    assert answer.confidence == pytest.approx(2 / 3)


async def test_ties_of_recitations_go_to_the_likelier_answer() -> None:
    recited = [{"recitations": ["A."]}, {"recitations": ["B."]}]
    said = {"recite.recall": recited, "recite.answer": [sure("Rome", -2.0), sure("Oslo", -1.0)]}
    answer, _ = await play("recite", said, samples=2, capabilities=Capabilities(token_logprobs=True))
    assert answer.text == "Oslo"


async def test_equal_recitations_are_answered_from_once() -> None:
    recited = [{"recitations": [text]} for text in ("A.", "B.", "A.")]
    said = {"recite.recall": recited, "recite.answer": [{"answer": "Rome"}, {"answer": "Oslo"}]}
    answer, model = await play("recite", said, samples=3)
    assert [call.fields["recitations"] for call in model.calls[3:]] == [["A."], ["B."]]
    assert answer.text == "Rome"
    assert answer.confidence == pytest.approx(2 / 3)


async def test_a_recitation_that_cannot_be_read_is_answered_without() -> None:
    said = {"recite.recall": "", "recite.answer": "Rome"}
    answer, model = await play("recite", said, samples=1)
    assert shown(model.calls[-1]) == "Question: Q"
    assert answer.text == "Rome"


@pytest.mark.parametrize(("maximum", "recited", "answered"), [(1, 0, 1), (2, 1, 1), (4, 3, 1), (5, 3, 2), (9, 3, 3)])
async def test_the_budget_keeps_an_answer_for_the_recitations(maximum: int, recited: int, answered: int) -> None:
    answer, _ = await play("recite", script, samples=3, max_calls=maximum)
    counts = answer.usage.calls_by_task
    assert (counts.get("recite.recall", 0), counts["recite.answer"]) == (recited, answered)


# --- least-to-most (Zhou et al., 2022) ---------------------------------------------------------------------------


async def test_sub_questions_are_answered_in_turn_the_question_last() -> None:
    said = {
        "least_to_most.decompose": "1. Who made it?\n2. Where was that person born?",
        "least_to_most.solve": [f"So it is. The answer is {answer}." for answer in ("Ann Lee", "Rome", "Italy")],
    }
    answer, model = await play("least-to-most", said)
    first, second = "Who made it?", "Where was that person born?"
    assert [call.fields.get("sub_question") for call in model.calls] == [None, first, second, "Q"]
    assert [len(call.fields.get("history", ())) for call in model.calls] == [0, 0, 1, 2]
    history = f"Sub-question: {first}\nAnswer: Ann Lee\nSub-question: {second}\nAnswer: Rome\n"
    assert shown(model.calls[-1]) == f"Question: Q\n{history}To answer now: Q"
    assert (answer.text, answer.usage.layers) == ("Italy", 4)
    assert answer.statistics == {"sub_questions": 2}


async def test_the_question_and_repeats_are_no_sub_questions() -> None:
    said = {
        "least_to_most.decompose": {"sub_questions": ["Who?", "who", "q", "", "?", "Where?"]},
        "least_to_most.solve": "x",
    }
    _, model = await play("least-to-most", said)
    assert [call.fields["sub_question"] for call in model.calls[1:]] == ["Who?", "Where?", "Q"]


async def test_max_questions_bounds_the_sub_questions() -> None:
    _, model = await play("least-to-most", script, max_questions=1)
    assert [call.fields["sub_question"] for call in model.calls[1:]] == [PARTS[0], "Q"]


async def test_a_question_that_cannot_be_taken_apart_is_answered_as_it_is() -> None:
    answer, model = await play("least-to-most", {"least_to_most.decompose": "", "least_to_most.solve": "Rome"})
    assert [call.task for call in model.calls] == ["least_to_most.decompose"] * 2 + ["least_to_most.solve"]
    assert answer.text == "Rome"


# --- plan-solve (Wang et al., 2023) ------------------------------------------------------------------------------


async def test_plan_and_solution_come_in_one_reply() -> None:
    reply = "Plan:\n1. Find who made it.\n2. Find where they were born.\nSolution: Ann Lee. The answer is Rome."
    answer, model = await play("plan-solve", {"plan_solve.solve": reply})
    assert len(model.calls) == 1
    assert (answer.text, answer.statistics, answer.usage.layers) == ("Rome", {"plan": 2}, 1)
