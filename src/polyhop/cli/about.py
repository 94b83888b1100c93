"""``polyhop methods``, ``prompts`` and ``doctor``."""

from __future__ import annotations

import platform
import typing
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from typing import Annotated, Any

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from polyhop import __version__
from polyhop.cli import options as opt
from polyhop.cli import show as draw
from polyhop.cli.answers import cut_replies
from polyhop.cli.printing import write
from polyhop.common.extras import EXTRA_MODULES, is_installed
from polyhop.common.files import cache_folder
from polyhop.common.text import counted, printable
from polyhop.engine.options import PipelineOptions
from polyhop.engine.parts import open_prompts
from polyhop.errors import PolyhopError
from polyhop.methods.registry import FAMILIES, Method, method_named, methods
from polyhop.pipeline import Pipeline
from polyhop.prompts.prompt import Rendering
from polyhop.prompts.tasks import SCORED, TASKS
from polyhop.redaction import redacted

WIDE = 100
"""Minimum width of a terminal, in columns, for the settings in the list of methods."""
CORE = ("aiohttp", "orjson", "pydantic", "numpy", "tantivy", "typer", "rich")

app = opt.new_app()
prompts_app = opt.new_app(help="Show the prompts: each is a text file.", no_args_is_help=True)
app.add_typer(prompts_app, name="prompts")


@app.command("methods")
def methods_(
    name: Annotated[str | None, typer.Argument(help="Show one method in full.")] = None,
    as_json: opt.Json = False,
) -> None:
    """List the methods by family: papers, needs, calls, settings. Calls are typical calls per question."""
    if name is not None:
        _print_method(_method(method_named(name)), as_json)
        return
    rows = sorted(map(_method, methods().values()), key=lambda row: FAMILIES.index(row["family"]))
    if as_json:
        draw.print_json(rows)
        return
    table = Table(box=None, pad_edge=False, collapse_padding=True)
    table.add_column("method", no_wrap=True)
    to = draw.console()
    columns = ["paper", "needs", "calls", "settings"][: 4 if to.width >= WIDE else 3]
    for name in columns:
        table.add_column(name, justify="right" if name == "calls" else "left", overflow="fold")
    for family, members in groupby(rows, key=lambda row: str(row["family"])):
        table.add_row(Text(f"\n{family}", style="bold magenta"))
        for row in members:
            calls = "–" if row["calls"] is None else str(row["calls"])
            cells = (row["paper"], _needs(row), calls, ", ".join(row["settings"]))
            table.add_row(Text(row["name"], style="bold"), *map(Text, cells[: len(columns)]))
    to.print(table)
    to.print(
        Text("\ncalls: typical model calls per question; 'polyhop methods NAME' shows the settings of one", style="dim")
    )


@prompts_app.command("list")
@opt.takes_options("prompts")
def prompts_list(options: PipelineOptions, as_json: opt.Json = False) -> None:
    """List the prompt tasks: role, fields, output."""
    book = open_prompts(options.prompts)
    rows: list[dict[str, Any]] = [
        {
            "task": name,
            "role": book[name].settings.role,
            "fields": list(task.fields),
            "output": list(task.output.model_fields),
            "source": book[name].source,
        }
        for name, task in TASKS.items()
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


@prompts_app.command("show")
@opt.takes_options("prompts", "rendering")
def prompts_show(
    task: Annotated[str, typer.Argument(help="A prompt task, such as tor.review.")],
    options: PipelineOptions,
    rendered: Annotated[
        bool, opt.option("--rendered", help="Show it as the model sees it, with demonstrations.")
    ] = False,
) -> None:
    """Show a prompt file, or the prompt as the model sees it."""
    book = open_prompts(options.prompts)
    if not rendered:
        write((book.scored(task) if task in SCORED else book[task]).text)
        return
    fields = book.example(task)
    if task in SCORED:
        write(f"{book.scored(task).render(fields)}\n")
        return
    prompt = book[task]
    rendering: Rendering = "json" if options.rendering == "json" else "text"
    for turn in prompt.render(fields, rendering=rendering, shots=prompt.settings.shots):
        write(f"--- {turn['role']}\n{turn['content']}\n\n")


@app.command()
@opt.takes_options("lm_option", "max_tokens_per_call")
def doctor(
    lm: Annotated[str | None, opt.option(help="Also test this language model with one small call.")] = None,
    *,
    options: PipelineOptions,
    as_json: opt.Json = False,
) -> None:
    """Check the installation. Shows versions, extras and the cache folder, and tests a language model if named."""
    found: dict[str, Any] = {
        "polyhop": __version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in CORE},
        **{
            f"extra {name}": "installed" if is_installed(name) else f"not installed: pip install 'polyhop[{name}]'"
            for name in EXTRA_MODULES
        },
        "cache folder": str(cache_folder()),
    }
    if lm is not None:
        found[redacted(f"lm {lm}")] = _try(lm, options)
    if as_json:
        draw.print_json(found)
    else:
        for name, value in found.items():
            write(printable(f"{name}: {value}") + "\n")


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


def _print_method(row: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        draw.print_json(row)
        return
    to = draw.console()
    needs = _needs(row)
    max_length = f"at most {counted(row['layers'], 'calls')} in a row"
    head = f"  {row['paper']}; {row['family']}{needs and f', needs {needs}'}, {max_length}"
    to.print(Text.assemble((row["name"], "bold"), (head, "dim")))
    to.print(Padding(Text(row["summary"]), (0, 0, 0, 2)))
    for name, setting in method_named(row["name"]).settings.items():
        others = [choice for choice in _choices(setting.type) if choice != setting.default]
        choices = f"  or {', '.join(map(_shown, others))}" if others else ""
        to.print(Padding(Text.assemble((f"{name}=", "cyan"), _shown(setting.default), (choices, "dim")), (0, 0, 0, 4)))


def _try(name: str, options: PipelineOptions) -> str:
    """Ask a model one question, as a method would; raise an error if the reply cannot be read."""
    with Pipeline(None, "direct", **replace(options, lm=name, cache=False).arguments()) as pipeline:
        answer = pipeline.ask("Which planet do we live on?")
    calls = answer.trace.calls
    if calls[-1].output is None:
        replies = ", then ".join(repr(draw.clean(call.text, 60)) for call in calls)
        raise PolyhopError(f"{name} gave no readable answer; it replied {replies}")
    cut = cut_replies(answer.usage)
    return f"answers ({draw.clean(answer.text or calls[-1].text, 60)!r}){cut and '; ' + cut}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


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
