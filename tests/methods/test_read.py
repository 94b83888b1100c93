"""The passages that the answer's call read are shown to the asker, ranked and cited, whatever the method."""

from __future__ import annotations

from typing import Any

import pytest

from polyhop.answer import Answer, cite
from polyhop.methods.registry import methods
from polyhop.trace import passages_in
from polyhop.types import Passage
from tests.kit.random_world import World
from tests.kit.tries import tries

WORLDS = tries(25)
SUMMARY = "summary"
"""The title that DSP gives its own summaries, which it shows in front of the passages."""
UNSCRIPTED = ("promptrank", "flare")
"""They need more of a model than a world has; their answers are of what they rank."""
ANSWERING = [name for name, each in methods().items() if each.answers(each.resolve({})) and name not in UNSCRIPTED]


@pytest.mark.parametrize("name", ANSWERING)
async def test_what_the_answer_was_read_from_is_ranked_and_cited(name: str) -> None:
    for seed in range(WORLDS):
        without_links: Any = {"links": 0} if "links" in methods()[name].resolve({}) else {}  # a world has none
        answer, _ = await World.random(seed).run(name, **without_links)
        call = answer.trace.answers_call
        read = {passage for passage in passages_in(call.fields) if passage.id != SUMMARY} if call else set()
        assert read <= set(answer.passages), seed
        assert {citation.passage_id for citation in answer.citations} <= {passage.id for passage in answer.passages}
        if read and answer.text:
            assert answer.citations, seed
        if answer.supported:
            assert answer.text, seed
            assert answer.citations, seed


def test_without_evidence_the_passages_read_are_cited_those_first_that_carry_the_answer() -> None:
    passages = tuple(Passage(name, name, text) for name, text in (("a", "In Oslo."), ("b", "In Rome."), ("c", "Rome.")))
    cited = [(each.passage_id, each.start) for each in cite(Answer("Rome", passages=passages), passages[:2])]
    assert cited == [("b", 3)]
    cited = [(each.passage_id, each.start) for each in cite(Answer("yes", passages=passages), passages[:2])]
    assert cited == [("a", None), ("b", None)]
    assert cite(Answer("Rome", passages=passages)) == ()
    assert cite(Answer("", passages=passages), passages) == ()
