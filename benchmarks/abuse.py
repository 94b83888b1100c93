"""A server under load and abuse: what its honest clients see meanwhile, what is left behind, and if it stops in time.

    python -m benchmarks.abuse --check
    python -m benchmarks.abuse --only crowd,stop --clients 200

The server is ``polyhop serve`` on loopback, over the demo's corpus with a method of several calls, in front of a model
server that counts its calls. All the while, a thread asks for ``/health`` on new connections:

- *crowd*: 1,000 clients ask at once, streams and whole answers in turn; half of them leave in the middle.
- *slow*: heads, bodies and readers that take for ever and streams that are never read, 100 of each, and honest clients
  beside them, until all that do not go on have been cut off.
- *wrong*: bodies too large, announced, in chunks and never sent; and 1,000 malformed requests.
- *costly*: a million for each setting of each method; then eight clients that ask dear questions, and leave.
- *row*: 10,000 requests of all kinds one after another, right and wrong; memory after 2,000, when as many traces as may
  be are kept, and at the end.
- *stop*: a signal while streams, chats, answers and slow clients are under way.

Seconds are the server's own: the time that it waited for a processor is left out. ``--check`` exits with 1 when a bar
is missed. Needs the extra ``serve``.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import re
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from benchmarks.attacked import HEALTH_SECONDS, Health, Served, connected, malformed, posting, sent, serving
from benchmarks.figures import Figure, conclude, parser
from benchmarks.server import QUESTIONS, allow_files, session

from polyhop.methods.registry import methods

# --- clients ---------------------------------------------------------------------------------------------------------


async def ask(client: aiohttp.ClientSession, url: str, number: int) -> str:
    """Ask a question, every second one as a stream; return what came of it: "right", or what was wrong."""
    body = {"question": QUESTIONS[number % len(QUESTIONS)], "stream": bool(number % 2)}
    try:
        async with client.post(f"{url}/v1/ask", json=body) as response:
            text = await response.text()
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return f"{type(error).__name__}: {error}"[:200]
    if body["stream"]:
        return "right" if "event: answer\n" in text and "Oslo" in text else f"{response.status}: {text[-200:]}"
    return "right" if response.status == 200 and "Oslo" in text else f"{response.status}: {text[:200]}"


ASKING = orjson.dumps({"question": QUESTIONS[0]})
STREAMING = orjson.dumps({"question": QUESTIONS[0], "stream": True})


# --- the parts -------------------------------------------------------------------------------------------------------


async def crowd(served: Served, count: int) -> list[Figure]:
    """Ask with all clients at once; half of them leave after up to half a second."""
    rng = random.Random(1)
    slow_half = rng.sample(range(count), count // 2)
    patience = {number: rng.uniform(0.05, 1.0) for number in slow_half}

    async def one(client: aiohttp.ClientSession, number: int) -> str | None:
        try:
            async with asyncio.timeout(patience.get(number)):
                return await ask(client, served.url, number)
        except TimeoutError:
            return None

    with Health(served.url, served.process.pid) as health:
        async with session() as client:
            came = await asyncio.gather(*(one(client, number) for number in range(count)))
        idle = await served.until_idle()
        calls = served.model.calls
        await asyncio.sleep(1)
        after = served.model.calls - calls
    wrong = Counter(str(each) for number, each in enumerate(came) if number not in patience and each != "right")
    show(wrong)
    return [
        Figure("crowd: clients", count, " at once"),
        Figure("crowd: left in the middle", came.count(None), ""),
        Figure("crowd: wrong answers of those that stayed", wrong.total(), " answers", most=0),
        Figure("crowd: work ended after the last answer", idle, " s", most=2),
        Figure("crowd: model calls for clients that left", after, " calls", most=0),
        *health.figures("crowd"),
    ]


async def slow(served: Served, count: int) -> list[Figure]:
    """Honest clients beside slow heads, bodies and readers; and the connections that are left at the end."""
    kinds: Mapping[str, bytes] = {
        "heads": b"POST /v1/ask HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        "bodies": posting("/v1/ask", ASKING[:5], length=len(ASKING)),
        "bodies in chunks": posting("/v1/ask", b"1\r\n{\r\n", "Transfer-Encoding: chunked", length=-1),
        "nothing": b"",
        "streams never read": posting("/v1/ask", STREAMING),
        "large answers never read": posting("/retrieve", orjson.dumps({"queries": QUESTIONS * 10, "topk": 20})) * 20,
    }
    with contextlib.ExitStack() as open_ones, Health(served.url, served.process.pid) as health:
        held: dict[str, list[socket.socket]] = {kind: [] for kind in kinds}
        for kind, text in kinds.items():
            for _ in range(count):
                made = open_ones.enter_context(connected(served.url, small=kind.endswith("read")))
                made.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    made.send(text)
                held[kind].append(made)
        began, seconds, answers = time.perf_counter(), 0.0, Counter[str]()
        async with session() as client:
            for number in itertools.count():
                if (seconds := time.perf_counter() - began) > 90 or (seconds > 20 and served.connections < 5):
                    break
                answers[await ask(client, served.url, number)] += 1
                for made in (*held["heads"], *held["bodies"]):
                    with contextlib.suppress(OSError):
                        made.send(b"x" if made in held["bodies"] else b"X-More: more\r\n")
                await asyncio.sleep(0.2)
    right = answers.pop("right", 0)
    show(answers)
    return [
        Figure("slow: clients of each of six kinds", count, ""),
        Figure("slow: honest answers beside them", right, ""),
        Figure("slow: wrong answers beside them", answers.total(), " answers", most=0),
        Figure("slow: all cut off after", seconds, " s", most=60),
        *health.figures("slow"),
    ]


async def wrong(served: Served, count: int) -> list[Figure]:
    """Bodies too large and malformed requests; the memory before and after."""
    before = served.memory
    large = b"x" * 3_000_000
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    bodies = {
        "announced": posting("/v1/ask", large),
        "never sent": posting("/v1/ask", b"", length=10**12),
        "awaiting": posting("/v1/ask", b"", "Expect: 100-continue", length=10**12),
        "in chunks": posting("/v1/ask", chunk * 40, "Transfer-Encoding: chunked", length=-1),
    }
    refused, seconds = Counter[str](), 0.0
    with Health(served.url, served.process.pid) as health:
        for kind, content in bodies.items():
            for _ in range(max(1, count // 50)):
                began = time.perf_counter()
                text = await asyncio.to_thread(sent, served.url, content)
                seconds = max(seconds, time.perf_counter() - began)
                refused[kind] += text.startswith(b"HTTP/1.1 413") or (kind != "never sent" and not text)
        missed = max(1, count // 50) * len(bodies) - refused.total()
        show(Counter({kind: number for kind, number in refused.items() if number < max(1, count // 50)}))
        statuses = Counter[str]()
        for number in range(count):
            text = await asyncio.to_thread(sent, served.url, malformed(random.Random(number)), close=True)
            statuses[text[9:12].decode("ascii", "replace") or "closed"] += 1
        await served.until_idle()
    print(f"malformed requests: {dict(statuses.most_common())}", flush=True)
    failed = sum(number for status, number in statuses.items() if status.startswith("5"))
    return [
        Figure("wrong: bodies too large not refused", missed, " bodies", most=0),
        Figure("wrong: slowest refusal", seconds, " s", most=HEALTH_SECONDS),
        Figure("wrong: malformed requests", count, ""),
        Figure("wrong: answered as a failure of the server", failed, " answers", most=0),
        Figure("wrong: memory grown", served.memory - before, " MB", most=20),
        *health.figures("wrong"),
    ]


async def costly(served: Served) -> list[Figure]:
    """Settings that would cost a day are refused; the dearest allowed ones end with their client."""
    accepted, asked = Counter[str](), 0
    with Health(served.url, served.process.pid) as health:
        async with session() as client:
            for method in methods().values():
                for setting in method.settings.values():
                    if "int" not in str(setting.type) or method.reads_gold or setting.name.endswith("seed"):
                        continue
                    body = {"question": QUESTIONS[0], "method": method.name, "settings": {setting.name: 10**6}}
                    if isinstance(setting.default, tuple):
                        body["settings"] = {setting.name: [10**6] * 3}
                    async with client.post(f"{served.url}/v1/ask", json=body) as response:
                        text = await response.text()
                    asked += 1
                    if response.status != 400 or setting.name not in text:
                        accepted[f"{method.name} {setting.name}: {response.status} {text[:120]}"] += 1
            show(accepted)
            dear = {"question": QUESTIONS[0], "method": "dsp", "settings": {"samples": 100, "queries": 100, "k": 100}}
            async with asyncio.TaskGroup() as group:
                for _ in range(8):
                    group.create_task(left_after(client, served.url, dear, 3.0))
        idle, calls = await served.until_idle(), served.model.calls
        await asyncio.sleep(1)
    return [
        Figure("costly: settings of 1,000,000", asked, ""),
        Figure("costly: not refused by name", accepted.total(), " settings", most=0),
        Figure("costly: model calls of eight dear questions", calls, ""),
        Figure("costly: model calls after they left", served.model.calls - calls, " calls", most=0),
        Figure("costly: work ended after they left", idle, " s", most=2),
        *health.figures("costly"),
    ]


async def left_after(client: aiohttp.ClientSession, url: str, body: Any, seconds: float) -> None:
    """Ask, and leave after so many seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds), client.post(f"{url}/v1/ask", json=body) as response:
            await response.read()


async def row(served: Served, count: int) -> list[Figure]:
    """All kinds of requests one after another."""
    chat = {"messages": [{"role": "user", "content": QUESTIONS[1]}]}
    kinds: list[tuple[str, Any, int]] = [
        ("/v1/ask", {"question": QUESTIONS[0], "method": "one-r"}, 200),
        ("/v1/ask", {"question": QUESTIONS[2], "method": "one-r", "stream": True}, 200),
        ("/v1/chat/completions", {**chat, "model": "one-r"}, 200),
        ("/v1/chat/completions", {**chat, "model": "one-r", "stream": True}, 200),
        ("/v1/search", {"query": QUESTIONS[3]}, 200),
        ("/retrieve", {"queries": QUESTIONS[:5], "topk": 3}, 200),
        ("/v1/ask", {"question": ""}, 422),
        ("/v1/ask", {"question": "?", "settings": {"k": 10**6}}, 400),
        ("/v1/ask", {"question": "x" * 1_100_000}, 413),
        ("/nothing", {}, 404),
    ]
    held, wrong = list[float](), Counter[str]()
    with Health(served.url, served.process.pid) as health:
        async with session() as client:
            for number in range(count):
                path, body, status = kinds[number % len(kinds)]
                async with client.post(served.url + path, json=body) as response:
                    text = await response.text()
                if response.status != status:
                    wrong[f"{path}: {response.status} {text[:100]}"] += 1
                if (number + 1) % (count // 10) == 0:
                    held.append(served.memory)
    show(wrong)
    print(f"memory after each tenth: {', '.join(f'{each:.1f}' for each in held)} MB", flush=True)
    return [
        Figure("row: requests one after another", count, ""),
        Figure("row: answered otherwise than they should be", wrong.total(), " answers", most=0),
        Figure("row: memory after a fifth", held[1], " MB"),
        Figure("row: memory grown since", 100 * (held[-1] / held[1] - 1), " %", most=2),
        *health.figures("row"),
    ]


async def stop(served: Served, count: int) -> list[Figure]:
    """Send a signal while clients of every kind wait; each must be told how it ends."""

    async def ending(path: str, body: Any) -> str:
        try:
            async with client.post(served.url + path, json=body) as response:
                text = await response.text()  # an error if it is cut
        except (aiohttp.ClientError, OSError) as error:
            return f"{path} {type(error).__name__}: {error}"[:200]
        ends = text.startswith('{"error"') and response.status == 503 if not body.get("stream") else False
        ends = ends or (
            response.status == 200 and text.endswith("\n\n") and '"type":"stopping"' in text.splitlines()[-2]
        )
        return "ended" if ends else f"{path} {response.status}: {text[-200:]}"

    chat = {"messages": [{"role": "user", "content": QUESTIONS[1]}]}
    kinds: list[tuple[str, Any]] = [
        ("/v1/ask", {"question": QUESTIONS[0]}),
        ("/v1/ask", {"question": QUESTIONS[0], "stream": True}),
        ("/v1/chat/completions", chat),
        ("/v1/chat/completions", {**chat, "stream": True}),
    ]
    with contextlib.ExitStack() as open_ones:
        for content in (posting("/v1/ask", STREAMING), posting("/v1/ask", ASKING[:5], length=99), b"POST /", b""):
            for _ in range(count // 10):
                open_ones.enter_context(connected(served.url, small=True)).sendall(content)
        async with session() as client:
            waiting = [asyncio.ensure_future(ending(*kind)) for kind in kinds for _ in range(count // 10)]
            await until_under_way(client, served.url, len(waiting) + count // 10)
            served.process.send_signal(signal.SIGTERM)
            stopping = asyncio.ensure_future(served.until_ended())
            ends = Counter(await asyncio.gather(*waiting))
            seconds, code = await stopping, await served.process.wait()
    right = ends.pop("ended", 0)
    show(ends)
    return [
        Figure("stop: clients that were told how it ends", right, ""),
        Figure("stop: half-told or left hanging", ends.total(), " clients", most=0),
        Figure("stop: seconds from the signal to the end", seconds, " s", most=5),
        Figure("stop: exit status", code, " status", most=0),
    ]


async def until_under_way(client: aiohttp.ClientSession, url: str, count: int) -> None:
    """Wait until so many questions run or wait."""
    async with asyncio.timeout(60):
        while True:
            async with client.get(f"{url}/metrics") as response:
                found = re.findall(r"^polyhop_questions_(?:running|waiting) (\d+)", await response.text(), re.MULTILINE)
            if sum(map(int, found)) >= count:
                return
            await asyncio.sleep(0.05)


def show(wrong: Counter[str]) -> None:
    """Print what went wrong, the most frequent first."""
    for what, number in wrong.most_common(8):
        print(f"{number} times: {what}", file=sys.stderr, flush=True)


def main() -> None:
    """Attack, print the table and, asked to, check the bars."""
    made = parser(__doc__)
    made.add_argument("--clients", type=int, default=1000, help="clients at once, and malformed requests")
    made.add_argument("--requests", type=int, default=10_000, help="requests one after another")
    made.add_argument("--only", help="some of the parts, with commas between")
    options = made.parse_args()
    allow_files()
    parts: dict[str, tuple[float, Sequence[str], Callable[[Served], Coroutine[Any, Any, list[Figure]]]]] = {
        "crowd": (0.3, (), lambda served: crowd(served, options.clients)),
        "slow": (0.05, (), lambda served: slow(served, max(1, options.clients // 10))),
        "wrong": (0.05, (), lambda served: wrong(served, options.clients)),
        "costly": (0.05, (), costly),
        "row": (0.0, (), lambda served: row(served, options.requests)),
        "stop": (600.0, (), lambda served: stop(served, max(10, options.clients // 5))),
    }
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="polyhop-bench-") as folder:
        log = Path(folder) / "server.log"
        for name in options.only.split(",") if options.only else parts:
            latency, extra, attack = parts[name]
            figures += asyncio.run(attacked(latency, extra, log, attack))
        lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
        failures = [line for line in lines if line["level"] in ("error", "critical")]
        others = [line for line in log.read_text().splitlines() if not line.startswith("{")]
    show(Counter(str(line)[:1500] for line in failures))
    show(Counter(others))
    figures.append(Figure("errors in the server's log", len(failures), " lines", most=0))
    for figure in figures:
        bar = "" if figure.most is None else f"at most {figure.most:g}{'  MISSED' if figure.missed() else ''}"
        print(f"{figure.name:<48}{figure.value:>10.2f}{figure.unit:<10}{bar}")
    conclude(figures, options)


async def attacked(
    latency: float, options: Sequence[str], log: Path, attack: Callable[[Served], Coroutine[Any, Any, list[Figure]]]
) -> list[Figure]:
    """The figures of an attack on a new server."""
    async with serving(latency, log, *options) as served:
        return await attack(served)


if __name__ == "__main__":
    main()
