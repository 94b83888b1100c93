"""ReAct worked by hand: what every step saw, what every action brought, and how the acting ends; then its back-off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.answer import Answer
from polyhop.lm.base import Request
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods.baselines.react import looked_up
from polyhop.pipeline import Pipeline
from polyhop.trace import Branch, Searched
from polyhop.types import Passage
from tests.kit.scene import evidence, names, notes
from tests.kit.scripted_run import play

HITS = {"maker": "a b c d e f", "Ann": "g a", "more": "h"}
PAGE = Passage(
    "p", "Mill", "It was begun in 1900. It opened in 1901. Ann made it. It was shut. It opened again. So. Late."
)


def searched(answer: Answer) -> list[tuple[str, int]]:
    return [(step.query, step.k) for step in answer.trace.steps if isinstance(step, Searched)]


def seen(call: Request) -> str:
    """Write the prompt of a step on one line: each action with its passages."""
    steps = (f"{step['action']}[{step['argument']}] {names(step['passages'])}".strip() for step in call.fields["steps"])
    return f"{call.task.removeprefix('react.')}: {', '.join(steps)}"


def act(line: str) -> dict[str, Any]:
    """A move from a line: "Search maker"."""
    action, _, argument = line.partition(" ")
    return {"thought": None, "action": action, "argument": argument}


def acts(*lines: str, finish: str = "the end") -> dict[str, Any]:
    return {"react.act": [act(line) for line in lines], "react.finish": {"answer": finish}}


def restless(task: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """A model that searches for as long as it may."""
    return {**act(f"Search {len(fields.get('steps', ()))}"), "answer": "x"}


# --- thought, action, observation (§2, §3.1) ---------------------------------------------------------------------


async def test_each_action_is_observed_until_the_model_finishes() -> None:
    said = [
        "Thought 1: I need the maker.\nAction 1: Search[maker]",
        "Thought 2: Ann made it.\nAction 2: Search[Ann]\nObservation 2: made up\nAction 3: Finish[made up]",
        "Thought 3: Born in Rome.\nAction 3: Finish[Rome]",
    ]
    answer, model = await play("react", {"react.act": said}, hits=HITS)
    assert [seen(call) for call in model.calls] == [
        "act: ",
        "act: Search[maker] a b c d e",
        "act: Search[maker] a b c d e, Search[Ann] g a",
    ]
    assert [step["thought"] for step in model.calls[-1].fields["steps"]] == ["I need the maker.", "Ann made it."]
    assert searched(answer) == [("maker", 5), ("Ann", 5)]
    assert (answer.text, bool(answer.evidence), answer.usage.layers) == ("Rome", True, 3)
    assert names(answer.passages) == "a b c d e g"  # in the order first retrieved
    assert evidence(answer) == [("a b c d e g", "Rome")]
    assert answer.statistics == {"turns": 2, "searches": 2, "lookups": 0}
    branches = [(step.label, step.verdict) for step in answer.trace.steps if isinstance(step, Branch)]
    assert branches == [("Search[maker]", "observed"), ("Search[Ann]", "observed")]


async def test_observations_stand_after_their_actions() -> None:
    """ReAct differs from self-ask by this (ToR §4.3)."""
    said = ["Thought 1: Who?\nAction 1: Search[maker]", "Action 2: Search[no such]", "Action 3: Finish[x]"]
    _, model = await play("react", {"react.act": said}, hits={"maker": "a"})
    assert model.calls[-1].messages[-1]["content"] == (
        "Question: Q\nThought 1: Who?\nAction 1: Search[maker]\nObservation 1:\n"
        "<passage 1>\nTitle: A\na0 a1 a2\n</passage 1>\n"
        "Action 2: Search[no such]\nObservation 2: nothing found"
    )
    assert model.calls[0].stop == ("\nObservation",)


async def test_after_the_last_turn_it_must_finish() -> None:
    answer, model = await play("react", acts("Search maker", "Search Ann", "Search more", finish="Rome"), hits=HITS)
    assert seen(model.calls[-1]) == "finish: Search[maker] a b c d e, Search[Ann] g a, Search[more] h"
    assert [call.final for call in answer.trace.calls] == [False, False, False, True]
    assert (answer.text, answer.usage.layers) == ("Rome", 4)


@pytest.mark.parametrize("maximum", [1, 2, 6])
async def test_max_turns_bounds_the_actions(maximum: int) -> None:
    answer, model = await play("react", restless, hits={}, max_turns=maximum)
    assert searched(answer) == [(str(n), 5) for n in range(maximum)]
    assert [call.task for call in model.calls] == ["react.act"] * maximum + ["react.finish"]
    assert (answer.text, answer.supported, answer.evidence) == ("x", False, ())


async def test_finishing_at_once_is_no_search() -> None:
    answer, model = await play("react", acts("Finish Rome"), hits=HITS)
    assert (answer.text, len(model.calls), searched(answer), answer.supported) == ("Rome", 1, [], False)


async def test_a_search_made_again_is_made_again() -> None:
    answer, _ = await play("react", acts("Search more", "Search more", "Finish x"), hits=HITS)
    assert searched(answer) == [("more", 5)] * 2
    assert names(answer.passages) == "h"


async def test_what_a_call_was_shown_stays_as_it_was() -> None:
    answer, _ = await play("react", acts("Search more", "Finish x"), hits=HITS)
    assert [len(call.fields["steps"]) for call in answer.trace.calls] == [0, 1]


# --- lookup (§3.1) -----------------------------------------------------------------------------------------------


async def observed(*lines: str, **given: Any) -> list[list[str]]:
    """The texts that each action brought, where a search for "mill" finds the page."""
    model = ScriptedLM(acts(*lines, "Finish x"))

    def search(query: str, k: int) -> list[Passage]:
        return [PAGE] if query == "mill" else []

    async with Pipeline(method="react", lm=model, retriever=search, max_turns=len(lines) + 1, **given) as qa:
        answer = await qa.aask("Q")
    lookups = [data["found"] for name, data in notes(answer) if name == "lookup"]
    steps = model.calls[-1].fields["steps"]
    brought = [[passage.text for passage in step["passages"]] for step in steps]
    assert lookups == [texts for texts, step in zip(brought, steps, strict=True) if step["action"] == "Lookup"]
    assert answer.statistics["lookups"] == len(lookups)
    return brought


async def test_a_search_shows_the_first_sentences() -> None:
    assert await observed("Search mill") == [
        ["It was begun in 1900. It opened in 1901. Ann made it. It was shut. It opened again."]
    ]
    assert await observed("Search mill", sentences_shown=1) == [["It was begun in 1900."]]
    assert await observed("Search mill", sentences_shown=7) == [[PAGE.text]]


async def test_a_lookup_gives_the_next_sentence_with_the_keyword() -> None:
    _, *lookups = await observed("Search mill", "Lookup opened", "Lookup OPENED", "Lookup opened", "Lookup late")
    assert lookups == [["It opened in 1901."], ["It opened again."], [], ["Late."]]  # the last was not shown


async def test_a_lookup_without_a_search_finds_nothing() -> None:
    assert await observed("Lookup opened") == [[]]


async def test_a_new_search_starts_the_lookups_anew_unless_it_found_nothing() -> None:
    brought = await observed("Search mill", "Lookup opened", "Search mill", "Lookup opened")
    assert brought[-1] == ["It opened in 1901."]
    brought = await observed("Search mill", "Lookup opened", "Search weir", "Lookup opened")
    assert brought[-2:] == [[], ["It opened again."]]


def test_lookups_go_through_the_passages_in_rank_order() -> None:
    found = [[Passage("a", "A", "One mill. No."), Passage("b", "B", "Two mills.")]]
    assert [(p.id, p.text) for p in looked_up("mill", found, [])] == [("a", "One mill.")]
    before = {"action": "Lookup", "argument": "Mill", "passages": []}
    assert [(p.id, p.text) for p in looked_up("mill", found, [before])] == [("b", "Two mills.")]


# --- settings, defaults and budgets ------------------------------------------------------------------------------


async def test_k_and_rank_limit() -> None:
    answer, model = await play("react", acts("Search maker", "Search more", "Finish x"), hits=HITS, k=3, rank_limit=2)
    assert seen(model.calls[-1]) == "act: Search[maker] a b c, Search[more] h"
    assert names(answer.passages) == "a b"


async def test_the_oldest_observations_give_way_where_the_prompt_is_full() -> None:
    def script() -> dict[str, Any]:
        return acts("Search maker", "Search Ann", "Finish x")

    whole, _ = await play("react", script(), hits=HITS, shots=0)
    tokens = whole.trace.calls[-1].prompt_tokens - 30
    answer, model = await play("react", script(), hits=HITS, shots=0, context_tokens=tokens)
    assert seen(model.calls[-1]) == "act: Search[maker] a b, Search[Ann] g a"
    assert answer.trace.calls[-1].prompt_tokens <= tokens
    assert names(answer.passages) == "a b c d e g"


async def test_a_reply_that_cannot_be_read_ends_the_acting() -> None:
    said = {"react.act": ["Hm, let me think.\nAnd again."] * 2, "react.finish": "Rome"}
    answer, model = await play("react", said, hits=HITS)
    assert [call.task for call in model.calls] == ["react.act", "react.act", "react.finish"]
    assert (answer.text, answer.usage.defaulted_by_task) == ("Rome", {"react.act": 1})


async def test_nothing_readable_is_no_answer() -> None:
    answer, model = await play("react", lambda task, fields: "", hits=HITS)
    assert (answer.text, len(model.calls)) == ("", 4)


@pytest.mark.parametrize("maximum", [1, 2, 3])
@pytest.mark.parametrize(("method", "last"), [("react", "react.finish"), ("react-cot-sc", "answer.cot")])
async def test_the_budget_leaves_the_answer(method: str, last: str, maximum: int) -> None:
    answer, model = await play(method, restless, hits={}, max_calls=maximum)
    assert [call.task for call in model.calls] == ["react.act"] * (maximum - 1) + [last]
    assert (answer.text, answer.trace.budget) == ("x", "max_calls")


PIECES = (
    'Thought 1:|Action 1:|Search[|Lookup[a]|Finish[|]|[|\n|Observation 1:|x|{|"action": "search"|The answer is'.split(
        "|"
    )
)


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(said=st.lists(st.lists(st.sampled_from(PIECES), max_size=8).map(" ".join), min_size=1, max_size=4))
@pytest.mark.parametrize("method", ["react", "react-cot-sc"])
async def test_nothing_a_model_says_raises_or_loops(method: str, said: list[str]) -> None:
    made = iter(range(100))
    answer, model = await play(method, lambda task, fields: said[next(made) % len(said)], hits={"x": "a b"})
    assert len(answer.trace.calls) == len(model.calls) <= 2 * (4 + 5)
    assert len(searched(answer)) <= 3


# --- ReAct → CoT-SC (§3.2) ---------------------------------------------------------------------------------------


def votes(*answers: str) -> dict[str, Any]:
    return {"answer.cot": [{"answer": answer} for answer in answers]}


async def test_what_finishes_is_not_voted_on() -> None:
    answer, model = await play("react-cot-sc", acts("Search Ann", "Finish Rome") | votes(), hits=HITS)
    assert (answer.text, bool(answer.evidence), len(model.calls)) == ("Rome", True, 2)
    assert answer.statistics == {"turns": 1, "searches": 1, "lookups": 0, "votes": 0}


async def test_what_does_not_finish_is_voted_on() -> None:
    script = acts("Search maker", "Search Ann", "Search more", "Search again")
    answer, model = await play("react-cot-sc", script | votes("Rome", "Oslo", "Oslo", "Rome", "rome."), hits=HITS)
    assert [call.task for call in model.calls] == ["react.act"] * 4 + ["answer.cot"] * 5
    assert {call.temperature for call in model.calls[4:]} == {0.7}
    assert model.calls[4].fields == {"question": "Q", "kind": "qa"}  # without what was found
    assert searched(answer) == [("maker", 5), ("Ann", 5), ("more", 5)]  # the last step may only finish
    assert (answer.text, answer.confidence) == ("Rome", 0.6)
    assert (answer.supported, answer.evidence) == (False, ())
    assert names(answer.passages) == "a b c d e g h"
    assert answer.statistics == {"turns": 3, "searches": 3, "lookups": 0, "votes": 5, "agreement": 0.6}
    assert answer.usage.layers == 5


async def test_the_last_step_may_finish() -> None:
    answer, model = await play("react-cot-sc", acts("Search a", "Finish Rome") | votes(), hits={}, max_turns=1)
    assert (answer.text, len(model.calls)) == ("Rome", 2)


async def test_what_cannot_be_read_is_voted_on() -> None:
    script = {"react.act": "", "answer.cot": {"answer": "Rome"}}
    answer, model = await play("react-cot-sc", script, hits=HITS, samples=2, temperature=0.2)
    assert [call.task for call in model.calls] == ["react.act"] * 2 + ["answer.cot"] * 2
    assert (answer.text, model.calls[-1].temperature) == ("Rome", 0.2)
