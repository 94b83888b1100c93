"""The tasks of the baselines that read summaries: SuRe (Kim et al., 2024) and RECOMP (Xu et al., 2023).

``candidate`` is a possible answer, ``summary`` what passages were condensed to, ``summaries`` two of them to compare.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import Field, field_validator

from polyhop.prompts.answers import bare_answer, short_answer
from polyhop.prompts.parsing import Malformed, after_label, has_marker
from polyhop.prompts.show import one_line
from polyhop.prompts.tasks.answers import Response, read_direct, write_direct
from polyhop.prompts.tasks.base import Fields, Output, Task
from polyhop.prompts.tasks.closed_book import read_items, write_items
from polyhop.prompts.tasks.resp import Summary, read_judgement, read_summary, write_summary


class Candidates(Output):
    """SuRe §3.2: possible answers, the likeliest first."""

    candidates: list[str] = Field(description="possible answers, the likeliest first, each in as few words as possible")

    def missing(self) -> str | None:
        return None if any(self.candidates) else "at least one candidate is needed"


class Validity(Output):
    """SuRe §3.3: whether a summary supports the answer that it was written for."""

    valid: bool = Field(description="whether the summary supports the answer")


class Preference(Output):
    """SuRe §3.3: which of two summaries tells more of what is asked; null for neither."""

    better: int | None = Field(description="1 or 2, null if neither is better")

    @field_validator("better", mode="before")
    @classmethod
    def _one_or_two(cls, value: Any) -> int | None:
        return _number(str(value)[:_MAX_CHOICE_CHARS])


_MAX_CHOICE_CHARS = 80
"""Characters of a line that can name one of two."""
_NUMBER = re.compile(r"(?<![\w.])[12](?![\w]|\.\d)")
_NEITHER = re.compile(r"\b(?:neither|both|equal|tie|none|null)\b", re.IGNORECASE)


def _number(text: str) -> int | None:
    """The one of two that a text names; None where it names neither, or both."""
    named = set(_NUMBER.findall(text))
    return int(named.pop()) if len(named) == 1 else None


def read_candidates(text: str, fields: Fields) -> dict[str, Any]:
    """Numbered answers; a reply of one short line is one.

    >>> read_candidates("1. Ridley Scott\\n2. James Cameron.", {})
    {'candidates': ['Ridley Scott', 'James Cameron']}
    """
    alone = None if has_marker(text) else bare_answer(text)
    candidates = [answer for item in read_items(text, fields) if (answer := short_answer(item))] or [alone or ""]
    if not any(candidates):
        raise Malformed("the reply must be the candidates, each with its number: 1. …")
    return {"candidates": candidates}


def write_candidates(output: Any, fields: Fields) -> str:
    """The inverse of ``read_candidates``."""
    return write_items(output.candidates)


def read_validity(text: str, fields: Fields) -> dict[str, Any]:
    """Yes or No, whatever is said after it.

    >>> read_validity("No, it names another town.", {})
    {'valid': False}
    """
    return {"valid": read_judgement(text, fields)["sufficient"]}


def write_validity(output: Any, fields: Fields) -> str:
    """The inverse of ``read_validity``."""
    return "Yes" if output.valid else "No"


def read_preference(text: str, fields: Fields) -> dict[str, Any]:
    """The number of the better one, or "neither".

    >>> read_preference("Better: Summary 2", {}), read_preference("Both are equal.", {})
    ({'better': 2}, {'better': None})
    """
    line = after_label(text, "better(?: summary)?", "answer") or text.strip().partition("\n")[0]
    line = line[:_MAX_CHOICE_CHARS]
    better = _number(line)
    if better is None and not _NEITHER.search(line):
        raise Malformed('the reply must be "Better:" and 1, 2 or neither')
    return {"better": better}


def write_preference(output: Any, fields: Fields) -> str:
    """The inverse of ``read_preference``."""
    return f"Better: {output.better or 'neither'}"


def show_summaries(summaries: Sequence[str] | None, fields: Fields) -> str:
    """Each summary under its number, on a line of its own."""
    shown = (one_line(summary) or "(empty)" for summary in summaries or ())
    return "\n".join(f"Summary {number}: {summary}" for number, summary in enumerate(shown, 1))


TASKS = (
    Task(
        "sure.candidates",
        fields=("question", "passages", "count"),
        output=Candidates,
        parse=read_candidates,
        write=write_candidates,
        default={"candidates": ()},
    ),
    Task(
        "sure.summarize",
        fields=("question", "passages", "candidate"),
        output=Summary,
        parse=read_summary,
        write=write_summary,
        default={"summary": ""},
    ),
    Task(
        "sure.validate",
        fields=("question", "candidate", "summary"),
        output=Validity,
        parse=read_validity,
        write=write_validity,
        default={"valid": False},
    ),
    Task(
        "sure.rank",
        fields=("question", "summaries"),
        output=Preference,
        parse=read_preference,
        write=write_preference,
        default={"better": None},
        show={"summaries": show_summaries},
    ),
    Task(
        "recomp.compress",
        fields=("question", "passages"),
        output=Summary,
        parse=read_summary,
        write=write_summary,
        default={"summary": ""},
        demonstrations="resp.summarize",
    ),
    Task(
        "recomp.answer",
        fields=("question", "summary"),
        output=Response,
        parse=read_direct,
        write=write_direct,
        default={"answer": ""},
        asked_if={"rationale": ""},
    ),
)
