"""The results of a model's conformance test, as tables and as JSON. Model replies are shown as printable text."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from itertools import groupby
from typing import Any

import orjson
from rich.table import Table
from rich.text import Text

from polyhop.cli import show as draw
from polyhop.cli.printing import write
from polyhop.common.text import counted, printable
from polyhop.engine.options import PipelineOptions
from polyhop.evaluation.conformance import Conformance, TaskResult
from polyhop.redaction import redacted

_MAX_NOTE = 60
"""Maximum length of a problem in the table, in characters."""


def row_of(result: Conformance, options: PipelineOptions) -> dict[str, Any]:
    """Return the results as ``--json`` prints them."""
    return {**result.to_dict(), "recommended": _recommended(result, options)}


def _recommended(result: Conformance, options: PipelineOptions) -> str:
    """Return the recommended options as one line, with those that the model was tested with; "" if there are none."""
    words = result.recommended
    if not words:
        return ""
    for name, value in ((options.lm_options or {}).get("extra_body") or {}).items():
        words += ["--lm-option", f"{name}={value if isinstance(value, str) else orjson.dumps(value).decode()}"]
    if options.max_tokens_per_call is not None:
        words += ["--max-tokens-per-call", str(options.max_tokens_per_call)]
    return redacted(shlex.join(words))


def print_conformance(result: Conformance, options: PipelineOptions) -> None:
    """Print the tables of tasks and capabilities, the speed, and the recommended options."""
    to = draw.console()
    table = Table(box=None, pad_edge=False, title_justify="left")
    for name in ("task", "text", "json", "replies that were cut or could not be read"):
        table.add_column(name, overflow="fold")
    for system, rows in groupby(sorted(result.tasks, key=_order(result)), key=lambda row: row.system):
        table.add_row(Text(system, style="bold magenta"))
        for task, forms in groupby(rows, key=lambda row: row.task):
            by_form = {row.rendering: row for row in forms}
            notes = "; ".join(filter(None, (_note(row) for row in by_form.values())))
            table.add_row(Text(task), *(Text(_verdict(by_form[form])) for form in ("text", "json")), Text(notes))
    total = len(result.tasks) // 2
    table.add_row(Text("read", style="bold"), *(f"{result.parsed(form)}/{total}" for form in ("text", "json")))
    write("\n")
    to.print(table)
    checks = Table(box=None, pad_edge=False)
    for name in ("capability", "works", "how it showed"):
        checks.add_column(name, overflow="fold")
    for check in result.checks:
        checks.add_row(Text(check.name), Text(check.state), Text(draw.clean(check.detail, 2 * _MAX_NOTE)))
    write("\n")
    to.print(checks)
    about = "about " if result.tokens_estimated else ""
    facts = [
        f"{counted(result.calls, 'calls')}, {result.seconds_per_call:.2f} s per call",
        f"{about}{result.tokens_per_second:,.0f} tokens per second of a call",
        f"{about}{result.prompt_tokens:,} + {result.completion_tokens:,} tokens",
        *([] if result.cost is None else [f"cost {result.cost:.4f}"]),
    ]
    write(f"\n{'; '.join(facts)}\n")
    if line := _recommended(result, options):
        write(f"recommended: {printable(line)}\n")


def _order(result: Conformance) -> Any:
    """Return a key that sorts the results by system and task, in the order in which they were asked."""
    first: Mapping[str, int] = {row.task: i for i, row in reversed(list(enumerate(result.tasks)))}
    return lambda row: first[row.task]


def _verdict(row: TaskResult) -> str:
    return "right" if row.right else "read" if row.parsed else "–"


def _note(row: TaskResult) -> str:
    said = f": {draw.clean(row.text, 30)!r}" if row.text and not row.parsed else ""
    problem = row.problem and draw.clean(row.problem, _MAX_NOTE) + said
    faults = "; ".join(filter(None, ("cut" if row.cut else "", problem)))
    return f"{row.rendering}: {faults}" if faults else ""
