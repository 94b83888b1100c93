"""REPLUG worked by hand: one run a passage, the weights, and the mixture of probabilities in its three forms."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.answer import Answer
from polyhop.errors import CapabilityError, UsageError
from polyhop.evaluation.runner import evaluate
from polyhop.lm.base import Capabilities, Completion, ScoreRequest
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods.baselines.replug import softmax
from polyhop.pipeline import Pipeline
from polyhop.retrieval.tfidf import similarities
from polyhop.trace import Score
from polyhop.types import Passage, Question
from tests.kit.scene import evidence, names, notes
from tests.kit.scripted_run import play, sure

HITS = {"Q": "a b c d e f g h i j k l m n o p q"}
TELLING = Capabilities(token_logprobs=True)
SCORING = Capabilities(score=True)


def by_passage(**answers: Any) -> Any:
    """The replies to each passage alone: an answer, or (answer, its probability)."""

    def reply(task: str, fields: Mapping[str, Any]) -> Any:
        (passage,) = fields["passages"]
        said = answers.get(passage.id, "")
        return sure(said[0], math.log(said[1])) if isinstance(said, tuple) else Completion(text=said)

    return reply


def ensemble(answer: Answer) -> tuple[dict[str, float], dict[str, float]]:
    data = dict(notes(answer))["ensemble"]
    return data["weights"], data["probabilities"]


# --- the runs and their weights (§3.2) ---------------------------------------------------------------------------


async def test_each_passage_is_read_by_itself_all_at_once() -> None:
    said = by_passage(a="Rome", b="Oslo", c="Rome", d="Rome", e="Oslo")
    answer, model = await play("replug", said, hits=HITS, latency=0.01)
    assert [call.task for call in model.calls] == ["answer.read"] * 5
    assert sorted(names(call.fields["passages"]) for call in model.calls) == ["a", "b", "c", "d", "e"]
    assert (answer.text, answer.usage.layers, bool(answer.evidence)) == ("Rome", 1, True)
    assert evidence(answer) == [("a", "Rome"), ("b", "Oslo"), ("c", "Rome"), ("d", "Rome"), ("e", "Oslo")]
    assert names(answer.passages) == "a b c d e f g h i j k l m n o"
    assert {citation.passage_id for citation in answer.citations} == {"a", "c", "d"}
    assert answer.statistics == {"candidates": 2}


async def test_the_weights_are_the_softmax_of_how_alike_passage_and_question_are() -> None:
    corpus = [Passage("1", "Rome", "A city."), Passage("2", "Oslo", "Oslo is a capital."), Passage("3", "Bonn", "It.")]
    question = "Which capital is Oslo?"
    model = ScriptedLM({"answer.read": "yes"})
    async with Pipeline(method="replug", lm=model, retriever=lambda query, k: corpus[:k]) as qa:
        weights, probabilities = ensemble(await qa.aask(question))
    alike = similarities(question, [f"{p.title}\n{p.text}" for p in corpus])
    total = sum(map(math.exp, alike))
    assert list(weights) == ["1", "2", "3"]
    assert list(weights.values()) == pytest.approx([math.exp(each) / total for each in alike])
    assert weights["2"] > weights["1"] == weights["3"]
    assert probabilities == pytest.approx({"yes": 1.0})


@settings(deadline=None, derandomize=True, database=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_weights_are_shares_in_the_order_of_the_values(values: list[float]) -> None:
    weights = softmax(values)
    assert sum(weights) == pytest.approx(1.0)
    assert min(weights) > 0
    for value, weight in zip(values, weights, strict=True):
        assert all(weight >= other for lower, other in zip(values, weights, strict=True) if lower <= value)


# --- own: the probability of each passage's own answer -----------------------------------------------------------


async def test_probabilities_are_averaged_not_votes() -> None:
    """Three passages say Oslo faintly, one says Rome surely: .3 against .24; counted, Oslo would win."""
    said = by_passage(a=("Oslo", 0.1), b=("Oslo", 0.1), c=("oslo!", 0.04), d=("Rome", 0.9))
    answer, model = await play("replug", said, hits={"Q": "a b c d"}, capabilities=TELLING)
    assert all(call.logprobs for call in model.calls)
    weights, probabilities = ensemble(answer)
    assert set(weights.values()) == {0.25}
    assert probabilities == pytest.approx({"oslo": 0.06, "rome": 0.225})
    assert answer.text == "Rome"
    assert answer.confidence == pytest.approx(0.225)


async def test_probabilities_are_averaged_not_multiplied() -> None:
    """A product (a sum of logits) would let the one passage that finds Rome impossible rule it out."""
    said = by_passage(a=("Rome", 0.9), b=("Rome", 0.9), c=("Oslo", 0.7))
    answer, _ = await play("replug", said, hits={"Q": "a b c"}, capabilities=TELLING)
    assert answer.text == "Rome"


async def test_without_log_probabilities_passages_that_agree_add_their_weights() -> None:
    answer, _ = await play("replug", by_passage(a="Rome", b="Oslo", c="the Oslo"), hits={"Q": "a b c"})
    assert answer.text == "Oslo"  # worded as first seen
    assert answer.confidence == pytest.approx(2 / 3)
    answer, _ = await play("replug", by_passage(a="Rome", b="Oslo"), hits={"Q": "a b"})
    assert answer.text == "Rome"  # equal: the first passage's


async def test_a_passage_without_an_answer_gives_none_a_share() -> None:
    answer, _ = await play("replug", by_passage(b="Oslo"), hits={"Q": "a b"})
    assert (answer.text, answer.confidence) == ("Oslo", 0.5)
    assert evidence(answer) == [("a", None), ("b", "Oslo")]
    answer, _ = await play("replug", by_passage(), hits={"Q": "a b"})
    assert (answer.text, answer.confidence, answer.supported) == ("", None, False)


# --- sampled -----------------------------------------------------------------------------------------------------


async def test_sampled_answers_have_their_share_of_the_passages_samples() -> None:
    draws = {"a": ["Rome", "Oslo", "Oslo"], "b": ["Rome", "Rome"]}  # one that cannot be read

    def reply(task: str, fields: Mapping[str, Any]) -> Any:
        left = draws[fields["passages"][0].id]
        return sure(left.pop(0), math.log(0.01)) if left else ""  # what the model tells of one sample does not count

    answer, model = await play(
        "replug", reply, hits={"Q": "a b"}, probability="sampled", samples=3, temperature=0.9, capabilities=TELLING
    )
    assert {call.temperature for call in model.calls} == {0.9}
    assert [call.sample for call in model.calls if call.fields["passages"][0].id == "a"] == [0, 1, 2]
    _, probabilities = ensemble(answer)
    assert probabilities == pytest.approx({"rome": 0.5 * (1 / 3 + 2 / 3), "oslo": 0.5 * 2 / 3})
    assert (answer.text, answer.usage.layers) == ("Rome", 2)  # one more for the sample that is asked for again


async def test_own_is_greedy_and_draws_once() -> None:
    _, model = await play("replug", by_passage(a="x", b="x"), hits={"Q": "a b"}, samples=4)
    assert [call.temperature for call in model.calls] == [0.0, 0.0]


# --- scored ------------------------------------------------------------------------------------------------------

TABLE = {"a": {"Rome": 0.2, "Oslo": 0.3}, "b": {"Rome": 0.5, "Oslo": 0.1}, "c": {"Rome": 0.1, "Oslo": 0.2}}


async def scored(**settings: Any) -> tuple[Answer, ScriptedLM]:
    """Greedy answers Oslo, Rome, Oslo; scores by passage and candidate as in ``TABLE``."""

    def score(request: ScoreRequest) -> list[float]:
        share = TABLE[request.fields["passages"][0].id][request.target.removeprefix("Answer: ")]
        return [math.log(share) / 2] * 2  # two tokens

    lm = ScriptedLM(by_passage(a="Oslo", b="Rome", c="Oslo"), score=score)
    corpus = [Passage(name, name.upper(), f"{name}.") for name in TABLE]
    given = {"probability": "scored", **settings}
    async with Pipeline(method="replug", lm=lm, retriever=lambda query, k: corpus[:k], **given) as qa:
        return await qa.aask("Q"), lm


async def test_every_candidate_is_scored_after_every_passage() -> None:
    """Sums of probabilities: Oslo (.3 + .1 + .2) / 3 = .2, Rome (.2 + .5 + .1) / 3 = .267; two of three said Oslo."""
    answer, lm = await scored()
    assert [(request.fields["passages"][0].id, request.target) for request in lm.score_calls] == [
        (name, f"Answer: {candidate}") for name in "abc" for candidate in ("Oslo", "Rome")
    ]
    _, probabilities = ensemble(answer)
    assert probabilities == pytest.approx({"oslo": 0.2, "rome": 0.8 / 3})
    assert answer.text == "Rome"
    assert answer.confidence == pytest.approx(0.8 / 3)
    assert (answer.usage.layers, sum(isinstance(step, Score) for step in answer.trace.steps)) == (2, 3)


async def test_an_answer_is_scored_after_the_prompt_that_it_was_asked_with() -> None:
    _, lm = await scored(shots=1)
    (asked,) = [call for call in lm.calls if call.fields["passages"][0].id == "a"]
    assert lm.score_calls[0].prompt == "\n\n".join(turn["content"] for turn in asked.messages)


async def test_scoring_needs_a_model_that_scores() -> None:
    with pytest.raises(CapabilityError, match="score"):
        Pipeline([Passage("1", "A", "B")], "replug", lm=ScriptedLM({}), probability="scored")
    for probability in ("own", "sampled"):
        Pipeline([Passage("1", "A", "B")], "replug", lm=ScriptedLM({}), probability=probability)
    with pytest.raises(UsageError, match="corpus"):
        Pipeline(method="replug")


@pytest.mark.parametrize("maximum", [4, 5, 6])
async def test_a_budget_too_small_for_all_scores_falls_back_on_own_answers(maximum: int) -> None:
    answer, _ = await scored(max_calls=maximum)
    assert (answer.text, answer.trace.budget) == ("Oslo", "max_calls")
    assert (await scored(max_calls=7))[0].text == "Rome"


def gives_up(request: ScoreRequest) -> list[float]:
    raise CapabilityError("this server does not score")


async def test_by_default_a_model_that_scores_text_does() -> None:
    for probability in ("auto", "scored"):
        answer, lm = await scored(probability=probability)
        assert (answer.text, len(lm.score_calls)) == ("Rome", 6)
    answer, lm = await scored(probability="own")
    assert (answer.text, lm.score_calls) == ("Oslo", [])


async def test_a_server_that_turns_out_not_to_score_leaves_own_answers() -> None:
    corpus = [Passage(name, name.upper(), f"{name}.") for name in TABLE]
    lm = ScriptedLM(by_passage(a="Oslo", b="Rome", c="Oslo"), score=gives_up)
    async with Pipeline(method="replug", lm=lm, retriever=lambda query, k: corpus[:k]) as qa:
        assert (await qa.aask("Q")).text == "Oslo"
    async with Pipeline(method="replug", lm=lm, retriever=lambda query, k: corpus, probability="scored") as qa:
        with pytest.raises(CapabilityError, match="does not score"):
            await qa.aask("Q")


@pytest.mark.parametrize("can", [True, False])
def test_a_replay_scores_if_the_run_did(can: bool, tmp_path: Path) -> None:
    corpus = [Passage(name, name.upper(), f"{name} of Q.") for name in TABLE]
    lm = ScriptedLM(by_passage(a="Oslo", b="Rome", c="Oslo"), score=(lambda request: -1.0) if can else None)
    questions = [Question("q", "Where is Q?", ("Oslo",))]
    first = evaluate(questions, corpus, "replug", lm, out=tmp_path / "run")
    again = evaluate(questions, corpus, "replug", f"replay:{tmp_path / 'run'}")
    assert [row["prediction"] for row in again.rows] == [row["prediction"] for row in first.rows]
    assert again.usage.calls_by_task == first.usage.calls_by_task == {"answer.read": 6 if can else 3}


# --- budgets and settings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("maximum", "read"), [(1, "a"), (2, "a b"), (3, "a b c"), (5, "a b c d e"), (9, "a b c d e")])
async def test_the_budget_keeps_a_place_for_the_best_passage(maximum: int, read: str) -> None:
    answer, model = await play("replug", by_passage(**dict.fromkeys("abcde", "x")), hits=HITS, max_calls=maximum)
    assert [names(piece.passages) for piece in answer.evidence] == read.split()
    assert (answer.text, len(model.calls)) == ("x", len(read.split()))
    assert sum(ensemble(answer)[0].values()) == pytest.approx(1.0)  # of those that were read


async def test_without_hits_the_answer_is_closed_book() -> None:
    answer, model = await play("replug", {"answer.direct": "known"}, hits={})
    assert ([call.task for call in model.calls], answer.text) == (["answer.direct"], "known")


@pytest.mark.parametrize("count", [0, 2])
async def test_k_rank_limit_and_shots(count: int) -> None:
    answer, model = await play("replug", by_passage(a="x"), hits=HITS, k=2, rank_limit=3, shots=count)
    assert sorted({names(call.fields["passages"]) for call in model.calls}) == ["a", "b"]
    assert names(answer.passages) == "a b c"
    assert {sum(turn["role"] == "assistant" for turn in call.messages) for call in model.calls[:1]} == {count}


@pytest.mark.parametrize("probability", ["auto", "own", "sampled", "scored"])
async def test_pocket_runs_every_form(probability: str) -> None:
    corpus = [
        Passage("1", "Alien (film)", "Alien is a 1979 film directed by Ridley Scott."),
        Passage("2", "Ridley Scott", "Ridley Scott is an English director born in South Shields. He directed Alien."),
    ]
    async with Pipeline(corpus, "replug", lm="pocket", probability=probability) as qa:
        answer = await qa.aask("Who directed Alien?")
    assert answer.text == "Ridley Scott"
    assert 0 < (answer.confidence or 0) <= 1
