"""The tasks that end in a short answer: closed-book, by a chain of thought, or from passages.

``demonstrations`` is ``[{"question": str, "kind": str, "rationale": str, "answer": str}]``, examples that a model wrote
itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from polyhop.prompts.answers import bare_answer, clean_value, find_answer, leading_answer
from polyhop.prompts.kinds import find_named, in_words_of
from polyhop.prompts.parsing import Malformed, has_marker
from polyhop.prompts.show import one_line
from polyhop.prompts.tasks.base import BY_TYPE, Fields, Output, Show, Task

THINK = "Let's think step by step."
"""The phrase that starts the reasoning (Kojima et al., 2022)."""


class Response(Output):
    """A short answer, and the reasoning before it if the task asks for it."""

    ANSWER = "answer"

    rationale: str | None = Field(default=None, description="the reasoning")
    answer: str = Field(description="{>brief}")


def read_reasoned(text: str, fields: Fields) -> dict[str, Any]:
    """Read reasoning that ends in "The answer is …".

    >>> read_reasoned("Alien is by Scott. So the answer is Ridley Scott.", {})
    {'rationale': 'Alien is by Scott.', 'answer': 'Ridley Scott'}
    """
    if named := find_named(text, fields):
        return {"rationale": named.before or None, "answer": named.answer}
    alone = clean_value if fields.get("kind") == "long" else bare_answer
    if not has_marker(text) and (answer := alone(text)):
        return {"rationale": None, "answer": answer}
    conclusion = in_words_of(fields.get("kind", "qa"), "{>conclusion}").strip()
    raise Malformed(f'the reply must end with "{conclusion}", with the answer in it')


def write_reasoned(output: Any, fields: Fields) -> str:
    """Write reasoning that ends in "The answer is …"."""
    if fields.get("kind") == "long":
        return "\n".join(filter(None, (output.rationale, f"Answer: {output.answer}")))
    lead = f"{output.rationale} " if output.rationale else ""
    return f"{lead}The answer is {output.answer}."


def read_direct(text: str, fields: Fields) -> dict[str, Any]:
    """Read a short answer alone, with or without "Answer:" or "The answer is" before it.

    >>> read_direct("Answer: Ridley Scott", {})["answer"]
    'Ridley Scott'
    """
    if fields.get("kind") == "long":
        return {**read_reasoned(text, fields), "rationale": None}
    named = find_answer(text)
    if named and named.is_explicit:
        return {"rationale": None, "answer": named.answer}
    if not has_marker(text) and (answer := leading_answer(text)):
        return {"rationale": None, "answer": answer}
    if named:
        return {"rationale": None, "answer": named.answer}
    raise Malformed("the reply must be the answer alone, in a few words")


def reasoned_answer(
    name: str,
    *,
    fields: tuple[str, ...],
    show: Show = BY_TYPE,
    demonstrations: str = "",
    unshown: tuple[str, ...] = (),
) -> Task[Response]:
    """Make a task whose reply reasons, then answers."""
    return Task(
        name, (*fields, "kind"), Response, {"answer": ""},
        parse=read_reasoned, write=write_reasoned, show=show, demonstrations=demonstrations, unshown=unshown,
    )  # fmt: skip


def direct_answer(
    name: str, *, fields: tuple[str, ...], show: Show = BY_TYPE, demonstrations: str = ""
) -> Task[Response]:
    """Make a task whose reply is the answer alone."""
    return Task(
        name, (*fields, "kind"), Response, {"answer": ""},
        parse=read_direct, write=lambda output, fields: f"Answer: {output.answer}",
        show=show, demonstrations=demonstrations, asked_if={"rationale": ""},
    )  # fmt: skip


def show_demonstrations(demonstrations: Sequence[Mapping[str, str]] | None, fields: Fields) -> str:
    """Show worked examples in the form of the question below them."""
    return "\n\n".join(
        f"{in_words_of(demo.get('kind', 'qa'), '{>Question}')}: {one_line(demo['question'])}\n{THINK} "
        + one_line(f"{demo['rationale']} The answer is {demo['answer'].removesuffix('.')}.")
        for demo in demonstrations or ()
    )


ANSWER_DIRECT = direct_answer("answer.direct", fields=("question",), demonstrations="answer.cot")
ANSWER_COT = reasoned_answer("answer.cot", fields=("question",))
ANSWER_READ = direct_answer("answer.read", fields=("question", "passages"))
ANSWER_READ_COT = reasoned_answer("answer.read_cot", fields=("question", "passages"), demonstrations="answer.read")
ZERO_SHOT_COT = reasoned_answer("zero_shot.cot", fields=("question",), demonstrations="answer.cot")
AUTO_COT_ANSWER = reasoned_answer(
    "auto_cot.answer",
    fields=("question", "demonstrations"),
    show={"demonstrations": show_demonstrations},
    demonstrations="answer.cot",
)
