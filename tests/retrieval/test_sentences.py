"""Dense retrieval by the sentence of a passage that is nearest to the query."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyhop.data.corpora import open_corpus
from polyhop.errors import UsageError
from polyhop.retrieval import build_index, open_index, open_plain_retriever, token_vectors
from polyhop.retrieval.sentences import NearestSentence, sentences_of
from polyhop.retrieval.updating import add_passages, remove_passages
from polyhop.types import Passage

WORDS = ("pool", "fee", "dog", "roof")
PASSAGES = [
    Passage("all", "House", "The pool is warm. A fee is due. A dog may come.\nThe roof is red"),
    Passage("mixed", "House", "A pool, a fee, a dog and a roof."),
    Passage("roof", "Roof", "The roof is red."),
    Passage("none", "Garden", "Nothing of all that."),
]


class Counting:
    """Encodes a text as how often each word is in it; records the titles and texts of what it encoded."""

    name, key, size = "dense:counting", "counting", len(WORDS)

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def queries(self, texts: Sequence[str]) -> Any:
        return np.array([[text.lower().count(word) for word in WORDS] for text in texts], np.float32)

    def passages(self, passages: Sequence[Passage]) -> Any:
        self.encoded += [f"{passage.title}: {passage.text}" for passage in passages]
        return self.queries([f"{passage.title} {passage.text}" for passage in passages])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    build_index(open_corpus(PASSAGES), tmp_path / "index")
    return tmp_path / "index"


def test_a_passage_scores_as_its_nearest_sentence(folder: Path) -> None:
    retriever = NearestSentence(open_index(folder), Counting())
    assert retriever.name == "sentences:counting"
    found = retriever.search_scored("Is there a fee?", 3)
    assert [(passage.id, round(score, 2)) for passage, score in found] == [("all", 1.0), ("mixed", 0.5), ("none", 0.0)]
    assert [passage.id for passage in retriever.search("roof", 1)] == ["all"]  # a tie, broken by the id
    assert retriever.search(" ", 3) == []
    assert retriever.search_many(["dog", "fee"], 9) == [retriever.search("dog", 9), retriever.search("fee", 9)]
    with pytest.raises(UsageError, match="k is 0"):
        retriever.search("roof", 0)


def test_each_sentence_is_encoded_once_under_its_title(folder: Path) -> None:
    encoder = Counting()
    NearestSentence(open_index(folder), encoder)
    assert encoder.encoded[:4] == [
        "House: The pool is warm.", "House: A fee is due.", "House: A dog may come.", "House: The roof is red",
    ]  # fmt: skip
    NearestSentence(open_index(folder), encoder)
    assert len(encoder.encoded) == 7
    assert sentences_of(Passage("0", "Empty", "")) == [Passage("0", "Empty", "")]


def test_after_an_update_only_new_passages_are_encoded_and_removed_ones_are_not_found(folder: Path) -> None:
    NearestSentence(open_index(folder), Counting())
    add_passages(folder, open_corpus([Passage("new", "Dog", "A dog sleeps. The fee is 9.")]))
    remove_passages(folder, ["all"])
    encoder = Counting()
    retriever = NearestSentence(open_index(folder), encoder)
    assert encoder.encoded == ["Dog: A dog sleeps.", "Dog: The fee is 9."]
    assert [passage.id for passage in retriever.search("dog", 9)] == ["new", "mixed", "none", "roof"]


def test_vectors_are_carried_from_an_update_to_the_next_after_a_stop(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    NearestSentence(open_index(folder), Counting())
    add_passages(folder, open_corpus([Passage("new", "Dog", "A dog sleeps.")]))

    def stop(stream: Any, numbers: Any) -> None:
        stream.write(numbers.tobytes()[:5])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(token_vectors, "_put", stop)
        with pytest.raises(KeyboardInterrupt):
            NearestSentence(open_index(folder), Counting())
    add_passages(folder, open_corpus([Passage("last", "Fee", "The fee is 9.")]))
    encoder = Counting()
    assert NearestSentence(open_index(folder), encoder).search("fee", 2)[1].id == "last"
    assert encoder.encoded == ["Dog: A dog sleeps.", "Fee: The fee is 9."]


def test_the_built_in_encoder_finds_a_sentence_among_others(tmp_path: Path) -> None:
    other = "The kitchen closes at nine. Bicycles stand in the yard. The lift is being mended. Keys are at the desk. "
    passages = [Passage("1", "House", f"{other}You can swim in the cellar."), Passage("2", "House", other * 2)]
    index = build_index(open_corpus(passages), tmp_path / "index")
    assert open_plain_retriever("sentences:pocket", index).search("Where is the pool?", 1) == passages[:1]


def test_it_needs_an_encoder(folder: Path) -> None:
    with pytest.raises(UsageError, match="sentences: needs an encoder, as in sentences:pocket"):
        open_plain_retriever("sentences:", open_index(folder))


def test_no_score_depends_on_the_order_of_two_compared_things(tmp_path: Path) -> None:
    index = build_index(open_corpus(PASSAGES), tmp_path / "index")
    retriever = open_plain_retriever("sentences:pocket", index)
    assert isinstance(retriever, NearestSentence)
    one, other = (retriever.search_scored(f"Which is older, {things}?", 4) for things in ("Ost or Wik", "Wik or Ost"))
    assert one == other
