"""A search within some passages finds all of them that match, in the order of the whole corpus, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from polyhop.data.corpora import open_corpus
from polyhop.lm.scripted import ScriptedLM
from polyhop.pipeline import Pipeline
from polyhop.retrieval import open_plain_retriever, open_retriever
from polyhop.retrieval.base import Reranked, as_retriever
from polyhop.retrieval.index import Index, build_index
from polyhop.retrieval.within import Within
from polyhop.types import Passage, Question

WORDS = ("river", "bridge", "tower", "castle", "harbour")
PASSAGES = [
    Passage(f"{i:03}", f"Place {i}", f"Place {i} has a {WORDS[i % 5]} near a {WORDS[i % 3]}, by Place {(i + 7) % 90}.")
    for i in range(90)
]
OWN = PASSAGES[4::9]


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return build_index(open_corpus(PASSAGES), tmp_path / "index")


@pytest.mark.parametrize("name", ["bm25", "tfidf", "tfidf-bm25", "ppr", "hybrid:bm25+tfidf", "dense:pocket"])
@pytest.mark.parametrize("k", [1, 3, 50])
async def test_it_is_the_whole_ranking_without_the_others(index: Index, name: str, k: int) -> None:
    opened = open_plain_retriever(name, index)
    whole = [p for p in opened.search("the castle by the river", 90) if p in OWN]
    found = await Within(as_retriever(opened), OWN, index).search("the castle by the river", k, _no_run())
    assert [p.id for p in found] == [p.id for p in whole][:k]
    assert found


async def test_a_callable_is_searched_deeper_until_enough_is_found() -> None:
    depths: list[int] = []

    def search(query: str, k: int) -> list[Passage]:
        depths.append(k)
        return PASSAGES[:k]

    within = Within(as_retriever(search), PASSAGES[40:42], None)
    assert [p.id for p in await within.search("any", 2, _no_run())] == ["040", "041"]
    assert depths == [2, 16, 128]
    assert await Within(as_retriever(search), [Passage("x", "X", "x")], None).search("any", 1, _no_run()) == []


def test_links_to_others_are_left_out(index: Index) -> None:
    whole = as_retriever(open_retriever("bm25", index))
    assert [p.id for p in whole.links(PASSAGES[4])] == ["011"]
    assert Within(whole, [PASSAGES[4], PASSAGES[20]], index).links(PASSAGES[4]) == []
    assert Within(whole, [PASSAGES[4], PASSAGES[11]], index).links(PASSAGES[4]) == [PASSAGES[11]]


async def test_a_reranker_chooses_from_them(index: Index) -> None:
    seen: list[list[Passage]] = []

    class Backwards:
        name, first = "backwards", 20

        async def rerank_by(self, run: Any, query: str, passages: Sequence[Passage], k: int) -> Sequence[Passage]:
            seen.append(list(passages))
            return list(reversed(passages))[:k]

    asked = Question("q", "the castle by the river", contexts=tuple(OWN))
    lm = ScriptedLM(lambda task, fields: {"answer": "Place 4"})
    async with Pipeline(index, "one-r", lm, rerank=Backwards(), k=2) as pipeline:
        answer = await pipeline.aask(asked)
        everything = await pipeline.aask("the castle by the river")
    assert set(seen[0]) <= set(OWN)
    assert list(answer.passages) == seen[0][::-1]
    assert not set(everything.passages) <= set(OWN)  # the next question searches the whole corpus


def test_its_names_and_needs_are_those_of_the_whole(index: Index) -> None:
    whole = Reranked(open_retriever("dense:pocket", index), _reranker())
    within = Within(whole, OWN, index)
    assert (within.name, within.needs, within.encoder) == (whole.name, whole.needs, whole.encoder)
    assert [type(part) for part in within.layers] == [Within, Within]


def _reranker() -> Any:
    class Plain:
        name, first, needs = "plain", 5, ("score",)

    return Plain()


def _no_run() -> Any:
    return None
