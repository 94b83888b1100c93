"""T²RAG worked by hand: what each round searches, what each call is shown, and how the rounds end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from polyhop.lm.base import Request
from polyhop.lm.scripted import ScriptedLM
from polyhop.pipeline import Pipeline
from polyhop.prompts.triplets import write_triplet
from polyhop.types import Passage
from tests.kit.scene import names, passage
from tests.kit.scripted_run import play

HITS = {"Raft leader": "a b c", "Q": "b d", "Ann birth place": "e f", "Raft leader Ann": "a"}
QUESTION = "(Raft; leader; ?person)\n(?person; birth place; ?town)"
LED, BORN = "(Raft; leader; Ann)", "(Ann; birth place; Rome)"


def said(resolved: list[str], decomposed: str = QUESTION) -> dict[str, Any]:
    return {
        "t2rag.decompose": [decomposed] * 2,
        "t2rag.resolve": resolved,
        "triplets.answer": "The answer is Oslo.",
        "answer.cot": "The answer is Bergen.",
    }


def seen(call: Request) -> str:
    """Write what a call was shown on one line."""
    shown = {name: value for name, value in call.fields.items() if name not in ("question", "kind", "passages")}
    parts = [f"{name} " + " ".join(map(write_triplet, value)) for name, value in shown.items() if value]
    return " | ".join([call.task, *parts, names(call.fields.get("passages") or ())]).strip(" |")


async def test_each_round_searches_what_is_not_fuzzy_and_fills_in_placeholders() -> None:
    answer, model = await play("t2rag", said([LED, BORN]), hits=HITS)
    assert [step.query for step in answer.trace.searches] == [
        "Raft leader", "Q",  # (?person; birth place; ?town) is fuzzy
        "Ann birth place", "Raft leader Ann",  # the question was searched before
    ]  # fmt: skip
    assert [seen(call) for call in model.calls] == [
        "t2rag.decompose",
        "t2rag.resolve | triplets (Raft; leader; ?person) (?person; birth place; ?town) | b a d c",
        "t2rag.resolve | known (Raft; leader; Ann) | triplets (Ann; birth place; ?town) | e a f",
        "triplets.answer | triplets (Raft; leader; Ann) (Ann; birth place; Rome)",
    ]
    assert [(names(piece.passages), piece.analysis) for piece in answer.evidence] == [("b a d c", LED), ("e a f", BORN)]
    assert (answer.text, names(answer.passages)) == ("Oslo", "b a d c e f")
    assert answer.statistics == {"rounds": 2, "resolved": 2, "open": 0}


async def test_the_final_answer_is_from_the_resolved_triplets_alone() -> None:
    _, model = await play("t2rag", said([f"{LED}\n{BORN}"]), hits=HITS)
    assert model.calls[-1].messages[-1]["content"] == f"Question: Q\n\nFacts:\n{LED}\n{BORN}"


async def test_triplets_that_a_retriever_found_are_shown_each_once() -> None:
    """Each passage comes with the triplets nearest to one query; those of all its queries are shown."""

    def search(query: str, k: int) -> list[Passage]:
        facts = [["Raft", "leader", "Ann"], ["Raft", "sailed", "1947" if query == "Q" else "West"], ["Raft", "broken"]]
        return [replace(passage("a"), metadata={"triplets": facts})]

    model = ScriptedLM(said([f"{LED}\n{BORN}"]))
    async with Pipeline(method="t2rag", lm=model, retriever=search) as pipeline:
        await pipeline.aask("Q")
    facts = [write_triplet(fact) for fact in model.calls[1].fields["facts"]]
    assert facts == ["(Raft; leader; Ann)", "(Raft; sailed; West)", "(Raft; sailed; 1947)"]


@pytest.mark.parametrize("maximum", [1, 2])
async def test_after_the_last_round_what_is_resolved_answers(maximum: int) -> None:
    resolved = [LED, "(Raft; crew; five)", "(Raft; kind; boat)"]
    answer, model = await play("t2rag", said(resolved), hits={**HITS, "Raft crew five": "g"}, max_turns=maximum)
    assert [call.task for call in model.calls] == ["t2rag.decompose", *["t2rag.resolve"] * maximum, "triplets.answer"]
    assert (answer.statistics["rounds"], answer.statistics["open"], answer.text) == (maximum, 1, "Oslo")


async def test_a_round_without_a_new_query_ends_the_loop() -> None:
    answer, model = await play("t2rag", said(["(Raft; leader; ?person)"] * 3), hits=HITS)
    assert [call.task for call in model.calls] == ["t2rag.decompose", "t2rag.resolve", "answer.cot"]
    assert (answer.text, answer.evidence, answer.supported) == ("Bergen", (), False)


async def test_without_a_placeholder_the_question_is_searched() -> None:
    answer, model = await play("t2rag", said([LED], decomposed=LED), hits=HITS)
    assert [call.task for call in model.calls] == ["t2rag.decompose"] * 2 + ["t2rag.resolve", "triplets.answer"]
    assert [step.query for step in answer.trace.searches] == ["Q"]


async def test_the_searches_of_a_round_are_limited_and_made_at_once() -> None:
    many = "\n".join(f"(Raft{n}; leader; ?person{n})" for n in range(9))
    answer, _ = await play("t2rag", said(["none"], decomposed=many), hits=HITS, max_searches=3, max_turns=1)
    assert [step.query for step in answer.trace.searches] == ["Raft0 leader", "Raft1 leader", "Raft2 leader"]


@pytest.mark.parametrize(("calls", "text"), [(1, "Bergen"), (2, "Bergen"), (3, "Oslo"), (4, "Oslo")])
async def test_the_budget_leaves_the_answer(calls: int, text: str) -> None:
    resolved = [LED, "(Raft; crew; five)", "(Raft; kind; boat)"]
    answer, model = await play("t2rag", said(resolved), hits=HITS, max_calls=calls)
    assert (answer.text, len(model.calls)) == (text, calls)
    assert answer.trace.budget == "max_calls" or calls == 4
