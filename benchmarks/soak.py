"""Run the hostile tests and attacks at length, one after another, each for a share of the time.

    python -m benchmarks.soak
    python -m benchmarks.soak --seconds 600 --only cache,server

``make soak`` runs it, for an hour at most; CI does so every night. A job that passes within its share is run again with
other examples until the share is used. A job that outlasts its share is ended, which is no failure: none was found.
The output of each round is a file in ``.cache/soak``, and what has passed on the same commit is not run again, unless
``--again`` is given. The exit status is 1 if a job failed.

To add a job, add a line to ``JOBS``: its name, its share of the time, the arguments of pytest (or of ``python -m``, if
they begin with ``benchmarks.``), and its own environment variables, if it has any.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / ".cache" / "soak"
MORE = {"POLYHOP_HYPOTHESIS": "exploring", "POLYHOP_TRIES": "20"}
"""The environment of every job: other examples each time, and more of them."""

ENDS_WITHIN = 15.0
"""Seconds that a job may take to print its counts once its time is up."""


@dataclass(frozen=True, slots=True)
class Job:
    """Some tests or a benchmark; ``share`` weighs its time against the others'."""

    name: str
    share: float
    arguments: str
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def command(self) -> list[str]:
        """Return the command."""
        if self.arguments.startswith("benchmarks."):
            return [sys.executable, "-m", *self.arguments.split()]
        return [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-x", *self.arguments.split()]


JOBS = (
    Job("server", 8, "benchmarks.abuse --check"),
    Job("abuse", 1, "tests/serve/test_abuse.py tests/serve/test_bounds.py tests/serve/test_hostile.py"),
    Job("indexes", 3, "tests/retrieval/test_index_stateful.py"),
    Job("runs", 3, "tests/evaluation/test_runs_stateful.py"),
    Job("cache", 3, "tests/lm/test_cache_stateful.py"),
    Job(
        "vicious servers",
        6,
        "tests/faults/test_vicious.py tests/faults/test_vicious_services.py tests/faults/test_graph_retrievers.py",
    ),
    Job("vicious wires", 3, "tests/faults/test_vicious_wires.py", {"POLYHOP_TRIES": "10"}),
    Job("faults", 4, "tests/faults/test_methods.py tests/faults/test_http.py", {"POLYHOP_FAULTS": "100"}),
    Job("stops", 2, "tests/faults/test_signals.py tests/faults/test_extraction_stops.py", {"POLYHOP_STOPS": "20"}),
    Job("damages", 2, "tests/faults/test_disk.py", {"POLYHOP_DAMAGES": "200"}),
    Job("engines", 2, "tests/retrieval/engines/test_hostile.py tests/retrieval/test_hostile.py"),
    Job("documents", 3, "tests/security/test_hostile_documents.py tests/security/test_hostile_files.py"),
    Job(
        "replies",
        3,
        "tests/security/test_hostile_replies.py tests/security/test_steering.py tests/security/test_shown.py",
    ),
    Job("injections", 2, "tests/security/test_injections.py tests/prompts/test_injection.py"),
    Job(
        "parsers",
        4,
        "tests/security/test_fuzz.py tests/prompts/test_fuzz.py tests/data/test_formats_fuzz.py "
        "tests/prompts/test_replies.py tests/prompts/test_transcripts_formats.py",
    ),
    Job("pocket", 3, "tests/lm/pocket/tasks/test_robust.py"),
    Job(
        "kills",
        2,
        "tests/evaluation/test_store.py tests/retrieval/test_killed.py",
        {"POLYHOP_TRIES": "5", "POLYHOP_KILLS": "100"},
    ),
    Job("properties", 5, "-mhypothesis tests", {"POLYHOP_TRIES": "2"}),
    Job(
        "random worlds",
        4,
        "tests/methods/test_fidelity.py tests/methods/test_ge_fidelity.py tests/methods/test_resp_fidelity.py "
        "tests/methods/baselines tests/methods/test_read.py tests/engine tests/test_pipeline.py",
        {"POLYHOP_TRIES": "5"},
    ),
)
"""The jobs in turn."""


@dataclass(slots=True)
class Outcome:
    """A job's rounds so far: what was counted in them, their seconds, and "passed", "failed" or "time is up"."""

    rounds: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    end: str = "passed"

    def add(self, printed: str, seconds: float, status: int | None) -> None:
        """Add a round; ``status``: its exit status, None if it was ended."""
        self.rounds += 1
        self.seconds += seconds
        self.end = "time is up" if status is None else "passed" if status == 0 else "failed"
        for number, what in re.findall(r"([\d,]+) (passed|failed|kills|hostile inputs)\b", printed):
            if what != "failed" or status is not None:  # an interrupted test may print that it failed
                self.counts[what] += int(number.replace(",", ""))


def run(job: Job, seconds: float, log: Path) -> tuple[str, int | None]:
    """Run a job once for at most so many seconds; return what it printed and its exit status, None if it was ended."""
    with log.open("wb") as stream:
        process = subprocess.Popen(
            job.command,
            stdout=stream,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env={**os.environ, **MORE, **job.environment},
            start_new_session=True,
        )
        try:
            status: int | None = process.wait(max(1.0, seconds))
        except subprocess.TimeoutExpired:
            status = None
            process.send_signal(signal.SIGINT)  # it prints what it counted
            with suppress(subprocess.TimeoutExpired):
                process.wait(ENDS_WITHIN)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with the servers and runs that it started
            process.wait()
    return log.read_text("utf-8", "replace"), status


def repeated(job: Job, seconds: float, folder: Path) -> Outcome:
    """Run a job until its seconds are used or it fails."""
    outcome, slowest = Outcome(), 0.0
    while outcome.end == "passed" and (not outcome.rounds or outcome.seconds + slowest <= seconds):
        began = time.monotonic()
        log = folder / f"{job.name.replace(' ', '-')}-{outcome.rounds + 1}.log"
        printed, status = run(job, seconds - outcome.seconds, log)
        took = time.monotonic() - began
        slowest = max(slowest, took)
        outcome.add(printed, took, status)
    return outcome


def commit() -> str:
    """Return the short name of the commit; "none" outside a checkout."""
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "none"


def row(name: str, outcome: Outcome) -> str:
    """Return a job's line of the table."""
    counts = [outcome.counts[what] for what in ("passed", "hostile inputs", "kills", "failed")]
    cells = "".join(f"{number:>16,}" for number in counts)
    return f"{name:<18}{outcome.rounds:>7}{cells}{outcome.seconds:>9.0f}  {outcome.end}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the jobs, print the table, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3400, help="the time for all jobs")
    parser.add_argument("--only", help="some of the jobs, with commas between")
    parser.add_argument("--again", action="store_true", help="run again what has passed on this commit")
    options = parser.parse_args(arguments)
    names = options.only.split(",") if options.only else [job.name for job in JOBS]
    jobs = [job for job in JOBS if job.name in names]
    if len(jobs) < len(names):
        parser.error(f"--only: the jobs are {', '.join(job.name for job in JOBS)}")
    folder = LOGS / commit()
    folder.mkdir(parents=True, exist_ok=True)
    print(f"{'job':<18}{'rounds':>7}{'tests':>16}{'hostile inputs':>16}{'kills':>16}{'failed':>16}{'seconds':>9}")
    total, left, shares = Outcome(), options.seconds, sum(job.share for job in jobs)
    for job in jobs:
        done = folder / f"{job.name.replace(' ', '-')}.passed"
        if not done.exists() or options.again:
            outcome = repeated(job, left * job.share / shares, folder)
            line, left = row(job.name, outcome), left - outcome.seconds
            total.rounds, total.seconds = total.rounds + outcome.rounds, total.seconds + outcome.seconds
            total.counts += outcome.counts
            if outcome.end == "failed":
                total.end = "failed"
            else:
                done.write_text(line, "utf-8")
        else:
            line = f"{done.read_text('utf-8')}, before"
        shares -= job.share
        print(line, flush=True)
    print(row("all", total))
    print(f"the output of each round is in {folder.relative_to(ROOT)}")
    return int(total.end == "failed")


if __name__ == "__main__":
    sys.exit(main())
