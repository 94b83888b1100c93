"""The server's overhead over the engine, and its behaviour under many clients, slow readers and open streams.

    python -m benchmarks.server --check
    python -m benchmarks.server --seconds 5
    python -m benchmarks.server --only batches

The server is a separate process on loopback, over the demo corpus, with a scripted model that takes 100 ms per call:

- *overhead*: one question after another with a model without latency, over HTTP and with the engine alone; medians. The
  first step is that of a stream.
- *load*: 64 clients for 60 seconds, each asking again as soon as it has an answer. Memory is the server's after a third
  of the time and at the end; by then the maximum number of traces is stored.
- *slow readers*: the same for a quarter of the time, with 8 clients that read 64 bytes of a stream per second.
- *open streams*: 1,000 streams of running questions, with searches one after another at the same time; then all clients
  disconnect, and their work must end.
- *batches*: 512 queries, top 3, as a trainer posts them to ``/retrieve`` by Search-R1's protocol, alternating with the
  same batch on the index alone, over synthetic passages; medians.

``--check`` exits with 1 if a bar is missed. Needs the extra ``serve``; clients and server run on the same machine, so
two cores should be free.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import resource
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import aiohttp
import orjson
from benchmarks.bm25 import Synthetic

import polyhop
from polyhop import Pipeline, ScriptedLM
from polyhop.data.questions import read_questions
from polyhop.lm.base import Completion, Request
from polyhop.retrieval.bm25 import BM25
from polyhop.retrieval.index import Index, build_index

LATENCY, CLIENTS, SLOW, STREAMS, KEPT = 0.1, 64, 8, 1_000, 200
BATCH, TOP = 512, 3
QUESTIONS = [question.text for question in read_questions("demo")]
CORPUS = "demo"


@dataclass(frozen=True)
class Line:
    """A figure of the table; ``most``: its bar, if any."""

    name: str
    value: float
    unit: str = ""
    most: float | None = None

    @property
    def missed(self) -> bool:
        """Return True if it is beyond its bar."""
        return self.most is not None and not self.value <= self.most


@dataclass
class Asked:
    """The outcomes of the questions of a phase."""

    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def percentile(self, percent: int) -> float:
        """Return a percentile of the questions' milliseconds."""
        return 1000 * quantiles(self.seconds, n=100)[percent - 1] if len(self.seconds) > 1 else float("nan")


class Forgetful(ScriptedLM):
    """A scripted model that does not store its requests."""

    async def complete(self, request: Request) -> Completion:
        """Return the scripted reply."""
        self.calls.clear()
        return await super().complete(request)


def scripted(latency: float) -> ScriptedLM:
    """A model with one fixed reply per task."""

    def reply(task: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"rationale": "The passages tell.", "answer": "Oslo"} if task.endswith("cot") else {"answer": "Oslo"}

    return Forgetful(reply, latency=latency)


# --- the server ------------------------------------------------------------------------------------------------------


def serve(method: str, latency: float, port: int, corpus: str) -> None:
    """The process that is measured."""
    from polyhop.serve.http.app import Options, serve
    from polyhop.serve.service import Service

    allow_files()
    corpora = {"corpus": polyhop.open_corpus(corpus)}
    lm = scripted(latency)
    service = Service(corpora, method=method, lm=lm, concurrency=2 * STREAMS, traces_kept=KEPT, grace=1.0)
    asyncio.run(serve(service, Options(), "127.0.0.1", port))


@contextmanager
def server(method: str, latency: float, corpus: str = CORPUS) -> Iterator[tuple[str, int]]:
    """Start a server; yield its URL and its process once it is ready."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serving = ["--method", method, "--serve", str(latency), str(port), corpus]
    command = [sys.executable, "-m", "benchmarks.server", *serving]
    with subprocess.Popen(command, cwd=Path(__file__).resolve().parent.parent) as process:
        try:
            asyncio.run(_ready(f"http://127.0.0.1:{port}", process))
            yield f"http://127.0.0.1:{port}", process.pid
        finally:
            process.terminate()


async def _ready(url: str, process: subprocess.Popen[bytes]) -> None:
    async with aiohttp.ClientSession() as session, asyncio.timeout(300):
        while True:
            if process.poll() is not None:
                sys.exit("the server did not start")
            try:
                async with session.get(f"{url}/ready") as response:
                    if response.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.1)


def allow_files() -> None:
    """Raise the limit of open files to the maximum: each stream is one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def megabytes(process: int) -> float:
    """Return the memory of a process."""
    printed = subprocess.run(["ps", "-o", "rss=", "-p", str(process)], capture_output=True, text=True, check=True)
    return int(printed.stdout) / 1024


# --- the clients -----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """Open a client without a limit of connections."""
    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as opened:
        yield opened


async def ask(client: aiohttp.ClientSession, url: str, question: str, asked: Asked) -> None:
    """Ask one question over HTTP."""
    began = time.perf_counter()
    try:
        async with client.post(f"{url}/v1/ask", json={"question": question}) as response:
            body = await response.json()
            if response.status != 200 or body["answer"] != "Oslo":
                asked.errors.append(f"{response.status}: {str(body)[:200]}")
    except (aiohttp.ClientError, TimeoutError) as error:
        asked.errors.append(f"{type(error).__name__}: {error}")
    asked.seconds.append(time.perf_counter() - began)


async def first_step(client: aiohttp.ClientSession, url: str, question: str) -> float:
    """Return the seconds to the first step of a stream; then read it to its end."""
    began, first = time.perf_counter(), 0.0
    async with client.post(f"{url}/v1/ask", json={"question": question, "stream": True}) as response:
        async for line in response.content:
            if not first and line.startswith(b"event: step"):
                first = time.perf_counter() - began
    return first


async def open_stream(url: str, *, small: bool = False) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open the stream of a running question; with ``small`` buffers, so that unread data soon stops the sender."""
    host, _, port = url.removeprefix("http://").partition(":")
    connection = socket.socket()
    if small:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_connect(connection, (host, int(port)))
    reader, writer = await asyncio.open_connection(sock=connection, limit=2048 if small else 2**16)
    body = orjson.dumps({"question": QUESTIONS[0], "stream": True})
    head = f"POST /v1/ask HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    writer.write(head.encode() + b"\r\n" + body)
    await reader.readuntil(b"event: start")
    return reader, writer


async def pieces(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield the data in chunks of 64 bytes."""
    while piece := await reader.read(64):
        yield piece


async def read_slowly(url: str) -> None:
    """Read 64 bytes of a stream per second, and open another at its end, until cancelled."""
    while True:
        reader, writer = await open_stream(url, small=True)
        try:
            async for _ in pieces(reader):
                await asyncio.sleep(1)
        except ConnectionError:
            pass  # it was left by the server, as it may be
        finally:
            writer.close()


async def load(url: str, seconds: float, memory: Callable[[], float] | None = None) -> tuple[Asked, list[float]]:
    """Run ``CLIENTS`` at once for a time; return the memory after a third of it and at the end."""
    asked, held = Asked(), list[float]()
    end = time.perf_counter() + seconds
    questions = itertools.cycle(QUESTIONS)

    async def one(client: aiohttp.ClientSession) -> None:
        while time.perf_counter() < end:
            await ask(client, url, next(questions), asked)

    async def measure() -> None:
        await asyncio.sleep(seconds / 3)
        if memory is not None:
            held.append(await asyncio.to_thread(memory))

    async with session() as client:
        await asyncio.gather(measure(), *(one(client) for _ in range(CLIENTS)))
    return asked, [*held, memory()] if memory is not None else []


# --- the phases ------------------------------------------------------------------------------------------------------


async def overhead(method: str, url: str, times: int) -> list[Line]:
    """Measure the time that HTTP adds to a question and to its first step, alternating with the engine alone."""
    served, bare = Asked(), list[float]()
    served_first, bare_first = list[float](), list[float]()
    async with Pipeline(CORPUS, method, scripted(0.0)) as pipeline, session() as client:
        for question in itertools.islice(itertools.cycle(QUESTIONS), times):
            began = time.perf_counter()
            await pipeline.aask(question)
            bare.append(time.perf_counter() - began)
            await ask(client, url, question, served)
            began = time.perf_counter()
            stream = pipeline.stream(question)
            await anext(stream)
            bare_first.append(time.perf_counter() - began)
            await stream.aclose()
            served_first.append(await first_step(client, url, question))
    return [
        Line("engine alone, a question", 1000 * median(bare), "ms"),
        Line("added by the server, a question", 1000 * (median(served.seconds) - median(bare)), "ms", 5),
        Line("added by the server, first step", 1000 * (median(served_first) - median(bare_first)), "ms", 50),
        Line("errors, one after another", len(served.errors), most=0),
    ]


def under_load(url: str, process: int, seconds: float) -> list[Line]:
    """Measure many clients, without and with slow readers."""
    asked, (early, late) = asyncio.run(load(url, seconds, lambda: megabytes(process)))
    beside, _ = asyncio.run(_beside_slow(url, max(2.0, seconds / 4)))
    for error in (*asked.errors, *beside.errors)[:5]:
        print(error, file=sys.stderr)
    p50, p99 = asked.percentile(50), asked.percentile(99)
    return [
        Line(f"questions a second, {CLIENTS} clients", len(asked.seconds) / seconds),
        Line("errors", len(asked.errors), most=0),
        Line("p50", p50, "ms"),
        Line("p99", p99, "ms"),
        Line("p99 over p50", p99 / p50, most=2.0),
        Line("memory after a third", early, "MB"),
        Line("memory grown since", 100 * (late / early - 1), "%", 5.0),
        Line(f"errors beside {SLOW} slow readers", len(beside.errors), most=0),
        Line("p50 beside them over p50", beside.percentile(50) / p50, most=1.25),
        Line("p99 beside them", beside.percentile(99), "ms"),
    ]


async def _beside_slow(url: str, seconds: float) -> tuple[Asked, list[float]]:
    slow = [asyncio.ensure_future(read_slowly(url)) for _ in range(SLOW)]
    try:
        return await load(url, seconds)
    finally:
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)


async def open_streams(url: str, process: int) -> list[Line]:
    """Open many streams at once, serve other requests meanwhile, then disconnect all."""
    before = megabytes(process)
    async with AsyncExitStack() as leaving, session() as client:
        began = time.perf_counter()
        opened = await asyncio.gather(*(open_stream(url) for _ in range(STREAMS)), return_exceptions=True)
        seconds = time.perf_counter() - began
        streams = [each for each in opened if not isinstance(each, BaseException)]
        for _, writer in streams:
            leaving.callback(writer.close)
        running = await gauge(client, url)
        held = megabytes(process) - before
        searches = Asked()
        for question in QUESTIONS[:50]:
            start = time.perf_counter()
            async with client.post(f"{url}/v1/search", json={"query": question}) as response:
                if response.status != 200:
                    searches.errors.append(str(response.status))
            searches.seconds.append(time.perf_counter() - start)
    return [
        Line("open streams", len(streams)),
        Line("streams that failed", STREAMS - len(streams), most=0),
        Line("of them not under way", STREAMS - running, most=0),
        Line("seconds to open them", seconds, "s"),
        Line("memory a stream", 1024 * held / max(1, len(streams)), "kB"),
        Line("a search beside them, p50", searches.percentile(50), "ms", 50),
        Line("errors of searches", len(searches.errors), most=0),
        Line("seconds until all work has ended", await until_idle(url), "s", 5),
    ]


async def gauge(client: aiohttp.ClientSession, url: str) -> int:
    """Return the number of running questions."""
    async with client.get(f"{url}/metrics") as response:
        lines: Iterable[str] = (await response.text()).splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("polyhop_questions_running "))


async def until_idle(url: str) -> float:
    """Return the seconds until nothing is running; about 30 if that does not happen."""
    began = time.perf_counter()
    async with session() as client:
        for _ in range(600):
            if not await gauge(client, url):
                break
            await asyncio.sleep(0.05)
    return time.perf_counter() - began


async def batches(url: str, index: Index, queries: Sequence[str], rounds: int) -> list[Line]:
    """Measure a batch over HTTP, alternating with the index alone; both find the same passages."""
    bm25, served, alone = BM25(index), list[float](), list[float]()
    body = {"queries": queries, "topk": TOP, "return_scores": True}
    async with session() as client:
        for _ in range(rounds + 1):  # the first warms both up
            began = time.perf_counter()
            found = bm25.search_many_scored(queries, TOP)
            alone.append(time.perf_counter() - began)
            began = time.perf_counter()
            async with client.post(f"{url}/retrieve", json=body) as response:
                reply = orjson.loads(await response.read())["result"]
            served.append(time.perf_counter() - began)
            ids = [[row["document"]["id"] for row in rows] for rows in reply]
            assert ids == [[passage.id for passage, _ in hits] for hits in found]
    own, over = median(alone[1:]), median(served[1:])
    return [
        Line(f"index alone, {len(queries)} queries, top {TOP}", len(queries) / own, "/s"),
        Line("the same by /retrieve", len(queries) / over, "/s"),
        Line("time of a batch over the index's own", over / own, most=1 / 0.9),
    ]


def over_synthetic(method: str, passages: int, rounds: int) -> list[Line]:
    """Measure batches over an index of synthetic passages."""
    made = Synthetic(passages)
    with tempfile.TemporaryDirectory(prefix="polyhop-bench-") as folder:
        index = build_index(polyhop.open_corpus(made), Path(folder) / "index", links=False)
        with server(method, 0.0, str(index.folder)) as (url, _):
            return asyncio.run(batches(url, index, made.queries(BATCH), rounds))


def main() -> None:
    """Measure, print the table and, with ``--check``, check the bars."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit with 1 when a bar is missed")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the clients ask")
    parser.add_argument("--method", default="iter-retgen", help="the method that is asked; its tasks answer")
    parser.add_argument("--only", choices=["overhead", "load", "streams", "batches"], help="one part alone")
    parser.add_argument("--passages", type=int, default=100_000, help="how many the batches are searched in")
    parser.add_argument("--serve", nargs=3, metavar=("LATENCY", "PORT", "CORPUS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        latency, port, corpus = options.serve
        serve(options.method, float(latency), int(port), corpus)
        return
    allow_files()
    lines: list[Line] = []
    parts = [options.only] if options.only else ["overhead", "load", "streams", "batches"]
    if "overhead" in parts:
        with server(options.method, 0.0) as (url, _):
            lines += asyncio.run(overhead(options.method, url, times=max(20, int(3 * options.seconds))))
    if "load" in parts:
        with server(options.method, LATENCY) as (url, process):
            lines += under_load(url, process, options.seconds)
    if "streams" in parts:
        with server(options.method, 60.0) as (url, process):
            lines += asyncio.run(open_streams(url, process))
    if "batches" in parts:
        lines += over_synthetic(options.method, options.passages, rounds=max(5, int(options.seconds / 4)))
    for line in lines:
        bar = "" if line.most is None else f"at most {line.most:g}{'  MISSED' if line.missed else ''}"
        print(f"{line.name:<36}{line.value:>10.2f} {line.unit:<4}{bar}")
    if options.check and any(line.missed for line in lines):
        sys.exit(1)


if __name__ == "__main__":
    main()
