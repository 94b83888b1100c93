"""The system's Chromium, driven by Playwright, and a polyhop server for it."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations, pairwise
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

AXE = Path(os.environ.get("POLYHOP_AXE") or Path(__file__).parents[2] / ".cache" / "axe") / "node_modules/axe-core"


@contextmanager
def launched() -> Iterator[Any]:
    """Start a headless browser."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs: pip install playwright")
    with sync_api.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS, timeout=PATIENCE)
        yield browser
        browser.close()


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


def axe(tab: Any, *unchecked: str) -> list[str]:
    """Return the violations that axe-core finds in the page in its current state."""
    tab.evaluate((AXE / "axe.min.js").read_text("utf-8"))
    found = tab.evaluate("axe.run({ resultTypes: ['violations'] }).then((found) => found.violations)")
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found if each["id"] not in unchecked]


DRAWN = """() => {
    const box = ({ left, top, right, bottom }) => [left, top, right, bottom];
    const textsOf = (node) => {
        const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
        const found = [];
        while (walker.nextNode()) {
            if (!walker.currentNode.data.trim()) continue;
            const range = document.createRange();
            range.selectNodeContents(walker.currentNode);
            found.push(...[...range.getClientRects()].map(box));
        }
        return found;
    };
    return [...document.querySelectorAll(".drawing")].map((drawing) => {
        const { left, top } = drawing.querySelector(".lines").getBoundingClientRect();
        const pointsOf = (path) => {
            const length = path.getTotalLength();
            const steps = Math.ceil(length / 2);
            return Array.from({ length: steps + 1 }, (_, step) => path.getPointAtLength((length * step) / steps))
                .map(({ x, y }) => [x + left, y + top]);
        };
        const nodes = [...drawing.querySelectorAll(".node")];
        return {
            way: drawing.dataset.way,
            frame: box(drawing.getBoundingClientRect()),
            nodes: Object.fromEntries(nodes.map((node) => [node.dataset.id, box(node.getBoundingClientRect())])),
            texts: nodes.flatMap((node) => textsOf(node).map((each) => [node.dataset.id, each])),
            edges: [...drawing.querySelectorAll(".lines path")]
                .map((path) => [path.dataset.from, path.dataset.to, pointsOf(path)]),
        };
    });
}"""
SETTLED = """Promise.all(
    document.getAnimations().filter((each) => each instanceof CSSTransition).map((each) => each.finished)
)"""


def misdrawn(tab: Any) -> list[str]:
    """List the faults of a tab's drawings: boxes that overlap or stick out, and edges that do not lead from box to box,
    run backwards, or cross a box or a text."""
    tab.wait_for_timeout(100)  # a resized drawing is laid out in the next frame
    tab.evaluate(SETTLED)
    return [fault for drawing in tab.evaluate(DRAWN) for fault in faults(drawing)]


def faults(drawing: Any) -> Iterator[str]:
    """List the faults of one drawing as ``DRAWN`` measured it."""
    nodes = drawing["nodes"]
    left, _, right, bottom = drawing["frame"]
    for name, box in nodes.items():
        if box[0] < left - 1 or box[2] > right + 1 or box[3] > bottom + 1:
            yield f"{name} sticks out: {box} of {drawing['frame']}"
    for (one, a), (other, b) in combinations(nodes.items(), 2):
        if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]:
            yield f"{one} overlaps {other}: {a}, {b}"
    for start, end, points in drawing["edges"]:
        edge = f"{start} → {end} ({drawing['way']})"
        if not (inside(points[0], nodes[start], 2) and inside(points[-1], nodes[end], 2)):
            yield f"{edge} leads from {points[0]} to {points[-1]}, not from {nodes[start]} to {nodes[end]}"
        if any(there[0] < here[0] - 0.5 for here, there in pairwise(points)):
            yield f"{edge} runs backwards"
        for name, box in nodes.items():
            if name not in (start, end) and any(inside(point, box, -2) for point in points):
                yield f"{edge} crosses {name}"
        for name, box in drawing["texts"]:
            if any(inside(point, box, -2) for point in points):
                yield f"{edge} crosses a text of {name}"


def inside(point: Sequence[float], box: Sequence[float], margin: float) -> bool:
    """Return True if a point lies in a box that is widened by a margin on each side."""
    (x, y), (left, top, right, bottom) = point, box
    return left - margin <= x <= right + margin and top - margin <= y <= bottom + margin
