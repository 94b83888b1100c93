"""The looks of the page: axe finds nothing in any view, a phone shows all, dark and light."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit.browser import axe, needs_axe, settle, unfold
from tests.kit.served_page import MARKS, METROPOLIS, Open, answered, go

pytestmark = MARKS


PLACES = {
    "#/runs": ".plot img",
    "#/runs/one": ".questions tbody tr",
    "#/runs/one/q2": ".reply",
    "#/compare/one/two": ".flipped li",
    "#/": ".start h2",
}
"""Addresses of the page, and what is there once the view is whole."""


def views(tab: Any) -> Iterator[str]:
    """The page in each of its views, one after another."""
    for how in (("tor",), ("ge",), ("resp", "cot")):
        answered(tab, METROPOLIS, *how)
        tab.locator(".node").nth(1).click()
        unfold(tab)
        settle(tab)
        yield " ".join(how)
        go(tab, "#/", ".start h2")
    for place, shown in PLACES.items():
        go(tab, place, shown)
        settle(tab)
        yield place


@needs_axe
@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_axe_finds_nothing_serious(opened: Open, demo: str, scheme: str, width: int) -> None:
    tab = opened(demo, color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True)
    assert {view: found for view in views(tab) if (found := axe(tab))} == {}


def test_a_phone_shows_it_without_sideways_scrolling(opened: Open, demo: str, complaints: list[str]) -> None:
    tab = opened(demo, viewport={"width": 360, "height": 740})
    wide = [view for view in views(tab) if tab.evaluate("document.documentElement.scrollWidth") > 360]
    assert wide == []
    assert complaints == []


def test_dark_and_light_by_the_system_and_by_the_switch(opened: Open, demo: str) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    light, dark = (opened(demo, color_scheme=scheme) for scheme in ("light", "dark"))
    assert light.evaluate(colour) != dark.evaluate(colour)
    light.click("#theme")
    assert light.evaluate(colour) == dark.evaluate(colour)
    light.reload()
    light.wait_for_selector("main:not([aria-busy])")
    assert light.evaluate(colour) == dark.evaluate(colour)
    assert light.inner_text("#theme") == "Light"
