"""The prompt tasks: a constant per task, such as ``tor.TOR_REVIEW``, in a module per family of methods.

``run.ask(TOR_REVIEW, …)`` returns the task's typed output. Every ``Task`` that a module of this package defines is in
``TASKS``, under its name.
"""

from __future__ import annotations

import re
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, TypeVar

from polyhop.errors import UnknownName, UsageError
from polyhop.prompts.lines import Choice, Items, Judgement, Line, YesNo
from polyhop.prompts.tasks.base import ContinuedTask, Output, OutputT, ScoredTask, Task
from polyhop.types import TypedTask

__all__ = [
    "CONTINUED",
    "SCORED",
    "TASKS",
    "Choice",
    "ContinuedTask",
    "Items",
    "Judgement",
    "Line",
    "Output",
    "ScoredTask",
    "Task",
    "YesNo",
    "register_task",
    "task_name",
    "task_named",
]

T = TypeVar("T", Task[Any], ContinuedTask[Any], ScoredTask)


def _defined(kind: type[T]) -> dict[str, T]:
    """Collect the tasks of one kind from the package's modules, by name."""
    found = (vars(import_module(f"{__name__}.{module.name}")).values() for module in iter_modules(__path__))
    return {task.name: task for values in found for task in values if type(task) is kind}


TASKS: dict[str, Task[Any]] = dict(sorted(_defined(Task).items()))
"""The tasks whose output a model generates, by name."""
CONTINUED: dict[str, ContinuedTask[Any]] = _defined(ContinuedTask)
"""The tasks whose reply continues a text, by name."""
SCORED: dict[str, ScoredTask] = _defined(ScoredTask)
"""The tasks whose prompt a given text is scored after, by name."""


def register_task(task: Task[OutputT]) -> Task[OutputT]:
    """Register a prompt task of your own, so that a method may ask it; return the task.

    Its prompt file and demonstrations lie in ``task.folder``; a user's folder of prompts may replace them, as it may
    replace a shipped task's. A task of the same name and folder replaces the one before, as when its module is loaded
    again.

    Raises:
        UsageError: the name is malformed or taken, or the task has no folder.
    """
    if not re.fullmatch(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", task.name):
        raise UsageError(f"{task.name!r} is no name for a prompt task: words with dots between them are, as in my.step")
    if task.folder is None:
        raise UsageError(
            f"{task.name}: a prompt task needs the folder of its prompt file, as folder=Path(__file__).parent"
        )
    known = TASKS.get(task.name) or CONTINUED.get(task.name) or SCORED.get(task.name)
    if known is not None and getattr(known, "folder", None) != task.folder:
        raise UsageError(f"a prompt task named {task.name!r} is already there: give yours another name")
    TASKS[task.name] = task
    return task


def task_name(task: TypedTask[Any] | str) -> str:
    """Return the name of a task that is given itself or by name."""
    return task if isinstance(task, str) else task.name


def task_named(name: str) -> Task[Any]:
    """Return the task of that name; an unknown name is an error that lists the known ones."""
    task = TASKS.get(name) or CONTINUED.get(name)
    if task is None:
        raise UnknownName("prompt task", name, {**TASKS, **CONTINUED})
    return task
