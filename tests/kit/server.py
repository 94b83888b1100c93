"""A faithful OpenAI-compatible server on loopback: scripted answers, recorded requests, faults on demand.

In a test, ``async with FakeServer(reply) as server`` and give a client ``server.url``. As a process of its own,
``python -m tests.kit.server --latency 0.1`` prints its URL and answers every call with one fixed body.

It keeps to what real servers do: ``model`` and ``messages`` or ``prompt`` are required, ``stop`` cuts the text,
``logprobs`` come in the shape of the endpoint, ``echo`` scores the prompt, errors have OpenAI's body.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import orjson
from aiohttp import web

TOKEN = re.compile(r"\s*(?:\w+|[^\w\s])|\s+")
TEXT = "The answer is Paris."


def tokenise(text: str) -> list[str]:
    """The server's tokens: words and marks, each with the space before it; joined they are the text."""
    return TOKEN.findall(text)


def logprob(token: str) -> float:
    """The log-probability the server gives a token: any fixed function of it will do."""
    return -(len(token) % 7 + 1) / 8


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One scripted answer."""

    text: str | None = TEXT
    finish_reason: str = "stop"
    reasoning: str | None = None
    refusal: str | None = None
    tokens: tuple[str, ...] | None = None
    usage: bool = True


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What goes wrong with one request: an error status, a body that is no reply, or trouble on the wire."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    wire: Literal["ok", "hang", "drip", "reset", "cut", "drop"] = "ok"


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


class FakeServer:
    """The server; its settings are plain attributes and may be changed while it runs.

    ``faults`` are used up in order, one a completion request, None for a good answer. ``rejects`` maps a parameter to
    the message of the 400 that any request with it gets. ``api_key`` is the only key let in, if there is one.
    ``context`` is the most tokens of prompt and answer together. ``bos`` puts a start token before an echoed prompt,
    as some tokenizers do.
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
        self.echoes = True
        self.drip = 0.05
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
        """Stop listening and drop what is under way."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def until(self, count: int) -> None:
        """Wait until so many completion requests have come."""
        while len(self.requests) < count:
            self._came.clear()
            await self._came.wait()

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
            return _json(orjson.dumps({"object": "list", "data": rows}))
        if request.path not in ("/v1/chat/completions", "/v1/completions"):
            return _error(404, f"Invalid URL (POST {request.path})")
        body = orjson.loads(await request.read())
        self.requests.append(Received(request.path, dict(request.headers), body, request.query_string))
        self._came.set()
        if self.latency:
            await asyncio.sleep(self.latency)
        fault = self.faults.popleft() if self.faults else None
        if fault is not None and fault.wire == "ok":
            return _json(fault.body or b"", fault.status, fault.headers)
        if refusal := self._refuse(request.path, body):
            return refusal
        scripted = self.reply(body) if callable(self.reply) else self.reply
        reply = Reply(text=scripted) if isinstance(scripted, str) else scripted
        answer = self._chat(body, reply) if request.path == "/v1/chat/completions" else self._completion(body, reply)
        return _json(answer) if fault is None else await self._trouble(request, fault, answer)

    async def _trouble(self, request: web.BaseRequest, fault: Fault, answer: bytes) -> web.StreamResponse:
        transport = request.transport
        if fault.wire == "hang":
            await asyncio.Event().wait()
        if fault.wire == "drop" and transport is not None:
            transport.close()
            return web.Response()
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.content_length = len(answer)
        await response.prepare(request)
        if fault.wire == "drip":
            for byte in answer:
                await response.write(bytes([byte]))
                await asyncio.sleep(self.drip)
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
        tokens = reply.tokens or tuple(tokenise(text or ""))
        if body.get("logprobs"):
            choice["logprobs"] = {
                "content": [
                    {"token": token, "logprob": logprob(token), "bytes": list(token.encode()), "top_logprobs": []}
                    for token in tokens
                ]
            }
        return _reply_body("chatcmpl-kit", "chat.completion", body, choice, len(tokens), reply)

    def _completion(self, body: Mapping[str, Any], reply: Reply) -> bytes:
        text, finish_reason = _stopped(body, reply)
        tokens = list(reply.tokens or tokenise(text or ""))
        if body.get("max_tokens") == 1:
            tokens = tokens[:1]
            text = "".join(tokens)
        made = len(tokens)
        offset = len(body["prompt"])
        values: list[float | None] = [logprob(token) for token in tokens]
        if body.get("echo") and self.echoes:
            echoed = ([self.bos] if self.bos else []) + tokenise(body["prompt"])
            tokens, text, offset = echoed + tokens, body["prompt"] + text, 0
            values = [None, *(logprob(token) for token in tokens[1:])]
        choice: dict[str, Any] = {"index": 0, "text": text, "finish_reason": finish_reason, "logprobs": None}
        if body.get("logprobs") is not None:
            offsets = [offset + sum(map(len, tokens[:i])) for i in range(len(tokens))]
            choice["logprobs"] = {
                "tokens": tokens,
                "token_logprobs": values,
                "top_logprobs": None,
                "text_offset": offsets,
            }
        return _reply_body("cmpl-kit", "text_completion", body, choice, made, reply)


def _stopped(body: Mapping[str, Any], reply: Reply) -> tuple[str | None, str]:
    """The text up to the first stop sequence asked for."""
    stops = body.get("stop") or []
    places = [
        at for stop in ([stops] if isinstance(stops, str) else stops) if (at := (reply.text or "").find(stop)) >= 0
    ]
    return (
        (reply.text[: min(places)], "stop") if places and reply.text is not None else (reply.text, reply.finish_reason)
    )


def _prompt_text(body: Mapping[str, Any]) -> str:
    return str(body.get("prompt") or "".join(str(message["content"]) for message in body.get("messages", ())))


def _reply_body(
    name: str, kind: str, body: Mapping[str, Any], choice: Mapping[str, Any], made: int, reply: Reply
) -> bytes:
    row: dict[str, Any] = {"id": name, "object": kind, "created": 0, "model": body["model"], "choices": [choice]}
    if reply.usage:
        asked = len(tokenise(_prompt_text(body)))
        row["usage"] = {"prompt_tokens": asked, "completion_tokens": made, "total_tokens": asked + made}
    return orjson.dumps(row)


def _json(body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=body, status=status, headers=headers, content_type="application/json")


def _error(status: int, message: str, **more: Any) -> web.Response:
    return _json(error_body(message, **more), status)


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
