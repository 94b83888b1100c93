"""The end of a check of written questions: their faults, and what there is."""

from __future__ import annotations

from collections.abc import Iterable


def report(faults: Iterable[str], summary: str) -> int:
    """Print each fault, then the summary and their number; return the exit status: 1 if there are faults."""
    found = list(faults)
    for fault in found:
        print(fault)
    print(f"{summary}; {len(found)} faults")
    return int(bool(found))
