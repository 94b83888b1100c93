"""Leaks of a long run: memory and open files over ten thousand questions with a scripted model.

    python -m benchmarks.leaks [--questions 10000] [--method resp] [--check]

One run in its own process writes predictions and traces into a temporary folder. Its resident memory and open files are
printed after each tenth. A finished question is in the folder, and only its id remains in memory: between the second
tenth and the last, memory may grow by ``SLACK`` times the bytes of the lines written, and open files not at all.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, conclude, parser
from tests.kit.leak_run import find, held

from polyhop import Question, evaluate
from polyhop.lm.base import Capabilities, Completion, Request
from polyhop.methods.registry import methods

SLACK = 1.0
"""Share of a line, which has about 2,000 bytes, and four times that as Python objects; a trace is far larger. The heap
of a new process settles by about 2 MB, most of what a short run shows: over 10,000 questions it is 0.1 of a line."""


class Brief:
    """A model without state: it asks for one more fact, then finds the evidence sufficient."""

    name = "brief"
    capabilities = Capabilities()

    async def complete(self, request: Request) -> Completion:
        """Return a value that suits the tasks of tor, cor, resp and the closed-book methods."""
        fields: Mapping[str, Any] = request.fields
        memory = fields.get("memory") or {}
        return Completion(
            text="",
            value={
                "relevant": True,
                "supported": len(fields.get("passages") or ()) == 2,
                "sufficient": bool(memory and memory["local_pathway"]),
                "answered": True,
                **dict.fromkeys(("query", "information", "summary", "response", "sub_question"), "on"),
                **dict.fromkeys(("answer", "rationale", "thought"), "x"),
            },
        )


def long_run(method: str, count: int, out: Path, report: Callable[[dict[str, int]], None]) -> None:
    """Run the questions; report memory and open files after each tenth."""
    questions = [Question(f"q{n}", f"Question {n}?", answers=("x",), gold_ids=("p1",)) for n in range(count)]

    def progress(done: int, total: int) -> None:
        if done % (total // 10) == 0:
            lines = (out / "predictions.jsonl").stat().st_size
            report({"questions": done, "lines": lines, **held()})

    evaluate(questions, None, method, Brief(), retriever=find, out=out, progress=progress)


def main() -> None:
    """Run in another process, print the table and, with ``--check``, check the bars."""
    made = parser(__doc__)
    made.add_argument("--questions", type=int, default=10_000)
    made.add_argument("--method", choices=sorted(methods()), default="resp")
    made.add_argument("--out", help=argparse.SUPPRESS)
    options = made.parse_args()
    if options.questions < 10:
        made.error("--questions: at least 10, for a line is printed after each tenth")
    if options.out:  # the process that is measured
        long_run(options.method, options.questions, Path(options.out), lambda row: print(json.dumps(row), flush=True))
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.leaks", "--out", folder, "--method", options.method]
        printed = subprocess.run(
            [*command, "--questions", str(options.questions)], stdout=subprocess.PIPE, text=True, check=True
        ).stdout
    rows = [json.loads(line) for line in printed.splitlines()]
    print(f"{'questions':>10} {'MB':>8} {'files':>6} {'MB of lines':>12}")
    for row in rows:
        print(f"{row['questions']:>10} {row['bytes'] / 2**20:>8.1f} {row['files']:>6} {row['lines'] / 2**20:>12.1f}")
    early, late = rows[1], rows[-1]
    grown, lines = late["bytes"] - early["bytes"], late["lines"] - early["lines"]
    print(f"since {early['questions']}: {grown / (late['questions'] - early['questions']):.0f} bytes per question")
    conclude(
        [
            Figure("memory that a question leaves", grown / lines, " of its line", most=SLACK),
            Figure("files left open", late["files"] - early["files"], " files", most=0),
        ],
        options,
    )


if __name__ == "__main__":
    main()
