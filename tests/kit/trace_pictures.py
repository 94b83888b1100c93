"""A trace as a picture: its branches as a tree from left to right, coloured by their verdicts, light or dark."""

from __future__ import annotations

from html import escape

from polyhop.answer import Answer
from polyhop.cli.traces import BAD, GOOD, ON, VERDICTS
from polyhop.trace import Ask, Branch, Readout, Trace
from tests.kit.page_colours import style

WIDE, HIGH, ACROSS, DOWN = 214, 40, 246, 52
"""A box, and from one box to the next."""
LONGEST = (31, 26)
"""Characters of each line in a box; the second is bold."""
TONES = {GOOD: "good", ON: "accent", BAD: "bad"}
OTHER, QUESTION = "dim", "ink"
RULES = "\n".join(
    [
        "svg { font: 12px Inter, ui-sans-serif, system-ui, sans-serif }",
        "text { fill: var(--ink) } .ground { fill: var(--paper) } .box { fill: var(--sheet) }",
        "path { fill: none; stroke: var(--dim) } .end { font-weight: 600 }",
        *(
            f".{tone} .box {{ stroke: var(--{tone}) }} .{tone} .end {{ fill: var(--{tone}) }}"
            for tone in (*TONES.values(), OTHER, QUESTION)
        ),
    ]
)


def picture(answer: Answer) -> str:
    """The branches of an answer's trace as SVG: the question at the left, the result of each branch in its box."""
    trace = answer.trace
    boxes = [box(0, 0, (trace.question, f"= {answer.text}"), QUESTION)]
    lines: list[str] = []
    rows = grown(trace, None, 1, 0, (0, 0), boxes, lines)
    depth = max([1, *(depth_of(trace, step.id) for step in trace.steps if isinstance(step, Branch))])
    width, height = depth * ACROSS + WIDE + 2, max(rows, 1) * DOWN
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 -8 {width + 16} {height + 6}" width="{width + 16}">'
    ground = f'<rect class="ground" x="-8" y="-8" width="{width + 16}" height="{height + 6}" rx="6"/>'
    return "\n".join([head, style(RULES), ground, *lines, *boxes, "</svg>"]) + "\n"


def grown(
    trace: Trace, parent: int | None, depth: int, row: int, at: tuple[int, int], boxes: list[str], lines: list[str]
) -> int:
    """Draw the branches under a step from ``row`` on, joined to the box ``at`` a column and row; the first free row."""
    for step in trace.children(parent):
        if not isinstance(step, Branch):
            continue
        end = VERDICTS.get(step.verdict or "", ("▸", ""))
        outcome = f"{end[0]} {step.verdict or ''} {concluded(trace, step)}".strip()
        boxes.append(box(depth, row, (step.label, outcome), TONES.get(end, OTHER)))
        lines.append(line(at, (depth, row)))
        row = max(row + 1, grown(trace, step.id, depth + 1, row, (depth, row), boxes, lines))
    return row


def concluded(trace: Trace, step: Branch) -> str:
    """The result of a branch: the last answer of a model in it, else the reader's."""
    under = trace.children(step.id)
    outputs = [each.output for each in under if isinstance(each, Ask) and each.output]
    answers = [row.get("answer") or row.get("response") for row in outputs]
    answers += [each.spans[0].text for each in under if isinstance(each, Readout) and each.spans]
    return next((f"= {answer}" for answer in reversed(answers) if answer), "")


def depth_of(trace: Trace, id: int) -> int:
    """The number of branches from the root to a branch, itself included."""
    by_id = {step.id: step for step in trace.steps}
    depth, at = 0, by_id.get(id)
    while at is not None:
        depth += isinstance(at, Branch)
        at = by_id.get(at.parent) if at.parent is not None else None
    return depth


def box(column: int, row: int, texts: tuple[str, str], tone: str) -> str:
    """A box with two lines of text; the whole of the first is its tooltip."""
    x, y = column * ACROSS, row * DOWN
    first, second = (
        escape(each if len(each) <= most else each[: most - 1] + "…") for each, most in zip(texts, LONGEST, strict=True)
    )
    return (
        f'<g class="{tone}"><title>{escape(texts[0])}</title>'
        f'<rect class="box" x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" rx="6"/>'
        f'<text x="{x + 9}" y="{y + 16}">{first}</text>'
        f'<text class="end" x="{x + 9}" y="{y + 32}">{second}</text></g>'
    )


def line(start: tuple[int, int], end: tuple[int, int]) -> str:
    """An elbow from the right of one box to the left of another."""
    (left, above), (column, row) = start, end
    x, y = left * ACROSS + WIDE, above * DOWN + HIGH // 2
    return f'<path d="M{x} {y} h16 V{row * DOWN + HIGH // 2} H{column * ACROSS}"/>'
