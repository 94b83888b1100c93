"""The trace of one question: typed steps, one schema for trees, chains and graphs.

A step records its ``parent`` (where it stands in the tree of reasoning) and what it came ``after`` (the steps it had to
wait for), so layers and the critical path can be read off any trace. Steps are numbered in the order the algorithm
makes them, not in the order replies happen to arrive.
"""

from polyhop.trace.steps import CALLS, Ask, Branch, Note, Readout, Score, Searched, Step, line_of, passages_in, plain
from polyhop.trace.trace import Trace, Usage, add_usage

__all__ = [
    "CALLS",
    "Ask",
    "Branch",
    "Note",
    "Readout",
    "Score",
    "Searched",
    "Step",
    "Trace",
    "Usage",
    "add_usage",
    "line_of",
    "passages_in",
    "plain",
]
