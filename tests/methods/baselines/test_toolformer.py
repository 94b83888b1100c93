"""Toolformer in context, worked by hand: where the writing stops, what is put in, how the text ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.answer import Answer
from polyhop.lm.base import Request
from polyhop.trace import Branch, Searched
from tests.kit.scene import evidence, names
from tests.kit.scripted_run import play

HITS = {"Who made it?": "a b c d e f", "Where was Ann born?": "g a", "And then?": "h"}


def searched(answer: Answer) -> list[tuple[str, int]]:
    return [(step.query, step.k) for step in answer.trace.steps if isinstance(step, Searched)]


def seen(call: Request) -> str:
    """Write the prompt of a call on one line: each piece of text, its call and its result."""
    pieces = (f"{piece['text']} [{piece['query']} {names(piece['passages'])}]" for piece in call.fields["written"])
    return f"{call.task.removeprefix('toolformer.')}: {' '.join(pieces)}".strip()


def restless(task: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """A model that calls for as long as it may."""
    if task == "toolformer.finish":
        return {"answer": "x"}
    return {"text": None, "query": f"{len(fields['written'])}?", "answer": None}


async def test_writing_stops_at_a_call_and_goes_on_with_its_result() -> None:
    said = [
        'It was made by [Search("Who made it?") → made up] Bob. The answer is Bob.',
        'Ann, who was born in [Search("Where was Ann born?")',
        "Rome. The answer is Rome.",
    ]
    answer, model = await play("toolformer", {"toolformer.write": said}, hits=HITS)
    assert [seen(call) for call in model.calls] == [
        "write:",
        "write: It was made by [Who made it? a b c d e]",
        "write: It was made by [Who made it? a b c d e] Ann, who was born in [Where was Ann born? g a]",
    ]
    assert searched(answer) == [("Who made it?", 5), ("Where was Ann born?", 5)]
    assert (answer.text, bool(answer.evidence), answer.usage.layers) == ("Rome", True, 3)
    assert names(answer.passages) == "a b c d e g"
    assert evidence(answer) == [("a b c d e g", "Rome")]
    assert answer.statistics == {"searches": 2}
    branches = [(step.label, step.verdict) for step in answer.trace.steps if isinstance(step, Branch)]
    assert branches == [(query, "inserted") for query in list(HITS)[:2]]


async def test_the_result_stands_after_the_arrow() -> None:
    said = ['So: [Search("Who made it?")]', 'Ann, [Search("no such")]', "The answer is Ann."]
    _, model = await play("toolformer", {"toolformer.write": said}, hits={"Who made it?": "a"})
    assert model.calls[-1].messages[-1]["content"] == (
        'Question: Q\n\nText so far:\nSo: [Search("Who made it?") →\n<passage 1>\nTitle: A\na0 a1 a2\n</passage 1>\n]\n'
        'Ann, [Search("no such") → nothing found]'
    )
    assert model.calls[0].messages[-1]["content"] == "Question: Q"
    assert model.calls[0].stop == ("→",)


async def test_no_call_needed_is_no_search() -> None:
    answer, model = await play("toolformer", {"toolformer.write": "It is by Ann. The answer is Ann."}, hits=HITS)
    assert (answer.text, len(model.calls), searched(answer)) == ("Ann", 1, [])
    assert (answer.supported, answer.evidence, answer.passages) == (False, (), ())


@pytest.mark.parametrize("maximum", [1, 3, 4])
async def test_after_the_last_call_the_text_is_ended(maximum: int) -> None:
    answer, model = await play("toolformer", restless, hits={}, max_turns=maximum)
    assert searched(answer) == [(f"{n}?", 5) for n in range(maximum)]
    assert [call.task for call in model.calls] == ["toolformer.write"] * maximum + ["toolformer.finish"]
    assert [call.final for call in answer.trace.calls] == [False] * maximum + [True]
    assert (answer.text, answer.supported) == ("x", False)


@pytest.mark.parametrize("again", ["Who made it?", "who made it"])
async def test_a_call_made_before_ends_the_calling(again: str) -> None:
    script = {"toolformer.write": [{"query": "Who made it?"}, {"query": again}], "toolformer.finish": {"answer": "Ann"}}
    answer, model = await play("toolformer", script, hits=HITS)
    assert [call.task for call in model.calls] == ["toolformer.write"] * 2 + ["toolformer.finish"]
    assert (answer.text, len(searched(answer))) == ("Ann", 1)


async def test_a_reply_that_cannot_be_read_ends_the_calling() -> None:
    script = {"toolformer.write": ["Hm, let me think.\nAnd again."] * 2, "toolformer.finish": "Rome"}
    answer, _ = await play("toolformer", script, hits=HITS)
    assert (answer.text, searched(answer)) == ("Rome", [])
    assert answer.usage.defaulted_by_task == {"toolformer.write": 1}


async def test_nothing_readable_is_no_answer() -> None:
    answer, model = await play("toolformer", lambda task, fields: "", hits=HITS)
    assert (answer.text, len(model.calls)) == ("", 4)


async def test_k_and_rank_limit() -> None:
    script = {"toolformer.write": [{"query": "Who made it?"}, {"query": "And then?"}, {"answer": "x"}]}
    answer, model = await play("toolformer", script, hits=HITS, k=3, rank_limit=2)
    assert seen(model.calls[-1]) == "write: None [Who made it? a b c] None [And then? h]"
    assert names(answer.passages) == "a b"


async def test_the_oldest_results_give_way_where_the_prompt_is_full() -> None:
    script = {"toolformer.write": [{"query": "Who made it?"}, {"query": "Where was Ann born?"}, {"answer": "x"}] * 2}
    whole, _ = await play("toolformer", script, hits=HITS, shots=0)
    tokens = whole.trace.calls[-1].prompt_tokens - 30
    answer, model = await play("toolformer", script, hits=HITS, shots=0, context_tokens=tokens)
    assert seen(model.calls[-1]) == "write: None [Who made it? a b] None [Where was Ann born? g a]"
    assert answer.trace.calls[-1].prompt_tokens <= tokens


@pytest.mark.parametrize("maximum", [1, 2, 3])
async def test_the_budget_leaves_the_answer(maximum: int) -> None:
    answer, model = await play("toolformer", restless, hits={}, max_calls=maximum)
    assert [call.task for call in model.calls] == ["toolformer.write"] * (maximum - 1) + ["toolformer.finish"]
    assert (answer.text, answer.trace.budget) == ("x", "max_calls")


PIECES = '[Search("|[Search(|")]|]|→|\n|x|Search:|(|{|"query": "x"|The answer is'.split("|")


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(said=st.lists(st.lists(st.sampled_from(PIECES), max_size=8).map(" ".join), min_size=1, max_size=4))
async def test_nothing_a_model_says_raises_or_loops(said: list[str]) -> None:
    made = iter(range(100))
    answer, model = await play("toolformer", lambda task, fields: said[next(made) % len(said)], hits={"x": "a b"})
    assert len(model.calls) <= 2 * 4
    assert len(searched(answer)) <= 3
