"""The path scorer inside: what raises a path, and that it is the same however it is asked."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.lm.pocket.paths import likelihood_scores, path_scores, sought, start_reasons, step_reasons
from polyhop.lm.pocket.weights import START, STEP
from polyhop.pipeline import Pipeline
from polyhop.types import Passage
from tests.conftest import SHARED

FILM = Passage("f", "Dark Mill (film)", "Dark Mill is a film of 1951. It was directed by Ann Lee in Ost.")
PERSON = Passage("p", "Ann Lee", "Ann Lee, who made Dark Mill, was born in Elstow.")
TOWN = Passage("t", "Ost", "Ost is a town on the Brenner.")
QUESTION = "In which town was the director of Dark Mill born?"
PASSAGES = [FILM, PERSON, TOWN, Passage("e", "", ""), Passage("x", "?!", "…")]
PATHS = st.lists(st.lists(st.sampled_from(PASSAGES), min_size=1, max_size=4), max_size=6)


def test_reasons_to_begin_with_a_passage() -> None:
    told = start_reasons(sought(QUESTION, [TOWN, FILM]), FILM)
    assert told.keys() == START.keys()
    assert (told["title in question"], told["names"], told["comparison, title in question"]) == (1.0, 1.0, 0.0)
    assert told["place"] == math.log1p(1)
    assert start_reasons(sought(QUESTION, [TOWN, FILM]), PERSON)["place"] == math.log1p(2)  # behind all found
    assert 0 < told["first sentence"] < told["coverage"] < 1
    assert start_reasons(sought("Which is older, Ost or Dark Mill?", []), TOWN)["comparison, title in question"] == 1


def test_reasons_to_go_on_with_a_passage() -> None:
    asked = sought(QUESTION, [TOWN, FILM])
    told = step_reasons(asked, [FILM], PERSON)
    assert told.keys() == STEP.keys()
    assert told["mention"] == asked.share({"direct"})  # the sentence that leads to her says who directed
    assert told["mentions back"] == 1.0
    assert told["new"] == asked.share({"birth"})
    apart = step_reasons(asked, [TOWN], FILM)
    assert (apart["mention"], apart["mentions back"]) == (0.0, 1.0)
    assert step_reasons(asked, [FILM], PASSAGES[4])["mention"] == 0.0  # a title without a word is mentioned nowhere


def test_a_word_of_few_passages_weighs_more() -> None:
    asked = sought("mill town", [FILM, TOWN, *[Passage(str(n), "", "mill") for n in range(5)]])
    assert asked.weights["town"] > asked.weights["mill"]


def test_the_bridge_is_worth_more_than_its_end_alone() -> None:
    on, alone, off = path_scores(QUESTION, [[FILM, PERSON], [PERSON], [TOWN, PERSON]], [FILM, TOWN])
    assert on > alone
    assert on > off
    near, far = likelihood_scores(QUESTION, [[FILM, PERSON], [TOWN]])
    assert near > far


@given(st.text(max_size=60), PATHS, st.lists(st.sampled_from(PASSAGES), unique=True))
def test_a_score_hangs_on_the_question_the_path_and_what_was_found_alone(
    question: str, paths: list[list[Passage]], found: list[Passage]
) -> None:
    scores = path_scores(question, paths, found)
    assert all(map(math.isfinite, scores))
    assert scores == [path_scores(question, [path], found)[0] for path in paths]
    likely = likelihood_scores(question, paths)
    assert all(map(math.isfinite, likely))
    assert likely == [likelihood_scores(question, [path])[0] for path in paths]


@pytest.mark.shared
@pytest.mark.parametrize(("name", "floor"), [("hotpotqa", 0.88), ("2wikimultihopqa", 0.90), ("musique", 0.56)])
def test_it_ranks_as_well_as_measured(name: str, floor: float) -> None:
    found = []
    with Pipeline(SHARED / name / "corpus.jsonl", "one-r", retriever="hops") as pipeline:
        for line in (SHARED / name / "dev.jsonl").read_text(encoding="utf-8").splitlines()[:100]:
            row = json.loads(line)
            gold = set(row["gold_pids"])
            found.append(len(gold & {hit.id for hit in pipeline.search(row["question"], 5)}) / len(gold))
    assert sum(found) / len(found) >= floor
