"""SuRe worked by hand: candidates, a summary for each, validity and both orders of every pair, and what wins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from polyhop.errors import SettingError, UsageError
from polyhop.pipeline import Pipeline
from polyhop.trace import Searched
from polyhop.types import Passage
from tests.kit.scene import evidence, names, notes
from tests.kit.scripted_run import play

HITS = {"Q": " ".join("abcdefghijklmnopqrs")}


def script(found: Any = ("Oslo", "Larvik"), *, valid: str = "", better: str = "", silent: str = "", **more: Any) -> Any:
    """``valid``: the candidates whose summary is; ``better``: pairs as they are shown and the choice, "OL2 LO1"."""
    choices = {line[:-1]: int(line[-1]) or None for line in better.split()}

    def reply(task: str, fields: Mapping[str, Any]) -> Any:
        match task:
            case "sure.candidates":
                return found if isinstance(found, str) else {"candidates": list(found)}
            case "sure.summarize":
                return {"summary": "" if fields["candidate"] in silent.split() else f"{fields['candidate']}: so."}
            case "sure.validate":
                return {"valid": fields["candidate"] in valid.split()}
            case "sure.rank":
                shown = "".join(summary[:1] for summary in fields["summaries"])
                return {"better": choices.get(shown)}
        return more.get(task, {"answer": "read"})

    return reply


def scores(answer: Any) -> list[float]:
    ((name, data),) = notes(answer)
    assert name == "candidates"
    return list(data["scores"])


# --- the steps of §3 ---------------------------------------------------------------------------------------------


async def test_the_steps_are_candidates_summaries_then_validity_and_both_orders() -> None:
    answer, model = await play("sure", script(valid="Larvik", better="OL2 LO1"), hits=HITS)
    assert [call.task.removeprefix("sure.") for call in model.calls] == [
        "candidates", "summarize", "summarize", "validate", "validate", "rank", "rank",
    ]  # fmt: skip
    first, *rest = [call.fields for call in model.calls]
    assert (names(first["passages"]), first["count"]) == ("a b c d e", 2)
    assert [(fields["candidate"], fields["candidates"], names(fields["passages"])) for fields in rest[:2]] == [
        ("Oslo", ["Oslo", "Larvik"], "a b c d e"),
        ("Larvik", ["Oslo", "Larvik"], "a b c d e"),
    ]
    assert [(fields["candidate"], fields["summary"]) for fields in rest[2:4]] == [
        ("Oslo", "Oslo: so."),
        ("Larvik", "Larvik: so."),
    ]
    assert [fields["summaries"] for fields in rest[4:]] == [["Oslo: so.", "Larvik: so."], ["Larvik: so.", "Oslo: so."]]
    assert (answer.text, scores(answer), answer.confidence) == ("Larvik", [0.0, 2.0], 1.0)
    assert evidence(answer) == [("a b c d e", "Larvik")]
    assert (bool(answer.evidence), answer.usage.layers, answer.usage.searches) == (True, 3, 1)
    assert answer.statistics == {"candidates": 2}


@pytest.mark.parametrize(
    ("valid", "better", "expected", "winner"),
    [
        ("", "", [0.5, 0.5], "Oslo"),  # nothing tells them apart: the first
        ("Oslo Larvik", "", [1.5, 1.5], "Oslo"),
        ("Larvik", "", [0.5, 1.5], "Larvik"),
        ("", "OL2 LO1", [0.0, 1.0], "Larvik"),
        ("", "OL1 LO1", [0.5, 0.5], "Oslo"),  # the first place is preferred, whoever stands there: 0.5 each
        ("", "OL2 LO0", [0.25, 0.75], "Larvik"),
        ("Oslo", "OL2 LO1", [1.0, 1.0], "Oslo"),  # equal: the first
        ("Oslo", "OL2 LO0", [1.25, 0.75], "Oslo"),
    ],
)
async def test_a_candidates_score_is_its_validity_and_its_share_of_the_comparisons(
    valid: str, better: str, expected: list[float], winner: str
) -> None:
    answer, _ = await play("sure", script(valid=valid, better=better), hits=HITS)
    assert (scores(answer), answer.text) == (expected, winner)
    assert answer.confidence == max(expected) / 2


async def test_three_candidates_are_compared_two_by_two() -> None:
    found = ("Oslo", "Larvik", "Bergen")
    said = script(found, better="OL2 LO1 OB1 BO2 LB2 BL1", valid="Bergen")
    answer, model = await play("sure", said, hits=HITS, candidates=3)
    assert sum(call.task == "sure.rank" for call in model.calls) == 6
    assert (scores(answer), answer.text) == ([1.0, 1.0, 2.0], "Bergen")
    assert answer.confidence == pytest.approx(2 / 3)


async def test_each_half_of_the_verification_can_be_left_out() -> None:
    said = script(valid="Oslo", better="OL2 LO1")
    answer, model = await play("sure", said, hits=HITS, ranking=False)
    assert (scores(answer), answer.text, answer.confidence) == ([1.0, 0.0], "Oslo", 1.0)
    assert not any(call.task == "sure.rank" for call in model.calls)
    answer, model = await play("sure", said, hits=HITS, validity=False)
    assert (scores(answer), answer.text, answer.confidence) == ([0.0, 1.0], "Larvik", 1.0)
    assert not any(call.task == "sure.validate" for call in model.calls)
    answer, model = await play("sure", said, hits=HITS, validity=False, ranking=False)
    assert (answer.text, answer.usage.layers, len(model.calls)) == ("Oslo", 2, 3)


# --- what may go wrong -------------------------------------------------------------------------------------------


async def test_an_empty_summary_is_not_valid_and_is_not_asked_about() -> None:
    answer, model = await play("sure", script(valid="Oslo Larvik", silent="Oslo"), hits=HITS)
    assert [call.fields["candidate"] for call in model.calls if call.task == "sure.validate"] == ["Larvik"]
    assert answer.text == "Larvik"
    shown = next(call for call in model.calls if call.task == "sure.rank").messages[-1]["content"]
    assert shown.endswith("Summary 1: (empty)\nSummary 2: Larvik: so.")


@pytest.mark.parametrize("found", [("Larvik",), ("Larvik", "the larvik"), ("Larvik", "", "Larvik.")])
async def test_one_candidate_is_the_answer(found: Any) -> None:
    answer, model = await play("sure", script(found), hits=HITS)
    assert (answer.text, len(model.calls), answer.statistics) == ("Larvik", 1, {"candidates": 1})
    assert evidence(answer) == [("a b c d e", "Larvik")]


async def test_more_candidates_than_wanted_are_left_out() -> None:
    answer, model = await play("sure", script(("Oslo", "oslo", "Larvik", "Bergen")), hits=HITS)
    assert [call.fields["candidate"] for call in model.calls if call.task == "sure.summarize"] == ["Oslo", "Larvik"]
    assert answer.statistics == {"candidates": 2}


async def test_without_a_candidate_the_passages_are_read() -> None:
    answer, model = await play("sure", script(""), hits=HITS)
    assert [call.task for call in model.calls] == ["sure.candidates"] * 2 + ["answer.read"]
    assert (answer.text, names(model.calls[-1].fields["passages"])) == ("read", "a b c d e")
    assert answer.usage.defaulted_by_task == {"sure.candidates": 1}
    assert sum(isinstance(step, Searched) for step in answer.trace.steps) == 1


async def test_without_a_hit_the_answer_is_closed_book() -> None:
    answer, model = await play("sure", script(), hits={})
    assert [call.task for call in model.calls] == ["answer.cot"]
    assert (answer.text, answer.supported, answer.passages) == ("read", False, ())


async def test_verdicts_that_cannot_be_read_change_nothing() -> None:
    said = {
        "sure.candidates": "1. Oslo\n2. Larvik",
        "sure.summarize": "So it is. [DONE]",
        "sure.validate": "Hm.",
        "sure.rank": "Hm.",
    }
    answer, _ = await play("sure", said, hits=HITS)
    assert (scores(answer), answer.text) == ([0.5, 0.5], "Oslo")
    assert answer.usage.defaulted_by_task == {"sure.validate": 2, "sure.rank": 1}  # its two summaries are equal


# --- budgets and settings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("maximum", "asked", "text"), [(1, 1, "read"), (2, 1, "Oslo"), (4, 3, "Oslo"), (7, 6, "Oslo")])
async def test_the_budget_leaves_an_answer(maximum: int, asked: int, text: str) -> None:
    """Half of the comparing would favour one candidate: it counts whole or not at all."""
    answer, model = await play("sure", script(valid="Larvik", better="OL2 LO1"), hits=HITS, max_calls=maximum)
    assert (answer.text, answer.trace.budget) == (text, "max_calls")
    assert len(model.calls) <= asked < maximum or maximum == 1
    whole, _ = await play("sure", script(valid="Larvik", better="OL2 LO1"), hits=HITS, max_calls=8)
    assert whole.text == "Larvik"


async def test_k_rank_limit_and_shots() -> None:
    answer, model = await play("sure", script(), hits=HITS, k=3, shots=1)
    assert names(model.calls[0].fields["passages"]) == "a b c"
    assert names(answer.passages) == " ".join("abcdefghijklmno")
    assert {sum(turn["role"] == "assistant" for turn in call.messages) for call in model.calls} == {1}
    answer, model = await play("sure", script(), hits=HITS, k=10, shots=0, rank_limit=4)  # the paper's
    assert names(model.calls[0].fields["passages"]) == " ".join("abcdefghij")
    assert names(answer.passages) == "a b c d"
    assert {sum(turn["role"] == "assistant" for turn in call.messages) for call in model.calls} == {0}


def test_it_needs_a_retriever_and_two_candidates() -> None:
    with pytest.raises(UsageError, match="corpus"):
        Pipeline(method="sure")
    with pytest.raises(SettingError, match="candidates"):
        Pipeline([Passage("1", "A", "B")], "sure", candidates=1)


async def test_pocket_argues_for_two() -> None:
    corpus = [
        Passage("1", "Alien (film)", "Alien is a 1979 film directed by Ridley Scott, with music by Jerry Goldsmith."),
        Passage("2", "Ridley Scott", "Ridley Scott is an English director born in South Shields."),
    ]
    async with Pipeline(corpus, "sure", lm="pocket") as qa:
        assert (await qa.aask("Where was the director of Alien born?")).text == "South Shields"
        answer = await qa.aask("Which man had a part in making Alien?")
    assert answer.statistics["candidates"] == 2
    assert {call.task for call in answer.trace.calls} >= {"sure.validate", "sure.rank"}
