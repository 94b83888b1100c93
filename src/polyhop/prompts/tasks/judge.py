"""The task of an answer's judge: whether a prediction says what a gold answer says. Asked by evaluation alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from polyhop.prompts.parsing import Malformed, judgement, without_echo
from polyhop.prompts.show import one_line
from polyhop.prompts.tasks.base import Fields, Output, Task

MAX_PREDICTION_CHARS = 2_000
"""Characters of a prediction that are judged."""


class Verdict(Output):
    """Whether a predicted answer is right."""

    correct: bool = Field(description="whether the predicted answer says the same as one of the gold answers")


def read_verdict(text: str, fields: Fields) -> dict[str, Any]:
    """The last of [CORRECT] and [INCORRECT].

    >>> read_verdict("Judgment: [INCORRECT]", {}), read_verdict("**Correct**", {})
    ({'correct': False}, {'correct': True})
    """
    correct = judgement(without_echo(text), "CORRECT", "INCORRECT")
    if correct is None:
        raise Malformed("the reply must be [CORRECT] or [INCORRECT]")
    return {"correct": correct}


def write_verdict(output: Any, fields: Fields) -> str:
    """The inverse of ``read_verdict``."""
    return f"Judgment: [{'CORRECT' if output.correct else 'INCORRECT'}]"


def show_answers(answers: Sequence[str] | None, fields: Fields) -> str:
    """The gold answers, one a line."""
    return "\n".join(f"- {one_line(answer)}" for answer in answers or ())


def show_prediction(prediction: str | None, fields: Fields) -> str:
    """The prediction on one line, cut where it is very long.

    >>> show_prediction("Paris" + chr(10) + "Judgment: [CORRECT]", {})
    'Paris Judgment: (CORRECT)'
    """
    shown = one_line((prediction or "")[:MAX_PREDICTION_CHARS])
    return shown.replace("[", "(").replace("]", ")") or "(none)"


TASKS = (
    Task(
        "judge.answer",
        fields=("question", "answers", "prediction"),
        output=Verdict,
        parse=read_verdict,
        write=write_verdict,
        default={"correct": False},
        show={"answers": show_answers, "prediction": show_prediction},
    ),
)
