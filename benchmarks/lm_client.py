"""The LM client: its wall time compared with the server's own speed, and its CPU time per call.

    python -m benchmarks.lm_client --check

200 questions of 16 sequential calls each, 64 calls at once, with prompts of about 900 tokens, against a server on
loopback in its own process that takes 100 ms per call. ``ideal`` is calls × latency ÷ 64. Each client runs several
rounds, in turn with the others, and its best figures count: on a shared machine, the excess is other work. Client and
server have separate cores, which are kept awake (``benchmarks/cores.py``); every client collects garbage as rarely as
``polyhop run`` does. ``aiohttp`` is that library and orjson with nothing around them, the minimum cost of a call. It
was 169 µs on the machine on which the bars of CPU time were set, so they also count as multiples of it: interleaved
rows meet the same conditions. ``--check`` exits with 1 if a bar is missed.

To add a row, write a function that takes the URL and opens an async context of ``answer(question)``; see ``ROWS``.
"""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import orjson
from benchmarks.cores import apart
from benchmarks.figures import Figure, conclude, parser

from polyhop import Answer, Passage
from polyhop.cli import COLLECT_AT
from polyhop.engine.engine import Engine
from polyhop.engine.models import Models
from polyhop.engine.run import Run
from polyhop.lm import CachedLM, CompletionCache, LanguageModel, Message, OpenAICompatible, Request

QUESTIONS, STEPS, AT_ONCE, LATENCY = 200, 16, 64, 0.1
AIOHTTP = 169.0
"""Microseconds per call of aiohttp on the machine on which the bars were set."""
FILLER = "A passage of some words about a film, its director and the town where he was born. " * 42

Ask = Callable[[int, int], Awaitable[object]]
"""A call: the question and the number of the call."""
Answering = Callable[[int], Awaitable[object]]
"""All calls of a question, in sequence."""
Opener = Callable[[str], AbstractAsyncContextManager[Answering]]


@dataclass(frozen=True)
class Row:
    """A client: the function that opens it, and its bars, if any."""

    name: str
    open: Opener
    max_wall: float | None = None
    max_cpu: float | None = None

    @property
    def max_times(self) -> float | None:
        """The bar of its CPU time as a multiple of aiohttp's."""
        return None if self.max_cpu is None else self.max_cpu / AIOHTTP


@dataclass(frozen=True)
class Measured:
    """The seconds of wall time and of CPU time for a number of calls."""

    wall: float
    cpu: float
    calls: int

    @property
    def over_ideal(self) -> float:
        """Wall time divided by the time that the server alone would take."""
        return self.wall / (self.calls * LATENCY / AT_ONCE)

    @property
    def cpu_a_call(self) -> float:
        """CPU microseconds of this process per call."""
        return self.cpu / self.calls * 1e6


def prompt(question: int, step: int) -> list[Message]:
    """Return a prompt of about 900 tokens, different for each call."""
    return [{"role": "user", "content": f"{FILLER}\nQuestion {question}, step {step}: where was the director born?"}]


def in_turn(ask: Ask) -> Answering:
    """Make the calls of a question one after another."""

    async def answer(question: int) -> None:
        for step in range(STEPS):
            await ask(question, step)

    return answer


async def _complete(lm: LanguageModel, question: int, step: int) -> None:
    request = Request(
        task="answer.direct", fields={"question": f"{question}.{step}"}, messages=prompt(question, step), max_tokens=100
    )
    reply = await lm.complete(request)
    assert reply.text


@asynccontextmanager
async def ours(url: str) -> AsyncIterator[Answering]:
    """polyhop's client alone."""
    async with OpenAICompatible("tiny", url, max_concurrency=AT_ONCE) as lm:
        yield in_turn(lambda question, step: _complete(lm, question, step))


@asynccontextmanager
async def ours_cached(url: str) -> AsyncIterator[Answering]:
    """polyhop's client behind a cache without hits."""
    with tempfile.TemporaryDirectory() as folder:
        cache = CompletionCache(Path(folder) / "lm.sqlite")
        lm = CachedLM(OpenAICompatible("tiny", url, max_concurrency=AT_ONCE), cache)
        yield in_turn(lambda question, step: _complete(lm, question, step))
        await lm.aclose()
        cache.close()


@asynccontextmanager
async def bare(url: str) -> AsyncIterator[Answering]:
    """Only aiohttp and orjson."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=AT_ONCE)) as session:

        async def ask(question: int, step: int) -> None:
            asked = {"model": "tiny", "messages": prompt(question, step), "max_tokens": 100, "temperature": 0.0}
            body, head = orjson.dumps(asked), {"Content-Type": "application/json"}
            async with session.post(f"{url}/chat/completions", data=body, headers=head) as response:
                reply = orjson.loads(await response.read())
            assert reply["choices"][0]["message"]["content"]

        yield in_turn(ask)


@asynccontextmanager
async def openai_client(url: str) -> AsyncIterator[Answering]:
    """The ``openai`` package's client with its default transport."""
    from openai import AsyncOpenAI

    slots = asyncio.Semaphore(AT_ONCE)
    async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:

        async def ask(question: int, step: int) -> None:
            async with slots:
                reply = await client.chat.completions.create(
                    model="tiny",
                    messages=prompt(question, step),  # type: ignore[arg-type]  # its own TypedDicts, of the same shape
                    max_tokens=100,
                    temperature=0.0,
                )
            assert reply.choices[0].message.content

        yield in_turn(ask)


async def sixteen_readings(question: str, run: Run) -> Answer:
    """A method that reads sets of passages in sequence, in prompts of about 900 tokens, demonstrations included."""
    for step in range(STEPS):
        passages = [Passage(f"{step}.{n}", f"Passage {step}.{n}", FILLER[: 230 + step]) for n in range(3)]
        await run.ask("answer.read_cot", question=question, passages=passages)
    return Answer("")


@asynccontextmanager
async def whole_engine(url: str) -> AsyncIterator[Answering]:
    """polyhop's client under the engine: prompts are rendered, replies parsed, cached and traced."""
    with tempfile.TemporaryDirectory() as folder:
        cache = CompletionCache(Path(folder) / "lm.sqlite")
        lm = CachedLM(OpenAICompatible("tiny", url, max_concurrency=AT_ONCE), cache)
        engine = Engine(models=Models({"default": lm}))
        yield lambda question: engine.answer(sixteen_readings, "bench", f"Question {question}?", "qa", {})
        await lm.aclose()
        cache.close()


BARE = Row("aiohttp", bare)
ROWS = [
    Row("polyhop", ours, max_wall=1.15, max_cpu=200),
    Row("polyhop + cache", ours_cached, max_wall=1.15),
    Row("polyhop, engine", whole_engine, max_cpu=500),
    BARE,
    Row("openai", openai_client),
]


async def measure(row: Row, url: str) -> Measured:
    """Run one round of a row."""
    async with row.open(url) as answer:
        gc.collect()
        wall, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(answer(question) for question in range(QUESTIONS)))
        return Measured(time.perf_counter() - wall, time.process_time() - cpu, QUESTIONS * STEPS)


@contextmanager
def server() -> Iterator[str]:
    """Start the loopback server in its own process, on its own core; yield its URL."""
    command = [sys.executable, "-m", "tests.kit.openai_server", "--latency", str(LATENCY)]
    root = Path(__file__).resolve().parent.parent
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process, apart(process.pid):
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def figures_of(row: Row, best: Measured, least: Measured) -> list[Figure]:
    """Return the figures of a row, with their bars; ``least`` is aiohttp's."""
    times = best.cpu_a_call / least.cpu_a_call
    return [
        Figure(f"{row.name}: wall / ideal", best.over_ideal, most=row.max_wall),
        Figure(f"{row.name}: CPU / aiohttp's", times, most=row.max_times),
        Figure(f"{row.name}: CPU a call", best.cpu_a_call, " us", most=row.max_cpu),
    ]


def best_of(runs: Sequence[Measured]) -> Measured:
    """Return the best wall time and the best CPU time of some rounds."""
    return Measured(min(run.wall for run in runs), min(run.cpu for run in runs), runs[0].calls)


def main() -> None:
    """Measure, print the table and, with ``--check``, check the bars."""
    made = parser(__doc__)
    made.add_argument("--rounds", type=int, default=3, help="rounds of each client; the best counts")
    options = made.parse_args()
    gc.set_threshold(*COLLECT_AT)
    rounds: dict[str, list[Measured]] = {row.name: [] for row in ROWS}
    with server() as url:
        for _ in range(options.rounds):
            for row in ROWS:
                rounds[row.name].append(asyncio.run(measure(row, url)))
    bests = {row: best_of(rounds[row.name]) for row in ROWS}
    least = best_of(rounds[BARE.name])
    print(f"{'client':<18}{'calls':>7}{'wall s':>9}{'wall/ideal':>12}{'CPU us a call':>15}{'/ aiohttp':>11}")
    for row, best in bests.items():
        costs = f"{best.calls:>7}{best.wall:>9.2f}{best.over_ideal:>12.2f}{best.cpu_a_call:>15.0f}"
        print(f"{row.name:<18}{costs}{best.cpu_a_call / least.cpu_a_call:>11.2f}")
    figures = [figure for row, best in bests.items() for figure in figures_of(row, best, least)]
    conclude(figures, options)


if __name__ == "__main__":
    main()
