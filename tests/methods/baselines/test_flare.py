"""FLARE worked by hand: what is tried without passages, what makes a sentence unsure, and how it is searched for."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import pairwise
from math import log
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.answer import Answer
from polyhop.errors import CapabilityError, UsageError
from polyhop.lm.base import Capabilities, Completion, Request
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods.baselines.flare import interleaved, masked, unsure_spans
from polyhop.methods.registry import methods
from polyhop.pipeline import Pipeline
from polyhop.trace import Searched
from polyhop.types import Passage
from tests.kit.scene import evidence, names, passage
from tests.kit.scripted_run import play
from tests.kit.virtual_clock import run_virtually

ABLE = Capabilities(json_schema=True, token_logprobs=True)
MADE, OSLO, ROME, LAST = "It is by Ann.", "Ann is from Oslo.", "Ann is from Rome.", "So the answer is Rome."
HITS = {"Q": "a b c d e f", "Ann is from .": "g a", "Ann is from.": "g a", "Where is Ann from?": "h i j", "Who?": "k l"}


def completion(text: str, *unlikely: str, probability: float = 0.1) -> Completion:
    """A reply in words and marks, all likely but for those named."""
    tokens = tuple(re.findall(r"\s*(?:\w+|\W)", text))
    logprobs = tuple(log(probability) if token.strip() in unlikely else log(0.9) for token in tokens)
    return Completion(text=text, tokens=tokens, logprobs=logprobs)


async def flare(*replies: Any, hits: Mapping[str, str] = HITS, **arguments: Any) -> tuple[Answer, ScriptedLM]:
    """FLARE with those sentences in turn; a reader that says "read", and questions "Who?" but for "Oslo"."""

    def asked(fields: Mapping[str, Any]) -> dict[str, str]:
        return {"sub_question": "Where is Ann from?" if fields["phrase"] == "Oslo" else "Who?"}

    script = {"cot.sentence": list(replies), "flare.question": asked, "answer.read_cot": {"answer": "read"}}
    return await play("flare", script, hits=hits, capabilities=ABLE, **arguments)


def searched(answer: Answer) -> list[tuple[str, int]]:
    return [(step.query, step.k) for step in answer.trace.steps if isinstance(step, Searched)]


def seen(call: Request) -> str:
    return f"{names(call.fields.get('passages', ()))} | {' '.join(call.fields.get('reasoning', ()))}".strip()


# --- step by step (§2, §3.2) -------------------------------------------------------------------------------------


async def test_an_unsure_sentence_is_searched_for_and_written_anew() -> None:
    answer, model = await flare(completion(MADE), completion(OSLO, "Oslo"), completion(ROME), completion(LAST))
    assert searched(answer) == [("Q", 5), ("Ann is from.", 5)]
    assert [seen(call) for call in model.calls] == [
        "a b c d e |",  # the first sentence from the question's passages
        f"| {MADE}",  # tried without any passage
        f"g a | {MADE}",  # written anew from the newest passages alone
        f"| {MADE} {ROME}",
    ]
    assert all((call.logprobs, call.max_tokens) == (True, 64) for call in model.calls)
    assert (answer.text, bool(answer.evidence), answer.usage.layers) == ("Rome", True, 4)
    assert names(answer.passages) == "a b c d e g"
    assert evidence(answer) == [("a b c d e g", "Rome")]
    assert answer.statistics == {"sentences": 3, "searches": 2}
    assert answer.confidence == pytest.approx(0.9)


async def test_a_sure_sentence_stands_without_a_search() -> None:
    answer, model = await flare(completion(MADE), completion(ROME), completion(LAST))
    assert searched(answer) == [("Q", 5)]
    assert [seen(call) for call in model.calls] == ["a b c d e |", f"| {MADE}", f"| {MADE} {ROME}"]
    assert answer.text == "Rome"


async def test_the_first_sentence_is_tried_from_the_questions_passages() -> None:
    answer, model = await flare(completion(OSLO, "Oslo"), completion(ROME), completion(LAST))
    assert searched(answer) == [("Q", 5), ("Ann is from.", 5)]
    assert [seen(call) for call in model.calls] == ["a b c d e |", "g a |", f"| {ROME}"]


async def test_an_unsure_answer_stands_where_no_search_is_left() -> None:
    answer, model = await flare(completion(LAST, "Rome"), max_turns=1)
    assert (len(model.calls), searched(answer), answer.text) == (1, [("Q", 5)], "Rome")
    assert answer.confidence == pytest.approx(0.1)


async def test_the_confidence_is_that_of_the_sentence_that_first_writes_the_answer() -> None:
    answer, _ = await flare(completion(MADE), completion(ROME, "Rome", probability=0.85), completion(LAST))
    assert answer.text == "Rome"
    assert answer.confidence == pytest.approx(0.85)
    answer, _ = await flare(
        completion(MADE), completion("No town is named.", "No", probability=0.85), completion("So the answer is no.")
    )
    assert answer.text == "no"
    assert answer.confidence == pytest.approx(0.9)


async def test_an_unsure_answer_is_searched_for_too() -> None:
    answer, model = await flare(completion(MADE), completion("So the answer is Oslo.", "Oslo"), completion(LAST))
    assert searched(answer)[1:] == [("So the answer is.", 5)]
    assert (answer.text, len(model.calls)) == ("Rome", 3)


@pytest.mark.parametrize(("probability", "searches"), [(0.8001, 1), (0.7999, 2)])
async def test_the_threshold_is_on_every_token(probability: float, searches: int) -> None:
    answer, _ = await flare(
        completion(MADE), completion(ROME, "is", probability=probability), completion(LAST), completion(LAST)
    )
    assert len(searched(answer)) == searches


async def test_after_the_last_search_sentences_are_written_from_its_passages() -> None:
    answer, model = await flare(
        completion(MADE),
        completion(OSLO, "Oslo"),
        completion(ROME),
        completion("It is so.", "so"),
        completion(LAST),
        max_turns=2,
    )
    assert len(searched(answer)) == 2
    assert [seen(call) for call in model.calls[3:]] == [f"g a | {MADE} {ROME}", f"g a | {MADE} {ROME} It is so."]


async def test_a_chain_without_an_answer_is_closed_by_a_reader_over_all_passages() -> None:
    answer, model = await flare(completion(MADE), completion(OSLO, "Oslo"), completion(ROME), max_sentences=2)
    assert seen(model.calls[-1]) == "a b c d e g |"
    assert [call.task for call in model.calls] == ["cot.sentence"] * 3 + ["answer.read_cot"]
    assert (answer.text, answer.trace.calls[-1].final) == ("read", True)


@pytest.mark.parametrize("reply", ["", MADE, {"sentence": MADE}])
async def test_a_sentence_that_is_not_new_or_not_readable_ends_the_chain(reply: Any) -> None:
    answer, model = await flare(completion(MADE), reply, reply)
    assert model.calls[-1].task == "answer.read_cot"
    assert (answer.text, answer.statistics) == ("read", {"sentences": 1, "searches": 1})


async def test_an_unreadable_rewriting_ends_the_chain_and_the_tried_sentence_is_not_used() -> None:
    answer, _ = await flare(completion(MADE), completion("So the answer is Oslo.", "Oslo"), "", "")
    assert answer.text == "read"


async def test_where_nothing_is_found_the_reader_is_closed_book() -> None:
    script = {"cot.sentence": "", "answer.cot": {"answer": "x"}}
    answer, _ = await play("flare", script, hits={}, capabilities=ABLE)
    assert (answer.text, answer.passages, answer.supported) == ("x", (), False)


# --- queries (§3.2) ----------------------------------------------------------------------------------------------


async def test_mask_below_is_a_threshold_of_its_own() -> None:
    text = "Ann came from Oslo."
    reply = completion(text, "Oslo")
    reply = Completion(text=text, tokens=reply.tokens, logprobs=(log(0.9), log(0.5), log(0.9), log(0.1), log(0.9)))
    answer, _ = await flare(completion(MADE), reply, completion(LAST), mask_below=0.6)
    assert searched(answer)[1:] == [("Ann from.", 5)]
    answer, _ = await flare(completion(MADE), reply, completion(LAST), mask_below=0.0)
    assert searched(answer)[1:] == [(text, 5)]


async def test_a_query_of_which_nothing_is_left_is_the_question() -> None:
    answer, _ = await flare(completion(MADE), completion("In Oslo.", "In", "Oslo"), completion(LAST))
    assert searched(answer) == [("Q", 5), ("Q", 5)]


@pytest.mark.parametrize("reply", [Completion(text=OSLO), {"sentence": OSLO}])
async def test_a_sentence_without_probabilities_is_unsure_and_searched_whole(reply: Any) -> None:
    answer, _ = await flare(completion(MADE), reply, completion(LAST))
    assert searched(answer)[1:] == [(OSLO, 5)]


async def test_a_phrase_is_asked_about_by_a_question_of_its_own() -> None:
    answer, model = await flare(completion(MADE), completion(OSLO, "Oslo"), completion(LAST), query="question")
    asked = model.calls[2]
    assert asked.task == "flare.question"
    assert asked.fields == {"question": "Q", "kind": "qa", "reasoning": [MADE], "sentence": OSLO, "phrase": "Oslo"}
    assert searched(answer)[1:] == [("Where is Ann from?", 5)]


async def test_the_hits_of_several_questions_are_interleaved() -> None:
    reply = completion(OSLO, "Ann", "Oslo")
    answer, model = await flare(completion(MADE), reply, completion(LAST), query="question", k=4)
    assert [call.fields["phrase"] for call in model.calls if call.task == "flare.question"] == ["Ann", "Oslo"]
    assert searched(answer)[1:] == [("Who?", 4), ("Where is Ann from?", 4)]
    assert names(model.calls[-1].fields["passages"]) == "k h l i"
    assert len([step for step in answer.trace.steps if step.kind == "branch"]) == 2
    assert answer.statistics["searches"] == 2  # all questions of a sentence are one turn


async def test_neighbouring_tokens_are_one_phrase_and_questions_are_bounded() -> None:
    text = "Ann and Bob and Eve and New York it is."
    reply = completion(text, "Ann", "Bob", "Eve", "New", "York")
    _, model = await flare(completion(MADE), reply, completion(LAST), query="question")
    assert [call.fields["phrase"] for call in model.calls if call.task == "flare.question"] == ["Ann", "Bob", "Eve"]
    _, model = await flare(completion(MADE), reply, completion(LAST), query="question", max_questions=9)
    assert [call.fields["phrase"] for call in model.calls if call.task == "flare.question"][-1] == "New York"


async def test_without_a_question_the_masked_sentence_is_searched() -> None:
    script = {"cot.sentence": [completion(MADE), completion(OSLO, "Oslo"), completion(LAST)], "flare.question": ""}
    answer, _ = await play("flare", script, hits=HITS, capabilities=ABLE, query="question")
    assert searched(answer)[1:] == [("Ann is from.", 5)]
    answer, model = await flare(completion(MADE), completion(OSLO, "."), completion(LAST), query="question")
    assert "flare.question" not in [call.task for call in model.calls]  # a mark is no phrase
    assert searched(answer)[1:] == [("Ann is from Oslo", 5)]


@pytest.mark.parametrize(
    ("spans", "left"),
    [
        ([], ROME),
        ([(11, 16)], "Ann is from."),
        ([(12, 16)], "Ann is from ."),
        ([(0, 4), (6, 12)], "isRome."),
        ([(0, 17)], ""),
        ([(0, 16)], ""),
    ],
)
def test_masking(spans: list[tuple[int, int]], left: str) -> None:
    assert masked(ROME, spans) == left


def test_tokens_are_found_around_the_sentence_and_inside_a_json_reply() -> None:
    around = completion(f"Sure:\n{OSLO} And more.", "Oslo", "Sure", "more")
    assert unsure_spans(OSLO, around, 0.2) == [(11, 16)]
    written = json.dumps({"sentence": OSLO})
    assert unsure_spans(OSLO, completion(written, "Oslo", '"'), 0.2) == [(11, 16)]
    assert unsure_spans(OSLO, completion("Something else", "else"), 0.2) == []
    value = Completion(text="{}", value={"sentence": OSLO}, tokens=("Oslo",), logprobs=(log(0.1),))
    assert unsure_spans(OSLO, value, 0.2) == [(12, 16)]


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.lists(st.tuples(st.text(max_size=4), st.floats(-5, 0)), max_size=12), st.data())
def test_spans_are_those_of_the_unlikely_tokens(pieces: list[tuple[str, float]], data: st.DataObject) -> None:
    text = "".join(token for token, _ in pieces)
    start = data.draw(st.integers(0, len(text)))
    sentence = text[start : data.draw(st.integers(start, len(text)))]
    tokens, logprobs = tuple(token for token, _ in pieces), tuple(logprob for _, logprob in pieces)
    spans = unsure_spans(sentence, Completion(text=text, tokens=tokens, logprobs=logprobs), 0.2)
    at = text.rfind(sentence)
    unlikely = [logprob < log(0.2) for token, logprob in pieces for _ in token][at : at + len(sentence)]
    assert [any(a <= n < b for a, b in spans) for n in range(len(sentence))] == unlikely
    assert all(before[1] < after[0] for before, after in pairwise(spans))
    assert len(masked(sentence, spans)) <= len(sentence)


def test_interleaving_takes_each_passage_once() -> None:
    rankings = [[passage(name) for name in line.split()] for line in ("a b c", "b d", "")]
    assert names(interleaved(rankings)) == "a b d c"


# --- its settings ------------------------------------------------------------------------------------------------


async def test_retrieve_below_nothing_never_searches_again() -> None:
    answer, _ = await flare(completion(MADE), completion(OSLO, "Oslo"), completion(LAST), retrieve_below=0.0)
    assert (len(searched(answer)), answer.text) == (1, "Rome")


async def test_look_ahead_k_rank_limit_and_shots() -> None:
    answer, model = await flare(
        completion(MADE), completion(OSLO, "Oslo"), completion(LAST), look_ahead=16, k=2, rank_limit=2, shots=1
    )
    assert {call.max_tokens for call in model.calls} == {16}
    assert [names(call.fields["passages"]) for call in model.calls] == ["a b", "", "g a"]
    assert names(answer.passages) == "a b"
    assert {sum(turn["role"] == "assistant" for turn in call.messages) for call in model.calls} == {1}


async def test_the_last_passages_give_way_where_the_prompt_is_full() -> None:
    whole, _ = await flare(completion(LAST), shots=0)
    tokens = whole.trace.calls[0].prompt_tokens - 25
    answer, model = await flare(completion(LAST), shots=0, context_tokens=tokens)
    assert names(model.calls[0].fields["passages"]) == "a b"
    assert answer.trace.calls[0].prompt_tokens <= tokens


@pytest.mark.parametrize("maximum", [1, 2, 3])
async def test_the_budget_leaves_the_reader_and_a_tried_answer_is_no_answer(maximum: int) -> None:
    answer, model = await flare(
        completion(MADE), completion("So the answer is Oslo.", "Oslo"), completion(LAST), max_calls=maximum
    )
    assert [call.task for call in model.calls] == ["cot.sentence"] * (maximum - 1) + ["answer.read_cot"]
    assert (answer.text, answer.trace.budget) == ("read", "max_calls")


def test_it_needs_token_probabilities_of_the_model_that_writes() -> None:
    with pytest.raises(CapabilityError, match="flare needs token_logprobs"):
        Pipeline(method="flare", lm=ScriptedLM({}), retriever=lambda query, k: [])
    lm = {"default": ScriptedLM({}), "cot.sentence": ScriptedLM({}, capabilities=ABLE)}
    Pipeline(method="flare", lm=lm, retriever=lambda query, k: [])
    with pytest.raises(UsageError, match="corpus"):
        Pipeline(method="flare")


@pytest.mark.parametrize("maximum", [1, 3, 4])
def test_questions_are_a_layer_of_their_own(maximum: int) -> None:
    def never(task: str, fields: Mapping[str, Any]) -> Any:
        return completion(f"It is {len(fields['reasoning'])}.", "It") if task == "cot.sentence" else "Is it so?"

    method = methods()["flare"]
    given_: dict[str, Any] = {"query": "question", "max_turns": maximum, "max_sentences": 5}
    script = {"answer.read_cot": {"answer": "x"}}
    lm = ScriptedLM(lambda task, fields: script.get(task) or never(task, fields), capabilities=ABLE, latency=1.0)

    async def run() -> Answer:
        async with Pipeline(method="flare", lm=lm, retriever=lambda query, k: [passage("a")], **given_) as qa:
            return await qa.aask("Q")

    assert run_virtually(run()).usage.layers == method.layers(method.resolve(given_)) == 5 + 2 * (maximum - 1) + 1


@pytest.mark.parametrize("query", ["mask", "question"])
async def test_pocket_searches_what_it_is_unsure_of(query: str) -> None:
    corpus = [
        Passage("1", "Alien (film)", "Alien is a 1979 film directed by Ridley Scott."),
        Passage("2", "Ridley Scott", "Ridley Scott is an English director born in South Shields."),
    ]
    async with Pipeline(corpus, "flare", lm="pocket", k=1, query=query) as qa:
        answer = await qa.aask("Where was the director of Alien born?")
    assert (answer.text, bool(answer.evidence)) == ("South Shields", True)
    assert [query.removeprefix("Still to find: ").removesuffix(" .") for query, _ in searched(answer)] == [
        "Where was the director of Alien born?",
        "What is the director of Alien?",
        "Where was Ridley Scott born?",
    ]
