"""The formulas of ``benchmarks/growth.py``: known cases, units that cancel, more that takes more; the page's tables."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from benchmarks.growth import ASSUMED, DEFAULTS, MEASURED, Asked, Load, load
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import growth
from polyhop.methods.registry import methods

PAGE = (Path(__file__).parents[2] / "docs" / "scale.md").read_text(encoding="utf-8")
COUNTS = st.floats(1e3, 1e8)
TIMES = st.floats(1.01, 1e3)
METHODS, ENGINES = st.sampled_from(sorted(MEASURED)), st.sampled_from(["bm25", "dense"])
ONE = Asked(calls=10, prompt=10_000, completion=1_000, searches=2, layers=5)


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    growth.add_options(parser)
    return parser.parse_args(words)


def test_a_known_case() -> None:
    units = {**DEFAULTS, "peak": 2, "busy": 0.5, "shared": 0, "reads": 10_000, "writes": 1_000, "call_cpu": 0.001}
    one = load(ONE, 864_000, 1e9, "bm25", {**units, "worker_cores": 4, "node_memory": 100e9, "node_held": 1})
    assert one.at_once == 20 * 5  # 10 a second on the mean, 20 at the peak, 5 s each
    assert one.by_kind["workers"] == pytest.approx(20 * 10 * 0.001 / 0.5 / 4)
    assert one.by_kind["servers"] == pytest.approx(20 * (1 + 1) / 0.5)
    assert one.by_kind["nodes"] == pytest.approx(max(140e9 / 100e9, 20 * 2 * 1.2 / 0.5 / 16))
    assert one.machines == {"workers": 1, "servers": 80, "nodes": 6}
    assert one.first == "servers"
    assert one.money(units) == pytest.approx(24 * (0.2 + 80 * 2.5 + 6 * 0.8) / 864_000)
    assert one.money(units, without=["servers"]) == pytest.approx(24 * (0.2 + 6 * 0.8) / 864_000)


def test_an_index_in_parts_takes_the_larger_of_memory_and_work() -> None:
    idle, busy = load(ONE, 1, 1e9), load(ONE, 1e8, 1e6)
    assert idle.by_kind["nodes"] == pytest.approx(140e9 / 48e9)
    assert busy.by_kind["nodes"] > growth.by_memory(1e6, 140, DEFAULTS)
    assert load(MEASURED["cot-sc"], 1e6, 1e9).by_kind["nodes"] == 0  # it searches nothing


def test_a_batch_costs_half_of_the_api() -> None:
    assert growth.by_api(ONE, DEFAULTS) == pytest.approx(10_000 * 0.15e-6 + 1_000 * 0.6e-6)
    assert growth.by_api(ONE, DEFAULTS, batch=True) == growth.by_api(ONE, DEFAULTS) / 2


@given(METHODS, ENGINES, COUNTS, COUNTS, TIMES)
def test_more_takes_more(method: str, engine: str, questions: float, passages: float, times: float) -> None:
    asked = MEASURED[method]
    one = load(asked, questions, passages, engine)
    for more in (load(asked, times * questions, passages, engine), load(asked, questions, times * passages, engine)):
        assert all(one.by_kind[kind] <= more.by_kind[kind] for kind in one.by_kind)
        assert all(one.machines[kind] <= more.machines[kind] for kind in one.machines)


@given(METHODS, COUNTS, COUNTS, TIMES)
def test_units_cancel(method: str, questions: float, passages: float, times: float) -> None:
    """Twice the load on machines twice as fast is the same; so is time in another unit, and money."""
    asked = MEASURED[method]
    one = load(asked, questions, passages)
    fast = {name: DEFAULTS[name] * times for name in ("reads", "writes", "worker_cores", "node_cores")}
    wide = {name: DEFAULTS[name] * times for name in ("worker_memory",)}
    same = load(asked, times * questions, passages, units={**DEFAULTS, **fast, **wide})
    assert same.by_kind == pytest.approx(one.by_kind)
    dear = {name: DEFAULTS[name] * times for name in ("worker_hour", "gpu_hour", "node_hour")}
    assert one.money({**DEFAULTS, **dear}) == pytest.approx(times * one.money(DEFAULTS))
    bytes_as_bits = {name: DEFAULTS[name] * 8 for name in ("bm25_bytes", "node_memory")}
    assert load(asked, questions, passages, units={**DEFAULTS, **bytes_as_bits}).by_kind == pytest.approx(one.by_kind)


@given(METHODS)
def test_the_money_of_many_questions_does_not_hang_on_how_many(method: str) -> None:
    many, more = (load(MEASURED[method], count, 1e6).money(DEFAULTS) for count in (1e10, 1e11))
    assert more == pytest.approx(many, rel=0.01)


@given(COUNTS)
def test_the_first_to_fill_up_is_the_fullest(questions: float) -> None:
    one = load(ONE, questions, 1e6)
    assert one.by_kind[one.first] == max(one.by_kind.values())
    assert Load(1, 1, {"workers": 0.2, "servers": 0.1, "nodes": 0.3}).first == "nodes"


def test_what_methods_ask_is_theirs() -> None:
    known = methods()
    for name, asked in MEASURED.items():
        assert asked.layers <= known[name].layers(known[name].resolve({}))
        assert asked.layers <= asked.calls
        assert (asked.searches > 0) == ("retriever" in known[name].needs(known[name].resolve({})))


def test_every_assumption_has_a_source() -> None:
    assert all(one.source and one.unit and one.value > 0 for one in ASSUMED.values())


@pytest.mark.parametrize("table", [growth.holding(), growth.table("resp")], ids=["passages", "resp"])
def test_the_page_holds_the_tables(table: list[str]) -> None:
    assert "\n".join(table) in PAGE


def test_the_check_finds_what_cannot_be() -> None:
    assert not growth.wrong()
    assert any("smallest load" in words for words in growth.wrong({**DEFAULTS, "writes": 0.01}))
    assert any("take less" in words for words in growth.wrong({**DEFAULTS, "bm25_bytes": -1, "bm25_cpu": -1}))


def test_unit_costs_can_be_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert not growth.show(options("--methods", "one-r,resp", "--set", "gpu_hour=9", "--engine", "dense"))
    out = capsys.readouterr().out
    assert "| gpu_hour | 9 |" in out
    assert out.count("per day | passages |") == 2
    with pytest.raises(SystemExit, match="no unit cost gpu_hours: there are peak"):
        growth.show(options("--set", "gpu_hours=9"))
