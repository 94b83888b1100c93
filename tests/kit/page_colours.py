"""The colours of the server's page, for drawings that follow the reader's light or dark scheme."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import polyhop

TOKENS = Path(polyhop.__file__).parent / "trace" / "view" / "tokens.css"

Colours = Mapping[str, str]


def colours(theme: str) -> Colours:
    """Return the page's colours by name in one theme, ``light`` or ``dark``."""
    pairs = re.findall(r"--(\w+): light-dark\((#\w+), (#\w+)\)", TOKENS.read_text("utf-8"))
    return {name: light if theme == "light" else dark for name, light, dark in pairs}


def style(rules: str) -> str:
    """Return the style of a drawing: the page's colours as variables, dark ones where the reader prefers them.

    A picture that a page shows follows the ``color-scheme`` of that page.
    """
    used = [name for name in colours("light") if f"var(--{name})" in rules]
    light, dark = ("; ".join(f"--{name}: {colours(theme)[name]}" for name in used) for theme in ("light", "dark"))
    return f"<style>\nsvg {{ {light} }}\n@media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }}\n{rules}\n</style>"
