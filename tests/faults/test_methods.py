"""Every method while one request in five fails, on a virtual clock: no question lost or doubled, no call unaccounted.

The client is the real one (``tests/kit/faulty_server.py``); only the network and the clock are not.
``POLYHOP_FAULTS=1000`` asks each method 1,000 questions.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from polyhop.errors import LMError
from polyhop.evaluation.runner import run_questions, run_settings
from polyhop.evaluation.store import RunFolder
from polyhop.lm.scoring import _PROBE, joined
from polyhop.methods.registry import methods
from polyhop.pipeline import Pipeline
from polyhop.types import Passage, Question
from tests.evaluation.test_store import files
from tests.kit.faulty_server import CONTENT, HARMLESS, PASSING, Client, FaultyServer, client_of
from tests.kit.question_data import question_for
from tests.kit.random_world import BOOK, World
from tests.kit.virtual_clock import run_virtually

QUESTIONS = [
    Question(f"q{n}", f"Question {n}?", answers=("Answer 1",))
    for n in range(int(os.environ.get("POLYHOP_FAULTS", "12")))
]
WORLD = replace(World.random(5), speaks="json")
SETTINGS: dict[str, dict[str, Any]] = {"promptrank": {"temperature": 1.0}, "hops": {"scorer": "likelihood"}}
"""The settings that a method needs to run on a server: no server scales logits."""

ASKING = [name for name, method in methods().items() if method.family != "retrieval only"]
SCORING = {"promptrank", "replug"}
"""Methods that ask for scores, of which several are one request."""


def script(task: str, fields: Mapping[str, Any]) -> Mapping[str, Any] | str:
    """The world's reply; what cannot be read has words, for an empty reply is asked for again and never kept."""
    return WORLD.script(task, fields) or "Well."


class Finder:
    """The world's search, as a retriever over an index is: it knows links."""

    name = "finder"

    def search(self, query: str, k: int) -> list[Passage]:
        return WORLD.search(query, k)

    def search_many(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        return [self.search(query, k) for query in queries]

    def links(self, passage: Passage) -> list[Passage]:
        return [other for other in WORLD.passages if other != passage][:3]


def run(method: str, lm: Client, out: Path, **more: Any) -> dict[str, str]:
    """One start of a run on the folder, on a virtual clock; the questions that failed. ``LMError`` where it was given
    up: its first question failed, or many in a row."""
    given = {**SETTINGS.get(method, {}), **more}
    pipeline = Pipeline(
        method=method, lm=lm, retriever=Finder(), reader=WORLD.read, prompts=BOOK, rendering="json", **given
    )

    async def work() -> tuple[Sequence[Mapping[str, Any]], dict[str, str]]:
        async with pipeline:
            return await run_questions(pipeline, questions, folder, concurrency=8)

    questions = [question_for(method, question.text, WORLD.passages[:4], id=question.id) for question in QUESTIONS]
    folder = RunFolder(out, run_settings(pipeline, "questions"), questions)
    try:
        rows, failed = run_virtually(work())
        assert [*sorted([row["id"] for row in rows] + [*failed])] == sorted(question.id for question in QUESTIONS)
        folder.finish(rows, {"failed": failed})
        return failed
    finally:
        folder.close()


def written(out: Path) -> list[dict[str, Any]]:
    """The lines of a run's predictions."""
    return [json.loads(line) for line in (out / "predictions.jsonl").read_text().splitlines()]


def calls_of(out: Path) -> Counter[str]:
    """The calls in a run's traces, by name, that were not answered before."""
    steps = [
        step for path in (out / "traces").glob("*.json") for step in json.loads(path.read_text())["trace"]["steps"]
    ]
    return Counter(f"{s['task']} {s['prompt_hash']} {s['sample']}" for s in steps if s["kind"] == "ask")


@pytest.mark.slow
@pytest.mark.parametrize("method", ASKING)
def test_no_question_is_lost_or_repeated_and_no_answer_paid_twice(method: str, tmp_path: Path) -> None:
    """With two attempts a call, questions fail; started again until none does, the run is the one without faults."""
    quiet = FaultyServer(script, share=0.0)
    assert not run(method, client_of(quiet, virtual=True), tmp_path / "quiet")

    server, answered = FaultyServer(script, seed=1, kinds=PASSING | HARMLESS, late=1.0), Counter[str]()
    kept: list[dict[str, Any]] = []
    for starts in count(1):
        assert starts < 200, "it comes to no end"
        lm, failed = client_of(server, virtual=True, retries=1, timeout=20), {"all": "given up"}
        with suppress(LMError):
            failed = run(method, lm, tmp_path / "run", cache=tmp_path / "cache.sqlite")
        answered += lm.answered
        rows = {row["id"]: row for row in written(tmp_path / "run")}
        assert len(rows) == len(written(tmp_path / "run"))
        assert all(rows[row["id"]] == row for row in kept)  # what is finished stays as it is
        kept = [*rows.values()]
        if not failed:
            break
        assert all("tiny" in why for why in failed.values() if why != "given up")
    assert lasting(tmp_path / "run") == lasting(tmp_path / "quiet")
    assert [name for name, times in answered.items() if times > 1] == []
    if method not in SCORING:
        assert answered.keys() == calls_of(tmp_path / "run").keys()
    assert sum(server.met.values()) > 0


def lasting(out: Path) -> dict[str, Any]:
    """The record of a run's questions, without the numbers of equal samples, which depend on the order of arrival."""

    def unnumbered(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: unnumbered(item) for key, item in value.items() if key != "sample"}
        return [*map(unnumbered, value)] if isinstance(value, list) else value

    return {name: unnumbered(held) for name, held in files(out).items() if name not in ("metrics.json", "run.json")}


@pytest.mark.slow
@pytest.mark.parametrize("method", ASKING)
def test_usage_tells_what_the_server_was_asked(method: str, tmp_path: Path) -> None:
    """With enough attempts a call, whatever goes wrong, every question is answered and every attempt counted. (A clock
    that jumps fails every call under way.)"""
    server = FaultyServer(script, seed=2, kinds=PASSING | HARMLESS | CONTENT, late=1.0)
    lm = client_of(server, virtual=True, timeout=20, retries=15)
    assert not run(method, lm, tmp_path / "run")
    usages = [row["usage"] for row in written(tmp_path / "run")]
    retries = sum(usage["volatile"]["retries"] for usage in usages)
    if method in SCORING:
        assert retries == sum(server.met[name] for name in PASSING) - failures_of_probe(lm)
    else:
        assert sum(usage["calls"] for usage in usages) + retries == server.chats


def failures_of_probe(lm: Client) -> int:
    """The number of attempts that failed before the server's way of scoring was known; they count for no question."""
    assert lm._scores is not None
    one, two = (joined(request)[0] for request in _PROBE)
    prompts = [body.get("prompt") for body in lm.sent]
    return prompts.count(one) - 1 + prompts.count([one, two]) - lm._scores.lists
