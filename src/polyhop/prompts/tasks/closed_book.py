"""The tasks of the closed-book baselines: thinking step by step, reciting, taking apart, planning.

``history`` is ``[{"sub_question": str, "answer": str}]``, the sub-questions solved so far; ``demonstrations`` is
``[{"question": str, "rationale": str, "answer": str}]``, those a model wrote itself.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from polyhop.prompts.answers import clean_value
from polyhop.prompts.parsing import Malformed, has_marker, quotable
from polyhop.prompts.show import one_line
from polyhop.prompts.tasks.answers import Response, read_direct, read_reasoned, write_direct, write_reasoned
from polyhop.prompts.tasks.base import Fields, Output, Task

THINK = "Let's think step by step."
"""The phrase that starts the thinking (Kojima et al., 2022)."""


class Recitation(Output):
    """Recitation-augmented generation (Sun et al., 2022): passages from the model's own memory."""

    recitations: list[str] = Field(description="short passages recalled from memory, one for each fact needed")


class Decomposition(Output):
    """Least-to-most (Zhou et al., 2022): the sub-questions, simplest first."""

    sub_questions: list[str] = Field(description="the simpler questions to answer first, in order")

    def missing(self) -> str | None:
        return None if any(self.sub_questions) else "at least one sub-question is needed"


class PlannedResponse(Output):
    """Plan-and-Solve (Wang et al., 2023): a plan, the solution that carries it out, and the answer."""

    ANSWER = "answer"

    plan: list[str] = Field(default_factory=list, description="the steps of the plan, in order")
    rationale: str | None = Field(default=None, description="the plan carried out step by step")
    answer: str = Field(description="in as few words as possible")

    def missing(self) -> str | None:
        return 'the "answer" must not be empty' if not self.answer else None


_MAX_ITEMS = 50
"""Items of a list that are read."""
_ITEM = re.compile(
    r"^[^\w\n]{0,6}(?:(?:sub-?question|question|recitation|passage|step)[ \t]?)?(\d{1,2})[ \t*]{0,3}[.):][ \t*]{0,3}"
    r"|^[ \t]{0,6}[-–•*][ \t]+",
    re.IGNORECASE | re.M,
)
_SOLUTION = re.compile(r"^[^\w\n]{0,6}(?:solution|execution)[ \t*]{0,3}:[ \t*]{0,3}", re.IGNORECASE | re.M)


def read_items(text: str, fields: Fields) -> list[str]:
    """The items of a numbered or bulleted list, each as one line. A list counts from its last number 1 on if the fields
    hold one, which the reply may quote before its own.

    >>> read_items("Sure:\\n1. Who made it?\\n2) Where was\\nshe born?", {})
    ['Who made it?', 'Where was she born?']
    """
    heads = list(_ITEM.finditer(text))
    starts = [index for index, head in enumerate(heads) if head[1] == "1"]
    if starts and starts[-1] and quotable(_ITEM, fields):
        heads = heads[starts[-1] :]
    heads = heads[:_MAX_ITEMS]
    ends = [head.start() for head in heads[1:]] + [len(text)]
    items = (clean_value(text[head.end() : end]) for head, end in zip(heads, ends, strict=False))
    return [item for item in items if item]


def write_items(items: Sequence[str]) -> str:
    """The inverse of ``read_items``."""
    return "\n".join(f"{number}. {item}" for number, item in enumerate(items, 1))


def read_recitation(text: str, fields: Fields) -> dict[str, Any]:
    """Numbered passages; a reply without numbers is one passage.

    >>> read_recitation("Alien is a film by Ridley Scott.", {})
    {'recitations': ['Alien is a film by Ridley Scott.']}
    """
    alone = None if has_marker(text) or text.lstrip().startswith(("{", "```")) else clean_value(text)
    recitations = read_items(text, fields) or [alone or ""]
    if not any(recitations):
        raise Malformed("the reply must be the recited passages, each with its number: 1. …")
    return {"recitations": recitations}


def write_recitation(output: Any, fields: Fields) -> str:
    """The inverse of ``read_recitation``."""
    return write_items(output.recitations)


def read_decomposition(text: str, fields: Fields) -> dict[str, Any]:
    """Numbered sub-questions, or every line that ends in a question mark.

    >>> read_decomposition("Who directed Alien?\\nWhere was that person born?", {})["sub_questions"]
    ['Who directed Alien?', 'Where was that person born?']
    """
    lines = (clean_value(line) for line in text.splitlines() if line.rstrip("* \t").endswith("?"))
    parts = read_items(text, fields) or [line for line in itertools.islice(lines, _MAX_ITEMS) if line]
    if not parts:
        raise Malformed("the reply must be the sub-questions, each with its number: 1. …")
    return {"sub_questions": parts}


def write_decomposition(output: Any, fields: Fields) -> str:
    """The inverse of ``read_decomposition``."""
    return write_items(output.sub_questions)


def read_planned(text: str, fields: Fields) -> dict[str, Any]:
    """Plan: numbered steps, Solution: reasoning that ends in "The answer is …"; the plan may be left out.

    >>> read_planned("Plan:\\n1. Find who made it.\\nSolution: It is by Ann Lee. The answer is Ann Lee.", {})
    {'plan': ['Find who made it.'], 'rationale': 'It is by Ann Lee.', 'answer': 'Ann Lee'}
    """
    solution = _SOLUTION.search(text)
    if solution is None:
        return {"plan": [], **read_reasoned(text, fields)}
    return {"plan": read_items(text[: solution.start()], fields), **read_reasoned(text[solution.end() :], fields)}


def write_planned(output: Any, fields: Fields) -> str:
    """The inverse of ``read_planned``."""
    plan = f"Plan:\n{write_items(output.plan)}\nSolution: " if output.plan else ""
    return f"{plan}{write_reasoned(output, fields)}"


# --- how fields are shown ----------------------------------------------------------------------------------------


def show_solved(history: Sequence[Mapping[str, str]] | None, fields: Fields) -> str:
    """Sub-questions with their answers.

    >>> print(show_solved([{"sub_question": "Who made it?", "answer": "Ann Lee"}], {}))
    Sub-question: Who made it?
    Answer: Ann Lee
    """
    return "\n".join(
        f"Sub-question: {one_line(pair['sub_question'])}\nAnswer: {one_line(pair['answer'] or 'unknown')}"
        for pair in history or ()
    )


def show_recitations(recitations: Sequence[str] | None, fields: Fields) -> str:
    """Recited passages, numbered, each on its line."""
    return write_items([one_line(recitation) for recitation in recitations or ()])


def show_demonstrations(demonstrations: Sequence[Mapping[str, str]] | None, fields: Fields) -> str:
    """Worked examples as the question itself stands below them."""
    return "\n\n".join(
        f"Question: {one_line(demo['question'])}\n{THINK} {one_line(demo['rationale'])} "
        f"The answer is {one_line(demo['answer'])}."
        for demo in demonstrations or ()
    )


TASKS = (
    Task(
        "zero_shot.cot",
        fields=("question",),
        output=Response,
        parse=read_reasoned,
        write=write_reasoned,
        default={"answer": ""},
        demonstrations="answer.cot",
    ),
    Task(
        "auto_cot.answer",
        fields=("question", "demonstrations"),
        output=Response,
        parse=read_reasoned,
        write=write_reasoned,
        default={"answer": ""},
        show={"demonstrations": show_demonstrations},
        demonstrations="answer.cot",
    ),
    Task(
        "recite.recall",
        fields=("question",),
        output=Recitation,
        parse=read_recitation,
        write=write_recitation,
        default={"recitations": ()},
    ),
    Task(
        "recite.answer",
        fields=("question", "recitations"),
        output=Response,
        parse=read_direct,
        write=write_direct,
        default={"answer": ""},
        show={"recitations": show_recitations},
        asked_if={"rationale": ""},
    ),
    Task(
        "least_to_most.decompose",
        fields=("question",),
        output=Decomposition,
        parse=read_decomposition,
        write=write_decomposition,
        default={"sub_questions": ()},
    ),
    Task(
        "least_to_most.solve",
        fields=("question", "history", "sub_question"),
        output=Response,
        parse=read_reasoned,
        write=write_reasoned,
        default={"answer": ""},
        show={"history": show_solved},
    ),
    Task(
        "plan_solve.solve",
        fields=("question",),
        output=PlannedResponse,
        parse=read_planned,
        write=write_planned,
        default={"answer": ""},
    ),
)
