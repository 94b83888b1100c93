"""Predictions in the forms that official scorers take, from a run's lines."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from polyhop.data.contexts import contexts_of
from polyhop.data.submissions import (
    hotpotqa_submission,
    kilt_submission,
    musique_submission,
    trec_qrels,
    trec_run,
    two_wiki_submission,
)
from polyhop.types import Question
from tests.data.test_formats import MUSIQUE

ROW: dict[str, Any] = {
    "id": "2hop__1_2",
    "prediction": "Steventon",
    "abstained": False,
    "passages": ["12#1", "12#2", "my notes.md#3"],
    "titles": ["Emma", "Emma", "Notes"],
    "cited": [["12#1", "Emma"], ["9", "Oslo"], ["8", "Nowhere"]],
    "facts": [["Emma", 0], ["Oslo", 2]],
    "triples": [["Emma", "author", "Jane Austen"]],
}
TOLD_NOTHING = {**ROW, "id": "x", "facts": None, "triples": None, "prediction": ""}


def test_hotpotqa_and_2wiki() -> None:
    expected = {
        "answer": {"2hop__1_2": "Steventon", "x": ""},
        "sp": {"2hop__1_2": [["Emma", 0], ["Oslo", 2]], "x": []},
    }
    assert hotpotqa_submission([ROW, TOLD_NOTHING]) == expected
    evidence = {"2hop__1_2": [["Emma", "author", "Jane Austen"]], "x": []}
    assert two_wiki_submission([ROW, TOLD_NOTHING]) == {**expected, "evidence": evidence}


def test_musique_numbers_the_cited_paragraphs() -> None:
    contexts = contexts_of(MUSIQUE)
    (line,) = musique_submission([ROW], {"2hop__1_2": contexts})
    assert line == {
        "id": "2hop__1_2",
        "predicted_answer": "Steventon",
        "predicted_support_idxs": [2, 0],  # Emma and Oslo by title: no other paragraph has it
        "predicted_answerable": True,
    }
    twin = {**ROW, "id": "2hop__1_2~unanswerable", "abstained": True, "cited": [[contexts[1].id, "whatever"]]}
    (line,) = musique_submission([twin], {twin["id"]: [*contexts, *contexts]})
    assert (line["id"], line["predicted_answerable"], line["predicted_support_idxs"]) == ("2hop__1_2", False, [1])
    (line,) = musique_submission([{**ROW, "prediction": ""}], {"2hop__1_2": contexts})
    assert line["predicted_answerable"] is False  # as the metric has it


def test_kilt_names_each_page_once() -> None:
    (line,) = kilt_submission([ROW])
    pages = [{"wikipedia_id": "12", "title": "Emma"}, {"wikipedia_id": "my notes.md", "title": "Notes"}]
    assert line == {"id": "2hop__1_2", "output": [{"answer": "Steventon", "provenance": pages}]}


@given(st.text(min_size=1), st.text(min_size=1))
def test_any_ids_make_one_printable_line_of_trec(question: str, passage: str) -> None:
    valid = [name.encode("utf-8", "replace").decode() for name in (question, passage)]
    (line,) = trec_run([{"id": valid[0], "passages": [valid[1]]}], valid[1])
    assert line.isprintable()
    assert len(line.split(" ")) == 6


def test_trec_run_and_qrels_agree_on_names_with_blanks() -> None:
    assert list(trec_run([ROW], "polyhop tor")) == [
        "2hop__1_2 Q0 12#1 1 3 polyhop%20tor",
        "2hop__1_2 Q0 12#2 2 2 polyhop%20tor",
        "2hop__1_2 Q0 my%20notes.md#3 3 1 polyhop%20tor",
    ]
    questions = [
        Question("q1", "?", gold_ids=("my notes.md#3", "12#1", "12#1")),
        Question("q2", "?", gold_titles=("Emma", "Lost")),
        Question("q3", "?"),
    ]
    assert list(trec_qrels(questions, {"Emma": ["12#1", "12#2"]})) == [
        "q1 0 my%20notes.md#3 1",
        "q1 0 12#1 1",
        "q2 0 12#1 1",
        "q2 0 12#2 1",
    ]
