"""The sequential calls of Tree of Reviews with speculation, and the share of wasted calls.

    python -m benchmarks.speculation --check

Random worlds at the default widths, with a virtual clock and one second per model call: the mean seconds per question
are its sequential calls. The result is byte-identical to the sequential run's (``tests/engine/test_speculation.py``).
"""

from __future__ import annotations

import asyncio
import statistics
from typing import Any

from benchmarks.figures import Figure, conclude, parser
from tests.kit.random_world import BOOK, World
from tests.kit.virtual_clock import run_virtually

from polyhop import Answer, Passage, ScriptedLM
from polyhop.pipeline import Pipeline

WORLDS = 200
SHARES = {"relevant": 0.55, "supported": 0.2, "wordless": 0.1, "unreadable": 0.0, "barren": 0.05}
AHEAD = (0, 1, 2, 4, 8, 64)
BARS = {4: 10.0, 64: 6.0}
"""Maximum sequential calls: with the siblings of one retrieval at once (four after the first), with the whole tree."""


def world(seed: int) -> World:
    """Return a world of forty passages in which about half of the paths are relevant and a fifth of those
    sufficient."""
    passages = [Passage(f"p{n}", f"Title {n}", f"word{n} " * 20) for n in range(40)]
    return World(seed, f"Question {seed}?", passages, dict(SHARES), "value")


async def answer(seed: int, expansion: str, ahead: int) -> tuple[Answer, float]:
    """Return the answer of a world and its seconds."""
    here = world(seed)
    lm = ScriptedLM(here.script, latency=1.0)
    settings: dict[str, Any] = {"shots": 0, "prompts": BOOK, "expansion": expansion, "speculate": ahead}
    async with Pipeline(method="tor", lm=lm, retriever=here.search, **settings) as qa:
        begun = asyncio.get_running_loop().time()
        found = await qa.aask(here.question)
        return found, asyncio.get_running_loop().time() - begun


def main() -> None:
    """Measure, print the table and, with ``--check``, check the bars."""
    options = parser(__doc__).parse_args()
    print(f"{'expansion':<11}{'ahead':>6}{'calls':>8}{'in a row':>10}{'wasted':>8}")
    figures = []
    for expansion in ("mpc", "direct", "cot"):
        for ahead in AHEAD:
            found = [run_virtually(answer(seed, expansion, ahead)) for seed in range(WORLDS)]
            calls = statistics.mean(answered.usage.calls for answered, _ in found)
            in_a_row = statistics.mean(seconds for _, seconds in found)
            wasted = statistics.mean(answered.usage.wasted for answered, _ in found)
            print(f"{expansion:<11}{ahead:>6}{calls:>8.1f}{in_a_row:>10.1f}{wasted:>8.2f}")
            figures.append(Figure(f"{expansion}, {ahead} ahead: calls in a row", in_a_row, most=BARS.get(ahead)))
    conclude(figures, options)


if __name__ == "__main__":
    main()
