"""The speed-up of two workers of a Ray cluster over one: ``python -m benchmarks.cluster [--check]``.

500 questions (those of the demo set, repeated) are answered by ``resp`` with a model server on this machine that takes
100 ms per call. Each worker has the same number of concurrent questions. The time excludes the start of the cluster and
its workers. The driver, the workers and the server share this machine's cores, so two should be free. Then the same 500
questions run with both workers and in a single process: the files must be equal.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.evaluation.test_store import files
from tests.kit.openai_server import FakeServer, in_thread

from polyhop import Pipeline, evaluate
from polyhop.common.ray import connected
from polyhop.data.questions import read_questions
from polyhop.evaluation.ray import Ray
from polyhop.evaluation.runner import run_questions
from polyhop.types import Question

LATENCY, METHOD, CORPUS = 0.1, "resp", "demo"
REPLY = "Sufficient: no\nAnswered: yes\nAnswer: Paris\nSub-question: And then?"
LEAST = 1.8
"""Minimum ratio of the questions per second."""


def questions(count: int) -> list[Question]:
    """Return the questions of the demo set, repeated with other ids and words."""
    asked = itertools.islice(itertools.cycle(read_questions("demo")), count)
    return [replace(each, id=f"{n}-{each.id}", text=f"{each.text} ({n})") for n, each in enumerate(asked)]


@contextmanager
def server() -> Iterator[str]:
    """Start the model server in its own process; yield its URL."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        process.terminate()
        process.join()


def _serve(to: Connection) -> None:
    with in_thread(FakeServer(REPLY, latency=LATENCY)) as running:
        to.send(running.url)
        time.sleep(3600)


def rate(asked: list[Question], url: str, workers: int, each: int) -> float:
    """Return the questions per second of some workers with ``each`` concurrent questions per worker."""
    options: dict[str, Any] = {"cache": False}
    lm = f"openai:tiny@{url}"
    with Pipeline(CORPUS, METHOD, lm, **options) as pipeline:
        engine = Ray(workers=workers)
        with engine.answering(pipeline, lm, options, workers * each, len(asked), telemetry=False) as ask:
            warm = questions(2 * workers * each)
            asyncio.run(run_questions(pipeline, warm, None, concurrency=workers * each, ask=ask))
        with engine.answering(pipeline, lm, options, workers * each, len(asked), telemetry=False) as ask:
            began = time.perf_counter()
            rows, failed = asyncio.run(run_questions(pipeline, asked, None, concurrency=workers * each, ask=ask))
            seconds = time.perf_counter() - began
    assert len(rows) == len(asked)
    assert not failed
    return len(asked) / seconds


def same(asked: list[Question], url: str, each: int) -> bool:
    """Return True if both workers write the same files as a single process."""
    with tempfile.TemporaryDirectory() as folder:
        given: dict[str, Any] = {"lm": f"openai:tiny@{url}", "cache": False, "concurrency": 2 * each}
        kept = []
        for name, engine in (("one", None), ("two", Ray(workers=2))):
            evaluate(asked, CORPUS, METHOD, **given, out=Path(folder, name), engine=engine)
            kept.append(files(Path(folder, name)))
    return kept[0] == kept[1]


def main() -> None:
    """Measure, print and, with ``--check``, check the bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit with 1 when the bar is missed")
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--concurrency", type=int, default=2, help="questions under way at each worker")
    arguments = parser.parse_args()
    asked, each = questions(arguments.questions), arguments.concurrency
    os.environ["OPENAI_API_KEY"] = "none"
    with server() as url, connected(None):
        one, two = rate(asked, url, 1, each), rate(asked, url, 2, each)
        agree = same(asked, url, each)
    print(f"one worker   {one:8.1f} questions/s")
    print(f"two workers  {two:8.1f} questions/s, {two / one:.2f} times (at least {LEAST})")
    print(f"files of two workers and of one process: {'the same' if agree else 'DIFFERENT'}")
    if arguments.check and (two < LEAST * one or not agree):
        sys.exit(1)


if __name__ == "__main__":
    main()
