"""The service as tools of an agent, over the Model Context Protocol: ask, search, show how an answer was found.

This module evaluates its annotations, because the SDK reads them. The SDK is imported only when a server is created.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

from pydantic import BaseModel, Field

from polyhop import __version__
from polyhop.answer import in_words, references, title_and_location
from polyhop.common.extras import require
from polyhop.errors import PolyhopError, UnknownName
from polyhop.methods.registry import methods
from polyhop.serve.http.app import Options, serve_app
from polyhop.serve.http.guard import App, Gate
from polyhop.serve.schemas import answer_row, started_row
from polyhop.serve.service import MAX_PASSAGES, AskRequest, AskResponse, AskStarted, Service
from polyhop.trace import line_of
from polyhop.types import Passage, Support

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

Transport: TypeAlias = Literal["stdio", "http"]
TRANSPORTS = ("stdio", "http")
PATH = "/mcp"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""Host names that programs on this machine use."""
LOCAL = Options(hosts=LOOPBACK)

INSTRUCTIONS = (
    "Answers questions over the user's own documents, including questions that need several passages together. "
    "Tell the user if an answer is not supported, and name the cited passages."
)


class FoundPassage(BaseModel):
    """A passage of the corpus."""

    rank: int = Field(description="1 for the best.")
    id: str
    title: str
    text: str


class FoundPassages(BaseModel):
    """The passages that a search found, best first."""

    passages: list[FoundPassage]

    @classmethod
    def of(cls, passages: Sequence[Passage]) -> Self:
        rows = [
            {"rank": rank, "id": passage.id, "title": title_and_location(passage), "text": passage.text}
            for rank, passage in enumerate(passages, 1)
        ]
        return cls.model_validate(valid({"passages": rows}))


class CitedPassage(BaseModel):
    """A passage that supports the answer."""

    markers: list[int] = Field(description="Its citation numbers: [1] in the answer.")
    id: str
    title: str
    text: str = Field(description="The whole passage.")
    quotes: list[str] = Field(description="The parts of the text that contain the answer word for word, if any.")


class FoundAnswer(BaseModel):
    """An answer with its support."""

    answer: str = Field(description="Empty if there is no answer.")
    content: str = Field(
        description="The answer with its citation marks, and its reasoning if the method writes one; or words that "
        "there is no answer."
    )
    confidence: float | None = Field(description="0 to 1; null if unknown.")
    support: Support = Field(
        description="Whether the cited passages, read alone, give the answer: supported, not verified, or contradicted "
        "if they give another one."
    )
    supported: bool = Field(description="True if `support` is supported.")
    abstained: bool = Field(
        description="True if there is no answer: none was found, or it was withheld as too uncertain."
    )
    notice: str | None = Field(description="A warning to read before trusting the answer.")
    citations: list[CitedPassage]
    nearest: list[FoundPassage] = Field(description="If nothing is cited: the passages nearest to an answer.")
    method: str
    corpus: str
    trace_id: str = Field(description="The argument of get_trace.")

    @classmethod
    def of(cls, response: AskResponse) -> Self:
        answer = response.answer
        row = {
            "notice": None,
            **answer_row(response),
            "content": in_words(answer),
            "nearest": FoundPassages.of(answer.nearest).passages,
            "citations": [
                {
                    "markers": reference.markers,
                    "id": reference.passage.id,
                    "title": title_and_location(reference.passage),
                    "text": reference.passage.text,
                    "quotes": [reference.passage.text[start:end] for start, end in reference.spans],
                }
                for reference in references(answer)
            ],
        }
        return cls.model_validate(valid(row))


class FoundTrace(BaseModel):
    """The trace of an answer."""

    trace_id: str
    question: str
    method: str
    corpus: str
    answer: str
    outline: str = Field(description="One line per step, indented under its parent step.")
    steps: list[dict[str, Any]] = Field(
        description="The steps in order, each with its id, its parent and the steps it waited for."
    )
    passages: dict[str, dict[str, Any]] = Field(description="The passages of the steps, by id.")

    @classmethod
    def of(cls, response: AskResponse) -> Self:
        trace, answer = response.answer.trace, response.answer.text
        row = {**started_row(response), **trace.to_dict(), "answer": answer, "outline": trace.outline()}
        return cls.model_validate(valid(row))


def valid(value: Any) -> Any:
    """Return a JSON-ready value that can be encoded: an unpaired surrogate becomes a question mark.

    >>> valid({"text": "a\\ud800", "numbers": (1, 2)})
    {'text': 'a?', 'numbers': [1, 2]}
    """
    return json.loads(json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace"))


def run(
    service: Service,
    transport: Transport = "stdio",
    host: str = "127.0.0.1",
    port: int = 8010,
    options: Options | None = None,
) -> None:
    """Serve the tools until the client disconnects (``stdio``) or a signal arrives (``http``, at ``/mcp``), then close
    the service. Over stdio, stdout belongs to the protocol: other output goes to stderr. Over HTTP, ``options``
    restrict access; ``LOCAL`` by default.

    Raises:
        MissingExtra: the SDK is not installed.
        PolyhopError: as ``Service.open``.
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
    """Create the MCP server of a service, for any transport; ``lifespan`` is the SDK's.

    Raises:
        MissingExtra: the SDK is not installed.
    """
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
        described = " ".join(tool.__doc__.split())  # one line: the SDK does not fold it
        made.add_tool(tool, title=title, description=described, annotations=ToolAnnotations(read_only_hint=True))
    return made


def http_app(service: Service, options: Options | None = None) -> App:
    """Create the tools as an ASGI app, guarded by ``options``.

    Raises:
        MissingExtra: the SDK is not installed.
    """
    tools = server(service)
    from mcp.server.transport_security import TransportSecuritySettings
    from sse_starlette.sse import AppStatus

    AppStatus.disable_automatic_graceful_drain()  # at a signal the service ends its questions, not their streams
    given = options or LOCAL
    hosts = [host + port for host in given.hosts or () for port in ("", ":*")]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=given.hosts is not None,
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{host}" for host in hosts for scheme in ("http", "https")],
    )
    inner = tools.streamable_http_app(streamable_http_path=PATH, transport_security=security)
    return Gate(inner, **{**given.gate(), "origins": ("*",)})  # the transport checks origins itself, as MCP has it


async def _over_stdio(service: Service) -> None:
    @asynccontextmanager
    async def quiet(_: object) -> AsyncIterator[None]:
        with redirect_stdout(sys.stderr):  # else Python's buffered output would follow the last message
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

    answering = [name for name, method in methods().items() if not method.reads_gold]

    async def answer_question(
        question: Annotated[str, Field(min_length=1, description="The whole question, in the user's words.")],
        context: Context,
        method: Annotated[
            str | None, Field(description=_names("The method", answering, service.default_method))
        ] = None,
        corpus: Annotated[
            str | None, Field(description=_names("The documents", service.corpora, service.default_corpus))
        ] = None,
    ) -> FoundAnswer:
        """Answer a question over the user's documents, with as many searches as needed, and cite the passages that
        support the answer. Takes seconds to minutes. `support` says whether the cited passages, read alone, give the
        answer."""
        with _polyhop_errors():
            async with aclosing(service.stream(AskRequest(question, method=method, corpus=corpus))) as events:
                done = 0
                async for event in events:
                    if isinstance(event, AskResponse):
                        return FoundAnswer.of(event)
                    done += 1
                    what = f"started {event.request.method}" if isinstance(event, AskStarted) else line_of(event)
                    await context.report_progress(done, message=what)
        raise AssertionError("a stream ends with its answer")

    return answer_question


def _searching(service: Service) -> Any:
    async def search_passages(
        query: Annotated[str, Field(min_length=1, description="Words of the wanted passages.")],
        k: Annotated[int, Field(ge=1, le=MAX_PASSAGES, description="Maximum number of passages.")] = 5,
        corpus: Annotated[
            str | None, Field(description=_names("The documents", service.corpora, service.default_corpus))
        ] = None,
    ) -> FoundPassages:
        """Search the user's documents once, and return the passages, best first."""
        with _polyhop_errors():
            return FoundPassages.of(await service.search(query, k, corpus))

    return search_passages


def _looking_back(service: Service) -> Any:
    from mcp.types import CallToolResult, TextContent

    async def get_trace(
        trace_id: Annotated[str, Field(description="The trace_id of answer_question; only recent answers are kept.")],
    ) -> Annotated[CallToolResult, FoundTrace]:
        """Show how an answer was found: every search, model call and passage, as an outline and as steps."""
        with _polyhop_errors():
            found = FoundTrace.of(service.trace(trace_id))
        content = [TextContent(type="text", text=found.outline)]
        return CallToolResult(content=content, structured_content=found.model_dump(mode="json"))

    return get_trace


@contextmanager
def _polyhop_errors() -> Iterator[None]:
    """Report polyhop's own errors to the client with their messages, and hide others."""
    from mcp.server.mcpserver.exceptions import ToolError

    try:
        yield
    except PolyhopError as error:
        raise ToolError(str(error)) from error


def _names(what: str, names: Any, default: str) -> str:
    return f"{what}: {', '.join(names)}. Default: {default}."
