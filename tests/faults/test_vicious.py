"""Every method against a model server that means harm, in every persona: no question lost or doubled, no traceback.

On a virtual clock; ``test_vicious_wires.py`` has real connections. ``POLYHOP_FAULTS=100`` asks 100 questions
a run, ``POLYHOP_TRIES=10`` makes ten times as many runs.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from polyhop.errors import PolyhopError
from polyhop.evaluation.runner import run_questions, run_settings
from polyhop.evaluation.store import RunFolder
from polyhop.pipeline import Pipeline
from polyhop.types import Question
from tests.faults.test_methods import ASKING, SETTINGS, Finder, written
from tests.kit.faulty_server import HARMLESS, PASSING, Client, client_of
from tests.kit.imitators import READABLE, UNREADABLE
from tests.kit.openai_server import Fault
from tests.kit.question_data import question_for
from tests.kit.random_world import BOOK, World
from tests.kit.tally import count
from tests.kit.tries import tries
from tests.kit.vicious_server import EVENTS, FINAL, KEY, RETRIED, SAID, ViciousServer
from tests.kit.virtual_clock import run_virtually

WORLD = World.random(5)
QUESTIONS = [
    Question(f"q{n}", f"Question {n}?", answers=("Answer 1",))
    for n in range(int(os.environ.get("POLYHOP_FAULTS", "6")))
]
KINDS: Mapping[str, Fault] = {**PASSING, **HARMLESS, **RETRIED, **SAID}
PERSONAS = [*READABLE, *UNREADABLE]
FAST = ("tor", "agent", "search-agent", "knowtrace", "crag", "route")
INTERNAL = re.compile(r"^\w*(?:Error|Exception|Group)\(")
"""The words of an error that no part of polyhop raised on purpose."""


def script(task: str, fields: Mapping[str, Any]) -> Any:
    """The world's reply; what cannot be read has words, for an empty reply is never kept."""
    return WORLD.script(task, fields) or "Well."


def run(method: str, lm: Client, out: Path, **more: Any) -> dict[str, str]:
    """One start of a run on the folder, on a virtual clock; the questions that failed, by id. Where the run was given
    up, those are all that have no row."""
    given = {**SETTINGS.get(method, {}), **more}
    pipeline = Pipeline(method=method, lm=lm, **{"retriever": Finder(), "reader": WORLD.read, "prompts": BOOK, **given})
    questions = [question_for(method, question.text, WORLD.passages[:4], id=question.id) for question in QUESTIONS]
    folder = RunFolder(out, run_settings(pipeline, "questions"), questions)

    async def work() -> tuple[Sequence[Mapping[str, Any]], dict[str, str]]:
        async with pipeline:
            return await run_questions(pipeline, questions, folder, concurrency=3)

    try:
        rows, failed = run_virtually(work())
    except PolyhopError as error:
        why = str(error)
        return {question.id: why for question in QUESTIONS if question.id not in folder.finished}
    finally:
        folder.close()
    assert sorted([*(row["id"] for row in rows), *failed]) == sorted(question.id for question in QUESTIONS)
    return failed


def check(out: Path, before: Sequence[Mapping[str, Any]], failed: Mapping[str, str]) -> list[dict[str, Any]]:
    """Check a folder after a start; its rows."""
    rows = written(out)
    ids = [row["id"] for row in rows]
    assert len({*ids}) == len(ids)
    assert {*ids} | {*failed} == {question.id for question in QUESTIONS}
    assert not {*ids} & {*failed}
    assert [row for row in rows if row["id"] in {kept["id"] for kept in before}] == [*before]
    for why in failed.values():
        assert not INTERNAL.match(why), why
        assert KEY not in why
        assert "\n" not in why
    for path in out.rglob("*.json*"):
        assert KEY.encode() not in path.read_bytes(), path
    return rows


def harass(method: str, persona: str, seed: int, out: Path, kinds: Mapping[str, Fault] = KINDS, **more: Any) -> None:
    """Start a run against the server, once more with faults that no attempt survives, and then without any."""
    before: list[dict[str, Any]] = []
    for start, (share, met) in enumerate(((0.7, kinds), (0.6, {**kinds, **FINAL}), (0.0, kinds))):
        server = ViciousServer(script, persona, seed=seed + start, share=share, kinds=met, late=1.0)
        body = {"extra_body": {"stream": True}} if kinds is not KINDS else {}
        lm = client_of(server, virtual=True, retries=8, timeout=20, api_key=KEY, **body)
        failed = run(method, lm, out, **more)
        before = check(out, before, failed)
        count("hostile inputs", sum(server.met.values()) + server.spoiled)
        count("questions asked of vicious servers", len(QUESTIONS))
    assert not failed
    count("runs against vicious servers")


SLOW = pytest.mark.slow


@pytest.mark.parametrize("method", [pytest.param(name, marks=() if name in FAST else SLOW) for name in ASKING])
def test_no_reply_loses_or_doubles_a_question(method: str, tmp_path: Path) -> None:
    """Each try draws a persona, a rendering and its faults."""
    for n in range(tries(1)):
        draw = random.Random(f"{method} {n}")
        rendering = draw.choice(["json", "text"])
        harass(method, draw.choice(PERSONAS), 10 * n, tmp_path / f"{n}", rendering=rendering)


@SLOW
@pytest.mark.parametrize("persona", PERSONAS)
def test_no_persona_on_a_broken_wire_loses_a_question(persona: str, tmp_path: Path) -> None:
    """A persona meets two of the methods; with more tries, each of them in both renderings."""
    for n in range(2 * tries(1)):
        method = FAST[(PERSONAS.index(persona) + n // 2 + 3 * (n % 2)) % len(FAST)]
        harass(method, persona, 100 + 10 * n, tmp_path / f"{n}", rendering="json" if n % 2 else "text")


@SLOW
@pytest.mark.parametrize("method", [name for name in ASKING if name not in SETTINGS])
def test_no_stream_loses_or_doubles_a_question(method: str, tmp_path: Path) -> None:
    for n in range(tries(1)):
        kinds = {**PASSING, **EVENTS, **SAID, **RETRIED}
        persona = random.Random(f"{method} {n}").choice(PERSONAS)
        harass(method, persona, 10 * n, tmp_path / f"{n}", kinds, rendering="json")


@SLOW
@pytest.mark.parametrize("speaks", ["value", "json"])
@pytest.mark.parametrize("method", ["agent", "search-agent", "react"])
def test_no_call_of_a_tool_loses_a_question(
    method: str, speaks: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Native calls and calls in a text, where most of what is wrong is in the calls."""
    monkeypatch.setattr(f"{__name__}.WORLD", replace(WORLD, speaks=speaks))
    kinds = {name: fault for name, fault in SAID.items() if re.search(r"call|argument|tool", name)}
    for n in range(tries(2)):
        harass(method, "plain", 10 * n, tmp_path / f"{n}", {**kinds, **PASSING}, rendering="json")


@SLOW
@pytest.mark.parametrize("method", FAST)
def test_a_clock_that_jumps_a_day_changes_nothing(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The day's time goes back and forth at each look; waits until a date are cut, and none is without end."""
    draw, real = random.Random(method), time.time
    monkeypatch.setattr(time, "time", lambda: real() + draw.choice([-86_400.0, 0.0, 86_400.0, 4e9, -1.7e9]))
    waits = {name: fault for name, fault in {**RETRIED, **PASSING}.items() if "429" in name}
    for n in range(tries(1)):
        out = tmp_path / f"{n}"
        harass(method, "plain", 10 * n, out, {**waits, **HARMLESS}, cache=tmp_path / f"{n}.sqlite")
