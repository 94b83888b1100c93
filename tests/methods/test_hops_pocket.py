"""Pocket's path scorer: the features and scores of paths, and that a score is the same in any batch."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.data.corpora import open_corpus
from polyhop.lm.pocket.paths import (
    UNNAMED_PENALTY,
    leads,
    likelihood_scores,
    path_scores,
    start_features,
    step_features,
    weigh_question,
)
from polyhop.lm.pocket.reading.tables import weights
from polyhop.methods.as_retriever import HopsRetriever
from polyhop.pipeline import Pipeline
from polyhop.retrieval.bm25 import BM25
from polyhop.retrieval.index import Index, build_index
from polyhop.types import Passage
from tests.conftest import SHARED

FILM = Passage("f", "Dark Mill (film)", "Dark Mill is a film of 1951. It was directed by Ann Lee in Ost.")
PERSON = Passage("p", "Ann Lee", "Ann Lee, who made Dark Mill, was born in Elstow.")
TOWN = Passage("t", "Ost", "Ost is a town on the Brenner.")
QUESTION = "In which town was the director of Dark Mill born?"
PASSAGES = [FILM, PERSON, TOWN, Passage("e", "", ""), Passage("x", "?!", "…")]
PATHS = st.lists(st.lists(st.sampled_from(PASSAGES), min_size=1, max_size=4), max_size=6)


def test_features_of_a_first_passage() -> None:
    features = start_features(weigh_question(QUESTION, [TOWN, FILM]), FILM)
    assert features.keys() == weights().path_start.keys()
    assert (features["title in question"], features["names"], features["comparison, title in question"]) == (
        1.0,
        1.0,
        0.0,
    )
    assert features["place"] == math.log1p(1)
    assert start_features(weigh_question(QUESTION, [TOWN, FILM]), PERSON)["place"] == math.log1p(2)  # behind all found
    assert 0 < features["first sentence"] < features["coverage"] < 1
    assert (
        start_features(weigh_question("Which is older, Ost or Dark Mill?", []), TOWN)["comparison, title in question"]
        == 1
    )


def test_features_of_a_further_passage() -> None:
    question = weigh_question(QUESTION, [TOWN, FILM])
    features = step_features(question, [FILM], PERSON)
    assert features.keys() == weights().path_step.keys()
    assert features["mention"] == question.share({"direct"})  # the sentence that leads to her says who directed
    assert features["mentions back"] == 1.0
    assert features["new"] == question.share({"birth"})
    apart = step_features(question, [TOWN], FILM)
    assert (apart["mention"], apart["mentions back"]) == (0.0, 1.0)
    assert step_features(question, [FILM], PASSAGES[4])["mention"] == 0.0  # a title without a word is mentioned nowhere


def test_a_rare_word_weighs_more() -> None:
    question = weigh_question("mill town", [FILM, TOWN, *[Passage(str(n), "", "mill") for n in range(5)]])
    assert question.weights["town"] > question.weights["mill"]


def test_a_path_over_the_bridge_scores_more_than_its_end_alone() -> None:
    on, alone, off = path_scores(QUESTION, [[FILM, PERSON], [PERSON], [TOWN, PERSON]], [FILM, TOWN])
    assert on > alone
    assert on > off
    near, far = likelihood_scores(QUESTION, [[FILM, PERSON], [TOWN]])
    assert near > far


@given(st.text(max_size=60), PATHS, st.lists(st.sampled_from(PASSAGES), unique=True))
def test_a_score_depends_on_the_question_the_path_and_the_passages_found_alone(
    question: str, paths: list[list[Passage]], found: list[Passage]
) -> None:
    scores = path_scores(question, paths, found)
    assert all(map(math.isfinite, scores))
    assert scores == [path_scores(question, [path], found)[0] for path in paths]
    likely = likelihood_scores(question, paths)
    assert all(map(math.isfinite, likely))
    assert likely == [likelihood_scores(question, [path])[0] for path in paths]


def test_leads_are_names_read_off_a_path() -> None:
    names = leads(QUESTION, [FILM], 2)
    assert names == leads(QUESTION, [FILM], 2)
    assert any("Ann Lee" in name for name in names)
    assert len(leads(QUESTION, [FILM], 1)) == 1
    assert leads(QUESTION, [FILM], 0) == leads(QUESTION, [PASSAGES[3]], 2) == []


def test_no_lead_is_in_the_question_or_a_title() -> None:
    for path in ([FILM], [FILM, PERSON], [TOWN]):
        held = " ".join([QUESTION, *(passage.title for passage in path)]).lower()
        assert not [name for name in leads(QUESTION, path, 8) if name.lower() in held]


def test_an_unnamed_passage_scores_less() -> None:
    """The same words under a title that the film's page names, and under one that it does not."""
    stranger = Passage("s", "Eva Horn", PERSON.text)
    named, unnamed = path_scores(QUESTION, [[FILM, PERSON], [FILM, stranger]], [FILM, TOWN])
    assert named > unnamed + UNNAMED_PENALTY


@pytest.fixture(scope="module")
def index_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Index]:
    """The index of a benchmark's sample, built once."""
    folder = tmp_path_factory.mktemp("indexes")
    return cache(lambda name: build_index(open_corpus(SHARED / name / "corpus.jsonl"), folder / name))


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "scorer", "questions", "floor"),
    [
        ("hotpotqa", "reasons", 100, 0.88), ("2wikimultihopqa", "reasons", 66, 0.90), ("musique", "reasons", 100, 0.56),
        ("hotpotqa", "pocket", 8, 0.80), ("2wikimultihopqa", "pocket", 8, 0.85), ("musique", "pocket", 8, 0.45),
    ],
)  # fmt: skip
def test_it_ranks_as_well_as_measured(
    index_of: Callable[[str], Index], name: str, scorer: Literal["reasons", "pocket"], questions: int, floor: float
) -> None:
    found, index = [], index_of(name)
    with Pipeline(index, "one-r", retriever=HopsRetriever(BM25(index), scorer=scorer)) as pipeline:
        for line in (SHARED / name / "dev.jsonl").read_text(encoding="utf-8").splitlines()[:questions]:
            row = json.loads(line)
            gold = set(row["gold_pids"])
            found.append(len(gold & {hit.id for hit in pipeline.search(row["question"], 5)}) / len(gold))
    assert sum(found) / len(found) >= floor
