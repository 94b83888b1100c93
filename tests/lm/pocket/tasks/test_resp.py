"""The tasks of ReSP."""

from __future__ import annotations

from typing import Any

from tests.lm.pocket.scene import ANDERS, FERRY, MILL, QUESTION, ask


async def test_a_note_keeps_helpful_passages_only() -> None:
    noted = await ask("resp.summarize", question=QUESTION, passages=[FERRY, MILL])
    assert noted == {"summary": f"[Dark Mill] {MILL.text}"}
    assert (await ask("resp.summarize", question=QUESTION, passages=[FERRY])) == {"summary": ""}


async def test_memories_are_judged_planned_on_and_answered() -> None:
    begun = {"global_evidence": [f"[Dark Mill] {MILL.text}"], "local_pathway": []}
    assert await ask("resp.judge", question=QUESTION, memory=begun) == {"sufficient": False}
    planned = await ask("resp.plan", question=QUESTION, memory=begun, asked=[QUESTION], rejected=None)
    assert planned == {"sub_question": "Where was Rolf Anders born?"}
    other = await ask("resp.plan", question=QUESTION, memory=begun, asked=[QUESTION, *planned.values()], rejected=None)
    assert other == {"sub_question": "Rolf Anders"}  # the same is never asked twice
    reply = await ask("resp.respond", **planned, passages=[FERRY, ANDERS], memory=None)
    assert reply == {"answered": True, "response": "Bremen"}
    done = {**begun, "local_pathway": [{**planned, "response": reply["response"]}]}
    assert await ask("resp.judge", question=QUESTION, memory=done) == {"sufficient": True}
    assert (await ask("resp.generate", question=QUESTION, memory=done))["answer"] == "Bremen"


async def test_a_sub_question_without_an_answer_is_not_answered() -> None:
    reply = await ask("resp.respond", sub_question="Where was Rolf Anders born?", passages=[FERRY], memory=None)
    assert reply == {"answered": False, "response": None}
    nothing: dict[str, list[Any]] = {"global_evidence": [], "local_pathway": []}
    reply = await ask("resp.respond", sub_question="Where was Rolf Anders born?", passages=None, memory=nothing)
    assert reply == {"answered": False, "response": None}
    assert await ask("resp.plan", question="Why?", memory=nothing, asked=["Why?"], rejected=None) == {
        "sub_question": ""
    }
    assert (await ask("resp.generate", question=QUESTION, memory=nothing))["answer"] == "unknown"
