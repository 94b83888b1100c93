"""Plots as SVG: bars with intervals, and a scatter with its frontier. Text alone, to stand in an HTML page.

Colours come from the page: a mark has the class ``mark`` and that of its series, ``s0`` to ``s7``. All text is escaped.
Plots are drawn 440 units wide, so that they can be read on a phone.

>>> bars("EM", {"": [Bar("tor", 40.0, 30.0, 50.0)]}, axis_max=100).startswith('<svg viewBox="0 0 440 ')
True
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10
from textwrap import wrap

WIDTH = 440
SERIES = 8
_LABELS, _VALUES = 132, 62  # columns left and right of the bars
_ROW, _HEAD = 20, 24
_MAX_LABEL = 21  # characters that the column of labels holds
_NOTE = 72  # characters that a line below a plot holds


@dataclass(frozen=True, slots=True)
class Bar:
    """A value with its interval, if it has one; ``text`` is written beside it instead of the value."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None
    series: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class Dot:
    """One run by its cost, ``x``, and its score, ``y``, with the score's interval; ``best``: it is on the frontier."""

    label: str
    x: float
    y: float
    low: float
    high: float
    best: bool
    series: int = 0


def bars(title: str, groups: Mapping[str, Sequence[Bar]], *, axis_max: float | None = None) -> str:
    """Draw bars under the names of their groups ("" for none).

    ``axis_max``: the end of the axis; by default the largest value.
    """
    every = [bar for group in groups.values() for bar in group]
    end = axis_max or max((max(bar.value, bar.high or 0.0) for bar in every), default=0.0) or 1.0
    room = WIDTH - _LABELS - _VALUES
    parts, y = [], 4.0
    for name, group in groups.items():
        if name:
            parts.append(_text(0, y + 15, name, "head"))
            y += _HEAD
        for bar in group:
            parts.append(_bar(bar, y, lambda value: _LABELS + room * min(1.0, value / end)))
            y += _ROW
        y += 6
    description = "; ".join(
        f"{name} {bar.label} {_value_text(bar)}".strip() for name, group in groups.items() for bar in group
    )
    return _svg(title, description, y, parts)


def _bar(bar: Bar, y: float, at: Callable[[float], float]) -> str:
    middle = y + _ROW / 2
    width = max(1.0, at(bar.value) - _LABELS)
    drawn = [
        _text(0, middle + 4, _cut(bar.label), whole=bar.label),
        f'<rect class="mark s{bar.series % SERIES}" x="{_LABELS}" y="{y + 3:.1f}" width="{width:.1f}" '
        f'height="{_ROW - 6}" rx="2"/>',
    ]
    if bar.low is not None and bar.high is not None:
        drawn.append(_whisker(at(bar.low), middle, at(bar.high), middle))
    drawn.append(_text(WIDTH, middle + 4, _value_text(bar), "value"))
    return "".join(drawn)


def scatter(title: str, dots: Sequence[Dot], *, x_label: str, y_label: str, note: str = "") -> str:
    """Runs by cost and score; a stepped line joins those on the frontier. Costs far apart get a logarithmic axis.

    ``note`` is written below, on as many lines as needed.
    """
    left, right, top, bottom, height = 40.0, WIDTH - 20.0, 24.0, 250.0, 292.0
    costs = [dot.x for dot in dots]
    logarithmic = min(costs) > 0 and max(costs) > 20 * min(costs)
    x_ticks = _decades(min(costs), max(costs)) if logarithmic else _ticks(0, max(costs))
    y_ticks = _ticks(min(dot.low for dot in dots), max(dot.high for dot in dots))

    def x_of(value: float) -> float:
        first, last = x_ticks[0], x_ticks[-1]
        share = log10(value / first) / log10(last / first) if logarithmic else (value - first) / (last - first)
        return left + (right - left) * share

    def y_of(value: float) -> float:
        return bottom - (bottom - top) * (value - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])

    parts = [
        _line(left, y_of(tick), right, y_of(tick)) + _text(left - 5, y_of(tick) + 4, _round(tick), "tick end")
        for tick in y_ticks
    ]
    parts += [
        _line(x_of(tick), bottom, x_of(tick), bottom + 4) + _text(x_of(tick), bottom + 17, _round(tick), "tick mid")
        for tick in x_ticks
    ]
    parts.append(_text((left + right) / 2, bottom + 36, x_label + (" (logarithmic)" if logarithmic else ""), "mid"))
    parts.append(_text(2, 10, y_label))
    parts.append(_steps(sorted((x_of(d.x), y_of(d.y)) for d in dots if d.best), right))
    beside = _apart([y_of(dot.y) for dot in dots])
    for dot, label_y in zip(dots, beside, strict=True):
        x, y = x_of(dot.x), y_of(dot.y)
        is_crowded = any(0 < x_of(other.x) - x < 80 and abs(y_of(other.y) - y) < 20 for other in dots)
        is_right = x > WIDTH * 0.6 or (is_crowded and x > left + 80)
        parts.append(_whisker(x, y_of(dot.low), x, y_of(dot.high)))
        parts.append(
            f'<circle class="mark s{dot.series % SERIES}" cx="{x:.1f}" cy="{y:.1f}" r="{5 if dot.best else 4}"/>'
        )
        parts.append(
            _text(x - 9 if is_right else x + 9, label_y + 4, _cut(dot.label), "end" if is_right else "", dot.label)
        )
    description = [f"{d.label}: {d.y:.1f} at {d.x:.4g}{', frontier' if d.best else ''}" for d in dots]
    for line in wrap(note, _NOTE):
        parts.append(_text(2, height + 11, line))
        height += 15
    return _svg(title, "; ".join([*description, note] if note else description), height, parts)


def _steps(points: Sequence[tuple[float, float]], right: float) -> str:
    """Draw the frontier: the best score at each cost."""
    if not points:
        return ""
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in points[1:])
    return f'<path class="frontier" d="{path}H{right:.1f}"/>'


def _apart(heights: Sequence[float], gap: float = 13.0) -> list[float]:
    """Heights of labels at least ``gap`` from each other, near their heights.

    >>> _apart([10.0, 12.0, 50.0])
    [10.0, 23.0, 50.0]
    """
    found = list(heights)
    last = -gap
    for number in sorted(range(len(heights)), key=lambda number: heights[number]):
        last = found[number] = max(heights[number], last + gap)
    return found


def _ticks(low: float, high: float) -> list[float]:
    """Round values from at most ``low`` to at least ``high``, five or so.

    >>> _ticks(0, 34)
    [0.0, 10.0, 20.0, 30.0, 40.0]
    """
    span = max(high - low, 1e-9 * max(1.0, abs(high)))
    power = 10.0 ** floor(log10(span / 4))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if span / (factor * power) <= 5)
    first = floor(low / step + 1e-9)
    count = 1
    while (first + count) * step < high - 1e-9 * step:
        count += 1
    return [round((first + number) * step, 10) for number in range(count + 1)]


def _decades(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, … around two positive values; 1, 10, 100, … where they are very far apart.

    >>> _decades(3, 70)
    [2.0, 5.0, 10.0, 20.0, 50.0, 100.0]
    """
    digits = (1, 2, 5) if high < 500 * low else (1,)
    steps = [digit * 10.0**power for power in range(floor(log10(low)), floor(log10(high)) + 2) for digit in digits]
    first = max(number for number, step in enumerate(steps) if step <= low)
    last = min(number for number, step in enumerate(steps) if step >= high)
    return steps[first : max(last, first + 1) + 1]


def _round(tick: float) -> str:
    """A tick's value, thousands as ``k``.

    >>> _round(2.5), _round(20000.0)
    ('2.5', '20k')
    """
    return f"{tick / 1000:g}k" if abs(tick) >= 10_000 else f"{tick:g}"


def _value_text(bar: Bar) -> str:
    return bar.text or f"{bar.value:.1f}"


def _cut(label: str) -> str:
    return label if len(label) <= _MAX_LABEL else "…" + label[1 - _MAX_LABEL :]


def _svg(title: str, description: str, height: float, parts: Iterable[str]) -> str:
    about = f"<title>{escape(title)}</title><desc>{escape(description)}</desc>"
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img">{about}{"".join(parts)}</svg>'


def _text(x: float, y: float, text: str, name: str = "", whole: str = "") -> str:
    about = f"<title>{escape(whole)}</title>" if whole not in ("", text) else ""
    return f'<text class="{name}" x="{x:.1f}" y="{y:.1f}">{about}{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<path class="grid" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>'


def _whisker(x1: float, y1: float, x2: float, y2: float) -> str:
    """A line with a stop at both ends."""
    dx, dy = (3, 0) if x1 == x2 else (0, 3)
    stops = "".join(f"M{x - dx:.1f} {y - dy:.1f}L{x + dx:.1f} {y + dy:.1f}" for x, y in ((x1, y1), (x2, y2)))
    return f'<path class="whisker" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}{stops}"/>'
