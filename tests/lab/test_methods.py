"""Every method under every imitated model, in both renderings: a model that a person can read gives the answer of the
plain one; one that says nothing never makes an answer of its noise.

The page ``docs/imitated-models.md`` shows the counts of the five systems; write it anew with

    POLYHOP_GOLDEN=write pytest tests/lab
"""

from __future__ import annotations

import os
import re
from collections import Counter
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple, get_args

import pytest

from polyhop.data.questions import open_questions
from polyhop.lm.pocket import Pocket
from polyhop.methods.registry import methods
from polyhop.pipeline import Pipeline
from polyhop.prompts.prompt import Rendering
from polyhop.trace import Ask
from polyhop.types import Kind
from tests.kit.imitators import READABLE, UNREADABLE, ImitatedLM
from tests.kit.question_data import question_for

PAGE = Path(__file__).parents[2] / "docs" / "imitated-models.md"
SYSTEMS = ("tor", "resp", "searchain", "ge", "promptrank")
"""The methods of the fast tests and of the page's table."""
METHODS = [pytest.param(name, marks=[] if name in SYSTEMS else pytest.mark.slow) for name in methods()]
RENDERINGS = get_args(Rendering)
PERSONAS = {**READABLE, **UNREADABLE}


class Outcome(NamedTuple):
    """The outcome of one question: the answer, and what became of its calls."""

    text: str
    calls: Counter[str]


@cache
def outcome(method: str, persona: str, rendering: Rendering) -> Outcome:
    """Ask one question of the demo corpus."""
    takes = {"logprobs": method == "flare", "tools": rendering == "json"}
    lm = ImitatedLM(PERSONAS[persona], persona, _pocket(), **takes)
    with Pipeline("demo", method, lm, rendering=rendering) as pipeline:
        assert pipeline.index
        answer = pipeline.ask(question_for(method, _question(), [*islice(pipeline.index.passages, 4)]))
    asks = [step for step in answer.trace.steps if isinstance(step, Ask)]
    first = [step for step in asks if step.attempt == 1]
    again = [step for step in asks if step.attempt == 2]
    read = sum(not step.problem for step in first)
    reread = sum(not step.problem for step in again)
    return Outcome(answer.text, Counter(calls=len(first), read=read, again=reread, default=len(first) - read - reread))


@cache
def _pocket() -> Pocket:
    return Pocket()


@cache
def _question() -> str:
    return next(iter(open_questions("demo"))).text


@pytest.mark.parametrize("rendering", ["text", pytest.param("json", marks=pytest.mark.slow)])
@pytest.mark.parametrize("method", METHODS)
def test_a_readable_model_answers_as_the_plain_one(method: str, rendering: Rendering) -> None:
    plain = outcome(method, "plain", rendering)
    assert plain.calls["read"] == plain.calls["calls"]
    for persona in READABLE:
        found = outcome(method, persona, rendering)
        assert (persona, found.text) == (persona, plain.text)
        assert (persona, found.calls["default"]) == (persona, 0)
        assert found.calls["again"] == 0 or "thinker" in persona  # those are asked again with more tokens


@pytest.mark.parametrize("rendering", RENDERINGS)
@pytest.mark.parametrize("method", METHODS)
def test_an_unreadable_model_never_makes_an_answer_of_its_noise(method: str, rendering: Rendering) -> None:
    for persona in UNREADABLE:
        found = outcome(method, persona, rendering)
        assert (persona, found.text) in ((persona, ""), (persona, outcome(method, "plain", rendering).text))


LOOKED_UP = re.compile(
    r"look(?:ed|s)? (?:it |them )?up|search|retriev|\\bdocument|passage|unsolved|feedback", re.IGNORECASE
)


@pytest.mark.parametrize("rendering", RENDERINGS)
@pytest.mark.parametrize("kind", get_args(Kind))
def test_a_closed_book_of_searchain_never_says_that_something_will_be_looked_up(
    kind: Kind, rendering: Rendering
) -> None:
    tasks = set()
    for persona, imitate in PERSONAS.items():
        lm = ImitatedLM(imitate, persona, _pocket())
        with Pipeline(None, "searchain", lm, rendering=rendering, open_book=False) as pipeline:
            pipeline.ask(_question(), kind=kind)
        for request, _ in lm.replies:
            tasks.add(request.task)
            shown = [turn["content"] for turn in request.messages if turn["role"] != "assistant"]
            assert LOOKED_UP.findall("\n".join(shown)) == [], (persona, request.task)
    assert tasks == {"searchain.chain", "searchain.trace"}


LEAD = """# Imitated models

The tests imitate real language models: `pocket` answers in the form that the prompt asks for, and its reply is then
distorted in the way of one kind of model. Every method is run with every imitated model, in the text and in the JSON
rendering. If a person could read the distorted reply, the method must give the same answer as with the plain one. If
the reply says nothing, its noise must never become the answer; the answer is then empty, or what the method finds
without a model.

The table counts the calls of one question of the `demo` corpus under the five systems ({systems}). A reply is *read* at
once, or after asking *again*; otherwise the task's *default* is used.

| imitated model | its replies | text | read | again | default | JSON | read | again | default |
|---|---|--:|--:|--:|--:|--:|--:|--:|--:|
"""


def page() -> str:
    rows = []
    for persona, imitate in PERSONAS.items():
        manner = (imitate.__doc__ or "").partition(".")[0]
        counts = [str(_total(persona, rendering)[key]) for rendering in RENDERINGS for key in KEYS]
        rows.append(f"| {persona} | {manner} | {' | '.join(counts)} |")
    return LEAD.format(systems=", ".join(f"`{name}`" for name in SYSTEMS)) + "\n".join(rows) + "\n"


KEYS = ("calls", "read", "again", "default")


def _total(persona: str, rendering: Rendering) -> Counter[str]:
    return sum((outcome(method, persona, rendering).calls for method in SYSTEMS), Counter[str]())


@pytest.mark.slow
def test_the_page_shows_what_was_counted() -> None:
    if os.environ.get("POLYHOP_GOLDEN") == "write":
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()
