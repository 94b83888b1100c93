"""TF-IDF, links, BM25: the pool and its ranking against a plain restatement."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.data.corpora import open_corpus
from polyhop.errors import UsageError
from polyhop.retrieval import Index, build_index, open_retriever
from polyhop.retrieval.base import Retriever
from polyhop.retrieval.bm25 import BM25
from polyhop.retrieval.tfidf import TfIdf, TfIdfBM25
from polyhop.types import Passage
from tests.retrieval.test_bm25 import WORDS, by_hand


def make(folder: Path, passages: Sequence[Passage]) -> Index:
    return build_index(open_corpus(passages), folder / "index", stem=False, links="own")


@st.composite
def linked_corpora(draw: st.DrawFn) -> list[Passage]:
    """Pages of two words in a title of their own, with links to each other and to nowhere."""
    texts = draw(st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=5), min_size=1, max_size=25))
    titles = [f"Page {number}" for number in range(len(texts))]
    targets = st.lists(st.sampled_from([*titles, "Nowhere"]), max_size=3)
    return [
        Passage(f"p{number:02}", title, " ".join(text), links=tuple(draw(targets)))
        for number, (title, text) in enumerate(zip(titles, texts, strict=True))
    ]


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(linked_corpora(), st.lists(st.sampled_from([*WORDS, "unknown"]), max_size=4), st.integers(1, 4), st.data())
def test_the_pool_is_ranked_as_bm25_ranks_the_corpus(
    passages: list[Passage], query: list[str], first: int, data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, 30))
    with tempfile.TemporaryDirectory() as folder:
        index = make(Path(folder), passages)
        hits = TfIdf(index).search(" ".join(query), max(first, k))
        titled = {passage.title: passage for passage in passages}
        pool = {hit.id for hit in hits} | {titled[to].id for hit in hits for to in hit.links if to in titled}
        expected = [(score, id) for score, id in by_hand(passages, " ".join(query)) if id in pool][:k]
        found = TfIdfBM25(index, first=first).search_scored(" ".join(query), k)
        assert [passage.id for passage, _ in found] == [id for _, id in expected]
        assert [score for _, score in found] == pytest.approx([score for score, _ in expected], rel=1e-4)


@pytest.fixture
def film(tmp_path: Path) -> Index:
    """The film page is all that TF-IDF finds first; a page it links to knows more of the question than its own text."""
    return make(
        tmp_path,
        [
            Passage("film", "Dark Mill", "zinc kiln", links=("Ann Lee", "Oslo")),
            Passage("lee", "Ann Lee", "violet harbour oboe drummer kiln town long text"),
            Passage("oslo", "Oslo", "a town"),
            *(Passage(f"o{number}", f"Other {number}", "violet drummer") for number in range(6)),
        ],
    )


def test_links_of_the_hits_join_the_pool_and_others_do_not(film: Index) -> None:
    query = "zinc zinc harbour oboe"  # a repeated word counts for TF-IDF, and once for BM25
    assert [passage.id for passage in TfIdf(film).search(query, 1)] == ["film"]
    assert [passage.id for passage in TfIdfBM25(film, first=1).search(query, 1)] == ["lee"]
    pool_alone = BM25(film).search_among("violet drummer", {0, 1}, 5)
    assert [passage.id for passage, _ in pool_alone] == ["lee"]  # though six others rank above it


def test_a_linked_page_without_a_word_of_the_query_is_not_ranked(film: Index) -> None:
    assert "oslo" not in [passage.id for passage in TfIdfBM25(film).search("zinc kiln violet", 9)]


def test_what_stands_deep_in_the_ranking_is_reached(tmp_path: Path) -> None:
    passages = [Passage(f"{number:03}", f"T {number}", "kiln " + "oboe " * number) for number in range(300)]
    index = make(tmp_path, passages)
    bm25 = BM25(index)
    order = [passage.id for passage in bm25.search("kiln", 300)]
    last = {int(id) for id in order[-3:]}
    assert [passage.id for passage, _ in bm25.search_among("kiln", last, 1)] == [order[-3]]
    assert [passage.id for passage, _ in bm25.search_among("kiln", last, 9)] == order[-3:]
    ends = {int(order[0]), int(order[-1])}
    assert [passage.id for passage, _ in bm25.search_among("kiln", ends, 2)] == [order[0], order[-1]]
    assert bm25.search_among("kiln", set(), 3) == bm25.search_among("the", last, 3) == []
    assert bm25.search_among("unknown", last, 3) == []
    scored = dict(bm25.search_scored("kiln", 300))
    assert all(scored[passage] == score for passage, score in bm25.search_among("kiln", last, 3))


@pytest.mark.parametrize("k", [1, 2, 5, 40])
def test_ties_are_broken_by_id_also_at_the_cut(tmp_path: Path, k: int) -> None:
    passages = [Passage(f"{99 - number:02}", "Kiln", "oboe") for number in range(60)]
    found = BM25(make(tmp_path, passages)).search_among("kiln", range(10, 60), k)
    assert [passage.id for passage, _ in found] == [f"{number:02}" for number in range(40, 90)][:k]
    under_another = [Passage("best", "Kiln", "kiln kiln"), *passages]
    found = BM25(make(tmp_path / "under", under_another)).search_among("kiln", range(1, 61), k)
    assert [passage.id for passage, _ in found] == [f"{number:02}" for number in range(40, 100)][:k]


def test_it_is_a_retriever_by_name(film: Index) -> None:
    engine = open_retriever("tfidf-bm25", film)
    assert isinstance(engine, Retriever)
    assert engine.name == "tfidf-bm25"
    assert [passage.id for passage in engine.links(film.passages.get(0))] == ["lee", "oslo"]
    assert engine.search("", 3) == engine.search("the of", 3) == []
    assert [[p.id for p in found] for found in engine.search_many(["zinc", "town"], 1)] == [["film"], ["oslo"]]
    with pytest.raises(UsageError, match="k is 0"):
        engine.search("zinc", 0)
