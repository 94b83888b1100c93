"""The drawing of the architecture, made from the import contract in ``pyproject.toml``."""

from __future__ import annotations

import tomllib
from html import escape
from pathlib import Path

from tests.kit.page_colours import style

ROOT = Path(__file__).parents[2]
DRAWING = ROOT / "docs" / "images" / "layers.svg"
PAGE = ROOT / "docs" / "architecture.md"

_WIDE, _HIGH, _GAP, _LEFT = 620, 30, 8, 30
_RULES = """\
text { font: 13px ui-monospace, monospace; text-anchor: middle; fill: var(--ink) } .ground { fill: var(--paper) }
.box { fill: var(--sheet); stroke: var(--accent) } path { fill: none; stroke: var(--dim); stroke-width: 1.5 }"""


def layers() -> list[list[str]]:
    """The packages from the top layer down; packages of one layer do not import each other."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    contract_layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [[room.strip().removeprefix("polyhop.") for room in layer.split("|")] for layer in contract_layers]


def drawing() -> str:
    """The layers as boxes, one row each."""
    rows = layers()
    high = len(rows) * (_HIGH + _GAP) + _GAP
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDE} {high}" role="img">',
        "  <title>The layers of polyhop, from top to bottom: imports only go down</title>",
        style(_RULES),
        f'  <rect class="ground" width="{_LEFT + _WIDE}" height="{high}" rx="6"/>',
        f'  <path d="M14 {_GAP} V{high - _GAP - 2} m-5 -8 l5 8 l5 -8"/>',
    ]
    for number, rooms in enumerate(rows):
        y, wide = _GAP + number * (_HIGH + _GAP), (_WIDE - _GAP * len(rooms)) / len(rooms)
        for column, room in enumerate(rooms):
            x = _LEFT + column * (wide + _GAP)
            lines += [
                f'  <rect class="box" x="{x:g}" y="{y}" width="{wide:g}" height="{_HIGH}" rx="4"/>',
                f'  <text x="{x + wide / 2:g}" y="{y + 20}">{escape(room)}</text>',
            ]
    return "\n".join([*lines, "</svg>"]) + "\n"
