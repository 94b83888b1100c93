"""The service as tools of an agent, over the Model Context Protocol: ask, search, look at how an answer was found.

Annotations are evaluated here, since the SDK reads them, and it is imported where a server is made.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field

from polyhop import __version__
from polyhop.common.extras import require
from polyhop.errors import PolyhopError, UnknownName
from polyhop.methods.registry import methods
from polyhop.serve.http.app import Options
from polyhop.serve.http.guard import App, Gate
from polyhop.serve.http.server import serve_app
from polyhop.serve.responses import FoundAnswer, FoundPassages, FoundTrace
from polyhop.serve.service import MAX_PASSAGES, AskRequest, AskResponse, AskStarted, Service
from polyhop.trace import line_of

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

Transport: TypeAlias = Literal["stdio", "http"]
TRANSPORTS = ("stdio", "http")
PATH = "/mcp"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""Names that a program on this machine asks under."""
LOCAL = Options(hosts=LOOPBACK)

INSTRUCTIONS = (
    "Answers questions over the user's own documents, those too that need several passages put together. "
    "Say so to the user where an answer is not supported, and name the cited passages."
)


def run(
    service: Service,
    transport: Transport = "stdio",
    host: str = "127.0.0.1",
    port: int = 8010,
    options: Options | None = None,
) -> None:
    """Serve the tools until the client leaves (``stdio``) or a signal comes (``http``, at ``/mcp`` of host and port),
    and close the service. Over stdio, stdout belongs to the protocol: whatever else is printed goes to stderr. Over
    HTTP ``options`` tell who may come, ``LOCAL`` by default.

    Raises ``MissingExtra`` without the SDK, and what ``Service.open`` raises.
    """
    if transport not in TRANSPORTS:
        raise UnknownName("transport", transport, TRANSPORTS)
    if transport == "stdio":
        asyncio.run(_over_stdio(service))
    else:
        given = options or LOCAL
        app = http_app(service, given)
        asyncio.run(serve_app(app, service, host, port, client_timeout=given.client_timeout, path=PATH))


def server(service: Service, *, lifespan: Any = None) -> "MCPServer[Any]":
    """The tools over a service, for any transport; ``lifespan`` is the SDK's. Raises ``MissingExtra`` without it."""
    require("mcp.server.mcpserver", "mcp", "polyhop mcp")
    from mcp.server.mcpserver import MCPServer
    from mcp.types import ToolAnnotations

    made: MCPServer[Any] = MCPServer(
        "polyhop", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING", lifespan=lifespan
    )
    for title, tool in {
        "Answer a question": _answering(service),
        "Search passages": _searching(service),
        "Show how an answer was found": _looking_back(service),
    }.items():
        described = " ".join(tool.__doc__.split())  # the docstring as one line: the SDK takes it as it stands
        made.add_tool(tool, title=title, description=described, annotations=ToolAnnotations(read_only_hint=True))
    return made


def http_app(service: Service, options: Options | None = None) -> App:
    """The tools as an ASGI app, guarded as ``options`` tell. Raises ``MissingExtra`` without the SDK."""
    tools = server(service)
    from mcp.server.transport_security import TransportSecuritySettings

    given = options or LOCAL
    hosts = [host + port for host in given.hosts or () for port in ("", ":*")]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=given.hosts is not None,
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")],
    )
    return Gate(tools.streamable_http_app(streamable_http_path=PATH, transport_security=security), **given.gate())


async def _over_stdio(service: Service) -> None:
    @asynccontextmanager
    async def quiet(_: object) -> AsyncIterator[None]:
        with redirect_stdout(sys.stderr):  # what Python had kept of it would follow the last message
            yield

    tools = server(service, lifespan=quiet)
    try:
        with redirect_stdout(sys.stderr):
            await service.open()
        await tools.run_stdio_async()
    finally:
        await service.aclose()


def _answering(service: Service) -> Any:
    from mcp.server.mcpserver import Context

    async def answer_question(
        question: Annotated[str, Field(min_length=1, description="The whole question, in the user's words.")],
        context: Context,
        method: Annotated[
            str | None, Field(description=_names("The method", methods(), service.default_method))
        ] = None,
        corpus: Annotated[
            str | None, Field(description=_names("The documents", service.corpora, service.default_corpus))
        ] = None,
    ) -> FoundAnswer:
        """Answer a question over the user's documents, by as many searches as it takes, with the passages that the
        answer rests on. Takes seconds to minutes. `supported` is false where no passage backs the answer."""
        with _polyhop_errors():
            async with aclosing(service.stream(AskRequest(question, method=method, corpus=corpus))) as events:
                done = 0
                async for event in events:
                    if isinstance(event, AskResponse):
                        return FoundAnswer.of(event)
                    done += 1
                    what = f"begun by {event.request.method}" if isinstance(event, AskStarted) else line_of(event)
                    await context.report_progress(done, message=what)
        raise AssertionError("a stream ends with its answer")

    return answer_question


def _searching(service: Service) -> Any:
    async def search_passages(
        query: Annotated[str, Field(min_length=1, description="Words of the passages looked for.")],
        k: Annotated[int, Field(ge=1, le=MAX_PASSAGES, description="Most passages.")] = 5,
        corpus: Annotated[
            str | None, Field(description=_names("The documents", service.corpora, service.default_corpus))
        ] = None,
    ) -> FoundPassages:
        """Search the user's documents: one search, the passages found as they are, best first."""
        with _polyhop_errors():
            return FoundPassages.of(await service.search(query, k, corpus))

    return search_passages


def _looking_back(service: Service) -> Any:
    from mcp.types import CallToolResult, TextContent

    async def get_trace(
        trace_id: Annotated[str, Field(description="As answer_question gave it; the latest answers are kept.")],
    ) -> Annotated[CallToolResult, FoundTrace]:
        """Show how an answer was found: every search, model call and passage, as an outline and step by step."""
        with _polyhop_errors():
            found = FoundTrace.of(service.trace(trace_id))
        content = [TextContent(type="text", text=found.outline)]
        return CallToolResult(content=content, structured_content=found.model_dump(mode="json"))

    return get_trace


@contextmanager
def _polyhop_errors() -> Iterator[None]:
    """Pass polyhop's own errors to the client with their message, and no others."""
    from mcp.server.mcpserver.exceptions import ToolError

    try:
        yield
    except PolyhopError as error:
        raise ToolError(str(error)) from error


def _names(what: str, names: Any, default: str) -> str:
    return f"{what}: {', '.join(names)}. By default {default}."
