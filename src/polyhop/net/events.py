"""Server-sent events: the body of a streamed reply, split into its events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Event(NamedTuple):
    """One event: its name, empty for most, and its data."""

    name: bytes
    data: bytes


def is_stream(content_type: str, body: bytes) -> bool:
    """Return True for a body of events. A body that begins as JSON does is none, whatever its content type says."""
    start = body[:100].lstrip()
    if start.startswith((b"{", b"[")):
        return False
    return start.startswith(b"data:") or content_type.lower().startswith("text/event-stream")


def events(body: bytes) -> Iterator[Event]:
    r"""Split a body into events with data. The last one counts also without the blank line that ends it.

    The field ``error`` is not of the standard: llama.cpp's server sent its errors so until 2025.

    >>> list(events(b": a comment\n\nevent: ping\ndata: {\ndata:}\r\n\r\ndata: [DONE]"))
    [Event(name=b'ping', data=b'{\n}'), Event(name=b'', data=b'[DONE]')]
    """
    name, data = b"", list[bytes]()
    for line in (*body.removeprefix(b"\xef\xbb\xbf").splitlines(), b""):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not line:
            if any(data):
                yield Event(name, b"\n".join(data))
            name, data = b"", []
        elif field == b"event":
            name = value
        elif field in (b"data", b"error"):
            data.append(value)
            name = b"error" if field == b"error" else name
