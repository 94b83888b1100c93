"""The tasks that take a question apart first: least-to-most, Plan-and-Solve and Tree of Thoughts.

``history`` is ``[{"sub_question": str, "answer": str | None}]``: the sub-questions solved, or the thoughts, so far.
``plan`` is ``[str]``: the questions of the plan, in order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, field_validator

from polyhop.prompts.lines import Choice, Items, Line, question_lines, read_items, write_items
from polyhop.prompts.show import one_line
from polyhop.prompts.tasks.answers import read_reasoned, reasoned_answer, write_reasoned
from polyhop.prompts.tasks.base import BY_TYPE, Fields, Output, Show, Task


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
    answer: str = Field(description="{>brief}")


class Valuation(Output):
    """Tree of Thoughts (Yao et al., 2023): the answer that a thought's passages give it, and the value of its state."""

    answer: str | None = Field(
        default=None, description="the answer to the newest step in a few words, null if there is none"
    )
    value: Literal["sure", "likely", "impossible"] = Field(
        description="sure, likely or impossible: how well all steps lead to the answer"
    )

    @field_validator("value", mode="before")
    @classmethod
    def _as_named(cls, value: Any) -> Any:
        return value.strip().lower() if isinstance(value, str) else value


_SOLUTION = re.compile(r"^[^\w\n]{0,6}(?:solution|execution)[ \t*]{0,3}:[ \t*]{0,3}", re.IGNORECASE | re.M)


def read_planned(text: str, fields: Fields) -> dict[str, Any]:
    """Read "Plan:" and its steps, then "Solution:" and reasoning that ends in "The answer is …"; the plan is optional.

    >>> read_planned("Plan:\\n1. Find who made it.\\nSolution: It is by Ann Lee. The answer is Ann Lee.", {})
    {'plan': ['Find who made it.'], 'rationale': 'It is by Ann Lee.', 'answer': 'Ann Lee'}
    """
    solution = _SOLUTION.search(text)
    if solution is None:
        return {"plan": [], **read_reasoned(text, fields)}
    return {"plan": read_items(text[: solution.start()], fields), **read_reasoned(text[solution.end() :], fields)}


def write_planned(output: PlannedResponse, fields: Fields) -> str:
    """Write the form that ``read_planned`` reads."""
    plan = f"Plan:\n{write_items(output.plan)}\nSolution: " if output.plan else ""
    return f"{plan}{write_reasoned(output, fields)}"


def show_solved(history: Sequence[Mapping[str, str]] | None, fields: Fields) -> str:
    """Show sub-questions with their answers.

    >>> print(show_solved([{"sub_question": "Who made it?", "answer": "Ann Lee"}], {}))
    Sub-question: Who made it?
    Answer: Ann Lee
    """
    return "\n".join(
        f"Sub-question: {one_line(pair['sub_question'])}\nAnswer: {one_line(pair['answer'] or 'unknown')}"
        for pair in history or ()
    )


def show_numbered(texts: Sequence[str] | None, fields: Fields) -> str:
    """Show texts under their numbers, one per line."""
    return write_items([one_line(text) for text in texts or ()])


def sub_questions_task(name: str, *, fields: tuple[str, ...], show: Show = BY_TYPE) -> Task[Decomposition]:
    """Make a task whose reply is a list of sub-questions."""
    lines = (Items("sub_questions", "the sub-questions", otherwise=question_lines),)
    return Task(name, fields, Decomposition, {"sub_questions": ()}, lines=lines, show=show)


LEAST_TO_MOST_DECOMPOSE = sub_questions_task("least_to_most.decompose", fields=("question", "kind"))
LEAST_TO_MOST_SOLVE = reasoned_answer(
    "least_to_most.solve", fields=("question", "history", "sub_question"), show={"history": show_solved}
)
PLAN_SOLVE_SOLVE = Task(
    "plan_solve.solve",
    fields=("question", "kind"),
    output=PlannedResponse,
    parse=read_planned,
    write=write_planned,
    default={"answer": ""},
)
PLAN_SOLVE_IR_PLAN = sub_questions_task("plan_solve_ir.plan", fields=("question", "kind"))
PLAN_SOLVE_IR_SOLVE = reasoned_answer(
    "plan_solve_ir.solve", fields=("question", "plan", "passages"), show={"plan": show_numbered}
)
TOT_IR_PROPOSE = sub_questions_task(
    "tot_ir.propose", fields=("question", "history", "count", "kind"), show={"history": show_solved}
)
TOT_IR_VALUE = Task(
    "tot_ir.value",
    fields=("question", "history", "sub_question", "passages", "kind"),
    output=Valuation,
    lines=(
        Line("Finding", "answer", also=("answer",)),
        Choice("Value", "value", ("sure", "likely", "impossible"), also=("evaluation", "verdict")),
    ),
    default={"answer": None, "value": "impossible"},
    show={"history": show_solved},
)
TOT_IR_ANSWER = reasoned_answer(
    "tot_ir.answer", fields=("question", "history", "passages"), show={"history": show_solved}
)
