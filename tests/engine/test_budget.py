"""Budgets and errors: what ends a gathering, from any depth, and what is never swallowed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from polyhop.engine.budget import Budget, Meter, Prices, until_spent
from polyhop.engine.run import Run
from polyhop.errors import BudgetSpent, LMError, SettingError
from polyhop.lm.base import Completion, TokenUsage
from polyhop.lm.scripted import ScriptedLM
from polyhop.pipeline import Pipeline
from polyhop.types import Passage
from tests.kit.custom_method import RIGHT, fork, one_ask, using
from tests.kit.random_world import World
from tests.kit.scene import Scene, names, notes, passage
from tests.kit.tries import tries
from tests.kit.virtual_clock import run_virtually

# --- errors ------------------------------------------------------------------------------------------------------

UNREACHABLE = LMError("the server does not answer")


@pytest.mark.parametrize("method", ["tor", "cor", "direct", "cot", "one-r"])
async def test_an_error_of_the_model_reaches_the_caller(method: str) -> None:
    async with Pipeline(
        method=method, lm=ScriptedLM(lambda task, fields: UNREACHABLE), retriever=lambda query, k: [passage("a")]
    ) as pipeline:
        with pytest.raises(LMError, match="does not answer"):
            await pipeline.aask("Q")


async def test_an_error_in_a_task_group_is_raised_as_itself() -> None:
    async def method(run: Run) -> None:
        with run.gathering():
            await fork(run.ask("answer.cot", question="Q"), run.ask("answer.cot", question="R"))

    with pytest.raises(LMError, match="does not answer"):
        await using(method, ScriptedLM({"answer.cot": UNREACHABLE}))


async def test_a_foreign_error_beside_a_spent_budget_is_not_swallowed() -> None:
    async def spend() -> None:
        raise BudgetSpent("max_calls")

    async def fail() -> None:
        raise ZeroDivisionError("a fault of the method's own")

    async def method(run: Run) -> None:
        with run.gathering():
            await fork(spend(), fail())

    with pytest.raises(ZeroDivisionError, match="a fault of the method's own"):
        await using(method, ScriptedLM({}))


async def test_a_spent_budget_alone_is_left_from_any_depth() -> None:
    async def spend() -> None:
        raise BudgetSpent("max_tokens")

    async def method(run: Run) -> str:
        with run.gathering():
            await fork(spend(), fork(spend()))
        return "went on"

    found, answer = await using(method, ScriptedLM({}))
    assert found == "went on"
    assert answer.trace.budget == "max_tokens"
    assert notes(answer) == [("budget spent", {"limit": "max_tokens"})]


# --- budgets -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["max_calls", "max_tokens", "max_seconds", "max_cost"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_budget_of_nothing_is_refused(name: str, value: int) -> None:
    limit: dict[str, Any] = {name: value}
    with pytest.raises(SettingError, match=f"{name}={value}: must be above 0"):
        Budget(**limit)


@pytest.mark.parametrize("method", ["tor", "cor", "one-r", "cot"])
async def test_max_calls_holds_and_reserves_the_final_call(method: str) -> None:
    """On random worlds: n - 1 gathering calls and 1 final one where the method wanted more; else the run untouched."""
    spent = 0
    worlds = tries(120)
    for seed in range(worlds):
        in_turn: dict[str, Any] = {"speculate": 0} if method == "tor" else {}
        free, unbound = await World.random(seed).run(method, **in_turn)
        wanted = sum(not call.final for call in free.trace.calls)
        for max_calls in {1, 2, 3, 1 + seed % 12, max(1, len(unbound.calls))}:
            answer, model = await World.random(seed).run(method, max_calls=max_calls)
            gathered = [call for call in answer.trace.calls if not call.final]
            assert len(model.calls) == answer.usage.calls <= max_calls, f"world {seed}, {max_calls} calls"
            assert len(gathered) == min(wanted, max_calls - 1)
            assert sum(call.final and call.attempt == 1 for call in answer.trace.calls) == 1
            assert answer.trace.calls[-1].final
            missed = [call for call in free.trace.calls if not call.final][max_calls - 1 :]
            if not missed or missed[0].attempt == 1:  # a retry without room is passed over, and the method goes on
                assert answer.trace.budget == ("max_calls" if missed else None)
            before = len(gathered)
            assert [call.fields for call in model.calls[:before]] == [call.fields for call in unbound.calls[:before]]
            spent += bool(missed)
    assert spent >= (worlds * 5 // 6 if method in ("tor", "cor") else 0)


async def test_calls_made_together_keep_to_the_budget() -> None:
    async def method(run: Run) -> None:
        with run.gathering():
            await run.gather(*(run.ask("answer.cot", question=str(number)) for number in range(9)))
        await run.ask("answer.cot", final=True, question="last")

    model = ScriptedLM({"answer.cot": RIGHT})
    _, answer = await using(method, model, budget=Budget(max_calls=4))
    assert len(model.calls) <= 4
    assert model.calls[-1].fields["question"] == "last"
    assert answer.trace.budget == "max_calls"


async def test_a_retry_needs_room_too() -> None:
    """The second call of two is kept for the answer, so the unreadable first one falls to its default at once."""

    async def method(run: Run) -> Any:
        with run.gathering():
            review = await run.ask("cor.review", question="Q", passages=[], thoughts=False)
        await run.ask("answer.cot", final=True, question="Q")
        return review

    model = ScriptedLM({"cor.review": "Dunno.", "answer.cot": ""})
    review, answer = await using(method, model, budget=Budget(max_calls=2))
    assert not review.relevant
    assert [call.task for call in model.calls] == ["cor.review", "answer.cot"]
    assert answer.usage.defaulted_by_task == {"cor.review": 1, "answer.cot": 1}
    assert answer.trace.budget is None


async def test_the_final_calls_retry_may_take_the_last_place() -> None:
    model = ScriptedLM({"answer.cot": ["", RIGHT]})
    output, answer = await using(
        lambda run: run.ask("answer.cot", final=True, question="Q"), model, budget=Budget(max_calls=2)
    )
    assert (output.answer, answer.usage.calls) == ("Paris", 2)


async def test_a_spent_budget_answers_from_what_was_gathered() -> None:
    scene = Scene(hits={"Q": "a b c"}, reviews={"a": "accept X", "c": "accept Y"})
    answer = await scene.play("tor", max_calls=3)
    assert scene.transcript == ["search Q, 5", "review a", "review b", "fuse evidence: a = X"]
    assert answer.trace.budget == "max_calls"
    assert (bool(answer.evidence), names(answer.passages)) == (True, "a")


async def test_max_tokens_ends_the_gathering() -> None:
    reply = Completion(text=RIGHT, usage=TokenUsage(prompt_tokens=90, completion_tokens=10))

    async def method(run: Run) -> None:
        with run.gathering():
            for number in range(9):
                await run.ask("answer.cot", question=str(number))
        await run.ask("answer.cot", final=True, question="last")

    model = ScriptedLM({"answer.cot": reply})
    _, answer = await using(method, model, budget=Budget(max_tokens=250))
    assert [call.fields["question"] for call in model.calls] == ["0", "1", "2", "last"]
    assert answer.trace.budget == "max_tokens"


def test_max_seconds_ends_the_gathering_in_the_middle_of_a_call() -> None:
    async def method(run: Run) -> float:
        with run.gathering():
            for number in range(9):
                await run.ask("answer.cot", question=str(number))
        await run.ask("answer.cot", final=True, question="last")
        return run.recorder.clock()

    model = ScriptedLM({"answer.cot": RIGHT}, latency=2.0)
    end, answer = run_virtually(using(method, model, budget=Budget(max_seconds=5.0)))
    assert [call.fields["question"] for call in answer.trace.calls] == ["0", "1", "last"]
    assert len(model.calls) == 4  # the third was under way
    assert end == pytest.approx(7.0)  # the final call may go past
    assert answer.trace.budget == "max_seconds"


def test_after_max_seconds_nothing_is_begun() -> None:
    """Not even a call that would be answered at once."""

    async def method(run: Run) -> None:
        with run.gathering():
            await asyncio.sleep(9.0)
            await run.ask("answer.cot", question="Q")

    model = ScriptedLM({"answer.cot": RIGHT})
    _, answer = run_virtually(using(method, model, budget=Budget(max_seconds=5.0)))
    assert model.calls == []
    assert answer.trace.budget == "max_seconds"


def test_max_seconds_ends_a_search_and_everything_in_its_task_group() -> None:
    async def slow(query: str, k: int) -> list[Passage]:
        await asyncio.sleep(100.0)
        return []

    async def method(run: Run) -> float:
        with run.gathering():
            await fork(run.search("q", 1), run.ask("answer.cot", question="Q"), run.search("r", 1))
        return run.recorder.clock()

    model = ScriptedLM({"answer.cot": RIGHT}, latency=50.0)
    end, answer = run_virtually(using(method, model, retriever=slow, budget=Budget(max_seconds=3.0)))
    assert end == pytest.approx(3.0)
    assert answer.trace.budget == "max_seconds"
    assert answer.usage.calls == 0


async def test_a_timeout_of_the_models_own_is_not_the_budgets() -> None:
    with pytest.raises(TimeoutError):
        await using(one_ask(), ScriptedLM({"answer.cot": TimeoutError()}), budget=Budget(max_seconds=60.0))


def fail(*errors: Exception) -> None:
    raise ExceptionGroup("all tasks", errors)


def test_the_first_limit_that_groups_of_tasks_spend_is_marked() -> None:
    marked: list[BudgetSpent] = []
    first, second = BudgetSpent("max_calls"), BudgetSpent("max_tokens")
    with until_spent(marked.append):
        fail(ExceptionGroup("a fork of one", [first, second]), second)
    assert marked == [first]


def test_an_error_beside_spent_limits_comes_without_its_groups() -> None:
    marked: list[BudgetSpent] = []
    with pytest.raises(LMError) as raised, until_spent(marked.append):
        fail(BudgetSpent("max_calls"), ExceptionGroup("a fork", [UNREACHABLE, KeyError()]))
    assert (raised.value, marked) == (UNREACHABLE, [])


def test_a_calls_tokens_are_those_of_its_prompt_and_its_reply() -> None:
    meter = Meter(Budget(max_tokens=7), clock=lambda: 0.0)
    meter.charge("any", 3, 3)
    meter.check(call=True)
    meter.charge("any", 0, 1)
    with pytest.raises(BudgetSpent, match="max_tokens"):
        meter.check(call=True)


@pytest.mark.parametrize("limit", ["max_calls", "max_tokens", "max_cost", "max_seconds"])
def test_a_limit_is_spent_when_it_is_reached(limit: str) -> None:
    """One of two calls is reserved; ten tokens cost ten, and take ten seconds."""
    meter = Meter(
        Budget(**{limit: 2 if limit == "max_calls" else 10}, prices=Prices.of("1000000:1000000")),
        clock=lambda: float(meter.tokens),
    )
    for calls, tokens in ((0, 9), (1, 1)):
        meter.check(call=True)
        meter.calls = calls
        meter.charge("any", tokens, 0)
    with pytest.raises(BudgetSpent, match=limit):
        meter.check(call=True)
