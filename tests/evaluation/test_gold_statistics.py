"""Statistics that need gold, read off the trace: ReSP's over-planning, GE-Reasoning's graph accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from polyhop import Passage, Question, ScriptedLM, evaluate
from polyhop.evaluation.predictions import gold_statistics
from polyhop.pipeline import Pipeline

PASSAGES = [Passage("1", "Dark Mill", "Dark Mill is a film by Ann Lee."), Passage("2", "Ann Lee", "Ann Lee is of Ost.")]


def find(query: str, k: int) -> list[Passage]:
    return PASSAGES[:k]


@pytest.mark.parametrize(
    ("summary", "sufficient", "over"),
    [
        ("Ann Lee was born in Ost.", [False, False], 2),  # the answer was there, and it planned on twice
        ("Ann Lee made Dark Mill.", [False, False], 0),  # it was right to plan on
        ("Ann Lee was born in Ost.", [True], 0),
        ("Ann Lee was born in Ostwik.", [False, False], 0),  # a part of a word is not the answer
    ],
)
async def test_over_planning(summary: str, sufficient: list[bool], over: int) -> None:
    judgements = iter(sufficient)

    def script(task: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        match task:
            case "resp.summarize":
                return {"summary": summary}
            case "resp.respond":
                return {"answered": False}
            case "resp.judge":
                return {"sufficient": next(judgements)}
            case "resp.plan":
                return {"sub_question": f"And what of {len(fields['asked'])}?"}
            case _:
                return {"answer": "Ost"}

    async with Pipeline(method="resp", lm=ScriptedLM(script), retriever=find) as qa:
        answer = await qa.aask("Where was the director of Dark Mill born?")
    assert gold_statistics(Question("q", "?", answers=("Ost",)), answer) == {"over-planning": over}
    assert gold_statistics(Question("q", "?"), answer) == {}


def test_graph_accuracy_stands_in_the_report() -> None:
    graph = [
        {"head": "Dark Mill", "relation": "director", "tail": "name: #1"},
        {"head": "name: #1", "relation": "birthplace", "tail": "place: #2"},
    ]

    def script(task: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        if task == "ge.graph":
            return {"triplets": graph}
        return {"sub_question": "Who?", "sentence": "Ann Lee.", "answer": "Ann Lee", "triplets": []}

    gold = [["Dark Mill", "director", "Ann Lee"], ["Ann Lee", "place of birth", "Ost"]]
    question = Question("q", "Where was the director of Dark Mill born?", ("Ost",), metadata={"evidences": gold})
    report = evaluate([question], method="ge", lm=ScriptedLM(script), retriever=find)
    assert report.statistics["graph accuracy"].value == 1.0
    assert report.statistics["strict graph accuracy"].value == 0.0  # "birthplace" is not "place of birth"
