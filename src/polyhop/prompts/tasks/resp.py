"""The tasks of Retrieve, Summarize, Plan (ReSP; Jiang, Sun, Liang, Zhang, 2024, Appendix A).

``memory`` is ``{"global_evidence": [str], "local_pathway": [{"sub_question": str, "response": str | None}]}``: what was
gathered for the question, and the response to every sub-question.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from polyhop.prompts.answers import clean_value
from polyhop.prompts.lines import YesNo, find_yes_or_no
from polyhop.prompts.non_answers import is_non_answer
from polyhop.prompts.parsing import Malformed, after_label, after_marker, bare_question, labelled_question
from polyhop.prompts.show import one_line, show_bullets
from polyhop.prompts.tasks.answers import direct_answer
from polyhop.prompts.tasks.base import Fields, Output, Task
from polyhop.prompts.tasks.summaries import summary_task
from polyhop.prompts.tasks.tor import Sufficiency

MAX_SUB_QUESTION_CHARS = 400
"""Characters: a plan longer than this is no question to search."""

_THOUGHT = ("YOUR THOUGHT", "YOU THOUGHT", "THOUGHT")
_LABEL = re.compile(r"\A(?:response|answer)[ \t*]*:[ \t*]*", re.IGNORECASE)
_SEARCH = re.compile(
    r"<(?:search|\|begin_(?:of|search)_query\|)>\s*([^<\n]{1,1000})"
    r"|^[^\w\n]*+action[ \t]*\d{0,3}[ \t*]*:[ \t*]*(?:search|retrieve)\[([^\]\n]{1,1000})\]",
    re.IGNORECASE | re.M,
)


class SubAnswer(Output):
    """ReSP §3.1, local pathway: the response to the sub-question, if it can be answered."""

    answered: bool = Field(description="whether it can be answered completely and accurately")
    response: str | None = Field(default=None, description="the response, if it can")

    def missing(self) -> str | None:
        return 'the "response" is missing, though "answered" is true' if self.answered and not self.response else None


class Plan(Output):
    """ReSP §3.2: the sub-question to search next."""

    sub_question: str = Field(description="the one question to search next")


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


RESP_SUMMARIZE = summary_task("resp.summarize", fields=("question", "passages"))
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
    fields=("question", "memory"),
    output=Sufficiency,
    lines=(YesNo("sufficient"),),
    default={"sufficient": False},
    show={"memory": show_memory},
)
RESP_PLAN = Task(
    "resp.plan",
    fields=("question", "memory", "asked", "rejected"),
    output=Plan,
    parse=read_plan,
    write=lambda output, fields: f"[Your Thought]: {output.sub_question}",
    default={"sub_question": ""},
    show={"memory": show_memory, "asked": show_bullets},
)
RESP_GENERATE = direct_answer("resp.generate", fields=("question", "memory"), show={"memory": show_memory})
