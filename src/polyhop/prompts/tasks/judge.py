"""The task of an answer's judge, which compares a prediction with the gold answers. Only evaluation asks it."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from polyhop.prompts.lines import Judgement
from polyhop.prompts.show import one_line
from polyhop.prompts.tasks.base import Fields, Output, Task

MAX_PREDICTION_CHARS = 2_000
"""Characters of a prediction that are judged."""


class Verdict(Output):
    """True if a predicted answer is right."""

    correct: bool = Field(description="whether the predicted answer says the same as one of the gold answers")


def show_answers(answers: Sequence[str] | None, fields: Fields) -> str:
    """Show the gold answers, one per line."""
    return "\n".join(f"- {one_line(answer)}" for answer in answers or ())


def show_prediction(prediction: str | None, fields: Fields) -> str:
    """Show the prediction on one line, cut if it is very long.

    >>> show_prediction("Paris" + chr(10) + "Judgment: [CORRECT]", {})
    'Paris Judgment: (CORRECT)'
    """
    shown = one_line((prediction or "")[:MAX_PREDICTION_CHARS])
    return shown.replace("[", "(").replace("]", ")") or "(none)"


JUDGE_ANSWER = Task(
    "judge.answer",
    fields=("question", "answers", "prediction"),
    output=Verdict,
    lines=(Judgement("correct", "CORRECT", "INCORRECT"),),
    default={"correct": False},
    show={"answers": show_answers, "prediction": show_prediction},
)
