"""The time of scoring, intervals and reports, on synthetic answers that are the same in every run.

    python -m benchmarks.evaluation [--questions 10000] [--folder 7405] [--check]

7,405 is the number of questions in HotpotQA's development set. ``--check`` fails if scoring and intervals take more
than 10 seconds, or a folder's report more than 5.
"""

from __future__ import annotations

import random
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import orjson
from benchmarks.figures import Figure, conclude, parser

from polyhop import Passage, Question, __version__
from polyhop.answer import Answer
from polyhop.common.text import counted
from polyhop.evaluation.compare import compare, ensemble
from polyhop.evaluation.predictions import prediction, scored
from polyhop.evaluation.report import Report
from polyhop.evaluation.store import read_report
from polyhop.trace import Trace, Usage

T = TypeVar("T")
PROFILES = ("default", "hotpot")
WORDS = [f"{first}{second}" for first in ("al", "be", "cor", "dan", "el", "fer") for second in ("an", "ith", "o", "us")]


def made_up(number: int, draw: random.Random, share: float) -> dict[str, Any]:
    """Return the line of an answer that is right, nearly right or wrong, with twenty ranked passages, two of them
    gold."""
    gold = " ".join(draw.choices(WORDS, k=3)).title()
    predicted = gold if draw.random() < share else draw.choice([gold + " the Elder", gold.split()[0], "no idea"])
    names = [f"{number}-{rank}" for rank in range(20)]
    draw.shuffle(names)
    passages = tuple(Passage(name, f"Title {name}", f"{gold} was here.") for name in names)
    question = Question(
        f"q{number}",
        f"Who was number {number}?",
        (gold, f"{gold} Junior"),
        gold_ids=(f"{number}-0", f"{number}-1"),
        gold_titles=(f"Title {number}-0", f"Title {number}-1"),
        supporting=((f"Title {number}-0", 0), (f"Title {number}-1", 0)),
        metadata={"type": draw.choice(["bridge", "comparison"])},
    )
    statistics = {"rounds": float(draw.randint(1, 4)), "steps": float(draw.randint(1, 9))}
    usage = Usage(
        calls=draw.randint(2, 9),
        calls_by_task={"resp.judge": 3, "resp.summarize": 3},
        prompt_tokens=2_000,
        completion_tokens=100,
        prompt_tokens_by_model={"openai:model": 2_000},
        completion_tokens_by_model={"openai:model": 100},
        searches=2,
    )
    trace = Trace(question.text, "resp", ())
    answer = Answer(predicted, passages=passages, statistics=statistics, usage=usage, trace=trace)
    return prediction(question, answer, number, profiles=PROFILES)


def timed(what: str, work: Callable[[], T]) -> tuple[T, float]:
    """Run ``work`` and print a row of the table; return the result and the seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = work()
    seconds = time.perf_counter() - wall
    print(f"| {what} | {seconds:.2f} | {time.process_time() - cpu:.2f} |")
    return found, seconds


def summary(rows: list[dict[str, Any]]) -> Report:
    """Return the report of these lines, with its intervals."""
    return Report.of(rows, {}, method="resp", lm="openai:model", dataset="made up")


def write(folder: Path, rows: list[dict[str, Any]]) -> None:
    """Write a run's folder with these lines, without traces."""
    settings = {"method": "resp", "lm": "openai:model", "dataset": "made up", "metrics": {"profiles": PROFILES}}
    (folder / "run.json").write_bytes(orjson.dumps({"polyhop": __version__, **settings}))
    (folder / "predictions.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))


def measure(questions: int, folder: int) -> list[Figure]:
    """Print the table; return the figures that have a bar."""
    draw = random.Random(0)
    rows = [made_up(number, draw, 0.5) for number in range(questions)]
    others = [made_up(number, draw, 0.55) for number in range(questions)]
    metrics, statistics = len(rows[0]["metrics"]), len(rows[0]["statistics"])
    print(f"{counted(questions, 'questions')}, {metrics} metrics and {statistics} statistics each\n")
    print("| what | seconds | of the processor |\n|---|---|---|")
    anew, scoring = timed("score the answers anew", lambda: list(scored(rows, PROFILES)[0]))
    first, summing = timed("means and bootstrap intervals", lambda: summary(anew))
    second = summary(others)
    timed("compare two runs: bootstrap, permutation, Holm", lambda: compare(first, second))
    timed("agreement, oracle, majority", lambda: ensemble({"first": first, "second": second}))
    with tempfile.TemporaryDirectory() as run:
        write(Path(run), rows[:folder])
        report, opening = timed(f"open and report a folder of {folder:,}", lambda: read_report(run))
        timed("the same, scored anew", lambda: read_report(run, metrics=PROFILES))
        timed("the same report by type", lambda: report.by("type"))
    print(f"\npeak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    whole = Figure("scores and intervals", scoring + summing, " s", most=10)
    return [whole, Figure("a folder's report", opening, " s", most=5)]


if __name__ == "__main__":
    made = parser(__doc__)
    made.add_argument("--questions", type=int, default=10_000)
    made.add_argument("--folder", type=int, default=7_405)
    arguments = made.parse_args()
    conclude(measure(arguments.questions, arguments.folder), arguments)
