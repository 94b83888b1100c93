"""Every method that answers tells the model what form the answer has, for every kind of question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from polyhop.answer import Answer
from polyhop.errors import UsageError
from polyhop.lm.base import Capabilities, Request
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods.registry import methods
from polyhop.pipeline import Pipeline
from polyhop.prompts.book import PromptBook
from polyhop.prompts.tasks import TASKS
from polyhop.types import Kind, Passage, Span
from tests.kit.kinds import GUESSING, PARAGRAPH, WORDS
from tests.kit.prompt_cases import filled
from tests.kit.question_data import question_for

BOOK = PromptBook()
QUESTION = "The Vasa sank before the Mary Rose."
PASSAGES = [Passage(name, f"Title {name}", f"Text {name} of it.") for name in "abc"]
BY_PROTOCOL = "search-agent"
"""Its prompt is not a task's but a protocol's (test_search_agent.py)."""
ANSWERING = [name for name, method in methods().items() if method.answers(method.resolve({})) and name != BY_PROTOCOL]
BY_MODEL = {"promptrank": {"answer_by": "lm"}}
"""The settings of methods that let no model answer by default."""
ON_THE_WAY = {"least_to_most.solve", "zero_shot.cot"}
"""The tasks that may also be asked about another question than the one to be answered."""
REPLIES: dict[Kind, str] = {"boolean": "Yes, it did.", "slot": "1628", "fact": "It is refuted.", "long": PARAGRAPH}
READ: dict[Kind, str] = {"boolean": "yes", "slot": "1628", "fact": "REFUTES", "long": " ".join(PARAGRAPH.split())}


class Library:
    """A retriever that always finds the same passages."""

    name = "library"

    def search(self, query: str, k: int) -> list[Passage]:
        return PASSAGES[:k]

    def search_many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        return [self.search(query, k) for query in queries]

    def links(self, passage: Passage) -> list[Passage]:
        return PASSAGES[1:]


def read(question: str, passages: Any) -> list[Span]:
    return [Span(passages[0].id, "Text", 0, 4, 0.9)]


async def answered(method: str, kind: Kind, **settings: Any) -> tuple[Answer, list[Request]]:
    """Answer by a model that writes a demonstration of every task, with the reply of the kind as the answer."""

    def reply(task: str, fields: Mapping[str, Any]) -> Any:
        output = (BOOK[task].demonstrations_for({**fields, "kind": "qa"}) or BOOK[task].demonstrations)[0].output
        field, value = output.ANSWER, output.model_dump()
        if task == "react.act":
            return value if not fields["steps"] else {"action": "Finish", "argument": REPLIES[kind]}
        return {**value, field: REPLIES[kind]} if field and value[field] else value

    able = Capabilities(json_schema=True, token_logprobs=True, score=True, score_temperature=True)
    model = ScriptedLM(reply, capabilities=able, score=lambda request: -1.0)
    async with Pipeline(method=method, lm=model, retriever=Library(), reader=read, **settings) as pipeline:
        return await pipeline.aask(question_for(method, QUESTION, PASSAGES, kind=kind)), model.calls


@pytest.mark.parametrize("kind", WORDS)
@pytest.mark.parametrize("method", ANSWERING)
async def test_the_model_is_told_the_kind_wherever_it_guesses(method: str, kind: Kind) -> None:
    answer, calls = await answered(method, kind, **BY_MODEL.get(method, {}))
    guesses = [call for call in calls if call.task in GUESSING and call.fields["kind"] == kind]
    others = {call.task for call in calls if call.task in GUESSING and call.fields["kind"] != kind}
    assert others <= ON_THE_WAY
    final = answer.trace.answers_call
    assert guesses
    assert final is not None
    assert final.fields["kind"] == kind
    for call in guesses:
        system, *shown, asked = (str(turn["content"]) for turn in call.messages)
        assert WORDS[kind] in system
        assert (f"Claim: {QUESTION}" in asked) is (kind == "fact")
        assert (f"Question: {QUESTION}" in asked) is (kind != "fact")
        own = [demo for demo in BOOK[call.task].demonstrations_for(call.fields) if "kind" in demo.when]
        assert all(demo.when["kind"] == (kind,) or kind in demo.when["kind"] for demo in own)
        if own and shown:
            assert str(own[0].fields["question"]) in shown[0]


@pytest.mark.parametrize("kind", WORDS)
@pytest.mark.parametrize("method", ["cot", "one-r", "self-ask", "react", "ircot", "tor", "resp", "ge", "cot-sc"])
async def test_the_answer_is_in_the_form_of_its_kind(method: str, kind: Kind) -> None:
    answer, _ = await answered(method, kind)
    assert " ".join(answer.text.split()) == READ[kind]


async def test_a_reader_is_asked_if_a_claim_is_true_and_writes_no_paragraph() -> None:
    def judge(question: str, passages: Sequence[Passage]) -> list[Span]:
        assert question == "Is it true that The Vasa sank before the Mary Rose?"
        return [Span(passages[0].id, "No", 0, 4, 0.9)]

    model = ScriptedLM({})
    async with Pipeline(method="bm25", lm=model, retriever=Library(), reader=judge, answer_by="reader") as pipeline:
        assert (await pipeline.aask(QUESTION, kind="fact")).text == "REFUTES"
        with pytest.raises(UsageError, match="answer_by=lm"):
            await pipeline.aask(QUESTION, kind="long")


async def test_flares_sentences_are_its_paragraph() -> None:
    said = ["Ice forms where water freezes.", "Salt lowers that point.", "So the answer is complete."]

    def reply(task: str, fields: Mapping[str, Any]) -> Any:
        return {"sentence": said[len(fields["reasoning"])]}

    model = ScriptedLM(reply, capabilities=Capabilities(token_logprobs=True))
    async with Pipeline(method="flare", lm=model, retriever=Library(), retrieve_below=0) as pipeline:
        answer = await pipeline.aask("Why is salt put on roads?", kind="long")
    assert answer.text == "Ice forms where water freezes. Salt lowers that point."


async def test_a_sub_question_has_a_short_answer_whatever_the_kind() -> None:
    _, calls = await answered("least-to-most", "fact")
    kinds = [call.fields["kind"] for call in calls if call.task == "least_to_most.solve"]
    assert kinds == [*["qa"] * (len(kinds) - 1), "fact"]
    assert len(kinds) > 1
    assert filled("ge.subanswer", {}).get("kind") is None
    assert "kind" not in TASKS["ge.subanswer"].fields
