"""Links for a retriever that knows none: those of the corpus beside it, else an error before the first call."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from polyhop.answer import Answer
from polyhop.data.corpora import open_corpus
from polyhop.errors import UsageError
from polyhop.lm.scripted import ScriptedLM
from polyhop.methods.as_retriever import HopsRetriever
from polyhop.pipeline import Pipeline
from polyhop.retrieval import Index, build_index
from polyhop.retrieval.base import as_retriever
from polyhop.retrieval.bm25 import BM25
from polyhop.retrieval.hybrid import Hybrid
from polyhop.retrieval.services.served import ServedRetriever
from polyhop.types import Passage

FILM = Passage("film", "Dark Mill", "Dark Mill is a film directed by Ann Lee.")
LEE = Passage("lee", "Ann Lee", "Ann Lee is a director born in Stow.")
STOW = Passage("stow", "Stow", "Stow is a town.")
PAGES = [FILM, LEE, STOW]
QUESTION = "Where was the director of Dark Mill born?"


def only_the_film(query: str, k: int) -> Sequence[Passage]:
    return [FILM]


async def only_the_film_awaited(query: str, k: int) -> Sequence[Passage]:
    return [FILM]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return build_index(open_corpus(PAGES), tmp_path_factory.mktemp("index") / "pages")


async def asked(corpus: Any, method: str = "hops", **options: Any) -> Answer:
    lm = ScriptedLM(lambda task, fields: {"answer": "Stow"}, score=lambda request: -1.0)
    chosen = {"requery": 0, **options} if method == "hops" else {"answer_by": "lm", **options}
    async with Pipeline(corpus, method, lm, **(options if method == "one-r" else chosen)) as pipeline:
        return await pipeline.aask(QUESTION)


def ids(answer: Answer) -> list[str]:
    return sorted(passage.id for passage in answer.passages)


@pytest.mark.parametrize("method", ["hops", "promptrank"])
@pytest.mark.parametrize("retriever", [only_the_film, only_the_film_awaited])
@pytest.mark.parametrize("rerank", [None, "promptrank"])
async def test_a_callable_takes_the_links_of_the_corpus_beside_it(
    index: Index, method: str, retriever: Any, rerank: str | None
) -> None:
    for corpus in (index, PAGES):
        assert ids(await asked(corpus, method, retriever=retriever, rerank=rerank)) == ["film", "lee"]


async def test_so_does_one_that_a_retriever_of_paths_starts_from(index: Index) -> None:
    found = await asked(index, "one-r", retriever=HopsRetriever(only_the_film, requery=0))
    assert ids(found) == ["film", "lee"]
    assert ids(await asked(PAGES, "one-r", retriever=HopsRetriever(only_the_film, requery=0))) == ["film", "lee"]


@pytest.mark.parametrize("retriever", [ServedRetriever("http://localhost:1"), "http://localhost:1"])
def test_so_does_a_server_of_passages(index: Index, retriever: Any) -> None:
    with Pipeline(index, "hops", retriever=retriever) as pipeline:
        assert pipeline.engine.retriever is not None
        assert pipeline.engine.retriever.links(FILM) == [LEE]


class Towns(BM25):
    def links(self, passage: Passage) -> list[Passage]:
        return [STOW]


async def test_a_retriever_with_links_keeps_its_own(index: Index) -> None:
    with Pipeline(index, "hops", retriever=Towns(index)) as pipeline:
        assert pipeline.engine.retriever is not None
        assert pipeline.engine.retriever.links(FILM) == [STOW]


@pytest.mark.parametrize("method", ["hops", "promptrank"])
def test_without_a_corpus_it_is_an_error_that_names_the_retriever(method: str) -> None:
    lm = ScriptedLM({}, score=lambda request: -1.0)
    message = rf"{method} follows links: .*give the corpus .* beside only_the_film, which knows none, or set links=0"
    with pytest.raises(UsageError, match=message):
        Pipeline(method=method, lm=lm, retriever=only_the_film)
    unlinked: list[dict[str, Any]] = [{"links": 0}, {"hops": 1}]
    for none in unlinked:
        Pipeline(method=method, lm=lm, retriever=only_the_film, **none).close()
    with pytest.raises(UsageError, match="beside http://localhost:1, which knows none"):
        Pipeline(method=method, lm=lm, retriever="http://localhost:1")
    with pytest.raises(UsageError, match=r"the retriever hops follows links: .*beside only_the_film"):
        Pipeline(method="one-r", lm=lm, retriever=HopsRetriever(only_the_film))


def test_an_index_without_links_is_reported_too(tmp_path: Path) -> None:
    bare = build_index(open_corpus(PAGES), tmp_path / "bare", links=False)
    assert not as_retriever(BM25(bare)).has_links
    assert not as_retriever(Hybrid(bare, [(BM25(bare), 1.0)] * 2)).has_links
    assert not as_retriever(Hybrid(None, [(BM25(bare), 1.0)] * 2)).has_links
    with pytest.raises(UsageError, match="tfidf-bm25 follows links, and the index was built without"):
        Pipeline(bare, "one-r", retriever="tfidf-bm25")
    for retriever in ("bm25", only_the_film):
        with pytest.raises(UsageError, match="hops follows links: use a retriever over an index with links"):
            Pipeline(bare, "hops", retriever=retriever)


async def test_passages_that_the_corpus_does_not_have_are_reported_once(
    index: Index, caplog: pytest.LogCaptureFixture
) -> None:
    def others(query: str, k: int) -> Sequence[Passage]:
        return [replace(page, id=f"page of mine {number}") for number, page in enumerate(PAGES)]

    with caplog.at_level(logging.WARNING, "polyhop"):
        await asked(index, retriever=others)
    (record,) = caplog.records
    assert "the retriever others found the passage 'page of mine 0', which the corpus beside it does" in record.message
