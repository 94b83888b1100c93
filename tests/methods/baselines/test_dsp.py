"""DSP's multi-hop program worked by hand: what each hop saw and searched, and the vote that predicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from polyhop.answer import Answer
from polyhop.lm.base import Capabilities, Request
from polyhop.pipeline import Pipeline
from polyhop.trace import Branch, Searched
from polyhop.types import Passage
from tests.kit.scene import evidence, names
from tests.kit.scripted_run import play, sure

HITS = {"who made it": "a b c d e f", "Ann birthplace": "g a", "Rome country": "h"}
FIRST = "Query: who made it"
SECOND = "Summary: It is by Ann.\nQuery: Ann birthplace"
THIRD = "Summary: Ann is from Rome.\nQuery: Rome country"


def said(*hops: Any, answers: Any = "So. The answer is Rome.") -> dict[str, Any]:
    return {"dsp.hop": list(hops), "answer.read_cot": answers}


def searched(answer: Answer) -> list[tuple[str, int]]:
    return [(step.query, step.k) for step in answer.trace.steps if isinstance(step, Searched)]


def seen(call: Request) -> str:
    return f"{names(call.fields['passages'])} | {' '.join(call.fields['summaries'])}".strip()


# --- search (§3.3) -----------------------------------------------------------------------------------------------


async def test_each_hop_writes_its_query_from_what_the_hops_before_found_out() -> None:
    answer, model = await play("dsp", said(FIRST, SECOND, THIRD), hits=HITS, max_turns=3)
    assert searched(answer) == [("who made it", 5), ("Ann birthplace", 5), ("Rome country", 5)]
    assert [seen(call) for call in model.calls[:3]] == ["|", "a b c d e |", "g a | It is by Ann."]
    assert [step.label for step in answer.trace.steps if isinstance(step, Branch)] == [
        "who made it",
        "Ann birthplace",
        "Rome country",
    ]


async def test_two_hops_then_sampled_chains_over_the_passages_of_both() -> None:
    answer, model = await play("dsp", said(FIRST, SECOND), hits=HITS)
    assert [call.task for call in model.calls] == ["dsp.hop"] * 2 + ["answer.read_cot"] * 5
    assert [call.temperature for call in model.calls] == [0.0] * 2 + [0.7] * 5
    assert [call.sample for call in model.calls[2:]] == [0, 1, 2, 3, 4]
    assert {names(call.fields["passages"]) for call in model.calls[2:]} == {"a b c d e g"}
    assert (answer.text, answer.supported, answer.usage.layers) == ("Rome", True, 3)
    assert names(answer.passages) == "a b c d e g"
    assert evidence(answer) == [("a b c d e g", "Rome")]
    assert answer.statistics == {"hops": 2, "samples": 5, "agreement": 1.0}


@pytest.mark.parametrize("ending", ["Summary: It is by Ann of Rome.\nQuery: N/A", {"summary": "It is so."}])
async def test_nothing_missing_is_no_further_hop(ending: Any) -> None:
    answer, _ = await play("dsp", said(FIRST, ending), hits=HITS)
    assert searched(answer) == [("who made it", 5)]
    assert answer.statistics["hops"] == 1


@pytest.mark.parametrize("hop", [("", ""), ({"query": None},)])
async def test_a_first_hop_without_a_query_searches_the_question(hop: tuple[Any, ...]) -> None:
    answer, _ = await play("dsp", said(*hop, SECOND), hits={"Q": "a"})
    assert searched(answer) == [("Q", 5), ("Ann birthplace", 5)]


@pytest.mark.parametrize("reply", ["", "Query: Who made it!", {"summary": "It is by Ann.", "query": "who made it"}])
async def test_a_later_hop_that_cannot_be_read_or_repeats_a_query_ends_the_search(reply: Any) -> None:
    answer, _ = await play("dsp", said(FIRST, reply, reply), hits=HITS)
    assert searched(answer) == [("who made it", 5)]
    assert answer.text == "Rome"


async def test_a_summary_of_nothing_found_is_not_kept() -> None:
    hops = [{"summary": "Made up.", "query": "x"}, {"summary": "Made up too.", "query": "y"}, {"query": None}]
    answer, model = await play("dsp", said(*hops) | {"answer.cot": {"answer": "Rome"}}, hits={}, max_turns=3)
    assert [seen(call) for call in model.calls[:3]] == ["|", "|", "|"]
    assert searched(answer) == [("x", 5), ("y", 5)]
    assert (answer.text, answer.passages, answer.supported) == ("Rome", (), False)
    assert {call.task for call in model.calls[3:]} == {"answer.cot"}


# --- predict (§3.4) ----------------------------------------------------------------------------------------------


async def test_the_answer_is_the_majoritys() -> None:
    answers = [f"The answer is {name}." for name in ("Oslo", "Rome", "the Rome", "Bergen", "rome")]
    answer, _ = await play("dsp", said(FIRST, SECOND, answers=answers), hits=HITS)
    assert answer.text == "Rome"
    assert answer.confidence == pytest.approx(0.6)
    assert answer.statistics["agreement"] == pytest.approx(0.6)


async def test_ties_go_to_the_likelier_answer() -> None:
    answers = [sure("Rome", -2.0), sure("Oslo", -1.0)]
    able = Capabilities(token_logprobs=True)
    answer, _ = await play("dsp", said(FIRST, SECOND, answers=answers), hits=HITS, samples=2, capabilities=able)
    assert answer.text == "Oslo"


async def test_no_readable_chain_is_no_answer() -> None:
    answer, _ = await play("dsp", said(FIRST, SECOND, answers=""), hits=HITS)
    assert (answer.text, answer.evidence, answer.supported, answer.confidence) == ("", (), False, 0.0)


# --- its settings ------------------------------------------------------------------------------------------------


async def test_k_rank_limit_samples_temperature_and_shots() -> None:
    arguments: dict[str, Any] = {"k": 2, "rank_limit": 3, "samples": 2, "temperature": 0.3, "shots": 1}
    answer, model = await play("dsp", said(FIRST, SECOND), hits=HITS, **arguments)
    assert searched(answer) == [("who made it", 2), ("Ann birthplace", 2)]
    assert names(answer.passages) == "a b g"
    assert [call.temperature for call in model.calls] == [0.0, 0.0, 0.3, 0.3]
    assert {sum(turn["role"] == "assistant" for turn in call.messages) for call in model.calls} == {1}


async def test_max_turns_is_the_number_of_hops() -> None:
    answer, model = await play("dsp", said(FIRST), hits=HITS, max_turns=1, samples=1)
    assert [call.task for call in model.calls] == ["dsp.hop", "answer.read_cot"]
    assert answer.usage.layers == 2


async def test_the_last_passages_give_way_where_a_prompt_is_full() -> None:
    whole, _ = await play("dsp", said(FIRST, SECOND), hits=HITS, shots=0)
    tokens = max(call.prompt_tokens for call in whole.trace.calls) - 25
    answer, _ = await play("dsp", said(FIRST, SECOND), hits=HITS, shots=0, context_tokens=tokens)
    assert max(call.prompt_tokens for call in answer.trace.calls) <= tokens
    assert names(answer.passages) == "a b c d e g"


@pytest.mark.parametrize(("maximum", "hops", "samples"), [(1, 0, 1), (2, 1, 1), (3, 2, 1), (4, 2, 2), (9, 2, 5)])
async def test_the_budget_keeps_a_prediction(maximum: int, hops: int, samples: int) -> None:
    def script(task: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {"query": f"query {len(fields.get('passages', ()))}", "answer": "Rome"}

    answer, model = await play("dsp", script, hits={"query 0": "a"}, max_calls=maximum)
    assert sum(call.task == "dsp.hop" for call in model.calls) == hops
    assert (answer.text, len(model.calls)) == ("Rome", hops + samples)


async def test_pocket_walks_two_hops() -> None:
    corpus = [
        Passage("1", "Alien (film)", "Alien is a 1979 film directed by Ridley Scott."),
        Passage("2", "Ridley Scott", "Ridley Scott is an English director born in South Shields."),
    ]
    async with Pipeline(corpus, "dsp", lm="pocket", k=1) as qa:
        answer = await qa.aask("Where was the director of Alien born?")
    assert (answer.text, answer.supported) == ("South Shields", True)
    assert answer.statistics["hops"] == 2
