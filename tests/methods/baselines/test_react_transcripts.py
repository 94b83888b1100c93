"""ReAct's parser on what Llama 2 13B wrote: every action is parsed to the one its environment executed.

The environment had an action of its own besides, Retrieve, which the parser is told of. What it executed stands in the
record three times: in the action's own line, in what it observed ("Answer is …" for Finish, "Could not find […]" for
Retrieve), and in the path that the next step opens with, where the model kept it right.
"""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple

import pytest

from polyhop.prompts.tasks.acting import read_action, read_finish, read_move
from tests.kit.transcripts import rows

NAMES = ("Search", "Retrieve", "Lookup", "Finish")
STEP = re.compile(r"^(ActionPath (\d+):([^\n]*)\n.*?)^Observation \2:(.*?)(?=^ActionPath|\Z)", re.M | re.S)
EXECUTED = re.compile(r"^Action \d+: (\w+)\[(.+)\]$", re.M)
pytestmark = pytest.mark.shared


class Step(NamedTuple):
    """The model's text, the path it opens with, all from there to the end of the record, and the observations."""

    written: str
    path: str
    rest: str
    observed: str

    @property
    def executed(self) -> tuple[str, str]:
        ((name, argument),) = EXECUTED.findall(self.written)
        return name, argument


def steps() -> list[list[Step]]:
    prompts = [row["prompt"].partition("(END OF EXAMPLES)\n")[2] for row in rows("react_llama2_13b.jsonl")]
    return [
        [Step(m[1], m[3].strip(), text[m.start() :], m[4].strip()) for m in STEP.finditer(text)] for text in prompts
    ]


def parsed(text: str) -> tuple[str, str]:
    action = read_action(text, NAMES)
    return (action.name, action.argument) if action else ("", "")


def test_every_action_is_the_one_that_was_executed(capsys: pytest.CaptureFixture[str]) -> None:
    every = [step for path in steps() for step in path]
    assert len(every) == 214
    right = [parsed(step.written) == step.executed for step in every]
    with capsys.disabled():
        print(f"\nactions as executed: {sum(right)} of {len(right)}, {sum(right) / len(right):.1%}")  # noqa: T201
    assert all(right)


def test_without_a_stop_the_first_action_counts() -> None:
    """The whole rest of the record, as a model goes on that nothing stops: observations and later actions."""
    every = [step for path in steps() for step in path]
    assert all(parsed(step.rest) == step.executed for step in every)


def test_the_path_and_the_observations_bear_it_out() -> None:
    """The next step's path ends with the action parsed, save where the model skips or renames steps of its path."""
    borne_out = 0
    for path in steps():
        for step, following in itertools.pairwise(path):
            name, argument = parsed(step.written)
            borne_out += following.path.endswith(f"->{name}[{argument}]")
        assert [parsed(step.written)[0] == "Finish" for step in path] == [
            step.observed.startswith("Answer is ") for step in path
        ]
        for step in path:
            if lost := re.match(r"Could not find \[(.+?)\]\. Similar:", step.observed):
                assert parsed(step.written) == ("Retrieve", lost[1])
    assert borne_out == 141  # of 154


def test_the_task_reads_its_own_actions_with_their_thoughts() -> None:
    for path in steps():
        for step in path:
            name, argument = step.executed
            if name in ("Search", "Lookup", "Finish"):
                move = read_move(step.written, {})
                assert (move["action"], move["argument"]) == (name, argument)
                (thought,) = re.findall(r"^Thought \d+: (.*)$", step.written, re.M)
                assert move["thought"] == " ".join(thought.split())
        assert read_finish(path[-1].written, {})["answer"] == path[-1].executed[1]
