"""A question's own time, asked alone and with 63 others, against a model of fixed latency behind 16 slots.

    python -m benchmarks.own_time --check

The clock is real. Every call and every search takes half a second once it has a slot, so the own time of a question is
half a second per sequential call or search, however long it waits. ``elapsed`` includes the waiting.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from benchmarks.figures import Figure, conclude, parser
from tests.engine.test_own_time import METHODS, Limited
from tests.kit.random_world import BOOK

from polyhop import Pipeline, Question
from polyhop.evaluation.runner import run_questions
from polyhop.trace import Usage

LATENCY, SLOTS = 0.5, 16
MAX_DEVIATION = 15.0
"""Percent. A busy machine wakes a waiting call late, which counts as time."""


async def measure(method: str, settings: Any, concurrency: int, questions: int) -> tuple[float, float, float]:
    """Return the mean own time, the mean elapsed time, and the questions per second."""
    server = Limited(LATENCY, SLOTS)
    asked = [Question(f"q{n}", f"Who lives at number {n}?", ("Oslo",)) for n in range(questions)]
    async with Pipeline(method=method, lm=server, retriever=server.search, prompts=BOOK, **settings) as pipeline:
        begun = time.perf_counter()
        rows, _ = await run_questions(pipeline, asked, None, concurrency=concurrency)
        taken = time.perf_counter() - begun
    usages = [Usage.from_dict(row["usage"]) for row in rows]
    own, elapsed = (sum(getattr(usage, name) for usage in usages) / questions for name in ("seconds", "elapsed"))
    return own, elapsed, questions / taken


def main() -> None:
    """Measure, print the table and, with ``--check``, check the bars."""
    options = parser(__doc__).parse_args()
    print(f"{'method':<13}{'at once':>8}{'expected':>10}{'own':>8}{'elapsed':>9}{'questions/s':>13}")
    figures = []
    for method, (settings, steps) in METHODS.items():
        for concurrency, questions in ((1, 1), (64, 64)):
            own, elapsed, pace = asyncio.run(measure(method, settings, concurrency, questions))
            expected = steps * LATENCY
            print(f"{method:<13}{concurrency:>8}{expected:>10.2f}{own:>8.2f}{elapsed:>9.2f}{pace:>13.2f}")
            deviation = 100 * abs(own / expected - 1)
            figures.append(Figure(f"{method}, {concurrency} at once: deviation", deviation, " %", most=MAX_DEVIATION))
    conclude(figures, options)


if __name__ == "__main__":
    main()
