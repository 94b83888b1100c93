"""The site of the documentation in a real browser: nothing from elsewhere, a search that finds, no fault by axe."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.kit.browser import AXE, CHROMIUM, PATIENCE, axe, launched

ROOT = Path(__file__).parents[2]
PAGES = ("index", "own-documents", "methods/tor", "reference/settings", "deployment")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed"),
]


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the site, built and served."""
    pytest.importorskip("material", reason="needs polyhop[site]")
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)]
    done = subprocess.run(
        build, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as opened:
        yield opened


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_pages_load_nothing_from_elsewhere_and_axe_is_content(site: str, browser: Any, scheme: str, width: int) -> None:
    tab = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900}).new_page()
    tab.set_default_timeout(PATIENCE)
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    faults = {}
    for page in PAGES:
        tab.goto(f"{site}{page}.html")
        assert tab.evaluate("document.documentElement.scrollWidth") <= width, page
        if AXE.is_dir():
            faults[page] = axe(tab, "landmark-unique")  # the theme's copy buttons are landmarks without a name
    assert [url for url in asked if not url.startswith((site, "data:"))] == []
    assert {page: found for page, found in faults.items() if found} == {}
    tab.context.close()


def test_the_search_finds_a_page(site: str, browser: Any) -> None:
    tab = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    tab.set_default_timeout(PATIENCE)
    tab.goto(f"{site}index.html")
    tab.fill("input.md-search__input", "calibration")
    tab.wait_for_selector(".md-search-result__item a[href*='trust.html']")
    tab.context.close()
