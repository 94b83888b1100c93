"""The tasks of the LM reranker: to put numbered passages in order, and to grade one passage.

``question`` is the search query, which in a multi-hop method is mostly not the question that was asked.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field, field_validator

from polyhop.prompts.lines import Line
from polyhop.prompts.parsing import Malformed
from polyhop.prompts.tasks.base import Fields, Output, Task
from polyhop.prompts.tasks.ge import show_passage

HIGHEST = 4
"""The grade of a passage that answers by itself."""
_MAX_ITEMS = 1000
_MAX_GRADE_CHARS = 80
"""Characters of a line that can state a grade."""

_DECORATION = re.compile(r"[\[\]#*`]|\bpassages?\b", re.IGNORECASE)
_CHAIN = re.compile(r"(?<![\d.])\d{1,4}(?:\s*+>\s*+\d{1,4})+")
_OWN_CHAIN = re.compile(r"^[^\w\n]*+(?:\w[\w ]{0,15}:[^\w\n]*+)?(\d{1,4}(?:\s*+>\s*+\d{1,4})+)[^\w\n]*+$", re.M)
_LIST = re.compile(r"(?<![\d.])\d{1,4}(?:\s*+[,;]\s*+\d{1,4})+")
_MARKED = re.compile(r"\[\s{0,3}(\d{1,4})\s{0,3}\]|\bpassage[\s#]{1,3}(\d{1,4})\b", re.IGNORECASE)
_LINE = re.compile(r"^[^\w\n]*+(?:\d{1,3}[.):][ \t]++)?(\d{1,4})[^\w\n]*+$", re.M)
_NUMBER = re.compile(r"(?<![\w.-])(\d{1,4})(?!\w|\.\d)")


class Order(Output):
    """Numbers of passages, the most helpful first."""

    order: list[int] = Field(description="the numbers of all passages, the most helpful first")

    @field_validator("order", mode="before")
    @classmethod
    def _numbers(cls, value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            return value
        found = (re.search(r"\d{1,4}", str(item)[:20]) for item in value[:_MAX_ITEMS] if not isinstance(item, bool))
        return list(dict.fromkeys(int(number[0]) for number in found if number))

    def missing(self) -> str | None:
        return None if self.order else "the passages' numbers are needed"


class Grade(Output):
    """The degree to which a passage helps, 0 to 4."""

    grade: int = Field(description="0 to 4: how much the passage helps to answer the question")

    @field_validator("grade", mode="before")
    @classmethod
    def _number(cls, value: Any) -> int:
        found = None if isinstance(value, bool) else _NUMBER.search(str(value)[:_MAX_GRADE_CHARS])
        if found is None or int(found[1]) > HIGHEST:
            raise ValueError(f"must be from 0 to {HIGHEST}")
        return int(found[1])


def read_order(text: str, fields: Fields) -> dict[str, Any]:
    """Read a ranking: [2] > [1], or another form that models write.

    >>> read_order("Passages [1] and [2] differ: [2] > [3] > [1]", {})
    {'order': [2, 3, 1]}
    >>> read_order("1. Passage 3\\n2. Passage 1", {}), read_order("3, 2, 1", {})
    ({'order': [3, 1]}, {'order': [3, 2, 1]})
    """
    plain = _DECORATION.sub(" ", text)
    chains = _OWN_CHAIN.findall(plain) or _CHAIN.findall(plain)
    row = chains[-1] if chains else ""
    numbers = re.findall(r"\d+", row) or [first or second for first, second in _MARKED.findall(text)]
    if not numbers:
        row = max((found[0] for found in _LIST.finditer(plain)), key=len, default="")
        numbers = re.findall(r"\d+", row) or _LINE.findall(plain)
    if not numbers:
        raise Malformed("the reply must be the passages' numbers in order: [number] > [number] > …")
    return {"order": list(dict.fromkeys(map(int, numbers[:_MAX_ITEMS])))}


RERANK_ORDER = Task(
    "rerank.order",
    fields=("question", "passages"),
    output=Order,
    parse=read_order,
    write=lambda output, fields: " > ".join(f"[{number}]" for number in output.order),
    default={"order": ()},
)
RERANK_GRADE = Task(
    "rerank.grade",
    fields=("question", "passage"),
    output=Grade,
    lines=(Line("Grade", "grade", also=("score", "rating", "relevance"), bare=True),),
    default={"grade": 0},
    show={"passage": show_passage},
)
