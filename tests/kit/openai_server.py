"""A faithful OpenAI-compatible server on loopback: scripted answers, recorded requests, faults on demand.

In a test, ``async with FakeServer(reply) as server`` and give a client ``server.url``. As a separate process, ``python
-m tests.kit.openai_server --latency 0.1`` prints its URL and answers every call with one fixed body.

It behaves as real servers do: ``model`` and ``messages`` or ``prompt`` are required, ``stop`` cuts the text,
``logprobs`` come in the shape of the endpoint, ``echo`` and ``prompt_logprobs`` score the prompt by a bigram model,
``stream`` gets events in the server's ``dialect``, errors have OpenAI's body. Attributes set the differences between
servers.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import re
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal, Self, TypeVar

import orjson
from aiohttp import web

from tests.kit.streams import Dialect, in_events

TOKEN = re.compile(r"\s*(?:\w+|[^\w\s])|\s+")
TEXT = "The answer is Paris."


def tokenise(text: str) -> list[str]:
    """The server's tokens: words and marks, each with the space before it; joined they are the text."""
    return TOKEN.findall(text)


def logprob(token: str) -> float:
    """The log-probability the server gives a token it generates: any fixed function of it will do."""
    return -(len(token) % 7 + 1) / 8


def bigrams(tokens: Sequence[str]) -> list[float | None]:
    """The log-probability of each token of a prompt after the one before it, None for the first: a model of 997 words
    whose weights are fixed by the two tokens."""
    pairs = (zlib.crc32(f"{before}|{token}".encode()) % 997 + 1 for before, token in pairwise(tokens))
    return [None, *(math.log(weight / (997 * 998 / 2)) for weight in pairs)] if tokens else []


def spaceless(token: str) -> str:
    """A token as tokenizers show it that decode it alone: without the space before it."""
    return token.removeprefix(" ")


def shown_in_pieces(token: str) -> list[str]:
    """A token as byte-level tokenizers split and show it: a character beyond ASCII is a mark for each of its bytes."""
    parts = re.findall(r"[\x00-\x7f]+|[^\x00-\x7f]", token)
    return [one for part in parts for one in ([part] if part.isascii() else ["\ufffd"] * len(part.encode()))]


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One scripted answer."""

    text: str | None = TEXT
    finish_reason: str = "stop"
    reasoning: str | None = None
    refusal: str | None = None
    tokens: tuple[str, ...] | None = None
    usage: bool = True
    alternatives: Mapping[str, float] = field(default_factory=dict)
    """The log-probabilities of the alternatives to every token, if they are asked for."""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    """Names and arguments of tool calls. Without tools in the request they are text, as Hermes writes them."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault of one request: an error status, a body that is no reply, or a broken connection."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    wire: Literal["ok", "hang", "drip", "reset", "cut", "drop", "twice"] = "ok"


HANG = Fault(wire="hang")
"""Never answers."""
DRIP = Fault(wire="drip")
"""Sends the answer one byte at a time, one every ``FakeServer.drip`` seconds."""
RESET = Fault(wire="reset")
"""Resets the connection in the middle of the body."""
CUT = Fault(wire="cut")
"""Closes the connection in the middle of the body, though the length was announced."""
DROP = Fault(wire="drop")
"""Closes the connection without a word."""
TWICE = Fault(wire="twice")
"""Sends the whole answer, and the same once more ``FakeServer.second_copy`` seconds later."""
NOT_JSON = Fault(body=b"<html>Bad gateway</html>")
CUT_JSON = Fault(body=b'{"id":"x","choices":[{"index":0,"message":{"role":"assis')
EMPTY_BODY = Fault(body=b"")
EMPTY_CHOICES = Fault(body=b'{"id":"x","object":"chat.completion","choices":[]}')
WRONG_SHAPE = Fault(body=b'{"choices":[{"index":0,"message":"hello"}]}')


def error_body(message: str, *, kind: str = "invalid_request_error", **more: Any) -> bytes:
    """An error as OpenAI words it; ``more`` may give ``param`` and ``code``."""
    return orjson.dumps({"error": {"message": message, "type": kind, "param": None, "code": None, **more}})


def failing(status: int, message: str = "scripted fault", *, headers: Mapping[str, str] | None = None) -> Fault:
    """A fault that is an error status with OpenAI's error body."""
    return Fault(status=status, headers=headers or {}, body=error_body(message))


@dataclass(frozen=True)
class Received:
    """One request as it came: path, headers, parsed body and what stood after the ``?``."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    query: str = ""


Script = Callable[[Mapping[str, Any]], "str | Reply"]


def in_hermes_form(call: tuple[str, Mapping[str, Any]]) -> str:
    """A call as models of Hermes' and Qwen's training write it."""
    return f"<tool_call>\n{orjson.dumps({'name': call[0], 'arguments': call[1]}).decode()}\n</tool_call>\n"


def thinker(tokens: int, text: str | Callable[[Mapping[str, Any]], str] = TEXT) -> Script:
    """A model that thinks for so many tokens before it says ``text``: a cap that is no higher leaves nothing of it."""

    def reply(body: Mapping[str, Any]) -> Reply:
        cap = body.get("max_tokens", body.get("max_completion_tokens", 16))
        if cap <= tokens:
            return Reply(text="", finish_reason="length", reasoning="Hm.")
        return Reply(text=text if isinstance(text, str) else text(body), reasoning="Hm. Yes.")

    return reply


class FakeServer:
    """The server; its settings are plain attributes and may be changed while it runs.

    ``faults`` are used up in order, one per completion request, None for a good answer. ``rejects`` maps a parameter to
    the message of the 400 that any request with it gets. ``api_key`` is the only accepted key, if there is one.
    ``context`` is the maximum number of tokens of prompt and answer together.

    For scoring: ``echoes`` and ``prompt_logprobs`` say which form is accepted, ``lists`` whether several prompts are,
    ``least`` is the smallest ``max_tokens``; ``bos`` puts a start token before a scored prompt, as some tokenizers do;
    ``show`` is the text of a token, or its pieces; ``generated`` says whether an echo has the generated token too;
    ``offsets`` whether ``text_offset`` is right, left out (None), or useless, as SGLang's and vLLM's are (False).
    """

    def __init__(
        self,
        reply: str | Reply | Script = TEXT,
        *,
        latency: float = 0.0,
        faults: Iterable[Fault | None] = (),
        models: tuple[str, ...] = ("tiny",),
        any_model: bool = True,
        api_key: str | None = None,
    ) -> None:
        self.reply, self.latency, self.models, self.any_model, self.api_key = reply, latency, models, any_model, api_key
        self.faults: deque[Fault | None] = deque(faults)
        self.rejects: dict[str, str] = {}
        self.context = 10**9
        self.bos = ""
        self.echoes = self.prompt_logprobs = self.lists = True
        self.generated = True
        self.least = 0
        self.offsets: bool | None = True
        self.show: Callable[[str], str | list[str]] = str
        self.dialect = Dialect()
        self.drip = 0.05
        self.second_copy = 0.0
        self.requests: list[Received] = []
        self.under_way = self.most_under_way = 0
        self.url = ""
        self._came = asyncio.Event()
        self._runner: web.ServerRunner | None = None
        self._fixed: dict[str, bytes] | None = None

    @classmethod
    def fixed(cls, text: str = TEXT, *, latency: float = 0.0) -> Self:
        """A server for benchmarks: one answer, its bytes made beforehand, requests read but neither parsed nor kept."""
        server = cls(text, latency=latency)
        server._fixed = {
            "/v1/chat/completions": server._chat({"model": "tiny", "messages": []}, Reply(text=text)),
            "/v1/completions": server._completion({"model": "tiny", "prompt": ""}, Reply(text=text)),
        }
        return server

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self, port: int = 0) -> str:
        """Listen on loopback (on a free port for 0) and give the base URL."""
        handler = self._answer_fixed if self._fixed is not None else self._answer
        self._runner = web.ServerRunner(web.Server(handler, access_log=None), shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}/v1"
        return self.url

    async def stop(self) -> None:
        """Stop listening and drop running requests."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def until(self, count: int) -> None:
        """Wait until ``count`` completion requests have arrived."""
        while len(self.requests) < count:
            self._came.clear()
            await self._came.wait()

    @property
    def connections(self) -> int:
        """The number of open connections."""
        assert self._runner is not None
        assert self._runner.server is not None
        transports = [each.transport for each in self._runner.server.connections]
        return sum(transport is not None and not transport.is_closing() for transport in transports)

    async def _answer_fixed(self, request: web.BaseRequest) -> web.StreamResponse:
        await request.read()
        await asyncio.sleep(self.latency)
        assert self._fixed is not None
        return web.Response(body=self._fixed[request.path], content_type="application/json")

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            return await self._serve(request)
        finally:
            self.under_way -= 1

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        key = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.api_key is not None and key != self.api_key:
            return _error(401, f"Incorrect API key provided: {key}.", code="invalid_api_key")
        if request.path == "/v1/models":
            rows = [{"id": name, "object": "model", "created": 0, "owned_by": "kit"} for name in self.models]
            return _body(orjson.dumps({"object": "list", "data": rows}))
        if request.path not in ("/v1/chat/completions", "/v1/completions"):
            return _error(404, f"Invalid URL (POST {request.path})")
        body = orjson.loads(await request.read())
        self.requests.append(Received(request.path, dict(request.headers), body, request.query_string))
        self._came.set()
        if self.latency:
            await asyncio.sleep(self.latency)
        fault = await self._fault(body)
        if fault is not None and fault.wire == "ok":
            return _body(fault.body or b"", fault.status, fault.headers)
        if refusal := self._refuse(request.path, body):
            return refusal
        scripted = self.reply(body) if callable(self.reply) else self.reply
        reply = Reply(text=scripted) if isinstance(scripted, str) else scripted
        answer = self._chat(body, reply) if request.path == "/v1/chat/completions" else self._completion(body, reply)
        kind = "application/json"
        if body.get("stream"):
            with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
            answer, kind = in_events(orjson.loads(answer), self.dialect, with_usage=with_usage), "text/event-stream"
        return _body(answer, kind=kind) if fault is None else await self._trouble(request, fault, answer, kind)

    async def _fault(self, body: Mapping[str, Any]) -> Fault | None:
        """The fault of a request, None if it gets an answer."""
        return self.faults.popleft() if self.faults else None

    async def _trouble(
        self, request: web.BaseRequest, fault: Fault, answer: bytes, kind: str = "application/json"
    ) -> web.StreamResponse:
        transport = request.transport
        if fault.wire == "hang":
            await asyncio.Event().wait()
        if fault.wire == "drop" and transport is not None:
            transport.close()
            return web.Response()
        response = web.StreamResponse(headers={"Content-Type": kind})
        response.content_length = len(answer)
        await response.prepare(request)
        if fault.wire == "drip":
            for byte in answer:
                await response.write(bytes([byte]))
                await asyncio.sleep(self.drip)
            return response
        if fault.wire == "twice" and transport is not None:
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(answer)}\r\n\r\n"
            await response.write(answer)
            if self.second_copy:
                asyncio.get_running_loop().call_later(self.second_copy, transport.write, head.encode() + answer)
            else:
                transport.write(head.encode() + answer)
            return response
        await response.write(answer[: len(answer) // 2])
        if transport is not None:
            transport.abort() if fault.wire == "reset" else transport.close()
        return response

    def _refuse(self, path: str, body: Mapping[str, Any]) -> web.Response | None:
        needed = "messages" if path == "/v1/chat/completions" else "prompt"
        for name in ("model", needed):
            if name not in body:
                return _error(400, f"Missing required parameter: '{name}'.", param=name)
        if not self.any_model and body["model"] not in self.models:
            return _error(404, f"The model `{body['model']}` does not exist", code="model_not_found")
        if isinstance(body.get("prompt"), list) and not self.lists:
            return _error(500, "")  # an assertion of llama-cpp-python's server
        if body.get("max_tokens", 16) < self.least:
            return _error(
                400, f"max_tokens must be at least {self.least}, got {body['max_tokens']}.", param="max_tokens"
            )
        for name, message in self.rejects.items():
            if name in body:
                return _error(400, message, param=name, code="unsupported_parameter")
        most = body.get("max_tokens", body.get("max_completion_tokens", 16))
        asked = len(tokenise(_prompt_text(body)))
        if asked + most > self.context:
            return _error(
                400,
                f"This model's maximum context length is {self.context} tokens. However, you requested "
                f"{asked + most} tokens ({asked} in the messages, {most} in the completion).",
                param="messages",
                code="context_length_exceeded",
            )
        return None

    def _chat(self, body: Mapping[str, Any], reply: Reply) -> bytes:
        text, finish_reason = _stopped(body, reply)
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": reply.refusal}
        if reply.reasoning is not None:
            message["reasoning_content"] = reply.reasoning
        choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": finish_reason, "logprobs": None}
        if reply.calls and body.get("tools"):
            message["tool_calls"] = self.tool_calls(reply.calls)
            choice["finish_reason"] = "tool_calls"
        elif reply.calls:
            message["content"] = text = (text or "") + "".join(map(in_hermes_form, reply.calls))
        tokens = reply.tokens or tuple(tokenise(text or ""))
        if body.get("logprobs"):
            asked = list(reply.alternatives.items())[: body.get("top_logprobs", 0)]
            others = [{"token": token, "logprob": value, "bytes": None} for token, value in asked]
            choice["logprobs"] = {
                "content": [
                    {"token": token, "logprob": logprob(token), "bytes": list(token.encode()), "top_logprobs": others}
                    for token in tokens
                ]
            }
        return _reply_body("chatcmpl-kit", "chat.completion", body, [choice], len(tokens), reply)

    def tool_calls(self, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> Any:
        """Calls as OpenAI sends them."""
        return [
            {
                "id": f"call_{zlib.crc32(name.encode()):08x}{i:016x}",
                "type": "function",
                "function": {"name": name, "arguments": orjson.dumps(arguments).decode()},
            }
            for i, (name, arguments) in enumerate(calls)
        ]

    def _completion(self, body: Mapping[str, Any], reply: Reply) -> bytes:
        prompts = body["prompt"] if isinstance(body["prompt"], list) else [body["prompt"]]
        choices, made = [], 0
        for index, prompt in enumerate(prompts):
            choice, count = self._choice(body, prompt, reply)
            choices.append({"index": index, **choice})
            made += count
        return _reply_body("cmpl-kit", "text_completion", body, choices[::-1], made, reply)  # the order is no matter

    def _choice(self, body: Mapping[str, Any], prompt: str, reply: Reply) -> tuple[dict[str, Any], int]:
        """One choice, and how many tokens of it were generated."""
        text, finish_reason = _stopped(body, reply)
        tokens = list(reply.tokens or tokenise(text or ""))
        if (most := body.get("max_tokens", 16)) < 2:
            tokens = tokens[:most]
            text = "".join(tokens)
        made, offset = len(tokens), len(prompt)
        values: list[float | None] = [logprob(token) for token in tokens]
        scored = self.scored(prompt)
        if body.get("echo") and self.echoes:
            tokens = [token for token, _ in scored] + (tokens if self.generated else [])
            values = [value for _, value in scored] + (values if self.generated else [])
            text, offset = prompt + (text or ""), 0
        choice: dict[str, Any] = {"text": text, "finish_reason": finish_reason, "logprobs": None}
        if body.get("logprobs") is not None:
            others = [dict(reply.alternatives)] * len(tokens) if reply.alternatives else None
            choice["logprobs"] = {"tokens": tokens, "token_logprobs": values, "top_logprobs": others}
            if self.offsets is not None:
                starts = [offset + sum(map(len, tokens[:i])) for i in range(len(tokens))]
                choice["logprobs"]["text_offset"] = starts if self.offsets else [-1] * len(tokens)
        if body.get("prompt_logprobs") is not None and self.prompt_logprobs:
            choice["prompt_logprobs"] = [
                None if value is None else {str(n): _vllm(token, value), "7": _vllm(" the", -0.5)}
                for n, (token, value) in enumerate(scored, 1000)
            ]
        return choice, made

    def scored(self, prompt: str) -> list[tuple[str, float | None]]:
        """The prompt's tokens as they are shown, with their log-probabilities."""
        tokens = ([self.bos] if self.bos else []) + tokenise(prompt)
        pieces = [[shown] if isinstance(shown := self.show(token), str) else shown for token in tokens]
        return [
            (piece, None if value is None and n == 0 else (value or -1.0) / len(shown))
            for value, shown in zip(bigrams(tokens), pieces, strict=True)
            for n, piece in enumerate(shown)
        ]


Server = TypeVar("Server", bound=FakeServer)


@contextmanager
def in_thread(server: Server) -> Iterator[Server]:
    """The server, running on a loop and a thread of its own, for tests that wait for ordinary code."""
    started, loops = threading.Event(), list[asyncio.AbstractEventLoop]()
    stop = asyncio.Event()

    async def serve() -> None:
        async with server:
            loops.append(asyncio.get_running_loop())
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    started.wait(10)
    try:
        yield server
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join()


def _vllm(token: str, value: float) -> dict[str, Any]:
    return {"logprob": value, "rank": 1, "decoded_token": token}


def _stopped(body: Mapping[str, Any], reply: Reply) -> tuple[str | None, str]:
    """The text up to the first stop sequence asked for."""
    stops = body.get("stop") or []
    positions = [
        at for stop in ([stops] if isinstance(stops, str) else stops) if (at := (reply.text or "").find(stop)) >= 0
    ]
    return (
        (reply.text[: min(positions)], "stop")
        if positions and reply.text is not None
        else (reply.text, reply.finish_reason)
    )


def _prompt_text(body: Mapping[str, Any]) -> str:
    if isinstance(body.get("prompt"), list):
        return "".join(body["prompt"])
    return str(body.get("prompt") or "".join(str(message["content"] or "") for message in body.get("messages", ())))


def _reply_body(
    name: str, kind: str, body: Mapping[str, Any], choices: Sequence[Mapping[str, Any]], made: int, reply: Reply
) -> bytes:
    row: dict[str, Any] = {"id": name, "object": kind, "created": 0, "model": body["model"], "choices": choices}
    if reply.usage:
        asked = len(tokenise(_prompt_text(body)))
        row["usage"] = {"prompt_tokens": asked, "completion_tokens": made, "total_tokens": asked + made}
    return orjson.dumps(row)


def _body(
    body: bytes, status: int = 200, headers: Mapping[str, str] | None = None, kind: str = "application/json"
) -> web.Response:
    return web.Response(body=body, status=status, headers=headers, content_type=kind)


def _error(status: int, message: str, **more: Any) -> web.Response:
    return _body(error_body(message, **more), status)


async def _main(latency: float, port: int, text: str) -> None:
    server = FakeServer.fixed(text, latency=latency)
    print(await server.start(port), flush=True)  # noqa: T201
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="An OpenAI-compatible server on loopback with one fixed answer.")
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before an answer")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--text", default=TEXT, help="the answer")
    options = parser.parse_args()
    asyncio.run(_main(options.latency, options.port, options.text))
