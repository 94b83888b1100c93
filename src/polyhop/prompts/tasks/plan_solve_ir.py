"""The tasks of Plan-and-Solve with retrieval (Wang et al., 2023): a plan to search by, and what it comes to.

``plan`` is the questions of the plan, in order.
"""

from __future__ import annotations

from collections.abc import Sequence

from polyhop.prompts.show import one_line
from polyhop.prompts.tasks.answers import Response, read_reasoned, write_reasoned
from polyhop.prompts.tasks.base import Fields, Task
from polyhop.prompts.tasks.closed_book import Decomposition, read_decomposition, write_decomposition, write_items


def show_plan(plan: Sequence[str] | None, fields: Fields) -> str:
    """The steps, numbered, each on its line."""
    return write_items([one_line(step) for step in plan or ()])


TASKS = (
    Task(
        "plan_solve_ir.plan",
        fields=("question",),
        output=Decomposition,
        parse=read_decomposition,
        write=write_decomposition,
        default={"sub_questions": ()},
    ),
    Task(
        "plan_solve_ir.solve",
        fields=("question", "plan", "passages"),
        output=Response,
        parse=read_reasoned,
        write=write_reasoned,
        default={"answer": ""},
        show={"plan": show_plan},
    ),
)
