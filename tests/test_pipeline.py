"""The Pipeline as people use it: from ordinary code, from a running loop, as a stream, with doubt."""

from __future__ import annotations

import asyncio
import inspect
import math
import threading
from collections.abc import Mapping
from typing import Any

import pytest

import polyhop
from polyhop import Answer, Evidence, Passage, Pipeline, ScriptedLM
from polyhop.answer import confidence
from polyhop.engine.options import DEFAULTS, OPTIONS
from polyhop.errors import LMError, SettingError, UsageError
from polyhop.lm.base import Capabilities, Completion
from polyhop.methods.registry import Method, methods
from polyhop.readers.pocket import PocketPathScorer
from polyhop.trace import Branch, Step
from polyhop.types import Search
from tests.kit.question_data import question_for
from tests.kit.random_world import BOOK, World
from tests.kit.tries import tries
from tests.kit.virtual_clock import run_virtually
from tests.kit.worst_case import ABLE, Endless, never_content

CORPUS = [
    Passage("1", "Alien (film)", "Alien is a 1979 film directed by Ridley Scott."),
    Passage("2", "Ridley Scott", "Ridley Scott is an English director born in South Shields."),
]


def test_ask_works_from_ordinary_code() -> None:
    answer = polyhop.ask("Where was the director of Alien born?", corpus=CORPUS)
    assert answer.text == "South Shields"
    assert answer.supported
    assert {citation.passage_id for citation in answer.citations} == {"1", "2"}


async def test_ask_works_inside_a_running_loop() -> None:
    with Pipeline(CORPUS) as qa:
        assert qa.ask("Where was the director of Alien born?").text == "South Shields"
        assert (await qa.aask("Where was the director of Alien born?")).text == "South Shields"


@pytest.mark.parametrize("method", ["hops", "promptrank"])
def test_a_function_beside_a_corpus_takes_its_links(method: str) -> None:
    def search(query: str, k: int) -> list[Passage]:
        return CORPUS[:1]

    with Pipeline(CORPUS, method, retriever=search) as qa:
        answer = qa.ask("Where was the director of Alien born?")
    assert set(answer.passages) == set(CORPUS)


async def test_many_questions_at_once() -> None:
    async with Pipeline(CORPUS, "one-r") as qa:
        answers = await asyncio.gather(*(qa.aask("Where was Ridley Scott born?") for _ in range(20)))
    assert {answer.text for answer in answers} == {"South Shields"}


async def test_a_stream_tells_every_step_then_the_answer() -> None:
    async with Pipeline(CORPUS) as qa:
        items = [step async for step in qa.stream("Where was the director of Alien born?")]
    answer = items[-1]
    assert isinstance(answer, Answer)
    begun: set[int] = set()
    steps = [step for step in items if isinstance(step, Step)]
    assert len(steps) == len(items) - 1
    for step in steps:
        assert step.parent is None or step.parent in begun
        begun.add(step.id)
    ended = [step for step in steps if not (isinstance(step, Branch) and step.verdict is None)]
    assert [(type(step), step.id) for step in sorted(ended, key=lambda step: step.id)] == [
        (type(step), step.id) for step in answer.trace.steps
    ]


async def test_leaving_a_stream_ends_the_work() -> None:
    lm = ScriptedLM(lambda task, fields: {"relevant": True, "supported": False, "query": "more", "information": "more"})
    async with Pipeline(method="tor", lm=lm, retriever=lambda query, k: CORPUS[:k]) as qa:
        stream = qa.stream("Where?")
        async for _ in stream:
            break
        await stream.aclose()
        asked = len(lm.calls)
        await asyncio.sleep(0.01)
    assert len(lm.calls) == asked < 4


async def test_a_stream_raises_what_went_wrong() -> None:
    async with Pipeline(method="cot", lm=ScriptedLM({"answer.cot": LMError("no server")})) as qa:
        with pytest.raises(LMError, match="no server"):
            async for _ in qa.stream("Where?"):
                pass


# --- closing ------------------------------------------------------------------------------------------------------


def test_a_closed_pipeline_asks_and_searches_no_more() -> None:
    lm = ScriptedLM({"answer.cot": {"answer": "x"}})
    qa = Pipeline(CORPUS, "one-r", lm)  # never entered
    assert [passage.id for passage in qa.search("Ridley Scott", 1)] == ["2"]
    qa.close()
    threads = set(threading.enumerate())
    for use in (qa.ask, qa.search, lambda text: asyncio.run(qa.aask(text))):
        with pytest.raises(UsageError, match=r"the pipeline is closed: open another one"):
            use("Who directed Alien?")
    assert lm.calls == []
    assert threads >= set(threading.enumerate())
    qa.close()


async def test_closed_in_a_loop_it_is_closed_for_all() -> None:
    async with Pipeline(CORPUS) as qa:
        assert (await qa.aask("Where was Ridley Scott born?")).text == "South Shields"
    with pytest.raises(UsageError, match="the pipeline is closed"):
        await qa.aask("Where was Ridley Scott born?")
    with pytest.raises(UsageError, match="the pipeline is closed"):
        _ = [step async for step in qa.stream("Where was Ridley Scott born?")]
    with pytest.raises(UsageError, match="the pipeline is closed"):
        qa.search("Ridley Scott")
    await qa.aclose()
    qa.close()


# --- confidence -------------------------------------------------------------------------------------------------


def completed(text: str, *tokens: tuple[str, float]) -> Completion:
    return Completion(text=text, tokens=tuple(t for t, _ in tokens), logprobs=tuple(p for _, p in tokens))


def test_confidence_is_the_models_own_probability_of_the_answer() -> None:
    reply = completed("It is New York.", ("It is", -3.0), (" New", -0.2), (" York", -0.4), (".", -5.0))
    assert confidence(Answer("New York"), reply) == pytest.approx(math.exp(-0.3))
    assert confidence(Answer("Boston"), reply) == pytest.approx(math.exp(-8.6 / 4))


def test_without_probabilities_it_is_the_share_of_evidence() -> None:
    pieces = tuple(Evidence((), answer) for answer in ("The Rome", "rome", "Oslo", None))
    assert confidence(Answer("Rome", evidence=pieces), completed("Rome")) == pytest.approx(2 / 3)
    assert confidence(Answer("Rome"), completed("Rome")) is None
    assert confidence(Answer("", evidence=pieces), None) is None


async def test_final_calls_ask_for_probabilities_where_there_are_some() -> None:
    def reply(task: str, fields: Mapping[str, Any]) -> Completion:
        return completed("The answer is Oslo.", ("The answer is", 0.0), (" Oslo", math.log(0.5)), (".", 0.0))

    lm = ScriptedLM(reply, capabilities=Capabilities(token_logprobs=True))
    async with Pipeline(method="cot", lm=lm) as qa:
        answer = await qa.aask("Where?")
    assert lm.calls[0].logprobs
    assert answer.confidence == pytest.approx(0.5)


@pytest.mark.parametrize(("below", "text"), [(0.9, ""), (0.6, "Oslo"), (None, "Oslo")])
async def test_an_unsure_answer_is_withheld(below: float | None, text: str) -> None:
    value = Completion(text="", value={"answer": "Oslo"}, tokens=("Oslo",), logprobs=(math.log(0.7),))
    async with Pipeline(method="cot", lm=ScriptedLM({"answer.cot": value}), abstain_below=below) as qa:
        answer = await qa.aask("Where?")
    assert (answer.text, answer.abstained) == (text, text == "")
    assert answer.confidence == pytest.approx(0.7)
    assert answer.trace.calls[0].output == {"rationale": None, "answer": "Oslo"}


@pytest.mark.parametrize(("question", "why"), [(" \n", "the question is empty"), ("Who \ud83d?", "unpaired surrogate")])
def test_a_question_that_is_no_text_is_refused_before_any_call(question: str, why: str) -> None:
    lm = ScriptedLM(lambda task, fields: {"answer": "x"})
    with Pipeline(CORPUS, "one-r", lm) as qa, pytest.raises(UsageError, match=why):
        qa.ask(question)
    assert lm.calls == []


def test_bad_use_is_refused_before_any_call() -> None:
    with pytest.raises(SettingError, match="abstain_below"):
        Pipeline(method="cot", abstain_below=2)
    with pytest.raises(UsageError, match="corpus"):
        Pipeline(method="tor")
    with pytest.raises(UsageError, match="server only"):
        Pipeline(method="cot", lm="pocket", lm_options={"timeout": 3})
    with Pipeline(method="cot") as qa, pytest.raises(UsageError, match="empty"):
        qa.ask(" ")


# --- layers -----------------------------------------------------------------------------------------------------


async def seconds(method: str, lm: ScriptedLM, search: Search | Endless, **settings: Any) -> tuple[Answer, float]:
    async with Pipeline(method=method, lm=lm, retriever=search, prompts=BOOK, **settings) as qa:
        begun = asyncio.get_running_loop().time()
        asked = question_for(method, "Which?", [Passage("p", "P", "A passage.")])
        return await qa.aask(asked), asyncio.get_running_loop().time() - begun


CASES = [
    *[(name, {}) for name in methods()],
    ("tor", {"expansion": "direct"}),
    ("tor", {"mpc_merged": True}),
    ("tor", {"speculate": 1000}),
    ("tor", {"speculate": 1000, "expansion": "cot", "widths": (4, 2)}),
    ("cor", {"max_turns": 5}),
    ("ge", {"refine": False, "max_steps": 3}),
    ("ge", {"triplet_filter": False, "confidence": "agreement"}),
    ("ge", {"open_book": False, "samples": 1}),
    ("ge", {"guidance": False, "max_steps": 4}),
    ("ge", {"confidence": "verbal", "filter": False, "parallel": True}),
    ("resp", {"max_iterations": 1}),
    ("resp", {"max_iterations": 5}),
    ("resp", {"local_source": "memory"}),
    ("searchain", {"max_rounds": 3}),
    ("searchain", {"open_book": False}),
    ("promptrank", {"hops": 3, "first": 4, "instructions": ["Ask.", "before: Do ask."]}),
    ("promptrank", {"answer_by": "lm", "first": 4, "demos": 4}),
    ("promptrank", {"joint": False, "first": 4}),
    ("hops", {"scorer": "promptrank", "hops": 3, "first": 4}),
    ("self-ask", {"open_book": False}),
    ("self-ask", {"max_turns": 5}),
    ("auto-cot", {"shots": 0}),
    ("auto-cot", {"shots": 5}),
    ("least-to-most", {"max_questions": 2}),
    ("recite", {"samples": 2}),
    ("sure", {"candidates": 4}),
    ("sure", {"validity": False, "ranking": False}),
    ("recomp", {"compress": "extractive"}),
    ("replug", {"probability": "sampled", "samples": 2}),
    ("replug", {"probability": "scored"}),
    ("verify-edit", {"samples": 2, "edit_below": 2}),
    ("era-cot", {"implicit": False}),
    ("era-cot", {"discriminate": False}),
    ("react", {"max_turns": 6}),
    ("react-cot-sc", {"max_turns": 1}),
    ("agent", {}),
    ("agent", {"max_turns": 1}),
    ("toolformer", {"max_turns": 1}),
    ("plan-solve-ir", {"max_searches": 1}),
    ("tot-ir", {"steps": 2, "keep": 2, "values": 3}),
    ("iter-retgen", {"max_turns": 1}),
    ("ircot", {"max_sentences": 3}),
    ("ircot", {"max_turns": 1}),
    ("flare", {"max_turns": 1}),
    ("flare", {"max_sentences": 2}),
    ("flare", {"retrieve_below": 0.0}),
    ("dsp", {"max_turns": 3, "samples": 2}),
    ("knowtrace", {"max_turns": 2}),
    ("t2rag", {"max_turns": 2}),
    ("route", {"multi": "iter-retgen", "max_turns": 2}),
    ("route", {"by": "confidence"}),
    ("crag", {"upper": 4, "strip_sentences": 1}),
]


@pytest.mark.parametrize(("name", "settings"), CASES, ids=str)
def test_wall_time_is_the_declared_layers(name: str, settings: dict[str, Any]) -> None:
    """If a call takes a second and nothing else any time, the longest path takes as many seconds as it has layers."""
    method: Method = methods()[name]
    layers = method.layers(method.resolve(settings))
    lm = ScriptedLM(never_content, latency=1.0, score=lambda request: -1.0, capabilities=ABLE)
    answer, took = run_virtually(seconds(name, lm, Endless(), **settings))
    assert took == answer.usage.layers == layers


@pytest.mark.parametrize("name", list(methods()))
def test_no_way_is_longer_than_declared(name: str) -> None:
    method: Method = methods()[name]
    layers = method.layers(method.resolve({}))
    unlinked = {"links": 0} if "links" in method.settings else {}
    for seed in range(tries(30)):
        world = World.random(seed)
        world.speaks = "value"
        lm = ScriptedLM(world.script, latency=1.0, score=lambda request: -1.0, capabilities=ABLE)
        answer, took = run_virtually(seconds(name, lm, world.search, **unlinked))
        retries = sum(call.attempt == 2 or bool(call.fields.get("rejected")) for call in answer.trace.calls)
        assert took == answer.usage.layers <= layers + retries


def test_every_option_is_an_argument_of_a_pipeline() -> None:
    parameters = inspect.signature(Pipeline).parameters
    assert {name: parameters[name].default for name in DEFAULTS} == DEFAULTS
    assert {*parameters} == {"corpus", *DEFAULTS, "settings"}
    assert {option.argument for option in OPTIONS.values()} == {*DEFAULTS, "settings"} - {"path_scorer"}


def test_a_path_scorer_of_ones_own_is_used() -> None:
    scorer = PocketPathScorer()
    with Pipeline(CORPUS, "hops", path_scorer=scorer) as qa:
        assert qa.engine.path_scorer is scorer


def test_an_option_out_of_bounds_is_an_error_before_anything_is_opened() -> None:
    given: list[dict[str, Any]] = [
        {"max_tokens_per_call": 0},
        {"abstain_below": 1.5},
        {"seed": 2**60},
        {"rendering": "yaml"},
    ]
    for wrong in given:
        with pytest.raises(UsageError, match="must be"):
            Pipeline("no such file", **wrong)
