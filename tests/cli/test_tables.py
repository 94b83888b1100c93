"""Tables in terminals of any width: nothing is broken up or lost; what does not fit stands below."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from polyhop.cli.show import print_rows
from polyhop.cli.tables import print_comparison
from polyhop.evaluation.compare import Comparison, difference
from tests.kit.reports import report, row

HEAD = ["metric", "tree of reviews", "resp", "95 %"]
ROWS = [HEAD, ["EM", "50.0 ±25.0", "58.3 ±25.0", "-16.7…+33.3"], ["recall@2 mean", "72.2 ±1.0", "–", "+0.0…+0.0"]]


def printed(rows: list[list[str]], width: int) -> list[str]:
    to = Console(file=io.StringIO(), width=width, color_system=None)
    print_rows(rows, to, names=1)
    return [line.rstrip() for line in to.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_a_table_that_fits() -> None:
    assert printed(ROWS, 80) == [
        "metric         tree of reviews        resp         95 %",
        "EM                  50.0 ±25.0  58.3 ±25.0  -16.7…+33.3",
        "recall@2 mean        72.2 ±1.0           –    +0.0…+0.0",
    ]


def test_heads_are_wrapped_before_cells_are() -> None:
    assert printed(ROWS, 53) == [
        "                  tree of",
        "metric            reviews        resp         95 %",
        "EM             50.0 ±25.0  58.3 ±25.0  -16.7…+33.3",
        "recall@2 mean   72.2 ±1.0           –    +0.0…+0.0",
    ]


def test_columns_that_do_not_fit_stand_below() -> None:
    shown = printed(ROWS, 40)
    assert shown[-3:] == ["metric                95 %", "EM             -16.7…+33.3", "recall@2 mean    +0.0…+0.0"]
    assert shown[-4] == ""
    assert sum(line.startswith("EM ") for line in shown) == 2


@pytest.mark.parametrize("width", [30, 40, 50, 60, 70, 80, 200])
def test_every_cell_is_whole_at_any_width(width: int) -> None:
    shown = "\n".join(printed(ROWS, width))
    assert all(cell in shown for row in ROWS[1:] for cell in row)
    assert max(map(len, shown.splitlines())) <= width


def test_a_comparison_fits_80_columns() -> None:
    pairs = [(0.0, 1.0), (1.0, 1.0), (1.0, 0.0), (0.0, 0.0)] * 10
    metrics = {name: difference(pairs) for name in ("em", "recall_mean@15")}
    to = Console(file=io.StringIO(), width=80, color_system=None)
    run = report([row("a", dict.fromkeys(metrics, 1.0))])
    comparison = Comparison(run, run, metrics, [])
    print_comparison(("tor", "resp"), comparison, list(metrics), to)
    shown = to.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert any(line.startswith("EM ") and line.rstrip().endswith(" 40") for line in shown)
    assert max(map(len, shown)) <= 80
    assert len(shown) <= 4
