"""A trace as lines of text: every step once, under its parent, without control characters."""

from __future__ import annotations

import pytest

from polyhop.lm.scripted import ScriptedLM
from polyhop.pipeline import Pipeline
from polyhop.trace import Ask, Branch, Note, Readout, Score, Searched, Trace, line_of
from polyhop.types import Passage, Span
from tests.kit.random_world import World

FOUND = (Passage("1", "Alien", "x"), Passage("2", "Scott", "y"))


@pytest.mark.parametrize(
    ("step", "line"),
    [
        (Branch(id=0, name="node", label="Alien"), "Alien"),
        (Branch(id=0, name="node", label="Alien", verdict="accept"), "Alien: accept"),
        (Searched(id=0, query="the director", k=2, passages=FOUND), "search: the director → Alien, Scott"),
        (
            Ask(id=0, task="t", model="m", fields={}, output={"answer": "Rome", "rationale": None}, text=""),
            "t: answer: Rome",
        ),
        (
            Ask(id=0, task="t", model="m", fields={}, output=None, text="", problem="no answer"),
            "t: could not be read: no answer",
        ),
        (Score(id=0, task="t", model="m", targets=("a", "b"), logprobs=(0.0, 0.0)), "t: 2 scored"),
        (
            Readout(id=0, question="Who?", passages=FOUND, spans=(Span("1", "Ann", 0, 3, 0.5),)),
            "read: Who? → Ann",
        ),
        (Readout(id=0, question="Who?", passages=FOUND, spans=()), "read: Who? → nothing found"),
        (Note(id=0, name="budget spent", data={"limit": "max_calls"}), "budget spent: limit: max_calls"),
        (Searched(id=0, query="a\x1b[31m\nb", k=2, passages=()), "search: a[31m b → nothing found"),
    ],
)
def test_a_step_is_a_line(step: Branch, line: str) -> None:
    assert line_of(step) == line


def test_a_long_text_is_cut() -> None:
    assert len(line_of(Searched(id=0, query="a" * 1000, k=1, passages=()))) < 200


@pytest.mark.parametrize("method", ["tor", "searchain", "resp"])
async def test_every_step_has_its_line_under_its_parent(method: str) -> None:
    for seed in (1, 4, 6):
        world = World.random(seed)
        given = {"retriever": world.search, "reader": world.read}
        async with Pipeline(method=method, lm=ScriptedLM(world.script), **given) as pipeline:  # type: ignore[arg-type]
            trace = (await pipeline.aask(world.question)).trace
        head, *lines = trace.outline().splitlines()
        assert head == world.question
        numbers = [int(line.partition("[")[2].partition("]")[0]) for line in lines]
        assert sorted(numbers) == [step.id for step in trace.steps]
        depth = {number: (len(line) - len(line.lstrip())) // 2 for number, line in zip(numbers, lines, strict=True)}
        for step in trace.steps:
            assert depth[step.id] == (0 if step.parent is None else depth[step.parent] + 1)


def test_a_spent_budget_ends_it() -> None:
    assert Trace("Who?", "tor", (), budget="max_calls").outline() == "Who?\nbudget spent: max_calls"
