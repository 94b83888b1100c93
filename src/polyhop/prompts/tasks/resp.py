"""The tasks of Retrieve, Summarize, Plan (ReSP; Jiang, Sun, Liang, Zhang, 2024, Appendix A).

``memory`` is ``{"global_evidence": [str], "local_pathway": [{"sub_question": str, "response": str | None}]}``: what was
gathered for the question, and the response to every sub-question.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import Field, field_validator

from polyhop.prompts.answers import clean_value
from polyhop.prompts.lines import YesNo, find_yes_or_no
from polyhop.prompts.non_answers import is_non_answer
from polyhop.prompts.parsing import (
    Malformed,
    after_label,
    after_marker,
    bare_question,
    labelled_question,
    own_mark,
)
from polyhop.prompts.show import one_line, show_bullets
from polyhop.prompts.tasks.answers import direct_answer
from polyhop.prompts.tasks.base import Fields, Output, Task
from polyhop.prompts.tasks.summaries import Summary, read_summary, summary_task
from polyhop.prompts.tasks.tor import Sufficiency

MAX_SUB_QUESTION_CHARS = 400
"""Characters: a plan longer than this is no question to search."""

_THOUGHT = ("YOUR THOUGHT", "YOU THOUGHT", "THOUGHT")
_NO_QUESTION = "the sub-question itself is missing: write one short question"
_RESPONSE_LINE = re.compile(r"^[^\w\n]*+(?:response|answer)[ \t*]*+:[ \t*]*+", re.IGNORECASE | re.M)
_LABEL = re.compile(r"\A(?:response|answer)[ \t*]*:[ \t*]*", re.IGNORECASE)
_NO_RESPONSE = re.compile(
    r"\W*(?:done|(?:followed by )?(?:the |an accurate )?response"
    r"|(?:it|this|the (?:sub-?)?question) (?:can be|is) answered"
    r"(?: (?:completely|accurately|and|from|by|in|with|the|these|given|passages?|known|information|notes))*)\W*",
    re.IGNORECASE,
)
"""Words after Yes that are no response."""
_NO_PLAN = re.compile(
    r"\W*(?:done|(?:there (?:is|are) )?no (?:further|more|other|additional|new|next) (?:sub-?)?"
    r"(?:questions?|search(?:es)?|steps?|information|retrieval)(?: (?:is|are|to|can|could|needs?|remains?)\b.{0,60})?"
    r"|(?:the |all )?(?:known |necessary |needed )?(?:information|evidence|facts) (?:is|are) "
    r"(?:already |now )?(?:sufficient|enough|complete|known|available)\b.{0,60})\W*",
    re.IGNORECASE,
)
"""Words instead of a plan if nothing more is to be searched."""
_SLOT_NAME = re.compile(r"\W*(?:(?:the|your|one|next) ){0,2}(?:sub-?|short )?(?:question|thought)\W*", re.IGNORECASE)
"""The name of the slot, copied from the form."""
_SEARCH = re.compile(
    r"<(?:search|\|begin_(?:of|search)_query\|)>\s*([^<\n]{1,1000})"
    r"|^[^\w\n]*+action[ \t]*\d{0,3}[ \t*]*:[ \t*]*(?:search|retrieve)\[([^\]\n]{1,1000})\]",
    re.IGNORECASE | re.M,
)


class SubAnswer(Output):
    """ReSP §3.1, local pathway: the response to the sub-question, if it can be answered."""

    answered: bool = Field(description="whether it can be answered completely and accurately")
    response: str | None = Field(default=None, description="the response, if it can")

    @field_validator("response")
    @classmethod
    def _none_if_filler(cls, value: str | None) -> str | None:
        return None if value and _NO_RESPONSE.fullmatch(value) else value

    def missing(self) -> str | None:
        return 'the "response" is missing, though "answered" is true' if self.answered and not self.response else None


class Plan(Output):
    """ReSP §3.2: the sub-question to search next; empty if the reply says that none is needed."""

    sub_question: str = Field(description="the one question to search next")

    @field_validator("sub_question")
    @classmethod
    def _empty_if_none_is_needed(cls, value: str) -> str:
        return "" if _NO_PLAN.fullmatch(value) else value

    def missing(self) -> str | None:
        return _NO_QUESTION if _SLOT_NAME.fullmatch(self.sub_question) else None


class JudgedPlan(Sufficiency):
    """ReSP §3.2 in one reply: the judgement and, if it is no, the sub-question to search next."""

    sub_question: str | None = Field(default=None, description="if it is not, the one question to search next")

    @field_validator("sub_question")
    @classmethod
    def _none_if_filler(cls, value: str | None) -> str | None:
        return None if value and (_NO_PLAN.fullmatch(value) or _SLOT_NAME.fullmatch(value)) else value

    def missing(self) -> str | None:
        return None if self.sufficient or self.sub_question else _NO_QUESTION


class SummaryAndResponse(SubAnswer, Summary):
    """ReSP §3.1 in one reply: the summary for the question, and the response to the sub-question."""


def read_response(text: str, fields: Fields) -> dict[str, Any]:
    """Read Yes and the response, or No.

    >>> read_response("Yes. Response: Ridley Scott directed Alien.", {})
    {'answered': True, 'response': 'Ridley Scott directed Alien.'}
    """
    answered, rest = find_yes_or_no(text)
    if answered is None:
        raise Malformed("the reply must open with Yes, followed by the response, or be No")
    response = clean_value(_LABEL.sub("", rest, count=1)) if answered else None
    if response and is_non_answer(response):
        answered, response = False, None
    if answered and response is None:
        raise Malformed("Yes must be followed by the response")
    return {"answered": answered, "response": response}


def read_plan(text: str, fields: Fields) -> dict[str, Any]:
    """Read [Your Thought] and one question, or a line that is one; the first of several.

    >>> read_plan("[Your Thought]: Who directed Alien?", {})
    {'sub_question': 'Who directed Alien?'}
    >>> read_plan("Next we need:\\n1. Who directed Alien?\\n2. Where was he born?", {})["sub_question"]
    'Who directed Alien?'
    """
    question = after_marker(text, *_THOUGHT) or _searched(text) or clean_value(labelled_question(text, fields))
    question = question or after_label(text, "(?:your )?thought", "question", "(?:search )?query") or _bare(text)
    if question is None or question[0] in "{[`" or len(question) > MAX_SUB_QUESTION_CHARS:
        raise Malformed("the reply must be [Your Thought]: and one short question")
    return {"sub_question": question}


def read_judged_plan(text: str, fields: Fields) -> dict[str, Any]:
    """Read Yes, or No and a plan; a plan under its mark alone is a No.

    >>> read_judged_plan("No. [Your Thought]: Who directed Alien?", {})
    {'sufficient': False, 'sub_question': 'Who directed Alien?'}
    """
    sufficient, rest = find_yes_or_no(text)
    if sufficient is None and not after_marker(text, *_THOUGHT):
        raise Malformed("the reply must be Yes, or No and [Your Thought]: with one short question")
    if sufficient:
        return {"sufficient": True}
    return {"sufficient": False, **read_plan(text if sufficient is None else rest, fields)}


def read_summary_and_response(text: str, fields: Fields) -> dict[str, Any]:
    """Read a summary that [DONE] ends, then the line of the response.

    >>> read_summary_and_response("Summary: Alien is by Scott. [DONE]" + chr(10) + "Response: No", {})
    {'summary': 'Alien is by Scott.', 'answered': False, 'response': None}
    """
    line = own_mark(_RESPONSE_LINE, text, fields)
    if line is None:
        raise Malformed('the reply must be the summary, then a line "Response:" with Yes and the response, or No')
    return {**read_summary(text[: line.start()], fields), **read_response(text[line.end() :], fields)}


def _searched(text: str) -> str | None:
    """Return the last query in the form of a model that was trained to search."""
    found = _SEARCH.findall(text)
    return clean_value("".join(found[-1])) if found else None


def _bare(text: str) -> str | None:
    """Return the first line that is a question, else the only line, unless it ends in a colon."""
    lines = [line for line in text.splitlines() if clean_value(line)]
    only = clean_value(lines[0]) if len(lines) == 1 else None
    return bare_question(text) or (only if only and only[-1] not in ":：" else None)


def show_memory(memory: Mapping[str, Any] | None, fields: Fields) -> str:
    """Show both queues, global evidence first, each entry in its own fence.

    >>> path = [{"sub_question": "Who directed Alien?", "response": None}]
    >>> print(show_memory({"global_evidence": ["Alien is a film."], "local_pathway": path}, {}))
    <evidence 1>
    Summary: Alien is a film.
    </evidence 1>
    <pathway 1>
    Sub-question: Who directed Alien?
    Response: none was found
    </pathway 1>
    """
    if memory is None:
        return ""
    pieces = [
        f"<evidence {number}>\nSummary: {one_line(summary)}\n</evidence {number}>"
        for number, summary in enumerate(memory["global_evidence"], 1)
    ]
    for number, pair in enumerate(memory["local_pathway"], 1):
        response = one_line(pair["response"] or "none was found")
        entry = f"Sub-question: {one_line(pair['sub_question'])}\nResponse: {response}"
        pieces.append(f"<pathway {number}>\n{entry}\n</pathway {number}>")
    return "\n".join(pieces) or "(none)"


RESP_SUMMARIZE = summary_task("resp.summarize", fields=("question", "passages", "kind"))
RESP_RESPOND = Task(
    "resp.respond",
    fields=("sub_question", "passages", "memory"),
    output=SubAnswer,
    parse=read_response,
    write=lambda output, fields: f"Yes. {output.response}" if output.answered else "No",
    default={"answered": False},
    show={"memory": show_memory},
)
RESP_JUDGE = Task(
    "resp.judge",
    fields=("question", "memory", "kind"),
    output=Sufficiency,
    lines=(YesNo("sufficient"),),
    default={"sufficient": False},
    show={"memory": show_memory},
)
RESP_PLAN = Task(
    "resp.plan",
    fields=("question", "memory", "asked", "rejected", "kind"),
    output=Plan,
    parse=read_plan,
    write=lambda output, fields: f"[Your Thought]: {output.sub_question}",
    default={"sub_question": ""},
    show={"memory": show_memory, "asked": show_bullets},
)
RESP_JUDGE_PLAN = Task(
    "resp.judge_plan",
    fields=("question", "memory", "asked", "kind"),
    output=JudgedPlan,
    parse=read_judged_plan,
    write=lambda output, fields: "Yes" if output.sufficient else f"No. [Your Thought]: {output.sub_question}",
    default={"sufficient": False},
    show={"memory": show_memory, "asked": show_bullets},
)
RESP_SUMMARIZE_RESPOND = Task(
    "resp.summarize_respond",
    fields=("question", "sub_question", "passages", "kind"),
    output=SummaryAndResponse,
    parse=read_summary_and_response,
    write=lambda output, fields: (
        f"Summary: {f'{output.summary} [DONE]'.strip()}\nResponse: {RESP_RESPOND.write_text(output, fields)}"
    ),
    default={"summary": "", "answered": False},
)
RESP_GENERATE = direct_answer("resp.generate", fields=("question", "memory"), show={"memory": show_memory})
