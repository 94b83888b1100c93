"""A server under attack: its process, a model server that counts, a watch over ``/health``, and raw connections."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import random
import socket
import sys
import threading
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from benchmarks.figures import Figure
from benchmarks.server import megabytes, until_idle
from tests.kit.openai_server import FakeServer

METHOD = "iter-retgen"
HEALTH_SECONDS = 1.0
ESTABLISHED, CLOSE_WAIT = "01", "08"
"""States of a connection, as the kernel writes them."""


class CountingServer(FakeServer):
    """A model server with one answer; it knows how many calls have come."""

    calls = 0

    async def _answer_fixed(self, request: web.BaseRequest) -> web.StreamResponse:
        self.calls += 1
        return await super()._answer_fixed(request)


def waited(pid: int) -> float:
    """The seconds that a process's first thread has waited for a processor; 0 where the kernel does not say."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, LookupError):
        return 0.0


@dataclass
class Health:
    """Asks for ``/health`` every 50 ms, on a thread and a connection of its own.

    The time in which the machine let the server wait for a processor is not the server's own, and is left out.
    """

    url: str
    pid: int
    slowest: float = 0.0
    failures: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Health:
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        place = urlsplit(self.url)
        while not self._ended.wait(0.05):
            began = time.perf_counter() - waited(self.pid)
            connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=10)
            try:
                connection.request("GET", "/health")
                self.failures += connection.getresponse().status != 200
            except (OSError, http.client.HTTPException):
                self.failures += 1
            finally:
                connection.close()
            self.slowest = max(self.slowest, time.perf_counter() - waited(self.pid) - began)

    def figures(self, part: str) -> list[Figure]:
        """The slowest answer, and those that did not come."""
        return [
            Figure(f"{part}: slowest /health", self.slowest, " s", most=HEALTH_SECONDS),
            Figure(f"{part}: /health failed", self.failures, " times", most=0),
        ]


@dataclass(frozen=True)
class Served:
    """A server that is ready: its address, its process, and the model server behind it."""

    url: str
    process: Process
    model: CountingServer

    @property
    def connections(self) -> int:
        """The number of its clients' connections, those included that only it holds open."""
        here = f":{urlsplit(self.url).port:04X}"
        rows = map(str.split, Path("/proc/net/tcp").read_text().splitlines()[1:])
        return sum(row[1].endswith(here) and row[3] in (ESTABLISHED, CLOSE_WAIT) for row in rows)

    @property
    def waited(self) -> float:
        """The seconds that it has waited for a processor."""
        return waited(self.process.pid)

    async def until_idle(self) -> float:
        """Wait until no work is under way; the seconds, without those in which the machine let it wait."""
        before = self.waited
        seconds = await until_idle(self.url)
        return seconds - (self.waited - before)

    async def until_ended(self) -> float:
        """Wait for the end of its process; the seconds, without those in which the machine let it wait."""
        began, before = time.perf_counter(), self.waited
        lost = 0.0
        async with asyncio.timeout(60):
            while self.process.returncode is None:
                lost = max(lost, self.waited - before)
                await asyncio.sleep(0.01)
        return time.perf_counter() - began - lost

    @property
    def memory(self) -> float:
        """Its memory in MB."""
        return megabytes(self.process.pid)


@asynccontextmanager
async def serving(latency: float, log: Path, *options: str) -> AsyncIterator[Served]:
    """A server in a process of its own, whose model takes ``latency`` seconds a call."""
    model = CountingServer.fixed("The answer is Oslo.", latency=latency)
    async with model:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        place = ["--port", str(port), "--lm", f"openai:tiny@{model.url}", "--method", METHOD, "--no-cache"]
        wide = ["--max-concurrency", "2000", *options]
        with log.open("ab") as stream:
            usual = ["sh", "-c", 'ulimit -S -n 1024 && exec "$@"', "sh"]  # as a login has it
            command = [*usual, sys.executable, "-m", "polyhop", "serve", *place, *wide]
            process = await asyncio.create_subprocess_exec(*command, stderr=stream)
            try:
                await ready(f"http://127.0.0.1:{port}", process)
                yield Served(f"http://127.0.0.1:{port}", process, model)
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()


async def ready(url: str, process: Process) -> None:
    """Wait until the server is ready."""
    async with aiohttp.ClientSession() as client, asyncio.timeout(120):
        while process.returncode is None:
            with contextlib.suppress(aiohttp.ClientError):
                async with client.get(f"{url}/ready") as response:
                    if response.status == 200:
                        return
            await asyncio.sleep(0.1)
    sys.exit("the server did not start")


# --- raw connections ---


@contextmanager
def connected(url: str, *, small: bool = False) -> Iterator[socket.socket]:
    """A connection; with a ``small`` buffer, so that what is not read is soon not sent."""
    place = urlsplit(url)
    with socket.socket() as made:
        if small:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        made.settimeout(60)
        made.connect((str(place.hostname), place.port or 80))
        yield made


def posting(path: str, body: bytes, *lines: str, length: int | None = None) -> bytes:
    """A request as bytes; ``length``: what it says of its body, -1 for nothing."""
    said = len(body) if length is None else length
    head = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", *lines]
    return "\r\n".join([*head, *([f"Content-Length: {said}"] if said >= 0 else []), "", ""]).encode() + body


def said(connection: socket.socket) -> bytes:
    """All that the server says until it closes the connection or a response is whole."""
    parts = b""
    with contextlib.suppress(ConnectionError, TimeoutError):
        while part := connection.recv(1 << 16):
            parts += part
            head, found, body = parts.partition(b"\r\n\r\n")
            length = next(
                (line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b""
            )
            if found and length and len(body) >= int(length):
                break
    return parts


def sent(url: str, content: bytes, *, close: bool = False) -> bytes:
    """Send bytes, and return what the server says to them; ``close``: say that no more comes."""
    with connected(url) as connection:
        connection.settimeout(5)
        with contextlib.suppress(OSError):
            connection.sendall(content)
            if close:
                connection.shutdown(socket.SHUT_WR)
        return said(connection)


def malformed(rng: random.Random) -> bytes:
    """A request with a part cut, doubled, replaced or made of noise."""
    whole = bytearray(posting("/v1/ask", b'{"question": "?", "method": "direct"'))
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(whole))
        end = min(len(whole), start + rng.randint(1, 40))
        pieces = [b"", bytes(whole[start:end]) * 2, rng.randbytes(end - start), b"\r\n", b"\x00", b": ", b"HTTP/9.9"]
        whole[start:end] = rng.choice(pieces)
        whole = whole or bytearray(b"\r\n")
    return bytes(whole)
