"""The tasks that check an answer against the passages that it cites, read alone: as a whole, and claim by claim.

Only evaluation asks for the claims (``judge.faithful``).
"""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field

from polyhop.prompts.lines import Choice, Items, Line
from polyhop.prompts.tasks.base import Output, Task
from polyhop.prompts.tasks.parts import show_prediction
from polyhop.types import BlindReading


class SupportCheck(Output):
    """The sentence that settles a question, the answer that passages give to it, and the verdict on a proposed one."""

    quotation: str | None = Field(default=None, description="one sentence of the passages, word for word, or null")
    answer: str | None = Field(default=None, description="the answer that the passages give, or null")
    verdict: Literal["supported", "contradicted", "missing"] = Field(description="the verdict on the proposed answer")

    def as_reading(self, proposed: str) -> BlindReading:
        """Return the check as a reading of the passages, with its comparison to the ``proposed`` answer."""
        if self.verdict == "missing":
            return BlindReading(None)
        agrees = self.verdict == "supported"
        return BlindReading(self.answer or (proposed if agrees else None), words=self.quotation, agrees=agrees)


SUPPORT_CHECK = Task(
    "support.check",
    fields=("question", "kind", "passages", "prediction"),
    output=SupportCheck,
    lines=(
        Line("Quotation", "quotation", also=("quote",)),
        Line("Answer", "answer"),
        Choice("Verdict", "verdict", ("supported", "contradicted", "missing")),
    ),
    default={"verdict": "missing"},
    show={"prediction": show_prediction},
)


_MARK = re.compile(r"\[([\d,; ]{1,40})\]")


class Claims(Output):
    """The claims of an answer, each followed by the numbers of the passages that state it, or by [none]."""

    claims: list[str] = Field(description='each claim, then the passages that state it as "[1][2]", or "[none]"')

    def missing(self) -> str | None:
        return None if any(self.claims) else "at least one claim is needed"

    def stated_by(self, passages: int) -> list[list[int]]:
        """Return, for each claim, the numbers among the first ``passages`` that it is followed by.

        >>> Claims(claims=["Alien is a film. [1, 2]", "It is long. [none]", "It is good [9]."]).stated_by(2)
        [[1, 2], [], []]
        """
        marks = (re.findall(r"\d+", " ".join(_MARK.findall(claim))) for claim in self.claims)
        return [[int(number) for number in numbers if 1 <= int(number) <= passages] for numbers in marks]


JUDGE_FAITHFUL = Task(
    "judge.faithful",
    fields=("question", "passages", "prediction"),
    output=Claims,
    lines=(Items("claims", "the claims of the answer", example="<claim> [<number>]"),),
    default={"claims": ()},
    show={"prediction": show_prediction},
)
