"""The time of short commands: help compared with an empty Python, the first call, the first answer.

    python -m benchmarks.startup --check

- *help*: the ratio of ``polyhop --help`` to ``python -c pass``, wall time, the best of alternating runs.
- *ask*: from the start of ``polyhop ask`` on a built index to the first call that reaches the model server on loopback;
  the demo corpus with ``one-r``, which searches first.

``--check`` exits with 1 if a bar is missed.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from benchmarks.figures import Figure, conclude, parser
from tests.kit.openai_server import FakeServer

from polyhop.data.corpora import open_corpus
from polyhop.retrieval.index import build_index

MAX_HELP, MAX_ASK, MAX_FOLDER, MAX_DEMO = 4.0, 1.5, 3.0, 30.0
FILES, PER_FILE = 20, 5
QUESTION = "Where was the director of Alien born?"
COMMAND = Path(sys.executable).with_name("polyhop")


def wall(command: Sequence[str | Path]) -> float:
    """Return the seconds of a command."""
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begun


def help_over_nothing(rounds: int) -> float:
    """Return the ratio of the time of ``polyhop --help`` to that of an empty Python."""
    times = [(wall([COMMAND, "--help"]), wall([sys.executable, "-c", "pass"])) for _ in range(rounds)]
    return min(shown for shown, _ in times) / min(nothing for _, nothing in times)


async def to_the_first_call(index: Path) -> float:
    """Return the seconds from the start of ``polyhop ask`` to its first call."""
    async with FakeServer("The answer is Paris.") as server:
        arguments = ["ask", QUESTION, "--corpus", index, "--method", "one-r", "--lm", f"openai:tiny@{server.url}"]
        begun = time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            COMMAND, *map(str, arguments), "--no-cache", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        await asyncio.wait_for(server.until(1), 60)
        took = time.perf_counter() - begun
        await process.wait()
    return took


def first_answer(parent: Path) -> float:
    """Return the seconds of a question over a folder without an index."""
    passages = iter(open_corpus("demo"))
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        for number in range(FILES):
            texts = (f"# {passage.title}\n\n{passage.text}\n" for passage in islice(passages, PER_FILE))
            Path(folder, f"{number}.md").write_text("\n".join(texts), encoding="utf-8")
        return wall([COMMAND, "ask", QUESTION, "--corpus", folder, "--method", "tor", "--lm", "pocket", "--quiet"])


def main() -> None:
    """Measure, print the table and, with ``--check``, check the bars."""
    made = parser(__doc__)
    made.add_argument("--rounds", type=int, default=10, help="runs of each command; the best counts")
    options = made.parse_args()
    figures = [Figure("polyhop --help / python -c pass", help_over_nothing(options.rounds), most=MAX_HELP)]
    with tempfile.TemporaryDirectory(prefix="polyhop-startup-") as folder:
        index = Path(folder) / "index"
        build_index(open_corpus("demo"), index)
        first = min(asyncio.run(to_the_first_call(index)) for _ in range(options.rounds))
        answered = min(first_answer(Path(folder)) for _ in range(options.rounds))
    figures.append(Figure("polyhop ask to its first call", first, " s", most=MAX_ASK))
    figures.append(Figure("polyhop ask over 20 new files", answered, " s", most=MAX_FOLDER))
    figures.append(Figure("polyhop demo", wall([COMMAND, "demo"]), " s", most=MAX_DEMO))
    for figure in figures:
        print(f"{figure.name:<34}{figure.value:>8.2f}{figure.unit}")
    conclude(figures, options)


if __name__ == "__main__":
    main()
