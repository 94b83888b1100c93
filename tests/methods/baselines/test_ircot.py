"""IRCoT worked by hand: sentences and searches in turn, what is a query, what ends the chain, what the reader sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from polyhop.answer import Answer
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods.baselines.ircot import next_query
from polyhop.pipeline import Pipeline
from polyhop.trace import Ask, Searched
from polyhop.types import Passage
from tests.kit.scene import evidence, names, passage
from tests.kit.scripted_run import play

MADE, BORN, LAST = "It was by Ann Lee.", "Ann Lee was born in Rome.", "So the answer is Rome."
HITS = {"Q": "a b c d e f", MADE: "g a", BORN: "h"}


def said(*sentences: str, answer: str = "Roma") -> dict[str, Any]:
    return {"cot.sentence": list(sentences), "answer.read_cot": {"rationale": "So.", "answer": answer}}


def transcript(answer: Answer) -> list[str]:
    """Searches and calls in the order they were made; a sentence with what it saw."""
    lines = []
    for step in answer.trace.steps:
        if isinstance(step, Searched):
            lines.append(f"search {step.query}, {step.k}")
        elif isinstance(step, Ask):
            so_far = " ".join(step.fields.get("reasoning", ()))
            lines.append(f"{step.task} {names(step.fields.get('passages', ()))} | {so_far}".strip(" |"))
    return lines


# --- the chain (§3) ----------------------------------------------------------------------------------------------


async def test_each_sentence_is_searched_and_the_next_sees_all_passages_so_far() -> None:
    answer, _ = await play("ircot", said(MADE, BORN), hits=HITS)
    assert transcript(answer) == [
        "search Q, 5",
        "cot.sentence a b c d e",
        f"search {MADE}, 5",
        f"cot.sentence a b c d e g | {MADE}",
        f"search {BORN}, 5",
        "answer.read_cot a b c d e g h",  # the reader sees the passages and not the chain
    ]
    assert (answer.text, bool(answer.evidence)) == ("Roma", True)
    assert names(answer.passages) == "a b c d e g h"  # first come
    assert evidence(answer) == [("a b c d e g h", "Roma")]
    assert (answer.statistics, answer.usage.layers) == ({"sentences": 2, "searches": 3}, 3)
    assert [call.final for call in answer.trace.calls] == [False, False, True]


async def test_a_sentence_that_names_the_answer_ends_the_chain_and_the_reader_answers() -> None:
    answer, _ = await play("ircot", said(MADE, LAST), hits=HITS)
    assert transcript(answer)[2:] == [
        f"search {MADE}, 5",
        f"cot.sentence a b c d e g | {MADE}",
        "answer.read_cot a b c d e g",
    ]
    assert answer.text == "Roma"
    assert answer.statistics == {"sentences": 2, "searches": 2}


async def test_only_the_first_new_sentence_of_a_reply_is_taken() -> None:
    answer, model = await play("ircot", said(f"{MADE} {BORN} {LAST}", f"{MADE} {BORN} {LAST}", LAST), hits=HITS)
    assert [call.fields["reasoning"] for call in model.calls[:2]] == [[], [MADE]]
    assert [line for line in transcript(answer) if line.startswith("search")][-1] == f"search {BORN}, 5"


@pytest.mark.parametrize(
    "sentence", ["Thus it is by Ann.", "So, it is hers.", "Therefore it is so.", "1 + 2 = 3 it is."]
)
async def test_a_mere_conclusion_is_no_query(sentence: str) -> None:
    """The query is then the sentence before, which was searched: nothing is searched, and the chain goes on."""
    answer, model = await play("ircot", said(MADE, sentence, BORN), hits=HITS)
    assert [line for line in transcript(answer) if "search" in line] == [
        "search Q, 5",
        f"search {MADE}, 5",
        f"search {BORN}, 5",
    ]
    assert [call.fields["reasoning"] for call in model.calls[:3]] == [[], [MADE], [MADE, sentence]]
    assert answer.statistics == {"sentences": 3, "searches": 3}


@pytest.mark.parametrize(
    ("reasoning", "query"),
    [
        (["Ann, who made it, is from Rome."], "Ann, made it, from Rome."),
        (["Whose is it?", "Hence it is Ann's."], "Whose it?"),
        (["Born 1914-2002 in Rome."], "Born 1914-2002 in Rome."),
        (["Some of it was so."], "Some of it was so."),
        (["So it is."], None),
        (["who is"], None),
        ([], None),
    ],
)
def test_the_query_of_a_chain(reasoning: Sequence[str], query: str | None) -> None:
    assert next_query(reasoning) == query


@pytest.mark.parametrize("reply", ["", MADE, MADE.lower()])
async def test_a_sentence_that_is_not_new_or_not_readable_ends_the_chain(reply: str) -> None:
    answer, _ = await play("ircot", said(MADE, reply, reply), hits=HITS)
    assert transcript(answer)[-1] == "answer.read_cot a b c d e g"
    assert answer.statistics == {"sentences": 1, "searches": 2}
    value: dict[str, Any] = {"cot.sentence": [MADE, {"sentence": MADE}], "answer.read_cot": {"answer": "x"}}
    answer, _ = await play("ircot", value, hits=HITS)
    assert answer.statistics == {"sentences": 1, "searches": 2}


async def test_an_unreadable_first_sentence_leaves_one_retrieval() -> None:
    answer, _ = await play("ircot", said("", ""), hits=HITS)
    assert transcript(answer)[-1] == "answer.read_cot a b c d e"
    assert answer.usage.defaulted_by_task == {"cot.sentence": 1}


async def test_an_unreadable_reader_is_no_answer() -> None:
    answer, _ = await play("ircot", said(LAST) | {"answer.read_cot": ""}, hits=HITS)
    assert (answer.text, answer.evidence, answer.supported) == ("", (), False)


async def test_where_nothing_is_found_it_reads_nothing() -> None:
    answer, _ = await play("ircot", said(LAST) | {"answer.cot": {"answer": "Rome"}}, hits={})
    assert transcript(answer) == ["search Q, 5", "cot.sentence", "answer.cot"]
    assert (answer.text, answer.passages, answer.supported) == ("Rome", (), False)


# --- its settings ------------------------------------------------------------------------------------------------


def endless(task: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """A chain that never comes to its answer."""
    return {"sentence": f"It is {len(fields.get('reasoning', ()))}.", "answer": "x"}


@pytest.mark.parametrize(("turns", "sentences"), [(1, 0), (2, 1), (4, 3)])
async def test_max_turns_bounds_the_searches(turns: int, sentences: int) -> None:
    answer, _ = await play("ircot", endless, hits=HITS, max_turns=turns)
    assert answer.statistics == {"sentences": sentences, "searches": turns}


@pytest.mark.parametrize("maximum", [1, 2])
async def test_max_sentences_bounds_the_chain_whose_last_sentence_is_searched(maximum: int) -> None:
    answer, _ = await play("ircot", endless, hits=HITS, max_sentences=maximum, max_turns=10)
    assert answer.statistics == {"sentences": maximum, "searches": maximum + 1}


async def test_ten_sentences_are_the_most_where_none_is_searched() -> None:
    def concluding(task: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {"sentence": f"So it is {len(fields.get('reasoning', ()))}.", "answer": "x"}

    answer, _ = await play("ircot", concluding, hits=HITS)
    assert answer.statistics == {"sentences": 10, "searches": 1}
    assert answer.usage.layers == 11


async def test_passages_are_collected_first_come_up_to_the_limit() -> None:
    answer, model = await play("ircot", said(MADE, BORN), hits=HITS, k=3, rank_limit=4)
    assert [names(call.fields["passages"]) for call in model.calls] == ["a b c", "a b c g", "a b c g"]
    assert names(answer.passages) == "a b c g"


async def test_long_passages_are_dropped_and_others_shown_in_part() -> None:
    found = [passage("a", 601), passage("b", 600), passage("c", 351), passage("d", 350)]
    model = ScriptedLM(said(LAST))
    async with Pipeline(method="ircot", lm=model, retriever=lambda query, k: found) as qa:
        answer = await qa.aask("Q")
    for call in model.calls:
        assert names(call.fields["passages"]) == "b c d"
        assert [len(each.text.split()) for each in call.fields["passages"]] == [350, 350, 350]
    assert [len(each.text.split()) for each in answer.passages] == [600, 351, 350]  # ranked as they are


async def test_most_words_and_shown_words() -> None:
    answer, model = await play("ircot", said(LAST), hits={"Q": "a b"}, most_words=3, shown_words=2)
    assert [each.text for each in model.calls[-1].fields["passages"]] == ["a0 a1", "b0 b1"]
    answer, _ = await play("ircot", said(LAST) | {"answer.cot": "x"}, hits={"Q": "a b"}, most_words=2)
    assert answer.passages == ()


async def test_the_reader_may_read_directly() -> None:
    script = {"cot.sentence": [LAST], "answer.read": "Answer: Roma"}
    answer, model = await play("ircot", script, hits=HITS, style="direct")
    assert [call.task for call in model.calls] == ["cot.sentence", "answer.read"]
    assert answer.text == "Roma"


async def test_the_newest_passages_give_way_where_a_prompt_is_full() -> None:
    whole, _ = await play("ircot", said(MADE, BORN), hits=HITS, shots=0)
    tokens = max(call.prompt_tokens for call in whole.trace.calls) - 25
    answer, model = await play("ircot", said(MADE, BORN), hits=HITS, shots=0, context_tokens=tokens)
    assert max(call.prompt_tokens for call in answer.trace.calls) <= tokens
    assert names(model.calls[0].fields["passages"]).startswith("a b c")
    assert names(answer.passages) == "a b c d e g h"


@pytest.mark.parametrize(("maximum", "sentences"), [(1, 0), (2, 1), (3, 2)])
async def test_the_budget_leaves_the_reader(maximum: int, sentences: int) -> None:
    answer, model = await play("ircot", endless, hits=HITS, max_calls=maximum, max_turns=9)
    assert [call.task for call in model.calls] == ["cot.sentence"] * sentences + ["answer.read_cot"]
    assert (answer.text, answer.trace.budget) == ("x", "max_calls")


async def test_pocket_walks_a_chain() -> None:
    corpus = [
        Passage("1", "Alien (film)", "Alien is a 1979 film directed by Ridley Scott."),
        Passage("2", "Ridley Scott", "Ridley Scott is an English director born in South Shields."),
    ]
    async with Pipeline(corpus, "ircot", lm="pocket", k=1) as qa:
        answer = await qa.aask("Where was the director of Alien born?")
    assert (answer.text, bool(answer.evidence)) == ("South Shields", True)
    assert answer.statistics["searches"] == 2
