"""Self-ask worked by hand: what every turn saw, what was searched, and how the asking ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from polyhop.answer import Answer
from polyhop.errors import UsageError
from polyhop.lm.base import Request
from polyhop.pipeline import Pipeline
from polyhop.trace import Branch, Searched
from polyhop.types import Passage
from tests.kit.scene import evidence, names
from tests.kit.scripted_run import play

HITS = {"Who made it?": "a b c d e f", "Where was Ann born?": "g a", "And then?": "h"}


def searched(answer: Answer) -> list[tuple[str, int]]:
    return [(step.query, step.k) for step in answer.trace.steps if isinstance(step, Searched)]


def seen(call: Request) -> str:
    """Write the prompt of a turn on one line: passages, then follow-ups with their answers."""
    pairs = [f"{pair['sub_question']} {pair['answer'] or '-'}" for pair in call.fields["history"]]
    return f"{names(call.fields['passages'])} | {', '.join(pairs)}{' !' if call.fields['conclude'] else ''}"


def turns(*said: str) -> dict[str, Any]:
    return {"self_ask.turn": list(said)}


# --- with search (ToR §4.3) --------------------------------------------------------------------------------------


async def test_each_follow_up_is_searched_then_answered() -> None:
    said = turns(
        "Are follow up questions needed here: Yes.\nFollow up: Who made it?",
        "Intermediate answer: Ann\nFollow up: Where was Ann born?",
        "Intermediate answer: Rome\nSo the final answer is: Rome.",
    )
    answer, model = await play("self-ask", said, hits=HITS)
    assert searched(answer) == [("Who made it?", 5), ("Where was Ann born?", 5)]
    assert [seen(call) for call in model.calls] == [
        " | ",
        "a b c d e | Who made it? -",
        "g a b c d e | Who made it? Ann, Where was Ann born? -",  # the newest passages first, each once
    ]
    assert (answer.text, bool(answer.evidence)) == ("Rome", True)
    assert names(answer.passages) == "a b c d e g"  # in the order first retrieved
    assert evidence(answer) == [("a b c d e", "Ann"), ("g a", "Rome")]
    assert answer.statistics == {"follow_ups": 2, "searches": 2}
    assert answer.usage.layers == 3
    assert [step.label for step in answer.trace.steps if isinstance(step, Branch)] == [
        "Who made it?",
        "Where was Ann born?",
    ]


async def test_the_passages_stand_before_the_question_and_its_follow_ups() -> None:
    said = turns("Follow up: Who made it?", "So the final answer is: Ann.")
    _, model = await play("self-ask", said, hits={"Who made it?": "a"})
    content = model.calls[-1].messages[-1]["content"]
    assert content.startswith("Passages:\n<passage 1>\nTitle: A\n")
    tail = "\n\nQuestion: Q\nAre follow up questions needed here: Yes.\nFollow up: Who made it?"
    assert content.endswith(f"</passage 1>{tail}")
    assert model.calls[0].messages[-1]["content"] == "Question: Q"


async def test_after_three_searches_the_answer_is_asked_for() -> None:
    said = turns(
        "Follow up: Who made it?",
        "Intermediate answer: Ann\nFollow up: Where was Ann born?",
        "Intermediate answer: Rome\nFollow up: And then?",
        "Intermediate answer: nothing\nSo the final answer is: Rome.",
    )
    answer, model = await play("self-ask", said, hits=HITS)
    assert len(searched(answer)) == 3
    assert seen(model.calls[-1]).endswith("And then? - !")
    assert [call.final for call in answer.trace.calls] == [False, False, False, True]
    assert (answer.text, answer.usage.layers) == ("Rome", 4)


@pytest.mark.parametrize("maximum", [1, 2])
async def test_max_turns_bounds_the_searches(maximum: int) -> None:
    def said(task: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {"follow_up": f"{len(fields['history'])}?", "answer": "x" if fields["conclude"] else None}

    answer, model = await play("self-ask", said, hits={}, max_turns=maximum)
    assert searched(answer) == [(f"{n}?", 5) for n in range(maximum)]
    assert [call.fields["conclude"] for call in model.calls] == [False] * maximum + [True]


async def test_no_follow_up_needed_is_no_search() -> None:
    answer, model = await play("self-ask", turns("No.\nSo the final answer is: Rome."), hits=HITS)
    assert (answer.text, len(model.calls), searched(answer)) == ("Rome", 1, [])
    assert (answer.supported, answer.evidence, answer.passages) == (False, (), ())


@pytest.mark.parametrize("again", ["Who made it?", "who made it"])
async def test_a_follow_up_asked_before_ends_the_asking(again: str) -> None:
    said: list[Any] = [{"follow_up": "Who made it?"}, {"follow_up": again, "intermediate": "Ann"}, {"answer": "Ann"}]
    answer, model = await play("self-ask", {"self_ask.turn": said}, hits=HITS)
    assert len(searched(answer)) == 1
    assert seen(model.calls[-1]) == "a b c d e | Who made it? Ann !"
    assert answer.text == "Ann"
    assert evidence(answer) == [("a b c d e", "Ann")]


async def test_a_turn_that_cannot_be_read_ends_the_asking() -> None:
    answer, model = await play("self-ask", turns("Hm, let me think.", "Well.", "Rome"), hits=HITS)
    assert [call.fields["conclude"] for call in model.calls] == [False, False, True]
    assert (answer.text, searched(answer)) == ("Rome", [])
    assert answer.usage.defaulted_by_task == {"self_ask.turn": 1}


async def test_nothing_readable_is_no_answer() -> None:
    answer, model = await play("self-ask", {"self_ask.turn": ""}, hits=HITS)
    assert (answer.text, len(model.calls)) == ("", 4)


async def test_a_search_without_hits_goes_on_and_supports_nothing() -> None:
    said = turns("Follow up: Who?", "Intermediate answer: Ann\nSo the final answer is: Ann.")
    answer, model = await play("self-ask", said, hits={})
    assert seen(model.calls[-1]) == " | Who? -"
    assert (answer.text, answer.supported, answer.evidence) == ("Ann", False, ())


async def test_an_unanswered_follow_up_is_shown_as_unknown_and_is_no_evidence() -> None:
    said = turns("Follow up: Who made it?", "Follow up: And then?", "So the final answer is: x.")
    answer, model = await play("self-ask", said, hits=HITS)
    assert "Follow up: Who made it?\nIntermediate answer: unknown\n" in model.calls[-1].messages[-1]["content"]
    assert evidence(answer) == []


async def test_what_a_call_was_shown_stays_as_it_was() -> None:
    said = turns("Follow up: Who made it?", "Intermediate answer: Ann\nSo the final answer is: Ann.")
    answer, _ = await play("self-ask", said, hits=HITS)
    assert answer.trace.calls[-1].fields["history"] == [{"sub_question": "Who made it?", "answer": None}]


async def test_k_and_rank_limit() -> None:
    said = turns("Follow up: Who made it?", "Follow up: And then?", "So the final answer is: x.")
    answer, model = await play("self-ask", said, hits=HITS, k=2, rank_limit=2)
    assert names(model.calls[-1].fields["passages"]) == "h a b"
    assert names(answer.passages) == "a b"


async def test_the_oldest_passages_give_way_where_the_prompt_is_full() -> None:
    said: dict[str, Any] = {
        "self_ask.turn": [{"follow_up": "Who made it?"}, {"follow_up": "And then?"}, {"answer": "x"}]
    }
    whole, _ = await play("self-ask", said, hits=HITS, shots=0)
    tokens = whole.trace.calls[-1].prompt_tokens
    answer, model = await play("self-ask", said, hits=HITS, shots=0, context_tokens=tokens - 30)
    assert names(model.calls[-1].fields["passages"]) == "h a b"
    assert answer.trace.calls[-1].prompt_tokens <= tokens - 30


@pytest.mark.parametrize("maximum", [1, 2, 3])
async def test_the_budget_leaves_the_answer(maximum: int) -> None:
    def said(task: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {"follow_up": f"{len(fields['history'])}?", "answer": "x" if fields["conclude"] else None}

    answer, model = await play("self-ask", said, hits={}, max_calls=maximum)
    assert [call.fields["conclude"] for call in model.calls] == [False] * (maximum - 1) + [True]
    assert (answer.text, answer.trace.budget) == ("x", "max_calls")


# --- without (Press et al., §3) ----------------------------------------------------------------------------------


async def test_closed_book_is_one_reply() -> None:
    reply = (
        "Are follow up questions needed here: Yes.\nFollow up: Who made it?\nIntermediate answer: Ann.\n"
        "Follow up: Where was Ann born?\nIntermediate answer: In Rome.\nSo the final answer is: Rome."
    )
    answer, model = await play("self-ask", {"self_ask.chain": reply}, open_book=False)
    assert len(model.calls) == 1
    assert (answer.text, answer.statistics, answer.usage.layers) == ("Rome", {"follow_ups": 2}, 1)
    assert (answer.passages, answer.supported) == ((), False)
    assert answer.trace.calls[-1].final


async def test_only_the_open_book_needs_a_retriever() -> None:
    with pytest.raises(UsageError, match="corpus"):
        Pipeline(method="self-ask")
    answer, _ = await play("self-ask", {"self_ask.chain": ""}, open_book=False)
    assert answer.text == ""


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize("open_book", [True, False])
async def test_shots_are_the_demonstrations_shown(count: int, open_book: bool) -> None:
    _, model = await play("self-ask", lambda task, fields: {"answer": "x"}, hits={}, open_book=open_book, shots=count)
    assert sum(turn["role"] == "assistant" for turn in model.calls[0].messages) == count


async def test_pocket_walks_a_chain() -> None:
    corpus = [
        Passage("1", "Alien (film)", "Alien is a 1979 film directed by Ridley Scott."),
        Passage("2", "Ridley Scott", "Ridley Scott is an English director born in South Shields."),
    ]
    async with Pipeline(corpus, "self-ask", lm="pocket") as qa:
        answer = await qa.aask("Where was the director of Alien born?")
    assert (answer.text, bool(answer.evidence)) == ("South Shields", True)
    assert answer.statistics["follow_ups"] >= 1
