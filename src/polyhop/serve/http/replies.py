"""Responses: JSON, and streams of server-sent events with keep-alive comments."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from polyhop.serve.errors import ClientGone

if TYPE_CHECKING:
    from fastapi import Request, Response

T = TypeVar("T")

MAX_PENDING = 256
"""Maximum number of events produced before the client reads them."""

KEEP_ALIVE_SECONDS = 15.0
"""Interval of the comments that keep an idle stream open."""


def reply(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a JSON response."""
    from fastapi import Response

    return Response(encoded(content), status, {"Cache-Control": "no-store", **(headers or {})}, "application/json")


def encoded(content: Any) -> bytes:
    """Encode any value as JSON. What orjson refuses, such as an unpaired surrogate in a model's text, is escaped.

    >>> encoded({"text": "half \\ud83d"})
    b'{"text": "half \\\\ud83d"}'
    """
    try:
        return orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS, default=str)
    except TypeError:
        return json.dumps(content, default=str).encode()


def event(name: str, content: Any) -> bytes:
    """Encode a server-sent event.

    >>> event("answer", {"answer": "Elstow"})
    b'event: answer\\ndata: {"answer":"Elstow"}\\n\\n'
    """
    return b"event: %s\ndata: %s\n\n" % (name.encode(), encoded(content))


async def events_reply(chunks: AsyncGenerator[bytes, None]) -> Response:
    """Return a stream of events. The first chunk is awaited, so that its error becomes an error response; ``chunks`` is
    closed when the client disconnects."""
    from fastapi.responses import StreamingResponse

    first = await anext(chunks)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_with_keep_alive(first, chunks), media_type="text/event-stream", headers=headers)


async def cancel_on_disconnect(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Wait for ``work``. If the client disconnects, cancel it and raise ``ClientGone``."""
    task = asyncio.ensure_future(work)
    left = asyncio.ensure_future(_disconnect(request))
    try:
        await asyncio.wait({task, left}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone("the client disconnected before its answer was ready")
        return task.result()
    finally:
        left.cancel()
        task.cancel()
        await asyncio.gather(left, task, return_exceptions=True)


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _with_keep_alive(first: bytes, chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yield the chunks, joined if several are ready, and a comment when none is."""
    parts = [first]
    more, room = asyncio.Event(), asyncio.Event()

    async def read() -> None:
        try:
            async with aclosing(chunks):
                async for chunk in chunks:
                    parts.append(chunk)
                    more.set()
                    if len(parts) >= MAX_PENDING:
                        room.clear()
                        await room.wait()
        finally:
            more.set()

    reading = asyncio.get_running_loop().create_task(read())
    try:
        while parts or not reading.done():
            if parts:
                ready = b"".join(parts)
                parts.clear()
                room.set()
                yield ready
                continue
            more.clear()
            if not await _wait_for(more, KEEP_ALIVE_SECONDS):
                yield b": at work\n\n"
        reading.result()
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _wait_for(event: asyncio.Event, seconds: float) -> bool:
    """Wait for the event; return False after ``seconds``."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()
