"""Tables of the figures of ``benchmarks/pocket.py``, and their bars."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from benchmarks.pocket_parts import GOLD

from polyhop.common.text import counted

Row: TypeAlias = Mapping[str, Any]
ALL = "all"
"""Stands for a data set: all of them together."""

RECALL = {"hotpotqa": 0.88, "2wikimultihopqa": 0.90, "musique": 0.58}
F1 = {"hotpotqa": 0.50, "2wikimultihopqa": 0.50, "musique": 0.25}
AUROC = 0.80
ONE_BY_ONE, READERS = "reader, a passage at a time", ("reader, gold passages", "reader, hops' top 5")
SURE = (GOLD, "hops", ONE_BY_ONE)
"""Whose confidence is held to ``AUROC``: what reads gold passages and what ``hops`` found, and the reader as SearChain
asks it. The reader's surest span over several passages is only shown: it reads each alone, and sees no chain."""
SECONDS, MS, MB, LOAD = 1.5, 15.0, 600.0, 1.5

HEADS: Mapping[str, Sequence[str]] = {
    "retrieval": ("R@2", "R@5", "R@10", "R@20", "all@5", "ceiling", "ms", "CPU ms"),
    "answers": ("F1", "EM", "R@5", "calls", "searches", "seconds", "CPU", "MB", "failed"),
    "calibration": ("cases", "right", "AUROC", "ECE", "best threshold", "F1 there", "F1 now"),
    "reviews": ("paths", "precision", "recall"),
    "speed": (
        "passages",
        "paths",
        "median s",
        "p95 s",
        "CPU s",
        "ms a path",
        "ms a look",
        "CPU ms a look",
        "MB",
        "import s",
        "load s",
    ),
    "determinism": ("answers differ", "confidences differ", "rankings differ", "looks", "looks differ"),
}
"""The columns of each part's table."""
_INTERVAL = ("R@5", "ceiling", "F1")  # of a mean, shown beside it
_SHARES = ("right", "precision", "recall")


class Bar(NamedTuple):
    """A figure, its bar, and whether the figure must be at least (else at most) the bar."""

    part: str
    set: str
    name: str
    figure: str
    value: float | None
    bound: float
    at_least: bool = True

    @property
    def is_kept(self) -> bool:
        """Return True if it was measured and meets the bar."""
        if self.value is None:
            return False
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def __str__(self) -> str:
        value = "not measured" if self.value is None else f"{self.value:.3g}"
        return (
            f"{self.set}: {self.figure} of {self.name} {value}, held to {'≥' if self.at_least else '≤'} {self.bound:g}"
        )


def tables(rows: Sequence[Row]) -> Iterator[str]:
    """Return a table, as text, for each part and data set that has rows."""
    for part, heads in HEADS.items():
        for name in dict.fromkeys(row["set"] for row in rows if row["part"] == part):
            own = [row for row in rows if row["part"] == part and row["set"] == name]
            if part == "answers":
                own = sorted(own, key=lambda row: -(_value(row, "F1") or 0.0))
            used = [head for head in heads if any(row.get(head) is not None for row in own)]
            cells = [[row["name"], *(_cell(head, row.get(head)) for head in used)] for row in own]
            n = max((row.get("questions", 0) for row in own), default=0)
            head = " · ".join([part, name, *([counted(n, "questions")] if n else [])])
            yield f"{head}\n{aligned([['', *used], *cells])}"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells as lines, the first column to the left and the others to the right.

    >>> print(aligned([["", "F1"], ["hops", "50.0"]]))
            F1
    hops  50.0
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    )


def _cell(head: str, value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, Mapping):
        share = f"{100 * value['value']:.1f}"
        return f"{share} ({100 * value['low']:.1f}–{100 * value['high']:.1f})" if head in _INTERVAL else share
    if head in _SHARES:
        return f"{100 * value:.1f}"
    return str(value) if isinstance(value, int) else f"{value:.3f}" if value < 10 else f"{value:.1f}"


def best(rows: Sequence[Row], name: str) -> Row | None:
    """Return the method of best F1 on a data set; reading gold passages does not count."""
    own = [row for row in rows if row["part"] == "answers" and row["set"] == name and row["name"] != GOLD]
    return max((row for row in own if "F1" in row), key=lambda row: float(row["F1"]["value"]), default=None)


def bars(rows: Sequence[Row]) -> list[Bar]:
    """Return every bar for the data sets in the rows."""
    sets = [name for name in RECALL if any(row["set"] == name for row in rows)]
    return [*_quality(rows, sets), *_cost(rows, sets), *_same(rows)]


def _quality(rows: Sequence[Row], sets: Sequence[str]) -> Iterator[Bar]:
    for name in sets:
        yield Bar("retrieval", name, "hops", "R@5", _figure(rows, "retrieval", name, "hops", "R@5"), RECALL[name])
        top = best(rows, name)
        method, f1 = ("none", None) if top is None else (top["name"], _value(top, "F1"))
        yield Bar("answers", name, f"the best method ({method})", "F1", f1, F1[name])
    for who in SURE:
        yield Bar("calibration", ALL, who, "AUROC", _figure(rows, "calibration", ALL, who, "AUROC"), AUROC)


def _cost(rows: Sequence[Row], sets: Sequence[str]) -> Iterator[Bar]:
    for name in sets:
        for figure, bound in (("median s", SECONDS), ("ms a path", MS), ("MB", MB)):
            value = _figure(rows, "speed", name, "hops", figure)
            yield Bar("speed", name, "hops", figure, value, bound, at_least=False)
    yield Bar("speed", ALL, "start", "load s", _figure(rows, "speed", ALL, "start", "load s"), LOAD, at_least=False)


def _same(rows: Sequence[Row]) -> Iterator[Bar]:
    own = [row for row in rows if row["part"] == "determinism"]
    for row in own:
        for figure in ("answers differ", "confidences differ", "rankings differ", "looks differ"):
            if figure in row:
                yield Bar("determinism", row["set"], row["name"], figure, float(row[figure]), 0.0, at_least=False)
    if not own:
        yield Bar("determinism", ALL, "hops", "answers differ", None, 0.0, at_least=False)


def _figure(rows: Iterable[Row], part: str, name: str, what: str, figure: str) -> float | None:
    own = (row for row in rows if (row["part"], row["set"], row["name"]) == (part, name, what))
    return next((_value(row, figure) for row in own), None)


def _value(row: Row, figure: str) -> float | None:
    value = row.get(figure)
    return value["value"] if isinstance(value, Mapping) else value
