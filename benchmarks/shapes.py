"""Three loops over the same questions, prompts, client and engine that differ in which calls are concurrent.

Toolkits process a dataset in one of two ways, FlashRAG's pipelines in both: one question after another, or one step of
the whole batch at a time, so that the next step waits for the last reply. Both loops are reimplemented here, without
code of those toolkits, so that only the loop differs. Questions end after different numbers of steps.

``ideal`` is calls x latency / slots. No loop reaches it without knowing the length of each question in advance: at the
end fewer questions run than there are slots. With a clock that counts only calls and this number of questions,
independent questions take 1.05 times as long, steps of the whole batch 1.17 (``tests/benchmarks/test_speed.py``). With
two questions per slot they take 1.22 and 1.33, and the end alone would miss the bar.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from benchmarks.figures import Figure

from polyhop import Answer, Passage
from polyhop.common.text import counted
from polyhop.engine.engine import Engine
from polyhop.engine.models import Models
from polyhop.engine.run import Run
from polyhop.lm import OpenAICompatible

LATENCY, AT_ONCE = 0.1, 16
STEPS = [1 + number % 8 for number in range(88)]
"""The number of steps of each question."""
FEW = 16
"""Number of questions asked one at a time: the ratio is the same for any number."""
MAX_OVER = 1.15

Shape = Callable[[Engine, Sequence[int]], Awaitable[object]]


async def step(run: Run, number: int) -> None:
    """Make one step of a question: a call over its own passages."""
    passages = [Passage(f"{number}.{n}", f"Passage {n}", f"Text {n} of step {number}. " * 8) for n in range(3)]
    await run.ask("answer.read_cot", question=run.recorder.question, passages=passages)


async def all_steps(question: str, run: Run, *, steps: int) -> Answer:
    """Answer a question as a method does: each step waits for the previous one."""
    for number in range(steps):
        await step(run, number)
    return Answer("")


async def every_question_for_itself(engine: Engine, lengths: Sequence[int]) -> None:
    """Run as polyhop does: a question continues as soon as it has its own reply."""
    await asyncio.gather(*(answer(engine, number, steps) for number, steps in enumerate(lengths)))


async def one_question_at_a_time(engine: Engine, lengths: Sequence[int]) -> None:
    """Run a loop over the dataset around a loop over the steps."""
    for number, steps in enumerate(lengths):
        await answer(engine, number, steps)


async def one_step_for_the_batch(engine: Engine, lengths: Sequence[int]) -> None:
    """Run a loop over the steps; in each, all unfinished questions are asked together."""
    runs = [Run(engine, f"Question {number}?", "shapes", "qa") for number in range(len(lengths))]
    for number in range(max(lengths)):
        going = [run for run, steps in zip(runs, lengths, strict=True) if number < steps]
        await asyncio.gather(*(within(run, number) for run in going))


async def within(run: Run, number: int) -> None:
    """A step of a question outside any method."""
    with run.recorder.recording():
        await step(run, number)


async def answer(engine: Engine, number: int, steps: int) -> Answer:
    """Answer one question with the engine."""
    return await engine.answer(all_steps, "shapes", f"Question {number}?", "qa", {"steps": steps})


SHAPES: dict[str, Shape] = {
    "every question for itself": every_question_for_itself,
    "one step for the batch": one_step_for_the_batch,
    "one question at a time": one_question_at_a_time,
}


async def seconds(shape: Shape, url: str, lengths: Sequence[int]) -> float:
    """Return the wall time of a loop, after one question that opens the connection."""
    async with OpenAICompatible("tiny", url, max_concurrency=AT_ONCE) as lm:
        engine = Engine(models=Models({"default": lm}))
        await answer(engine, -1, 1)
        begun = time.perf_counter()
        await shape(engine, lengths)
        return time.perf_counter() - begun


def shapes(url: str, lengths: Sequence[int] = tuple(STEPS)) -> list[Figure]:
    """Measure the three loops and print their table."""
    size = f"{counted(len(lengths), 'questions')}, {counted(sum(lengths), 'calls')}, {AT_ONCE} at once"
    print(f"{size:<40}{'wall s':>8}{'wall/ideal':>12}")
    found = []
    for name, shape in SHAPES.items():
        asked = lengths[:FEW] if shape is one_question_at_a_time else lengths
        wall, ideal = asyncio.run(seconds(shape, url, asked)), LATENCY * sum(asked) / AT_ONCE
        bar = MAX_OVER if shape is every_question_for_itself else None
        found.append(Figure(f"{name}: wall / ideal", wall / ideal, most=bar))
        print(f"{name:<40}{wall:>8.2f}{wall / ideal:>12.2f}")
    return found
