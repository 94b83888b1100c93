"""The documentation's site in a real browser: nothing from elsewhere, a search that finds, no fault by axe; and the
drawings, in which no line crosses a text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.kit.browser import CHROMIUM, Tabs, launched, loaded_fonts
from tests.kit.doc_pages import DOCS
from tests.kit.drawings import inside
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
def tabs() -> Iterator[Tabs]:
    with launched() as browser:
        yield Tabs(browser)


@pytest.fixture
def tab(tabs: Tabs) -> Iterator[Any]:
    yield tabs.new(viewport={"width": 1440, "height": 900})
    tabs.close()


@pytest.mark.parametrize(("scheme", "width"), VIEWS)
def test_pages_load_nothing_from_elsewhere_and_axe_is_content(site: str, tabs: Tabs, scheme: str, width: int) -> None:
    assert list(faults(tabs, site, PAGES, scheme, width)) == []


def test_the_type_is_that_of_the_page(site: str, tab: Any) -> None:
    tab.goto(f"{site}index.html")
    assert loaded_fonts(tab, "Inter", "Source Serif 4") == ["Inter", "Source Serif 4"]


def test_the_search_finds_a_page(site: str, tab: Any) -> None:
    tab.goto(f"{site}index.html")
    # It says so once it has its index, and listens to keys: a text that is filled in goes unnoticed.
    tab.wait_for_selector(".md-search-result__meta >> text=Type to start searching", state="attached")
    tab.locator("input.md-search__input").press_sequentially("calibration")
    tab.wait_for_selector(".md-search-result__item a[href*='trust.html']")


@pytest.mark.parametrize(
    "name", ["images/tree-light", "images/layers", "methods/tor", "methods/ge", "methods/searchain"]
)
def test_no_line_of_a_drawing_crosses_a_text(tab: Any, name: str) -> None:
    tab.goto((DOCS / f"{name}.svg").as_uri())
    drawn = tab.evaluate(LINES_AND_TEXTS)
    assert drawn["points"]
    assert [text for text, box in drawn["texts"] if any(inside(point, box, -1) for point in drawn["points"])] == []


def test_a_drawing_follows_the_colour_scheme(tab: Any) -> None:
    grounds = []
    tab.goto((DOCS / "methods" / "tor.svg").as_uri())
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        grounds.append(tab.evaluate("getComputedStyle(document.querySelector('.ground')).fill"))
    assert grounds == ["rgb(247, 246, 242)", "rgb(21, 23, 28)"]
