"""Retrievers by name: ours, registered ones, and those of installed packages."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from polyhop.data.corpora import open_corpus
from polyhop.errors import UnknownName, UsageError
from polyhop.pipeline import Pipeline
from polyhop.retrieval import (
    Index,
    Retriever,
    _retrievers,
    build_index,
    open_plain_retriever,
    open_retriever,
    register_retriever,
    retrievers,
)
from polyhop.retrieval.base import ScoringRetriever
from polyhop.retrieval.bm25 import BM25
from polyhop.retrieval.tfidf import TfIdf
from polyhop.types import Passage


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return build_index(open_corpus([Passage("1", "Kiln", "hot")]), tmp_path_factory.mktemp("registry") / "index")


class First:
    """Finds the first passages, whatever is asked."""

    name = "first"

    def __init__(self, index: Index) -> None:
        self.index = index

    def search(self, query: str, k: int) -> list[Passage]:
        return [self.index.passages.get(ordinal) for ordinal in range(min(k, len(self.index)))]

    def search_many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        return [self.search(query, k) for query in queries]

    def links(self, passage: Passage) -> list[Passage]:
        return self.index.links(passage)


class Elsewhere(ScoringRetriever):
    """The one passage of a location that is no index."""

    def __init__(self, location: str) -> None:
        self.name, self._location = f"elsewhere:{location}", location

    def _scored(self, query: str, k: int) -> list[tuple[Passage, float]]:
        return [(Passage(self._location, "", ""), 1.0)]

    def links(self, passage: Passage) -> list[Passage]:
        return []


def test_ours_are_opened_by_name(index: Index) -> None:
    assert isinstance(open_retriever("bm25", index), BM25)
    assert isinstance(open_retriever("tfidf", index), TfIdf)
    assert {"bm25", "tfidf"} <= set(retrievers())


def test_an_unknown_name_lists_those_there_are(index: Index) -> None:
    with pytest.raises(UnknownName, match=r"unknown retriever 'bm52'; did you mean 'bm25'\? Valid: .*bm25.*tfidf"):
        open_retriever("bm52", index)


def test_a_registered_one_is_opened_by_its_name(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_retrievers, "registered", dict(_retrievers.registered))
    assert register_retriever("first")(First) is First
    engine: Retriever = open_plain_retriever("first", index)
    assert [p.id for p in engine.search("anything", 3)] == ["1"]
    assert "first" in retrievers()


def test_one_that_brings_its_corpus_needs_no_index(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_retrievers, "registered", dict(_retrievers.registered))
    register_retriever("elsewhere:", brings_corpus=True)(lambda location: Elsewhere(location))
    for given in (index, None):
        assert open_plain_retriever("elsewhere:here", given).search("anything", 1) == [Passage("here", "", "")]
    with Pipeline(method="one-r", retriever="elsewhere:here") as pipeline:
        assert [p.id for p in pipeline.search("anything", 1)] == ["here"]
    register_retriever("elsewhere:")(lambda index, location: Elsewhere(location))
    with pytest.raises(UsageError, match="elsewhere:here searches a corpus: give one"):
        open_retriever("elsewhere:here", None)


def test_an_installed_packages_entry_point_is_opened_by_its_name(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = importlib.metadata.EntryPoint("theirs", f"{__name__}:First", "polyhop.retrievers")
    everything = importlib.metadata.EntryPoints([entry])
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **wanted: everything.select(**wanted))
    assert type(open_retriever("theirs", index)).__name__ == "First"
    assert "theirs" in retrievers()


def test_importing_the_room_loads_neither_engine() -> None:
    code = "import polyhop.retrieval, sys; print(sorted({'tantivy', 'numpy'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=Path.cwd())
    assert run.stdout.strip() == "[]"


def test_opening_anything_leaves_the_lists_of_names_to_be_called(index: Index) -> None:
    import polyhop.retrieval as room

    for name in ("lm", "lm?first=3"):
        room.open_reranker(name)
    assert "lm" in room.rerankers()
    assert "bm25" in room.retrievers()
