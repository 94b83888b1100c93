"""Tree of Thoughts with retrieval, worked by hand: what is proposed, found, valued and kept at every step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.answer import Answer
from polyhop.lm.scripted import ScriptedLM
from polyhop.pipeline import Pipeline
from polyhop.trace import Branch, Searched
from tests.kit.scene import evidence, names
from tests.kit.scripted_run import play

HITS = {"P": "a b", "R": "c", "S": "d a", "T": "e", "U": "f"}


class Tree:
    """Thoughts by the path they follow ("" at the root), values by path, answers by thought; what was asked."""

    def __init__(self, thoughts: Mapping[str, str], values: Mapping[str, str], answers: Mapping[str, str]) -> None:
        self.thoughts, self.values, self.answers = thoughts, values, answers
        self.transcript: list[str] = []
        self.drawn: dict[str, int] = {}

    def __call__(self, task: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        history = fields.get("history", ())
        path = " ".join(pair["sub_question"] for pair in history)
        pairs = " ".join(f"{pair['sub_question']}={pair['answer'] or '-'}" for pair in history)
        if task == "tot_ir.propose":
            self.transcript.append(f"propose {fields['count']}: {pairs}".strip())
            return {"sub_questions": self.thoughts.get(path, "").split()}
        if task == "tot_ir.value":
            asked = fields["sub_question"]
            self.transcript.append(f"value {pairs} {asked}: {names(fields['passages'])}".replace("  ", " "))
            draws = self.values.get(f"{path} {asked}".strip(), "impossible").split()
            self.drawn[asked] = self.drawn.get(asked, 0) + 1
            return {"answer": self.answers.get(asked), "value": draws[(self.drawn[asked] - 1) % len(draws)]}
        read = f"{pairs}: {names(fields['passages'])}" if "passages" in fields else "closed-book"
        self.transcript.append(f"answer {read}".replace("answer :", "answer:"))
        return {"rationale": None, "answer": "Rome"}


def searched(answer: Answer) -> list[str]:
    return [step.query for step in answer.trace.steps if isinstance(step, Searched)]


def steps(answer: Answer) -> list[str | None]:
    return [step.verdict for step in answer.trace.steps if isinstance(step, Branch)]


def two_steps() -> Tree:
    return Tree(
        {"": "P R", "P": "S T", "R": "U"},
        {"P": "likely", "R": "impossible", "P S": "sure", "P T": "likely"},
        {"P": "Ann", "S": "Rome"},
    )


# --- Algorithm 1 -------------------------------------------------------------------------------------------------


async def test_thoughts_are_proposed_searched_and_valued_and_the_best_is_carried_on() -> None:
    tree = two_steps()
    answer, model = await play("tot-ir", tree, hits=HITS)
    assert tree.transcript == [
        "propose 5:",
        "value P: a b",
        "value R: c",
        "propose 5: P=Ann",
        "value P=Ann S: d a",
        "value P=Ann T: e",
        "answer P=Ann S=Rome: a b d",
    ]
    assert searched(answer) == ["P", "R", "S", "T"]
    assert steps(answer) == ["go on", "sure"]  # a sure state ends the search
    assert (answer.text, bool(answer.evidence), answer.usage.layers) == ("Rome", True, 5)
    assert evidence(answer) == [("a b", "Ann"), ("d a", "Rome")]
    assert names(answer.passages) == "a b d c e"  # the best state's first
    assert answer.statistics == {"steps": 2, "searches": 4, "states": 4}
    assert answer.trace.calls[-1].final
    assert {call.temperature for call in model.calls} == {0.0}


async def test_all_of_a_step_is_done_at_once() -> None:
    answer, _ = await play("tot-ir", two_steps(), hits=HITS)
    assert len(answer.trace.calls) == 7
    assert answer.usage.layers == 5


async def test_the_better_state_is_kept_wherever_it_stands() -> None:
    tree = Tree({"": "P R", "R": "U"}, {"R": "likely", "R U": "sure"}, {"R": "b", "U": "e"})
    answer, _ = await play("tot-ir", tree, hits=HITS)
    assert "propose 5: R=b" in tree.transcript
    assert evidence(answer) == [("c", "b"), ("f", "e")]


async def test_of_states_worth_the_same_the_first_is_kept() -> None:
    tree = Tree({"": "P R", "P": "S"}, {}, {})
    answer, _ = await play("tot-ir", tree, hits=HITS, steps=2)
    assert [line for line in tree.transcript if line.startswith("propose")] == ["propose 5:", "propose 5: P=-"]
    assert (answer.supported, answer.evidence) == (False, ())  # none had an answer


# --- settings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("maximum", [1, 2, 4])
async def test_steps_bound_the_depth(maximum: int) -> None:
    def more(task: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        if task == "tot_ir.propose":
            return {"sub_questions": [f"{len(fields['history'])}?"]}
        return {"answer": "x", "value": "likely"}

    answer, model = await play("tot-ir", more, hits={f"{n}?": "a" for n in range(9)}, steps=maximum)
    assert searched(answer) == [f"{n}?" for n in range(maximum)]
    assert len(model.calls) == 2 * maximum + 1 == answer.usage.layers


async def test_breadth_bounds_the_thoughts_of_a_state() -> None:
    tree = Tree({"": "P R S T U"}, {}, {})
    answer, _ = await play("tot-ir", tree, hits=HITS, breadth=3, steps=1)
    assert searched(answer) == ["P", "R", "S"]
    assert tree.transcript[0] == "propose 3:"


async def test_keep_carries_several_states_on() -> None:
    tree = Tree(
        {"": "P R S", "P": "T", "R": "U"},
        {"P": "likely", "R": "likely", "R U": "likely"},
        {"P": "a", "R": "b", "U": "e"},
    )
    answer, _ = await play("tot-ir", tree, hits=HITS, keep=2, steps=2)
    assert tree.transcript[4:6] == ["propose 5: P=a", "propose 5: R=b"]
    assert searched(answer) == ["P", "R", "S", "T", "U"]
    assert evidence(answer) == [("c", "b"), ("f", "e")]


async def test_values_are_added_up() -> None:
    """20 for sure, 1 for likely, 0.001 for impossible, as in the official code: one sure outweighs three likely."""
    tree = Tree({"": "P R"}, {"P": "likely likely likely", "R": "impossible sure impossible"}, {"R": "b"})
    answer, model = await play("tot-ir", tree, hits=HITS, values=3, steps=1, temperature=0.4)
    assert evidence(answer) == [("c", "b")]
    assert steps(answer) == ["go on"]  # sure only where every value says so
    drawn = [call for call in model.calls if call.task == "tot_ir.value"]
    assert [(call.temperature, call.sample) for call in drawn] == [(0.4, n) for n in range(3)] * 2
    assert answer.usage.layers == 3


async def test_a_thought_thought_before_is_dropped() -> None:
    tree = Tree({"": "P p P. R", "P": "P R R"}, {"P": "likely"}, {"P": "x"})
    answer, _ = await play("tot-ir", tree, hits=HITS, steps=2)
    assert searched(answer) == ["P", "R", "R"]  # R is new on the path of P


async def test_k_and_rank_limit() -> None:
    tree = two_steps()
    answer, _ = await play("tot-ir", tree, hits=HITS, k=1, rank_limit=2)
    assert tree.transcript[-1] == "answer P=Ann S=Rome: a d"
    assert names(answer.passages) == "a d"


async def test_the_reader_is_shown_what_the_prompt_can_hold() -> None:
    whole, _ = await play("tot-ir", two_steps(), hits=HITS, shots=0)
    tokens = whole.trace.calls[-1].prompt_tokens - 10
    tree = two_steps()
    answer, _ = await play("tot-ir", tree, hits=HITS, shots=0, context_tokens=tokens)
    assert tree.transcript[-1] == "answer P=Ann S=Rome: a b"
    assert answer.trace.calls[-1].prompt_tokens <= tokens


# --- ends, defaults and budgets ----------------------------------------------------------------------------------


async def test_a_step_without_a_new_thought_ends_the_search() -> None:
    tree = Tree({"": "P", "P": "P"}, {"P": "likely"}, {"P": "x"})
    answer, _ = await play("tot-ir", tree, hits=HITS)
    assert tree.transcript == ["propose 5:", "value P: a b", "propose 5: P=x", "answer P=x: a b"]
    assert answer.statistics == {"steps": 1, "searches": 1, "states": 1}
    assert steps(answer) == ["go on", "no thought"]


async def test_without_a_thought_the_model_answers_alone() -> None:
    answer, model = await play("tot-ir", {"tot_ir.propose": "No.", "answer.cot": {"answer": "Rome"}}, hits=HITS)
    assert [call.task for call in model.calls] == ["tot_ir.propose"] * 2 + ["answer.cot"]
    assert (answer.text, answer.supported, answer.usage.defaulted_by_task) == ("Rome", False, {"tot_ir.propose": 1})


async def test_a_value_that_cannot_be_read_is_impossible() -> None:
    def script(task: str, fields: Mapping[str, Any]) -> Any:
        if task == "tot_ir.value":
            return "Hm." if fields["sub_question"] == "P" else {"answer": "b", "value": "likely"}
        return {"sub_questions": ["P", "R"]} if task == "tot_ir.propose" else {"answer": "Rome"}

    answer, _ = await play("tot-ir", script, hits=HITS, steps=1)
    assert evidence(answer) == [("c", "b")]
    assert answer.usage.defaulted_by_task == {"tot_ir.value": 1}


async def test_a_thought_that_finds_nothing_is_impossible_without_a_call() -> None:
    tree = two_steps()
    answer, _ = await play("tot-ir", tree, hits={})
    assert not [line for line in tree.transcript if line.startswith("value")]
    assert tree.transcript[-1] == "answer closed-book"
    assert (answer.text, answer.supported, answer.evidence) == ("Rome", False, ())


async def test_the_passages_of_other_thoughts_are_read_if_the_best_has_none() -> None:
    tree = Tree({"": "P R"}, {"P": "impossible", "R": "impossible"}, {})
    answer, _ = await play("tot-ir", tree, hits={"R": HITS["R"]}, steps=1)
    assert tree.transcript[-1] == f"answer P=-: {HITS['R']}"
    assert names(answer.passages) == HITS["R"]


@pytest.mark.parametrize(
    ("maximum", "last"),
    [
        (1, "answer closed-book"),
        (2, "answer: a b c"),  # found, but not valued
        (3, "answer: a b c"),
        (4, "answer P=Ann: a b"),
        (6, "answer P=Ann: a b"),
        (7, "answer P=Ann S=Rome: a b d"),
    ],
)
async def test_the_budget_leaves_the_answer(maximum: int, last: str) -> None:
    tree = two_steps()
    answer, model = await play("tot-ir", tree, hits=HITS, max_calls=maximum)
    assert tree.transcript[-1] == last
    assert (answer.text, answer.trace.budget) == ("Rome", "max_calls" if maximum < 7 else None)
    assert len(model.calls) <= maximum


async def test_an_error_of_the_search_comes_out_as_itself() -> None:
    def broken(query: str, k: int) -> Any:
        raise RuntimeError("no index")

    async with Pipeline(method="tot-ir", lm=ScriptedLM(two_steps()), retriever=broken) as qa:
        with pytest.raises(Exception, match="no index") as raised:
            await qa.aask("Q")
    assert not isinstance(raised.value, BaseExceptionGroup)


PIECES = '1.|2)|x?|y?|\n|{|Finding: x|Value: sure|likely|"value": "likely"|The answer is'.split("|")


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(said=st.lists(st.lists(st.sampled_from(PIECES), max_size=8).map(" ".join), min_size=1, max_size=4))
async def test_nothing_a_model_says_raises_or_loops(said: list[str]) -> None:
    made = iter(range(1000))
    hits = {"x?": "a b", "y?": "c"}
    answer, model = await play("tot-ir", lambda task, fields: said[next(made) % len(said)], hits=hits, steps=2)
    assert len(model.calls) <= 2 * (2 * 6 + 1)
    assert len(searched(answer)) <= 10
