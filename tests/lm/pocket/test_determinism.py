"""The same question gets the same ranking, answer and confidence: twice, and amid others; and paths the same scores."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

import polyhop
from polyhop.answer import Answer
from polyhop.engine.engine import Engine
from polyhop.engine.models import Models
from polyhop.engine.run import Run
from polyhop.errors import UsageError
from polyhop.lm.pocket.encoder.cache import _cache
from polyhop.lm.pocket.reading.answer import clear_cache
from polyhop.readers.pocket import PocketPathScorer
from polyhop.types import Passage
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


@pytest.mark.parametrize(
    ("method", "settings"),
    [pytest.param("hops", {"keep": 2}, marks=pytest.mark.slow), ("tor", {"widths": (2, 1)})],
)
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


# --- the path scorer ----------------------------------------------------------------------------------------------

PATHS = [[CORPUS[0], CORPUS[1]], [CORPUS[0]], [CORPUS[1], CORPUS[0]], [CORPUS[4], CORPUS[1]], [CORPUS[7]]]


async def score(by: str, paths: list[list[Passage]] = PATHS) -> Sequence[float]:
    scorer = PocketPathScorer()
    if by == "pocket":
        return await scorer.scores(QUESTIONS[0], paths, CORPUS)
    if by == "reasons":
        return scorer.linear_scores(QUESTIONS[0], paths, CORPUS)
    return scorer.likelihood_scores(QUESTIONS[0], paths)


@pytest.mark.parametrize("by", ["pocket", "reasons", "likelihood"])
async def test_every_path_gets_a_score(by: str) -> None:
    scores = await score(by)
    assert len(scores) == len(PATHS)
    assert len(set(scores)) > 1
    assert await score(by) == scores
    assert await score(by, []) == []


async def test_only_the_whole_scorer_uses_the_encoder() -> None:
    with using_network(Network()) as network:
        linear = await score("reasons")
        await score("likelihood")
        assert network.shown == []
        assert await score("pocket") != linear
        assert network.shown


async def test_the_loop_is_not_blocked_by_path_scores() -> None:
    with using_network(Network()) as network:
        network.may_go.clear()
        scoring = asyncio.create_task(score("pocket"))
        assert await asyncio.to_thread(network.began.wait, 10)
        assert not scoring.done()
        network.may_go.set()  # only a loop that is not blocked gets here
        assert len(await scoring) == len(PATHS)
    assert network.waited


async def test_an_engine_without_a_path_scorer_says_so() -> None:
    with pytest.raises(UsageError, match="give the engine a path_scorer"):
        _ = Run(Engine(models=Models({})), "Q", "hops", "qa").path_scorer
