"""``benchmarks/pocket_fit.py`` and ``pocket_blend.py`` write the tables that ship."""

from __future__ import annotations

from benchmarks.pocket_blend import blends_page
from benchmarks.pocket_fit import weights_page

from polyhop.lm.pocket.reading.tables import BLENDS, WEIGHTS


def test_the_weights_in_use_are_written_as_they_ship() -> None:
    assert weights_page() == WEIGHTS.read_text(encoding="utf-8")


def test_the_blends_in_use_are_written_as_they_ship() -> None:
    assert blends_page() == BLENDS.read_text(encoding="utf-8")
