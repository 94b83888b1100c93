"""``judged:…``: the first hits of a retriever, reordered by what the built-in encoder reads."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from polyhop.common.odds import sigmoid
from polyhop.data.corpora import open_corpus
from polyhop.errors import UsageError
from polyhop.lm.pocket.encoder.cache import predict
from polyhop.retrieval import Index, brings_corpus, build_index, open_plain_retriever
from polyhop.retrieval.base import ScoringRetriever
from polyhop.retrieval.judged import JUDGED, Judged
from polyhop.types import Passage

QUESTION = "Who found the key of the boathouse?"
PASSAGES = [
    Passage("a", "Keys", "The key of the boathouse was found by Ann Lee on Monday."),
    Passage("b", "Boathouse", "The boathouse has a boathouse key, boathouse oars and a boathouse ladder."),
    Passage("c", "Staff", "Tom Reed is a cook in Ostwik."),
    *(Passage(f"d{number:02}", f"Day {number}", f"Nothing was found on day {number}.") for number in range(20)),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return build_index(open_corpus(PASSAGES), tmp_path_factory.mktemp("judged") / "index")


class Given(ScoringRetriever):
    """Finds given passages with given scores."""

    name = "given"
    linked = False

    def __init__(self, hits: Sequence[tuple[Passage, float]]) -> None:
        self.hits, self.depth = list(hits), 0

    def _scored(self, query: str, k: int) -> list[tuple[Passage, float]]:
        self.depth = k
        return self.hits[:k]

    def links(self, passage: Passage) -> list[Passage]:
        return []


def test_the_score_is_the_share_of_the_best_and_the_relevance() -> None:
    start = Given([(PASSAGES[1], 8.0), (PASSAGES[0], 6.0), (PASSAGES[2], 2.0)])
    found = Judged(start).search_scored(QUESTION, 3)
    read = predict(QUESTION, [[passage] for passage in PASSAGES[:3]])
    expected = [share + sigmoid(output.relevance) for share, output in zip((0.75, 1.0, 0.25), read, strict=True)]
    scores = {passage.id: score for passage, score in found}
    assert [scores[passage.id] for passage in PASSAGES[:3]] == pytest.approx(expected)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    assert start.depth == JUDGED


def test_what_is_relevant_comes_before_what_has_more_of_the_words() -> None:
    hits = [(PASSAGES[1], 8.0), (PASSAGES[0], 7.9)]
    assert [passage.id for passage in Judged(Given(hits)).search(QUESTION, 2)] == ["a", "b"]


def test_hits_after_the_first_keep_their_order() -> None:
    hits = [(passage, 100.0 if number < JUDGED else 90.0 - number) for number, passage in enumerate(PASSAGES)]
    found = Judged(Given(hits)).search(QUESTION, len(hits))
    assert found[JUDGED:] == PASSAGES[JUDGED:]
    assert set(found[:JUDGED]) == set(PASSAGES[:JUDGED])


def test_no_hits_are_no_hits() -> None:
    assert Judged(Given([])).search(QUESTION, 3) == []
    assert Judged(Given([(PASSAGES[0], 0.0)])).search(QUESTION, 3) == [PASSAGES[0]]


def test_it_is_opened_by_its_name(index: Index) -> None:
    assert open_plain_retriever("judged:bm25", index).search(QUESTION, 1)[0].id == "a"
    assert brings_corpus("judged:http://localhost")
    assert not brings_corpus("judged:bm25")


def test_a_retriever_without_scores_is_refused(index: Index) -> None:
    class Unscored:
        name = "unscored"

        def search(self, query: str, k: int) -> list[Passage]:
            return []

        def search_many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
            return []

        def links(self, passage: Passage) -> list[Passage]:
            return []

    with pytest.raises(UsageError, match=r"judged:unscored: unscored has no scores: name another, as in judged:bm25"):
        Judged(Unscored())
