"""Iter-RetGen worked by hand: what every round searched and read, and which answer is the answer."""

from __future__ import annotations

from typing import Any

import pytest

from polyhop.answer import Answer
from polyhop.lm.base import Capabilities, Request
from polyhop.pipeline import Pipeline
from polyhop.trace import Branch, Searched
from polyhop.types import Passage
from tests.kit.scene import evidence, names
from tests.kit.scripted_run import play, sure

FIRST, SECOND = "Q It is by Ann. Oslo", "Q Ann is from Rome. Rome"
HITS = {"Q": "a b c d e f", FIRST: "g a h", SECOND: "g i"}
SAID = {
    "answer.read_cot": [
        "It is by Ann. The answer is Oslo.",
        "Ann is from Rome. The answer is Rome.",
        "So it is. The answer is Roma.",
    ]
}


def searched(answer: Answer) -> list[tuple[str, int]]:
    return [(step.query, step.k) for step in answer.trace.steps if isinstance(step, Searched)]


def seen(call: Request) -> str:
    return f"{call.task} {names(call.fields.get('passages', ()))}".strip()


async def test_each_round_searches_the_question_with_the_last_output_and_reads_its_own_passages() -> None:
    answer, model = await play("iter-retgen", SAID, hits=HITS)
    assert searched(answer) == [("Q", 5), (FIRST, 5), (SECOND, 5)]
    assert [seen(call) for call in model.calls] == [
        "answer.read_cot a b c d e",
        "answer.read_cot g a h",
        "answer.read_cot g i",
    ]
    assert {call.fields["question"] for call in model.calls} == {"Q"}
    assert answer.text == "Roma"  # the last answer wins
    assert names(answer.passages) == "a b c d e g h i"  # in the order first retrieved
    assert (evidence(answer), bool(answer.evidence)) == ([("g i", "Roma")], True)
    assert (answer.statistics, answer.usage.layers) == ({"rounds": 3}, 3)
    assert [call.final for call in answer.trace.calls] == [False, False, True]
    assert [step.label for step in answer.trace.steps if isinstance(step, Branch)] == ["Q", FIRST, SECOND]


@pytest.mark.parametrize("maximum", [1, 2])
async def test_max_turns_is_the_number_of_rounds(maximum: int) -> None:
    answer, model = await play("iter-retgen", SAID, hits=HITS, max_turns=maximum)
    assert len(searched(answer)) == len(model.calls) == maximum
    assert answer.text == ["Oslo", "Rome"][maximum - 1]


async def test_read_directly_the_answer_alone_is_the_output() -> None:
    said = {"answer.read": "Answer: Oslo"}
    answer, model = await play("iter-retgen", said, hits=HITS | {"Q Oslo": "g"}, style="direct", max_turns=2)
    assert searched(answer) == [("Q", 5), ("Q Oslo", 5)]
    assert [call.task for call in model.calls] == ["answer.read", "answer.read"]


async def test_an_output_that_cannot_be_read_adds_nothing() -> None:
    said: dict[str, Any] = {"answer.read_cot": ["", "", "The answer is Rome."]}
    answer, _ = await play("iter-retgen", said, hits=HITS, max_turns=2)
    assert searched(answer) == [("Q", 5), ("Q", 5)]
    assert answer.text == "Rome"
    assert answer.usage.defaulted_by_task == {"answer.read_cot": 1}


async def test_a_round_that_finds_the_same_passages_has_the_same_output() -> None:
    said = {"answer.read_cot": sure("Rome", -0.5), "answer.cot": sure("Oslo", -0.5)}
    able = Capabilities(token_logprobs=True)
    answer, model = await play("iter-retgen", said, hits=HITS | {"Q Rome": HITS["Q"]}, capabilities=able)
    assert searched(answer) == [("Q", 5), ("Q Rome", 5), ("Q Rome", 5)]
    assert (len(model.calls), answer.text, answer.statistics["rounds"]) == (1, "Rome", 3)
    assert answer.confidence is not None
    assert 0 < answer.confidence < 1  # of the reply that came first


async def test_where_nothing_is_found_it_answers_closed_book_and_supports_nothing() -> None:
    answer, model = await play("iter-retgen", {"answer.cot": {"answer": "Rome"}}, hits={}, max_turns=2)
    assert [call.task for call in model.calls] == ["answer.cot"]
    assert searched(answer) == [("Q", 5), ("Q Rome", 5)]
    assert (answer.text, answer.passages, answer.evidence, answer.supported) == ("Rome", (), (), False)


async def test_k_rank_limit_and_shots() -> None:
    answer, model = await play("iter-retgen", SAID, hits=HITS, k=2, rank_limit=3, shots=1)
    assert [seen(call) for call in model.calls] == [
        "answer.read_cot a b",
        "answer.read_cot g a",
        "answer.read_cot g i",
    ]
    assert names(answer.passages) == "a b g"
    assert {sum(turn["role"] == "assistant" for turn in call.messages) for call in model.calls} == {1}


async def test_the_last_passages_give_way_where_the_prompt_is_full() -> None:
    whole, _ = await play("iter-retgen", SAID, hits=HITS, shots=0, max_turns=1)
    tokens = whole.trace.calls[0].prompt_tokens - 20
    answer, model = await play("iter-retgen", SAID, hits=HITS, shots=0, max_turns=1, context_tokens=tokens)
    assert names(model.calls[0].fields["passages"]) == "a b c"
    assert answer.trace.calls[0].prompt_tokens <= tokens
    assert names(answer.passages) == "a b c d e"


@pytest.mark.parametrize("maximum", [1, 2])
async def test_the_budget_leaves_the_newest_passages_an_answer(maximum: int) -> None:
    answer, model = await play("iter-retgen", SAID, hits=HITS, max_calls=maximum)
    assert [seen(call) for call in model.calls] == ["answer.read_cot a b c d e", "answer.read_cot g a h"][:maximum]
    assert [call.final for call in answer.trace.calls] == [False] * (maximum - 1) + [True]
    assert (answer.text, answer.trace.budget) == (["Oslo", "Rome"][maximum - 1], "max_calls")


async def test_an_answer_is_not_asked_for_again_when_only_the_search_was_cut_off() -> None:
    answer, model = await play("iter-retgen", SAID, hits=HITS, max_tokens=1)
    assert [call.final for call in answer.trace.calls] == [False]
    assert (answer.text, len(model.calls), answer.trace.budget) == ("Oslo", 1, "max_tokens")


async def test_pocket_follows_its_own_output() -> None:
    corpus = [
        Passage("1", "Alien (film)", "Alien is a 1979 film directed by Ridley Scott."),
        Passage("2", "Ridley Scott", "Ridley Scott is an English director born in South Shields."),
    ]
    async with Pipeline(corpus, "iter-retgen", lm="pocket") as qa:
        answer = await qa.aask("Where was the director of Alien born?")
    assert (answer.text, bool(answer.evidence)) == ("South Shields", True)
