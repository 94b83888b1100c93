"""The time at which requests are written, seen from the other end of the connection."""

from __future__ import annotations

import asyncio
import re
import selectors
import socket
import time
from dataclasses import replace

import pytest

from polyhop.lm import OpenAICompatible
from tests.kit.lm_client import request

BODY = b'{"choices":[{"message":{"content":"Oslo"},"finish_reason":"stop"}]}'
REPLY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(BODY), BODY)


def answer(connection: socket.socket, pause: float = 0.0) -> int:
    """Take one request, in pieces with pauses between, and answer it: the bytes of its body."""
    taken = b""
    while b"\r\n\r\n" not in taken:
        taken += connection.recv(1 << 16)
    head, _, body = taken.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    assert length is not None
    while len(body) < int(length[1]):
        time.sleep(pause)
        body += connection.recv(1 << 20)
    connection.sendall(REPLY)
    return len(body)


def is_readable(connection: socket.socket, seconds: float) -> bool:
    with selectors.DefaultSelector() as selector:  # select() takes no descriptor above 1,023
        selector.register(connection, selectors.EVENT_READ)
        return bool(selector.select(seconds))


async def test_a_request_is_written_before_the_loop_goes_on() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        async with OpenAICompatible("tiny", f"http://127.0.0.1:{listening.getsockname()[1]}/v1") as lm:
            first = asyncio.create_task(lm.complete(request()))
            connection, _ = await asyncio.to_thread(listening.accept)
            with connection:
                await asyncio.to_thread(answer, connection)
                assert (await first).text == "Oslo"
                second = asyncio.create_task(lm.complete(request()))
                await asyncio.sleep(0)
                assert is_readable(connection, 5), "not while the loop stands still"
                await asyncio.to_thread(answer, connection)
                assert (await second).text == "Oslo"


@pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")
async def test_a_large_request_is_written_piece_by_piece() -> None:
    large = replace(request(), messages=[{"role": "user", "content": "x" * (8 << 20)}])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        async with OpenAICompatible("tiny", f"http://127.0.0.1:{listening.getsockname()[1]}/v1") as lm:
            asked = asyncio.create_task(lm.complete(large))
            connection, _ = await asyncio.to_thread(listening.accept)
            with connection:
                assert await asyncio.to_thread(answer, connection, 0.01) > 8 << 20
                assert (await asked).text == "Oslo"
                again = asyncio.create_task(lm.complete(large))
                assert await asyncio.to_thread(answer, connection, 0.01) > 8 << 20
                assert (await again).text == "Oslo"
