"""Draws answers, traces and tables in the terminal. Text of passages and models is shown as text, never as markup."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from itertools import groupby
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from polyhop.evaluation.compare import Comparison
from polyhop.evaluation.report import Report
from polyhop.text import find_folded
from polyhop.trace import Ask, Branch, Note, Readout, Score, Searched, Step, Trace
from polyhop.types import Answer, Passage

VERDICT_STYLES = {"accept": "bold green", "search": "cyan", "reject": "dim", "stop": "yellow"}


def console() -> Console:
    """The console results go to."""
    return Console(file=sys.stdout, highlight=False)


def print_json(value: Any) -> None:
    """``value`` as indented JSON on stdout."""
    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() + "\n")


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
    line.append(clean(passage.text, 220))
    if place := find_folded(answer, line.plain):
        line.stylize("bold green", *place)
    return line


def clean(text: str, longest: int = 400) -> str:
    """One line of printable text, cut to ``longest`` characters: control characters would reach the terminal.

    >>> clean("a\\x1b[31m\\nb")
    'a[31m b'
    """
    line = " ".join("".join(c for c in text if c.isprintable() or c.isspace()).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def print_report(report: Report, to: Console) -> None:
    """A run's metrics and cost, as two small tables."""
    n = max(1, len(report.rows))
    title = f"{report.method} · {report.lm} · {report.dataset} · {len(report.rows)} questions"
    to.print(Text(title, style="bold"))
    metrics = Table(box=None, pad_edge=False)
    for name in ("metric", "percent", "n"):
        metrics.add_column(name, justify="left" if name == "metric" else "right")
    for name in filter(_is_shown, report.metrics):
        mean = report.metrics[name]
        metrics.add_row(_LABELS.get(name, name), f"{100 * mean.value:.1f}", str(mean.n))
    to.print(metrics)
    usage = report.usage
    rows: dict[str, str] = {
        **{_LABELS.get(name, name): f"{mean.value:.1f}" for name, mean in report.statistics.items()},
        "model calls": f"{usage.calls / n:.1f}",
        "calls in a row": f"{usage.layers / n:.1f}",
        "searches": f"{usage.searches / n:.1f}",
        "prompt tokens": f"{usage.prompt_tokens / n:,.0f}" + _mark(usage.tokens_estimated),
        "completion tokens": f"{usage.completion_tokens / n:,.0f}" + _mark(usage.tokens_estimated),
        "seconds": f"{usage.seconds / n:.2f}",
    }
    cost = Table(box=None, pad_edge=False)
    cost.add_column("per question")
    cost.add_column("mean", justify="right")
    for name, value in rows.items():
        cost.add_row(name, value)
    to.print(cost)
    if report.parsed_at_first_try is not None:
        defaulted = sum(usage.defaulted_by_task.values())
        to.print(f"replies parsed at first try: {100 * report.parsed_at_first_try:.1f} %; safe defaults: {defaulted}")


def side_by_side(reports: Mapping[str, Report], *, statistics: bool = False) -> list[list[str]]:
    """Runs as rows, metrics and costs as columns, the methods' ``statistics`` too; the first row is the head."""
    names = list(dict.fromkeys(name for report in reports.values() for name in filter(_is_shown, report.metrics)))
    own = list(dict.fromkeys(name for report in reports.values() for name in report.statistics if statistics))
    labels = [_LABELS.get(name, name) for name in (*names, *own)]
    rows = [["run", "method", "lm", "n", *labels, "calls", "tokens"]]
    for run, report in reports.items():
        n = max(1, len(report.rows))
        usage = report.usage
        scores = [f"{100 * report.metrics[name].value:.1f}" if name in report.metrics else "–" for name in names]
        scores += [f"{report.statistics[name].value:.2f}" if name in report.statistics else "–" for name in own]
        tokens = f"{(usage.prompt_tokens + usage.completion_tokens) / n:,.0f}"
        rows.append([run, report.method, report.lm, str(len(report.rows)), *scores, f"{usage.calls / n:.1f}", tokens])
    return rows


def by_method(reports: Mapping[str, Report]) -> list[list[str]]:
    """Methods over the same questions as rows, the surest metrics and the cost as columns: fits a terminal."""
    rows = [["method", *_BRIEF.values(), "calls", "in a row", "searches", "seconds"]]
    for name, report in reports.items():
        n, usage = max(1, len(report.rows)), report.usage
        told = [one for one in report.metrics if usage.searches or "@" not in one]  # nothing ranked is no recall of 0
        scores = [f"{100 * report.metrics[one].value:.1f}" if one in told else "–" for one in _BRIEF]
        costs = [f"{count / n:.1f}" for count in (usage.calls, usage.layers, usage.searches)]
        rows.append([name, *scores, *costs, f"{usage.seconds / n:.2f}"])
    return rows


def turned(rows: list[list[str]]) -> list[list[str]]:
    """Rows as columns.

    >>> turned([["run", "EM"], ["a", "41.0"]])
    [['run', 'a'], ['EM', '41.0']]
    """
    return [list(column) for column in zip(*rows, strict=True)]


def markdown(rows: list[list[str]]) -> str:
    """Rows as a Markdown table.

    >>> print(markdown([["a", "b"], ["1", "2|3"]]), end="")
    | a | b |
    |---|---|
    | 1 | 2\\|3 |
    """
    lines = ["| " + " | ".join(clean(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]) + "\n"


def print_rows(rows: list[list[str]], to: Console, *, names: int = 3) -> None:
    """Rows as a table, the first one its head; the first ``names`` columns are words, the others numbers."""
    table = Table(box=None, pad_edge=False)
    for place, name in enumerate(rows[0]):
        is_name = place < names
        table.add_column(name, justify="left" if is_name else "right", overflow="fold", no_wrap=is_name and names == 1)
    for row in rows[1:]:
        table.add_row(*(Text(clean(cell)) for cell in row))
    to.print(table)


def print_comparison(comparison: Comparison, to: Console) -> None:
    """Two runs' metrics, their difference with its interval, and the questions that flipped."""
    first, second = comparison.first, comparison.second
    rows = [["metric", first.method, second.method, "difference", "95 %", "better", "worse", "n"]]
    for name in filter(_is_shown, comparison.metrics):
        d = comparison.metrics[name]
        values = (f"{100 * d.first:.1f}", f"{100 * d.second:.1f}", f"{100 * (d.second - d.first):+.1f}")
        interval = f"{100 * d.low:+.1f} … {100 * d.high:+.1f}"
        rows.append([_LABELS.get(name, name), *values, interval, str(d.better), str(d.worse), str(d.n)])
    print_rows(rows, to)
    if (misled := comparison.misled) is not None:
        to.print(f"misled: {100 * misled.value:.1f} % of {misled.n} questions right without search are wrong with it")
    if comparison.flipped:
        to.print(Text(f"\n{len(comparison.flipped)} questions are right in one run only:", style="bold"))
        print_rows([["question", first.method, second.method], *map(list, comparison.flipped)], to)


_BRIEF: Mapping[str, str] = {
    "em": "EM",
    "f1": "F1",
    "cover_em": "cover-EM",
    "recall_mean@5": "R@5",
    "recall_all@5": "all@5",
}

_LABELS: Mapping[str, str] = {
    "em": "EM",
    "f1": "F1",
    "cover_em": "cover-EM",
    "reviews": "#API (reviews)",
    "documents": "#Doc",
    "rate": "Rate (#Doc/#API, %)",
    "evidence": "#Evidence",
    **{f"recall_mean@{k}": f"recall@{k} mean" for k in (2, 5, 15)},
    **{f"recall_all@{k}": f"R@{k} (all gold)" for k in (2, 5, 10, 20)},
    **{f"ar@{k}": f"AR@{k} (answer)" for k in (2, 10, 20)},
}


def _is_shown(metric: str) -> bool:
    """Passages are scored at more ranks and in more ways than fit a table: it has those with a label and a profile's
    own, JSON has all."""
    return "@" not in metric or "." in metric or metric in _LABELS


def _mark(estimated: bool) -> str:
    return " (estimated)" if estimated else ""
