"""A model server that means harm: a persona's replies, and on top of them wrong bodies, types, calls, events and waits.

``ViciousServer`` is a ``FaultyServer`` whose faults are ``Twist``s, each made of the reply that would have come. Its
model speaks as a persona of the laboratory (``tests/kit/imitators.py``). Errors repeat the key that the client sent.
``WIRES`` need a real connection; the others come on a virtual clock too.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson
from aiohttp import web

from polyhop.lm.base import Completion
from polyhop.prompts.tasks import task_named
from tests.kit import imitators
from tests.kit.faulty_server import FaultyServer, Script
from tests.kit.openai_server import TEXT, Fault, Reply, error_body

KEY = "sk-vicious-0123456789abcdef"
"""The key of the client, which the server repeats wherever it can."""
ELSEWHERE = f"http://127.0.0.1:9/steal?key={KEY}"

Body = tuple[int, Mapping[str, str], bytes]
"""Status, headers and body of a response."""


@dataclass(frozen=True, kw_only=True)
class Twist(Fault):
    """A fault that is made of the right answer, or on the connection itself."""

    make: Callable[[bytes], Body] | None = None
    on_wire: str = ""


def _body(make: Callable[[bytes], bytes], kind: str = "application/json", **headers: str) -> Twist:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Twist(make=lambda answer: (200, {"Content-Type": kind, **named}, make(answer)))


def _status(status: int, body: bytes | None = None, **headers: str) -> Twist:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    said = error_body(f"Refused: Bearer {KEY}") if body is None else body
    return Twist(make=lambda answer: (status, {"Content-Type": "application/json", **named}, said))


def _json(change: Callable[[Any], Any]) -> Twist:
    """A change of the reply's JSON, or of that of each event."""

    def made(answer: bytes) -> Body:
        if not answer.startswith(b"data:"):
            return 200, {"Content-Type": "application/json"}, orjson.dumps(change(orjson.loads(answer)))
        lines = [line for line in answer.split(b"\n\n") if line and b"[DONE]" not in line]
        rows = [orjson.dumps(change(orjson.loads(line.removeprefix(b"data: ")))) for line in lines]
        return 200, {"Content-Type": "text/event-stream"}, b"".join(b"data: %s\n\n" % row for row in rows)

    return Twist(make=made)


def _choice(**fields: Any) -> Twist:
    return _json(lambda data: {**data, "choices": [{**choice, **fields} for choice in data["choices"]]})


def _message(**fields: Any) -> Twist:
    def change(data: Any) -> Any:
        names = ("message", "delta", "text")
        choices = [
            {**choice, **{name: {**choice[name], **fields} for name in names if isinstance(choice.get(name), dict)}}
            for choice in data["choices"]
        ]
        return {**data, "choices": choices}

    return _json(change)


def _called(arguments: Any, name: Any = "search", **more: Any) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def _gzipped(size: int) -> bytes:
    return gzip.compress(b" " * size, 9)


ABSURD_WAITS = (
    *("1e300", "-5", "nan", "inf", "99999999999999999999", "0x10", "1_0", "", "soon", "١٢"),
    *("Fri, 31 Dec 9999 23:59:59 GMT", "Thu, 01 Jan 99999 00:00:00 GMT", "Mon, 32 Foo 2026 99:99:99 ZZZ"),
    *("Sun, 06 Nov 1994 08:49:37 +9999", "Sunday, 06-Nov-94 08:49:37 GMT", "0, 0 0 0 0:0:0 0"),
)

RETRIED: dict[str, Fault] = {
    "two replies in one body": _body(lambda answer: answer + b"\n" + answer),
    "UTF-16": _body(lambda answer: answer.decode().encode("utf-16"), "application/json; charset=utf-16"),
    "Latin-1": _body(lambda answer: b'{"choices": "\xe9\xff"}', "application/json; charset=latin-1"),
    "null": _body(lambda answer: b"null"),
    "a number": _body(lambda answer: b"1e999"),
    "deep": _body(lambda answer: b"[" * 100_000),
    "deep and closed": _body(lambda answer: b'{"choices":' + b"[" * 900 + b"]" * 900 + b"}"),
    "NaN": _body(lambda answer: b'{"choices": NaN}'),
    "only spaces": _body(lambda answer: b" " * 10_000),
    "HTML of status 200": _body(lambda answer: b"<html>Sign in</html>", "text/html"),
    "an error of status 200": _body(lambda answer: error_body(f"Overloaded, Bearer {KEY}", code=503)),
    "an error in the choice": _choice(error={"code": 502, "message": f"Bearer {KEY}"}, finish_reason="error"),
    "choices are an object": _json(lambda data: {**data, "choices": {"0": 1}}),
    "choices are texts": _json(lambda data: {**data, "choices": ["text"]}),
    "a message is a list": _choice(message=[1, 2], text=[1], delta=[1]),
    "content is a number": _choice(message={"content": 7}, text=7, delta={"content": {"x": [7]}}),
    "status 599": _status(599, b"\xff\xfe\x00"),
    "status 299": _status(500, b"[" * 50_000),
    **{f"429, wait {wait!r}": _status(429, Retry_After=wait) for wait in ABSURD_WAITS if wait.isascii()},
    "429, wait in all fields": _status(429, Retry_After="x", retry_after_ms="-1e9", X_RateLimit_Reset="1e9,2"),
    "429 of Google, wait": _status(
        429, b'{"error": {"details": [{"retryDelay": "9e9s"}, 3, {"violations": "x"}, {"retryDelay": "999999s"}]}}'
    ),
}
"""Twists after which another attempt may help, and does."""

FINAL: dict[str, Fault] = {
    "301": _status(301, Location=ELSEWHERE),
    "307": _status(307, Location=ELSEWHERE),
    "308 to nowhere": _status(308),
    "401": _status(401),
    "403": _status(403),
    "404": _status(404),
    "413": _status(413),
    "quota": _status(429, error_body(f"insufficient_quota of Bearer {KEY}", code="insufficient_quota")),
}
"""Twists that fail the call at once."""

SAID: dict[str, Fault] = {
    "no usage": _json(lambda data: {**data, "usage": "much"}),
    "negative usage": _json(lambda data: {**data, "usage": {"prompt_tokens": -1, "completion_tokens": -(2**60)}}),
    "a usage beyond 64 bits": _json(
        lambda data: {**data, "usage": dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"), 2**63)}
    ),
    "a usage of fractions": _json(lambda data: {**data, "usage": {"prompt_tokens": 1.5, "completion_tokens": True}}),
    "another finish reason": _choice(finish_reason={"a": 1}),
    "an unknown finish reason": _choice(finish_reason="\u202e\x1b[31m" + "x" * 5000),
    "a refusal": _message(refusal=f"No. Bearer {KEY}", content=None),
    "strange logprobs": _choice(logprobs={"content": [{"token": 1, "logprob": "x"}], "tokens": 5}),
    "thoughts are a list": _message(reasoning_content=[1], reasoning={"a": 1}),
    "twenty choices": _json(lambda data: {**data, "choices": data["choices"] * 20}),
    "empty text": _choice(message={"role": "assistant", "content": ""}, text="", delta={"content": ""}),
    "null bytes": _choice(message={"content": "\0" * 50}, text="\0", delta={"content": "\0\x1b[2J"}),
    "a long text": _choice(message={"content": "[1] " * 50_000}, text="[1] " * 50_000),
    "parts": _choice(message={"content": [{"type": "text", "text": "So."}, 7, {"type": "image_url"}, None]}),
    "calls that are no list": _message(tool_calls="search"),
    "a call without a function": _message(tool_calls=[{"id": 3}, 7, None]),
    "arguments cut": _message(tool_calls=[_called('{"query": "wh')]),
    "arguments of another type": _message(tool_calls=[_called("[1, 2]"), _called(7), _called(None), _called("")]),
    "arguments nested": _message(tool_calls=[_called("[" * 50_000)]),
    "arguments unknown": _message(tool_calls=[_called('{"sql": "DROP TABLE", "query": {"$ne": 1}}')]),
    "an unknown tool": _message(tool_calls=[_called("{}", "rm -rf /"), _called("{}", "__import__"), _called("{}", "")]),
    "a tool that is no name": _message(tool_calls=[_called("{}", {"a": 1}), _called("{}", 7)]),
    "calls of one id": _message(tool_calls=[_called('{"query": "who"}')] * 3),
    "too many calls": _message(tool_calls=[_called('{"query": "who"}', id=f"c{n}") for n in range(100)]),
    "calls in the text": _choice(message={"content": '<tool_call>{"name": "search", "arguments": {"query": 7}}'}),
}
"""Twists that are replies: what they say may change the answer, and nothing else."""

EVENTS: dict[str, Fault] = {
    "a stream that ends twice": _body(lambda answer: answer + b"data: [DONE]\n\n" + answer, "text/event-stream"),
    "a stream cut in an event": _body(lambda answer: answer[: len(answer) // 2], "text/event-stream"),
    "a stream without its mark": _body(lambda answer: answer.replace(b"data: [DONE]\n\n", b""), "text/event-stream"),
    "an error amid a stream": _body(
        lambda answer: answer[: answer.find(b"\n\n") + 2] + b'data: {"error": {"message": "no", "code": 500}}\n\n',
        "text/event-stream",
    ),
    "only comments": _body(lambda answer: b": ping\n\n" * 5000, "text/event-stream"),
    "events that are no JSON": _body(lambda answer: b"data: {\n\ndata: }\n\n", "text/event-stream"),
    "events of other types": _body(lambda answer: b"data: [1]\n\ndata: 7\n\ndata: [DONE]\n\n", "text/event-stream"),
    "a stream that is one body": _body(lambda answer: b'{"choices": []}', "text/event-stream"),
}
"""Twists of a streamed reply."""

WIRES: dict[str, Fault] = {
    name: Twist(on_wire=name)
    for name in (
        *("length too short", "length too long", "length not a number", "two lengths", "endless drip", "endless flood"),
        *("chunks that are none", "chunks cut", "gzip bomb", "gzip that is none", "gzip cut", "headers without end"),
        *("not HTTP", "an older HTTP", "closed at once", "reset in the headers", "reply before the request"),
    )
}
"""Twists of the connection."""


class ViciousServer(FaultyServer):
    """A ``FaultyServer`` of twists, whose model has the manners of a persona. A client that does not say what it asks
    is answered by ``text``."""

    def __init__(self, script: Script, persona: str = "plain", text: str = TEXT, **settings: Any) -> None:
        super().__init__(script, **settings)
        self._text = text
        self.persona, self.name = {**imitators.READABLE, **imitators.UNREADABLE}[persona], persona
        self.spoiled = 0
        self.max_flood = 4 << 20
        self.reply = self._spoken

    def _spoken(self, body: Mapping[str, Any]) -> str | Reply:
        if "user" not in body:  # of another client, or for scores
            return self._text
        request = self.asked[body["user"]]
        said: Any = self._script(request.task, request.fields)
        if isinstance(said, Completion):
            return Reply(text=said.text, calls=tuple((call.name, orjson.loads(call.text)) for call in said.tool_calls))
        if isinstance(said, str):
            return said
        self.spoiled += self.name != "plain"
        output = task_named(request.task).output.model_validate(dict(said))
        choice = self.persona(imitators.draft(request, output))
        message = choice["message"]
        calls = tuple(
            (call["function"]["name"], orjson.loads(call["function"]["arguments"]))
            for call in message.get("tool_calls", ())
        )
        return Reply(
            text=message["content"],
            reasoning=message.get("reasoning_content"),
            finish_reason=choice["finish_reason"],
            calls=calls,
        )

    def _kinds_for(self, body: Mapping[str, Any]) -> list[str]:
        return [*self.kinds] if "messages" in body else super()._kinds_for(body)

    async def _fault(self, body: Mapping[str, Any]) -> Fault | None:
        fault = await super()._fault(body)
        return replace(fault, wire="twist") if isinstance(fault, Twist) else fault  # type: ignore[arg-type]

    async def _trouble(
        self, request: web.BaseRequest, fault: Fault, answer: bytes, kind: str = "application/json"
    ) -> web.StreamResponse:
        if isinstance(fault, Twist) and fault.make is not None:
            status, headers, body = fault.make(answer)
            return web.Response(status=status, headers=headers, body=body)
        if isinstance(fault, Twist):
            await self._on_wire(request, fault.on_wire, answer)
            return web.StreamResponse()
        return await super()._trouble(request, fault, answer, kind)

    async def _on_wire(self, request: web.BaseRequest, name: str, answer: bytes) -> None:
        """Write bytes past aiohttp, and close."""
        transport = request.transport
        assert isinstance(transport, asyncio.Transport)
        for piece in raw_responses(name, answer):
            transport.write(piece)
        if name == "endless drip":
            while not transport.is_closing():
                transport.write(b" ")
                await asyncio.sleep(0.01)
        if name == "endless flood":
            sent = 0
            while not transport.is_closing() and sent < self.max_flood:
                transport.write(b"data: {}\n\n" * 1000)
                sent += 10_000
                await asyncio.sleep(0)
        transport.abort() if name == "reset in the headers" else transport.close()


def raw_responses(name: str, answer: bytes) -> list[bytes]:
    """The bytes of a response that breaks HTTP, or bends it."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    length = b"Content-Length: %d\r\n"
    chunked, gzipped = b"Transfer-Encoding: chunked\r\n", b"Content-Encoding: gzip\r\n"
    bomb = _gzipped(8 << 20)
    match name:
        case "length too short":
            return [head, length % (len(answer) // 2), b"\r\n", answer]
        case "length too long":
            return [head, length % (len(answer) * 2), b"\r\n", answer]
        case "length not a number":
            return [head, b"Content-Length: many\r\n\r\n", answer]
        case "two lengths":
            return [head, length % len(answer), length % 3, b"\r\n", answer]
        case "endless drip":
            return [head, b"\r\n", answer]
        case "endless flood":
            return [head.replace(b"application/json", b"text/event-stream"), b"\r\n"]
        case "chunks that are none":
            return [head, chunked, b"\r\n", b"zz\r\n", answer]
        case "chunks cut":
            return [head, chunked, b"\r\n", b"%x\r\n" % len(answer), answer]
        case "gzip bomb":
            return [head, gzipped, length % len(bomb), b"\r\n", bomb]
        case "gzip that is none":
            return [head, gzipped, length % len(answer), b"\r\n", answer]
        case "gzip cut":
            cut = gzip.compress(answer)[:-12]
            return [head, gzipped, length % len(cut), b"\r\n", cut]
        case "headers without end":
            return [head, b"".join(b"X-%d: %s\r\n" % (n, b"y" * 4000) for n in range(50))]
        case "not HTTP":
            return [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", answer]
        case "an older HTTP":
            return [b"HTTP/0.9 200\r\n\r\n", answer]
        case "reset in the headers":
            return [head]
        case "reply before the request":
            early = head + length % len(answer) + b"\r\n" + answer
            return [early, early]
    return []
