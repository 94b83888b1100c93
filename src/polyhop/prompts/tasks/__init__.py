"""The prompt tasks: for each, the fields it is given and the typed output it gives back, a family of methods a file.

One output shape serves both renderings: the ``text`` form (the papers' markers) is read by ``parse`` and written by
``write``; the ``json`` form and its schema derive from the shape.
"""

from __future__ import annotations

import re

from polyhop.errors import UnknownName, UsageError
from polyhop.prompts.tasks import (
    answers,
    closed_book,
    era_cot,
    ge,
    iterative,
    judge,
    plan_solve_ir,
    promptrank,
    react,
    reader,
    reranking,
    resp,
    searchain,
    self_ask,
    summaries,
    toolformer,
    tor,
    tot_ir,
    verify_edit,
)
from polyhop.prompts.tasks.answers import Response
from polyhop.prompts.tasks.base import Output, ScoredTask, Task
from polyhop.prompts.tasks.closed_book import Decomposition, PlannedResponse, Recitation
from polyhop.prompts.tasks.ge import SubQuestion
from polyhop.prompts.tasks.iterative import Hop, Sentence
from polyhop.prompts.tasks.judge import Verdict
from polyhop.prompts.tasks.react import Move
from polyhop.prompts.tasks.resp import Plan, SubAnswer, Summary
from polyhop.prompts.tasks.searchain import ChainOfQuery, QueryNode, TracedContent
from polyhop.prompts.tasks.self_ask import FollowUp, FollowUps
from polyhop.prompts.tasks.toolformer import Continuation
from polyhop.prompts.tasks.tor import MergedReview, Review, Sufficiency, Supplement
from polyhop.prompts.tasks.tot_ir import Valuation

__all__ = [
    "SCORED",
    "TASKS",
    "ChainOfQuery",
    "Continuation",
    "Decomposition",
    "FollowUp",
    "FollowUps",
    "Hop",
    "MergedReview",
    "Move",
    "Output",
    "Plan",
    "PlannedResponse",
    "QueryNode",
    "Recitation",
    "Response",
    "Review",
    "ScoredTask",
    "Sentence",
    "SubAnswer",
    "SubQuestion",
    "Sufficiency",
    "Summary",
    "Supplement",
    "Task",
    "TracedContent",
    "Valuation",
    "Verdict",
    "register_task",
    "task_named",
]

TASKS: dict[str, Task] = {
    task.name: task
    for family in (
        tor,
        ge,
        resp,
        searchain,
        reader,
        answers,
        closed_book,
        self_ask,
        react,
        toolformer,
        tot_ir,
        plan_solve_ir,
        iterative,
        summaries,
        verify_edit,
        era_cot,
        judge,
        reranking,
    )
    for task in family.TASKS
}
"""The tasks whose output a model generates."""

SCORED: dict[str, ScoredTask] = {task.name: task for task in promptrank.SCORED}
"""The tasks whose prompt a given text is scored after."""


def register_task(task: Task) -> Task:
    """Make a prompt task of your own known, so that a method may ask it; the task.

    Its prompt file and demonstrations stand in ``task.folder``; a user's folder of prompts may replace them, as it may
    a shipped task's. Registering a task of the same folder again replaces it, as when its module is loaded anew.

    Raises:
        UsageError: the name is no name, or another task's; the task has no folder.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", task.name):
        raise UsageError(f"{task.name!r} is no name for a prompt task: words with dots between them are, as in my.step")
    if task.folder is None:
        raise UsageError(
            f"{task.name}: a prompt task needs the folder of its prompt file, as folder=Path(__file__).parent"
        )
    there = TASKS.get(task.name) or SCORED.get(task.name)
    if there is not None and getattr(there, "folder", None) != task.folder:
        raise UsageError(f"a prompt task named {task.name!r} is already there: give yours another name")
    TASKS[task.name] = task
    return task


def task_named(name: str) -> Task:
    """The task of that name; an unknown one is an error that lists them."""
    try:
        return TASKS[name]
    except KeyError:
        raise UnknownName("prompt task", name, TASKS) from None
