"""Drawings of a page as the browser laid them out: the boxes of their nodes, and their faults."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from typing import Any

from tests.kit.browser import settle

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
BOXES = """() => [...document.querySelectorAll(".node")].map((node) => {
    const { x, y, width, height } = node.getBoundingClientRect();
    return { x, y, width, height };
})"""


def boxes(tab: Any) -> list[dict[str, float]]:
    """Return the boxes of all nodes, in order, measured at one time."""
    settle(tab)
    found: list[dict[str, float]] = tab.evaluate(BOXES)
    return found


def misdrawn(tab: Any) -> list[str]:
    """List the faults of a tab's drawings: boxes that overlap or stick out, and edges that do not lead from box to box,
    run backwards, or cross a box or a text."""
    settle(tab)
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
