"""The prompt tasks: for each, the fields it is given and the typed output it gives back, a family of methods a file.

One output shape serves both renderings: the ``text`` form (the papers' markers) is read by ``parse`` and written by
``write``; the ``json`` form and its schema derive from the shape.
"""

from __future__ import annotations

from polyhop.errors import UnknownName
from polyhop.prompts.tasks import answers, ge, resp, searchain, tor
from polyhop.prompts.tasks.answers import Response
from polyhop.prompts.tasks.base import Output, Task
from polyhop.prompts.tasks.resp import Plan, SubAnswer, Summary
from polyhop.prompts.tasks.searchain import ChainOfQuery, QueryNode, TracedContent
from polyhop.prompts.tasks.tor import MergedReview, Review, Sufficiency, Supplement

__all__ = [
    "TASKS",
    "ChainOfQuery",
    "MergedReview",
    "Output",
    "Plan",
    "QueryNode",
    "Response",
    "Review",
    "SubAnswer",
    "Sufficiency",
    "Summary",
    "Supplement",
    "Task",
    "TracedContent",
    "task_named",
]

TASKS: dict[str, Task] = {
    task.name: task for task in (*tor.TASKS, *ge.TASKS, *resp.TASKS, *searchain.TASKS, *answers.TASKS)
}


def task_named(name: str) -> Task:
    """The task of that name; an unknown one is an error that lists them."""
    try:
        return TASKS[name]
    except KeyError:
        raise UnknownName("prompt task", name, TASKS) from None
