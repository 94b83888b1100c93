"""A polyhop server in the test's own event loop, on a free port of loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from polyhop.serve.http.app import create_app
from polyhop.serve.service import Service


@asynccontextmanager
async def served(service: Service, *options: Any) -> AsyncIterator[str]:
    """Yield the server's address, without a path; stop the server and close the service afterwards."""
    import uvicorn

    app = create_app(service, *options)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning", ws="none", timeout_graceful_shutdown=5))
    serving = asyncio.ensure_future(server.serve())
    try:
        while not server.started:
            assert not serving.done(), "the server did not start"
            await asyncio.sleep(0.001)
        host, port = server.servers[0].sockets[0].getsockname()[:2]
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        with suppress(asyncio.CancelledError):
            await serving
