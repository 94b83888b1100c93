"""Mail as blocks: a message (EML) or a mailbox (MBOX), whose messages are its sections."""

from __future__ import annotations

import email
import re
from collections.abc import Iterator
from email import policy
from email.message import EmailMessage
from pathlib import Path

from polyhop.data.converting import TITLE, Block
from polyhop.data.converting.encodings import decode_text
from polyhop.data.converting.html import fragment_blocks
from polyhop.data.converting.plain import line_blocks

_HEADERS = ("From", "To", "Cc", "Date", "Subject")
_SEPARATOR = re.compile(rb"^From [^\n]*\n", re.MULTILINE)
_QUOTED_FROM = re.compile(rb"^>(>*From )", re.MULTILINE)  # a line that would have been taken for a separator


def eml_blocks(path: Path) -> Iterator[Block]:
    """Yield the subject of a message as its title, its headers, its text and the names of its attachments."""
    message = _parse(path.read_bytes())
    yield Block(_header(message, "Subject") or path.stem, TITLE)
    yield from _message_blocks(message)


def mbox_blocks(path: Path) -> Iterator[Block]:
    """Yield the messages of a mailbox, each below its subject."""
    yield Block(path.stem, TITLE)
    for data in _SEPARATOR.split(path.read_bytes())[1:]:
        message = _parse(_QUOTED_FROM.sub(rb"\1", data))
        yield Block(_header(message, "Subject") or "No subject", 1)
        yield from _message_blocks(message)


def _parse(data: bytes) -> EmailMessage:
    return email.message_from_bytes(data, policy=policy.default)


def _header(message: EmailMessage, name: str) -> str:
    try:
        value = str(message.get(name, ""))
    except (ValueError, LookupError, TypeError, AttributeError, NameError):  # Python's faults on malformed headers
        value = next((str(raw) for key, raw in message.raw_items() if key.lower() == name.lower()), "")
    return " ".join(value.split())


def _message_blocks(message: EmailMessage) -> Iterator[Block]:
    headers = [(name, _header(message, name)) for name in _HEADERS]
    yield Block("; ".join(f"{name}: {value}" for name, value in headers if value), kind="row")
    body = message.get_body(preferencelist=("plain", "html"))
    if body is not None:
        payload = body.get_payload(decode=True)
        text, _ = decode_text(payload if isinstance(payload, bytes) else b"", body.get_content_charset() or "")
        yield from fragment_blocks(text) if body.get_content_subtype() == "html" else line_blocks(text)
    names = [part.get_filename() or part.get_content_type() for part in message.iter_attachments()]
    if names:
        yield Block(f"Attachments: {', '.join(names)}", kind="row")
