"""``index triplets`` stopped by Ctrl-C, SIGTERM or kill -9 at any moment: the same command makes the same file.

``POLYHOP_STOPS=20`` stops ten times with each signal.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from polyhop.data.openie import read_openie
from tests.faults.test_http import until_none_is_open
from tests.faults.test_signals import STOPS, Holding, leader
from tests.kit import batches
from tests.kit.openai_server import Reply, in_thread
from tests.kit.tally import count

PASSAGES = 9
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def started(server: Holding, folder: Path) -> subprocess.Popen[str]:
    """The command, or the rest of its work."""
    options = ["--lm", f"openai:tiny@{server.url}", "--rendering", "json", "--concurrency", "3"]
    return leader(folder, "index", "triplets", folder / "corpus.jsonl", "--out", folder / "triplets.json", *options)


def ended(server: Holding, folder: Path) -> bytes:
    """Let the command come to its end; the file that it wrote."""
    server.most = float("inf")
    process = started(server, folder)
    _, output = process.communicate(timeout=120)
    assert process.returncode == 0, output
    until_none_is_open(server)
    return (folder / "triplets.json").read_bytes()


def stopped(server: Holding, folder: Path, sign: signal.Signals, draw: random.Random) -> None:
    """Start the command and stop it some time after some of the requests that it has left."""
    before, moment = len(server.requests), draw.randint(1, 5)
    server.most = before + draw.randint(moment, 2 * PASSAGES) - 1
    process = started(server, folder)
    try:
        while len(server.requests) < before + moment and process.poll() is None:
            time.sleep(0.001)
        time.sleep(draw.uniform(0, 0.02))
        process.send_signal(sign)
        _, output = process.communicate(timeout=60)
    finally:
        process.kill()
    count("kills", sign == signal.SIGKILL)
    if process.returncode != 0:  # it had ended
        assert process.returncode == (130 if sign == signal.SIGINT else -sign), output
        assert ("the same command resumes it" in output) == (sign == signal.SIGINT)
    assert "Traceback" not in output
    if (folder / "triplets.json").exists():
        read_openie(folder / "triplets.json")
    until_none_is_open(server)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_an_extraction_stopped_at_any_moment_makes_the_same_file(tmp_path: Path) -> None:
    draw = random.Random(STOPS)
    rows = [{"id": f"p{n}", "title": f"Page {n}", "text": f"Ann{n} lives in Rome."} for n in range(PASSAGES)]
    files = list[bytes]()
    with in_thread(Holding()) as server:
        server.reply = lambda body: Reply(text=batches.say(body))
        for number in range(1 + (STOPS + 1) // 2):
            folder = tmp_path / f"{number}"
            folder.mkdir()
            (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            for sign in draw.sample(SIGNALS, len(SIGNALS)) if number else ():
                stopped(server, folder, sign, draw)
            files.append(ended(server, folder))
    assert len(read_openie(tmp_path / "0" / "triplets.json")) == PASSAGES
    assert len(set(files)) == 1
