"""The same question gets the same ranking, answer and confidence: twice, and amid others; and paths the same scores."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest

import polyhop
from polyhop.answer import Answer
from polyhop.engine.run import Run
from polyhop.lm.pocket.encoder.cache import _cache
from polyhop.lm.pocket.reading.answer import clear_cache
from polyhop.types import Passage
from tests.kit.hand import using
from tests.kit.pocket_network import Network, using_network

PEOPLE = "Ann Lee,Bo Marsh,Cy Noll,Di Opal".split(",")
FILMS = "Dark Mill,Tall Tower,Red Barn,Old Canal".split(",")
TOWNS = "Bremen Elstow Ostend Parma".split()
CORPUS = [
    passage
    for at, (person, film, town) in enumerate(zip(PEOPLE, FILMS, TOWNS, strict=True))
    for passage in (
        Passage(f"f{at}", film, f"{film} is a drama film that {person} made with friends in 193{at}."),
        Passage(f"p{at}", person, f"{person} was raised by an aunt in {town}, and later kept bees there."),
    )
]
QUESTIONS = [f"Where was the maker of {film} raised?" for film in FILMS]
QUESTIONS += [f"Who kept bees in {town}?" for town in TOWNS]


def clear_caches() -> None:
    _cache.clear()
    clear_cache()


def outcome(answer: Answer) -> tuple[Any, ...]:
    return answer.text, answer.confidence, [passage.id for passage in answer.passages]


@pytest.mark.parametrize(("method", "settings"), [("hops", {"keep": 2}), ("tor", {"widths": (2, 1)})])
async def test_a_question_gets_the_same_twice_and_amid_others(method: str, settings: dict[str, Any]) -> None:
    asked, retriever = QUESTIONS[0], "hybrid:bm25+dense:pocket"
    clear_caches()
    async with polyhop.Pipeline(CORPUS, method, "pocket", retriever=retriever, **settings) as pipeline:
        first = outcome(await pipeline.aask(asked))
        cached = outcome(await pipeline.aask(asked))
        clear_caches()
        again = outcome(await pipeline.aask(asked))
        clear_caches()
        amid = await asyncio.gather(*map(pipeline.aask, reversed(QUESTIONS)))
    assert first == cached == again == outcome(amid[-1])


# --- run.relevance ------------------------------------------------------------------------------------------------

PATHS = [[CORPUS[0], CORPUS[1]], [CORPUS[0]], [CORPUS[1], CORPUS[0]], [CORPUS[4], CORPUS[1]], [CORPUS[7]]]


def relevance(paths: list[list[Passage]], **by: Any) -> Any:
    async def ask(run: Run) -> list[float]:
        return await run.relevance(QUESTIONS[0], paths, CORPUS, **by)

    return using(ask, "no model is asked")


@pytest.mark.parametrize("by", ["pocket", "reasons", "likelihood"])
async def test_paths_get_a_score_each_and_no_model_is_asked(by: Literal["pocket", "reasons", "likelihood"]) -> None:
    scores, answer = await relevance(PATHS, by=by)
    assert len(scores) == len(PATHS)
    assert scores == [round(score, 4) for score in scores]
    assert len(set(scores)) > 1
    assert not answer.trace.calls
    assert (await relevance(PATHS, by=by))[0] == scores
    assert (await relevance([], by=by))[0] == []


async def test_only_the_whole_scorer_looks() -> None:
    with using_network(Network()) as network:
        await relevance(PATHS, by="reasons")
        await relevance(PATHS, by="likelihood")
        assert network.shown == []
        default, _ = await relevance(PATHS)
        assert network.shown
        assert default == (await relevance(PATHS, by="pocket"))[0]
        assert default != (await relevance(PATHS, by="reasons"))[0]


async def test_the_loop_goes_on_while_paths_are_looked_at() -> None:
    with using_network(Network()) as network:
        network.may_go.clear()
        scoring = asyncio.create_task(relevance(PATHS))
        assert await asyncio.to_thread(network.began.wait, 10)
        assert not scoring.done()
        network.may_go.set()  # only a loop that is not blocked gets here
        scores, _ = await scoring
    assert len(scores) == len(PATHS)
    assert network.waited
