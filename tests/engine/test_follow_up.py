"""The rewriting of a follow-up question: which replies are taken for one, and what is asked if none is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from polyhop import Pipeline
from polyhop.lm.scripted import ScriptedLM
from polyhop.prompts.tasks.chat import MAX_QUESTION_CHARS
from polyhop.types import Question

ASKED, MEANT = "When did she start?", "When did Maren Thode start?"
TURNS = (("user", "Who is the first aider in Kiel?"), ("assistant", "Maren Thode [1]"))


def asked(reply: str) -> list[str]:
    """Answer a follow-up question with a model that rewrites it so; return the questions of its calls."""

    def say(task: str, fields: Mapping[str, Any]) -> str:
        return reply if task == "chat.question" else "Answer: in 2012"

    model = ScriptedLM(say)
    with Pipeline(None, "direct", model, cache=False) as pipeline:
        pipeline.ask(Question("", ASKED, conversation=TURNS))
    return [str(call.fields["question"]) for call in model.calls]


@pytest.mark.parametrize(
    "reply",
    [f"Standalone question: {MEANT}", f"**Rewritten question:** {MEANT}", MEANT, f"{MEANT}\nI replaced the pronoun."],
)
def test_a_question_with_or_without_its_label_is_taken(reply: str) -> None:
    assert asked(reply) == [ASKED, MEANT]


@pytest.mark.parametrize(
    "reply",
    [
        "Maren Thode started on 1 August 2012.",
        "Answer: in 2012 [1]",
        "asdf ### 12",
        "Sure! Here it is:",
        "",
        "Standalone question:",
        "Standalone question: " + "very " * (MAX_QUESTION_CHARS // 5) + "long?",
    ],
    ids=["an answer", "a labelled answer", "nonsense", "a beginning", "nothing", "a label", "endless"],
)
def test_what_is_no_question_is_asked_for_again_and_then_the_message_is_read_alone(reply: str) -> None:
    assert asked(reply) == [ASKED] * 3
