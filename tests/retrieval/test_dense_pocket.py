"""``dense:pocket``: the network inside as a retriever, by the names that everyone uses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import polyhop
from polyhop.data.corpora import open_corpus
from polyhop.lm.pocket.encoder.network import EMBEDDER, FOLDER, WIDTH, fingerprint
from polyhop.retrieval import Index, build_index, open_index, open_plain_retriever, vectors
from polyhop.retrieval.encoders import local as encoders
from polyhop.retrieval.encoders import open_encoder
from polyhop.retrieval.encoders.local import PocketEncoder
from polyhop.types import Passage

PASSAGES = [
    Passage("mill", "Dark Mill", "Dark Mill is a 1931 German drama film directed by Rolf Anders."),
    Passage("ferry", "Ferry transport", "A ferry carries passengers and goods across water."),
    Passage("cello", "Cello", "The cello is a bowed string instrument of the violin family."),
    Passage("oak", "Oak", "An oak is a tree that bears acorns."),
]


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return build_index(open_corpus(PASSAGES), tmp_path / "index")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("Which boats take people over a river?", "ferry"),
        ("a movie from Germany", "mill"),
        ("musical instruments with strings", "cello"),
        ("what do acorns grow on", "oak"),
    ],
)
def test_it_finds_what_is_meant_without_the_words(index: Index, query: str, found: str) -> None:
    hits = open_plain_retriever("dense:pocket", index).search(query, 4)
    assert hits[0].id == found
    assert {hit.id for hit in hits} == {passage.id for passage in PASSAGES}


async def test_a_pipeline_searches_by_it_and_tells_its_name() -> None:
    async with polyhop.Pipeline(PASSAGES, "one-r", "pocket", retriever="dense:pocket", k=1) as pipeline:
        answer = await pipeline.aask("Which boats take people over a river?")
    assert answer.passages[0].id == "ferry"


def test_what_is_kept_is_known_by_the_networks_hash(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[int] = []
    made = PocketEncoder.passages

    def counted(self: PocketEncoder, passages: list[Passage]) -> object:
        encoded.append(len(passages))
        return made(self, passages)

    monkeypatch.setattr(PocketEncoder, "passages", counted)
    first = open_plain_retriever("dense:pocket", index).search("ferry", 4)
    assert PocketEncoder().key == fingerprint(FOLDER / EMBEDDER)
    assert open_plain_retriever("dense:pocket", open_index(index.folder)).search("ferry", 4) == first
    assert sum(encoded) == len(PASSAGES)
    monkeypatch.setattr(encoders, "fingerprint", lambda _: "of another network")
    open_plain_retriever("dense:pocket", open_index(index.folder))
    assert sum(encoded) == 2 * len(PASSAGES)
    assert vectors.encodings(index)[0] == {"encoder": "pocket", "size": WIDTH, "passages": len(PASSAGES)}


def test_queries_and_passages_are_vectors_of_length_one() -> None:
    encoder = open_encoder("pocket")
    queries, passages = encoder.queries(["a ferry", "  a ferry\n", ""]), encoder.passages(PASSAGES)
    assert queries.shape == (3, encoder.size)
    assert passages.shape == (len(PASSAGES), encoder.size)
    assert passages.dtype == np.float32
    assert np.array_equal(queries[0], queries[1])
    lengths = np.linalg.norm(np.concatenate([queries, passages]), axis=1)
    assert np.abs(lengths - 1.0).max() < 1e-3
    assert np.array_equal(encoder.passages(PASSAGES[::-1]), passages[::-1])
    assert np.array_equal(np.concatenate([encoder.passages([passage]) for passage in PASSAGES]), passages)


@pytest.mark.slow
def test_it_searches_without_torch() -> None:
    code = (
        "import sys, polyhop\n"
        f"passages = [polyhop.Passage(*each) for each in {json.dumps([[p.id, p.title, p.text] for p in PASSAGES])}]\n"
        "with polyhop.Pipeline(passages, 'one-r', 'pocket', retriever='dense:pocket', k=1) as pipeline:\n"
        "    print(pipeline.ask('What carries people over water?').passages[0].id)\n"
        "print([name for name in ('torch', 'transformers', 'tokenizers', 'faiss') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["ferry", "[]"]
