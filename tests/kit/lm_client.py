"""Call a server of the kit with polyhop's client."""

from __future__ import annotations

from typing import Any

from polyhop.lm import Completion, OpenAICompatible, Request
from tests.kit.openai_server import FakeServer


def request(text: str = "Where?", **more: Any) -> Request:
    """A request of one user message."""
    return Request(
        task="answer.direct", fields={"question": text}, messages=[{"role": "user", "content": text}], **more
    )


async def ask(server: FakeServer, asked: Request | None = None, **settings: Any) -> Completion:
    """Make one call with a new client of these settings."""
    async with OpenAICompatible("tiny", server.url, **settings) as lm:
        return await lm.complete(asked or request())
