"""KnowTrace worked by hand: what each exploration sees, what is completed, and how the tracing ends."""

from __future__ import annotations

from typing import Any

import pytest

from polyhop.lm.base import Request
from tests.kit.scene import names
from tests.kit.scripted_run import play

HITS = {"Raft leader": "a b c d e f", "Ann birth place": "g a", "Raft crew": "h"}
LED, BORN = "(Raft; leader; Ann)", "(Ann; birth place; Rome)"


def said(explored: list[str], extracted: list[str], answer: str = "The answer is Oslo.") -> dict[str, Any]:
    return {
        "knowtrace.explore": explored,
        "ge.extract": extracted,
        "triplets.answer": answer,
        "answer.cot": "The answer is Bergen.",
    }


def seen(call: Request) -> str:
    """Write what a call was shown on one line: the triplets, or the pair and its passages."""
    if call.task == "ge.extract":
        return f"{call.fields['sub_question']}: {names(call.fields['passages'])}"
    return f"{call.task}: " + ", ".join(" ".join(triplet.values()) for triplet in call.fields["triplets"])


async def test_each_round_names_pairs_and_completes_them_until_the_triplets_answer() -> None:
    explored = ["1. Raft; leader", "1. Ann; birth place", "Ann led it. The answer is Rome."]
    answer, model = await play("knowtrace", said(explored, [LED, BORN]), hits=HITS)
    assert [seen(call) for call in model.calls] == [
        "knowtrace.explore: ",
        "Raft; leader: a b c d e",
        "knowtrace.explore: Raft leader Ann",
        "Ann; birth place: g a",
        "knowtrace.explore: Ann birth place Rome, Raft leader Ann",  # the newest first
    ]
    assert (answer.text, names(answer.passages)) == ("Rome", "a b c d e g")
    assert [(names(piece.passages), piece.analysis) for piece in answer.evidence] == [("a b c d e", LED), ("g a", BORN)]
    assert answer.statistics == {"pairs": 2, "triplets": 2}


async def test_no_passage_reaches_an_exploration() -> None:
    _, model = await play("knowtrace", said(["1. Raft; leader", "The answer is Rome."], [LED]), hits=HITS)
    assert "a0 a1" not in str(model.calls[-1].messages)
    assert model.calls[-1].messages[-1]["content"] == f"Question: Q\n\nKnown facts:\n{LED}"


async def test_the_pairs_of_a_round_are_completed_at_once() -> None:
    explored = ["1. Raft; leader\n2. Raft; crew\n3. Raft; captain\n4. Raft; owner", "The answer is Rome."]
    answer, model = await play("knowtrace", said(explored, [LED, BORN]), hits=HITS, max_pairs=2, latency=0.01)
    assert [step.query for step in answer.trace.searches] == ["Raft leader", "Raft crew"]
    assert (len(model.calls), answer.usage.layers) == (4, 3)


@pytest.mark.parametrize("maximum", [1, 2])
async def test_after_the_last_round_the_triplets_are_asked_for_the_answer(maximum: int) -> None:
    explored = [f"1. Raft; leader {n}" for n in range(9)]
    hits = {f"Raft leader {n}": "a" for n in range(9)}
    answer, model = await play("knowtrace", said(explored, [LED] * 4), hits=hits, max_turns=maximum)
    assert [call.task for call in model.calls] == ["knowtrace.explore", "ge.extract"] * maximum + ["triplets.answer"]
    assert (answer.text, answer.trace.calls[-1].final) == ("Oslo", True)


@pytest.mark.parametrize("again", ["1. Raft; leader", "1. raft ; Leader.", "Hm, let me think."])
async def test_a_round_without_a_new_pair_ends_the_tracing(again: str) -> None:
    answer, model = await play("knowtrace", said(["1. Raft; leader", again, again], [LED]), hits=HITS)
    assert model.calls[-1].task == "triplets.answer"
    assert (answer.text, len(answer.trace.searches)) == ("Oslo", 1)


async def test_without_a_triplet_the_question_is_answered_from_memory() -> None:
    answer, model = await play("knowtrace", said(["1. Raft; leader\n2. Raft; owner"], ["none"]), hits=HITS)
    assert [call.task for call in model.calls] == ["knowtrace.explore", "ge.extract", "answer.cot"]
    assert (answer.text, answer.evidence, answer.supported) == ("Bergen", (), False)


@pytest.mark.parametrize(("calls", "text"), [(1, "Bergen"), (2, "Bergen"), (3, "Oslo"), (4, "Oslo")])
async def test_the_budget_leaves_the_answer(calls: int, text: str) -> None:
    explored = [f"1. Raft; leader {n}" for n in range(9)]
    hits = {f"Raft leader {n}": "a" for n in range(9)}
    answer, model = await play("knowtrace", said(explored, [LED] * 4), hits=hits, max_calls=calls)
    assert (answer.text, len(model.calls), answer.trace.budget) == (text, calls, "max_calls")
