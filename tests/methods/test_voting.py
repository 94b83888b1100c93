"""Self-consistency: what is drawn, which answer wins, what a tie comes to, and what the budget leaves."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.common.text import normalise
from polyhop.errors import LMError
from polyhop.lm.base import Capabilities, Completion
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods.voting import Vote, majority
from polyhop.pipeline import Pipeline
from polyhop.prompts.tasks.answers import Response
from tests.kit.scripted_run import play, sure
from tests.kit.virtual_clock import run_virtually

TELLING = Capabilities(token_logprobs=True)


def replies(*answers: str, logprobs: list[float] | None = None) -> list[Response]:
    """Replies with these answers, each one token of its log-probability where there are any."""
    made = []
    for answer, logprob in itertools.zip_longest(answers, logprobs or []):
        token_data: dict[str, Any] = {} if logprob is None else {"tokens": (answer,), "logprobs": (logprob,)}
        reply = Response(answer=answer)
        reply.with_completion(Completion(text=answer, **token_data))
        made.append(reply)
    return made


# --- the vote ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "winner", "share"),
    [
        (["Rome", "Oslo", "the rome!"], "Rome", 2 / 3),  # normalised; worded as first seen
        (["Oslo", "The Rome", "Rome", "rome"], "The Rome", 3 / 4),
        (["", "Oslo", ""], "Oslo", 1 / 3),  # no answer is no vote, but it was cast
        (["", ""], "", 0.0),
        ([], "", 0.0),
        (["Oslo", "Rome"], "Oslo", 1 / 2),  # a tie: first seen
        (["Rome", "Oslo", "Oslo", "Rome", "Bonn"], "Rome", 2 / 5),
    ],
)
def test_the_answer_of_most_wins(answers: list[str], winner: str, share: float) -> None:
    vote = majority(replies(*answers))
    assert (vote.answer, vote.cast) == (winner, len(answers))
    assert vote.share == pytest.approx(share)
    assert {normalise(reply.answer) for reply in vote.winners} <= {normalise(winner)}


def test_a_tie_goes_to_the_likelier_answer() -> None:
    assert majority(replies("Rome", "Oslo", logprobs=[-2.0, -1.0])).answer == "Oslo"
    assert majority(replies("Rome", "Oslo", logprobs=[-1.0, -1.0])).answer == "Rome"
    mean = replies("Rome", "Oslo", "Oslo", "Rome", logprobs=[-0.1, -1.0, -1.0, -0.1])
    assert majority(mean).answer == "Rome"
    assert majority(mean[1:] + mean[:1]).answer == "Rome"


def test_likelihood_settles_ties_alone() -> None:
    assert majority(replies("Rome", "Oslo", "Oslo", logprobs=[0.0, -9.0, -9.0])).answer == "Oslo"


def test_a_tie_where_a_reply_tells_no_probability_goes_to_the_first() -> None:
    sure, unknown = replies("Oslo", logprobs=[-0.1]), replies("Rome")
    assert majority([*unknown, *sure]).answer == "Rome"
    assert majority([*sure, *unknown]).answer == "Oslo"


@given(st.lists(st.sampled_from(["", "Rome", "rome", "The Rome", "Oslo", "Bonn"]), max_size=8))
def test_no_answer_has_more_votes_than_the_winner(answers: list[str]) -> None:
    vote: Vote[Response] = majority(replies(*answers))
    counted = Counter(normalise(answer) for answer in answers if answer)
    assert len(vote.winners) == max(counted.values(), default=0)
    assert vote.answer == "" or counted[normalise(vote.answer)] == len(vote.winners)


# --- the samples -------------------------------------------------------------------------------------------------


async def test_every_sample_is_a_request_of_its_own() -> None:
    _, model = await play("cot-sc", {"answer.cot": {"answer": "x"}})
    assert [call.sample for call in model.calls] == [0, 1, 2, 3, 4]
    assert {call.temperature for call in model.calls} == {0.7}
    assert len({repr(call.messages) for call in model.calls}) == 1
    assert not any(call.logprobs for call in model.calls)  # a model that has none is not asked for them


async def test_log_probabilities_are_asked_for_and_settle_a_tie() -> None:
    said = [sure("Rome", -2.0), sure("Oslo", -1.0), sure("Oslo", -1.5), sure("Rome", -0.9), sure("Bonn", 0.0)]
    answer, model = await play("cot-sc", {"answer.cot": said}, capabilities=TELLING)
    assert all(call.logprobs for call in model.calls)
    rome, oslo = math.exp(-2.0) + math.exp(-0.9), math.exp(-1.0) + math.exp(-1.5)
    assert answer.text == ("Rome" if rome > oslo else "Oslo") == "Oslo"
    assert answer.confidence == pytest.approx(2 / 5)


def test_samples_are_drawn_together() -> None:
    async def timed() -> tuple[Any, float]:
        answer, _ = await play("cot-sc", {"answer.cot": {"answer": "x"}}, latency=1.0, samples=9)
        return answer, asyncio.get_running_loop().time()

    answer, took = run_virtually(timed())
    assert took == 1.0
    assert answer.statistics == {"samples": 9, "agreement": 1.0}


@pytest.mark.parametrize(("maximum", "drawn"), [(1, 1), (3, 3), (5, 5), (9, 5)])
async def test_the_budget_bounds_the_samples_and_leaves_one(maximum: int, drawn: int) -> None:
    answer, model = await play("cot-sc", {"answer.cot": {"answer": "Rome"}}, max_calls=maximum)
    assert (answer.text, len(model.calls)) == ("Rome", drawn)
    assert answer.statistics["samples"] == drawn
    assert answer.trace.budget == (None if maximum >= 5 else "max_calls")


async def test_a_sample_that_cannot_be_read_has_no_vote() -> None:
    said = ["", {"answer": "Rome"}, ""]  # asked for once more, then left out
    answer, model = await play("cot-sc", {"answer.cot": said}, samples=2)
    assert len(model.calls) == 3
    assert (answer.text, answer.confidence) == ("Rome", 0.5)
    assert answer.usage.defaulted_by_task == {"answer.cot": 1}


async def test_nothing_readable_is_no_answer() -> None:
    answer, _ = await play("cot-sc", {"answer.cot": ""}, samples=2)
    assert (answer.text, answer.confidence) == ("", None)


async def test_an_error_of_the_model_is_raised_unchanged() -> None:
    async with Pipeline(method="cot-sc", lm=ScriptedLM({"answer.cot": LMError("no server")})) as qa:
        with pytest.raises(LMError, match="no server"):
            await qa.aask("Q")
