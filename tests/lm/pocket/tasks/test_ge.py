"""The tasks of GE-Reasoning: graphs of chains and comparisons, triplets read back, the confidence."""

from __future__ import annotations

import math
from typing import Any

import pytest

from polyhop.answer import Answer
from polyhop.lm.base import Request
from polyhop.lm.pocket import Pocket
from polyhop.lm.pocket.reading.chain import decompose
from polyhop.lm.pocket.reading.facts import facts
from polyhop.lm.pocket.reading.passage import parse_passage
from polyhop.lm.pocket.tasks import ge
from polyhop.pipeline import Pipeline
from polyhop.prompts.triplets import write_triplet
from polyhop.types import Passage

MILL = Passage("mill", "Dark Mill (film)", "Dark Mill is a 1931 drama film directed by Rolf Anders. It stars Ida Kuhn.")
ANDERS = Passage("anders", "Rolf Anders", "Rolf Anders (4 May 1899 – 1950) was a director. He was born in Bremen.")
FERRY = Passage("ferry", "Slow Ferry", "Slow Ferry is a 1940 film directed by Ann Lee.")
LEE = Passage("lee", "Ann Lee", "Ann Lee (3 June 1907 – 1990) was a film director from Norway.")


@pytest.mark.parametrize(
    ("question", "rows"),
    [
        (
            "Where was the director of Dark Mill born?",
            ["(Dark Mill; director; name: #1)", "(name: #1; birth place; place: #2)"],
        ),
        (
            "Which film whose director is younger, Dark Mill or Slow Ferry?",
            [
                "(Dark Mill; director; name: #1)",
                "(name: #1; birth date; date: #2)",
                "(Slow Ferry; director; name: #3)",
                "(name: #3; birth date; date: #4)",
            ],
        ),
        ("What is love?", []),
    ],
)
def test_a_question_as_a_graph(question: str, rows: list[str]) -> None:
    assert [write_triplet(triplet) for triplet in ge.question_triplets(question)] == rows


@pytest.mark.parametrize("relation", ["birth date", "birth place", "death date", "director", "writer", "release"])
def test_a_relations_own_sentence_is_read_back(relation: str) -> None:
    value = {"birth date": "4 May 1899", "death date": "1950", "release": "1931"}.get(relation, "Ida Kuhn")
    question = ge.next_sub_question({"head": "Dark Mill", "relation": relation, "tail": "#1"}, None, None)
    assert [(step.subject, step.relation) for step in decompose(question or "")] == [("Dark Mill", relation)]
    sentence = ge.statement("Dark Mill", relation, value)
    assert [found.text for found in facts(parse_passage(Passage("1", "Dark Mill", sentence)), relation)][:1] == [value]


def test_a_passage_is_facts_and_sentences() -> None:
    rows = [write_triplet(triplet) for triplet in ge.passage_triplets(MILL)]
    assert "(Dark Mill (film); director; Rolf Anders)" in rows
    assert rows[-1] == "(Dark Mill (film); states; It stars Ida Kuhn.)"


def test_the_filter_gives_a_subset_that_bears_on_the_question() -> None:
    given = [triplet for passage in (MILL, ANDERS) for triplet in ge.passage_triplets(passage)]
    kept = ge.relevant_triplets(given, "Where was Rolf Anders born?")
    assert all(triplet in given for triplet in kept)
    assert {"head": "Rolf Anders", "relation": "birth place", "tail": "Bremen"} in kept
    assert ge.relevant_triplets(given, "xyzzy?") == []


def fields(**more: Any) -> dict[str, Any]:
    return {"question": "Q?", "history": [], "triplets": None, "passages": None, "verbal": False, **more}


async def test_confidence_is_the_answers_log_probability() -> None:
    known = fields(sub_question="Who directed Dark Mill?", passages=[MILL])
    for given, answer, sure in (
        (known, "Rolf Anders", ge._FOUND),
        ({**known, "passages": None}, "unknown", ge._NOTHING_KNOWN),
        ({**known, "passages": None, "triplets": ge.passage_triplets(MILL)}, "Rolf Anders", ge._FOUND),
    ):
        request = Request(task="ge.subanswer", fields=given, messages=[], logprobs=True)
        reply = await Pocket().complete(request)
        assert reply.value is not None
        assert reply.value["answer"] == answer
        assert reply.tokens == (answer,)
        assert reply.logprobs == pytest.approx((math.log(sure),))
        assert reply.probability(answer) == pytest.approx(sure)


async def answered(question: str, **settings: Any) -> Answer:
    async with Pipeline([MILL, ANDERS, FERRY, LEE], "ge", **settings) as qa:
        return await qa.aask(question)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Where was the director of Dark Mill born?", "Bremen"),
        ("Which film whose director is younger, Dark Mill or Slow Ferry?", "Slow Ferry"),
    ],
)
@pytest.mark.parametrize(
    "settings",
    [{}, {"guidance": False}, {"refine": False}, {"typed_variables": False}, {"parallel": True}, {"confidence": "min"}],
    ids=str,
)
async def test_questions_are_answered_step_by_step(question: str, expected: str, settings: dict[str, Any]) -> None:
    answer = await answered(question, **settings)
    assert answer.text == expected
    assert answer.supported
    assert answer.statistics["dropped"] == 0
    assert {"mill", "anders"} <= {passage.id for passage in answer.passages}


async def test_closed_book_it_says_that_it_knows_nothing() -> None:
    answer = await answered("Where was the director of Dark Mill born?", open_book=False)
    assert (answer.text, answer.supported, answer.statistics["dropped"]) == ("", False, 3)
