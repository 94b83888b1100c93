"""Fusion of rankings against its formulas, its properties, and its names."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import polyhop.methods.as_retriever  # noqa: F401 - registers promptrank
from polyhop.data.corpora import open_corpus
from polyhop.errors import SettingError, UnknownName, UsageError
from polyhop.retrieval import (
    Index,
    _retrievers,
    build_index,
    hybrid,
    open_plain_retriever,
    open_retriever,
    register_retriever,
)
from polyhop.retrieval.base import Retriever
from polyhop.retrieval.bm25 import BM25
from polyhop.retrieval.dense import Dense
from polyhop.retrieval.hybrid import Fusion, Hybrid, fused, parts_of
from polyhop.retrieval.tfidf import TfIdf
from polyhop.types import Passage
from tests.kit.encoders import WordEncoder
from tests.retrieval.test_dense import QUERIES, passages

MANY = [Passage(f"p{number}", "", "") for number in range(12)]
FUSIONS: list[Fusion] = ["zscore", "relative", "rrf"]

rankings = st.lists(
    st.tuples(
        st.lists(st.sampled_from(MANY), unique=True, max_size=12).flatmap(
            lambda found: st.lists(st.floats(-1e4, 1e4), min_size=len(found), max_size=len(found)).map(
                lambda scores: list(zip(found, sorted(scores, reverse=True), strict=True))
            )
        ),
        st.sampled_from([0.5, 1.0, 3.0]),
    ),
    min_size=1,
    max_size=4,
)


def plainly(weighted: Sequence[Any], fusion: str) -> dict[Passage, float]:
    """Each passage's score by the formula, one passage and one ranking at a time."""
    scores: dict[Passage, float] = {}
    for passage in {passage for hits, _ in weighted for passage, _ in hits}:
        for hits, weight in weighted:
            values = [score for _, score in hits]
            at = next((at for at, (hit, _) in enumerate(hits) if hit == passage), None)
            if fusion == "rrf":
                part = 0.0 if at is None else 1 / (60 + at + 1)
            elif fusion == "relative":
                part = 0.0 if at is None or max(values) <= 0 else values[at] / max(values)
            elif not values or (spread := statistics.pstdev(values)) == 0:
                part = 0.0
            else:
                part = ((min(values) if at is None else values[at]) - statistics.fmean(values)) / spread
            scores[passage] = scores.get(passage, 0.0) + weight * part
    return scores


@given(weighted=rankings, fusion=st.sampled_from(FUSIONS))
@example(weighted=[([(passage, 2731.628502798362) for passage in MANY[:3]], 0.5)], fusion="zscore")
def test_scores_are_the_formulas(weighted: Any, fusion: Fusion) -> None:
    expected = plainly(weighted, fusion)
    found = dict(fused(weighted, fusion))
    assert found.keys() == expected.keys()
    deviations = [statistics.pstdev([score for _, score in hits]) for hits, _ in weighted if hits]
    if fusion == "rrf" or all(deviation == 0 or deviation > 1e-3 for deviation in deviations):
        assert found == {passage: pytest.approx(score, abs=1e-6) for passage, score in expected.items()}


@given(weighted=rankings, fusion=st.sampled_from(FUSIONS), seed=st.randoms())
def test_the_order_of_the_parts_changes_nothing_and_ties_are_by_id(weighted: Any, fusion: Fusion, seed: Any) -> None:
    found = fused(weighted, fusion)
    seed.shuffle(weighted)
    assert fused(weighted, fusion) == found
    assert found == sorted(found, key=lambda hit: (-hit[1], hit[0].id))
    assert len({passage for passage, _ in found}) == len(found)


@given(weighted=rankings, fusion=st.sampled_from(FUSIONS))
def test_a_ranking_that_found_nothing_changes_nothing(weighted: Any, fusion: Fusion) -> None:
    assert fused([*weighted, ([], 5.0)], fusion) == fused(weighted, fusion)


@given(hits=rankings.map(lambda weighted: weighted[0][0]))
def test_a_ranking_alone_keeps_its_order(hits: Any) -> None:
    assert [passage for passage, _ in fused([(hits, 2.0)], "rrf")] == [passage for passage, _ in hits]


def test_a_weight_draws_towards_its_part() -> None:
    one, two = [(MANY[1], 3.0), (MANY[2], 1.0)], [(MANY[2], 3.0), (MANY[1], 1.0)]
    for fusion in FUSIONS:
        assert [p.id for p, _ in fused([(one, 1.0), (two, 1.0)], fusion)] == ["p1", "p2"]
        assert [p.id for p, _ in fused([(one, 1.0), (two, 1.5)], fusion)] == ["p2", "p1"]


# --- over an index ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return build_index(open_corpus(passages(80)), tmp_path_factory.mktemp("hybrid") / "index")


@pytest.fixture(scope="module")
def parts(index: Index) -> list[tuple[Retriever, float]]:
    return [(BM25(index), 1.0), (Dense(index, WordEncoder()), 0.5), (TfIdf(index), 2.0)]


@settings(max_examples=30, deadline=None)
@given(query=st.sampled_from(QUERIES), k=st.integers(1, 90), depth=st.integers(1, 90), fusion=st.sampled_from(FUSIONS))
def test_it_fuses_the_first_of_each_part(
    index: Index, parts: Any, query: str, k: int, depth: int, fusion: Fusion
) -> None:
    most = max(k, depth)
    weighted = [(part.search_scored(query, most), weight) for part, weight in parts]
    found = Hybrid(index, parts, fusion=fusion, depth=depth).search_scored(query, k)
    assert found == fused(weighted, fusion)[:k]


def test_many_queries_are_one_by_one_and_each_part_is_asked_once(index: Index, parts: Any) -> None:
    asked: list[Any] = []

    class Recording(BM25):
        def search_many_scored(self, queries: Sequence[str], k: int) -> list[list[tuple[Passage, float]]]:
            asked.append((list(queries), k))
            return super().search_many_scored(queries, k)

    both = Hybrid(index, [(Recording(index), 1.0), parts[1]])
    found = both.search_many([*QUERIES, ""], 7)
    assert asked == [([*QUERIES, ""], 100)]
    assert found == [both.search(query, 7) for query in [*QUERIES, ""]]
    assert found[-1] == []
    assert [p.id for p in both.links(found[0][0])] == [p.id for p in index.links(found[0][0])]


class Unscored:
    """A retriever without scores."""

    name = "unscored"

    def __init__(self, index: Index) -> None:
        self._index = index

    def search(self, query: str, k: int) -> list[Passage]:
        return [self._index.passages.get(number) for number in range(k)]

    def search_many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        return [self.search(query, min(k, len(self._index))) for query in queries]

    def links(self, passage: Passage) -> list[Passage]:
        return []


def test_retrievers_without_scores_are_fused_by_rank_alone(index: Index, parts: Any) -> None:
    plain = Unscored(index)
    found = Hybrid(index, [(plain, 1.0), parts[0]], fusion="rrf").search("paris", 5)
    weighted = [([(p, 0.0) for p in plain.search("", 80)], 1.0), (parts[0][0].search_scored("paris", 100), 1.0)]
    assert found == [passage for passage, _ in fused(weighted, "rrf")][:5]
    with pytest.raises(UsageError, match=r"unscored has no scores, so it is fused by rank: hybrid:rrf:"):
        Hybrid(index, [(plain, 1.0), parts[0]])


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf")])
def test_a_weight_that_is_none_is_refused(index: Index, parts: Any, weight: float) -> None:
    with pytest.raises(SettingError, match=r"bm25 has the weight .*; must be a number above 0"):
        Hybrid(index, [(BM25(index), weight), parts[1]])


def test_settings_that_cannot_be_are_refused(index: Index, parts: Any) -> None:
    with pytest.raises(SettingError, match="fusion='sum': must be 'zscore' or 'relative' or 'rrf' or 'shards'"):
        Hybrid(index, parts, fusion="sum")  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="depth=0"):
        Hybrid(index, parts, depth=0)
    with pytest.raises(SettingError, match=r"fuses at least two retrievers, as in hybrid:bm25\+dense:"):
        open_retriever("hybrid:bm25", index)


def test_shards_of_a_corpus_find_what_the_whole_finds(index: Index, tmp_path: Path) -> None:
    encoder, whole = WordEncoder(), passages(80)
    halves = [build_index(open_corpus(whole[at::2]), tmp_path / f"shard-{at}") for at in (0, 1)]
    merged = Hybrid(None, [(Dense(half, encoder), 1.0) for half in halves], fusion="shards", depth=1)
    for query in QUERIES:
        assert merged.search_scored(query, 9) == Dense(index, encoder).search_scored(query, 9)


# --- names --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("bm25+tfidf", ("zscore", [("bm25", 1.0), ("tfidf", 1.0)])),
        ("zscore:bm25*2+tfidf*0.25", ("zscore", [("bm25", 2.0), ("tfidf", 0.25)])),
        ("rrf:dense:/a+b/c?passage=p: *3+bm25", ("rrf", [("dense:/a+b/c?passage=p: ", 3.0), ("bm25", 1.0)])),
        ("bm25+bm52+tfidf", ("zscore", [("bm25", 1.0), ("bm52", 1.0), ("tfidf", 1.0)])),
        (
            "shards:http://a:1?protocol=search-r1+http://b:2",
            ("shards", [("http://a:1?protocol=search-r1", 1.0), ("http://b:2", 1.0)]),
        ),
        ("bm25*x+tfidf", ("zscore", [("bm25*x", 1.0), ("tfidf", 1.0)])),
        ("", ("zscore", [("", 1.0)])),
    ],
)
def test_a_name_is_taken_apart(spec: str, expected: Any) -> None:
    assert parts_of(spec, ["bm25", "tfidf", "dense:", "http:"]) == expected


@given(spec=st.text("bm25dense:+*.0tfi rrfzscore", max_size=40))
def test_any_name_is_taken_apart(spec: str) -> None:
    assert parts_of(spec, ["bm25", "tfidf", "dense:"])[1]


def test_it_is_opened_by_its_name(index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("polyhop.retrieval.dense.open_encoder", lambda spec: WordEncoder())
    both = open_retriever("hybrid:rrf:bm25*2+dense:words", index)
    assert isinstance(both, Hybrid)
    assert both.name == "hybrid:rrf:bm25*2+dense:words"
    expected = Hybrid(index, [(BM25(index), 2.0), (Dense(index, WordEncoder()), 1.0)], fusion="rrf")
    assert both.search_many(QUERIES, 9) == expected.search_many(QUERIES, 9)
    assert isinstance(both.encoder, WordEncoder)
    monkeypatch.setattr(_retrievers, "registered", dict(_retrievers.registered))
    register_retriever("unscored")(Unscored)
    assert len(open_plain_retriever("hybrid:rrf:unscored+bm25", index).search("paris", 3)) == 3
    with pytest.raises(UnknownName, match="unknown retriever 'bm52'; did you mean 'bm25'"):
        open_retriever("hybrid:bm25+bm52+tfidf", index)
    with pytest.raises(UsageError, match="the retriever promptrank asks a language model"):
        open_retriever("hybrid:bm25+promptrank", index)


def test_depth_is_the_least_a_part_gives(index: Index, parts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def record_depths(rankings: Any, fusion: Fusion) -> list[Any]:
        seen.append(len(rankings[1][0]))
        return []

    monkeypatch.setattr(hybrid, "fused", record_depths)
    Hybrid(index, parts, depth=5).search("paris", 2)
    Hybrid(index, parts, depth=5).search("paris", 70)
    assert seen == [5, 70]
