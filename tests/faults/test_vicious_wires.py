"""Methods over real connections that break in every way, processes that are stopped for a while, and the command line.

``POLYHOP_FAULTS=100`` asks 100 questions a run, ``POLYHOP_TRIES=10`` makes ten times as many runs.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from polyhop import evaluate
from polyhop.cli import main
from polyhop.errors import LMError
from polyhop.lm import OpenAICompatible
from tests.evaluation.test_store import files
from tests.faults.test_http import until_none_is_open
from tests.faults.test_methods import Finder
from tests.faults.test_signals import ROOT, Holding, ended, started
from tests.faults.test_vicious import FAST, QUESTIONS, WORLD, check, script
from tests.kit import openai_server as kit
from tests.kit.faulty_server import PASSING, client_of
from tests.kit.openai_server import in_thread
from tests.kit.random_world import BOOK
from tests.kit.tally import count
from tests.kit.tries import tries
from tests.kit.vicious_server import EVENTS, FINAL, KEY, RETRIED, SAID, WIRES, ViciousServer

pytestmark = pytest.mark.slow

BROKEN = {**WIRES, "cut": kit.CUT, "reset": kit.RESET, "drop": kit.DROP, "twice": kit.TWICE, "hang": kit.HANG}


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyhop.net.client.backoff", lambda failures, asked: 0.0)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("method", FAST)
def test_no_broken_wire_loses_or_doubles_a_question(method: str, streamed: bool, tmp_path: Path) -> None:
    """Started until no question fails: what a start finished stays as it is."""
    given: dict[str, Any] = {"retriever": Finder(), "reader": WORLD.read, "prompts": BOOK, "rendering": "json"}
    given |= {"widths": (2, 2)} if method == "tor" else {}
    body: dict[str, Any] = {"extra_body": {"stream": True}} if streamed else {}
    for n in range(tries(1)):
        out, failed, before = tmp_path / f"{n}", {"all": "not yet"}, list[dict[str, Any]]()
        server = ViciousServer(script, seed=n, share=0.2, kinds=BROKEN | (EVENTS if streamed else {}))
        with in_thread(server):
            for _ in range(60):
                lm = client_of(server, timeout=2, retries=4, api_key=KEY, **body)
                lm._server.max_response_bytes = 1 << 20
                with suppress(LMError):
                    failed = dict(evaluate(QUESTIONS, None, method, lm, out=out, cache=out / "cache", **given).failed)
                    before = check(out, before, failed)
                if not failed:
                    break
            until_none_is_open(server)
        assert not failed
        count("hostile inputs", sum(server.met.values()))


# --- the command line ------------------------------------------------------------------------------------------------


def command(out: Path, url: str, method: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run the command; its exit code, and what it printed."""
    options = ["--dataset", "demo", "--corpus", "demo", "--limit", "6", "--concurrency", "3", "--out", str(out)]
    code = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["polyhop", "run", "--lm", f"openai:tiny@{url}", "--method", method, *options])
        try:
            main()
        except SystemExit as left:
            code = int(left.code or 0)
    printed = capsys.readouterr()
    return code, printed.out + printed.err


@pytest.mark.parametrize("method", ["resp", "agent", "search-agent", "knowtrace", "crag", "route", "one-r"])
def test_exit_codes_and_summaries_are_honest(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """0 if every question has its row; 1 if some failed, which are counted and named; 2 and one line if it gave up."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    out, text = tmp_path / "run", "Sufficient: no\nAnswered: yes\nAnswer: Paris\nSub-question: And then?"
    server = ViciousServer(script, text=text, seed=1, share=0.5, kinds={**PASSING, **RETRIED, **FINAL, **SAID})
    server.kinds = {name: fault for name, fault in server.kinds.items() if fault.wire not in ("hang", "drip")}
    codes = []
    with in_thread(server):
        for start in range(40):
            server.share = 0.5 if start < 20 else 0.0
            code, printed = command(out, server.url, method, capsys)
            codes.append(code)
            assert KEY not in printed
            assert "Traceback" not in printed
            rows = [json.loads(line) for line in (out / "predictions.jsonl").read_text().splitlines()]
            assert len({row["id"] for row in rows}) == len(rows)
            if code == 2:
                assert "polyhop: " in printed
                continue
            metrics = json.loads((out / "metrics.json").read_text())
            assert (metrics["questions"], metrics["questions"] + len(metrics["failed"])) == (len(rows), 6)
            said = re.search(r"(\d+) questions? failed; the same command tries (?:it|them) again", printed)
            assert (int(said[1]) if said else 0) == len(metrics["failed"])
            assert all(KEY not in why for why in metrics["failed"].values())
            assert code == (1 if metrics["failed"] else 0)
            if code == 0:
                break
        until_none_is_open(server)
    assert codes[-1] == 0
    count("hostile inputs", sum(server.met.values()))


# --- stopped for a while ---------------------------------------------------------------------------------------------


@contextmanager
def paused_now_and_then(process: int, draw: random.Random, longest: float) -> Iterator[None]:
    """Stop a process for up to some seconds, and let it go on, again and again."""
    over = threading.Event()

    def work() -> None:
        with suppress(ProcessLookupError):
            while not over.wait(draw.uniform(0.05, 0.2)):
                os.kill(process, signal.SIGSTOP)
                time.sleep(draw.uniform(0.1, longest))
                os.kill(process, signal.SIGCONT)
                count("processes stopped and continued")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_a_server_that_is_stopped_for_a_while_costs_attempts_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.kit.openai_server", "--latency", "0.05", "--text", "Answer: Paris"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert process.stdout
    url = process.stdout.readline().strip()
    given: dict[str, Any] = {"retriever": Finder(), "prompts": BOOK, "concurrency": 3}
    try:
        lm = OpenAICompatible("tiny", url, timeout=0.25, retries=99)
        with paused_now_and_then(process.pid, random.Random(1), 0.6):
            report = evaluate(QUESTIONS, None, "iter-retgen", lm, out=tmp_path / "run", **given)
    finally:
        process.kill()
        process.communicate()
    assert not report.failed
    assert [row["id"] for row in report.rows] == [question.id for question in QUESTIONS]
    check(tmp_path / "run", [], {})


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_a_run_that_is_stopped_for_a_while_is_the_run(tmp_path: Path) -> None:
    with in_thread(Holding()) as server:
        whole = ended(server, tmp_path / "whole")
        asked, server.latency = len(server.requests), 0.05
        process = started(server, tmp_path / "paused")
        while len(server.requests) == asked and process.poll() is None:
            time.sleep(0.01)
        with paused_now_and_then(process.pid, random.Random(2), 0.4):
            _, printed = process.communicate(timeout=120)
        assert process.returncode == 0, printed
        assert files(tmp_path / "paused" / "out") == whole
        until_none_is_open(server)
