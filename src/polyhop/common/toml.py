"""TOML files of a user or a stranger."""

from __future__ import annotations

import tomllib
from typing import Any


def parse_toml(text: str) -> dict[str, Any]:
    """Parse a TOML file; ``ValueError`` says what is wrong with it, also if it is nested too deeply for the parser.

    >>> parse_toml("a = " + "[" * 5000)
    Traceback (most recent call last):
    ValueError: its values are nested too deeply
    """
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None
