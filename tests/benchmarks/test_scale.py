"""The formulas of ``benchmarks/scale.py``: they give back what they were measured by, and grow as they should."""

from __future__ import annotations

import pytest
from benchmarks.scale import Made, building, foretold, held, searching, sparse_build_mb
from hypothesis import given
from hypothesis import strategies as st

from polyhop.retrieval.approximate import lists_of

ROWS = st.integers(100_000, 50_000_000)


def made(rows: int, size: int = 768) -> Made:
    lists = lists_of(rows)
    return Made(
        rows=rows,
        size=size,
        lists=lists,
        probes=32,
        again=200,
        held=round(held(rows, size, lists, 16)),
        build=1e-11 * building(rows, size, lists),
        search=1e-10 * searching(rows, size, lists, 32, 200),
        recall=0.95,
    )


@given(ROWS)
def test_a_measurement_predicts_itself(rows: int) -> None:
    one = made(rows)
    forecast = foretold(one, rows)
    assert forecast.memory == pytest.approx(one.held)
    assert forecast.disk == pytest.approx(one.held + 2 * rows * one.size)
    assert (forecast.build, forecast.search_as_many) == pytest.approx((one.build, one.search))
    assert forecast.search_as_large == forecast.search_as_many


@given(ROWS, ROWS)
def test_one_measurement_predicts_another_of_the_same_unit_costs(known: int, asked: int) -> None:
    forecast, measured = foretold(made(known), asked), made(asked)
    assert (forecast.memory, forecast.build, forecast.search_as_many) == pytest.approx(
        (measured.held, measured.build, measured.search), rel=1e-6
    )


@given(ROWS)
def test_costs_grow_with_size(rows: int) -> None:
    one, more = foretold(made(1_000_000), rows), foretold(made(1_000_000), 2 * rows)
    assert all(a < b for a, b in zip(one[:3], more[:3], strict=True))
    assert one.search_as_many <= one.search_as_large


def test_wikipedias_passages_fit_a_laptop() -> None:
    forecast = foretold(made(1_000_000), 21_000_000)
    assert forecast.memory == pytest.approx(21e6 * (96 + 16) + 4 * 768 * (4096 + 768))
    assert forecast.memory < 2.5e9
    assert forecast.disk == pytest.approx(21e6 * 768 * 2 + forecast.memory)
    assert sparse_build_mb(5_000_000) < 1536
