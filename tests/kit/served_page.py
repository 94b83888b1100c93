"""The server's page as its reader uses it: asked, gone through by its addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from polyhop.common.extras import is_installed
from tests.kit.browser import MARKS as BROWSER

MARKS = [*BROWSER, pytest.mark.skipif(not is_installed("serve"), reason="extra not installed: serve")]
"""Marks of a test of the page."""

METROPOLIS = "In which city was the director of the science-fiction film Metropolis born?"
READY = "main:not([aria-busy])"
Open = Callable[..., Any]
"""Open an address in a new tab: that of a server, then one in its page; then as ``Tabs.new``."""


# The page forbids ``eval``: what waits for it gives ``wait_for_function`` a function. An expression is evaluated again
# at each poll, and fails unless it is true at once.


def ask(tab: Any, question: str, method: str = "tor", beside: str = "") -> None:
    """Fill in the form and send it."""
    tab.fill("textarea[name=question]", question)
    tab.select_option("select[name=method]", method)
    tab.select_option("select[name=beside]", beside)
    tab.click("button.go")


def answered(tab: Any, *how: str) -> Any:
    """Ask, and wait until the page has the address of this answer; return the tab."""
    before = tab.evaluate("location.hash")
    ask(tab, *how)
    tab.wait_for_function("(before) => location.hash !== before && location.hash.startsWith('#/trace/')", arg=before)
    return tab


def go(tab: Any, place: str, shown: str = "main") -> None:
    """Go to another address of the page without loading it again, and wait until the new view shows something."""
    tab.wait_for_function(
        """(place) => new Promise((done, fail) => {
            if (location.hash === place) fail(new Error(`${place} is the address already`));
            addEventListener("hashchange", () => done(true), { once: true }); // after the page's own listener
            location.hash = place;
        })""",
        arg=place,
    )
    tab.wait_for_selector(READY)
    tab.wait_for_selector(shown)


def fresh(tab: Any, address: str) -> None:
    """Load an address of the page again, even if it differs from the present one only after the #."""
    tab.goto("about:blank")
    tab.goto(address)
    tab.wait_for_selector(READY)


def active(tab: Any) -> str:
    """Return the id of the node of a drawing that has the focus."""
    found: str = tab.evaluate("document.activeElement.dataset.id")
    return found
