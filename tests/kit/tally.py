"""Counts of what the tests did to the product, such as kills and hostile inputs, printed at the end of the session.

A test calls ``count``; ``tests/conftest.py`` carries the sums from the processes of the tests and prints them.
"""

from __future__ import annotations

from collections import Counter

_counts: Counter[str] = Counter()


def count(what: str, times: int = 1) -> None:
    """Add to a count: ``count("kills")``."""
    _counts[what] += times


def taken() -> dict[str, int]:
    """Return the counts since the last call."""
    found = {what: times for what, times in _counts.items() if times}
    _counts.clear()
    return found
