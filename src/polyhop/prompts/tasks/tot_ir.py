"""The tasks of Tree of Thoughts with retrieval (Yao et al., 2023): to propose thoughts, to value where they lead, to
answer from the best of it.

``history`` is ``[{"sub_question": str, "answer": str | None}]``, the thoughts of a state so far.
"""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, field_validator

from polyhop.prompts.answers import clean_value
from polyhop.prompts.parsing import Malformed, after_label
from polyhop.prompts.tasks.answers import Response, read_reasoned, write_reasoned
from polyhop.prompts.tasks.base import Fields, Output, Task
from polyhop.prompts.tasks.closed_book import Decomposition, read_decomposition, show_solved, write_decomposition


class Valuation(Output):
    """What a thought's passages say to it, and what the state it leads to is worth."""

    answer: str | None = Field(
        default=None, description="the answer to the newest step in a few words, null if there is none"
    )
    value: Literal["sure", "likely", "impossible"] = Field(
        description="sure, likely or impossible: how well all steps lead to the answer"
    )

    @field_validator("value", mode="before")
    @classmethod
    def _as_named(cls, value: Any) -> Any:
        return value.strip().lower() if isinstance(value, str) else value


_VALUE = re.compile(r"(?<!not )\b(sure|likely|impossible)\b", re.IGNORECASE)


def read_valuation(text: str, fields: Fields) -> dict[str, Any]:
    """Finding: …, Value: sure, likely or impossible; the last value named counts.

    >>> read_valuation("Finding: Ann Lee\\nValue: likely", {})
    {'answer': 'Ann Lee', 'value': 'likely'}
    """
    labelled = after_label(text, "value", "evaluation", "verdict")
    values = _VALUE.findall(labelled or text)
    if not values:
        raise Malformed('the last line must be "Value: sure", "Value: likely" or "Value: impossible"')
    return {"answer": clean_value(after_label(text, "finding", "answer")), "value": values[-1].lower()}


def write_valuation(output: Any, fields: Fields) -> str:
    """The inverse of ``read_valuation``."""
    return f"Finding: {output.answer or 'none'}\nValue: {output.value}"


TASKS = (
    Task(
        "tot_ir.propose",
        fields=("question", "history", "count"),
        output=Decomposition,
        parse=read_decomposition,
        write=write_decomposition,
        default={"sub_questions": ()},
        show={"history": show_solved},
    ),
    Task(
        "tot_ir.value",
        fields=("question", "history", "sub_question", "passages"),
        output=Valuation,
        parse=read_valuation,
        write=write_valuation,
        default={"answer": None, "value": "impossible"},
        show={"history": show_solved},
    ),
    Task(
        "tot_ir.answer",
        fields=("question", "history", "passages"),
        output=Response,
        parse=read_reasoned,
        write=write_reasoned,
        default={"answer": ""},
        show={"history": show_solved},
    ),
)
