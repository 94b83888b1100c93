"""ReSP's settings, each changing exactly what it should, and what happens when something goes wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from polyhop.answer import Answer
from polyhop.common.text import estimate_tokens
from polyhop.errors import LMError, UsageError
from polyhop.lm.base import Request
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods.registry import methods
from polyhop.pipeline import Pipeline
from polyhop.trace import Note
from tests.kit.resp_story import Story
from tests.kit.scene import evidence, names, passage

# --- lengths -----------------------------------------------------------------------------------------------------


def tokens_of(request: Request) -> int:
    return sum(estimate_tokens(turn["content"]) for turn in request.messages)


async def test_the_oldest_global_evidence_is_left_out_first() -> None:
    async def play(tokens: int) -> tuple[str, Story]:
        notes = [" ".join([letter] * 200) for letter in "xyz"]  # about 100 tokens each
        story = Story(notes=notes, responses=["R"], plans=["S1?", "S2?"])
        answer = await story.play(input_tokens=tokens)
        traced = [step.data for step in answer.trace.steps if isinstance(step, Note)]
        assert (len(traced[-1]["global_evidence"]), answer.statistics["summaries"]) == (3, 3)  # kept, if not shown
        memory = story.model.calls[-1].fields["memory"]
        return "".join(note[0] for note in memory["global_evidence"]) + str(len(memory["local_pathway"])), story

    _, story = await play(12_000)
    whole = tokens_of(story.model.calls[-1])
    for tokens, shown in ((whole, "xyz2"), (whole - 1, "yz2"), (whole - 150, "z2"), (whole - 250, "2")):
        found, story = await play(tokens)
        assert found == shown
        assert tokens_of(story.model.calls[-1]) <= tokens


async def test_passages_are_cut_from_the_last() -> None:
    text = passage("a", 40).text

    async def play(tokens: int) -> list[tuple[str, bool]]:
        story = Story(hits={"Q": "a b c"}, words=40, notes=["N"])
        answer = await story.play(input_tokens=tokens, max_iterations=1)
        assert names(answer.passages) == "a b c"  # all that was retrieved
        (piece,) = answer.evidence
        shown = story.model.calls[0].fields["passages"]
        assert [passage.id for passage in piece.passages] == [passage.id for passage in shown]
        lengths.append(tokens_of(story.model.calls[0]))
        return [(p.id, len(p.text) == len(text)) for p in story.model.calls[0].fields["passages"]]

    lengths: list[int] = []
    assert await play(12_000) == [("a", True), ("b", True), ("c", True)]
    whole = lengths[0]
    assert await play(whole) == [("a", True), ("b", True), ("c", True)]
    assert await play(whole - 1) == [("a", True), ("b", True), ("c", False)]
    assert await play(whole - 60) == [("a", True), ("b", False)]
    assert lengths[2] == whole - 1
    assert lengths[3] == whole - 60


async def test_nothing_is_asked_of_passages_that_no_prompt_can_hold() -> None:
    story = Story(hits={"Q": "a b c"}, words=40, notes=["N"], responses=["R"], verdicts="yes", plans=["S?"])
    answer = await story.play(input_tokens=1, max_iterations=2)
    assert story.calls == ["plan: nothing; asked Q", "generate: nothing"]
    assert (answer.evidence, answer.supported) == ((), False)


async def test_evidence_is_of_the_memories_that_the_generator_was_shown() -> None:
    notes = [" ".join([letter] * 200) for letter in "xyz"]
    hits = {"Q": "a", "S1?": "b", "S2?": "c"}

    async def play(tokens: int) -> tuple[Answer, Story]:
        story = Story(hits=hits, notes=notes, plans=["S1?", "S2?"])
        return await story.play(input_tokens=tokens), story

    answer, story = await play(12_000)
    assert evidence(answer) == [("a", None), ("b", None), ("c", None)]
    answer, _ = await play(tokens_of(story.model.calls[-1]) - 1)
    assert evidence(answer) == [("b", None), ("c", None)]


# --- settings ----------------------------------------------------------------------------------------------------


async def plain(**settings: Any) -> Story:
    story = Story(hits={"Q": "a b c", "S1?": "d"}, notes=["N1", "N2"], plans=["S1?", "S2?", "S3?", "S4?"])
    await story.play(**settings)
    return story


async def test_k_changes_the_searches_alone() -> None:
    usual, few = await plain(), await plain(k=1)
    assert [line.replace(", 1", ", 5") for line in few.transcript] == usual.transcript
    assert few.calls == [call.replace("a b c", "a") for call in usual.calls]


@pytest.mark.parametrize(("maximum", "calls"), [(1, 2), (2, 6), (3, 10), (4, 14)])
async def test_iterations(maximum: int, calls: int) -> None:
    story = await plain(max_iterations=maximum)
    assert len(story.transcript) == maximum
    assert len(story.calls) == calls == (maximum + (maximum - 1) * 3 + 1)


async def test_shots_and_output_tokens_change_the_requests_alone() -> None:
    usual, other = await plain(), await plain(shots=2, output_tokens=77)
    assert {(len(call.messages), call.max_tokens) for call in usual.model.calls} == {(2, 200)}
    assert {(len(call.messages), call.max_tokens) for call in other.model.calls} == {(6, 77)}
    assert usual.calls == other.calls


async def test_every_role_can_have_a_model_of_its_own() -> None:
    story = Story(hits={"Q": "a"}, notes=["N"], plans=["S?"])
    models = {role: ScriptedLM(story._script, name=role) for role in ("reasoner", "summarizer", "generator")}
    async with Pipeline(method="resp", lm=models, retriever=story._search) as pipeline:
        await pipeline.aask("Q")
    asked = {role: {call.task.removeprefix("resp.") for call in model.calls} for role, model in models.items()}
    assert asked == {"reasoner": {"judge", "plan"}, "summarizer": {"summarize", "respond"}, "generator": {"generate"}}


async def test_judging_and_planning_can_be_one_call() -> None:
    hits = {"Q": "a", "S1?": "b", "S2?": "c"}

    def three_steps(**given: Any) -> Story:
        return Story(hits=hits, notes=["N1", "N2", "N3"], responses=["R"], plans=["S1?", "S2?"], **given)

    story = three_steps()
    answer = await story.play(judge_and_plan="merged")
    assert story.calls == [
        "summarize: a",
        "judge_plan: N1; asked Q",
        "summarize: b",
        "respond S1?: b",
        "judge_plan: N1 | N2 | S1? = R; asked Q, S1?",
        "summarize: c",
        "respond S2?: c",
        "generate: N1 | N2 | N3 | S1? = R | S2? = R",
    ]
    assert answer.usage.layers == 6
    story = three_steps(verdicts="no yes")
    answer = await story.play(judge_and_plan="merged")
    assert answer.evidence
    assert answer.usage.layers == 5


async def test_a_merged_plan_that_repeats_or_is_missing_is_asked_for_alone() -> None:
    story = Story(hits={"Q": "a"}, notes=["N"], plans=["q", "S?"])
    answer = await story.play(judge_and_plan="merged", max_iterations=2)
    assert story.calls[1:3] == ["judge_plan: N; asked Q", "plan: N; asked Q; rejected q"]
    assert answer.statistics["repeats"] == 1
    story = Story(hits={"Q": "a"}, notes=["N"], plans=["", "", "S?"])
    await story.play(judge_and_plan="merged", max_iterations=2)
    assert story.calls[1:4] == ["judge_plan: N; asked Q"] * 2 + ["plan: N; asked Q"]
    story = Story(hits={"Q": "a"}, plans=["S?"])  # an empty memory is not judged
    await story.play(judge_and_plan="merged", max_iterations=2)
    assert story.calls[1] == "plan: nothing; asked Q"


async def test_summary_and_response_can_be_one_call() -> None:
    story = Story(hits={"Q": "a", "S?": "b c"}, notes=["N1", "N2"], responses=["R"], plans=["S?"])
    answer = await story.play(summarize_and_respond="merged", max_iterations=2)
    assert story.calls == [
        "summarize: a",
        "judge: N1",
        "plan: N1; asked Q",
        "summarize_respond S?: b c",
        "generate: N1 | N2 | S? = R",
    ]
    assert evidence(answer) == [("a", None), ("b c", None)]
    story = Story(hits={"Q": "a", "S?": ""}, notes=["N1", "N2"], responses=["R"], plans=["S?"])
    await story.play(summarize_and_respond="merged", max_iterations=2)
    assert story.calls[-1] == "generate: N1 | S? = ?"
    with pytest.raises(UsageError, match="local_source=passages"):
        await Story().play(summarize_and_respond="merged", local_source="memory")


# --- trouble -----------------------------------------------------------------------------------------------------


async def test_safe_defaults() -> None:
    notes = ["N", "unreadable"]
    story = Story(hits={"Q": "a"}, notes=notes, responses=["unreadable"], verdicts="unreadable", plans=["S?"])
    answer = await story.play(max_iterations=2)
    assert story.calls[-1] == "generate: N | S? = ?"
    assert answer.usage.defaulted_by_task == {"resp.summarize": 1, "resp.respond": 1, "resp.judge": 1}
    model = ScriptedLM(lambda task, fields: "")
    async with Pipeline(method="resp", lm=model, retriever=story._search) as pipeline:
        answer = await pipeline.aask("Q")
    assert answer.text == ""
    assert [call.task for call in model.calls] == [
        f"resp.{task}" for task in ("summarize", "plan", "generate") for _ in (1, 2)
    ]


@pytest.mark.parametrize("maximum", range(1, 12))
async def test_a_budget_is_kept_and_an_answer_given(maximum: int) -> None:
    story = Story(hits={"Q": "a", "S1?": "b", "S2?": "c"}, notes=["N1", "N2", "N3"], plans=["S1?", "S2?"])
    answer = await story.play(max_calls=maximum)
    assert answer.text == "the end"
    assert len(story.calls) <= maximum
    assert story.calls[-1].startswith("generate")
    assert answer.trace.budget == ("max_calls" if maximum < 10 else None)


async def test_an_unreachable_model_raises_its_own_error() -> None:
    story = Story(hits={"Q": "a"}, notes=["N"], plans=["S?"])
    for task in ("resp.summarize", "resp.respond", "resp.judge", "resp.plan", "resp.generate"):

        def reply(asked: str, fields: Mapping[str, Any], task: str = task) -> Any:
            if asked == task:
                raise LMError(f"no server for {task}")
            return story._script(asked, fields)

        async with Pipeline(method="resp", lm=ScriptedLM(reply), retriever=story._search) as pipeline:
            with pytest.raises(LMError, match=f"no server for {task}"):
                await pipeline.aask("Q")


@pytest.mark.parametrize(
    ("chosen", "layers"),
    [
        ({}, 3 + 2 * 2 + 1),  # three summaries, two judgements and plans, the answer
        ({"judge_and_plan": "merged"}, 3 + 2 + 1),
        ({"local_source": "memory"}, 3 + 2 * 2 + 2 + 1),
        ({"max_iterations": 1}, 1 + 1),
    ],
    ids=str,
)
def test_layers(chosen: dict[str, Any], layers: int) -> None:
    method = methods()["resp"]
    assert method.layers(method.resolve(chosen)) == layers
