"""The methods and the prompts as tables."""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from polyhop.cli import show as draw
from polyhop.common.text import counted
from polyhop.methods.meanings import meaning
from polyhop.methods.registry import FAMILIES, Method, method_named, methods
from polyhop.prompts.book import PromptBook
from polyhop.prompts.tasks import CONTINUED, SCORED, TASKS

WIDE = 100
"""Minimum width of a terminal, in columns, for the papers in the list of methods."""
_SECTION = re.compile(r" \((?:ToR )?(?:§|Algorithm)[^)]*\)(?=\.$)")
"""The place in the paper at the end of a summary."""


def print_methods(as_json: bool) -> None:
    """Print every method, by family."""
    rows = sorted(map(_method, methods().values()), key=lambda row: FAMILIES.index(row["family"]))
    if as_json:
        draw.print_json(rows)
        return
    table = Table(box=None, pad_edge=False, collapse_padding=True)
    table.add_column("method", no_wrap=True)
    to = draw.console()
    columns = ["calls", "what it does", "paper"][: 3 if to.width >= WIDE else 2]
    for name in columns:
        table.add_column(name, justify="right" if name == "calls" else "left", overflow="fold")
    for family, members in groupby(rows, key=lambda row: str(row["family"])):
        table.add_row(Text(f"\n{family}", style="bold magenta"))
        for row in members:
            calls = "–" if row["calls"] is None else str(row["calls"])
            cells = (calls, _SECTION.sub("", _plain(row["summary"])), row["paper"])
            table.add_row(Text(row["name"], style="bold"), *map(Text, cells[: len(columns)]))
    to.print(table)
    to.print(
        Text("\ncalls: typical model calls per question; 'polyhop methods NAME' shows the settings of one", style="dim")
    )


def print_method(name: str, as_json: bool) -> None:
    """Print one method with its settings."""
    method = method_named(name)
    row = _method(method)
    if as_json:
        draw.print_json(row)
        return
    to = draw.console()
    needs = _needs(row)
    max_length = f"at most {counted(row['layers'], 'calls')} in a row"
    head = f"  {row['paper']}; {row['family']}{needs and f', needs {needs}'}, {max_length}"
    to.print(Text.assemble((row["name"], "bold"), (head, "dim")))
    to.print(Padding(Text(_plain(row["summary"])), (0, 0, 0, 2)))
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(overflow="fold", max_width=to.width // 2)
    table.add_column(overflow="fold")
    for name, setting in method.settings.items():
        others = [choice for choice in _choices(setting.type) if choice != setting.default]
        choices = f"or {', '.join(map(_shown, others))}" if others else ""
        said = "; ".join(filter(None, (_plain(meaning(method, name)), choices)))
        table.add_row(Text.assemble((f"{name}=", "cyan"), _shown(setting.default)), Text(said, style="dim"))
    to.print(Padding(table, (1, 0, 0, 4)))


def print_prompts(book: PromptBook, as_json: bool) -> None:
    """Print the prompt tasks, with the files that a book has for them."""
    rows: list[dict[str, Any]] = [
        {
            "task": name,
            "role": book[name].settings.role,
            "fields": list(task.fields),
            "output": list(task.output.model_fields),
            "source": book[name].source,
        }
        for name, task in (TASKS | CONTINUED).items()
    ]
    rows += [
        {
            "task": name,
            "role": book.role(name),
            "fields": [task.target, *task.fields],
            "output": [f"the likelihood of its {task.target}"],
            "source": book.scored(name).source,
        }
        for name, task in SCORED.items()
    ]
    if as_json:
        draw.print_json(rows)
        return
    table = Table(box=None, pad_edge=False)
    for name in ("task", "role", "fields", "output", "file"):
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(", ".join(value) if isinstance(value, list) else value) for value in row.values()))
    draw.console().print(table)


def _method(method: Method) -> dict[str, Any]:
    settings = method.resolve({})
    return {
        "name": method.name,
        "family": method.family,
        "summary": method.summary,
        "paper": method.paper,
        "needs": sorted(method.needs(settings)),
        "calls": method.calls,
        "layers": method.layers(settings),
        "settings": {name: setting.default for name, setting in method.settings.items()},
    }


def _needs(row: Mapping[str, Any]) -> str:
    return ", ".join(dict.fromkeys(need.partition(":")[0].replace("_", " ") for need in row["needs"]))


def _plain(text: str) -> str:
    """Return a sentence of the source without its marks of code."""
    return text.replace("`", "")


def _choices(kind: Any) -> list[Any]:
    """Return the values that a setting's type lists."""
    if kind is bool:
        return [True, False]
    inner = [choice for part in typing.get_args(kind) for choice in _choices(part)]
    return list(typing.get_args(kind)) if typing.get_origin(kind) is typing.Literal else inner


def _shown(value: Any) -> str:
    """Return a value as ``-o`` takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None or value == ():
        return "(not set)"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
