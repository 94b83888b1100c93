"""Retrieval by triplets: passages in the order of their nearest triplet, and what a file may lack."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from polyhop.data.corpora import open_corpus
from polyhop.data.openie import Extraction, content_of, write_openie
from polyhop.errors import DataError, UsageError
from polyhop.retrieval import open_retriever
from polyhop.retrieval.index import Index, build_index
from polyhop.retrieval.triplets import TripletRetriever, TripletTable, open_triplets
from polyhop.types import Passage

PASSAGES = [
    Passage("mill", "Dark Mill", "A film by Ann Lee, shot in Rome."),
    Passage("lee", "Ann Lee", "She was born in Oslo."),
    Passage("rome", "Rome", "A city in Italy."),
    Passage("other", "Other", "Nothing of note."),
]
STATED = {
    "mill": ["Dark Mill directed by Ann Lee", "Dark Mill filmed in Rome"],
    "lee": ["Ann Lee born in Oslo", "dark mill directed by ann lee"],
    "rome": ["Rome city in Italy"],
}
WORDS = ["dark", "mill", "directed", "lee", "filmed", "rome", "born", "oslo", "italy", "other"]


class Words:
    """An encoder by the words that a text has: transparent, and of no model."""

    name = key = "words"
    size = len(WORDS)

    def queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = [[float(word in text.lower().replace("?", "").split()) for word in WORDS] for text in texts]
        return np.array(rows, np.float32).reshape(-1, self.size)

    def passages(self, passages: Sequence[Passage]) -> NDArray[np.float32]:
        return self.queries(
            [f"{passage.title} {passage.text}".replace(".", "").replace(",", "") for passage in passages]
        )


def triplet(text: str) -> dict[str, str]:
    head, relation, tail = next(
        (before, middle, after)
        for middle in (" directed by ", " filmed in ", " born in ", " city in ")
        for before, mark, after in [text.partition(middle)]
        if mark
    )
    return {"head": head, "relation": relation.strip(), "tail": tail}


def openie(path: Path, passages: Sequence[Passage] = PASSAGES) -> str:
    rows = {passage: tuple(map(triplet, STATED.get(passage.id, ()))) for passage in passages}
    write_openie(path, [Extraction(content_of(passage), (), stated) for passage, stated in rows.items()])
    return str(path)


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return build_index(open_corpus(PASSAGES), tmp_path / "index")


def opened(index: Index, tmp_path: Path) -> TripletRetriever:
    return TripletRetriever(index, TripletTable.of(index, openie(tmp_path / "openie.json")), Words())


def test_the_table_has_each_triplet_and_phrase_once(index: Index, tmp_path: Path) -> None:
    table = TripletTable.of(index, openie(tmp_path / "openie.json"))
    assert table.texts == [
        "Dark Mill directed by Ann Lee", "Dark Mill filmed in Rome", "Ann Lee born in Oslo", "Rome city in Italy",
    ]  # fmt: skip
    assert list(table.phrases) == ["dark mill", "ann lee", "rome", "oslo", "italy"]
    assert table.ends.tolist() == [[0, 1], [0, 2], [1, 3], [2, 4]]
    assert table.stated.tolist() == [[0, 0], [0, 1], [1, 2], [1, 0], [2, 3]]


def test_a_passage_is_as_near_as_its_nearest_triplet(index: Index, tmp_path: Path) -> None:
    found = opened(index, tmp_path).search_scored("Where was Lee born?", 3)
    assert [(hit.id, round(score, 2)) for hit, score in found] == [("lee", 1.15), ("mill", 0.5), ("rome", 0.0)]


def test_passages_come_with_their_nearest_triplets(index: Index, tmp_path: Path) -> None:
    retriever = opened(index, tmp_path)
    (first, second) = retriever.search("filmed in Rome", 2)
    assert (first.id, first.metadata["triplets"]) == ("mill", [["Dark Mill", "filmed in", "Rome"]])
    assert (second.id, second.metadata["triplets"]) == ("rome", [["Rome", "city in", "Italy"]])
    assert [hit.id for hit in retriever.search_many(["", "italy"], 1)[1]] == ["rome"]


def test_passages_with_the_same_triplet_are_in_the_order_of_their_ids(index: Index, tmp_path: Path) -> None:
    assert [hit.id for hit in opened(index, tmp_path).search("directed", 1)] == ["lee"]
    assert [hit.id for hit in opened(index, tmp_path).search("directed", 2)] == ["lee", "mill"]


def test_passages_that_the_file_lacks_have_no_triplets(
    index: Index, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = TripletTable.of(index, openie(tmp_path / "part.json", PASSAGES[:1]))
    assert len(table.facts) == 2
    assert "part.json lacks 3 passages of" in caplog.text


def test_a_file_of_another_corpus_is_an_error(index: Index, tmp_path: Path) -> None:
    other = openie(tmp_path / "other.json", [Passage("mill", "Dark Mill", "Another text.")])
    with pytest.raises(DataError, match="made from another corpus"):
        TripletTable.of(index, other)


@pytest.mark.parametrize(
    ("spec", "message"),
    [("triplets:", "needs a file of triplets"), ("triplets:x.json?k=2", "unknown option of triplets 'k'")],
)
def test_a_wrong_name_is_an_error(index: Index, spec: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_retriever(spec, index)


def test_it_opens_by_name(index: Index, tmp_path: Path) -> None:
    path = openie(tmp_path / "openie.json")
    retriever = open_triplets(index, path)
    assert retriever.name == f"triplets:{path}"
    assert retriever.encoder.name == "pocket"
    assert len(retriever.search("Who directed Dark Mill?", 2)) == 2
