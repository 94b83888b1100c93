"""The reference of the documentation, generated from the code: commands, settings, prompts, tasks, errors, scale."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.resources import files
from typing import Any, get_args

import typer.main

from benchmarks import growth
from polyhop import errors
from polyhop.cli.app import app
from polyhop.methods.meanings import literals, meanings, takes_many, takes_number
from polyhop.methods.registry import FAMILIES, Method, Setting, methods
from polyhop.prompts.tasks import SCORED, TASKS, Task

WIDTH = 100
"""Width of the help of a command, in columns."""
_FENCE = "~" * 8
_HEADS = {
    "cli": """# Command line

This page has the output of `polyhop COMMAND --help`. Options can also be set in the environment: `--lm` of `run` as
`POLYHOP_RUN_LM`. Results go to stdout, everything else to stderr; see the [exit codes](errors.md#exit-codes).""",
    "settings": """# Settings

Give a setting by `-o NAME=VALUE` on the command line, or as a keyword argument in Python. The defaults are those of
the papers, if they state them (ToR is Tree of Reviews, whose comparison sets those of the baselines). Names with the
same meaning in several methods are [explained with the methods](../methods/README.md#names-of-settings).""",
    "prompts": """# Prompts

These are the built-in prompt files, one per task. `polyhop prompts show TASK --rendered` shows one filled in;
`--prompts FOLDER` uses your own ([prompts](../models.md#prompts)). For every kind of question except `qa`,
demonstrations are drawn from `solved.jsonl`. The outputs are described under [tasks](tasks.md).""",
    "tasks": """# Tasks

A call of a language model is a task: named fields in, a typed output out. An unreadable reply is requested once more;
then the safe default is used. The files are under [prompts](prompts.md).""",
    "errors": """# Errors

All errors are subclasses of `PolyhopError` in `polyhop.errors`. A message says what was wrong, with which value, and
what would work. Errors without an exit code are handled internally and end no command.""",
    "scale": """# Machines and cost

The machines and the cost of a load, by the formulas of [growth.py](../../benchmarks/growth.py);
[scaling](../scale.md#estimates) explains the tables. With your own numbers:
`python -m benchmarks.scale growth --set gpu_hour=1.8`.""",
}
_CAUGHT = {errors.BudgetSpent, errors.Waiting}
"""Errors that end no command: a run catches them."""
_PROMPTS = files("polyhop.prompts") / "files"


def cli() -> str:
    """Return every command and option, as ``--help`` prints them."""
    parts = [_HEADS["cli"]]
    parts += [f"## {' '.join(path)}\n\n{fenced(usage(path, command))}" for path, command in verbs()]
    return "\n\n".join(parts) + "\n"


def verbs() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the command and its subcommands at all levels, each with the words that call it."""
    waiting: list[tuple[tuple[str, ...], Any]] = [(("polyhop",), typer.main.get_command(app))]
    while waiting:
        path, command = waiting.pop(0)
        yield path, command
        waiting[:0] = [((*path, name), below) for name, below in getattr(command, "commands", {}).items()]


def usage(path: tuple[str, ...], command: Any) -> str:
    """Return the help of a command."""
    context = command.make_context(
        " ".join(path), [], resilient_parsing=True, terminal_width=WIDTH, help_option_names=["-h", "--help"]
    )
    return str(command.get_help(context))


def settings() -> str:
    """Return every setting of every method."""
    parts = [_HEADS["settings"]]
    for family in FAMILIES:
        for name, method in sorted(methods().items()):
            if method.family != family:
                continue
            parts += [f"## {name}", f"{method.summary} {method.paper}".strip(), settings_of(method)]
    return "\n\n".join(parts) + "\n"


def settings_of(method: Method) -> str:
    """Return a table of a method's settings: default, values, and the comment in the source."""
    said = meanings(method)
    rows = [
        (f"`{each.name}`", f"`{shown(each.default)}`", choices(each), said[each.name].replace("None:", "not set:"))
        for each in method.settings.values()
    ]
    return table(("setting", "default", "values", "meaning, and its place in the paper"), rows)


def choices(setting: Setting) -> str:
    """Return the values of a setting: its words, or the kind of its value."""
    hint = setting.type
    if words := [f"`{shown(each)}`" for each in literals(hint)]:
        return ", ".join(words) + (", a number" if takes_number(setting) else "")
    if hint is bool:
        return "`true`, `false`"
    kinds = {"int": "whole number", "float": "number", "str": "text", "FileName": "file"}
    found = [noun for kind, noun in kinds.items() if re.search(rf"\b{kind}\b", str(hint))]
    many = "several, with commas between: " if takes_many(setting) else ""
    return many + " or ".join("file" if setting.names_file else noun for noun in found[:2])


def prompts() -> str:
    """Return every built-in prompt file."""
    parts = [_HEADS["prompts"]]
    for name in sorted({*TASKS, *SCORED}):
        demonstrations = _PROMPTS / f"{name}.demos.jsonl"
        count = len(demonstrations.read_text("utf-8").splitlines()) if demonstrations.is_file() else 0
        parts += [f"## {name}", fenced((_PROMPTS / f"{name}.md").read_text("utf-8"), "prompt")]
        parts += [f"`{name}.demos.jsonl` has {count} demonstrations."] if count else []
    return "\n\n".join(parts) + "\n"


def tasks() -> str:
    """Return every task: its fields, its output, and the safe default."""
    parts = [_HEADS["tasks"]]
    parts += [section for _, task in sorted(TASKS.items()) for section in task_section(task)]
    parts += [
        "# Scored tasks",
        "Nothing is generated: the model returns the probability of a given text after the prompt.",
    ]
    for name, scored in sorted(SCORED.items()):
        parts += [f"## {name}", f"Fields: {_names(scored.fields)}. Scored: `{scored.target}`."]
    return "\n\n".join(parts).replace("\n\n# Scored tasks", "\n\n## Scored tasks") + "\n"


def task_section(task: Task[Any]) -> list[str]:
    """Return the section of a task."""
    rows = [
        (f"`{name}`", f"`{_kind(field.annotation)}`", field.description or "", f"`{_json(task.default.get(name))}`")
        for name, field in task.output.model_fields.items()
    ]
    return [f"## {task.name}", f"Fields: {_names(task.fields)}.", table(("output", "type", "", "safe default"), rows)]


def exits() -> str:
    """Return every error with its exit code."""
    below = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.PolyhopError)}
    rows = [
        (
            f"`{kind.__name__}`",
            f"`{kind.__mro__[1].__name__}`",
            "–" if kind in _CAUGHT else str(kind.exit_code),
            " ".join((kind.__doc__ or "").split()),
        )
        for kind in sorted(below, key=lambda kind: (len(kind.__mro__), kind.__name__))
    ]
    codes = [
        ("0", "done"),
        ("1", "a question failed, or a check found problems"),
        ("2", "wrong usage, or an unreachable model or retriever"),
        ("3", "waiting for the results of a batch: repeat the command when they are available"),
        ("130", "interrupted; finished work is kept"),
    ]
    parts = [_HEADS["errors"]]
    parts += [table(("error", "subclass of", "exit code", "meaning"), rows)]
    parts += ["## Exit codes", table(("code", "meaning"), codes)]
    return "\n\n".join(parts) + "\n"


def scale() -> str:
    """Return the machines and the cost of a load, by ``benchmarks/growth.py``."""
    parts = [_HEADS["scale"], "## Unit costs", "\n".join(growth.assumptions(growth.DEFAULTS))]
    parts += ["## Passages", "\n".join(growth.holding())]
    parts += [part for name in growth.MEASURED for part in (f"## {name}", "\n".join(growth.table(name)))]
    return "\n\n".join(parts) + "\n"


PAGES: Mapping[str, Callable[[], str]] = {
    "cli": cli,
    "settings": settings,
    "prompts": prompts,
    "tasks": tasks,
    "errors": exits,
    "scale": scale,
}
"""The pages under ``reference/``, by name."""


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def fenced(text: str, language: str = "text") -> str:
    """Return a text in a fence that is longer than any fence in it."""
    return f"{_FENCE}{language}\n{text.strip()}\n{_FENCE}"


def _names(fields: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in fields)


def _kind(hint: Any) -> str:
    if isinstance(hint, type) and not get_args(hint):
        return hint.__name__
    return re.sub(r"\b[\w.]+\.(?=\w)", "", str(hint)).replace(" | ", " or ")


def shown(value: Any) -> str:
    """Return a setting's value as it is written on the command line."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None or value in ((), ""):
        return "not set"
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
