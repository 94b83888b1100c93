"""Under ``allow_unanswerable`` every method may say that a question has no answer; else none is invited to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from polyhop.answer import Answer
from polyhop.engine.rerender import messages_of
from polyhop.lm.base import Capabilities, Completion, Request
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods.voting import majority
from polyhop.pipeline import Pipeline
from polyhop.prompts.book import PromptBook
from polyhop.prompts.kinds import phrases
from polyhop.prompts.tasks import TASKS
from polyhop.types import Kind, Passage, Span
from tests.kit.question_data import question_for
from tests.methods.test_kinds import ANSWERING, BY_MODEL, PASSAGES, QUESTION, Library

BOOK = PromptBook()
BY_READER = ("promptrank",)
MODEL_ONLY = [name for name in ANSWERING if name not in BY_READER]


async def declined(method: str, kind: Kind = "qa", **settings: Any) -> tuple[Answer, list[Request]]:
    """Answer by a model that writes demonstrations, with "unanswerable" wherever the answer itself is asked for."""

    def reply(task: str, fields: Mapping[str, Any]) -> Any:
        output = (BOOK[task].demonstrations_for({**fields, "kind": "qa"}) or BOOK[task].demonstrations)[0].output
        field, value = output.ANSWER, output.model_dump()
        if task == "react.act":
            return value if not fields["steps"] else {"action": "Finish", "argument": "unanswerable"}
        if task == "sure.candidates":
            return {"candidates": ["unanswerable"]}
        return {**value, field: "unanswerable"} if field and value[field] else value

    able = Capabilities(json_schema=True, token_logprobs=True, score=True, score_temperature=True)
    model = ScriptedLM(reply, capabilities=able, score=lambda request: -1.0)
    async with Pipeline(method=method, lm=model, retriever=Library(), reader=unsure, **settings) as pipeline:
        return await pipeline.aask(question_for(method, QUESTION, PASSAGES, kind=kind)), model.calls


def unsure(question: str, passages: Sequence[Passage]) -> list[Span]:
    return [Span(passages[0].id, "Text", 0, 4, 0.2)]


@pytest.mark.parametrize("method", MODEL_ONLY)
async def test_a_refusal_is_invited_and_is_an_abstention(method: str) -> None:
    settings: dict[str, Any] = {**BY_MODEL.get(method, {}), "allow_unanswerable": True}
    answer, calls = await declined(method, **settings)
    assert (answer.text, answer.abstained, answer.supported) == ("", True, False)
    final = answer.trace.answers_call
    assert final is not None
    assert any(BOOK[call.task].may_decline for call in calls)
    for call in calls:
        system = str(call.messages[0]["content"])
        assert (
            (phrases()["decline"]["qa"] in system)
            is BOOK[call.task].may_decline
            is call.fields.get("may_decline", False)
        )
        assert not (BOOK[call.task].may_decline and ("best guess" in system or "use what you know" in system))
    assert messages_of(final, answer.trace.steps, BOOK) is not None


@pytest.mark.parametrize("method", MODEL_ONLY)
async def test_no_refusal_is_invited_by_default(method: str) -> None:
    settings: dict[str, Any] = {**BY_MODEL.get(method, {})}
    _, calls = await declined(method, **settings)
    said = set(phrases()["decline"].values())
    assert not any(words in str(call.messages[0]["content"]) for call in calls for words in said)
    assert not any("may_decline" in call.fields for call in calls)


@pytest.mark.parametrize("method", [*BY_READER, "bm25"])
async def test_a_reader_below_its_threshold_declines(method: str) -> None:
    answer, _ = await declined(method, answer_by="reader", allow_unanswerable=True)
    assert (answer.text, answer.abstained) == ("", True)
    answer, _ = await declined(method, answer_by="reader")
    assert (answer.text, answer.abstained) == ("Text", False)


async def test_a_claim_is_not_enough_info_instead() -> None:
    _, (call,) = await declined("one-r", "fact", allow_unanswerable=True)
    assert phrases()["decline"]["fact"] in str(call.messages[0]["content"])


@pytest.mark.parametrize(("allowed", "answer"), [(True, "Unanswerable"), (False, "Rome")])
def test_an_invited_refusal_has_a_vote(allowed: bool, answer: str) -> None:
    task = TASKS["answer.cot"]

    def reply(said: str) -> Any:
        fields = {"may_decline": allowed}
        return task.output(rationale=None, answer=said).with_completion(Completion(text=said), "Where?", fields)

    vote = majority([reply("Rome"), reply("Unanswerable"), reply("Not mentioned in the passages.")])
    assert (vote.answer, len(vote.winners)) == (answer, 2 if allowed else 1)
