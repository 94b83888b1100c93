"""A trace as lines of text, for whoever reads it without a page: an agent, a log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from polyhop.text import printable
from polyhop.trace import Ask, Branch, Note, Readout, Score, Searched, Step, Trace, plain

_LONGEST = 160


def outline(trace: Trace) -> str:
    """Every step on a line, indented under the one it stands under, its number before it."""
    budget = [f"budget spent: {trace.budget}"] if trace.budget else []
    return "\n".join([printable(trace.question), *_lines(trace, None, 0), *budget])


def line_of(step: Step) -> str:
    """A step on a line of printable text.

    >>> line_of(Searched(id=0, query="director of Alien", k=5, passages=()))
    'search: director of Alien → nothing found'
    """
    match step:
        case Branch():
            return f"{_cut(step.label)}: {step.verdict}" if step.verdict else _cut(step.label)
        case Searched():
            return f"search: {_cut(step.query)} → {_titles(step)}"
        case Ask() if step.output is None:
            return f"{step.task}: could not be read: {_cut(step.problem or '')}"
        case Ask():
            return f"{step.task}: {_pairs(step.output or {})}"
        case Score():
            return f"{step.task}: {len(step.targets)} scored"
        case Readout():
            return f"read: {_cut(step.question)} → {_cut(step.spans[0].text) if step.spans else 'nothing found'}"
        case Note():
            return f"{step.name}: {_pairs(step.data)}"
        case _:
            return step.kind


def _lines(trace: Trace, parent: int | None, depth: int) -> Iterator[str]:
    for step in trace.children(parent):
        yield f"{'  ' * depth}- [{step.id}] {line_of(step)}"
        yield from _lines(trace, step.id, depth + 1)


def _titles(step: Searched) -> str:
    return _cut(", ".join(passage.title for passage in step.passages)) or "nothing found"


def _pairs(values: Any) -> str:
    return _cut("; ".join(f"{name}: {plain(value)}" for name, value in values.items() if value is not None))


def _cut(text: str) -> str:
    line = printable(text)
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
