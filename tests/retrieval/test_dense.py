"""Dense retrieval over an encoder of words: what is found, when it is encoded, what the engine and the command line
make of it."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polyhop
from polyhop.cli import corpora as cli_corpora
from polyhop.cli import main
from polyhop.data.corpora import open_corpus
from polyhop.engine.engine import Engine
from polyhop.engine.models import Models
from polyhop.engine.run import Run
from polyhop.errors import DataError, IndexFolderError, SettingError, UsageError
from polyhop.lm import ScriptedLM
from polyhop.retrieval import Index, build_index, open_index, open_retriever, vectors
from polyhop.retrieval.base import Reranked, as_retriever
from polyhop.retrieval.bm25 import BM25
from polyhop.retrieval.dense import Dense, open_dense
from polyhop.retrieval.encoders.base import shown
from polyhop.retrieval.hybrid import Hybrid
from polyhop.retrieval.tfidf import similarities
from polyhop.types import Passage
from tests.kit.encoders import WordEncoder, counted, embeddings, served
from tests.kit.tiny_models import WORDS

QUERIES = ["Who made the Dark Mill?", "born in paris", "city river city", "paris", "dark dark dark"]


def passages(count: int, seed: int = 0) -> list[Passage]:
    """Passages of few words, in an order that is not that of their ids, so that many tie."""
    draw = random.Random(seed)
    ids = draw.sample([f"p{number:03}" for number in range(count)], count)
    return [Passage(id, draw.choice(["", "Dark Mill"]), " ".join(draw.choices(WORDS, k=4))) for id in ids]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    return build_index(open_corpus(passages(80)), tmp_path_factory.mktemp("dense") / "index")


@pytest.fixture(scope="module")
def dense(index: Index) -> Dense:
    return Dense(index, WordEncoder())


def in_plain_words(index: Index, query: str, k: int) -> list[tuple[str, float]]:
    """The ids of the best by the inner product, then by id, each product made by itself."""
    asked = counted(query, 32)
    scored = [
        (passage.id, sum(a * b for a, b in zip(asked, counted(shown(passage), 32), strict=True)))
        for passage in index.passages
    ]
    return sorted(scored, key=lambda hit: (-hit[1], hit[0]))[:k]


@settings(max_examples=40, deadline=None)
@given(query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join), k=st.integers(1, 100))
def test_it_finds_what_every_product_shows_ties_by_id(index: Index, dense: Dense, query: str, k: int) -> None:
    assert [(passage.id, score) for passage, score in dense.search_scored(query, k)] == in_plain_words(index, query, k)


def test_many_queries_are_one_by_one(dense: Dense) -> None:
    queries = [*QUERIES, "", "  "]
    assert dense.search_many(queries, 7) == [dense.search(query, 7) for query in queries]
    assert dense.search_many(queries, 7)[-2:] == [[], []]
    assert dense.search_many([], 7) == []
    with pytest.raises(UsageError, match="k is 0"):
        dense.search("paris", 0)


def test_passages_are_encoded_once(index: Index, tmp_path: Path) -> None:
    fresh = build_index(open_corpus(passages(9)), tmp_path / "index")
    first, second, other = WordEncoder(), WordEncoder(), WordEncoder(size=16)
    for encoder in (first, second, other):
        assert len(Dense(fresh, encoder).search("paris", 100)) == 9
    assert first.encoded == other.encoded == [passage.id for passage in fresh.passages]
    assert second.encoded == []


def test_an_index_without_passages_encoded_tells_nothing_of_vectors(tmp_path: Path) -> None:
    fresh = build_index(open_corpus(passages(9)), tmp_path / "index")
    assert vectors.encodings(fresh) == []
    Dense(fresh, WordEncoder())
    assert vectors.encodings(fresh) == [{"encoder": "dense:words", "size": 32, "passages": 9}]
    (folder,) = fresh.state.glob("vectors-*[0-9a-f]")
    (folder / "vectors").write_bytes(b"")
    with pytest.raises(IndexFolderError, match="truncated or damaged"):
        vectors.encodings(fresh)


# --- vectors from a file ------------------------------------------------------------------------------------------


@pytest.fixture
def words(monkeypatch: pytest.MonkeyPatch) -> WordEncoder:
    """The encoder that the name ``words`` opens."""
    encoder = WordEncoder()
    opened: dict[str, Any] = {"words": encoder}
    monkeypatch.setattr("polyhop.retrieval.dense.open_encoder", opened.__getitem__)
    monkeypatch.setattr("polyhop.retrieval.encoders.open_encoder", opened.__getitem__)
    return encoder


@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_vectors_from_a_file_are_searched_as_encoded_ones(
    index: Index, dense: Dense, words: WordEncoder, tmp_path: Path, kind: str
) -> None:
    np.save(tmp_path / "v.npy", WordEncoder().passages(list(index.passages)).astype(kind))
    given_ones = open_retriever(f"dense:vectors:{tmp_path / 'v.npy'}@words", index)
    assert isinstance(given_ones, Dense)
    assert given_ones.name == f"dense:vectors:{tmp_path / 'v.npy'}@words"
    assert words.encoded == []
    assert [given_ones.search_scored(query, 9) for query in QUERIES] == [
        dense.search_scored(query, 9) for query in QUERIES
    ]


def test_vectors_that_do_not_fit_are_refused(index: Index, words: WordEncoder, tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.zeros((80, 31), "float32"))
    with pytest.raises(DataError, match="holds 80 x 31 numbers; the corpus and its encoder make 80 x 32"):
        open_dense(index, f"vectors:{tmp_path / 'v.npy'}@words")
    with pytest.raises(SettingError, match=r"needs a file and the encoder for queries, as in dense:vectors:e5\.npy@"):
        open_dense(index, "vectors:v.npy")


# --- the run's embedder -------------------------------------------------------------------------------------------


async def likened(retriever: Any, text: str, texts: Sequence[str]) -> list[float]:
    engine = Engine(models=Models({"default": ScriptedLM({})}), retriever=retriever and as_retriever(retriever))
    return Run(engine, "q", "m", "qa").similarity(text, texts)


class Back:
    """A reranker that ranks nothing anew."""

    name, first = "back", 5

    async def rerank_by(self, run: Any, query: str, found: Sequence[Passage], k: int) -> Sequence[Passage]:
        return found[:k]


async def test_similarity_is_the_dense_retrievers_else_tfidf(index: Index, dense: Dense) -> None:
    texts = ["dark mill", "the city of paris", "", "dark river"]
    expected = [1.0, 0.0, 0.0, 0.5]
    sparse = BM25(index)
    dense_ones: list[Any] = [dense, Reranked(dense, Back()), Hybrid(index, [(sparse, 1), (dense, 1)])]
    for retriever in dense_ones:
        assert await likened(retriever, "Dark Mill", texts) == pytest.approx(expected, abs=1e-6)
    others: list[Any] = [sparse, None, Hybrid(index, [(sparse, 1), (BM25(index), 2)]), lambda query, k: []]
    for retriever in others:
        assert await likened(retriever, "Dark Mill", texts) == similarities("Dark Mill", texts)
    assert await likened(dense, "Dark Mill", []) == []


def test_a_pipeline_answers_over_it(dense: Dense) -> None:
    with polyhop.Pipeline(retriever=dense, method="one-r", lm="pocket") as qa:
        assert qa.ask("Who made the Dark Mill?").trace.searches
        assert qa.search("paris", 3) == dense.search("paris", 3)


# --- the command line ---------------------------------------------------------------------------------------------


def build(corpus: Path, out: Path, **other: Any) -> None:
    cli_corpora.index_build(corpus, out, dense="words", **other)


def test_an_index_is_built_with_vectors_and_goes_on_after_a_stop(
    words: WordEncoder, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "_SHARD", 4)
    corpus, out = tmp_path / "corpus.jsonl", tmp_path / "index"
    corpus.write_text("".join(json.dumps(passage.to_dict()) + "\n" for passage in passages(20)))
    words.stop_at = passages(20)[13].id
    with pytest.raises(KeyboardInterrupt):
        build(corpus, out)
    made = (out / "manifest.json").stat().st_mtime_ns
    words.stop_at, before = None, len(words.encoded)
    build(corpus, out)
    assert "vectors: 20 of 32 numbers by dense:words" in capsys.readouterr().out
    assert before == 12
    assert len(words.encoded) == before + 12  # the last whole shard may have been lost on its way to the disk
    assert (out / "manifest.json").stat().st_mtime_ns == made
    cli_corpora.index_info(out, as_json=True)
    assert json.loads(capsys.readouterr().out)["dense"] == [{"encoder": "dense:words", "size": 32, "passages": 20}]


def test_another_index_is_never_taken_for_the_stopped_one(words: WordEncoder, tmp_path: Path) -> None:
    corpus, out = tmp_path / "corpus.jsonl", tmp_path / "index"
    corpus.write_text("".join(json.dumps(passage.to_dict()) + "\n" for passage in passages(5)))
    build(corpus, out)
    with pytest.raises(IndexFolderError, match="exists already"):
        build(corpus, out, stem=False)
    corpus.write_text("".join(json.dumps(passage.to_dict()) + "\n" for passage in passages(6)))
    with pytest.raises(IndexFolderError, match="in another state"):
        build(corpus, out)
    build(corpus, out, overwrite=True)


def test_from_the_command_to_the_passage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, out = tmp_path / "corpus.jsonl", str(tmp_path / "index")
    corpus.write_text("".join(json.dumps(passage.to_dict()) + "\n" for passage in passages(40)))

    def run_cli(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["polyhop", *arguments])
        with suppress(SystemExit):
            main()
        return capsys.readouterr().out

    with served(embeddings) as (url, asked):
        encoder = f"openai:tiny@{url}"
        built = run_cli("index", "build", str(corpus), "--out", out, "--dense", encoder)
        assert f"vectors: 40 of 32 numbers by dense:{encoder}" in built
        before = sum(len(body["input"]) for body in asked)
        plain = run_cli("search", out, "river river", "-k", "3", "--retriever", f"dense:{encoder}", "--json")
        assert [row["id"] for row in json.loads(plain)] == [
            passage.id for passage in Dense(open_index(out), WordEncoder()).search("river river", 3)
        ]
        both = run_cli("search", out, "river", "-k", "3", "--retriever", f"hybrid:bm25+dense:{encoder}", "--json")
        assert len(json.loads(both)) == 3
        assert sum(len(body["input"]) for body in asked) == before + 4  # each opening asks for the size, then the query
