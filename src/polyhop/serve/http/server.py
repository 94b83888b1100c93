"""The app on a socket until a signal comes: what runs then is finished or handed back."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EADDRINUSE
from typing import Any

from polyhop.common.extras import require
from polyhop.errors import UsageError
from polyhop.serve.http.app import Options, create_app
from polyhop.serve.logs import LOG
from polyhop.serve.service import Service

_LAST = 5
"""Seconds after the service has closed in which the last responses are sent."""


async def serve(service: Service, options: Options, host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT; a second one ends at once. Raises what opening the service raises, ``UsageError``
    where it cannot listen, and ``MissingExtra`` without the extra."""
    await serve_app(create_app(service, options), service, host, port, client_timeout=options.client_timeout)


async def serve_app(app: Any, service: Service, host: str, port: int, *, client_timeout: float, path: str = "") -> None:
    """Serve any ASGI app over a service, as ``serve`` does. ``client_timeout``: seconds after which a client that reads
    nothing of its response is disconnected. ``path``: the app's path, for the log."""
    uvicorn = require("uvicorn", "serve", "polyhop serve")
    listening = listen(host, port)
    with listening:
        await service.open()
        usual = {"log_config": None, "access_log": False, "server_header": False, "lifespan": "on"}
        config = uvicorn.Config(app, http=impatient_protocol(client_timeout), **usual)
        config.timeout_graceful_shutdown = int(service.grace) + _LAST
        server = uvicorn.Server(config)
        address = listening.getsockname()
        url = url_of(address[0], address[1]) + path
        facts = {"url": url, "method": service.default_method, "corpora": service.corpora}
        LOG.info("serving", extra={"facts": facts})
        stopping = asyncio.ensure_future(_close_with(server, service))
        try:
            with _swallow_signals():
                await server.serve(sockets=[listening])
        finally:
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)
        if not server.force_exit:
            await service.aclose()
        LOG.info("stopped")


def impatient_protocol(client_timeout: float) -> type[asyncio.Protocol]:
    """uvicorn's protocol, which cuts a connection whose client takes nothing for so many seconds: one that is closed
    politely stays until everything is taken."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    class ImpatientProtocol(AutoHTTPProtocol):  # type: ignore[misc]  # one of two
        _end: asyncio.TimerHandle | None = None

        def pause_writing(self) -> None:
            super().pause_writing()
            self._end = asyncio.get_running_loop().call_later(client_timeout, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self._end is not None:
                self._end.cancel()

    return ImpatientProtocol


@contextmanager
def _swallow_signals() -> Iterator[None]:
    """uvicorn raises the signals that it caught again once it is done; by then they have been obeyed."""
    before = {sign: signal.signal(sign, lambda *_: None) for sign in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one. ``UsageError`` where that cannot be."""
    try:
        family, *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno == EADDRINUSE else error.strerror or error
        raise UsageError(f"cannot listen at {host} port {port}: {why}") from None
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else an answer in two parts waits 40 ms for the second
    return made


def url_of(host: str, port: int) -> str:
    """The address as a browser takes it.

    >>> url_of("::1", 8000)
    'http://[::1]:8000'
    """
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _close_with(server: Any, service: Service) -> None:
    """Close the service as soon as the server starts to shut down."""
    while not server.should_exit:  # noqa: ASYNC110 - uvicorn sets it in a signal handler of its own
        await asyncio.sleep(0.05)
    LOG.info("stopping")
    await service.aclose()
