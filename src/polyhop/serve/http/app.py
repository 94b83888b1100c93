"""The web app over a service (routes, the page and their guards), and the server that runs it."""

import asyncio
import ctypes
import gc
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from errno import EADDRINUSE
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyhop import __version__
from polyhop.common.extras import require
from polyhop.errors import UsageError
from polyhop.serve.http import chat, errors, native, retrieve, uploads
from polyhop.serve.http.guard import Gate, RequestLog
from polyhop.serve.http.reference import reference
from polyhop.serve.http.replies import reply
from polyhop.serve.limits import ClientLimits, Keys
from polyhop.serve.logs import LOG
from polyhop.serve.metrics import CONTENT_TYPE
from polyhop.serve.service import Service

if TYPE_CHECKING:
    from fastapi import FastAPI

PAGE = Path(str(files("polyhop.serve"))) / "page"
VIEW = Path(str(files("polyhop.trace"))) / "view"

_LAST_SECONDS = 1
"""Time after the service has closed in which the last responses are sent; connections that remain are aborted."""
_COLLECTION_SECONDS = 15.0
"""Time between two collections of garbage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Settings that guard the app.

    Attributes:
        keys: API keys; None admits everyone.
        hosts: host names that requests may use; None for any.
        origins: origins of other web pages that may send requests (CORS); none by default.
        per_minute: maximum requests per minute, per key or, without keys, per address.
        at_once: maximum concurrent requests, per key or address.
        max_body_bytes: maximum size of a request's body.
        client_timeout: seconds in which a client must send its body, and accept each part of the response.
    """

    keys: Keys | None = None
    hosts: frozenset[str] | None = None
    origins: tuple[str, ...] = ()
    per_minute: int | None = None
    at_once: int | None = None
    max_body_bytes: int = 1_000_000
    client_timeout: float = 30.0

    def gate(self) -> dict[str, Any]:
        """Return the arguments of a ``Gate``."""
        return {
            "keys": self.keys,
            "hosts": self.hosts,
            "origins": self.origins,
            "clients": ClientLimits(per_minute=self.per_minute, at_once=self.at_once),
            "max_body_bytes": self.max_body_bytes,
            "client_timeout": self.client_timeout,
        }


def create_app(service: Service, options: Options | None = None) -> "FastAPI":
    """Create the app: polyhop's own routes, the OpenAI-compatible ones, the runs and the page, guarded by ``options``.
    It opens the service at startup and closes it at shutdown.

    Raises:
        MissingExtra: FastAPI is not installed.
    """
    require("fastapi", "serve", "polyhop serve")
    from fastapi import FastAPI
    from fastapi.middleware.cors import CORSMiddleware
    from fastapi.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
    from fastapi.staticfiles import StaticFiles

    given = options or Options()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await service.open()
        yield
        await service.aclose()

    app = FastAPI(
        title="polyhop",
        version=__version__,
        summary="Multi-hop question answering over your own documents.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    errors.install(app)
    limits = service.uploads.limits
    app.add_middleware(Gate, **given.gate(), max_upload_bytes=limits.body_bytes if limits else 0)
    if given.origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=given.origins, allow_methods=["GET", "POST", "DELETE"], allow_headers=["*"]
        )
    app.add_middleware(RequestLog, metrics=service.metrics, client_timeout=given.client_timeout)

    async def health() -> Response:
        """Report that the process is alive."""
        return reply({"status": "ok"})

    async def ready() -> Response:
        """Report readiness: 200 if questions are accepted, else 503."""
        return reply({"status": "ready" if service.ready else "stopping"}, 200 if service.ready else 503)

    async def metrics() -> Response:
        """Return the counters, for Prometheus."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE)

    async def page() -> Response:
        return FileResponse(PAGE / "index.html")

    async def docs() -> Response:
        return HTMLResponse(reference(app.openapi()))

    app.add_api_route("/health", health, tags=["operations"])
    app.add_api_route("/ready", ready, tags=["operations"])
    app.add_api_route("/metrics", metrics, tags=["operations"], response_class=PlainTextResponse)
    for router in (native.router, uploads.router, chat.router, retrieve.router, native.runs_router):
        app.include_router(router(service))
    app.add_api_route("/", page, include_in_schema=False)
    app.add_api_route("/docs", docs, include_in_schema=False)
    app.mount("/static/view", StaticFiles(directory=VIEW))
    app.mount("/static", StaticFiles(directory=PAGE))
    return app


async def serve(service: Service, options: Options, host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT; a second signal exits at once.

    Raises:
        UsageError: it cannot listen at the address.
        MissingExtra: the extra ``serve`` is not installed.
        PolyhopError: as ``Service.open``.
    """
    await serve_app(create_app(service, options), service, host, port, client_timeout=options.client_timeout)


async def serve_app(app: Any, service: Service, host: str, port: int, *, client_timeout: float, path: str = "") -> None:
    """Serve any ASGI app over a service, as ``serve`` does. A client that reads nothing of its response for
    ``client_timeout`` seconds is disconnected. ``path``: the app's path, for the log."""
    uvicorn = require("uvicorn", "serve", "polyhop serve")
    raise_file_limit()
    listening = listen(host, port)
    with listening:
        await service.open()
        usual = {"log_config": None, "access_log": False, "server_header": False, "lifespan": "on"}
        config = uvicorn.Config(app, http=impatient_protocol(client_timeout), **usual)
        config.timeout_graceful_shutdown = int(service.grace) + 2 * _LAST_SECONDS  # should aborting not help
        server = uvicorn.Server(config)
        address = listening.getsockname()
        url = url_of(address[0], address[1]) + path
        facts = {"url": url, "method": service.default_method, "corpora": service.corpora}
        LOG.info("serving", extra={"facts": facts})
        beside = [asyncio.ensure_future(work) for work in (_close_with(server, service), _free_closed_connections())]
        try:
            with _swallow_signals():
                await server.serve(sockets=[listening])
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
        if not server.force_exit:
            await service.aclose()
        LOG.info("stopped")


def impatient_protocol(client_timeout: float) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol, which aborts a connection whose client reads nothing for ``client_timeout`` seconds,
    sends no whole head in that time, or still sends after it was answered. A regular close would wait until the client
    has read everything."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    class ImpatientProtocol(AutoHTTPProtocol):  # type: ignore[misc]  # one of two classes
        _reading: asyncio.TimerHandle | None = None
        _sending: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._sending = self._abort_after(client_timeout)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop(self._sending)
                self._sending = None
            elif self._sending is None:  # a part of the next head, or the rest of a body that is not wanted
                self._sending = self._abort_after(min(client_timeout, self.timeout_keep_alive))

        def pause_writing(self) -> None:
            super().pause_writing()
            self._reading = self._abort_after(client_timeout)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._stop(self._reading)

        def connection_lost(self, error: Exception | None) -> None:
            self._stop(self._reading)
            self._stop(self._sending)
            super().connection_lost(error)

        def _abort_after(self, seconds: float) -> asyncio.TimerHandle:
            return asyncio.get_running_loop().call_later(seconds, self.transport.abort)

        def _stop(self, timer: asyncio.TimerHandle | None) -> None:
            if timer is not None:
                timer.cancel()

    return ImpatientProtocol


def raise_file_limit() -> None:
    """Let this process have as many open files as its owner may allow it: every connection is one."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):  # macOS allows fewer than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@contextmanager
def _swallow_signals() -> Iterator[None]:
    """Ignore the signals that uvicorn raises again after its shutdown; they have been handled."""
    before = {sign: signal.signal(sign, lambda *_: None) for sign in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket; port 0 selects a free port.

    Raises:
        UsageError: the address cannot be used.
    """
    try:
        family, *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        why: object = error.strerror or error
        if error.errno == EADDRINUSE:
            why = f"{os.strerror(error.errno)}; choose another with --port"
        raise UsageError(f"cannot listen at {host} port {port}: {why}") from None
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else a response in two parts takes 40 ms more
    return listening


def url_of(host: str, port: int) -> str:
    """Return the URL of an address.

    >>> url_of("::1", 8000)
    'http://[::1]:8000'
    """
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _close_with(server: Any, service: Service) -> None:
    """Close the service as soon as the server starts to shut down, and then the connections of clients that still send
    or do not read."""
    while not server.should_exit:  # noqa: ASYNC110 - uvicorn sets it in its signal handler
        await asyncio.sleep(0.05)
    LOG.info("stopping")
    await service.aclose()
    await asyncio.sleep(_LAST_SECONDS)
    for connection in list(server.server_state.connections):
        connection.transport.abort()


async def _free_closed_connections() -> None:
    """Collect garbage now and then, and give freed memory back to the system. A closed connection is a reference cycle,
    and beside all the objects of the indexes Python would look for cycles only after thousands of them. What is loaded
    by now is left out, so it takes milliseconds."""
    gc.collect()
    gc.freeze()
    try:
        while True:
            await asyncio.sleep(_COLLECTION_SECONDS)
            gc.collect()
            _trim_heap()
    finally:
        gc.unfreeze()


def _trim_heap() -> None:
    """Give the pages that the C allocator holds free between those in use back to the system, if it is glibc's."""
    with suppress(OSError, AttributeError, TypeError):  # another C library, or Windows
        ctypes.CDLL(None).malloc_trim(0)
