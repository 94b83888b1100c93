"""The web app over a service: routes, the page, and what guards them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polyhop import __version__
from polyhop.common.extras import require
from polyhop.serve.http import chat, errors, native, runs
from polyhop.serve.http.guard import Gate, RequestLog
from polyhop.serve.http.replies import reply
from polyhop.serve.limits import ClientLimits, Keys
from polyhop.serve.metrics import CONTENT_TYPE
from polyhop.serve.service import Service

if TYPE_CHECKING:
    from fastapi import FastAPI

PAGE = Path(str(files("polyhop.serve"))) / "page"
VIEW = Path(str(files("polyhop.trace"))) / "view"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Settings that guard the app.

    Attributes:
        keys: API keys; None lets anyone in.
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
        """The arguments of a ``Gate``."""
        return {
            "keys": self.keys,
            "hosts": self.hosts,
            "clients": ClientLimits(per_minute=self.per_minute, at_once=self.at_once),
            "max_body_bytes": self.max_body_bytes,
            "client_timeout": self.client_timeout,
        }


def create_app(service: Service, options: Options | None = None) -> "FastAPI":
    """The app: polyhop's own routes, the OpenAI-compatible ones, the runs and the page, guarded as ``options`` tell.
    It opens the service when it starts and closes it when it ends. Raises ``MissingExtra`` without FastAPI."""
    require("fastapi", "serve", "polyhop serve")
    from fastapi import FastAPI
    from fastapi.middleware.cors import CORSMiddleware
    from fastapi.responses import FileResponse, PlainTextResponse, Response
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
    app.add_middleware(Gate, **given.gate())
    if given.origins:
        app.add_middleware(
            CORSMiddleware, allow_origins=given.origins, allow_methods=["GET", "POST"], allow_headers=["*"]
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

    app.add_api_route("/health", health, tags=["operations"])
    app.add_api_route("/ready", ready, tags=["operations"])
    app.add_api_route("/metrics", metrics, tags=["operations"], response_class=PlainTextResponse)
    for room in (native, chat, runs):
        app.include_router(room.router(service))
    app.add_api_route("/", page, include_in_schema=False)
    app.mount("/static/view", StaticFiles(directory=VIEW))
    app.mount("/static", StaticFiles(directory=PAGE))
    return app
