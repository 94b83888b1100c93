"""The tasks of Retrieve, Summarize, Plan (ReSP; Jiang, Sun, Liang, Zhang, 2024, Appendix A).

``memory`` is ``{"global_evidence": [str], "local_pathway": [{"sub_question": str, "response": str | None}]}``: what was
gathered for the question, and what every sub-question came to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from polyhop.prompts.answers import clean_value
from polyhop.prompts.non_answers import is_non_answer
from polyhop.prompts.parsing import (
    Malformed,
    after_label,
    after_marker,
    bare_question,
    find_judgement,
    labelled_question,
    own_mark,
)
from polyhop.prompts.show import one_line
from polyhop.prompts.tasks.answers import Response, read_direct, write_direct
from polyhop.prompts.tasks.base import Fields, Output, Task
from polyhop.prompts.tasks.tor import Sufficiency

MAX_SUB_QUESTION_CHARS = 400
"""Characters: a plan longer than this is no question to search."""

_THOUGHT = ("YOUR THOUGHT", "YOU THOUGHT", "THOUGHT")
_DONE = re.compile(r"\[\s*done\s*\]|\n[^\w\n]*done\W*\Z", re.IGNORECASE)
_HEADING = re.compile(r"\A[\s*#:>-]*(?:(?:response|passage|summary)[ \t*]*:[\s*]*)?", re.IGNORECASE)
_CHOICE = re.compile(r"\byes['\"’”*]*\s*(?:\bor\b|/|\|)\s*['\"‘“*]*no\b", re.IGNORECASE)
_VERDICT = re.compile(
    r"\A\W*+(?:(?:answer|judge?ment|output|reply|response)(?=[^\w:]*+:)\W*+)?(yes|no)\b"
    r"[\s\]*'\"’”]*[,.:;!–—-]*[\s*]*",
    re.IGNORECASE,
)
_AFTER_VERDICT = re.compile(r"[\s\]*'\"’”]*+[,.:;!–—-]*+[\s*]*+")
_LABEL = re.compile(r"\A(?:response|answer)[ \t*]*:[ \t*]*", re.IGNORECASE)
_SEARCH = re.compile(
    r"<(?:search|\|begin_(?:of|search)_query\|)>\s*([^<\n]{1,1000})"
    r"|^[^\w\n]*+action[ \t]*\d{0,3}[ \t*]*:[ \t*]*(?:search|retrieve)\[([^\]\n]{1,1000})\]",
    re.IGNORECASE | re.M,
)


class Summary(Output):
    """ReSP §3.1, global evidence: what the passages hold that supports an answer to the overarching question."""

    summary: str = Field(description="what the passages say that helps, or empty")


class SubAnswer(Output):
    """ReSP §3.1, local pathway: whether the sub-question is answered, and its response."""

    answered: bool = Field(description="whether it can be answered completely and accurately")
    response: str | None = Field(default=None, description="the response, if it can")

    def missing(self) -> str | None:
        return 'the "response" is missing, though "answered" is true' if self.answered and not self.response else None


class Plan(Output):
    """ReSP §3.2: the sub-question to search next."""

    sub_question: str = Field(description="the one question to search next")


def read_summary(text: str, fields: Fields) -> dict[str, Any]:
    """A passage that [DONE] ends; one that was cut off before it is taken as it is, [DONE] alone is an empty one.

    The first [DONE] counts, the last if one may be quoted.

    >>> read_summary("Response: Alien is by Ridley Scott. [DONE] Question: …", {})
    {'summary': 'Alien is by Ridley Scott.'}
    """
    done = own_mark(_DONE, text, fields)
    passage = _HEADING.sub("", text[: done.start()] if done else text, count=1)
    summary = clean_value(passage)
    if done is None and (summary is None or summary.startswith(("{", "```"))):
        raise Malformed("write the passage, then [DONE]; [DONE] alone if nothing helps")
    return {"summary": summary or ""}


def write_summary(output: Any, fields: Fields) -> str:
    """The inverse of ``read_summary``."""
    return f"{output.summary} [DONE]".strip()


def read_response(text: str, fields: Fields) -> dict[str, Any]:
    """Yes and the response, or No.

    >>> read_response("Yes. Response: Ridley Scott directed Alien.", {})
    {'answered': True, 'response': 'Ridley Scott directed Alien.'}
    """
    answered, rest = _verdict(text)
    if answered is None:
        raise Malformed("the reply must open with Yes, followed by the response, or be No")
    response = clean_value(_LABEL.sub("", rest, count=1)) if answered else None
    if response and is_non_answer(response):
        answered, response = False, None
    if answered and response is None:
        raise Malformed("Yes must be followed by the response")
    return {"answered": answered, "response": response}


def write_response(output: Any, fields: Fields) -> str:
    """The inverse of ``read_response``."""
    return f"Yes. {output.response}" if output.answered else "No"


def read_judgement(text: str, fields: Fields) -> dict[str, Any]:
    """Yes or No, whatever is said after it.

    >>> read_judgement("**No**, his birthplace is missing.", {}), read_judgement("Judgment: [Yes]", {})
    ({'sufficient': False}, {'sufficient': True})
    """
    sufficient, _ = _verdict(text)
    if sufficient is None:
        raise Malformed("the reply must be Yes or No")
    return {"sufficient": sufficient}


def write_judgement(output: Any, fields: Fields) -> str:
    """The inverse of ``read_judgement``."""
    return "Yes" if output.sufficient else "No"


def _verdict(text: str) -> tuple[bool | None, str]:
    """Yes or no as a reply opens with it, else as a later line says it; and what follows where it is the opening."""
    text = _CHOICE.sub("", text)
    if head := _VERDICT.match(text):
        return head[1].lower() == "yes", text[head.end() :]
    found = find_judgement(text, "YES", "NO", bare=True)
    return (found.value, _AFTER_VERDICT.sub("", text[found.end :], count=1)) if found else (None, "")


def read_plan(text: str, fields: Fields) -> dict[str, Any]:
    """[Your Thought] and one question, or a line that is one; of several, the first.

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
    """The last query that a model trained to search sends off."""
    found = _SEARCH.findall(text)
    return clean_value("".join(found[-1])) if found else None


def _bare(text: str) -> str | None:
    """The first line that is a question; the only line there is, if it ends in no colon."""
    lines = [line for line in text.splitlines() if clean_value(line)]
    only = clean_value(lines[0]) if len(lines) == 1 else None
    return bare_question(text) or (only if only and only[-1] not in ":：" else None)


def write_plan(output: Any, fields: Fields) -> str:
    """The inverse of ``read_plan``."""
    return f"[Your Thought]: {output.sub_question}"


# --- how fields are shown ----------------------------------------------------------------------------------------


def show_memory(memory: Mapping[str, Any] | None, fields: Fields) -> str:
    """Both queues, global evidence first, each entry in a fence of its own.

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


def show_asked(asked: Sequence[str], fields: Fields) -> str:
    """The questions searched so far, one a line."""
    return "\n".join(f"- {one_line(question)}" for question in asked)


TASKS = (
    Task(
        "resp.summarize",
        fields=("question", "passages"),
        output=Summary,
        parse=read_summary,
        write=write_summary,
        default={"summary": ""},
    ),
    Task(
        "resp.respond",
        fields=("sub_question", "passages", "memory"),  # one of the last two is None
        output=SubAnswer,
        parse=read_response,
        write=write_response,
        default={"answered": False},
        show={"memory": show_memory},
    ),
    Task(
        "resp.judge",
        fields=("question", "memory"),
        output=Sufficiency,
        parse=read_judgement,
        write=write_judgement,
        default={"sufficient": False},
        show={"memory": show_memory},
    ),
    Task(
        "resp.plan",
        fields=("question", "memory", "asked", "rejected"),
        output=Plan,
        parse=read_plan,
        write=write_plan,
        default={"sub_question": ""},
        show={"memory": show_memory, "asked": show_asked},
    ),
    Task(
        "resp.generate",
        fields=("question", "memory"),
        output=Response,
        parse=read_direct,
        write=write_direct,
        default={"answer": ""},
        show={"memory": show_memory},
        asked_if={"rationale": ""},
    ),
)
