"""The gain of asking many questions at once if the model runs in this process, which batches their work.

    python -m benchmarks.local [--questions 64] --check

The same pipeline answers questions one after another and all at once; the figure is the ratio of the times. The models
are a Llama of two layers with random weights by ``hf:``, if torch is installed, which writes up to 32 tokens per call,
and ``pocket`` over the demo corpus. Most of the Llama's time with ``direct`` is overhead per call, which a batch
shares. ``pocket``'s encoder keeps both cores busy by itself, so there is little to share. With ``one-r`` the Llama's
prompts have four thousand tokens, since it spells most words letter by letter: reading takes 133 of 177 ms per call on
one core, and the gain would be 1.9 even if shared prefixes and all writing were free. Neither is near the target of
five; the bars only require that nothing is lost beyond noise. ``--check`` exits with 1 if a bar is missed.
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
    """A model that writes few tokens, and whose reply, which is noise, is taken as the answer."""

    def __init__(self, lm: LanguageModel) -> None:
        self._lm, self.name, self.capabilities = lm, lm.name, lm.capabilities

    async def complete(self, request: Request) -> Completion:
        reply = await self._lm.complete(replace(request, max_tokens=TOKENS, stop=()))
        return replace(reply, value=dict(task_named(request.task).default))


def questions(count: int) -> list[str]:
    """Return ``count`` questions, those of the demo repeated, each with different words, so that none is cached."""
    return [f"{text} ({number})" for number, text in zip(range(count), itertools.cycle(DEMO), strict=False)]


async def seconds(qa: Pipeline, asked: Sequence[str], *, together: bool) -> float:
    """Return the wall time of all questions."""
    gc.collect()
    begun = time.perf_counter()
    if together:
        await asyncio.gather(*map(qa.aask, asked))
    else:
        for question in asked:
            await qa.aask(question)
    return time.perf_counter() - begun


async def gain(qa: Pipeline, count: int = AT_ONCE) -> tuple[float, float]:
    """Return the seconds of the questions, others each time: one after another, and all at once."""
    asked = questions(3 * count)
    await seconds(qa, asked[: min(4, count)], together=True)
    alone = await seconds(qa, asked[count : 2 * count], together=False)
    return alone, await seconds(qa, asked[2 * count :], together=True)


async def of_pocket(method: str, count: int = AT_ONCE) -> tuple[float, float]:
    """Measure with ``pocket``."""
    async with Pipeline("demo", method) as qa:
        return await gain(qa, count)


async def of_hf(folder: Path, method: str, count: int = AT_ONCE) -> tuple[float, float]:
    """Measure with a tiny random Llama."""
    from polyhop.lm.hf import TransformersLM

    async with Pipeline("demo", method, Briefly(TransformersLM(str(folder), device="cpu"))) as qa:
        return await gain(qa, count)


def measured(count: int) -> Iterator[tuple[str, float, float]]:
    """Return the rows of the table: name, seconds one after another, seconds at once."""
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
    """Measure, print the table and, with ``--check``, check the bars."""
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
