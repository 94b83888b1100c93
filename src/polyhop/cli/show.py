"""Draws answers, traces and tables in the terminal. Text of passages and models is shown as text, never as markup."""

from __future__ import annotations

import sys
from itertools import groupby
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from polyhop.citing import place_of
from polyhop.text import find_folded
from polyhop.trace import Ask, Branch, Note, Readout, Score, Searched, Step, Trace
from polyhop.types import Answer, Passage

VERDICT_STYLES = {"accept": "bold green", "search": "cyan", "reject": "dim", "stop": "yellow"}


def console() -> Console:
    """The console results go to."""
    return Console(file=sys.stdout, highlight=False)


def as_json(value: Any) -> str:
    """``value`` as indented JSON."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n"


def print_json(value: Any) -> None:
    """``value`` as indented JSON on stdout."""
    sys.stdout.write(as_json(value))


def print_answer(answer: Answer, *, show_trace: bool, to: Console) -> None:
    """The answer, its citations, and, if asked for, how it was found."""
    if show_trace:
        to.print(trace_tree(answer.trace))
    if answer.abstained:
        to.print(Text(f"No answer: its confidence, {_share(answer.confidence)}, is too low.", style="bold yellow"))
    else:
        sure = f"  (confidence {_share(answer.confidence)})"
        to.print(Text.assemble(("Answer: ", "bold"), (clean(answer.text) or "(none)", "bold green"), (sure, "dim")))
    if not answer.supported and not answer.abstained:
        to.print(Text("No retrieved evidence supports this answer.", style="yellow"))
    known = {passage.id: passage for piece in answer.evidence for passage in piece.passages}
    for citation in answer.citations:
        to.print(_citation(citation.marker, known[citation.passage_id], answer.text))
    usage = answer.usage
    to.print(
        Text(
            f"{usage.calls} model calls ({usage.layers} in a row), {usage.searches} searches, "
            f"{usage.prompt_tokens + usage.completion_tokens:,} tokens, {usage.seconds:.2f} s",
            style="dim",
        )
    )


def trace_tree(trace: Trace) -> Tree:
    """The whole trace as a tree: branches, searches, model calls."""
    root = Tree(Text(clean(trace.question), style="bold"))
    _grow(root, trace, None)
    if trace.budget:
        root.add(Text(f"budget spent: {trace.budget}", style="yellow"))
    return root


_FOLDED = frozenset({Score.kind, Readout.kind})
"""Steps of which a method may take a hundred in a row."""
_MOST_TITLES = 15


def _grow(tree: Tree, trace: Trace, parent: int | None) -> None:
    for kind, steps in groupby(trace.children(parent), key=lambda step: step.kind):
        alike = list(steps)
        if kind in _FOLDED and len(alike) > 1 and not any(trace.children(step.id) for step in alike):
            tree.add(Text(f"{kind} × {len(alike)}", style="dim"))
            continue
        for step in alike:
            twig = tree.add(_line(step))
            _grow(twig, trace, step.id)


def _line(step: Step) -> Text:
    match step:
        case Branch():
            verdict = step.verdict or "cut short"
            return Text.assemble((clean(step.label), "bold"), "  ", (verdict, VERDICT_STYLES.get(verdict, "magenta")))
        case Searched():
            titles = ", ".join(clean(p.title) for p in step.passages[:_MOST_TITLES]) or "nothing found"
            titles += f" and {more} more" if (more := len(step.passages) - _MOST_TITLES) > 0 else ""
            return Text.assemble(("search ", "blue"), clean(step.query, 100), ("  → " + titles, "dim"))
        case Ask():
            return Text.assemble((f"{step.task} ", "magenta"), _told(step))
        case Note():
            data = ", ".join(f"{name}: {clean(str(value))}" for name, value in step.data.items())
            return Text(f"{step.name} ({data})", style="yellow")
        case _:
            return Text(step.kind)


def _told(step: Ask) -> Text:
    if step.output is None:
        return Text(f"could not be read: {clean(step.problem or '')}", style="red")
    told = {name: value for name, value in step.output.items() if value is not None}
    return Text("; ".join(f"{name}: {clean(_word(value), 160)}" for name, value in told.items()))


def _word(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"


def _citation(marker: int, passage: Passage, answer: str) -> Text:
    line = Text.assemble((f"[{marker}] ", "bold"), (clean(passage.title), "bold"), "  ")
    if where := place_of(passage.metadata):
        line.append(f"({clean(where)})  ", "dim")
    line.append(clean(passage.text, 220))
    if span := find_folded(answer, line.plain):
        line.stylize("bold green", *span)
    return line


def clean(text: str, longest: int = 400) -> str:
    """One line of printable text, cut to ``longest`` characters: control characters would reach the terminal.

    >>> clean("a\\x1b[31m\\nb")
    'a[31m b'
    """
    line = " ".join("".join(c for c in text if c.isprintable() or c.isspace()).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def turned(rows: list[list[str]]) -> list[list[str]]:
    """Rows as columns.

    >>> turned([["run", "EM"], ["a", "41.0"]])
    [['run', 'a'], ['EM', '41.0']]
    """
    return [list(column) for column in zip(*rows, strict=True)]


def print_rows(rows: list[list[str]], to: Console, *, names: int = 3) -> None:
    """Rows as a table, the first one its head; the first ``names`` columns are words, the others numbers."""
    table = Table(box=None, pad_edge=False)
    for place, name in enumerate(rows[0]):
        is_name = place < names
        table.add_column(name, justify="left" if is_name else "right", overflow="fold", no_wrap=is_name and names == 1)
    for row in rows[1:]:
        table.add_row(*(Text(clean(cell)) for cell in row))
    to.print(table)
