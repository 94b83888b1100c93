"""The documentation's site in a real browser: nothing from elsewhere, a search that finds, no fault by axe; and the
drawings, in which no line crosses a text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit.browser import CHROMIUM, PATIENCE, inside, launched
from tests.kit.doc_pages import DOCS
from tests.kit.site import VIEWS, faults, served

PAGES = ("index.html", "404.html", "own-documents.html", "methods/tor.html", "reference/settings.html", "serve.html")
"""Examples: ``python -m tests.kit.site`` checks every page."""
LINES_AND_TEXTS = """() => ({
    points: [...document.querySelectorAll("path")].flatMap((path) => {
        const length = path.getTotalLength();
        return Array.from({ length: Math.ceil(length / 2) }, (_, step) => path.getPointAtLength(step * 2))
            .map(({ x, y }) => [x, y]);
    }),
    texts: [...document.querySelectorAll("text")].map((text) => {
        const { x, y, width, height } = text.getBBox();
        return [text.textContent, [x, y, x + width, y + height]];
    }),
})"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site, built and served."""
    pytest.importorskip("material", reason="needs polyhop[site]")
    with served(tmp_path_factory.mktemp("site")) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as opened:
        yield opened


@pytest.mark.parametrize(("scheme", "width"), VIEWS)
def test_pages_load_nothing_from_elsewhere_and_axe_is_content(site: str, browser: Any, scheme: str, width: int) -> None:
    assert list(faults(browser, site, PAGES, scheme, width)) == []


def test_the_type_is_that_of_the_page(site: str, browser: Any) -> None:
    tab = browser.new_page()
    tab.set_default_timeout(PATIENCE)
    tab.goto(f"{site}index.html")
    loaded = (
        "document.fonts.ready.then(() => [...document.fonts].filter((f) => f.status === 'loaded').map((f) => f.family))"
    )
    assert {family.strip('"') for family in tab.evaluate(loaded)} == {"Inter", "Source Serif 4"}
    tab.close()


def test_the_search_finds_a_page(site: str, browser: Any) -> None:
    tab = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    tab.set_default_timeout(PATIENCE)
    tab.goto(f"{site}index.html")
    # Typed, not filled in: the search listens to keys, and would not notice a text filled in once it is ready.
    tab.locator("input.md-search__input").press_sequentially("calibration")
    tab.wait_for_selector(".md-search-result__item a[href*='trust.html']")
    tab.context.close()


@pytest.mark.parametrize(
    "name", ["images/tree-light", "images/layers", "methods/tor", "methods/ge", "methods/searchain"]
)
def test_no_line_of_a_drawing_crosses_a_text(browser: Any, name: str) -> None:
    tab = browser.new_page()
    tab.goto((DOCS / f"{name}.svg").as_uri())
    drawn = tab.evaluate(LINES_AND_TEXTS)
    tab.close()
    assert drawn["points"]
    assert [text for text, box in drawn["texts"] if any(inside(point, box, -1) for point in drawn["points"])] == []


def test_a_drawing_follows_the_colour_scheme(browser: Any) -> None:
    grounds = []
    for scheme in ("light", "dark"):
        tab = browser.new_context(color_scheme=scheme).new_page()
        tab.goto((DOCS / "methods" / "tor.svg").as_uri())
        grounds.append(tab.evaluate("getComputedStyle(document.querySelector('.ground')).fill"))
        tab.context.close()
    assert grounds == ["rgb(247, 246, 242)", "rgb(21, 23, 28)"]
