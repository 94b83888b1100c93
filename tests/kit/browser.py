"""The system's Chromium, driven by Playwright, and a polyhop server for it."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from polyhop import ScriptedLM
from polyhop.common.aio import LoopThread
from polyhop.lm.base import Completion, Request
from polyhop.serve.http.app import Options
from polyhop.serve.service import Service
from tests.kit.polyhop_server import served

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = [
    *("--headless", "--no-sandbox", "--disable-gpu"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
PATIENCE = 120_000
"""Maximum milliseconds for a page on a busy machine."""

MARKS = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")]
"""Marks of a test that needs a browser."""

AXE = Path(os.environ.get("POLYHOP_AXE") or Path(__file__).parents[2] / ".cache" / "axe") / "node_modules/axe-core"
needs_axe = pytest.mark.skipif(not AXE.is_dir(), reason=f"axe-core is not installed at {AXE.parents[1]}: make axe")


@contextmanager
def launched() -> Iterator[Any]:
    """Start a headless browser."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs: pip install playwright")
    with sync_api.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS, timeout=PATIENCE)
        yield browser
        browser.close()


class Tabs:
    """New tabs of a browser in shared contexts: a context of its own doubles the time that a tab takes."""

    def __init__(self, browser: Any) -> None:
        self._browser = browser
        self._contexts: dict[bool, Any] = {}
        self._open: list[Any] = []

    def new(self, *, viewport: Any = None, bypass_csp: bool = False, **media: str) -> Any:
        """Return an empty tab. ``media`` are those of Playwright's ``emulate_media``."""
        if bypass_csp not in self._contexts:
            self._contexts[bypass_csp] = self._browser.new_context(bypass_csp=bypass_csp)
            self._contexts[bypass_csp].set_default_timeout(PATIENCE)
        tab = self._contexts[bypass_csp].new_page()
        self._open.append(tab)
        if viewport:
            tab.set_viewport_size(viewport)
        if media:
            tab.emulate_media(**media)
        return tab

    def close(self) -> None:
        """Close the tabs, and clear what their pages stored: the next ones share their contexts."""
        for tab in self._open:
            if tab.url.startswith("http"):
                origin = "/".join(tab.url.split("/")[:3])
                stored = {"origin": origin, "storageTypes": "local_storage"}
                tab.context.new_cdp_session(tab).send("Storage.clearDataForOrigin", stored)
            tab.close()
        self._open.clear()


@contextmanager
def serving(service: Service, options: Options | None = None) -> Iterator[str]:
    """Run a server on its own thread; yield its address, with a slash at the end."""
    thread = LoopThread()
    server = served(service, *([options] if options else []))
    try:
        yield thread.run(server.__aenter__()) + "/"
    finally:
        thread.run(server.__aexit__(None, None, None))
        thread.stop()


class GatedLM(ScriptedLM):
    """Answers the first ``free`` calls at once; the others wait until ``gate`` is set."""

    def __init__(self, script: Any, free: int = 0) -> None:
        super().__init__(script)
        self.gate = threading.Event()
        self.cancelled = threading.Event()
        self._free = free

    async def complete(self, request: Request) -> Completion:
        """Return the scripted reply when its time comes."""
        self._free -= 1
        try:
            while self._free < 0 and not self.gate.is_set():  # noqa: ASYNC110 - it is set on another thread
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return await super().complete(request)


def undirected(text: str) -> str:
    """Return a text without the characters of direction that the page balances."""
    return re.sub("[\u202a-\u202e\u2066-\u2069]", "", text)


UNFOLD = """async () => {
    for (;;) {
        const folded = [...document.querySelectorAll("details:not([open])")];
        if (!folded.length && !document.querySelector("[aria-busy=true]")) return true;
        const toggled = (each) => new Promise((done) => each.addEventListener("toggle", done, { once: true }));
        const opened = folded.map(toggled); // after the page's own listeners, which fill them
        for (const each of folded) each.open = true;
        await Promise.all(opened);
        if (!folded.length) await new Promise(requestAnimationFrame);
    }
}"""
SETTLE = """async () => {
    const frame = () => new Promise(requestAnimationFrame);
    const fits = (drawing) =>
        !drawing.clientWidth || Number(drawing.querySelector(".lines").getAttribute("width")) === drawing.clientWidth;
    const places = () => JSON.stringify(
        [...document.querySelectorAll(".drawing, .node")].map((each) => each.getBoundingClientRect())
    );
    for (let before = null; ; ) {
        await document.fonts.ready;
        await frame();
        await frame(); // observers of sizes have been called, and have laid out again
        for (const each of document.getAnimations()) if (each instanceof CSSTransition) each.finish();
        const now = places();
        const drawings = [...document.querySelectorAll(".drawing:has(> .lines)")];
        const whole = document.fonts.status === "loaded" && drawings.every(fits);
        if (whole && now === before) return true;
        before = now;
    }
}"""


def unfold(tab: Any) -> None:
    """Open every folded part, those that come to light in them too, and wait until they are filled."""
    tab.wait_for_function(UNFOLD)


def settle(tab: Any) -> None:
    """Wait until the page stands still: fonts loaded, drawings laid out for their width, transitions at their end."""
    tab.wait_for_function(SETTLE)


def resize(tab: Any, width: int, height: int = 900) -> None:
    """Change the size of the window, and wait until the page has it."""
    tab.set_viewport_size({"width": width, "height": height})
    tab.wait_for_function("(width) => innerWidth === width", arg=width)


def press(tab: Any, *keys: str) -> None:
    """Press keys one after another."""
    for key in keys:
        tab.keyboard.press(key)


def tab_to(tab: Any, reached: str) -> None:
    """Press Tab until an expression about the focused element, ``it``, is true."""
    for _ in range(100):
        if tab.evaluate(f"((it) => {reached})(document.activeElement)"):
            return
        press(tab, "Tab")
    pytest.fail(f"100 times Tab do not lead to {reached}")


def axe(tab: Any, *unchecked: str) -> list[str]:
    """Return the violations that axe-core finds in the page in its current state."""
    settle(tab)
    if not tab.evaluate("'axe' in window"):
        tab.evaluate((AXE / "axe.min.js").read_text("utf-8"))
    found = tab.evaluate("axe.run({ resultTypes: ['violations'] }).then((found) => found.violations)")
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found if each["id"] not in unchecked]


FONTS = """(wanted) => {
    const loaded = [...document.fonts].filter(({ status }) => status === "loaded");
    const families = [...new Set(loaded.map(({ family }) => family.replaceAll('"', "")))].sort();
    return document.fonts.status === "loaded" && wanted.every((each) => families.includes(each)) && families;
}"""


def loaded_fonts(tab: Any, *wanted: str) -> list[str]:
    """Wait until the page has loaded fonts of these families; return the families of all that it has loaded."""
    found: list[str] = tab.wait_for_function(FONTS, arg=list(wanted)).json_value()
    return found
