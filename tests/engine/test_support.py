"""The one rule of support: the cited passages, read alone, give the answer, or not, or another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from polyhop import Passage, Pipeline, ScriptedLM
from polyhop.answer import CONTRADICTED, NOT_VERIFIED, UNCITED, Answer, references, support_notice
from polyhop.engine.calibration import SUPPORTED_FROM
from polyhop.engine.support import CONTRADICTED_FROM, MAX_PASSAGES, find_words, judge
from polyhop.methods.registry import methods
from polyhop.types import BlindReading, Citation, Kind, Quotation
from tests.kit.random_world import World
from tests.methods.test_read import ANSWERING

QUESTION = "In which year was the mill at Hollum built?"
MILL = Passage(
    "mill", "Hollum mill", "Boats pass it daily. The mill at Hollum was built in 1731 by Ann Lee. It still turns."
)
INN = Passage("inn", "Hollum inn", "The inn at Hollum was opened in 1802.")
SENTENCE = "The mill at Hollum was built in 1731 by Ann Lee."


@pytest.mark.parametrize(
    ("answer", "reading", "support"),
    [
        ("1731", BlindReading("1731", SUPPORTED_FROM), "supported"),
        ("in 1731", BlindReading("1731", 0.9), "supported"),  # either contains the other
        ("1731", BlindReading("1731", SUPPORTED_FROM - 0.01), "not verified"),
        ("1731", BlindReading(None, 0.9), "not verified"),
        ("1731", BlindReading("1999", 0.9), "not verified"),  # words of no cited passage
        ("1745", BlindReading("1731", CONTRADICTED_FROM), "contradicted"),
        ("1745", BlindReading("1731", CONTRADICTED_FROM - 0.01), "not verified"),
        ("1745", BlindReading("Ann Lee", 0.9), "not verified"),  # another kind of value
        ("yes", BlindReading("no", 0.9), "contradicted"),
        ("yes", BlindReading("1731", 0.9), "not verified"),
        ("the year 1731", BlindReading("1731", agrees=True), "supported"),
        ("1745", BlindReading("1731", agrees=False), "contradicted"),
    ],
)
def test_the_states_of_support(answer: str, reading: BlindReading, support: str) -> None:
    judged, quotation = judge(QUESTION, answer, [INN, MILL], reading)
    assert judged == support
    assert (quotation is None) is (support == "not verified")


def test_the_sentence_that_states_the_answer_is_quoted() -> None:
    start = MILL.text.index(SENTENCE)
    expected = Quotation("mill", start, start + len(SENTENCE), SENTENCE, "1731")
    assert judge(QUESTION, "1731", [INN, MILL], BlindReading("1731", 0.9)) == ("supported", expected)
    _, for_yes = judge("Was the mill at Hollum built before 1800?", "yes", [INN, MILL], BlindReading("yes", 0.9))
    assert for_yes is not None
    assert for_yes.text == SENTENCE  # a verdict has no words of its own: the sentence nearest to the question
    _, titled = judge("Which building stands at Hollum?", "Hollum mill", [MILL], BlindReading("Hollum mill", 0.9))
    assert titled is not None
    assert titled.text in MILL.text


@pytest.mark.parametrize(
    ("question", "answer", "kind", "found"),
    [
        (QUESTION, "1731", "qa", True),
        (QUESTION, "1745", "qa", False),
        ("Which river runs through the capital of Peru?", "1731", "qa", False),  # the passages do not bear on it
        ("Was the mill at Hollum built in 1731?", "yes", "boolean", False),
        ("The mill at Hollum was built in 1731.", "SUPPORTS", "fact", False),
        ("Which was built first, the mill or the inn at Hollum?", "the mill", "qa", False),  # the question names it
        ("Tell me about the mill at Hollum.", SENTENCE, "long", False),
    ],
)
def test_words_alone_support_what_words_can(question: str, answer: str, kind: Kind, found: bool) -> None:
    assert (find_words(question, answer, [MILL, INN], kind).answer is not None) is found


@pytest.mark.parametrize("name", ANSWERING)
async def test_support_depends_on_question_answer_and_cited_passages_alone(name: str) -> None:
    """Whatever a method accepted: the rule, applied to nothing else, says the same."""
    for seed in range(8):
        without_links: Any = {"links": 0} if "links" in methods()[name].resolve({}) else {}  # a world has none
        answer, _ = await World.random(seed).run(name, **without_links)
        cited = [reference.passage for reference in references(answer)]
        reading = find_words(answer.trace.question, answer.text, cited, "qa") if answer.text else BlindReading(None)
        expected = judge(answer.trace.question, answer.text, cited, reading)
        assert (answer.support, answer.quotation) == expected, seed
        assert answer.supported is (answer.support == "supported")


@pytest.mark.parametrize("name", ANSWERING)
async def test_one_call_of_the_model_verifies_the_answers_of_every_method(name: str) -> None:
    states = set()
    for state, verdict in (("supported", "supported"), ("contradicted", "contradicted"), ("not verified", "missing")):
        world: Any = Checked.random(7)
        world.verdict = verdict
        without_links: Any = {"links": 0} if "links" in methods()[name].resolve({}) else {}
        plain, _ = await Checked.random(7).run(name, **without_links)
        answer, _ = await world.run(name, verify_support=True, **without_links)
        checks = [call for call in answer.trace.calls if call.task == "support.check"]
        assert (answer.text, answer.usage.calls) == (plain.text, plain.usage.calls + len(checks))
        own, before = answer.trace.answers_call, plain.trace.answers_call
        assert (own and own.task) == (before and before.task)
        cited = [reference.passage for reference in references(answer)]
        assert len(checks) == bool(answer.text and cited)
        if checks:
            assert answer.support == state
            assert checks[0].fields["passages"] == cited[:MAX_PASSAGES]
            states.add(answer.support)
    assert len(states) in (0, 3)


class Checked(World):
    """A world whose model gives one verdict on every answer."""

    verdict = "missing"

    def reply(self, task: str, fields: Mapping[str, Any]) -> Mapping[str, Any] | None:
        if task != "support.check":
            return super().reply(task, fields)
        other = "Answer 9" if self.verdict == "contradicted" else fields["prediction"]
        return {"quotation": fields["passages"][0].text, "answer": other, "verdict": self.verdict}


async def test_a_spent_budget_leaves_the_words() -> None:
    lm = ScriptedLM({"answer.read": {"answer": "1731"}})
    async with Pipeline([MILL, INN], "one-r", lm, verify_support=True, max_calls=1) as pipeline:
        answer = await pipeline.aask(QUESTION)
    assert (answer.support, answer.usage.calls, answer.trace.budget) == ("supported", 1, "max_calls")


def test_a_quotation_that_is_in_no_passage_is_replaced_by_the_sentence_of_the_answer() -> None:
    reading = BlindReading("1731", words="The mill dates from 1731.", agrees=True)
    _, quotation = judge(QUESTION, "1731", [MILL], reading)
    assert quotation is not None
    assert quotation.text == SENTENCE


async def test_pocket_reads_the_cited_passages_again() -> None:
    with Pipeline([MILL, INN], "one-r") as pipeline:
        right = await pipeline.aask(QUESTION)
        assert (right.text, right.support) == ("1731", "supported")
        assert right.quotation is not None
        assert right.quotation.text == SENTENCE
        assert right.to_dict()["quotation"]["passage_id"] == "mill"
        assert support_notice(right) == ""


def test_the_notice_names_the_state() -> None:
    cited = (Citation(1, "mill"),)
    quotation = Quotation("mill", 0, 4, "Boat", "1731")
    assert support_notice(Answer("1745")) == UNCITED
    assert support_notice(Answer("1745", citations=cited)) == NOT_VERIFIED
    contradicted = Answer("1745", citations=cited, support="contradicted", quotation=quotation)
    assert support_notice(contradicted) == CONTRADICTED.format("1731")
    assert support_notice(Answer("", abstained=True)) == ""
