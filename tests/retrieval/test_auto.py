"""``auto``: BM25, over a small folder of files fused with the vectors of ``pocket``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import polyhop
from polyhop import retrieval
from polyhop.data.corpora import open_corpus
from polyhop.retrieval import build_index, open_plain_retriever
from polyhop.types import Passage

FUSED = "hybrid:relative:bm25+sentences:pocket"
ARTICLES = [
    Passage("pool", "House", "Ground floor: reception, pool (31 °C, 8 x 4 m). Upstairs: offices."),
    Passage("hours", "Hours", "The house is open from seven to nine."),
    Passage("fees", "Fees", "A year costs 240, a single visit 9."),
]
FILES = [replace(passage, metadata={"source": f"{passage.id}.md"}) for passage in ARTICLES]


def auto_over(passages: list[Passage], folder: Path, language: str = "english") -> str:
    corpus = open_corpus(passages)
    corpus.language = language
    return open_plain_retriever("auto", build_index(corpus, folder)).name


def test_it_fuses_over_files_and_searches_articles_by_bm25(tmp_path: Path) -> None:
    assert auto_over(FILES, tmp_path / "files") == FUSED
    assert auto_over(ARTICLES, tmp_path / "articles") == "bm25"
    assert auto_over([*FILES[1:], *ARTICLES[:1]], tmp_path / "both") == "bm25"


def test_it_searches_many_passages_and_other_languages_by_bm25(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert auto_over(FILES, tmp_path / "german", "german") == "bm25"
    monkeypatch.setattr(retrieval, "MAX_ENCODED", 2)
    assert auto_over(FILES, tmp_path / "many") == "bm25"


def test_over_files_it_finds_a_passage_without_a_word_of_the_question(tmp_path: Path) -> None:
    index = build_index(open_corpus(FILES), tmp_path / "index")
    question = "Where do I swim?"
    assert open_plain_retriever("bm25", index).search(question, 3) == []
    assert open_plain_retriever("auto", index).search(question, 3)[0].id == "pool"


@pytest.mark.parametrize("method", ["one-r", "hops", "tor"])
def test_methods_use_it_by_default(method: str) -> None:
    with polyhop.Pipeline(FILES, method, "pocket") as pipeline:
        assert pipeline.engine.retriever is not None
        assert pipeline.engine.retriever.name == FUSED
    with polyhop.Pipeline(FILES, method, "pocket", retriever="bm25") as pipeline:
        assert pipeline.engine.retriever is not None
        assert pipeline.engine.retriever.name == "bm25"
