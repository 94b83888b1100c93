"""HippoRAG 2 worked by hand: the facts that the model sees, where walks start, and what they come to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyhop.data.openie import Extraction, content_of, write_openie
from polyhop.errors import UsageError
from polyhop.lm.scripted import ScriptedLM
from polyhop.pipeline import Pipeline
from polyhop.prompts.triplets import write_triplet
from polyhop.retrieval import open_retriever
from polyhop.retrieval.hipporag import HippoRAG, compared, graph_of, synonyms
from polyhop.retrieval.index import Index
from polyhop.retrieval.triplets import TripletTable
from polyhop.retrieval.updating import remove_passages
from tests.retrieval.test_triplets import PASSAGES, Words, index, openie, triplet

__all__ = ["index"]  # a fixture
QUESTION = "Where was the one born who directed Dark Mill?"
DIRECTED = "(Dark Mill; directed by; Ann Lee)"


def table_of(index: Index, folder: Path) -> TripletTable:
    return TripletTable.of(index, openie(folder / "openie.json"))


async def search(index: Index, folder: Path, reply: str, **options: Any) -> tuple[list[str], ScriptedLM]:
    """The ids found for the question, and the model with its calls."""
    model = ScriptedLM({"hipporag.filter": [reply] * 2, "answer.read": "Answer: Oslo"})
    limits = {name: options.pop(name) for name in ("max_calls",) if name in options}
    retriever = HippoRAG(index, table_of(index, folder), Words(), **options)
    async with Pipeline(index, "one-r", model, retriever=retriever, k=4, **limits) as pipeline:
        answer = await pipeline.aask(QUESTION)
    return [passage.id for passage in answer.passages], model


async def test_the_model_selects_from_the_facts_nearest_to_the_query(index: Index, tmp_path: Path) -> None:
    found, model = await search(index, tmp_path, DIRECTED, facts=3)
    call = model.calls[0]
    assert (call.task, call.fields["question"]) == ("hipporag.filter", QUESTION)
    assert list(map(write_triplet, call.fields["triplets"])) == [
        DIRECTED, "(Dark Mill; filmed in; Rome)", "(Ann Lee; born in; Oslo)",
    ]  # fmt: skip
    assert set(found[:2]) == {"mill", "lee"}  # the passages of "dark mill" and "ann lee"


async def test_walks_reach_a_passage_that_shares_no_word_with_the_query(index: Index, tmp_path: Path) -> None:
    """Rome's page is reached by the name that it shares with a selected fact; nothing leads to the other."""
    found, _ = await search(index, tmp_path, "(Dark Mill; filmed in; Rome)", passage_weight=0.001)
    assert found.index("rome") < found.index("other")


@pytest.mark.parametrize(("reply", "calls"), [("none", 1), ("Well, let me think.", 2), ("(Ann; made; it)", 1)])
async def test_without_a_selected_fact_dense_retrieval_answers(
    index: Index, tmp_path: Path, reply: str, calls: int
) -> None:
    found, model = await search(index, tmp_path, reply)
    dense = [passage.id for passage in HippoRAG(index, table_of(index, tmp_path), Words()).start.search(QUESTION, 4)]
    assert found == dense
    assert [call.task for call in model.calls] == [*["hipporag.filter"] * calls, "answer.read"]


async def test_without_recognition_no_model_is_asked(index: Index, tmp_path: Path) -> None:
    _, model = await search(index, tmp_path, "none", recognise=False)
    assert [call.task for call in model.calls] == ["answer.read"]


async def test_a_spent_budget_leaves_the_facts_as_they_were_found(index: Index, tmp_path: Path) -> None:
    found, model = await search(index, tmp_path, "none", max_calls=1)
    unfiltered, _ = await search(index, tmp_path, "none", recognise=False)
    assert (found, [call.task for call in model.calls]) == (unfiltered, ["answer.read"])


def test_a_phrase_starts_walks_by_its_facts_scores_and_its_rarity(index: Index, tmp_path: Path) -> None:
    """The mean score of the facts with a phrase, over the number of passages with it; the best five phrases."""
    retriever = HippoRAG(index, table_of(index, tmp_path), Words())
    weights = dict(retriever._phrase_weights([0, 1], np.array([1.0, 0.5, 0.0, 0.0])))
    # dark mill: (1 / 2 + 0.5 / 2) / 2, in the passages mill and lee; ann lee: 1 / 2; rome: 0.5 / 2
    assert weights == {0: 0.375, 1: 0.5, 2: 0.25}
    assert len(retriever._phrase_weights([0, 1, 2, 3], np.ones(4))) == 5


def test_edges_join_triplets_passages_and_synonyms(index: Index, tmp_path: Path) -> None:
    table = table_of(index, tmp_path)
    pairs = np.array([[2, 4], [4, 2]])  # rome and italy, which a triplet joins too
    graph, passages = graph_of(index, table, (pairs, np.array([0.9, 0.9])))
    assert passages.tolist() == [2, 2, 2, 1, 1]
    weights = np.zeros((9, 9))
    for node in range(9):
        for edge in range(int(graph.starts[node]), int(graph.starts[node + 1])):
            weights[node, int(graph.targets[edge])] += float(graph.weights[edge])
    # dark mill: directed by is stated twice, in both directions; filmed in once; two passages
    assert weights[0].round(3).tolist() == [0, 0.5, 0.25, 0, 0, 0.125, 0.125, 0, 0]
    # italy: the synonym in place of the triplet, and Rome's page
    assert weights[4].round(3).tolist() == [0, 0, round(1.8 / 2.8, 3), 0, 0, 0, 0, round(1 / 2.8, 3), 0]
    assert weights[8].tolist() == [0.0] * 9  # a passage without triplets


def test_synonyms_are_near_long_enough_and_not_themselves() -> None:
    phrases = ["ann lee", "anne lee", "rome", "ab"]
    vectors = np.array([[1, 0], [0.9, np.sqrt(1 - 0.81)], [0, 1], [1, 0]], np.float16)
    pairs, cosines = compared(phrases, vectors)
    assert pairs.tolist() == [[0, 3], [0, 1], [1, 0], [1, 3]]  # "ab" is too short to have synonyms, not to be one
    assert cosines.round(2).tolist() == [1.0, 0.9, 0.9, 0.9]


def test_synonyms_are_compared_once(index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    phrases = table_of(index, tmp_path).phrases
    first = synonyms(index, phrases, Words())
    monkeypatch.setattr("polyhop.retrieval.hipporag.compared", None)
    again = synonyms(index, phrases, Words())
    assert [part.tolist() for part in first] == [part.tolist() for part in again]


def test_removed_passages_are_never_found(index: Index, tmp_path: Path) -> None:
    removed = remove_passages(index.folder, ["lee"]).index
    retriever = HippoRAG(removed, TripletTable.of(removed, openie(tmp_path / "openie.json")), Words(), recognise=False)
    found = retriever._walk(QUESTION, [0], np.array([1.0, 0.5, 0.0]), 9)
    assert sorted(passage.id for passage in found) == ["mill", "other", "rome"]


def test_a_passage_is_found_by_the_facts_of_others_alone(index: Index, tmp_path: Path) -> None:
    """A page without triplets still has its dense score."""
    write_openie(
        tmp_path / "part.json", [Extraction(content_of(PASSAGES[0]), (), (triplet("Dark Mill filmed in Rome"),))]
    )
    retriever = HippoRAG(index, TripletTable.of(index, str(tmp_path / "part.json")), Words(), recognise=False)
    found = retriever._walk("Lee born in Oslo", [0], np.array([1.0]), 2)
    assert [passage.id for passage in found] == ["mill", "lee"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("?recognise=maybe", "must be yes or no"),
        ("?damping=1", "must be above 0 and below 1"),
        ("?damping=x", "must be a number"),
        ("?passage_weight=-1", "must be at least 0"),
        ("?facts=0", "must be at least 1"),
        ("?first=3", "unknown option of hipporag 'first'"),
    ],
)
def test_a_wrong_option_is_an_error(index: Index, tmp_path: Path, options: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_retriever(f"hipporag:{openie(tmp_path / 'openie.json')}{options}", index)


def test_it_opens_by_name(index: Index, tmp_path: Path) -> None:
    spec = f"hipporag:{openie(tmp_path / 'openie.json')}?damping=0.4&recognise=no"
    with Pipeline(index, "one-r", retriever=spec) as pipeline:
        assert pipeline.engine.retriever is not None
        assert pipeline.engine.retriever.name == spec
        assert len(pipeline.search(QUESTION, 2)) == 2
