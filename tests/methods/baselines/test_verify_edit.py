"""Verify-and-Edit worked by hand: which chains are edited, what each sentence is checked by, and the answer anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from polyhop.answer import Answer
from polyhop.lm.base import Capabilities, Completion
from polyhop.pipeline import Pipeline
from polyhop.trace import Branch, Searched
from polyhop.types import Passage
from tests.kit.scene import evidence, names
from tests.kit.scripted_run import play

CHAINS = [
    "Amundsen led it. He was born in Borge. The answer is Borge.",
    "Nansen led it. He was born in Oslo. The answer is Oslo.",
    "Sverdrup led it. The answer is Bindal.",
    "The answer is Bergen.",
    "The answer is Rome.",
]
HITS = {"Who led it?": "a b c d e f", "Where was he born?": "g a"}
ASKED = {"Amundsen led it.": "Who led it?", "He was born in Borge.": "Where was he born?"}
EDITED = {"Who led it?": "Heyerdahl led it.", "Where was he born?": "Heyerdahl was born in Larvik."}


def script(
    chains: Any = CHAINS, *, asked: Mapping[str, Any] = ASKED, edited: Mapping[str, str] = EDITED, text: str = "Larvik"
) -> dict[str, Any]:
    return {
        "answer.cot": list(chains),
        "verify_edit.question": lambda fields: {"sub_question": asked.get(fields["sentence"])},
        "verify_edit.edit": lambda fields: {"sentence": edited.get(fields["sub_question"], "")},
        "verify_edit.answer": {"answer": text},
    }


def searched(answer: Answer) -> list[tuple[str, int]]:
    return [(step.query, step.k) for step in answer.trace.steps if isinstance(step, Searched)]


def tasks(model: Any) -> list[str]:
    return [call.task.removeprefix("verify_edit.") for call in model.calls]


# --- §3.1: what is edited ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "share", "edited"),
    [
        ("Rome Rome Rome Oslo Bonn", 0.6, False),  # ⌈5 / 2⌉ agree
        ("Rome Rome Bonn Oslo Oslo", 0.4, True),
        ("Rome Oslo Bonn Paris Bern", 0.2, True),
        ("Rome Rome Oslo Bonn", 0.5, False),  # of an even number, half is enough
        ("Rome Oslo Bonn Bern", 0.25, True),
        ("Rome", 1.0, False),
    ],
)
async def test_chains_that_less_than_half_agree_on_are_edited(answers: str, share: float, edited: bool) -> None:
    chains = [f"It lies there. The answer is {answer}." for answer in answers.split()]
    answer, model = await play("verify-edit", script(chains), hits={}, samples=len(chains))
    assert ("question" in tasks(model)) is edited
    assert answer.text == ("Larvik" if edited else "Rome")
    assert answer.statistics == {"samples": len(chains), "agreement": share, "edited": 0}


async def test_a_chain_most_agree_on_is_left_as_it_is() -> None:
    chains = ["It is so. The answer is Rome."] * 3 + CHAINS[:2]
    answer, model = await play("verify-edit", script(chains), hits=HITS)
    assert tasks(model) == ["answer.cot"] * 5
    assert {call.temperature for call in model.calls} == {0.7}
    assert (answer.text, answer.confidence, answer.usage.layers) == ("Rome", 0.6, 1)
    assert (searched(answer), answer.evidence, answer.supported) == ([], (), False)


async def test_the_threshold_can_be_moved() -> None:
    chains = ["Amundsen led it. The answer is Rome."] * 5
    _, model = await play("verify-edit", script(chains), hits=HITS, edit_below=2)
    assert "edit" in tasks(model)
    answer, model = await play("verify-edit", script(), hits=HITS, edit_below=0)
    assert (tasks(model), answer.text) == (["answer.cot"] * 5, "Borge")


async def test_the_likeliest_chain_of_the_majoritys_is_edited() -> None:
    def completion(chain: str, logprob: float) -> Completion:
        return Completion(text=chain, tokens=(chain,), logprobs=(logprob,))

    chains = [
        completion("One. The answer is Rome.", -3.0),
        completion("Two. The answer is Oslo.", -0.1),
        completion("Three. The answer is Rome.", -1.0),
        completion("Four. The answer is Bonn.", -0.1),
        completion("Five. The answer is Bern.", -0.1),
    ]
    telling = Capabilities(token_logprobs=True)
    _, model = await play("verify-edit", script(chains), hits=HITS, capabilities=telling)
    assert [call.fields["sentence"] for call in model.calls if call.task == "verify_edit.question"] == ["Three."]
    plain = [chain.text for chain in chains]
    _, model = await play("verify-edit", script(plain), hits=HITS)
    assert [call.fields["sentence"] for call in model.calls if call.task == "verify_edit.question"] == ["One."]


# --- §3.2 to §3.5: the edit --------------------------------------------------------------------------------------


async def test_each_sentence_gets_a_question_passages_and_an_edit_then_the_question_is_answered_anew() -> None:
    answer, model = await play("verify-edit", script(), hits=HITS, latency=0.01)
    assert tasks(model) == ["answer.cot"] * 5 + ["question"] * 2 + ["edit"] * 2 + ["answer"]
    asked, edited = model.calls[5:7], model.calls[7:9]
    assert [(call.fields["question"], call.fields["sentence"]) for call in asked] == [
        ("Q", "Amundsen led it."),
        ("Q", "He was born in Borge."),
    ]
    assert sorted(searched(answer)) == [("Where was he born?", 5), ("Who led it?", 5)]
    assert [(call.fields["sub_question"], names(call.fields["passages"])) for call in edited] == [
        ("Who led it?", "a b c d e"),
        ("Where was he born?", "g a"),
    ]
    assert model.calls[-1].fields["rationale"] == "Heyerdahl led it. Heyerdahl was born in Larvik."
    assert (answer.text, bool(answer.evidence), answer.usage.layers) == ("Larvik", True, 4)
    assert names(answer.passages) == "a b c d e g"
    assert evidence(answer) == [("a b c d e", "Heyerdahl led it."), ("g a", "Heyerdahl was born in Larvik.")]
    assert answer.statistics == {"samples": 5, "agreement": 0.2, "edited": 2}
    branches = [(step.label, step.verdict) for step in answer.trace.steps if isinstance(step, Branch)]
    assert branches == [("Amundsen led it.", "edited"), ("He was born in Borge.", "edited")]
    assert answer.trace.calls[-1].final


async def test_a_sentence_that_the_passages_do_not_tell_of_stands() -> None:
    said = script(edited={"Where was he born?": "He was born in Larvik."})
    answer, model = await play("verify-edit", said, hits=HITS)
    assert model.calls[-1].fields["rationale"] == "Amundsen led it. He was born in Larvik."
    assert evidence(answer) == [("g a", "He was born in Larvik.")]
    assert names(answer.passages) == "a b c d e g"
    assert answer.statistics["edited"] == 1


async def test_a_sentence_that_nothing_is_found_for_stands_without_a_call() -> None:
    answer, model = await play("verify-edit", script(), hits={"Who led it?": "a"})
    assert tasks(model).count("edit") == 1
    assert model.calls[-1].fields["rationale"] == "Heyerdahl led it. He was born in Borge."
    verdicts = [step.verdict for step in answer.trace.steps if isinstance(step, Branch)]
    assert verdicts == ["edited", "stands"]


@pytest.mark.parametrize("said", [{"sub_question": None}, "Hm, let me think about that."])
async def test_a_sentence_without_a_question_is_searched_as_it_stands(said: Any) -> None:
    replies = {**script(["Amundsen led it. The answer is Rome."] * 5), "verify_edit.question": said}
    answer, model = await play("verify-edit", replies, hits={"Amundsen led it.": "a"}, edit_below=2)
    assert searched(answer) == [("Amundsen led it.", 5)]
    assert [call.fields["sub_question"] for call in model.calls if call.task == "verify_edit.edit"] == [
        "Amundsen led it."
    ]


async def test_sentences_beyond_the_turns_stand() -> None:
    chains = ["One. Two. Three. Four. The answer is Rome."] * 5
    answer, model = await play("verify-edit", script(chains, edited={"One.": "Not one."}), hits={}, edit_below=2)
    assert len(searched(answer)) == 3
    assert model.calls[-1].fields["rationale"] == "One. Two. Three. Four."
    answer, _ = await play("verify-edit", script(chains), hits={}, edit_below=2, max_turns=9)  # the paper's: all
    assert len(searched(answer)) == 4


async def test_a_chain_without_a_rationale_has_its_answer_for_a_sentence() -> None:
    chains = [f"The answer is {name}." for name in ("Rome", "Oslo", "Bonn", "Bern", "Nice")]
    said = script(chains, asked={"Rome": "Where was he born?"})
    answer, model = await play("verify-edit", said, hits=HITS)
    assert [call.fields["sentence"] for call in model.calls if call.task == "verify_edit.question"] == ["Rome"]
    assert model.calls[-1].fields["rationale"] == "Heyerdahl was born in Larvik."
    assert answer.text == "Larvik"


async def test_without_any_chain_the_question_is_answered_all_the_same() -> None:
    answer, model = await play("verify-edit", {**script(), "answer.cot": ""}, hits=HITS)
    assert tasks(model) == ["answer.cot"] * 10 + ["answer"]
    assert model.calls[-1].messages[-1]["content"] == "Question: Q"
    assert answer.text == "Larvik"


# --- budgets and settings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("maximum", "rationale"),
    [
        (1, ""),
        (2, "Amundsen led it. He was born in Borge."),
        (6, "Amundsen led it. He was born in Borge."),
        (7, "Amundsen led it. He was born in Borge."),
        (9, "Heyerdahl led it. He was born in Borge."),
        (10, "Heyerdahl led it. Heyerdahl was born in Larvik."),
    ],
)
async def test_the_budget_leaves_the_answer_and_what_was_edited_till_then(maximum: int, rationale: str) -> None:
    answer, model = await play("verify-edit", script(), hits=HITS, max_calls=maximum, edit_below=2)
    assert model.calls[-1].fields["rationale"] == rationale
    assert (answer.text, len(model.calls)) == ("Larvik", maximum)


async def test_k_rank_limit_shots_and_sampling() -> None:
    settings: dict[str, Any] = {"k": 2, "rank_limit": 1, "shots": 2, "samples": 2, "temperature": 1.1, "edit_below": 1}
    answer, model = await play("verify-edit", script(), hits=HITS, **settings)
    assert {k for _, k in searched(answer)} == {2}
    assert len(answer.passages) == 1
    assert [call.temperature for call in model.calls[:2]] == [1.1, 1.1]
    assert {call.temperature for call in model.calls[2:]} == {0.0}
    assert {sum(turn["role"] == "assistant" for turn in call.messages) for call in model.calls} == {2}


async def test_pocket_checks_its_answer_by_a_search() -> None:
    corpus = [Passage("1", "Alien (film)", "Alien is a 1979 film directed by Ridley Scott.")]
    async with Pipeline(corpus, "verify-edit", lm="pocket", edit_below=2) as qa:
        answer = await qa.aask("Who directed Alien?")
    assert (answer.text, bool(answer.evidence)) == ("Ridley Scott", True)
    assert answer.usage.parsed_first_try == answer.usage.asked
