"""ColBERT over checkpoints of random weights: markers, masks and augmentation against a second statement; the retriever
and the reranker against MaxSim in full; names, options and what is refused."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyhop.data.corpora import open_corpus
from polyhop.errors import DataError, MissingExtra, SettingError, UnknownName, UsageError
from polyhop.lm.scripted import ScriptedLM
from polyhop.pipeline import Pipeline
from polyhop.retrieval import (
    Index,
    build_index,
    checkpoints,
    open_plain_retriever,
    open_reranker,
    open_retriever,
    rerankers,
    retrievers,
)
from polyhop.retrieval.colbert import Colbert, ColbertCheckpoint, ColbertReranker
from polyhop.trace import Searched
from polyhop.types import Passage
from tests.kit import colbert, tiny_models
from tests.kit.tiny_models import one_torch_thread

__all__ = ["one_torch_thread"]

pytestmark = pytest.mark.extra

DRAW = random.Random(7)
TEXTS = ["river", "Who made the Dark Mill?", *(tiny_models.text(DRAW, count) for count in (1, 3, 9, 20, 60))]
PASSAGES = [
    Passage(
        f"p{at:02}",
        "Dark Mill" if at % 3 else "",
        f" {tiny_models.text(DRAW, DRAW.choice([2, 8, 15, 70]))}, the mill. ",
    )
    for at in range(30)
]
QUERY = "Who made the Dark Mill?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return colbert.make(tmp_path_factory.mktemp("colbert") / "tiny")


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return build_index(open_corpus(PASSAGES), tmp_path / "index")


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "mine"))


def opened(folder: Path, **options: Any) -> ColbertCheckpoint:
    return ColbertCheckpoint(f"colbert:{folder}", str(folder), **options)


def stripped(passage: Passage) -> Passage:
    return Passage(passage.id, passage.title.strip(), passage.text.strip())


def in_full(
    folder: Path, query: str, passages: Sequence[Passage], asked: int = 12, tokens: int = 40
) -> dict[str, float]:
    """MaxSim of each passage by the second statement, in 64 bits."""
    vectors = colbert.query(folder, query, asked)
    return {one.id: colbert.maxsim(vectors, colbert.passage(folder, stripped(one), tokens)) for one in passages}


# --- the encoders -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attend", [False, True])
@pytest.mark.parametrize("text", TEXTS)
def test_a_query_has_its_marker_and_is_filled_up_with_masks(copied: Path, text: str, attend: bool) -> None:
    (copied / "artifact.metadata").write_text(json.dumps({**colbert.METADATA, "attend_to_mask_tokens": attend}))
    vectors = opened(copied).query(text)
    assert vectors.shape == (12, colbert.SIZE)
    assert np.abs(vectors - np.array(colbert.query(copied, text, 12, attend=attend))).max() < 1e-5
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(12), abs=1e-5)


@pytest.mark.parametrize("punctuation", [False, True])
def test_a_passage_has_its_marker_and_no_vector_for_punctuation(copied: Path, punctuation: bool) -> None:
    (copied / "artifact.metadata").write_text(json.dumps({**colbert.METADATA, "mask_punctuation": not punctuation}))
    made = opened(copied, batch_size=4).passages(PASSAGES)
    assert len(made) == len(PASSAGES)
    for vectors, passage in zip(made, PASSAGES, strict=True):
        plain = np.array(colbert.passage(copied, stripped(passage), 40, punctuation=punctuation))
        assert vectors.shape == plain.shape
        assert np.abs(vectors - plain).max() < 1e-5
    assert opened(copied).passages([]) == []


def test_lengths_come_from_the_metadata_or_from_who_asks(folder: Path, copied: Path) -> None:
    asked = opened(folder, query_tokens=20, passage_tokens=10)
    assert asked.query(QUERY).shape == (20, colbert.SIZE)
    assert np.abs(asked.query(QUERY) - np.array(colbert.query(folder, QUERY, 20))).max() < 1e-5
    assert max(len(vectors) for vectors in asked.passages(PASSAGES)) <= 10
    (copied / "artifact.metadata").unlink()
    with pytest.raises(SettingError, match="takes at most 64 tokens; 180 are requested"):
        opened(copied)
    assert opened(copied, passage_tokens=64).query(QUERY).shape == (32, colbert.SIZE)


def test_torch_weights_are_read_without_running_code(tmp_path: Path, folder: Path) -> None:
    pickled = colbert.make(tmp_path / "pickled", weights="bin")
    assert np.array_equal(opened(pickled).query(QUERY), opened(folder).query(QUERY))
    assert opened(pickled).key != opened(folder).key  # their files differ

    class Runs:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "ran",))

    import torch

    torch.save({"linear.weight": Runs()}, pickled / "pytorch_model.bin")
    with pytest.raises(DataError, match=r"pytorch_model\.bin cannot be read"):
        opened(pickled)
    assert not (tmp_path / "ran").exists()


def test_the_key_changes_with_what_changes_a_passages_vectors(copied: Path, tmp_path: Path) -> None:
    key = opened(copied).key
    assert opened(copied, query_tokens=30, batch_size=1).key == key
    (copied / "artifact.metadata").write_text(json.dumps({**colbert.METADATA, "attend_to_mask_tokens": True}))
    assert opened(copied).key == key
    assert opened(Path(shutil.copytree(copied, tmp_path / "moved"))).key == key
    for options in ({"passage_tokens": 30}, {"dtype": "bfloat16"}):
        assert opened(copied, **options).key != key
    colbert.make(copied, seed=1)
    assert opened(copied).key != key


# --- the retriever ------------------------------------------------------------------------------------------------


def test_it_ranks_the_first_hits_of_another_by_maxsim(folder: Path, index: Index) -> None:
    retriever = open_plain_retriever(f"colbert:{folder}", index)
    assert isinstance(retriever, Colbert)
    assert (retriever.start.name, retriever.first) == ("bm25", 1000)
    for query in ["the mill", QUERY, "river of paris"]:
        plain = in_full(folder, query, PASSAGES)
        candidates = {passage.id for passage in retriever.start.search(query, 1000)}
        found = retriever.search_scored(query, 1000)
        assert {passage.id for passage, _ in found} == candidates
        for passage, score in found:
            assert score == pytest.approx(plain[passage.id], abs=0.03)
        assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
        assert retriever.search(query, 3) == [passage for passage, _ in found[:3]]
    assert retriever.search(" ", 3) == []
    assert retriever.search("xylophone", 3) == []


def test_options_set_the_source_and_number_of_candidates(folder: Path, index: Index) -> None:
    spec = f"colbert:{folder}?first=4&start=tfidf"
    retriever = open_plain_retriever(spec, index)
    assert isinstance(retriever, Colbert)
    assert retriever.name == spec
    first = retriever.start.search(QUERY, 4)
    assert sorted(retriever.search(QUERY, 2) + retriever.search(QUERY, 4)[2:], key=str) == sorted(first, key=str)
    assert len(retriever.search(QUERY, 6)) == 6  # as many as are asked for
    both = open_plain_retriever(f"hybrid:bm25+colbert:{folder}?first=9", index)
    assert len(both.search(QUERY, 5)) == 5
    inner = open_plain_retriever(f"colbert:{folder}?start=colbert:{folder}?first=3%26start=tfidf&first=2", index)
    assert isinstance(inner, Colbert)
    assert isinstance(inner.start, Colbert)
    assert (inner.first, inner.start.first, inner.start.start.name) == (2, 3, "tfidf")
    assert len(inner.search(QUERY, 2)) == 2


def test_a_ranking_is_the_same_alone_and_among_others(folder: Path, index: Index) -> None:
    retriever = open_plain_retriever(f"colbert:{folder}", index)
    assert isinstance(retriever, Colbert)
    queries = [text for text in TEXTS if text.strip()]
    together = retriever.search_many_scored(queries, 10)
    assert together == [retriever.search_scored(query, 10) for query in queries]
    assert together == retriever.search_many_scored(queries[::-1], 10)[::-1]


def test_passages_alike_are_in_the_order_of_their_ids(folder: Path, tmp_path: Path) -> None:
    alike = [Passage(name, "", "the dark mill of paris") for name in ("b", "c", "a")]
    index = build_index(open_corpus(alike), tmp_path / "alike")
    for k in (1, 2, 3):
        assert [passage.id for passage in open_plain_retriever(f"colbert:{folder}", index).search("mill", k)] == [
            *"abc"[:k]
        ]


async def test_search_in_the_chain_searches_by_it(folder: Path, index: Index) -> None:
    replies: dict[str, Any] = {
        "searchain.chain": {"nodes": [{"query": "the mill", "answer": "paris"}], "final": "paris"},
        "searchain.trace": {"content": "It is paris [1].", "answer": "paris"},
    }
    async with Pipeline(index, "searchain", ScriptedLM(replies), retriever=f"colbert:{folder}") as pipeline:
        answer = await pipeline.aask(QUERY)
    searches = [step for step in answer.trace.steps if isinstance(step, Searched)]
    best = open_plain_retriever(f"colbert:{folder}", index).search("the mill", 1)
    assert (searches[0].k, list(searches[0].passages)) == (1, best)


# --- the reranker -------------------------------------------------------------------------------------------------


async def test_it_reranks_what_any_retriever_found(folder: Path, index: Index) -> None:
    reranker = open_reranker(f"colbert:{folder}?first=12&batch_size=5")
    assert isinstance(reranker, ColbertReranker)
    assert (reranker.name, reranker.first) == (f"colbert:{folder}?first=12", 12)
    async with Pipeline(index, "one-r", ScriptedLM({}), retriever="tfidf", rerank=reranker) as pipeline:
        found = await pipeline.engine.search(QUERY, 5)
        hits = open_plain_retriever("tfidf", index).search(QUERY, 12)
    plain = in_full(folder, QUERY, hits)
    assert set(found) <= set(hits)
    least = min(plain[passage.id] for passage in found)
    assert all(plain[passage.id] <= least + 0.03 for passage in hits if passage not in found)


def test_its_scores_are_the_retrievers(folder: Path, index: Index) -> None:
    retriever = open_plain_retriever(f"colbert:{folder}", index)
    assert isinstance(retriever, Colbert)
    found = retriever.search_scored("the mill", 30)
    scores = open_reranker(f"colbert:{folder}").scores("the mill", [passage for passage, _ in found])  # type: ignore[attr-defined]
    assert scores == pytest.approx([score for _, score in found], abs=2e-3)


# --- what is refused ----------------------------------------------------------------------------------------------


def test_what_cannot_be_opened_says_why(copied: Path, index: Index, tmp_path: Path) -> None:
    assert {"colbert:"} <= set(retrievers()) & set(rerankers())
    for spec, message in {
        "colbert:": "needs the folder of a checkpoint",
        f"colbert:{tmp_path / 'none'}": "no such folder",
        f"colbert:{copied}?first=0": "first=0: must be at least 1",
        f"colbert:{copied}?first=few": "first=few: must be at least 1",
        f"colbert:{copied}?query_tokens=3": "query_tokens=3: must be above 3",
        f"colbert:{copied}?batch_size=0": "batch_size=0: must be at least 1",
        f"colbert:{copied}?dtype=int8": "dtype='int8': must be",
        f"colbert:{copied}?start=promptrank": "asks a language model",
        f"colbert:{copied}?first": "names no options: write .*first=…",
    }.items():
        with pytest.raises(UsageError, match=message):
            open_retriever(spec, index)
    with pytest.raises(UnknownName, match="unknown option of colbert 'frist'; did you mean 'first'"):
        open_retriever(f"colbert:{copied}?frist=2", index)
    with pytest.raises(UnknownName, match="unknown option of colbert 'start'"):
        open_reranker(f"colbert:{copied}?start=bm25")


@pytest.mark.parametrize(
    ("metadata", "complaint"),
    [
        ("{", "artifact.metadata is damaged"),
        ("[]", "artifact.metadata is damaged"),
        ('{"doc_maxlen": "40"}', "doc_maxlen is '40'"),
        ('{"doc_maxlen": true}', "doc_maxlen is True"),
        ('{"doc_maxlen": 2}', "lengths must be above 3"),
        ('{"similarity": "l2"}', "its similarity is l2; only cosine is supported"),
        ('{"query_token_id": "[Q]", "doc_maxlen": 40}', r"its tokenizer knows no \[Q\]"),
    ],
)
def test_metadata_of_other_things_is_refused(copied: Path, metadata: str, complaint: str) -> None:
    (copied / "artifact.metadata").write_text(metadata)
    with pytest.raises(UsageError, match=complaint):
        opened(copied)


def test_other_checkpoints_are_refused(copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (copied / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"model\.safetensors cannot be read"):
        opened(copied)
    (copied / "model.safetensors").unlink()
    with pytest.raises(DataError, match=r"neither model\.safetensors nor pytorch_model\.bin exists"):
        opened(copied)
    from tests.kit import encoders

    plain = encoders.make(tmp_path / "bert")
    (plain / "artifact.metadata").write_text(
        json.dumps({**colbert.METADATA, "query_token_id": ".", "doc_token_id": "?"})
    )
    with pytest.raises(UsageError, match=r"lacks \d+ weights, such as bert\..*: it is not a ColBERT checkpoint"):
        opened(plain)
    with pytest.raises(UsageError, match=r"is of roberta; ColBERT needs bert"):
        opened(encoders.make(tmp_path / "roberta", "roberta"))
    monkeypatch.setattr(checkpoints, "is_installed", lambda extra: False)
    with pytest.raises(MissingExtra, match=r"pip install 'polyhop\[hf\]'"):
        opened(copied)
