"""Retrievers, rerankers and readers that ask a model: what they do is traced, within the budget, counted and cached."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from polyhop import Passage, ScriptedLM
from polyhop.answer import Answer
from polyhop.data.corpora import open_corpus
from polyhop.engine.budget import Budget
from polyhop.engine.engine import Engine
from polyhop.engine.models import Models
from polyhop.engine.run import Run
from polyhop.errors import CapabilityError, UnknownName, UsageError
from polyhop.evaluation.runner import evaluate
from polyhop.lm.base import Capabilities
from polyhop.methods import registry
from polyhop.pipeline import Pipeline
from polyhop.retrieval import (
    _rerankers,
    _retrievers,
    build_index,
    open_plain_retriever,
    open_reranker,
    register_reranker,
    register_retriever,
    rerankers,
)
from polyhop.retrieval.base import Reranked, Reranker
from polyhop.trace import Ask, Note, Score, Searched, Step
from polyhop.types import Question, Search, Span
from tests.engine.test_speculation import varied, view
from tests.kit.custom_method import using
from tests.kit.random_world import World
from tests.kit.scene import Scene, names, passage
from tests.kit.tries import tries
from tests.kit.virtual_clock import run_virtually

HITS = [passage(name) for name in "abcdef"]
CORPUS = [Passage(name, f"Kiln {name}", f"A kiln named {name} is hot.") for name in "abc"]


def found(query: str, k: int) -> list[Passage]:
    return HITS[:k]


class Likeliest:
    """A reranker by how likely the query is after each passage; its calls go one by one."""

    name, first, needs = "likeliest", 4, frozenset({"score:answer.read"})

    async def rerank_by(self, run: Run, query: str, passages: Sequence[Passage], k: int) -> list[Passage]:
        worth = {}
        for hit in passages:
            (scores,) = await run.score("answer.read", [query], question="", passages=[hit])
            worth[hit] = sum(scores.logprobs)
        return sorted(passages, key=lambda hit: -worth[hit])[:k]


class Asked:
    """A retriever that searches for the query, then for what the model answers to it."""

    name, needs = "asked", frozenset[str]()

    def __init__(self, start: Search = found) -> None:
        self.start = start

    async def search_by(self, run: Run, query: str, k: int) -> list[Passage]:
        first = await run.search(query, 1)
        run.note("first", links=len(run.links(first[0])))
        further = await run.ask("answer.direct", question=query)
        return [*(await run.search(further.answer, k))[::-1], *first]

    def links(self, passage: Passage) -> list[Passage]:
        return [passage]


def scorer(**given: Any) -> ScriptedLM:
    """A model to which the later passages of the alphabet make the query likelier."""
    return ScriptedLM({}, score=lambda request: float(ord(request.fields["passages"][0].id) - 200), **given)


def tree(steps: Sequence[Step]) -> list[tuple[str, int | None]]:
    return [(step.kind, step.parent) for step in steps]


# --- what is done under a search ---------------------------------------------------------------------------------


async def test_a_reranker_gets_the_first_hits_in_order() -> None:
    retriever = Reranked(found, Likeliest())
    hits, answer = await using(lambda run: run.search("Q", 2), scorer(), retriever=retriever)
    assert names(hits) == "d c"
    outer, inner, *scores = answer.trace.steps
    assert tree(answer.trace.steps) == [("search", None), ("search", 0), *[("score", 0)] * 4]
    assert isinstance(outer, Searched)
    assert isinstance(inner, Searched)
    assert (outer.k, names(outer.passages)) == (2, "d c")
    assert (inner.k, names(inner.passages)) == (4, "a b c d")
    assert [step.logprobs for step in scores if isinstance(step, Score)] == [(n,) for n in (-103, -102, -101, -100)]
    assert (answer.usage.calls, answer.usage.searches) == (4, 1)


async def test_a_reranker_is_given_as_many_as_are_asked_for() -> None:
    hits, _ = await using(lambda run: run.search("Q", 6), scorer(), retriever=Reranked(found, Likeliest()))
    assert names(hits) == "f e d c b a"


async def test_an_asking_retriever_searches_where_it_starts_from() -> None:
    model = ScriptedLM({"answer.direct": {"answer": "further"}})
    hits, answer = await using(lambda run: run.search("Q", 3), model, retriever=Asked())
    assert names(hits) == "c b a"  # distinct, and as many as asked for
    searches = [step for step in answer.trace.steps if isinstance(step, Searched)]
    assert [(step.query, step.k, step.parent) for step in searches] == [("Q", 3, None), ("Q", 1, 0), ("further", 3, 0)]
    assert tree(answer.trace.steps) == [
        ("search", None), ("search", 0), ("note", 0), ("ask", 0), ("search", 0)]  # fmt: skip
    assert [step.data for step in answer.trace.steps if isinstance(step, Note)] == [{"links": 0}]  # the start's
    assert (answer.usage.searches, answer.usage.calls, answer.usage.layers) == (2, 1, 1)
    assert answer.usage.calls_by_task == {"answer.direct": 1}


async def test_they_stand_on_one_another() -> None:
    both = Reranked(Asked(), Likeliest())
    model = ScriptedLM({"answer.direct": {"answer": "further"}}, score=lambda request: -1.0)
    _, answer = await using(lambda run: run.search("Q", 1), model, retriever=both)
    kinds = tree(answer.trace.steps)
    assert kinds[:3] == [("search", None), ("search", 0), ("search", 1)]
    assert [parent for kind, parent in kinds if kind == "score"] == [0] * 4
    assert both.name == "asked"
    assert both.links(HITS[0]) == [HITS[0]]


def test_steps_under_a_search_count_once_in_the_critical_path() -> None:
    async def slow(run: Run) -> Any:
        return await run.search("Q", 2)

    def play() -> Any:
        return using(slow, scorer(latency=1.0), retriever=Reranked(found, Likeliest()))

    _, answer = run_virtually(play())
    assert answer.usage.seconds == answer.usage.elapsed == 4


async def test_the_budget_holds_for_what_a_retriever_asks() -> None:
    async def gather(run: Run) -> list[list[Passage]]:
        gathered = []
        with run.gathering():
            gathered.append(await run.search("Q", 2))
        return gathered

    gathered, answer = await using(
        gather, scorer(), retriever=Reranked(found, Likeliest()), budget=Budget(max_calls=3)
    )  # one is kept for the method's last call
    assert (gathered, answer.usage.calls, answer.trace.budget) == ([], 2, "max_calls")
    assert {step.parent for step in answer.trace.steps} == {None}  # the search itself was cut short


async def test_a_method_is_handed_the_reranked_hits() -> None:
    scene = Scene(hits={"Q": "a b c"}, reviews={"c": "accept the end"})
    scene.model = ScriptedLM(scene._script, score=lambda request: float(ord(request.fields["passages"][0].id) - 200))
    answer = await scene.play("tor", widths="1", rerank=Likeliest())
    assert scene.transcript[:2] == ["search Q, 4", "review c"]
    assert answer.text == "the end"


def test_prefetched_calls_change_nothing_under_a_reranker_that_asks() -> None:
    class Judge:
        name, first = "judge", 6

        async def rerank_by(self, run: Run, query: str, passages: Sequence[Passage], k: int) -> list[Passage]:
            said = await run.ask("answer.direct", question=query)
            return sorted(passages, key=lambda hit: (hash_of(said.answer, hit.id), hit.id))[:k]

    async def play(world: World, **settings: Any) -> Answer:
        model = ScriptedLM(world.script, latency=1.0)
        given = {"shots": 0, "retriever": world.search, "rerank": Judge(), **settings}
        async with Pipeline(method="tor", lm=model, **given) as pipeline:
            return await pipeline.aask(world.question)

    sooner = 0
    for seed in range(tries(60)):
        world = World.random(seed)
        world.speaks = "value"
        plain = run_virtually(play(world, **varied(seed)))
        ahead = run_virtually(play(world, **varied(seed), speculate=16))
        assert view(ahead) == view(plain), seed
        sooner += ahead.usage.elapsed < plain.usage.elapsed
    assert sooner > tries(30)


def hash_of(*key: str) -> int:
    return sum(ord(letter) * (n + 1) for n, letter in enumerate("".join(key))) % 101


# --- names, needs and what a run's folder says ---------------------------------------------------------------------


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_retrievers, "registered", dict(_retrievers.registered))
    monkeypatch.setattr(_rerankers, "registered", dict(_rerankers.registered))
    register_retriever("asked")(lambda index: Asked())
    register_retriever("asked:")(lambda index, word: Asked(lambda query, k: [passage(word)]))
    register_reranker("likeliest")(Likeliest)


@pytest.mark.usefixtures("named")
def test_rerankers_and_retrievers_are_opened_by_name_and_suffix() -> None:
    assert isinstance(open_reranker("likeliest"), Reranker)
    assert "likeliest" in rerankers()
    with Pipeline(CORPUS, lm=ScriptedLM({}), retriever="asked:z") as pipeline:
        retriever = pipeline.engine.retriever
        assert retriever is not None
        assert names(retriever.innermost("", 1)) == "z"
    with pytest.raises(UnknownName, match=r"unknown reranker 'likelist'; did you mean 'likeliest'\?"):
        Pipeline(CORPUS, rerank="likelist")


@pytest.mark.usefixtures("named")
def test_a_retriever_that_asks_needs_a_model(tmp_path: Path) -> None:
    index = build_index(open_corpus(CORPUS), tmp_path / "index")
    with pytest.raises(UsageError, match="the retriever asked asks a language model"):
        open_plain_retriever("asked", index)


@pytest.mark.usefixtures("named")
def test_what_they_need_is_checked_before_the_first_call() -> None:
    blind = ScriptedLM({}, name="blind")
    with pytest.raises(CapabilityError, match="the reranker likeliest needs score, which blind does not have; try"):
        Pipeline(CORPUS, "one-r", blind, rerank="likeliest")
    Pipeline(CORPUS, "one-r", {"default": blind, "answer.read": scorer()}, rerank="likeliest").close()  # its own model
    needy = Asked()
    needy.needs = frozenset({"token_logprobs"})
    with pytest.raises(CapabilityError, match="the retriever asked needs token_logprobs, which blind does not have"):
        Pipeline(method="one-r", lm=blind, retriever=needy)

    class Reads:
        name, threshold, needs = "reads", 0.5, ("token_logprobs",)

        async def read_by(self, ask: Any, question: str, passages: Sequence[Passage]) -> list[Span]:
            return []

    with pytest.raises(CapabilityError, match="the reader reads needs token_logprobs, which blind does not have"):
        Pipeline(method="searchain", lm=blind, retriever=found, reader=Reads())
    Pipeline(method="one-r", lm=blind, retriever=found, reader=Reads()).close()  # which reads nothing by it


@pytest.fixture
def starts_from_tfidf() -> Iterator[str]:
    async def function(question: str, run: Run) -> Answer:
        return Answer(names(await run.search(question, 1)))

    registry.method("own-start", paper="-", layers=lambda settings: 0, needs=("retriever",), retriever="tfidf")(
        function
    )
    yield "own-start"
    del registry._registered["own-start"]


def test_a_method_uses_its_own_retriever_by_default(starts_from_tfidf: str) -> None:
    def name_of(method: str, **given: Any) -> str | None:
        with Pipeline(CORPUS, method, **given) as pipeline:
            assert pipeline.engine.retriever is not None
            return pipeline.engine.retriever.name

    assert name_of(starts_from_tfidf) == "tfidf"
    assert name_of(starts_from_tfidf, retriever="bm25") == "bm25"
    assert name_of("tor") == "bm25"


@pytest.mark.usefixtures("named")
def test_a_runs_folder_names_the_reranker(tmp_path: Path) -> None:
    def settings_of(name: str, **given: Any) -> Any:
        questions = [Question("1", "Which kiln is hot?", ("a",))]
        evaluate(questions, CORPUS, "one-r", out=tmp_path / name, **given)
        return json.loads((tmp_path / name / "run.json").read_text())

    def names_in(row: Any) -> Any:
        return (row.get("settings", row).get("retriever", row.get("retriever")), row.get("reranker"))

    assert names_in(settings_of("with", rerank="likeliest")) == ("bm25", "likeliest")
    assert names_in(settings_of("without")) == ("bm25", None)


@pytest.mark.usefixtures("named")
def test_scores_of_a_reranker_are_kept_like_any_call(tmp_path: Path) -> None:
    model = scorer()
    for _ in range(2):
        with Pipeline(CORPUS, "one-r", model, rerank="likeliest", cache=tmp_path / "lm.sqlite") as pipeline:
            assert names(pipeline.search("kiln", 2)) == "c b"
    assert len(model.score_calls) == 3  # one a passage, the first time only


async def test_an_engine_searches_without_a_question() -> None:
    engine = Engine(models=Models({"default": scorer()}), retriever=Reranked(found, Likeliest()))
    assert names(await engine.search("Q", 1)) == "d"


def test_capabilities_are_the_ones_of_the_model_a_task_goes_to() -> None:
    sure = ScriptedLM({}, capabilities=Capabilities(token_logprobs=True))
    engine = Engine(models=Models({"default": ScriptedLM({}), "generator": sure}))
    assert engine.model_of("answer.direct") is sure
    assert engine.model_of("tor.review") is not sure


async def test_a_step_under_a_cut_step_moves_to_its_parent() -> None:
    class Broken:
        name, first = "broken", 1

        async def rerank_by(self, run: Run, query: str, passages: Sequence[Passage], k: int) -> list[Passage]:
            raise RuntimeError("no")

    async def method(run: Run) -> None:
        with run.branch("round", "1"), pytest.raises(RuntimeError):
            await run.search("Q", 1)

    _, answer = await using(method, ScriptedLM({}), retriever=Reranked(found, Broken()))
    assert tree(answer.trace.steps) == [("branch", None), ("search", 0)]
    assert not any(isinstance(step, Ask) for step in answer.trace.steps)
