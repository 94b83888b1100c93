"""The tasks of ReAct (Yao et al., 2023): the next thought with the action it leads to, and the action that finishes.

``steps`` is ``[{"thought": str | None, "action": str, "argument": str, "passages": [Passage]}]``: what was thought and
done so far, and observed: the passages of a search, or of a lookup a passage cut down to the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from pydantic import Field, field_validator

from polyhop.prompts.answers import MAX_LINE_CHARS, bare_answer, clean_value, find_answer
from polyhop.prompts.parsing import Malformed, has_marker, quotable, thoughts
from polyhop.prompts.show import one_line, show_passages
from polyhop.prompts.tasks.answers import Response
from polyhop.prompts.tasks.base import Fields, Output, Task

ACTIONS = ("Search", "Lookup", "Finish")


class Move(Output):
    """One turn: a thought, and the action taken."""

    ANSWER = "argument"

    thought: str | None = Field(default=None, description="what is known by now and what to do next")
    action: Literal["Search", "Lookup", "Finish"] | None = Field(default=None, description="Search, Lookup or Finish")
    argument: str = Field(default="", description="the query of Search, the keyword of Lookup, the answer of Finish")

    @field_validator("action", mode="before")
    @classmethod
    def _as_named(cls, value: Any) -> Any:
        return value.strip().capitalize() if isinstance(value, str) else value

    def missing(self) -> str | None:
        return None if self.action and self.argument else "give an action, with what stands in its brackets"


class Action(NamedTuple):
    """An action that a reply names, and where: ``start`` is the position of its line's label or of its name."""

    name: str
    argument: str
    start: int


def read_action(text: str, names: Sequence[str] = ACTIONS, fields: Fields = MappingProxyType({})) -> Action | None:
    """The first action that a line labelled so names, else the first named with its bracket; None if there is none.

    The last one counts if the call's ``fields`` hold an action, which the reply may quote.

    >>> read_action("Thought 2: Search[her] may help.\\nAction 2: Lookup[born [in]]\\nObservation 2: Finish[Rome]")
    Action(name='Lookup', argument='born [in]', start=33)
    >>> read_action("I should search[Ann Lee].").name
    'Search'
    """
    labelled, bracketed = _patterns(tuple(names))
    for pattern in (labelled, bracketed):
        every = list(pattern.finditer(text))
        for found in reversed(every) if len(every) > 1 and quotable(pattern, fields) else every:
            if argument := clean_value(_inside(text[found.end() : found.end() + MAX_LINE_CHARS], found["open"])):
                name = next(name for name in names if name.lower() == re.sub(r"[ \t-]", "", found["name"]).lower())
                return Action(name, argument, found.start())
    return None


@cache
def _patterns(names: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """An action on a line labelled "Action", whatever opens what it is done to; and one anywhere, with a bracket."""
    name = "|".join("[ -]?up".join(map(re.escape, name.split("up"))) for name in names)
    label = r"^[^\w\n]{0,6}action[ \t]?\d{0,2}[ \t*]{0,3}:\s{0,3}[^\w\n]{0,3}"
    argued = r"\n{1,2}[^\w\n]{0,6}action[ \t]input[ \t]?\d{0,2}[ \t*]{0,3}:"
    labelled = rf"{label}(?P<name>{name})\b[ \t*`]{{0,3}}(?P<open>[\[(:\"“]|{argued})[ \t*]{{0,3}}"
    return re.compile(labelled, re.IGNORECASE | re.M), re.compile(rf"\b(?P<name>{name})(?P<open>\[)", re.IGNORECASE)


def _inside(text: str, opening: str) -> str:
    """Return the content of an action's brackets, which may be nested; up to the end of the line if not closed.

    >>> _inside("Opus 3 [sic]] and so on", "["), _inside("Ann Lee", "[")
    ('Opus 3 [sic]', 'Ann Lee')
    """
    line = text.partition("\n")[0]
    closing = {"[": "]", "(": ")", '"': '"', "“": "”"}.get(opening)
    depth = 1
    for at, character in enumerate(line):
        depth += (character == opening != closing) - (character == closing)
        if depth == 0:
            return line[:at]
    return line


def read_move(text: str, fields: Fields) -> dict[str, Any]:
    """Thought: …, Action: Search[…]; what is made up after the action is not read. A named answer finishes too.

    >>> read_move("Thought 1: It names a film.\\nAction 1: Search[Dark Mill]\\nObservation 1: A film of 1931.", {})
    {'thought': 'It names a film.', 'action': 'Search', 'argument': 'Dark Mill'}
    """
    if action := read_action(text, fields=fields):
        return {"thought": _thought(text[: action.start]), "action": action.name, "argument": action.argument}
    if named := find_answer(text):
        return {"thought": _thought(named.before), "action": "Finish", "argument": named.answer}
    raise Malformed("the reply must end with one action: Search[…], Lookup[…] or Finish[…]")


def write_move(output: Any, fields: Fields) -> str:
    """The inverse of ``read_move``."""
    return _turn(len(fields.get("steps") or ()) + 1, output.thought, output.action, output.argument)


def read_finish(text: str, fields: Fields) -> dict[str, Any]:
    """Thought: …, Action: Finish[…]; a named answer, or a short one alone, will do.

    >>> read_finish("Action 4: Finish[Rome]", {})
    {'rationale': None, 'answer': 'Rome'}
    """
    if action := read_action(text, ("Finish",), fields):
        return {"rationale": _thought(text[: action.start]), "answer": action.argument}
    if named := find_answer(text):
        return {"rationale": _thought(named.before), "answer": named.answer}
    alone = None if has_marker(text) or read_action(text) else bare_answer(text)
    if alone is None:
        raise Malformed("the reply must end with the action Finish[…], with an answer")
    return {"rationale": None, "answer": alone}


def write_finish(output: Any, fields: Fields) -> str:
    """The inverse of ``read_finish``."""
    return _turn(len(fields.get("steps") or ()) + 1, output.rationale, "Finish", output.answer)


def _thought(before: str) -> str | None:
    """The thought in what stands before an action: its lines labelled so, else all of it."""
    return clean_value(thoughts(before) or before)


def _turn(number: int, thought: str | None, action: str, argument: str) -> str:
    lead = f"Thought {number}: {one_line(thought)}\n" if thought else ""
    return f"{lead}Action {number}: {action}[{one_line(argument)}]"


# --- how the steps so far are shown ------------------------------------------------------------------------------


def show_steps(steps: Sequence[Mapping[str, Any]] | None, fields: Fields) -> str:
    """The steps as the model writes them, each with what was observed.

    >>> print(show_steps([{"thought": None, "action": "Search", "argument": "Ann", "passages": []}], {}))
    Action 1: Search[Ann]
    Observation 1: nothing found
    """
    return "\n".join(
        f"{_turn(number, step['thought'], step['action'], step['argument'])}\n"
        f"Observation {number}:{_observed(step['passages'])}"
        for number, step in enumerate(steps or (), 1)
    )


def _observed(passages: Sequence[Any]) -> str:
    return f"\n{show_passages(passages)}" if passages else " nothing found"


TASKS = (
    Task(
        "react.act",
        fields=("question", "steps"),
        output=Move,
        parse=read_move,
        write=write_move,
        default={},
        show={"steps": show_steps},
    ),
    Task(
        "react.finish",
        fields=("question", "steps"),
        output=Response,
        parse=read_finish,
        write=write_finish,
        default={"answer": ""},
        show={"steps": show_steps},
    ),
)
