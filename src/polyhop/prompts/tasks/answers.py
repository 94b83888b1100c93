"""The tasks that end in a short answer, closed-book or from passages."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from polyhop.prompts.answers import bare_answer, find_answer, leading_answer
from polyhop.prompts.parsing import Malformed, has_marker
from polyhop.prompts.tasks.base import Fields, Output, Task


class Response(Output):
    """A short answer, with the reasoning before it where the task asks for it."""

    ANSWER = "answer"

    rationale: str | None = Field(default=None, description="the reasoning")
    answer: str = Field(description="in as few words as possible")

    def missing(self) -> str | None:
        return 'the "answer" must not be empty' if not self.answer else None


def read_reasoned(text: str, fields: Fields) -> dict[str, Any]:
    """Reasoning that ends in "The answer is …".

    >>> read_reasoned("Alien is by Scott. So the answer is Ridley Scott.", {})
    {'rationale': 'Alien is by Scott.', 'answer': 'Ridley Scott'}
    """
    if named := find_answer(text):
        return {"rationale": named.before or None, "answer": named.answer}
    if not has_marker(text) and (answer := bare_answer(text)):
        return {"rationale": None, "answer": answer}
    raise Malformed('the last sentence must be "The answer is …", with an answer')


def write_reasoned(output: Any, fields: Fields) -> str:
    """The inverse of ``read_reasoned``."""
    lead = f"{output.rationale} " if output.rationale else ""
    return f"{lead}The answer is {output.answer}."


def read_direct(text: str, fields: Fields) -> dict[str, Any]:
    """A short answer alone, with or without "Answer:" or "The answer is" before it.

    >>> read_direct("Answer: Ridley Scott", {})["answer"]
    'Ridley Scott'
    """
    named = find_answer(text)
    if named and named.is_explicit:
        return {"rationale": None, "answer": named.answer}
    if not has_marker(text) and (answer := leading_answer(text)):
        return {"rationale": None, "answer": answer}
    if named:
        return {"rationale": None, "answer": named.answer}
    raise Malformed("the reply must be the answer alone, in a few words")


def write_direct(output: Any, fields: Fields) -> str:
    """The inverse of ``read_direct``."""
    return f"Answer: {output.answer}"


TASKS = (
    Task(
        "answer.direct",
        fields=("question",),
        output=Response,
        parse=read_direct,
        write=write_direct,
        default={"answer": ""},
        asked_if={"rationale": ""},
        demonstrations="answer.cot",
    ),
    Task(
        "answer.cot",
        fields=("question",),
        output=Response,
        parse=read_reasoned,
        write=write_reasoned,
        default={"answer": ""},
    ),
    Task(
        "answer.read",
        fields=("question", "passages"),
        output=Response,
        parse=read_direct,
        write=write_direct,
        default={"answer": ""},
        asked_if={"rationale": ""},
    ),
    Task(
        "answer.read_cot",
        fields=("question", "passages"),
        output=Response,
        parse=read_reasoned,
        write=write_reasoned,
        default={"answer": ""},
        demonstrations="answer.read",
    ),
)
