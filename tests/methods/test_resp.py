"""Retrieve, Summarize, Plan worked by hand: what every call saw (§3)."""

from __future__ import annotations

from typing import Any

import pytest

from polyhop.answer import Answer
from polyhop.lm.scripted import ScriptedLM
from polyhop.trace import Branch, Note
from tests.kit.resp_story import Story, remembered
from tests.kit.scene import evidence, names


def verdicts(answer: Answer) -> list[tuple[str, str | None]]:
    return [(step.label, step.verdict) for step in answer.trace.steps if isinstance(step, Branch)]


# --- the course of it (§3.2) -------------------------------------------------------------------------------------


async def test_the_whole_way_call_by_call() -> None:
    story = Story(
        hits={"Q": "a b", "S1?": "b c", "S2?": "d"},
        notes=["N1", "N2", "N3"],
        responses=[None, "R2"],
        plans=["S1?", "S2?"],
    )
    answer = await story.play()
    assert story.transcript == ["search Q, 5", "search S1?, 5", "search S2?, 5"]
    assert story.calls == [
        "summarize: a b",  # in the first iteration the sub-question is the question itself
        "judge: N1",
        "plan: N1; asked Q",
        "summarize: b c",
        "respond S1?: b c",
        "judge: N1 | N2 | S1? = ?",  # a sub-question without a response is remembered
        "plan: N1 | N2 | S1? = ?; asked Q, S1?",
        "summarize: d",
        "respond S2?: d",
        "generate: N1 | N2 | N3 | S1? = ? | S2? = R2",  # after the last iteration nothing is judged
    ]
    assert answer.text == "the end"
    assert names(answer.passages) == "a b c d"
    assert evidence(answer) == [("a b", None), ("b c", None), ("d", None)]
    assert not answer.supported
    assert verdicts(answer) == [("Q", "plan"), ("S1?", "plan"), ("S2?", "limit")]
    assert answer.statistics == {"iterations": 3, "repeats": 0, "summaries": 3, "responses": 1}
    assert answer.usage.layers == 8
    assert [call.final for call in answer.trace.calls] == [False] * 9 + [True]


async def test_the_judge_ends_it() -> None:
    story = Story(hits={"Q": "a", "S?": "b"}, notes=["N1", "N2"], responses=["R"], verdicts="no yes", plans=["S?"])
    answer = await story.play()
    assert story.calls[-2:] == ["judge: N1 | N2 | S? = R", "generate: N1 | N2 | S? = R"]
    assert answer.evidence
    assert verdicts(answer) == [("Q", "plan"), ("S?", "sufficient")]
    assert answer.usage.layers == 6  # 3t, judged in round t


async def test_memories_are_traced_after_each_iteration() -> None:
    story = Story(hits={"Q": "a"}, notes=["N1", "", "N3"], responses=["R"], plans=["S1?", "S2?"])
    answer = await story.play()
    traced = [step.data for step in answer.trace.steps if isinstance(step, Note) and step.name == "memory"]
    assert list(map(remembered, traced)) == ["N1", "N1 | S1? = R", "N1 | N3 | S1? = R | S2? = R"]
    rounds = [step.id for step in answer.trace.steps if isinstance(step, Branch)]
    assert [step.parent for step in answer.trace.steps if isinstance(step, Note)] == rounds


async def test_nothing_found_costs_no_summary_no_response_and_no_judgement() -> None:
    story = Story(hits={"Q": "", "S?": ""}, notes=["N"], responses=["R"], verdicts="yes", plans=["S?"])
    answer = await story.play(max_iterations=2)
    assert story.calls == ["plan: nothing; asked Q", "generate: S? = ?"]
    assert (answer.text, answer.supported, answer.evidence, answer.citations) == ("the end", False, (), ())


async def test_a_sub_question_that_finds_nothing_is_remembered_without_a_response() -> None:
    story = Story(hits={"Q": "a", "S?": "", "T?": "c"}, notes=["N1", "N2"], responses=["R"], plans=["S?", "T?"])
    answer = await story.play()
    assert story.calls[3:] == [
        "judge: N1 | S? = ?",
        "plan: N1 | S? = ?; asked Q, S?",
        "summarize: c",
        "respond T?: c",
        "generate: N1 | N2 | S? = ? | T? = R",
    ]
    assert evidence(answer) == [("a", None), ("c", None)]


async def test_an_empty_memory_is_not_judged() -> None:
    story = Story(notes=["", "N2"], verdicts="yes", plans=["S?"])
    answer = await story.play()
    assert story.calls == [
        "summarize: z", "plan: nothing; asked Q", "summarize: z", "respond S?: z", "judge: N2 | S? = ?",
        "generate: N2 | S? = ?",
    ]  # fmt: skip
    assert answer.evidence


# --- plans -------------------------------------------------------------------------------------------------------


async def test_a_repeated_plan_is_asked_for_once_more() -> None:
    story = Story(hits={"Q": "a", "S?": "b", "T?": "c"}, plans=["S?", "the S!", "T?"])
    answer = await story.play()
    plans = [call for call in story.calls if call.startswith("plan")]
    assert plans == [
        "plan: nothing; asked Q",
        "plan: S? = ?; asked Q, S?",
        "plan: S? = ?; asked Q, S?; rejected the S!",  # equal after normalisation; the repeat is named
    ]
    assert "asked before" in story.model.calls[-4].messages[-1]["content"]
    assert "the S!" in story.model.calls[-4].messages[-1]["content"]
    assert answer.statistics["repeats"] == 1
    assert verdicts(answer) == [("Q", "plan"), ("S?", "plan"), ("T?", "limit")]


async def test_a_second_repeat_ends_the_search() -> None:
    story = Story(hits={"Q": "a"}, plans=["q", "Q?", "new"])
    answer = await story.play()
    assert story.calls[1:] == ["plan: nothing; asked Q", "plan: nothing; asked Q; rejected q", "generate: nothing"]
    assert answer.statistics == {"iterations": 1, "repeats": 2, "summaries": 0, "responses": 0}
    assert verdicts(answer) == [("Q", "no plan")]


@pytest.mark.parametrize(("plan", "calls"), [("", 1), ("?!.", 1), ("The?", 1), ("unreadable", 2)])
async def test_a_plan_of_nothing_ends_the_search(plan: str, calls: int) -> None:
    story = Story(hits={"Q": "a"}, plans=[plan])
    answer = await story.play()
    assert answer.usage.calls_by_task["resp.plan"] == calls
    assert verdicts(answer) == [("Q", "no plan")]
    assert answer.statistics["repeats"] == 0
    assert story.calls[-1] == "generate: nothing"


async def test_a_rejected_plan_may_be_followed_by_one_that_cannot_be_read() -> None:
    story = Story(plans=["Q", "unreadable"])
    answer = await story.play()
    assert answer.usage.calls_by_task["resp.plan"] == 3
    assert answer.usage.defaulted_by_task == {"resp.plan": 1}
    assert answer.statistics["repeats"] == 1


# --- the summarizer (§3.1) ---------------------------------------------------------------------------------------


async def test_empty_and_repeated_notes_are_not_stored() -> None:
    story = Story(notes=["It is so.", "it is  so", " ", "None.", "?!", "New."], plans=["1?", "2?", "3?", "4?", "5?"])
    answer = await story.play(max_iterations=6)
    assert story.calls[-1] == "generate: It is so. | New. | 1? = ? | 2? = ? | 3? = ? | 4? = ? | 5? = ?"
    assert answer.statistics["summaries"] == 2


@pytest.mark.parametrize("said", [{"answered": True}, {"answered": False, "response": "R"}])
async def test_an_answer_without_a_response_is_none_nor_is_a_response_without_an_answer(said: dict[str, Any]) -> None:
    story = Story(plans=["S?"])
    story.model = ScriptedLM(lambda task, fields: said if task == "resp.respond" else story._script(task, fields))
    answer = await story.play(max_iterations=2)
    assert answer.trace.calls[-1].fields["memory"]["local_pathway"] == [{"sub_question": "S?", "response": None}]


async def test_the_local_half_can_read_the_memories() -> None:
    story = Story(hits={"Q": "a", "S?": "b"}, notes=["N1", "N2"], responses=["R"], plans=["S?"])
    answer = await story.play(local_source="memory", max_iterations=2)
    assert story.calls[3:] == ["summarize: b", "respond S?: N1 | N2", "generate: N1 | N2 | S? = R"]
    assert answer.usage.layers == 6  # it waits for the global half
    fields = story.model.calls[4].fields
    assert fields["passages"] is None
    assert "Known information:" in story.model.calls[4].messages[-1]["content"]
    story = Story(hits={"Q": "a", "S?": "b"}, notes=["N1", "N2"], responses=["R"], plans=["S?"])
    answer = await story.play(max_iterations=2)
    assert answer.usage.layers == 5
    assert story.model.calls[4].fields["memory"] is None
    assert "Passages:" in story.model.calls[4].messages[-1]["content"]


@pytest.mark.parametrize(("source", "pieces"), [("passages", [("b", None)]), ("memory", [])])
async def test_a_response_is_evidence_of_the_passages_it_was_read_from(source: str, pieces: list[Any]) -> None:
    story = Story(hits={"Q": "a", "S?": "b"}, responses=["R"], plans=["S?"], verdicts="yes")
    answer = await story.play(local_source=source)
    assert evidence(answer) == pieces
