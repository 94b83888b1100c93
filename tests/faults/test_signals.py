"""Runs that are stopped by Ctrl-C or SIGTERM at any moment: they go on as if nothing was, and leave nothing behind.

``POLYHOP_STOPS=100`` stops as often, where the tests stop twice.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from polyhop.data import DEMO
from tests.evaluation.test_store import files
from tests.faults.test_http import until_none_is_open
from tests.kit.openai_server import FakeServer, Fault, in_thread

ROOT = Path(__file__).parents[2]
STOPS = int(os.environ.get("POLYHOP_STOPS", "2"))
SIGNALS = (signal.SIGINT, signal.SIGTERM)
STARTED = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
from polyhop.cli import main
main()
"""


class Holding(FakeServer):
    """A server that answers no more than ``most`` requests, so that a run cannot end before it is stopped."""

    most = math.inf

    def __init__(self) -> None:
        super().__init__("Sufficient: no\nAnswered: yes\nAnswer: Paris\nSub-question: And then?", latency=0.01)

    async def _fault(self, body: Mapping[str, Any]) -> Fault | None:
        number = len(self.requests)
        while number > self.most:  # noqa: ASYNC110 - it is set from another thread
            await asyncio.sleep(0.005)
        return None


def started(server: FakeServer, folder: Path) -> subprocess.Popen[str]:
    """A run, or the rest of it. It asks in text from the beginning: it depends on the moment how many questions are
    asked in JSON before the server is known to ignore it."""
    options = ["--rendering", "text", "--dataset", DEMO, "--method", "resp", "--limit", "6", "--concurrency", "3"]
    return leader(folder, "run", "--lm", f"openai:tiny@{server.url}", *options, "--out", folder / "out")


def leader(folder: Path, *arguments: str | Path) -> subprocess.Popen[str]:
    """A command as the leader of a group of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", STARTED, *arguments],
        cwd=ROOT,
        env={**os.environ, "POLYHOP_CACHE": str(folder / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def stopped(server: Holding, folder: Path, left: int, sign: signal.Signals, draw: random.Random) -> None:
    """Start the run, which has so many requests left to make, and stop it some time after some of them."""
    before, moment = len(server.requests), draw.randint(1, left)
    server.most = before + draw.randint(moment, left) - 1
    process = started(server, folder)
    try:
        while len(server.requests) < before + moment and process.poll() is None:
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.02))
        process.send_signal(sign)
        _, output = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == (130 if sign == signal.SIGINT else -sign), output
    assert "Traceback" not in output
    assert ("the same command resumes it" in output) == (sign == signal.SIGINT)
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    until_none_is_open(server)


def ended(server: Holding, folder: Path) -> dict[str, Any]:
    """Let the run come to its end; its files."""
    server.most = math.inf
    process = started(server, folder)
    _, output = process.communicate(timeout=120)
    assert process.returncode == 0, output
    until_none_is_open(server)
    return files(folder / "out")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_a_run_stopped_at_any_moment_resumes_and_leaves_no_files(tmp_path: Path) -> None:
    """Answers are kept, so that every start has fewer requests left; with none left, a new run begins."""
    draw, stops = random.Random(STOPS), 0
    with in_thread(Holding()) as server:
        whole = ended(server, tmp_path / "whole")
        calls = len(server.requests)
        for number in count():
            folder, before = tmp_path / f"stopped {number}", len(server.requests)
            while stops < STOPS and (left := before + calls - len(server.requests)) > 0:
                stopped(server, folder, left, SIGNALS[stops % 2], draw)
                stops += 1
            assert ended(server, folder) == whole
            if stops == STOPS:
                break
