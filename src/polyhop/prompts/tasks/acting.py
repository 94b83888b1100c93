"""The tasks of methods whose model acts: ReAct (Yao et al., 2023), in-context Toolformer (Schick et al., 2023), and the
agent, whose model calls tools until it answers, or must answer.

``steps`` is ``[{"thought": str | None, "action": str, "argument": str, "passages": [Passage]}]``: ReAct's thoughts,
actions and observations so far. A search observes its passages; a lookup observes a passage cut down to the sentence.
``written`` is ``[{"text": str, "query": str, "passages": [Passage]}]``: Toolformer's text so far, in pieces that each
end in a call, with the result of that call. The agent's steps have no thoughts; they are not in its prompts, but in the
turns after them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from pydantic import Field, ValidationInfo, field_validator

from polyhop.prompts.answers import MAX_LINE_CHARS, bare_answer, clean_value
from polyhop.prompts.kinds import find_named
from polyhop.prompts.non_answers import says_nothing
from polyhop.prompts.parsing import Malformed, has_marker, quotable, thoughts
from polyhop.prompts.show import one_line, show_passages
from polyhop.prompts.tasks.answers import Response, read_reasoned, reasoned_answer
from polyhop.prompts.tasks.base import Fields, Output, Task

ACTIONS = ("Search", "Lookup", "Finish")


class Move(Output):
    """One turn of ReAct: a thought, and the action taken."""

    ANSWER = "argument"

    thought: str | None = Field(default=None, description="what is known by now and what to do next")
    action: Literal["Search", "Lookup", "Finish"] | None = Field(default=None, description="Search, Lookup or Finish")
    argument: str = Field(default="", description="the query of Search, the keyword of Lookup, the answer of Finish")

    @field_validator("action", mode="before")
    @classmethod
    def _as_named(cls, value: Any) -> Any:
        return value.strip().capitalize() if isinstance(value, str) else value

    @property
    def own_answer(self) -> str:
        return self.argument if self.action == "Finish" else ""

    def missing(self) -> str | None:
        return None if self.action and self.argument else "give an action, with what stands in its brackets"


class Action(NamedTuple):
    """An action that a reply names; ``start`` is the position of its line's label, or of its name."""

    name: str
    argument: str
    start: int


def read_action(text: str, names: Sequence[str] = ACTIONS, fields: Fields = MappingProxyType({})) -> Action | None:
    """Find the first action on a line labelled "Action", else the first one with a bracket; None without one.

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
            name = next(name for name in names if name.lower() == re.sub(r"[ \t-]", "", found["name"]).lower())
            is_long = name == "Finish" and fields.get("kind") == "long"
            rest = (
                text[found.end() :] if is_long else text[found.end() : found.end() + MAX_LINE_CHARS].partition("\n")[0]
            )
            if argument := clean_value(_inside(rest, found["open"])):
                return Action(name, argument, found.start())
    return None


@cache
def _patterns(names: tuple[str, ...]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Compile an action on a line labelled "Action", whatever opens its argument; and one anywhere, with a bracket."""
    name = "|".join("[ -]?up".join(map(re.escape, name.split("up"))) for name in names)
    label = r"^[^\w\n]{0,6}action[ \t]?\d{0,2}[ \t*]{0,3}:\s{0,3}[^\w\n]{0,3}"
    argued = r"\n{1,2}[^\w\n]{0,6}action[ \t]input[ \t]?\d{0,2}[ \t*]{0,3}:"
    labelled = rf"{label}(?P<name>{name})\b[ \t*`]{{0,3}}(?P<open>[\[(:\"“]|{argued})[ \t*]{{0,3}}"
    return re.compile(labelled, re.IGNORECASE | re.M), re.compile(rf"\b(?P<name>{name})(?P<open>\[)", re.IGNORECASE)


def _inside(text: str, opening: str) -> str:
    """Return the content of an action's brackets, which may be nested; all of it if they are not closed.

    >>> _inside("Opus 3 [sic]] and so on", "["), _inside("Ann Lee", "[")
    ('Opus 3 [sic]', 'Ann Lee')
    """
    closing = {"[": "]", "(": ")", '"': '"', "“": "”"}.get(opening)
    depth = 1
    for i, character in enumerate(text):
        depth += (character == opening != closing) - (character == closing)
        if depth == 0:
            return text[:i]
    return text


def read_move(text: str, fields: Fields) -> dict[str, Any]:
    """Read "Thought: …", "Action: Search[…]"; text after the action is ignored. A named answer finishes too.

    >>> read_move("Thought 1: It names a film.\\nAction 1: Search[Dark Mill]\\nObservation 1: A film of 1931.", {})
    {'thought': 'It names a film.', 'action': 'Search', 'argument': 'Dark Mill'}
    """
    if action := read_action(text, fields=fields):
        return {"thought": _thought(text[: action.start]), "action": action.name, "argument": action.argument}
    if named := find_named(text, fields):
        return {"thought": _thought(named.before), "action": "Finish", "argument": named.answer}
    raise Malformed("the reply must end with one action: Search[<query>], Lookup[<keyword>] or Finish[<answer>]")


def write_move(output: Move, fields: Fields) -> str:
    """Write the form that ``read_move`` reads."""
    return _turn(len(fields.get("steps") or ()) + 1, output.thought, output.action or "", output.argument)


def read_finish(text: str, fields: Fields) -> dict[str, Any]:
    """Read "Thought: …", "Action: Finish[…]"; a named answer, or a short one alone, will do.

    >>> read_finish("Action 4: Finish[Rome]", {})
    {'rationale': None, 'answer': 'Rome'}
    """
    if action := read_action(text, ("Finish",), fields):
        return {"rationale": _thought(text[: action.start]), "answer": action.argument}
    if named := find_named(text, fields):
        return {"rationale": _thought(named.before), "answer": named.answer}
    bare = clean_value if fields.get("kind") == "long" else bare_answer
    alone = None if has_marker(text) or read_action(text) else bare(text)
    if alone is None:
        raise Malformed("the reply must end with the action Finish[<answer>], with the answer in it")
    return {"rationale": None, "answer": alone}


def write_finish(output: Response, fields: Fields) -> str:
    """Write the form that ``read_finish`` reads."""
    return _turn(len(fields.get("steps") or ()) + 1, output.rationale, "Finish", output.answer)


def _thought(before: str) -> str | None:
    """Return the thought before an action: the lines labelled "Thought", else all of the text."""
    return clean_value(thoughts(before) or before)


def _turn(number: int, thought: str | None, action: str, argument: str) -> str:
    lead = f"Thought {number}: {one_line(thought)}\n" if thought else ""
    return f"{lead}Action {number}: {action}[{one_line(argument)}]"


def show_steps(steps: Sequence[Mapping[str, Any]] | None, fields: Fields) -> str:
    """Show the steps as the model writes them, each with its observation.

    >>> print(show_steps([{"thought": None, "action": "Search", "argument": "Ann", "passages": []}], {}))
    Action 1: Search[Ann]
    Observation 1: nothing found
    """
    return "\n".join(
        f"{_turn(number, step['thought'], step['action'], step['argument'])}\n"
        f"Observation {number}:{_result(step['passages'])}"
        for number, step in enumerate(steps or (), 1)
    )


def _result(passages: Sequence[Any]) -> str:
    return f"\n{show_passages(passages)}" if passages else " nothing found"


REACT_ACT = Task(
    "react.act",
    fields=("question", "steps", "kind"),
    output=Move,
    parse=read_move,
    write=write_move,
    default={},
    show={"steps": show_steps},
)
REACT_FINISH = Task(
    "react.finish",
    fields=("question", "steps", "kind"),
    output=Response,
    parse=read_finish,
    write=write_finish,
    default={"answer": ""},
    show={"steps": show_steps},
)


# --- Toolformer -----------------------------------------------------------------------------------------------


class Continuation(Output):
    """A piece of Toolformer's text that goes on to a call of the search, or to the answer."""

    ANSWER = "answer"

    text: str | None = Field(default=None, description="how the text goes on, up to the call or the answer")
    query: str | None = Field(default=None, description="what the call searches for, null if the answer is given")
    answer: str | None = Field(default=None, description="{>brief}, null if something is searched")

    @field_validator("answer")
    @classmethod
    def _unless_it_goes_on(cls, value: str | None, info: ValidationInfo) -> str | None:
        return None if value and says_nothing(value) and info.data.get("query") else value

    def missing(self) -> str | None:
        return None if self.query or self.answer else "the text must go on to a call or to the answer"


_CALL = re.compile(
    r"`?\[[ \t`]{0,3}(?:wiki[ -]?)?search[ \t]?[(:][ \t]{0,3}[\"“]?|\b(?:wiki)?search\([\"“]", re.IGNORECASE
)
_CALL_END = re.compile(r"[\"”]?[ \t]{0,3}\)?[ \t`]{0,3}(?:\]|→|->|$)|[\"”][ \t]{0,3}\)?|\)[ \t]{0,3}(?=[.,;\n])", re.M)


def read_continuation(text: str, fields: Fields) -> dict[str, Any]:
    """Read text up to the first call, [Search("…")], or up to "The answer is …"; a made-up result is ignored.

    If calls may be quoted, the last call counts, or an answer after it.

    >>> read_continuation('It was made by [Search("Who made it?") → Ann Lee] Ann Lee.', {})
    {'text': 'It was made by', 'query': 'Who made it?', 'answer': None}
    """
    calls = list(_CALL.finditer(text))
    if calls and quotable(_CALL, fields):
        calls = [] if find_named(text[calls[-1].end() :], fields) else calls[::-1]
    for call in calls:
        rest = text[call.end() : call.end() + MAX_LINE_CHARS].partition("\n")[0]
        end = _CALL_END.search(rest)
        if query := clean_value(rest[: end.start()] if end else rest):
            return {"text": clean_value(text[: call.start()]), "query": query, "answer": None}
    try:
        reasoned = read_reasoned(text, fields)
    except Malformed as complaint:
        raise Malformed(f'the text must go on to a call, [Search("<query>")], or end: {complaint}') from None
    return {"text": reasoned["rationale"], "query": None, "answer": reasoned["answer"]}


def write_continuation(output: Continuation, fields: Fields) -> str:
    """Write the form that ``read_continuation`` reads."""
    lead = f"{output.text} " if output.text else ""
    if output.query or fields.get("kind") != "long":
        return f'{lead}[Search("{output.query}")]' if output.query else f"{lead}The answer is {output.answer}."
    return f"{lead}\nAnswer: {output.answer}".lstrip()


def show_written(written: Sequence[Mapping[str, Any]] | None, fields: Fields) -> str:
    """Show the text so far, each call with its result.

    >>> print(show_written([{"text": "It was made by", "query": "Who made it?", "passages": []}], {}))
    It was made by [Search("Who made it?") → nothing found]
    """
    return "\n".join(map(_show_piece, written or ()))


def _show_piece(piece: Mapping[str, Any]) -> str:
    result = _result(piece["passages"]) + ("\n" if piece["passages"] else "")
    return f'{one_line(piece["text"] or "")} [Search("{one_line(piece["query"])}") →{result}]'.lstrip()


TOOLFORMER_WRITE = Task(
    "toolformer.write",
    fields=("question", "written", "kind"),
    output=Continuation,
    parse=read_continuation,
    write=write_continuation,
    default={},
    show={"written": show_written},
)
TOOLFORMER_FINISH = reasoned_answer("toolformer.finish", fields=("question", "written"), show={"written": show_written})
AGENT_ACT = reasoned_answer("agent.act", fields=("question", "steps"), demonstrations="answer.cot", unshown=("steps",))
AGENT_FINISH = reasoned_answer(
    "agent.finish", fields=("question", "steps"), demonstrations="answer.cot", unshown=("steps",)
)
