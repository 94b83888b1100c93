"""What asking many questions at once gains where the model runs here: its work for them is done together.

    python -m benchmarks.local [--questions 64] --check

Questions all at once and one after another, of the same pipeline: how many times the time of the one the other takes.
With a Llama of two layers and random weights by ``hf:``, where torch is installed, which writes up to 32 tokens a call;
and with ``pocket``, over the demo's corpus. Of the Llama's time with ``direct`` most is a call's own, which many share.
A look of ``pocket``'s encoder is arithmetic that keeps both cores busy by itself, so that there is little to share.
With ``one-r`` the Llama's prompts have four thousand tokens, as it spells most words letter by letter: reading is 133
of a call's 177 ms on one core, and the gain would be 1.9 if what prompts begin with and all writing cost nothing.
Neither comes near the five times that are wanted; both are held only to lose nothing, by more than chance. ``--check``
exits with 1 when a bar is missed.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import itertools
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.figures import Figure, conclude, parser

from polyhop import Pipeline
from polyhop.common.text import counted
from polyhop.data.questions import read_questions
from polyhop.lm.base import Completion, LanguageModel, Request
from polyhop.prompts.tasks import task_named

AT_ONCE, TOKENS = 64, 32
LEAST = {"hf, direct": 5.0}
LOSES_NOTHING = 0.8
DEMO = [question.text for question in read_questions("demo")]


class Briefly:
    """A model that is asked for few tokens, and whose reply is taken for an answer: what it says is noise."""

    def __init__(self, lm: LanguageModel) -> None:
        self._lm, self.name, self.capabilities = lm, lm.name, lm.capabilities

    async def complete(self, request: Request) -> Completion:
        reply = await self._lm.complete(replace(request, max_tokens=TOKENS, stop=()))
        return replace(reply, value=dict(task_named(request.task).default))


def questions(count: int) -> list[str]:
    """So many questions, the demo's over and over, each in words of its own, so that nothing is known of it before."""
    return [f"{text} ({number})" for number, text in zip(range(count), itertools.cycle(DEMO), strict=False)]


async def seconds(qa: Pipeline, asked: Sequence[str], *, together: bool) -> float:
    """Wall time of all questions."""
    gc.collect()
    begun = time.perf_counter()
    if together:
        await asyncio.gather(*map(qa.aask, asked))
    else:
        for question in asked:
            await qa.aask(question)
    return time.perf_counter() - begun


async def gain(qa: Pipeline, count: int = AT_ONCE) -> tuple[float, float]:
    """Seconds of so many questions, other ones each time: one after another, and all at once."""
    asked = questions(3 * count)
    await seconds(qa, asked[: min(4, count)], together=True)
    alone = await seconds(qa, asked[count : 2 * count], together=False)
    return alone, await seconds(qa, asked[2 * count :], together=True)


async def of_pocket(method: str, count: int = AT_ONCE) -> tuple[float, float]:
    """With ``pocket``."""
    async with Pipeline("demo", method) as qa:
        return await gain(qa, count)


async def of_hf(folder: Path, method: str, count: int = AT_ONCE) -> tuple[float, float]:
    """With a tiny random Llama."""
    from polyhop.lm.hf import TransformersLM

    async with Pipeline("demo", method, Briefly(TransformersLM(str(folder), device="cpu"))) as qa:
        return await gain(qa, count)


def measured(count: int) -> Iterator[tuple[str, float, float]]:
    """The rows of the table: name, seconds one after another, seconds at once."""
    for method in ("one-r", "resp", "tor"):
        yield f"pocket, {method}", *asyncio.run(of_pocket(method, count))
    if importlib.util.find_spec("torch") is None:
        print("hf: left out, torch is not installed here")
        return
    from tests.kit import tiny_models

    with tempfile.TemporaryDirectory(prefix="polyhop-local-") as folder:
        tiny_models.make(Path(folder), "llama", positions=8192)
        for method in ("direct", "one-r"):
            yield f"hf, {method}", *asyncio.run(of_hf(Path(folder), method, count))


def main() -> None:
    """Measure, print the table and, asked to, check the bars."""
    made = parser(__doc__)
    made.add_argument("--questions", type=int, default=AT_ONCE)
    options = made.parse_args()
    figures = []
    print(f"{counted(options.questions, 'questions'):<20}{'in turn s':>11}{'at once s':>11}{'gain':>7}")
    for name, alone, together in measured(options.questions):
        print(f"{name:<20}{alone:>11.2f}{together:>11.2f}{alone / together:>7.1f}")
        figures.append(Figure(f"{name}: at once / in turn", alone / together, least=LEAST.get(name, LOSES_NOTHING)))
    conclude(figures, options)


if __name__ == "__main__":
    main()
