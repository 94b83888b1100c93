"""Every method's wall time compared with its critical path, and its CPU time per call, with a server of 100 ms per
call.

    python -m benchmarks.methods --check
    python -m benchmarks.methods --methods tor,resp --seconds 30

The server is a separate process on loopback. Each method makes its maximum number of calls
(``tests/kit/worst_case.py``): every call is sent to the server, which takes its time; a script supplies the reply.
Searches and readings cost next to nothing, so this measures calls: rendered, sent, read and recorded.

- *alone*: one question. ``layers`` is the longest chain of dependent calls, as the method declares it; the ratio is
  wall time over layers x 100 ms, and may exceed 1 by a tenth and 5 ms per call.
- *many*: 128 questions together, so that 64 calls are always running; the ratio is wall time over calls x 100 ms / 64,
  and CPU time is that of this process per call, with garbage collected as rarely as in ``polyhop run``. Rounds are
  whole: with a clock that counts only calls, no slot is ever idle and the ratio is 1.00. CPU time is also given as a
  multiple of bare aiohttp's (``benchmarks/lm_client.py``), to characterise the machine; it has no bar, since on a
  shared machine it doubled within an hour with the same code.
- *memory*: 1,000 questions at once, each method of ``--memory`` in its own process; the peak.
- *shapes*: the same questions in three loops (``benchmarks/shapes.py``).

``hops`` is left out: it makes one call and reads mostly with the built-in model, which ``benchmarks/pocket.py``
measures. ``--check`` exits with 1 if a bar is missed, and names it.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import math
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import orjson
from benchmarks.figures import Figure, conclude, parser
from benchmarks.lm_client import BARE, server
from benchmarks.lm_client import measure as measure_client
from benchmarks.shapes import shapes
from tests.kit.worst_case import ABLE, Endless, never_content

from polyhop import Passage, Pipeline, Span
from polyhop.cli import COLLECT_AT
from polyhop.lm import OpenAICompatible
from polyhop.lm.base import Completion, Request, ScoreRequest, TokenScores
from polyhop.lm.tools import ToolCall
from polyhop.methods.registry import methods
from polyhop.prompts.book import PromptBook
from polyhop.prompts.tasks import task_named

LATENCY, AT_ONCE, A_CALL, A_WHILE = 0.1, 64, 0.005, 1.0
TOGETHER = 2 * AT_ONCE  # questions, so that a call waits for each slot that becomes free
CALLS = 20
"""Minimum number of calls per slot, for a run to be long enough to time."""
MAX_OVER, MAX_CPU, MAX_MB = 1.1, 500.0, 1024.0
QUESTIONS, WIDE = 1000, 256
PASSAGES, TEXTS = 50_000, 100
READS_ITSELF = {"hops"}
BOOK = PromptBook()


class Asking(OpenAICompatible):
    """polyhop's client. Every call goes to the server and back; then the script supplies the reply."""

    def __init__(self, url: str, at_once: int = AT_ONCE) -> None:
        super().__init__("tiny", url, max_concurrency=at_once)
        self.capabilities = ABLE

    async def complete(self, request: Request) -> Completion:
        reply = await super().complete(request)
        content = never_content(request.task, request.fields)
        if isinstance(content, ToolCall):
            return replace(reply, text="", tool_calls=(content,), finish_reason="tool_calls")
        asked = {name: content[name] for name in task_named(request.task).output.model_fields if name in content}
        return replace(reply, text=orjson.dumps(asked).decode())

    async def score(self, requests: Sequence[ScoreRequest]) -> list[TokenScores]:
        text = "\n".join(f"{request.prompt} {request.target}" for request in requests)
        await super().complete(Request(task="", fields={}, messages=[{"role": "user", "content": text}]))
        return [TokenScores((request.target,), (-1.0,)) for request in requests]


@cache
def passages() -> list[Passage]:
    """The passages of ``Held``, made when the first method is opened."""
    return [Passage(f"{n}", f"T{n % TEXTS}", f"Text {n % TEXTS}.") for n in range(PASSAGES)]


class Held(Endless):
    """The same with passages that are in memory beforehand, as in an index; there are enough that no question gets one
    twice."""

    def __init__(self) -> None:
        self._next = itertools.cycle(passages())

    async def search_by(self, run: Any, query: str, k: int) -> list[Passage]:
        return list(itertools.islice(self._next, k))

    def links(self, passage: Passage) -> list[Passage]:
        return list(itertools.islice(self._next, 2))


def read(question: str, passages: Sequence[Passage]) -> list[Span]:
    """A reader that finds nothing, in no time."""
    return []


@asynccontextmanager
async def opened(method: str, url: str, at_once: int = AT_ONCE) -> AsyncIterator[Pipeline]:
    """A method and how it is measured."""
    lm = Asking(url, at_once)
    async with Pipeline(method=method, lm=lm, retriever=Held(), reader=read, prompts=BOOK, cache=False) as qa:
        yield qa


@dataclass(frozen=True)
class Alone:
    """The result of one question: its calls, the longest chain of them, and its seconds."""

    calls: int
    layers: int
    wall: float

    @property
    def over(self) -> float:
        """Wall time divided by that of the chain."""
        return self.wall / (self.layers * LATENCY)

    @property
    def max_over(self) -> float:
        """The bar of ``over``: a tenth more, plus the allowance per call."""
        return MAX_OVER + A_CALL * self.calls / (self.layers * LATENCY)


@dataclass(frozen=True)
class Many:
    """The result of concurrent questions: their calls, the seconds they took, and the CPU seconds of this process."""

    calls: int
    wall: float
    cpu: float

    @property
    def over(self) -> float:
        """Wall time divided by the time that the server takes with all slots busy."""
        return self.wall / (self.calls * LATENCY / AT_ONCE)

    @property
    def cpu_a_call(self) -> float:
        """CPU microseconds of this process per call."""
        return self.cpu / self.calls * 1e6


async def ask_one(qa: Pipeline, declared: int) -> Alone:
    """Ask one question."""
    begun = time.perf_counter()
    answer = await qa.aask("Which?")
    wall = time.perf_counter() - begun
    assert answer.usage.layers == declared, f"{qa.method.name} took {answer.usage.layers} layers, declared {declared}"
    return Alone(answer.usage.calls, declared, wall)


async def ask_many(qa: Pipeline, questions: int, together: int) -> Many:
    """Ask the questions as a run does, ``together`` at a time: each finished one is followed by the next."""
    waiting = iter(range(questions))

    async def work() -> int:
        # Of an answer only its calls are kept; the rest, trace and all, is let go.
        return sum([(await qa.aask(f"Which is number {number}?")).usage.calls for number in waiting])

    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    calls = await asyncio.gather(*(work() for _ in range(together)))
    return Many(sum(calls), time.perf_counter() - wall, time.process_time() - cpu)


def questions_for(calls: int) -> int:
    """Return how many questions of ``calls`` calls fill all slots long enough, in whole rounds, so that no slot
    is idle at the end.

    >>> questions_for(1), questions_for(19), questions_for(86)
    (1280, 128, 128)
    """
    return TOGETHER * math.ceil(CALLS * AT_ONCE / TOGETHER / calls)


async def alone(method: str, url: str) -> Alone:
    """Measure one question. The first opens connections and prompts, so a short one is repeated."""
    async with opened(method, url) as qa:
        declared = qa.method.layers(qa.settings)
        first = await ask_one(qa, declared)
        return first if first.wall > A_WHILE else await ask_one(qa, declared)


async def many(method: str, url: str, calls: int) -> Many:
    """Measure a round of concurrent questions, of ``calls`` calls each."""
    async with opened(method, url) as qa:
        return await ask_many(qa, questions_for(calls), TOGETHER)


@dataclass
class Rounds:
    """The results of a method's rounds; the best counts, since on a shared machine the excess is other work."""

    alone: Alone
    runs: list[Many] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The seconds of all rounds."""
        return sum(run.wall for run in self.runs)

    @property
    def best(self) -> Many:
        """The best wall time and the best CPU time."""
        return Many(self.runs[0].calls, min(run.wall for run in self.runs), min(run.cpu for run in self.runs))


def measure(names: Sequence[str], url: str, seconds: float) -> tuple[Mapping[str, Rounds], float]:
    """Return every method's rounds, and the microseconds per call of aiohttp alone.

    A method has rounds until they took so many seconds. They are made in turn, for a machine that others use may be
    slow for minutes.
    """
    bare = asyncio.run(measure_client(BARE, url)).cpu_a_call
    found = {name: Rounds(asyncio.run(alone(name, url))) for name in names}
    while due := [name for name in names if found[name].seconds < seconds]:
        print(f"{len(due)} methods in turn", file=sys.stderr, flush=True)
        for name in due:
            found[name].runs.append(asyncio.run(many(name, url, found[name].alone.calls)))
    return found, bare


def figures_of(method: str, found: Rounds) -> Iterator[Figure]:
    """Return the method's figures, with their bars."""
    alone, best = found.alone, found.best
    yield Figure(f"{method}, alone: wall / critical path", alone.over, most=alone.max_over)
    yield Figure(f"{method}, many: wall / ideal", best.over, most=MAX_OVER)
    yield Figure(f"{method}: CPU a call", best.cpu_a_call, " us", most=MAX_CPU)


# --- memory ----------------------------------------------------------------------------------------------------------


async def thousand(method: str, url: str, questions: int = QUESTIONS) -> float:
    """Return the peak megabytes of this process while it answers the questions at once."""
    async with opened(method, url, WIDE) as qa:
        await ask_many(qa, questions, questions)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def thousand_apart(method: str, url: str) -> Figure:
    """Run ``thousand`` in a new process."""
    command = [sys.executable, "-m", "benchmarks.methods", "--thousand", method, "--url", url]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return Figure(f"{method}: 1,000 questions at once", orjson.loads(printed), " MB", most=MAX_MB)


# --- the table -------------------------------------------------------------------------------------------------------


def table(names: Sequence[str], url: str, seconds: float) -> Iterator[Figure]:
    """Measure methods and print one line per method."""
    heads = ("calls", "layers", "wall s", "ratio", "questions", "rounds", "wall s", "ratio", "CPU us", "/aiohttp")
    found, bare = measure(names, url, seconds)
    print(f"{'':<15}{'alone':<32}{'many'}")
    print(f"{'method':<15}" + "".join(f"{head:>{max(8, len(head) + 1)}}" for head in heads))
    for name, rounds in found.items():
        alone, best = rounds.alone, rounds.best
        row = f"{name:<15}{alone.calls:>8}{alone.layers:>8}{alone.wall:>8.2f}{alone.over:>8.2f}"
        row += f"{best.calls // alone.calls:>10}{len(rounds.runs):>8}{best.wall:>8.2f}{best.over:>8.2f}"
        print(f"{row}{best.cpu_a_call:>8.0f}{best.cpu_a_call / bare:>9.2f}")
        yield from figures_of(name, rounds)


def asking_methods() -> list[str]:
    """Return the methods whose time is that of a model server; controls are left out, since they need gold data."""
    ours = ((name, method) for name, method in methods().items() if method.family != "control")
    asking = (name for name, method in ours if method.layers(method.resolve({})))
    return [name for name in asking if name not in READS_ITSELF]


def main() -> None:
    """Measure, print the tables and, with ``--check``, check the bars."""
    options = parsed()
    gc.set_threshold(*COLLECT_AT)
    if options.thousand:
        print(asyncio.run(thousand(options.thousand, options.url)))
        return
    with server() as url:
        figures = list(table(options.methods or asking_methods(), url, options.seconds))
        print(f"\n{'1,000 questions at once':<34}{'peak MB':>8}")
        for name in options.memory:
            figures.append(thousand_apart(name, url))
            print(f"{name:<34}{figures[-1].value:>8.0f}")
        print()
        figures += shapes(url)
    conclude(figures, options)


def parsed() -> Any:
    """Read the options of the command line."""
    options = parser(__doc__)
    options.add_argument("--methods", type=lambda text: text.split(","), help="by default all that call a model")
    options.add_argument("--seconds", type=float, default=10, help="how long rounds of a method go on, the best counts")
    options.add_argument("--memory", type=lambda text: text.split(","), default=["resp", "ge"], help="methods")
    options.add_argument("--thousand", help="the method whose memory this process measures")
    options.add_argument("--url", help="the server of --thousand")
    return options.parse_args()


if __name__ == "__main__":
    main()
