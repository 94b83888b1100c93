"""DSP's multi-hop program worked by hand: what each hop saw and searched, and the vote that predicts.

With one query per hop, unless a test says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from polyhop.answer import Answer
from polyhop.lm.base import Capabilities, Request
from polyhop.lm.scripted import ScriptedLM
from polyhop.pipeline import Pipeline
from polyhop.trace import Branch, Searched
from polyhop.types import Passage
from tests.kit import scripted_run
from tests.kit.scene import evidence, names
from tests.kit.scripted_run import sure

HITS = {"who made it": "a b c d e f", "Ann birthplace": "g a", "Rome country": "h"}
FIRST = "Query: who made it"
SECOND = "Summary: It is by Ann.\nQuery: Ann birthplace"
THIRD = "Summary: Ann is from Rome.\nQuery: Rome country"


async def play(*arguments: Any, queries: int = 1, **more: Any) -> tuple[Answer, ScriptedLM]:
    return await scripted_run.play(*arguments, queries=queries, **more)


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


async def test_two_hops_then_sampled_chains_over_the_summary_and_the_passages_of_the_last() -> None:
    answer, model = await play("dsp", said(FIRST, SECOND), hits=HITS)
    assert [call.task for call in model.calls] == ["dsp.hop"] * 2 + ["answer.read_cot"] * 5
    assert [call.temperature for call in model.calls] == [0.0] * 2 + [0.7] * 5
    assert [call.sample for call in model.calls[2:]] == [0, 1, 2, 3, 4]
    (read,) = {tuple(call.fields["passages"]) for call in model.calls[2:]}
    assert [passage.text for passage in read[:1]] == ["It is by Ann."]
    assert names(read[1:]) == "g a"
    assert (answer.text, bool(answer.evidence), answer.usage.layers) == ("Rome", True, 3)
    assert names(answer.passages) == "g a b c d e"
    assert evidence(answer) == [("g a b c d e", "Rome")]
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


async def test_a_summary_of_nothing_found_is_not_kept_and_the_same_hop_not_written_again() -> None:
    hops = [{"summary": "Made up.", "query": "x"}, {"summary": "Made up too.", "query": "y"}]
    answer, model = await play("dsp", said(*hops) | {"answer.cot": {"answer": "Rome"}}, hits={}, max_turns=3)
    assert seen(model.calls[0]) == "|"
    assert searched(answer) == [("x", 5)]
    assert (answer.text, answer.passages, answer.supported) == ("Rome", (), False)
    assert {call.task for call in model.calls[1:]} == {"answer.cot"}


# --- several queries a hop (§3.3) ----------------------------------------------------------------------------------


async def test_the_rankings_of_the_sampled_queries_are_fused() -> None:
    hits = {"made by": "a b", "maker": "b c", "Ann born": "g"}
    replies = ["Query: made by", "Query: Made by?", "Query: maker"]
    later = ["Summary: By Ann.\nQuery: Ann born", "Summary: By Bob.\nQuery: made by", "Summary: By Ann.\nQuery: N/A"]
    answer, model = await play("dsp", said(*replies, *later), hits=hits, queries=3, k=2)
    assert searched(answer) == [("made by", 2), ("maker", 2), ("Ann born", 2)]
    assert [call.temperature for call in model.calls] == [0.7] * 11
    assert [call.sample for call in model.calls[:3]] == [0, 1, 2]
    assert {seen(call) for call in model.calls[3:6]} == {"b a |"}  # b is in both rankings; two are kept
    assert {tuple(passage.text for passage in call.fields["passages"])[:1] for call in model.calls[6:]} == {
        ("By Ann.",)
    }
    assert {names(call.fields["passages"][1:]) for call in model.calls[6:]} == {"g"}
    assert (names(answer.passages), answer.statistics["hops"]) == ("g b a", 2)


async def test_a_hop_ends_the_search_only_if_no_sample_has_a_new_query() -> None:
    replies = ["Query: who made it"] * 2 + ["Summary: So.\nQuery: N/A", "Summary: So.\nQuery: Who made it?"]
    answer, _ = await play("dsp", said(*replies), hits=HITS, queries=2)
    assert searched(answer) == [("who made it", 5)]


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
    assert (answer.text, answer.evidence, answer.supported, answer.confidence) == ("", (), False, None)


# --- its settings ------------------------------------------------------------------------------------------------


async def test_k_rank_limit_samples_temperature_and_shots() -> None:
    arguments: dict[str, Any] = {"k": 2, "rank_limit": 3, "samples": 2, "temperature": 0.3, "shots": 1}
    answer, model = await play("dsp", said(FIRST, SECOND), hits=HITS, **arguments)
    assert searched(answer) == [("who made it", 2), ("Ann birthplace", 2)]
    assert names(answer.passages) == "g a b"
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
    assert names(answer.passages) == "g a b c d e"


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
    assert (answer.text, bool(answer.evidence)) == ("South Shields", True)
    assert answer.statistics["hops"] == 2
