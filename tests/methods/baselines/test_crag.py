"""Corrective RAG worked by hand: the action that grades call for, the strips that are kept, the corrective search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from polyhop.answer import Answer
from polyhop.lm.scripted import ScriptedLM
from polyhop.pipeline import Pipeline
from polyhop.types import Passage
from tests.kit.scene import names, notes

SHIP = Passage("ship", "Ship", "It is a ship. It is old. It sank. It was raised. It is in a museum.")
OAR = Passage("oar", "Oar", "An oar is long.")
TOWN = Passage("town", "Town", "The town is small. Ann was born there. It rains. It is wet. No one stays.")
FOUND = {"Q": [SHIP, OAR], "ship, town": [TOWN, OAR]}


async def play(grades: Mapping[str, int], **settings: Any) -> tuple[Answer, ScriptedLM]:
    """``grades`` by the first words of a text; the others are graded 0."""

    def reply(task: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        if task == "rerank.grade":
            text = fields["passage"].text
            return {"grade": max((grade for words, grade in grades.items() if text.startswith(words)), default=0)}
        return {"query": "ship, town"} if task == "crag.rewrite" else {"answer": "Rome", "rationale": None}

    model = ScriptedLM(reply, latency=0.01)
    async with Pipeline(method="crag", lm=model, retriever=lambda query, k: FOUND[query][:k], **settings) as pipeline:
        return await pipeline.aask("Q"), model


def action(answer: Answer) -> str:
    """The action that was taken."""
    return " ".join(name for name, share in answer.statistics.items() if share)


def read(model: ScriptedLM) -> list[str]:
    """The texts that the last call read."""
    return [passage.text for passage in model.calls[-1].fields.get("passages", ())]


async def test_a_correct_retrieval_is_refined_to_its_best_strips() -> None:
    answer, model = await play({"It is a ship. It is old. It sank. It was": 3, "It was raised": 2})
    assert action(answer) == "correct"
    assert [search.query for search in answer.trace.searches] == ["Q"]
    assert read(model) == ["It was raised. It is in a museum."]  # the first strip has 0, and so has the oar
    assert (names(answer.passages), answer.usage.layers) == ("ship oar", 3)
    assert answer.passages[0].text == SHIP.text
    assert notes(answer) == [("retrieval", {"action": "correct", "grades": [3, 0]})]


async def test_strips_of_a_passage_are_put_together_in_their_order() -> None:
    _, model = await play({"It is a ship": 3, "It was raised": 4, "An oar": 1})
    assert read(model) == [SHIP.text, OAR.text]


async def test_only_the_best_strips_are_kept() -> None:
    _, model = await play({"It is a ship": 3, "It was raised": 4, "An oar": 1}, max_strips=1)
    assert read(model) == ["It was raised. It is in a museum."]


async def test_by_default_five_strips_of_three_sentences_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = [f"Ship {letter} sails." for letter in "ABCDEFGHIJKLMNOPQRSTU"]
    monkeypatch.setitem(FOUND, "Q", [Passage("fleet", "Fleet", " ".join(fleet))])
    _, model = await play({"Ship": 3})
    assert read(model) == [" ".join(fleet[:15])]


async def test_an_incorrect_retrieval_is_dropped_and_searched_again() -> None:
    answer, model = await play({"The town": 4})
    assert action(answer) == "incorrect"
    assert [search.query for search in answer.trace.searches] == ["Q", "ship, town"]
    assert read(model) == ["The town is small. Ann was born there. It rains."]
    assert names(answer.passages) == "town ship oar"  # what was read leads the ranking
    assert (answer.usage.layers, names(answer.evidence[0].passages)) == (4, "town")


async def test_an_ambiguous_retrieval_reads_both() -> None:
    answer, model = await play({"An oar": 1, "The town": 4})
    assert action(answer) == "ambiguous"
    assert read(model) == [OAR.text, "The town is small. Ann was born there. It rains."]
    graded = [call.fields["passage"].text for call in model.calls if call.task == "rerank.grade"]
    assert len(graded) == len(set(graded))  # the oar is a strip by itself, and was found twice


@pytest.mark.parametrize(
    ("upper", "lower", "expected"), [(3, 1, "ambiguous"), (2, 1, "correct"), (4, 3, "incorrect"), (3, 0, "ambiguous")]
)
async def test_the_thresholds_decide(upper: int, lower: int, expected: str) -> None:
    answer, _ = await play({"It is a ship": 2}, upper=upper, lower=lower)
    assert action(answer) == expected


async def test_if_nothing_is_kept_the_question_is_answered_from_memory() -> None:
    answer, model = await play({})
    assert (model.calls[-1].task, answer.text, answer.evidence) == ("answer.cot", "Rome", ())
    assert names(answer.passages) == "ship oar town"


@pytest.mark.parametrize("calls", [1, 2, 3])
async def test_a_spent_budget_reads_the_passages_as_they_are(calls: int) -> None:
    answer, model = await play({"It is a ship": 3}, max_calls=calls)
    assert (len(model.calls), answer.trace.budget, answer.text) == (calls, "max_calls", "Rome")
    assert read(model) == [SHIP.text, OAR.text]
