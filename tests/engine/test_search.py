"""Around the calls: searching, reading, what a method needs, citations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from polyhop.answer import Answer, cite
from polyhop.engine.engine import Engine
from polyhop.engine.models import Models
from polyhop.engine.run import Run
from polyhop.errors import CapabilityError, PolyhopError, UsageError
from polyhop.lm.base import Capabilities
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods import registry
from polyhop.pipeline import Pipeline
from polyhop.trace import Searched
from polyhop.types import Evidence, Passage, Span
from tests.kit.custom_method import using
from tests.kit.scene import Scene, names, passage

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


async def test_a_missing_retriever_or_reader_is_named() -> None:
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
        registry.method(f"needs-{need}", paper="-", layers=lambda settings: 1, needs=(need,))(function)
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
        Pipeline(method=needy + need, lm=model, retriever=lambda query, k: [], reader=None)
    assert model.calls == []


def test_a_method_that_searches_needs_a_corpus() -> None:
    with pytest.raises(UsageError, match="tor searches a corpus: give one"):
        Pipeline(method="tor", lm=ScriptedLM({}))


# --- citations ---------------------------------------------------------------------------------------------------


def test_citations_are_the_passages_of_the_answers_evidence() -> None:
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


def test_without_answering_evidence_all_evidence_is_cited() -> None:
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
