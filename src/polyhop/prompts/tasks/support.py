"""The task that checks an answer against the passages that it cites, read alone."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from polyhop.prompts.lines import Choice, Line
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
