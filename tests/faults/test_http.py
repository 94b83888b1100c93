"""Runs over real HTTP while one request in five fails. ``POLYHOP_FAULTS=100`` asks as many questions."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from polyhop import evaluate
from polyhop.errors import LMError
from polyhop.lm import OpenAICompatible
from polyhop.types import Question
from tests.evaluation.test_store import files
from tests.faults.test_methods import ASKING, SCORING, Finder, failures_of_probe
from tests.faults.test_methods import SETTINGS as FAULTS_OF
from tests.kit import openai_server as kit
from tests.kit.faulty_server import CONTENT, HARMLESS, PASSING, FaultyServer, client_of
from tests.kit.lm_client import request
from tests.kit.openai_server import FakeServer, in_thread
from tests.kit.random_world import BOOK, World

QUESTIONS = [
    Question(f"q{n}", f"Question {n}?", answers=("Answer 1",))
    for n in range(int(os.environ.get("POLYHOP_FAULTS", "20")))
]
WORLD = replace(World.random(5), speaks="json")
METHODS = ["one-r", "resp", "searchain", "tor"]
"""The methods that CI asks; with ``POLYHOP_FAULTS``, every method is asked."""
SETTINGS: dict[str, dict[str, Any]] = {**FAULTS_OF, "tor": {"widths": (2, 2)}}


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyhop.net.client.backoff", lambda failures, asked: 0.0)


def script(task: str, fields: Mapping[str, Any]) -> Mapping[str, Any] | str:
    """The world's reply; an empty one would never be kept."""
    return WORLD.script(task, fields) or "Well."


def until_none_is_open(server: FakeServer) -> None:
    """Wait for the server to see that the connections are gone."""
    for _ in range(500):
        if not server.connections:
            return
        time.sleep(0.01)
    raise AssertionError(f"{server.connections} connections are left")


@pytest.mark.slow
@pytest.mark.parametrize("method", ASKING if "POLYHOP_FAULTS" in os.environ else METHODS)
def test_every_question_is_answered_and_every_call_counted(method: str, tmp_path: Path) -> None:
    server = FaultyServer(script, seed=3, kinds=PASSING | HARMLESS | CONTENT, late=0.01)
    given: dict[str, Any] = {"retriever": Finder(), "reader": WORLD.read, "prompts": BOOK, "rendering": "json"}
    with in_thread(server):
        lm = client_of(server, timeout=1.5, retries=9)
        report = evaluate(QUESTIONS, None, method, lm, out=tmp_path / "run", **given, **SETTINGS.get(method, {}))
        until_none_is_open(server)
    assert not report.failed
    assert [row["id"] for row in report.rows] == [question.id for question in QUESTIONS]
    if method in SCORING:
        assert report.usage.retries == lm.failed - failures_of_probe(lm)
    else:
        assert report.usage.calls + report.usage.retries == len(lm.sent)
        assert server.chats <= len(lm.sent)
    assert sum(server.met.values()) > 0


@pytest.mark.slow
def test_what_failed_is_recorded_and_answered_by_a_later_start(tmp_path: Path) -> None:
    server, answered = FaultyServer(script, seed=4), Counter[str]()
    given: dict[str, Any] = {"retriever": WORLD.search, "prompts": BOOK, "rendering": "json", "out": tmp_path / "run"}
    with in_thread(server):
        evaluate(
            QUESTIONS, None, "resp", client_of(server, retries=9, timeout=1.5), **given | {"out": tmp_path / "quiet"}
        )
        failed: Mapping[str, str] = {"all": "given up"}
        starts = 0
        while failed and starts < 50:
            starts += 1
            lm = client_of(server, retries=1, timeout=1.5)
            with suppress(LMError):
                report = evaluate(QUESTIONS, None, "resp", lm, cache=tmp_path / "cache.sqlite", **given)
                failed = report.failed
                assert {*failed} | {row["id"] for row in report.rows} == {question.id for question in QUESTIONS}
                assert len(failed) + len(report.rows) == len(QUESTIONS)
            answered += lm.answered
        until_none_is_open(server)
    assert not failed
    assert starts > 1
    first, again = files(tmp_path / "quiet"), files(tmp_path / "run")
    assert again["predictions.jsonl"] == first["predictions.jsonl"]
    assert again["metrics.json"] == first["metrics.json"]
    assert again.keys() == first.keys()


@pytest.mark.parametrize("late", [0.0, 0.01])
async def test_an_answer_that_comes_twice_is_nobody_elses(late: float) -> None:
    """The second copy comes with the first, or when the connection waits for its next request."""

    def reply(body: Mapping[str, Any]) -> str:
        return f"to {body['messages'][0]['content']}"

    async with FakeServer(reply, faults=[kit.TWICE, None] * 10) as server, OpenAICompatible("tiny", server.url) as lm:
        server.second_copy = late
        for n in range(20):
            assert (await lm.complete(request(f"{n}"))).text == f"to {n}"
            for _ in range(10):  # in steps, each of which looks at the network: the copy has come after them
                await asyncio.sleep(late / 4)
        assert len(server.requests) == 20
