"""The tasks of Verify-and-Edit (Zhao et al., 2023): a question for a sentence of the rationale, its edited form, the
answer from the rationale as edited.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field

from polyhop.prompts.answers import clean_value, says_nothing
from polyhop.prompts.parsing import Malformed, has_marker
from polyhop.prompts.tasks.answers import Response, read_direct, write_direct
from polyhop.prompts.tasks.base import Fields, Output, Task
from polyhop.prompts.tasks.ge import SubQuestion, read_subquestion, write_subquestion


class EditedSentence(Output):
    """§3.3: the sentence that the passages support; empty where they tell nothing of it."""

    sentence: str = Field(description="one sentence that answers the question from the passages, or empty")


_HEADING = re.compile(r"\A[\s*#:>-]*(?:(?:(?:the )?(?:answer|sentence|edited sentence))[ \t*]*:[\s*]*)?", re.IGNORECASE)


def read_edited(text: str, fields: Fields) -> dict[str, Any]:
    """The first line that says something; "none" for none.

    >>> read_edited("Answer: Thor Heyerdahl was born in Larvik.", {}), read_edited("None.", {})
    ({'sentence': 'Thor Heyerdahl was born in Larvik.'}, {'sentence': ''})
    """
    sentence = _HEADING.sub("", text, count=1).partition("\n")[0].strip()
    if not sentence or sentence.startswith(("{", "```")) or has_marker(sentence):
        raise Malformed("the reply must be one sentence, or none")
    return {"sentence": "" if says_nothing(sentence) else clean_value(sentence) or ""}


def write_edited(output: Any, fields: Fields) -> str:
    """The inverse of ``read_edited``."""
    return output.sentence or "none"


TASKS = (
    Task(
        "verify_edit.question",
        fields=("question", "sentence"),
        output=SubQuestion,
        parse=read_subquestion,
        write=write_subquestion,
        default={"sub_question": None},
    ),
    Task(
        "verify_edit.edit",
        fields=("sub_question", "passages"),
        output=EditedSentence,
        parse=read_edited,
        write=write_edited,
        default={"sentence": ""},
    ),
    Task(
        "verify_edit.answer",
        fields=("question", "rationale"),
        output=Response,
        parse=read_direct,
        write=write_direct,
        default={"answer": ""},
        asked_if={"rationale": ""},
    ),
)
