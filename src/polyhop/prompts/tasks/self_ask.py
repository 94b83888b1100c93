"""The tasks of self-ask (Press et al., 2022): all follow-ups in one reply, or one turn at a time with passages.

``history`` is ``[{"sub_question": str, "answer": str | None}]``: the follow-ups so far; the last has no answer yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field, ValidationInfo, field_validator

from polyhop.common.text import normalise
from polyhop.prompts.answers import bare_answer, clean_value
from polyhop.prompts.kinds import find_named
from polyhop.prompts.non_answers import says_nothing
from polyhop.prompts.parsing import Malformed, has_marker, labelled_parts, quotable
from polyhop.prompts.show import one_line
from polyhop.prompts.tasks.base import Fields, Output, Task


class FollowUpStep(Output):
    """A follow-up question with its intermediate answer."""

    sub_question: str = Field(description="the follow-up question")
    answer: str | None = Field(default=None, description="its answer")


class FollowUps(Output):
    """Every follow-up with its intermediate answer, and the final answer they lead to."""

    ANSWER = "answer"

    steps: list[FollowUpStep] = Field(
        default_factory=list,
        description='the follow-ups in order, each {"sub_question": "<question>", "answer": "<answer>"}',
    )
    answer: str = Field(description="the final answer, {>brief}")


class FollowUp(Output):
    """One turn: the answer to the last follow-up, then the next follow-up or the final answer."""

    ANSWER = "answer"

    intermediate: str | None = Field(default=None, description="the answer to the last follow-up, if there was one")
    follow_up: str | None = Field(default=None, description="the next follow-up question, null if none is needed")
    answer: str | None = Field(default=None, description="the final answer, null if a follow-up is needed first")

    @field_validator("answer")
    @classmethod
    def _unless_it_goes_on(cls, value: str | None, info: ValidationInfo) -> str | None:
        return None if value and says_nothing(value) and info.data.get("follow_up") else value

    def missing(self) -> str | None:
        return None if self.follow_up or self.answer else "give the next follow-up or the final answer"


_MAX_STEPS = 50
"""Follow-ups of a reply that are read."""
_LABEL = re.compile(
    r"^[^\w\n]{0,6}(?:(?P<ask>(?:follow[ -]?up|sub-?question)(?:[ -]?question)?)|(?P<answer>(?:intermediate )?answer))"
    r"[ \t]?(?:\d{1,2})?[ \t*]{0,3}:[ \t*]{0,3}",
    re.IGNORECASE | re.M,
)
_NEEDED = re.compile(r"^[^\w\n]{0,6}are follow[ -]?up questions needed", re.IGNORECASE | re.M)


def read_follow_ups(text: str, fields: Fields) -> dict[str, Any]:
    """Read "Follow up: …" and "Intermediate answer: …" in turn; the last line names the final answer.

    If labels may be quoted, the reply counts from the form's last opening line on.

    >>> read_follow_ups("Follow up: Who made it?\\nIntermediate answer: Ann.\\nSo the final answer is: Ann.", {})
    {'steps': [{'sub_question': 'Who made it?', 'answer': 'Ann.'}], 'answer': 'Ann'}
    """
    steps: list[dict[str, str | None]] = []
    if quotable(_LABEL, fields):
        text = text[max((found.start() for found in _NEEDED.finditer(text)), default=0) :]
    for asked, value in _labelled(text):
        if asked and len(steps) < _MAX_STEPS:
            steps.append({"sub_question": value, "answer": None})
        elif not asked and steps and steps[-1]["answer"] is None:
            steps[-1]["answer"] = value
    named = find_named(text, fields)
    answer = named.answer if named else None if has_marker(text) or steps else _alone(text, fields)
    if answer is None:
        raise Malformed('the last line must be "So the final answer is: <answer>", with the answer in it')
    return {"steps": steps, "answer": answer}


def write_follow_ups(output: FollowUps, fields: Fields) -> str:
    """Write the form that ``read_follow_ups`` reads."""
    steps = "".join(_written(step) for step in output.steps)
    return f"{_needed(bool(output.steps))}{steps}{_final(output.answer)}"


def _alone(text: str, fields: Fields) -> str | None:
    return clean_value(text) if fields.get("kind") == "long" else bare_answer(text)


def _final(answer: str) -> str:
    return f"So the final answer is: {answer}{'' if answer.endswith('.') else '.'}"


def _needed(follow_ups: bool) -> str:
    return f"Are follow up questions needed here: {'Yes' if follow_ups else 'No'}.\n"


def _written(step: FollowUpStep) -> str:
    answer = f"Intermediate answer: {step.answer}\n" if step.answer else ""
    return f"Follow up: {step.sub_question}\n{answer}"


def read_turn(text: str, fields: Fields) -> dict[str, Any]:
    """Read "Intermediate answer: …", then "Follow up: …" or the final answer; text after the follow-up is ignored.

    >>> read_turn("Intermediate answer: Ann Lee.\\nFollow up: Where was she born?\\nIntermediate answer: in Rome.", {})
    {'intermediate': 'Ann Lee.', 'follow_up': 'Where was she born?', 'answer': None}
    """
    intermediate: str | None = None
    follow_up: str | None = None
    history, conclude = fields.get("history") or (), fields.get("conclude")
    pending = normalise(history[-1]["sub_question"]) if history else None
    if quotable(_LABEL, fields):
        return _last_turn(text, fields)
    for asks, value in _labelled(text):
        if not asks:
            intermediate = intermediate or value
        elif not conclude:
            follow_up = value
            if normalise(value) != pending:  # the pending one may be said again, before its answer
                break
    new = follow_up is not None and normalise(follow_up) != pending
    named = None if new else find_named(text, fields)
    answer = named.answer if named else None
    if conclude and named is None and not (has_marker(text) or _LABEL.search(text)):
        answer = _alone(text, fields)
    if answer is None and follow_up is None:
        raise _no_turn(bool(conclude))
    return {"intermediate": intermediate, "follow_up": None if answer else follow_up, "answer": answer}


def _last_turn(text: str, fields: Fields) -> dict[str, Any]:
    """Read the turn that ends a reply that may quote others: the last follow-up or an answer after it, and the
    intermediate answer on the line before."""
    conclude = bool(fields.get("conclude"))
    asks = [] if conclude else [label for label in _LABEL.finditer(text) if label["ask"]]
    start, end = asks[-1].span() if asks else (0, 0)
    named = find_named(text[end:], fields)
    follow_up = None if named or not asks else clean_value(text[end:].lstrip("\n").partition("\n")[0])
    if named is None and follow_up is None:
        raise _no_turn(conclude)
    before = f"{text[:end]}{named.before}" if named else text[:start]
    answers = [before[label.end() :].strip() for label in _LABEL.finditer(before) if label["answer"]]
    intermediate = clean_value(answers[-1]) if answers and "\n" not in answers[-1] else None
    return {"intermediate": intermediate, "follow_up": follow_up, "answer": named.answer if named else None}


def _no_turn(conclude: bool) -> Malformed:
    ending = "" if conclude else '"Follow up: <the next follow-up question>" or with '
    return Malformed(f'the reply must end with {ending}"So the final answer is: <answer>"')


def write_turn(output: FollowUp, fields: Fields) -> str:
    """Write the form that ``read_turn`` reads."""
    lead = "" if fields.get("history") else _needed(not output.answer)
    intermediate = f"Intermediate answer: {output.intermediate}\n" if output.intermediate else ""
    if output.answer:
        return f"{lead}{intermediate}{_final(output.answer)}"
    return f"{lead}{intermediate}Follow up: {output.follow_up}"


def _labelled(text: str) -> Iterator[tuple[bool, str]]:
    """Yield each labelled line that says something: True if it asks, and its text."""
    for label, part in labelled_parts(list(_LABEL.finditer(text)), text):
        if value := clean_value(part.lstrip("\n").partition("\n")[0]):
            yield bool(label["ask"]), value


def show_follow_ups(history: Sequence[Mapping[str, str | None]] | None, fields: Fields) -> str:
    """Show the follow-ups as the model writes them; the last one has no answer yet.

    >>> asked = [{"sub_question": "Who?", "answer": None}, {"sub_question": "Where?", "answer": None}]
    >>> print(show_follow_ups(asked, {}))
    Follow up: Who?
    Intermediate answer: unknown
    Follow up: Where?
    """
    lines = []
    for number, pair in enumerate(history or (), 1):
        lines.append(f"Follow up: {one_line(pair['sub_question'] or '')}")
        if pair["answer"] or number < len(history or ()):
            lines.append(f"Intermediate answer: {one_line(pair['answer'] or 'unknown')}")
    return "\n".join(lines)


SELF_ASK_CHAIN = Task(
    "self_ask.chain",
    fields=("question", "kind"),
    output=FollowUps,
    parse=read_follow_ups,
    write=write_follow_ups,
    default={"steps": (), "answer": ""},
)
SELF_ASK_TURN = Task(
    "self_ask.turn",
    fields=("question", "history", "passages", "conclude", "kind"),
    output=FollowUp,
    parse=read_turn,
    write=write_turn,
    default={},
    show={"history": show_follow_ups},
)
