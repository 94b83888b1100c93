"""The run a method is handed: asking, retrying, budgets, models by role, searching, citing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pytest

from polyhop.engine import Budget, Engine, Models, Run, cite
from polyhop.errors import BudgetSpent, CapabilityError, LMError, PolyhopError, SettingError, UsageError
from polyhop.lm.base import Capabilities, Completion, Request, TokenUsage
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods import registry
from polyhop.pipeline import Pipeline
from polyhop.trace import Ask, Note, Searched
from polyhop.types import Answer, Evidence, Passage, Span
from tests.kit.clock import run_virtually
from tests.kit.scene import Scene, names, passage
from tests.kit.world import World

Method: TypeAlias = Callable[[Run], Awaitable[Any]]
RIGHT = "It is known. The answer is Paris."


async def using(method: Method, model: Any, **engine: Any) -> tuple[Any, Answer]:
    """What ``method`` returned when it was handed a run, and the engine's answer around it."""
    found: list[Any] = []

    async def function(question: str, run: Run) -> Answer:
        found.append(await method(run))
        return Answer("")

    models = Models(model if isinstance(model, Mapping) else {"default": model})
    answer = await Engine(models=models, **engine).answer(function, "by hand", "Q", "qa", {})
    return found[0], answer


def one_ask(task: str = "answer.cot", **fields: Any) -> Method:
    return lambda run: run.ask(task, **(fields or {"question": "Q"}))


# --- replies that cannot be read ---------------------------------------------------------------------------------


async def test_a_reply_that_can_be_read_is_asked_for_once() -> None:
    model = ScriptedLM({"answer.cot": RIGHT})
    output, answer = await using(one_ask(), model)
    assert (output.answer, output.rationale, output.completion.text) == ("Paris", "It is known.", RIGHT)
    assert (answer.usage.asked, answer.usage.parsed_first_try, answer.usage.calls) == (1, 1, 1)
    assert answer.usage.malformed_by_task == answer.usage.defaulted_by_task == {}


async def test_an_unreadable_reply_is_asked_for_once_more_with_the_complaint() -> None:
    model = ScriptedLM({"tor.review": ["Dunno.", "[RELEVANT] [UNSUPPORTED] [QUERY] who?"]})
    output, answer = await using(one_ask("tor.review", question="Q", passages=[passage("a")], thoughts=False), model)
    assert (output.relevant, output.query) == (True, "who?")
    first, second = model.calls
    *opening, said, complaint = second.messages
    assert opening == list(first.messages)
    assert said == {"role": "assistant", "content": "Dunno."}
    assert complaint["role"] == "user"
    assert "Step 1 needs its judgment: [RELEVANT] or [IRRELEVANT]" in complaint["content"]
    assert [(call.attempt, call.problem is None) for call in answer.trace.calls] == [(1, False), (2, True)]
    assert [call.sample for call in model.calls] == [0, 0]  # the corrected ask is another ask, not a re-draw
    usage = answer.usage
    assert (usage.asked, usage.parsed_first_try, usage.calls) == (1, 0, 2)
    assert (usage.malformed_by_task, usage.defaulted_by_task) == ({"tor.review": 1}, {})


async def test_two_unreadable_replies_fall_to_the_safe_default() -> None:
    model = ScriptedLM({"tor.review": ["Dunno.", ""], "answer.cot": RIGHT})

    async def method(run: Run) -> Any:
        await run.ask("answer.cot", question="Q")
        return await run.ask("tor.review", question="Q", passages=[], thoughts=True)

    output, answer = await using(method, model)
    assert (output.relevant, output.supported, output.completion.text) == (False, False, "")
    usage = answer.usage
    assert (usage.asked, usage.parsed_first_try, usage.calls) == (2, 1, 3)
    assert (usage.malformed_by_task, usage.defaulted_by_task) == ({"tor.review": 2}, {"tor.review": 1})
    assert [call.problem for call in answer.trace.calls][2] == "the reply is empty"


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({}, "answer: Field required"),
        ({"answer": ["Paris"]}, "answer: Input should be a valid string"),
        ({"answer": None}, "answer"),
    ],
)
async def test_a_value_reply_is_checked_against_the_tasks_shape(value: Mapping[str, Any], fault: str) -> None:
    model = ScriptedLM({"answer.cot": [value, {"answer": "Paris", "confidence": 1}]})
    output, answer = await using(one_ask(), model)
    assert output.model_dump() == {"rationale": None, "answer": "Paris"}  # what is not in the shape is left out
    assert fault in (answer.trace.calls[0].problem or "")
    assert fault in model.calls[1].messages[-1]["content"]


async def test_a_value_is_taken_as_it_is_and_its_text_not_parsed() -> None:
    completion = Completion(text="The answer is Rome.", value={"answer": "Paris"}, tokens=("Paris",), logprobs=(-0.5,))
    output, _ = await using(one_ask(), ScriptedLM({"answer.cot": completion}))
    assert output.answer == "Paris"
    assert output.completion.logprobs == (-0.5,)


# --- what is asked -----------------------------------------------------------------------------------------------


async def test_the_head_of_the_prompt_file_sets_the_call_and_options_override_it() -> None:
    model = ScriptedLM({"answer.cot": RIGHT})

    async def method(run: Run) -> None:
        await run.ask("answer.cot", question="Q")
        await run.ask(
            "answer.cot", options={"temperature": 0.7, "max_tokens": 9, "stop": ("\n",), "shots": 0}, question="Q"
        )

    await using(method, model)
    plain, other = model.calls
    assert (plain.temperature, plain.max_tokens, plain.stop, len(plain.messages)) == (0.0, 256, (), 8)
    assert (other.temperature, other.max_tokens, other.stop, len(other.messages)) == (0.7, 9, ("\n",), 2)


async def test_log_probabilities_and_the_seed_are_asked_of_models_that_have_them() -> None:
    able = ScriptedLM({"answer.cot": RIGHT}, capabilities=Capabilities(token_logprobs=True, seed=True))
    unable = ScriptedLM({"answer.cot": RIGHT}, capabilities=Capabilities())
    for model in (able, unable):
        await using(lambda run: run.ask("answer.cot", options={"logprobs": True}, question="Q"), model, seed=7)
        await using(one_ask(), model, seed=7)
    assert [(call.logprobs, call.seed) for call in able.calls] == [(True, 7), (False, 7)]
    assert [(call.logprobs, call.seed) for call in unable.calls] == [(False, None), (False, None)]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"question": "Q"}, "passages, thoughts are missing or unknown"),
        (
            {"question": "Q", "passage": [], "thoughts": True},
            r"passage, passages are missing or unknown \(passages\?\)",
        ),
        ({"question": "Q", "passages": [], "thoughts": True, "extra": 1}, "extra is missing or unknown"),
    ],
)
async def test_a_missing_or_unknown_field_is_named(fields: dict[str, Any], said: str) -> None:
    model = ScriptedLM({})
    with pytest.raises(UsageError, match=said):
        await using(lambda run: run.ask("tor.review", **fields), model)
    assert model.calls == []


async def test_an_unknown_task_is_named_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"did you mean 'tor\.review'"):
        await using(one_ask("tor.reviews"), ScriptedLM({}))


async def test_repeated_identical_asks_are_numbered() -> None:
    """A re-draw is a new request; another question, another option or another task starts at 0."""
    model = ScriptedLM({"answer.cot": RIGHT, "answer.direct": "Paris"})

    async def method(run: Run) -> None:
        for _ in range(3):
            await run.ask("answer.cot", question="Q")
        await run.ask("answer.cot", question="R")
        await run.ask("answer.cot", options={"temperature": 0.7}, question="Q")
        await run.ask("answer.direct", question="Q")
        await run.ask("answer.cot", question="Q")

    await using(method, model)
    assert [call.sample for call in model.calls] == [0, 1, 2, 0, 0, 0, 3]
    await using(one_ask(), model)
    assert model.calls[-1].sample == 0  # numbered within one question


async def test_another_task_with_the_same_fields_is_another_ask() -> None:
    model = ScriptedLM(lambda task, fields: {"relevant": False, "supported": False})

    async def method(run: Run) -> None:
        for task in ("tor.review", "cor.review", "tor.review"):
            await run.ask(task, question="Q", passages=[passage("a")], thoughts=True)

    await using(method, model)
    assert [call.sample for call in model.calls] == [0, 0, 1]


async def test_samples_asked_together_are_numbered_in_their_order() -> None:
    model = ScriptedLM({"answer.cot": RIGHT})
    await using(lambda run: asyncio.gather(*(run.ask("answer.cot", question="Q") for _ in range(4))), model)
    assert [call.sample for call in model.calls] == [0, 1, 2, 3]


async def test_the_most_specific_model_wins() -> None:
    models = {
        name: ScriptedLM(lambda task, fields: RIGHT, name=name) for name in ("default", "generator", "answer.cot")
    }

    async def method(run: Run) -> None:
        await run.ask("answer.cot", question="Q")  # its own
        await run.ask("answer.direct", question="Q")  # its role's
        await run.ask("tor.review", question="Q", passages=[], thoughts=False)  # the default
        await run.ask("answer.direct", options={"role": "reviewer"}, question="Q")

    _, answer = await using(method, models)
    assert [call.model for call in answer.trace.calls] == ["answer.cot", "generator", "default", "default", "default"]


async def test_without_a_model_for_a_task_the_error_says_what_to_give() -> None:
    with pytest.raises(UsageError, match=r"no language model for the task answer.cot \(role generator\)"):
        await using(one_ask(), {"reviewer": ScriptedLM({})})


# --- the json rendering ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("constrains", [True, False])
async def test_the_json_rendering_sends_a_strict_schema_where_the_model_takes_one(constrains: bool) -> None:
    reply = '{"relevant": true, "supported": false, "thought": null, "answer": null, "query": "who?"}'
    model = ScriptedLM({"tor.review": reply}, capabilities=Capabilities(json_schema=constrains))
    ask = one_ask("tor.review", question="Q", passages=[passage("a")], thoughts=True)
    output, _ = await using(ask, model, rendering="json")
    assert output.query == "who?"
    (call,) = model.calls
    assert '"relevant": true or false' in call.messages[0]["content"]
    if not constrains:
        assert call.schema is None
        return
    assert call.schema is not None
    assert call.schema["additionalProperties"] is False
    shape = call.schema["properties"]
    assert set(call.schema["required"]) == set(shape) == {"relevant", "supported", "thought", "answer", "query"}
    assert shape["query"]["anyOf"] == [{"type": "string"}, {"type": "null"}]
    assert all("default" not in item for item in shape.values())


async def test_in_the_json_rendering_the_complaint_asks_for_json() -> None:
    model = ScriptedLM({"tor.review": "Dunno."})
    await using(one_ask("tor.review", question="Q", passages=[], thoughts=True), model, rendering="json")
    assert "the reply must be one JSON object" in model.calls[1].messages[-1]["content"]


async def test_the_text_rendering_sends_no_schema() -> None:
    model = ScriptedLM({"answer.cot": RIGHT}, capabilities=Capabilities(json_schema=True))
    await using(one_ask(), model)
    assert model.calls[0].schema is None


# --- lengths -----------------------------------------------------------------------------------------------------


class Worded(ScriptedLM):
    """A model that counts words as tokens."""

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def truncate(self, text: str, tokens: int) -> str:
        return " ".join(text.split()[:tokens])


async def lengths(run: Run) -> tuple[int, str, str, int]:
    prompt = run.prompt_tokens("answer.cot", options={"shots": 0}, question="Q")
    await run.ask("answer.cot", options={"shots": 0}, question="Q")
    return run.count_tokens("one two three"), run.truncate("one two three", 2), run.truncate("one", 0), prompt


async def test_lengths_without_a_tokenizer_are_four_characters_a_token() -> None:
    class Bare:
        """Nothing but what the protocol asks for."""

        name = "bare"
        capabilities = Capabilities()

        async def complete(self, request: Request) -> Completion:
            return Completion(text=RIGHT)

    (count, cut, nothing, prompt), answer = await using(lengths, Bare())
    assert (count, cut, nothing) == (4, "one two ", "")
    assert answer.usage.tokens_estimated
    assert answer.usage.prompt_tokens == prompt
    assert answer.usage.completion_tokens == -(-len(RIGHT) // 4)
    assert answer.usage.completion_words == len(RIGHT.split())


async def test_lengths_are_the_models_own_where_it_has_a_tokenizer() -> None:
    usage = TokenUsage(prompt_tokens=11, completion_tokens=3)
    model = Worded({"answer.cot": Completion(text=RIGHT, usage=usage)})
    (count, cut, nothing, prompt), answer = await using(lengths, model)
    assert (count, cut, nothing) == (3, "one two", "")
    assert prompt == answer.usage.prompt_words
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (11, 3)
    assert not answer.usage.tokens_estimated


async def test_lengths_are_told_by_some_model_when_every_role_has_its_own() -> None:
    (count, *_), _ = await using(lengths, {"generator": Worded({"answer.cot": RIGHT})})
    assert count == 3


async def test_lengths_are_told_by_the_default_model_where_there_is_one() -> None:
    models = {"generator": Worded({"answer.cot": RIGHT}), "default": ScriptedLM({})}
    (count, *_), _ = await using(lengths, models)
    assert count == 4


@pytest.mark.parametrize("estimated", [True, False])
async def test_a_usage_says_itself_whether_it_is_estimated(estimated: bool) -> None:
    usage = TokenUsage(prompt_tokens=1, completion_tokens=1, estimated=estimated)
    model = (Worded if estimated else ScriptedLM)({"answer.cot": Completion(text=RIGHT, usage=usage)})
    _, answer = await using(one_ask(), model)
    assert answer.usage.tokens_estimated is estimated


async def test_one_estimate_among_the_calls_marks_the_run() -> None:
    exact = TokenUsage(prompt_tokens=1, completion_tokens=1)
    model = ScriptedLM({"answer.cot": [Completion(text=RIGHT, usage=exact), RIGHT]})
    _, answer = await using(lambda run: asyncio.gather(*(run.ask("answer.cot", question=q) for q in "QR")), model)
    assert answer.usage.tokens_estimated


async def test_a_prompt_is_measured_whole() -> None:
    """Instruction, demonstrations and input, as they are sent."""

    async def method(run: Run) -> tuple[int, int]:
        sizes = [run.prompt_tokens("answer.cot", options={"shots": n}, question="Q") for n in (0, 3)]
        await run.ask("answer.cot", question="Q")
        return sizes[0], sizes[1]

    (bare, shown), answer = await using(method, Worded({"answer.cot": RIGHT}))
    assert bare < shown == answer.usage.prompt_words


# --- searching and reading ---------------------------------------------------------------------------------------


async def test_a_search_gives_at_most_k_distinct_passages() -> None:
    hits = [passage(name) for name in "aabcbd"]
    found, answer = await using(lambda run: run.search("q", 3), ScriptedLM({}), retriever=lambda query, k: hits)
    assert names(found) == "a b c"
    (step,) = answer.trace.steps
    assert isinstance(step, Searched)
    assert (step.query, step.k, names(step.passages)) == ("q", 3, "a b c")


async def test_a_retriever_may_be_async_and_give_any_sequence() -> None:
    async def retrieve(query: str, k: int) -> tuple[Passage, ...]:
        return (passage("a"),)

    found, _ = await using(lambda run: run.search("q", 3), ScriptedLM({}), retriever=retrieve)
    assert names(found) == "a"


@pytest.mark.parametrize(
    ("garbage", "said"),
    [
        (None, "not a NoneType"),
        ("a passage", "not a str"),
        (7, "not a int"),
        (["text"], "not a list with a str"),
        ([{"id": "a"}], "not a list with a dict"),
        ([passage("a"), passage("b"), None], "not a list with a NoneType"),
    ],
)
async def test_a_retriever_that_returns_garbage_is_named(garbage: Any, said: str) -> None:
    with pytest.raises(UsageError, match=f"the retriever must return polyhop.Passage objects, {said}"):
        await using(lambda run: run.search("q", 2), ScriptedLM({}), retriever=lambda query, k: garbage)


async def test_a_retrievers_own_error_reaches_the_caller() -> None:
    def broken(query: str, k: int) -> list[Passage]:
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        await using(lambda run: run.search("q", 2), ScriptedLM({}), retriever=broken)


async def test_searching_or_reading_without_the_means_says_what_to_give() -> None:
    with pytest.raises(UsageError, match="give corpus= or retriever="):
        await using(lambda run: run.search("q", 2), ScriptedLM({}))
    with pytest.raises(UsageError, match="give reader="):
        await using(lambda run: run.read("q", []), ScriptedLM({}))


async def test_reading_is_recorded() -> None:
    span = Span("a", "a0", 0, 2, 0.9)

    async def read(question: str, passages: Sequence[Passage]) -> list[Span]:
        return [span]

    spans, answer = await using(lambda run: run.read("q", [passage("a")]), ScriptedLM({}), reader=read)
    assert spans == [span]
    assert [step.kind for step in answer.trace.steps] == ["read"]


async def test_links_are_none_without_a_retriever_that_knows_them() -> None:
    async def method(run: Run) -> list[Passage]:
        return run.links(passage("a"))

    found, _ = await using(method, ScriptedLM({}), retriever=lambda query, k: [])
    assert found == []


# --- errors ------------------------------------------------------------------------------------------------------

UNREACHABLE = LMError("the server does not answer")


@pytest.mark.parametrize("method", ["tor", "cor", "direct", "cot", "one-r"])
async def test_an_error_of_the_model_reaches_the_caller(method: str) -> None:
    async with Pipeline(
        method=method, lm=ScriptedLM(lambda task, fields: UNREACHABLE), retriever=lambda query, k: [passage("a")]
    ) as pipeline:
        with pytest.raises(LMError, match="does not answer"):
            await pipeline.aask("Q")


async def fork(*work: Awaitable[Any]) -> None:
    """Wait for all of it in one task group inside another."""

    async def waiting(one: Awaitable[Any]) -> None:
        await one

    async def inner() -> None:
        async with asyncio.TaskGroup() as group:
            for one in work:
                group.create_task(waiting(one))

    async with asyncio.TaskGroup() as group:
        group.create_task(inner())


async def test_an_error_inside_a_task_group_reaches_the_caller_as_itself() -> None:
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
    assert [(step.name, dict(step.data)) for step in answer.trace.steps if isinstance(step, Note)] == [
        ("budget spent", {"limit": "max_tokens"})
    ]


# --- budgets -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["max_calls", "max_tokens", "max_seconds"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_budget_of_nothing_is_refused(name: str, value: int) -> None:
    with pytest.raises(SettingError, match=f"{name}={value}: must be above 0"):
        Budget(**{name: value})


@pytest.mark.parametrize("method", ["tor", "cor", "one-r", "cot"])
async def test_max_calls_is_never_passed_and_one_is_kept_for_the_answer(method: str) -> None:
    """On random worlds: n - 1 gathering calls and 1 final one where the method wanted more; else the run untouched."""
    spent = 0
    for seed in range(120):
        free, unbound = await World.random(seed).run(method)
        wanted = sum(not call.final for call in free.trace.calls)
        for most in {1, 2, 3, 1 + seed % 12, max(1, len(unbound.calls))}:
            answer, model = await World.random(seed).run(method, max_calls=most)
            gathered = [call for call in answer.trace.calls if not call.final]
            assert len(model.calls) == answer.usage.calls <= most, f"world {seed}, {most} calls"
            assert len(gathered) == min(wanted, most - 1)
            assert sum(call.final and call.attempt == 1 for call in answer.trace.calls) == 1
            assert answer.trace.calls[-1].final
            missed = [call for call in free.trace.calls if not call.final][most - 1 :]
            if not missed or missed[0].attempt == 1:  # a retry without room is passed over, and the method goes on
                assert answer.trace.budget == ("max_calls" if missed else None)
            before = len(gathered)
            assert [call.fields for call in model.calls[:before]] == [call.fields for call in unbound.calls[:before]]
            spent += bool(missed)
    assert spent >= (100 if method in ("tor", "cor") else 0)


async def test_calls_made_together_keep_to_the_budget() -> None:
    async def method(run: Run) -> None:
        with run.gathering():
            async with asyncio.TaskGroup() as group:
                for number in range(9):
                    group.create_task(run.ask("answer.cot", question=str(number)))
        await run.ask("answer.cot", final=True, question="last")

    model = ScriptedLM({"answer.cot": RIGHT})
    _, answer = await using(method, model, budget=Budget(max_calls=4))
    assert len(model.calls) <= 4
    assert model.calls[-1].fields == {"question": "last"}
    assert answer.trace.budget == "max_calls"


async def test_a_retry_needs_room_too() -> None:
    """The second call of two is kept for the answer, so the unreadable first one falls to its default at once."""

    async def method(run: Run) -> Any:
        with run.gathering():
            review = await run.ask("tor.review", question="Q", passages=[], thoughts=False)
        await run.ask("answer.cot", final=True, question="Q")
        return review

    model = ScriptedLM({"tor.review": "Dunno.", "answer.cot": ""})
    review, answer = await using(method, model, budget=Budget(max_calls=2))
    assert not review.relevant
    assert [call.task for call in model.calls] == ["tor.review", "answer.cot"]
    assert answer.usage.defaulted_by_task == {"tor.review": 1, "answer.cot": 1}
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
    assert (answer.supported, names(answer.passages)) == (True, "a")


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


# --- capabilities ------------------------------------------------------------------------------------------------


async def test_scoring_needs_a_model_that_can() -> None:
    model = ScriptedLM({}, name="a server", capabilities=Capabilities())
    with pytest.raises(CapabilityError, match=r"a server cannot score a given text, which answer.cot needs"):
        await using(lambda run: run.score("answer.cot", ["x"], question="Q"), model)


@pytest.fixture
def needy() -> Iterator[str]:
    """A registered method that needs log-probabilities, a reader and links."""

    async def function(question: str, run: Run) -> Answer:
        raise AssertionError("it must not be begun")

    for need in ("token_logprobs", "score", "reader", "links"):
        registry.method(f"needs-{need}", paper="-", layers="1", needs=(need,))(function)
    yield "needs-"
    for need in ("token_logprobs", "score", "reader", "links"):
        del registry._registered[f"needs-{need}"]


@pytest.mark.parametrize(
    ("need", "error", "said"),
    [
        ("token_logprobs", CapabilityError, "needs-token_logprobs needs token_logprobs, which my model does not have"),
        ("score", CapabilityError, "needs-score needs score, which my model does not have"),
        ("reader", UsageError, "needs-reader reads passages: give reader="),
        ("links", UsageError, "needs-links follows links"),
    ],
)
def test_what_a_method_needs_is_checked_before_the_first_call(
    needy: str, need: str, error: type[PolyhopError], said: str
) -> None:
    model = ScriptedLM({}, name="my model", capabilities=Capabilities())
    with pytest.raises(error, match=said):
        Pipeline(method=needy + need, lm=model, retriever=lambda query, k: [])
    assert model.calls == []


def test_a_method_that_searches_needs_a_corpus() -> None:
    with pytest.raises(UsageError, match="tor searches: give it a corpus"):
        Pipeline(method="tor", lm=ScriptedLM({}))


# --- citations ---------------------------------------------------------------------------------------------------


def test_citations_are_the_passages_of_the_evidence_that_came_to_the_answer() -> None:
    pieces = (
        Evidence((passage("a"), passage("b")), "the B1!"),
        Evidence((passage("c"),), "other"),
        Evidence((passage("b"), passage("d")), "b1"),
    )
    citations = cite(Answer("B1", evidence=pieces))
    assert [(c.marker, c.passage_id, c.start, c.end) for c in citations] == [
        (1, "a", None, None),
        (2, "b", 3, 5),  # where the answer stands in its text
        (3, "d", None, None),
    ]


def test_citations_are_all_evidence_where_none_came_to_the_answer() -> None:
    pieces = (Evidence((passage("a"),), "x"), Evidence((passage("b"), passage("a")), None))
    assert [(c.marker, c.passage_id) for c in cite(Answer("y", evidence=pieces))] == [(1, "a"), (2, "b")]
    assert cite(Answer("y")) == ()


async def test_the_engine_cites_and_a_methods_own_citations_stand() -> None:
    scene = Scene(hits={"Q": "a b"}, reviews={"a": "accept the end", "b": "accept another"})
    answer = await scene.play("tor")
    assert [citation.passage_id for citation in answer.citations] == ["a"]

    async def function(question: str, run: Run) -> Answer:
        return Answer("x", evidence=answer.evidence, citations=answer.citations[:1])

    engine = Engine(models=Models({}))
    assert (await engine.answer(function, "own", "Q", "qa", {})).citations == answer.citations[:1]


async def test_a_run_knows_the_kind_of_question() -> None:
    async def method(run: Run) -> str:
        return run.kind

    assert (await using(method, ScriptedLM({})))[0] == "qa"


async def test_every_call_is_recorded_with_what_it_was_given_and_gave() -> None:
    completion = Completion(text=RIGHT, reasoning="hm", finish_reason="length")
    _, answer = await using(one_ask(), ScriptedLM({"answer.cot": completion}, name="mine"))
    (call,) = answer.trace.calls
    assert isinstance(call, Ask)
    assert (call.task, call.model, call.fields) == ("answer.cot", "mine", {"question": "Q"})
    assert call.output == {"rationale": "It is known.", "answer": "Paris"}
    assert (call.text, call.reasoning, call.finish_reason, call.attempt) == (RIGHT, "hm", "length", 1)
