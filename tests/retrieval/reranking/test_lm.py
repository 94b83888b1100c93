"""The LM reranker call by call: windows, grades, replies of any kind, budgets, options; how its prompts are read."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.answer import Answer
from polyhop.common.aio import LoopThread
from polyhop.errors import SettingError, UnknownName, UsageError
from polyhop.lm.pocket.tasks import do
from polyhop.lm.scripted import ScriptedLM
from polyhop.pipeline import Pipeline
from polyhop.prompts.book import PromptBook
from polyhop.prompts.parsing import Malformed
from polyhop.prompts.prompt import Rendering
from polyhop.retrieval import open_reranker, rerankers
from polyhop.retrieval.reranking.lm import LmReranker, ordered, windows
from polyhop.trace import Ask, Searched
from polyhop.types import Passage
from tests.kit.random_world import World
from tests.kit.scene import names, passage
from tests.kit.terminal import Cli, cli

__all__ = ["cli"]  # a fixture
BOOK = PromptBook()
HITS = [passage(name) for name in "abcdefgh"]
Reply = Callable[[str, Mapping[str, Any]], Any]


def ordering(*, best: str = "hgfedcba", calls: list[str] | None = None) -> Reply:
    """Puts passages in the order of ``best``; notes what each call saw."""

    def reply(task: str, fields: Mapping[str, Any]) -> Any:
        if task == "rerank.order":
            seen = [hit.id for hit in fields["passages"]]
            if calls is not None:
                calls.append(f"{fields['question']}: {' '.join(seen)}")
            return " > ".join(f"[{seen.index(name) + 1}]" for name in best if name in seen)
        if task == "rerank.grade":
            if calls is not None:
                calls.append(fields["passage"].id)
            return {"grade": {"h": 4, "c": 4, "a": 1}.get(fields["passage"].id, 0)}
        return {"answer": "the end"}

    return reply


async def play(script: Any, reranker: LmReranker | str = "lm", hits: Sequence[Passage] = HITS, **given: Any) -> Answer:
    async with Pipeline(
        method="one-r", lm=ScriptedLM(script), retriever=lambda query, k: list(hits[:k]), rerank=reranker, **given
    ) as pipeline:
        return await pipeline.aask("Q")


def found(answer: Answer) -> str:
    return names(answer.passages)


# --- listwise -----------------------------------------------------------------------------------------------------


async def test_one_call_orders_what_fits_one_window() -> None:
    calls: list[str] = []
    answer = await play(ordering(calls=calls), k=3)
    assert calls == ["Q: a b c d e f g h"]
    assert found(answer) == "h g f e d c b a"
    outer, inner, asked, *_ = answer.trace.steps
    assert isinstance(outer, Searched)
    assert isinstance(inner, Searched)
    assert isinstance(asked, Ask)
    assert (inner.k, asked.parent, asked.task) == (100, outer.id, "rerank.order")
    assert answer.usage.calls == 2


async def test_windows_go_from_the_end_to_the_head() -> None:
    calls: list[str] = []
    answer = await play(ordering(calls=calls), LmReranker(window=4, step=2))
    assert calls == ["Q: e f g h", "Q: c d h g", "Q: a b h g"]
    assert found(answer) == "h g b a d c f e"


async def test_only_the_first_hits_are_looked_at_unless_more_are_asked_for() -> None:
    calls: list[str] = []
    assert found(await play(ordering(calls=calls), "lm?first=3", k=2, rank_limit=2)) == "c b"
    assert calls == ["Q: a b c"]
    assert found(await play(ordering(), "lm?first=3", k=5, rank_limit=5)) == "e d c b a"


async def test_passages_are_shown_cut() -> None:
    shown: list[str] = []

    def reply(task: str, fields: Mapping[str, Any]) -> Any:
        shown.extend(hit.text for hit in fields["passages"] if task == "rerank.order")
        return ordering()(task, fields)

    long = [passage("a", 200), passage("b", 200)]
    answer = await play(reply, LmReranker(passage_tokens=10), long)
    assert [len(text) for text in shown] == [40, 40]
    assert answer.passages == (long[1], long[0])  # and given on whole


@given(count=st.integers(0, 60), size=st.integers(2, 25), data=st.data())
def test_the_best_of_all_reach_the_head(count: int, size: int, data: st.DataObject) -> None:
    step = data.draw(st.integers(1, size))
    worth = random.Random(count * 31 + size).sample(range(count), count)
    ranked = list(range(count))
    all_windows = list(windows(count, size, step))
    for window in all_windows:
        ranked[window] = sorted(ranked[window], key=lambda item: -worth[item])
    kept = size - step
    assert ranked[:kept] == sorted(range(count), key=lambda item: -worth[item])[:kept]
    assert sorted(ranked) == list(range(count))
    assert len(all_windows) == 1 + max(0, -(-(count - size) // step))
    assert all_windows[-1].start == 0


def test_a_hundred_passages_take_nine_calls() -> None:
    assert [(window.start, window.stop) for window in windows(100, 20, 10)] == [
        (start, start + 20) for start in range(80, -1, -10)
    ]


# --- replies of any kind ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply", ["", "I would rather not say.", "[0] > [99]", {"order": [77]}, '{"order": "no"}', "…"]
)
async def test_what_makes_no_sense_leaves_the_order(reply: Any) -> None:
    answer = await play({"rerank.order": lambda fields: reply, "answer.read": {"answer": "the end"}})
    assert found(answer) == "a b c d e f g h"


@pytest.mark.parametrize(
    ("reply", "order"),
    [("[3]", "c a b d e f g h"), ("2 > 2 > 9 > 1", "b a c d e f g h"), ({"order": [8, 8, 2]}, "h b a c d e f g")],
)
async def test_what_is_left_out_comes_after_as_it_came(reply: Any, order: str) -> None:
    answer = await play({"rerank.order": lambda fields: reply, "answer.read": {"answer": "the end"}})
    assert found(answer) == order


@given(numbers=st.lists(st.integers(-5, 30)), count=st.integers(0, 20))
def test_any_numbers_make_a_permutation(numbers: list[int], count: int) -> None:
    passages = [Passage(str(at), "", "") for at in range(count)]
    ranked = ordered(passages, numbers)
    assert sorted(ranked, key=lambda one: int(one.id)) == passages
    listed = [number for number in dict.fromkeys(numbers) if 1 <= number <= count]
    assert [int(one.id) + 1 for one in ranked[: len(listed)]] == listed


def test_any_replies_end_in_a_permutation() -> None:
    loop = LoopThread()

    @settings(max_examples=60, deadline=None)
    @given(replies=st.lists(st.text(max_size=40) | st.sampled_from(["[2] > [1]", "3", "Grade: 2", "4/4"]), min_size=1))
    def check(replies: list[str]) -> None:
        for how in ("listwise", "pointwise"):
            given_out = iter(replies * 40)

            def reply(task: str, fields: Mapping[str, Any], given_out: Any = given_out) -> Any:
                return next(given_out) if task.startswith("rerank") else {"answer": "the end"}

            answer = loop.run(play(reply, LmReranker(how=how, window=4, step=2)))
            assert sorted(found(answer).split()) == [*"abcdefgh"]

    try:
        check()
    finally:
        loop.stop()


async def test_random_worlds_are_ranked_by_what_their_model_says() -> None:
    for seed in range(40):
        world = World.random(seed)
        hits = list(dict.fromkeys(world.search("Q", 20)))
        answer = await play(world.script, LmReranker(window=5, step=3), hits, shots=world.shots)
        expected = list(hits)
        for window in windows(len(hits), 5, 3) if len(hits) > 1 else ():
            reply = world.reply("rerank.order", {"question": "Q", "passages": expected[window]})
            expected[window] = ordered(expected[window], reply["order"] if reply else ())
        assert list(answer.passages) == expected[:15], seed  # as many as the method keeps


# --- pointwise ----------------------------------------------------------------------------------------------------


async def test_grades_rank_and_equal_ones_stay_as_they_came() -> None:
    calls: list[str] = []
    answer = await play(ordering(calls=calls), "lm?how=pointwise")
    assert sorted(calls) == [*"abcdefgh"]
    assert found(answer) == "c h a b d e f g"
    assert answer.usage.calls == 9


# --- budgets ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("most", "order"), [(1, "a b c d e f g h"), (2, "a b c d h g f e"), (3, "a b h g d c f e"), (4, "h g b a d c f e")]
)
async def test_a_spent_budget_leaves_the_rest_as_it_came(most: int, order: str) -> None:
    answer = await play(ordering(), LmReranker(window=4, step=2), max_calls=most)
    assert found(answer) == order
    assert answer.usage.calls == most
    assert answer.trace.budget == ("max_calls" if most < 4 else None)
    assert answer.text == "the end"


async def test_a_spent_budget_leaves_what_was_not_graded_last() -> None:
    answer = await play(ordering(), LmReranker(how="pointwise"), max_calls=4)
    assert found(answer) == "c a b d e f g h"  # a, b and c were graded
    assert (answer.usage.calls, answer.trace.budget) == (4, "max_calls")


# --- names and options --------------------------------------------------------------------------------------------


def test_it_is_opened_by_name_with_its_options() -> None:
    assert {"lm", "lm:"} <= set(rerankers())
    plain = open_reranker("lm")
    assert isinstance(plain, LmReranker)
    assert (plain.name, plain.how, plain.first, plain.window, plain.step) == ("lm", "listwise", 100, 20, 10)
    for spec in ("lm?first=20&window=5&step=2", "lm:?first=20&window=5&step=2"):
        reranker = open_reranker(spec)
        assert isinstance(reranker, LmReranker)
        assert (reranker.name, reranker.first, reranker.window, reranker.step) == (
            "lm?first=20&step=2&window=5",
            20,
            5,
            2,
        )


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("lm:gpt-4", SettingError, "the run's own model reranks"),
        ("lm?first=0", SettingError, "first=0: must be at least 1"),
        ("lm?first=all", SettingError, "first=all: must be at least 1"),
        ("lm?step=0", SettingError, "step=0: must be at least 1"),
        ("lm?window=5", SettingError, "window=5, step=10: a window holds"),
        ("lm?window=1&step=1", SettingError, "window=1, step=1"),
        ("lm?passage_tokens=x", SettingError, "passage_tokens=x: must be at least 1"),
        ("lm?how=setwise", SettingError, "how=setwise: must be listwise or pointwise"),
        ("lm?frist=2", UnknownName, "unknown option of the reranker lm 'frist'; did you mean 'first'"),
        ("lm?first", SettingError, "names no options"),
        ("ml?first=2", UnknownName, "unknown reranker 'ml"),
    ],
)
def test_what_it_cannot_be_says_why(spec: str, error: type[UsageError], message: str) -> None:
    with pytest.raises(error, match=message):
        open_reranker(spec)


def test_the_command_line_takes_it(cli: Cli) -> None:
    plain = json.loads(cli("search", "demo", "Who directed the film?", "-k", "5", "--json").out)
    found = json.loads(
        cli("search", "demo", "Who directed the film?", "-k", "2", "--rerank", "lm?first=5", "--json").out
    )
    assert len(found) == 2
    assert {row["id"] for row in found} <= {row["id"] for row in plain}
    refused = cli("search", "demo", "Who?", "--rerank", "lm?first=none")
    assert (refused.code, "first=none: must be at least 1" in refused.err) == (2, True)


# --- prompts ------------------------------------------------------------------------------------------------------


def read(task: str, text: str, rendering: Rendering = "text") -> dict[str, Any]:
    return BOOK[task].read(text, {"question": "Q", "passages": HITS, "passage": HITS[0]}, rendering).model_dump()


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("[2] > [1] > [3]", [2, 1, 3]),
        ("**[2] > [1]**", [2, 1]),
        ("2>1>3", [2, 1, 3]),
        ("Passage 2 > Passage 1 > Passage 3", [2, 1, 3]),
        ("Of the 8 passages [1] and [2] name him: [2] > [5] > [1]", [2, 5, 1]),
        ("[2], [1], [3]", [2, 1, 3]),
        ("[2] [1]", [2, 1]),
        ("The order is 3, 1, 2.", [3, 1, 2]),
        ("1. [3]\n2. [1]", [3, 1]),
        ("1. Passage 3: names him\n2. Passage 1", [3, 1]),
        ("1. 3\n2. 1", [3, 1]),
        ("4", [4]),
        ("[2] >\n[1] >\n[3]", [2, 1, 3]),
        ("[3] > [3] > [1]", [3, 1]),
        ('{"order": [2, "[1]", "Passage 3", true, null]}', [2, 1, 3]),
        ('Sure:\n```json\n{"order": [2, 1]}\n```', [2, 1]),
    ],
)
def test_an_order_is_read(text: str, order: list[int]) -> None:
    assert read("rerank.order", text) == {"order": order}


@pytest.mark.parametrize("text", ["", "None of them helps.", "In 1931 he made three.", '{"order": []}', "[a] > [b]"])
def test_an_order_of_nothing_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match="numbers"):
        read("rerank.order", text)


@pytest.mark.parametrize(
    ("text", "grade"),
    [
        ("Grade: 3", 3),
        ("**Grade:** 0 (nothing to do with it)", 0),
        ("4", 4),
        ("Score: 2/4", 2),
        ("It holds the answer.\nGrade: 4", 4),
        ('{"grade": 1}', 1),
        ('{"grade": "3 of 4"}', 3),
    ],
)
def test_a_grade_is_read(text: str, grade: int) -> None:
    assert read("rerank.grade", text) == {"grade": grade}


@pytest.mark.parametrize(
    "text", ["", "Very helpful.", "Grade: 5", "Grade: 2.5", "Grade: -1", '{"grade": true}', "1931"]
)
def test_a_grade_of_another_scale_is_refused(text: str) -> None:
    with pytest.raises(Malformed):
        read("rerank.grade", text)


@given(order=st.lists(st.integers(1, 999), min_size=1, max_size=30, unique=True), grade=st.integers(0, 4))
def test_what_is_written_is_read_back(order: list[int], grade: int) -> None:
    for task, value in (("rerank.order", {"order": order}), ("rerank.grade", {"grade": grade})):
        prompt = BOOK[task]
        output = prompt.check(value)
        assert prompt.read(prompt.task.write_text(output, {}), {}) == output
        assert prompt.read(output.model_dump_json(), {}, "json") == output


def test_pocket_puts_the_passages_that_help_first() -> None:
    three = [
        Passage("x", "Bright Weir", "Bright Weir is a river in Ohio."),
        Passage("y", "Rolf Anders", "Rolf Anders (4 May 1899) was a German film director born in Bremen."),
        Passage("z", "Dark Mill", "Dark Mill is a 1931 German film directed by Rolf Anders."),
    ]
    question = "Where was the director of Dark Mill born?"
    assert do("rerank.order", {"question": question, "passages": three})["order"][-1] == 1
    assert sorted(do("rerank.order", {"question": question, "passages": three})["order"]) == [1, 2, 3]
    grades = [do("rerank.grade", {"question": question, "passage": one})["grade"] for one in three]
    assert grades[0] < max(grades) <= 4
    assert do("rerank.order", {"question": "Who?", "passages": []}) == {"order": []}
