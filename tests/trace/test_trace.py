"""The trace: who waited for whom, layers and the critical path, and an order that no timing can change."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import asdict, replace
from typing import Any, TypeAlias

import pytest

from polyhop.answer import Answer
from polyhop.engine.budget import Budget
from polyhop.engine.engine import Engine
from polyhop.engine.models import Models
from polyhop.engine.run import Run
from polyhop.lm.base import Completion
from polyhop.lm.scripted import ScriptedLM
from polyhop.retrieval import as_retriever
from polyhop.trace import Ask, Branch, Note, Score, Searched, Usage, add_usage, plain
from polyhop.types import Passage, Span
from tests.kit.random_world import still
from tests.kit.scene import Scene, passage
from tests.kit.virtual_clock import run_virtually

Method: TypeAlias = Callable[[Run], Awaitable[None]]


def play(method: Method, seconds: Mapping[str, float] | float = 1.0, budget: Budget | None = None) -> Answer:
    """Run a hand-made method on a virtual clock; ``seconds`` is how long each call takes, by its label."""

    def reply(task: str, fields: Mapping[str, Any]) -> Any:
        label = fields["question"]
        said = "" if label.startswith("unreadable") else {"answer": label}
        wait = seconds if isinstance(seconds, float) else seconds[label]
        return asyncio.sleep(wait, said) if wait else said  # without a wait, not even a turn of the loop passes

    async def search(query: str, k: int) -> list[Passage]:
        await asyncio.sleep(10.0)
        return [passage(query)]

    async def function(question: str, run: Run) -> Answer:
        with run.gathering():
            await method(run)
        return Answer("done")

    engine = Engine(
        models=Models({"default": ScriptedLM(reply)}), retriever=as_retriever(search), budget=budget or Budget()
    )
    return run_virtually(engine.answer(function, "hand-made", "Q", "qa", {}))


async def ask(run: Run, label: str) -> None:
    await run.ask("answer.cot", question=label)


def waited(answer: Answer) -> dict[str, str]:
    """For each call in the order of the trace, the calls it waited for."""
    label = {call.id: call.fields["question"] for call in answer.trace.calls}
    return {label[call.id]: " ".join(label[before] for before in call.after) for call in answer.trace.calls}


# --- hand-made patterns, with each way to fork -------------------------------------------------------------------

Fork: TypeAlias = Callable[..., Awaitable[Any]]
Pattern: TypeAlias = Callable[[Run, Fork], Awaitable[None]]


async def task_group(*work: Coroutine[Any, Any, None]) -> None:
    async with asyncio.TaskGroup() as group:
        for coroutine in work:
            group.create_task(coroutine)


WAYS: dict[str, Callable[[Run], Fork]] = {
    "run.gather": lambda run: run.gather,
    "asyncio.gather": lambda run: asyncio.gather,
    "TaskGroup": lambda run: task_group,
}


def forking(pattern: Pattern, way: str = "run.gather") -> Method:
    return lambda run: pattern(run, WAYS[way](run))


async def in_turn(run: Run, fork: Fork) -> None:
    for label in "abc":
        await ask(run, label)


async def together(run: Run, fork: Fork) -> None:
    await ask(run, "a")
    await fork(*(ask(run, label) for label in "bcd"))
    await ask(run, "e")


async def two_groups_in_a_row(run: Run, fork: Fork) -> None:
    for pair in ("ab", "cd"):
        await fork(*(ask(run, label) for label in pair))


async def nested(run: Run, fork: Fork) -> None:
    async def outer(name: str) -> None:
        await ask(run, f"{name}1")
        await fork(ask(run, f"{name}2"), ask(run, f"{name}3"))
        await ask(run, f"{name}4")

    await fork(outer("a"), ask(run, "b"), outer("c"))
    await ask(run, "d")


async def nested_to_the_end(run: Run, fork: Fork) -> None:
    """The inner tasks end in a group of their own, with no step after it."""

    async def outer(name: str) -> None:
        await ask(run, f"{name}1")
        await fork(ask(run, f"{name}2"), ask(run, f"{name}3"))

    await fork(outer("a"), outer("b"))
    await ask(run, "c")


async def one_left_running(run: Run) -> None:
    """``a`` is begun first and waited for late."""
    running = asyncio.create_task(ask(run, "a"))
    await asyncio.sleep(0)
    await ask(run, "b")
    await asyncio.gather(ask(run, "c"), ask(run, "d"))
    await running
    await ask(run, "e")


async def nested_under_branches(run: Run, fork: Fork) -> None:
    async def outer(name: str) -> None:
        with run.branch("node", name):
            await fork(ask(run, f"{name}1"), ask(run, f"{name}2"))
            await ask(run, f"{name}3")

    await fork(outer("a"), outer("b"))


def under_a_semaphore(slots: int) -> Pattern:
    async def method(run: Run, fork: Fork) -> None:
        semaphore = asyncio.Semaphore(slots)

        async def ask_in_turn(label: str) -> None:
            async with semaphore:
                await ask(run, label)

        await fork(*(ask_in_turn(label) for label in "abcd"))
        await ask(run, "e")

    return method


ABREAST = {"a": "", "b": "", "c": "", "d": "", "e": "a b c d"}
PATTERNS: dict[str, tuple[Pattern, dict[str, str], int]] = {
    "in turn": (in_turn, {"a": "", "b": "a", "c": "b"}, 3),
    "together": (together, {"a": "", "b": "a", "c": "a", "d": "a", "e": "a b c d"}, 3),
    "two groups in a row": (two_groups_in_a_row, {"a": "", "b": "", "c": "a b", "d": "a b"}, 2),
    "nested": (
        nested,
        {
            "a1": "",
            "a2": "a1",
            "a3": "a1",
            "a4": "a1 a2 a3",
            "b": "",
            "c1": "",
            "c2": "c1",
            "c3": "c1",
            "c4": "c1 c2 c3",
            "d": "a4 b c4",
        },
        4,
    ),
    "nested to the end": (
        nested_to_the_end,
        {"a1": "", "a2": "a1", "a3": "a1", "b1": "", "b2": "b1", "b3": "b1", "c": "a1 a2 a3 b1 b2 b3"},
        3,
    ),
    "semaphore of 1": (under_a_semaphore(1), ABREAST, 2),
    "semaphore of 2": (under_a_semaphore(2), ABREAST, 2),
    "semaphore of 3": (under_a_semaphore(3), ABREAST, 2),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("seconds", [1.0, 0.0])
def test_layers_and_who_waited_for_whom(pattern: str, way: str, seconds: float) -> None:
    """Also when every reply is there at once, as from a cache: what is recorded is the method's own order."""
    method, expected, layers = PATTERNS[pattern]
    answer = play(forking(method, way), seconds)
    assert waited(answer) == expected
    assert list(waited(answer)) == list(expected)
    assert answer.trace.layers == answer.usage.layers == layers
    assert answer.usage.seconds == pytest.approx(layers * seconds)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_no_timing_changes_the_trace(pattern: str, way: str) -> None:
    method, expected, layers = PATTERNS[pattern]
    draw = random.Random(pattern)
    for _ in range(40):
        answer = play(
            forking(method, way), {label: draw.choice([0.0, 0.0, draw.random(), 1.0, 10.0]) for label in expected}
        )
        assert waited(answer) == expected
        assert list(waited(answer)) == list(expected)
        assert answer.trace.layers == layers
        assert [step.id for step in answer.trace.steps] == list(range(len(answer.trace.steps)))


def test_a_task_left_running_is_waited_for_when_it_is_over() -> None:
    answer = play(one_left_running, {"a": 9.0, "b": 1.0, "c": 1.0, "d": 1.0, "e": 1.0})
    assert waited(answer) == {"a": "", "b": "", "c": "b", "d": "b", "e": "a b c d"}
    assert answer.trace.layers == 3
    assert answer.usage.seconds == pytest.approx(10.0)


@pytest.mark.parametrize("way", WAYS)
def test_a_task_that_is_over_does_not_wait_for_the_garbage_collector(way: str) -> None:
    tasks: list[weakref.ref[Any]] = []

    async def work(run: Run, label: str) -> None:
        tasks.append(weakref.ref(asyncio.current_task()))
        await ask(run, label)

    async def pattern(run: Run, fork: Fork) -> None:
        await fork(work(run, "a"), work(run, "b"))
        await ask(run, "c")
        assert [task() for task in tasks] == [None, None]

    gc.disable()
    try:
        assert len(play(forking(pattern, way)).trace.calls) == 3
    finally:
        gc.enable()


def test_sequential_tasks_are_no_fork() -> None:
    async def polling(run: Run) -> None:
        for label in "abc":
            running = asyncio.create_task(ask(run, label))
            while not running.done():  # noqa: ASYNC110  (the way of waiting that is tried)
                await asyncio.sleep(0)

    answer = play(polling, 0.0)
    assert waited(answer) == {"a": "", "b": "a", "c": "a b"}
    assert answer.trace.layers == 3


@pytest.mark.parametrize("way", WAYS)
def test_a_task_that_forks_first_opens_a_branch(way: str) -> None:
    answer = play(
        forking(nested_under_branches, way), {"a1": 5.0, "a2": 1.0, "a3": 1.0, "b1": 1.0, "b2": 2.0, "b3": 1.0}
    )
    steps = answer.trace.steps
    tree = [(step.parent, step.label if isinstance(step, Branch) else step.fields["question"]) for step in steps]  # type: ignore[attr-defined]
    assert tree == [(None, "a"), (0, "a1"), (0, "a2"), (0, "a3"), (None, "b"), (4, "b1"), (4, "b2"), (4, "b3")]
    assert [step.after for step in steps] == [(), (0,), (0,), (0, 1, 2), (), (4,), (4,), (4, 5, 6)]
    assert answer.trace.layers == 2
    assert answer.usage.seconds == pytest.approx(6.0)
    assert [step.id for step in answer.trace.children()] == [0, 4]
    assert [step.id for step in answer.trace.children(4)] == [5, 6, 7]


def test_a_task_of_a_gather_may_fork_before_any_step_of_its_own() -> None:
    async def method(run: Run) -> None:
        async def outer(name: str) -> None:
            await run.gather(ask(run, f"{name}1"), ask(run, f"{name}2"))
            await ask(run, f"{name}3")

        await run.gather(outer("a"), outer("b"))

    answer = play(method, {"a1": 5.0, "a2": 1.0, "a3": 1.0, "b1": 1.0, "b2": 2.0, "b3": 1.0})
    assert list(waited(answer).items()) == [
        ("a1", ""), ("a2", ""), ("a3", "a1 a2"), ("b1", ""), ("b2", ""), ("b3", "b1 b2")]  # fmt: skip


def test_a_gather_is_recorded_in_its_own_order() -> None:
    async def method(run: Run) -> None:
        async def late(label: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            await ask(run, label)

        await run.gather(late("a", 2.0), run.gather(late("b", 1.0), late("c", 0.0)))
        await run.gather()
        await ask(run, "d")

    assert list(waited(play(method)).items()) == [("a", ""), ("b", ""), ("c", ""), ("d", "a b c")]


def test_the_critical_path_is_the_slowest_chain() -> None:
    answer = play(forking(together), {"a": 1.0, "b": 2.0, "c": 7.0, "d": 3.0, "e": 1.0})
    assert answer.usage.seconds == pytest.approx(9.0)
    assert answer.usage.elapsed == pytest.approx(9.0)


def test_what_a_semaphore_costs_is_not_on_the_critical_path() -> None:
    answer = play(forking(under_a_semaphore(1)))
    assert answer.usage.elapsed == pytest.approx(5.0)
    assert answer.usage.seconds == pytest.approx(2.0)


def test_a_search_takes_time_but_is_no_layer() -> None:
    async def method(run: Run) -> None:
        async def search_and_ask(label: str) -> None:
            await run.search(label, 3)
            await ask(run, label)

        await run.gather(search_and_ask("a"), search_and_ask("b"))

    answer = play(method)
    assert [step.kind for step in answer.trace.steps] == ["search", "ask", "search", "ask"]
    assert answer.trace.layers == 1
    assert answer.usage.searches == 2
    assert answer.usage.seconds == pytest.approx(11.0)


def test_a_corrective_retry_is_a_layer_of_its_own() -> None:
    answer = play(lambda run: ask(run, "unreadable"))
    assert [(call.attempt, call.output) for call in answer.trace.calls] == [(1, None), (2, None)]
    assert answer.trace.layers == 2


async def test_a_scoring_is_a_call_and_a_layer() -> None:
    async def function(question: str, run: Run) -> Answer:
        await run.ask("answer.cot", question="a")
        scores = await run.score("answer.cot", ["x", "y"], question="b")
        return Answer(str([round(sum(score.logprobs), 1) for score in scores]))

    model = ScriptedLM({"answer.cot": {"answer": "a"}}, score=lambda request: -len(request.target) - 0.5)
    answer = await Engine(models=Models({"default": model})).answer(function, "hand-made", "Q", "qa", {})
    assert answer.text == "[-1.5, -1.5]"
    (scored,) = [step for step in answer.trace.steps if isinstance(step, Score)]
    assert (scored.targets, scored.logprobs, scored.after) == (("x", "y"), (-1.5, -1.5), (0,))
    assert (answer.usage.layers, answer.usage.calls) == (2, 2)


def test_the_check_of_its_support_is_not_the_call_that_gave_the_answer() -> None:
    trace = play(forking(in_turn)).trace
    last = trace.calls[-1]
    checked = replace(trace, steps=(*trace.steps, replace(last, task="support.check")))
    assert trace.answers_call is checked.answers_call is last


def test_steps_cut_short_are_looked_through() -> None:
    """``b`` never came back; what follows the gathering waited for what ``b`` had waited for."""

    async def method(run: Run) -> None:
        await ask(run, "a")
        await run.gather(ask(run, "b"), ask(run, "c"))

    answer = play(method, {"a": 1.0, "b": 9.0, "c": 1.0}, Budget(max_seconds=4.0))
    assert waited(answer) == {"a": "", "c": "a"}
    (note,) = [step for step in answer.trace.steps if isinstance(step, Note)]
    assert note.after == (0, 1)
    assert answer.trace.budget == answer.trace.to_dict()["budget"] == "max_seconds"


# --- the written form --------------------------------------------------------------------------------------------


def test_the_written_form_is_json_and_the_same_but_for_volatile() -> None:
    draw = random.Random(0)
    rows = []
    for _ in range(2):
        answer = play(forking(nested), {label: draw.random() for label in PATTERNS["nested"][1]})
        rows.append(json.loads(json.dumps(answer.to_dict())))
    first, second = rows
    assert first != second
    assert still(first) == still(second)


async def test_the_written_form_names_passages_by_id_and_writes_each_once() -> None:
    answer = await Scene(
        hits={"Q": "a", "on": "b a"}, reviews={"a": "search on", "a b": "accept X"}, missing={"a": "on"}
    ).play("tor")
    row = answer.trace.to_dict()
    assert json.loads(json.dumps(row)) == row
    assert (row["question"], row["method"], row["budget"]) == ("Q", "tor", None)
    assert row["passages"] == {name: passage(name).to_dict() for name in "ab"}
    search, branch, ask_, *_ = row["steps"]
    assert (search["kind"], search["passages"]) == ("search", ["a"])
    assert (branch["kind"], branch["label"], branch["verdict"]) == ("branch", "A", "search")
    assert (ask_["task"], ask_["fields"]["passages"], ask_["parent"]) == ("tor.review", ["a"], branch["id"])
    assert set(ask_["volatile"]) >= {"started", "seconds", "cached", "retries"}
    assert set(search["volatile"]) == {"started", "seconds", "own", "chain"}


async def test_a_cached_reply_differs_in_volatile_alone() -> None:
    async def function(question: str, run: Run) -> Answer:
        await ask(run, "a")
        return Answer("done")

    rows = []
    for completion in (Completion(text="It is a."), Completion(text="It is a.", cached=True, retries=2)):
        engine = Engine(models=Models({"default": ScriptedLM({"answer.cot": completion})}))
        answer = await engine.answer(function, "hand-made", "Q", "qa", {})
        rows.append(answer.to_dict())
    assert still(rows[0]) == still(rows[1])
    assert [row["usage"]["volatile"]["cache_hits"] for row in rows] == [0, 1]
    assert [row["usage"]["volatile"]["retries"] for row in rows] == [0, 2]


def test_usage_is_written_read_and_added() -> None:
    one, two = play(forking(together)).usage, play(forking(in_turn)).usage
    assert Usage.from_dict(json.loads(json.dumps(one.to_dict()))) == one
    both = add_usage([one, two])
    assert both.calls == one.calls + two.calls == 8
    assert both.calls_by_task == {"answer.cot": 8}
    assert both.layers == 6
    assert both.seconds == pytest.approx(6.0)
    assert both.tokens_estimated
    assert add_usage([Usage(), one]).tokens_estimated
    assert add_usage([]) == Usage()


def test_the_usage_of_nothing_is_all_zeros() -> None:
    assert not any(asdict(Usage()).values())


def test_usage_names_the_numbers_of_demonstrations_shown() -> None:
    usage = Usage(calls_by_shots={"tor.review 3": 2, "tor.fuse 2": 1, "tor.review 10": 1})
    assert usage.shots_by_task == {"tor.fuse": [2], "tor.review": [3, 10]}


def test_every_kind_of_step_has_a_name_of_its_own() -> None:
    kinds = [step.kind for step in (Ask, Score, Searched, Branch, Note)]
    assert kinds == ["ask", "score", "search", "branch", "note"]


def test_plain_values() -> None:
    span = Span("p", "x", 0, 1, 0.5)
    assert plain({"spans": (span,), "shown": {passage("a")}, 1: None}) == {
        "spans": [{"passage_id": "p", "text": "x", "start": 0, "end": 1, "confidence": 0.5}],
        "shown": ["a"],
        "1": None,
    }
