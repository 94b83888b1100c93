"""A model that does not know: no method takes that for knowledge, and the answer is an abstention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from rich.console import Console

from polyhop.answer import Answer
from polyhop.cli.answers import print_answer
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods.registry import method_named, methods
from polyhop.pipeline import Pipeline
from polyhop.prompts.non_answers import is_non_answer
from polyhop.prompts.tasks import task_named
from polyhop.serve.schemas import DECLINED, notice_of
from polyhop.trace import Searched
from polyhop.types import Passage
from tests.kit.question_data import question_for
from tests.kit.scene import passage
from tests.kit.worst_case import ABLE

SAID = ["unknown", "I don't know.", "Not mentioned in the passages.", "N/A"]
ANSWERING = [name for name, method in methods().items() if method.answers(method.resolve({}))]
READS_ALONE = ("promptrank",)
"""Its answer is a reader's span, or none."""
TOLD = {
    **dict.fromkeys(("relevant", "supported", "answered", "sufficient", "valid"), True),
    "confidence": 0.95,
    "better": 1,
    "grade": 4,
    "strategy": "multi",
    "scores": [9],
    "action": "Search",
    "value": "likely",
}


def knows_nothing(said: str) -> Any:
    """A model that fills every field of every task with ``said``."""

    def reply(task: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        if task == "ge.graph":
            return {"triplets": [{"head": "Dark Mill", "relation": "director", "tail": "name: #1"}]}
        if task == "t2rag.decompose":
            return {"triplets": [{"head": "Dark Mill", "relation": "director", "tail": "?name"}]}
        fields_written: dict[str, Any] = {}
        for name, field in task_named(task).output.model_fields.items():
            kind = str(field.annotation)
            if name in TOLD:
                fields_written[name] = TOLD[name]
            elif name == "triplets":
                fields_written[name] = [{"head": "Dark Mill", "relation": "director", "tail": said}]
            elif name in ("nodes", "steps"):
                fields_written[name] = [{"query": "Who made it?", "sub_question": "Who made it?", "answer": said}]
            else:
                fields_written[name] = [said] if kind.startswith("list") else said
        return fields_written

    return reply


async def asked(name: str, said: str, **settings: Any) -> Answer:
    def search(query: str, k: int) -> list[Passage]:
        return [passage(letter) for letter in "abc"][:k]

    lm = ScriptedLM(knows_nothing(said), capabilities=ABLE, score=lambda request: -1.0)
    given = {"reader": lambda question, passages: []} | settings
    if "links" in method_named(name).resolve({}):
        given["links"] = 0  # the callable knows none
    async with Pipeline(method=name, lm=lm, retriever=search, **given) as pipeline:
        return await pipeline.aask(question_for(name, "Where was the director of Dark Mill born?", search("", 3)))


def texts(value: Any) -> Iterator[str]:
    """Every text in a call's fields, passages aside."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from texts(inner)


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("name", [name for name in ANSWERING if name not in READS_ALONE])
async def test_a_non_answer_is_no_knowledge_no_evidence_and_no_query(name: str, said: str) -> None:
    answer = await asked(name, said)
    assert (answer.text, answer.abstained, answer.supported, answer.citations) == ("", True, False, ())
    assert answer.confidence is None
    assert answer.to_dict()["abstained"] is True
    assert not [piece.answer for piece in answer.evidence if piece.answer and is_non_answer(piece.answer)]
    assert not [step.query for step in answer.trace.steps if isinstance(step, Searched) and is_non_answer(step.query)]
    for call in answer.trace.calls:
        shown = {name: value for name, value in call.fields.items() if name != "steps"}  # what react did stands there
        assert not [text for text in texts(shown) if text and is_non_answer(text)], call.task


async def test_a_non_answer_binds_nothing_in_ge() -> None:
    answer = await asked("ge", "unknown", confidence="verbal")
    assert (answer.statistics["bindings"], answer.statistics["dropped"], answer.statistics["retrievals"]) == (0, 3, 3)


async def test_an_unknown_node_of_searchain_is_unsolved() -> None:
    answer = await asked("searchain", "I don't know")
    assert answer.statistics["nodes"] == 0
    assert [step.query for step in answer.trace.steps if isinstance(step, Searched)] == ["Who made it?"] * 1


async def test_a_summary_that_nothing_was_found_is_none_in_resp() -> None:
    answer = await asked("resp", "No relevant information was found in the passages.")
    assert (answer.statistics["summaries"], answer.statistics["responses"]) == (0, 0)


async def test_an_abstention_says_so_everywhere() -> None:
    answer = await asked("one-r", "unknown")
    to = Console(record=True, width=80)
    print_answer(answer, show_trace=False, to=to)
    assert "The documents do not say." in to.export_text()
    assert (notice_of(answer) or "").startswith(DECLINED)


async def test_none_is_an_answer_where_a_number_is_asked_for() -> None:
    lm = ScriptedLM(lambda task, fields: "The answer is none.")
    async with Pipeline(method="cot", lm=lm) as pipeline:
        answer = await pipeline.aask("How many sisters had Ann Lee?")
        assert (answer.text, answer.abstained, answer.usage.calls) == ("none", False, 1)
        answer = await pipeline.aask("Who was Ann Lee's sister?")
        assert (answer.text, answer.abstained, answer.usage.calls) == ("", True, 1)
