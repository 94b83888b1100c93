"""The tasks of in-context Toolformer (Schick et al., 2023): text with calls of a search in it, and its end.

``written`` is ``[{"text": str, "query": str, "passages": [Passage]}]``: the pieces written so far, each up to the call
that ends it, and the result of that call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, ValidationInfo, field_validator

from polyhop.prompts.answers import (
    MAX_LINE_CHARS,
    clean_value,
    find_answer,
    says_nothing,
)
from polyhop.prompts.parsing import Malformed, quotable
from polyhop.prompts.show import one_line, show_passages
from polyhop.prompts.tasks.answers import Response, read_reasoned, write_reasoned
from polyhop.prompts.tasks.base import Fields, Output, Task


class Continuation(Output):
    """A piece of text that goes on to a call of the search, or to the answer."""

    ANSWER = "answer"

    text: str | None = Field(default=None, description="how the text goes on, up to the call or the answer")
    query: str | None = Field(default=None, description="what the call searches for, null if the answer is given")
    answer: str | None = Field(default=None, description="in as few words as possible, null if something is searched")

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
    """Text up to the first call, [Search("…")], or up to "The answer is …"; a result made up for the call is not read.

    If calls may be quoted, the last call counts, or an answer after it.

    >>> read_continuation('It was made by [Search("Who made it?") → Ann Lee] Ann Lee.', {})
    {'text': 'It was made by', 'query': 'Who made it?', 'answer': None}
    """
    calls = list(_CALL.finditer(text))
    if calls and quotable(_CALL, fields):
        calls = [] if find_answer(text[calls[-1].end() :]) else calls[::-1]
    for call in calls:
        rest = text[call.end() : call.end() + MAX_LINE_CHARS].partition("\n")[0]
        end = _CALL_END.search(rest)
        if query := clean_value(rest[: end.start()] if end else rest):
            return {"text": clean_value(text[: call.start()]), "query": query, "answer": None}
    try:
        reasoned = read_reasoned(text, fields)
    except Malformed:
        raise Malformed('the text must go on to a call, [Search("…")], or end with "The answer is …"') from None
    return {"text": reasoned["rationale"], "query": None, "answer": reasoned["answer"]}


def write_continuation(output: Any, fields: Fields) -> str:
    """The inverse of ``read_continuation``."""
    lead = f"{output.text} " if output.text else ""
    return f'{lead}[Search("{output.query}")]' if output.query else f"{lead}The answer is {output.answer}."


def show_written(written: Sequence[Mapping[str, Any]] | None, fields: Fields) -> str:
    """The text so far, each call with its result.

    >>> print(show_written([{"text": "It was made by", "query": "Who made it?", "passages": []}], {}))
    It was made by [Search("Who made it?") → nothing found]
    """
    return "\n".join(
        f'{one_line(piece["text"] or "")} [Search("{one_line(piece["query"])}") →{_result(piece["passages"])}]'.lstrip()
        for piece in written or ()
    )


def _result(passages: Sequence[Any]) -> str:
    return f"\n{show_passages(passages)}\n" if passages else " nothing found"


TASKS = (
    Task(
        "toolformer.write",
        fields=("question", "written"),
        output=Continuation,
        parse=read_continuation,
        write=write_continuation,
        default={},
        show={"written": show_written},
    ),
    Task(
        "toolformer.finish",
        fields=("question", "written"),
        output=Response,
        parse=read_reasoned,
        write=write_reasoned,
        default={"answer": ""},
        show={"written": show_written},
    ),
)
