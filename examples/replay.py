"""Record a run with a language model, then replay it from its traces without the model: the same answers, for nothing.

The model here is our own object with `name`, `capabilities` and `complete`; it forwards calls to `pocket` and counts
them. A replay has only the replies of its run: any other call is an error.

    python examples/replay.py

prints

    recorded: Vienna, Bristol, Charles Darwin, Dunsink Observatory
    the model was asked 38 times
    replayed: the same answers; the model was asked 38 times
    with more passages: replay:runs has no reply to this tor.review call: the run was made with other settings, …
"""

import tempfile
import textwrap

import polyhop
from polyhop.lm.base import Completion, LanguageModel, Request
from polyhop.lm.names import open_lm


class Counting:
    """A language model of our own."""

    name = "counting"

    def __init__(self) -> None:
        self.inside = open_lm("pocket")
        self.capabilities = self.inside.capabilities
        self.asked = 0

    async def complete(self, request: Request) -> Completion:
        self.asked += 1
        return await self.inside.complete(request)


def answers(lm: str | LanguageModel, *, widths: tuple[int, int] = (3, 2), out: str | None = None) -> list[str]:
    report = polyhop.evaluate("demo", "demo", method="tor", lm=lm, limit=4, widths=widths, out=out)
    return [row["prediction"] for row in report.rows]


with tempfile.TemporaryDirectory() as folder:
    model = Counting()
    recorded = answers(model, out=folder)
    print("recorded:", ", ".join(recorded))
    print(f"the model was asked {model.asked} times")

    replayed = answers(f"replay:{folder}")
    same = "the same answers" if replayed == recorded else "other answers"
    print(f"replayed: {same}; the model was asked {model.asked} times")

    try:
        answers(f"replay:{folder}", widths=(5, 2))
    except polyhop.PolyhopError as error:
        refusal = str(error).replace(folder, "runs")
        print("with more passages:", textwrap.shorten(refusal, 91, placeholder=" …"))
