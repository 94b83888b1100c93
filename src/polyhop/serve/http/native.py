"""polyhop's own HTTP API: ask, search, list traces and methods, and look at runs.

This module evaluates its annotations, because FastAPI reads them. FastAPI is imported only when a router is created.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge, Le
from pydantic import BaseModel, ConfigDict, Field

from polyhop.engine.options import REQUEST_LIMITS
from polyhop.methods.meanings import literals, meaning, takes_many, takes_number
from polyhop.methods.registry import Method, Setting, methods
from polyhop.serve.http.errors import WRONG_USE, error_response
from polyhop.serve.http.replies import cancel_on_disconnect, event, events_reply, reply
from polyhop.serve.runs import Runs
from polyhop.serve.schemas import answer_row, started_row, summary_row, trace_row
from polyhop.serve.service import MAX_PASSAGES, AskRequest, AskResponse, AskStarted, Service
from polyhop.trace import passages_in, plain
from polyhop.types import Kind, Support

if TYPE_CHECKING:
    from fastapi import APIRouter


PAGE_SIZE = 100
"""Default number of a run's questions per page."""
_CORPUS = "A corpus of /v1/corpora; by default the first."


class Body(BaseModel):
    """A request body. An unknown field is an error."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


def _limit(name: str, *, gt: float, le: float | None = None) -> Any:
    """Return the field of a limit, described as on the command line."""
    return Field(default=None, description=REQUEST_LIMITS[name].help, gt=gt, le=le)


class How(Body):
    """Options of a question. Limits may be stricter than the server's, never looser."""

    kind: Kind = Field(default="qa", description="Kind of question.")
    settings: dict[str, Any] = Field(
        default_factory=dict, description="Settings of the method; /v1/methods lists them."
    )
    max_calls: int | None = _limit("max_calls", gt=0)
    max_tokens: int | None = _limit("max_tokens", gt=0)
    max_seconds: float | None = _limit("max_seconds", gt=0)
    abstain_below: float | None = _limit("abstain_below", gt=0, le=1)


class AskBody(How):
    """A question."""

    question: str = Field(min_length=1, description="The question.", examples=["Where was the director of Alien born?"])
    method: str | None = Field(default=None, description="A method of /v1/methods; by default the server's.")
    corpus: str | None = Field(default=None, description=_CORPUS)
    stream: bool = Field(default=False, description="Send every step as it happens, as server-sent events.")

    def to_request(self) -> AskRequest:
        """Convert the body to a request of the service."""
        return AskRequest(**{name: value for name, value in self if name != "stream"})


class SearchBody(Body):
    """A search."""

    query: str = Field(min_length=1, description="The search query.")
    k: int = Field(5, ge=1, le=MAX_PASSAGES, description="Number of passages.")
    corpus: str | None = Field(default=None, description=_CORPUS)


class AnswerShape(BaseModel):
    """An answer."""

    trace_id: str
    method: str
    corpus: str
    answer: str
    content: str
    confidence: float | None
    support: Support
    supported: bool
    quotation: dict[str, Any] | None
    abstained: bool
    parsed: bool
    notice: str | None = None
    passages: list[dict[str, Any]]
    evidence: list[dict[str, Any]]
    citations: list[dict[str, Any]]
    statistics: dict[str, float]
    usage: dict[str, Any]


def router(service: Service) -> "APIRouter":
    """Create polyhop's own routes under ``/v1``."""
    from fastapi import APIRouter, Request, Response

    async def ask(body: AskBody, request: Request) -> Response:
        """Answer a question with a JSON object or, with ``stream`` or ``Accept: text/event-stream``, with server-sent
        events: ``start``, then ``passages`` and ``step`` as they happen, then ``answer`` or ``error``."""
        if body.stream or "text/event-stream" in request.headers.get("accept", ""):
            return await events_reply(events(service, body.to_request()))
        return reply(answer_row(await cancel_on_disconnect(request, service.ask(body.to_request()))))

    async def search(body: SearchBody, request: Request) -> Response:
        """Return the best passages of a corpus for a query, best first."""
        found = await cancel_on_disconnect(request, service.search(body.query, body.k, body.corpus))
        return reply({"passages": [{"rank": rank, **passage.to_dict()} for rank, passage in enumerate(found, 1)]})

    async def traces() -> Response:
        """List recent answers, newest first."""
        return reply({"traces": [summary_row(response) for response in service.traces()]})

    async def trace(trace_id: str) -> Response:
        """Return an answer with its trace."""
        return reply(trace_row(service.trace(trace_id)))

    async def prompt(trace_id: str, step: int) -> Response:
        """Return the messages of a language model call in a trace."""
        return reply({"messages": service.prompt(trace_id, step)})

    async def all_methods() -> Response:
        """List the methods with their papers, needs and settings."""
        return reply(
            {
                "default": service.default_method,
                "methods": [method_row(name) for name, method in methods().items() if not method.reads_gold],
            }
        )

    routes = APIRouter(prefix="/v1", responses=WRONG_USE)
    answer = {"model": AnswerShape, "content": {"text/event-stream": {}}}
    routes.add_api_route("/ask", ask, methods=["POST"], responses={200: answer})
    routes.add_api_route("/search", search, methods=["POST"])
    routes.add_api_route("/traces", traces)
    routes.add_api_route("/traces/{trace_id}", trace)
    routes.add_api_route("/traces/{trace_id}/steps/{step}/prompt", prompt)
    routes.add_api_route("/methods", all_methods)
    return routes


def runs_router(service: Service) -> "APIRouter":
    """Create the routes under ``/v1/runs``. They are plain functions, which FastAPI calls on threads, since reading a
    large run or comparing two is slow."""
    from fastapi import APIRouter, Query, Response

    runs = Runs(service.runs)

    def rows() -> Response:
        """List the runs, newest first, with the metrics that tables show; an unreadable run has an ``error``."""
        return reply({"runs": runs.rows()})

    def compare(a: str, b: str) -> Response:
        """Compare two runs on the questions that both answered: the differences of metrics with intervals by paired
        bootstrap, and the questions that only one of them got right."""
        return reply(runs.compare(a, b))

    def frontier(
        run: Annotated[list[str], Query(default_factory=list)],
        cost: Literal["calls", "tokens", "seconds"] = "calls",
        metric: str | None = None,
    ) -> Response:
        """Draw the cost per question and the score of all or the named runs. Runs without the metric are left out and
        named in the picture."""
        policy = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
        return Response(runs.frontier(run, cost, metric), headers=policy, media_type="image/svg+xml")

    def one(run: str) -> Response:
        """Return a run's settings and all its metrics."""
        return reply(runs.run(run))

    def questions(
        run: str,
        wrong: bool | None = None,
        type: str | None = None,
        search: str = "",
        offset: Annotated[int, Ge(0)] = 0,
        limit: Annotated[int, Ge(1), Le(1000)] = PAGE_SIZE,
    ) -> Response:
        """List a run's questions and results: those judged wrong (or right), of a type, with these words."""
        return reply(runs.questions(run, wrong=wrong, type=type, search=search, offset=offset, limit=limit))

    def question(run: str, question: str) -> Response:
        """Return a question of a run with its answer and its trace."""
        return reply(runs.question(run, question))

    routes = APIRouter(prefix="/v1/runs", responses=WRONG_USE)
    routes.add_api_route("", rows)
    routes.add_api_route("/compare", compare)
    picture = {"content": {"image/svg+xml": {"schema": {"type": "string"}}}}
    routes.add_api_route("/frontier.svg", frontier, response_class=Response, responses={200: picture})
    routes.add_api_route("/{run}", one)
    routes.add_api_route("/{run}/questions", questions)
    routes.add_api_route("/{run}/questions/{question:path}", question)
    return routes


async def events(service: Service, request: AskRequest) -> AsyncGenerator[bytes, None]:
    """Answer a question as server-sent events. Every passage is sent once, before the first step that names it."""
    shown: set[str] = set()
    began = False
    try:
        async with aclosing(service.stream(request)) as updates:
            async for update in updates:
                if isinstance(update, AskStarted):
                    began = True
                    yield event("start", started_row(update))
                elif isinstance(update, AskResponse):
                    yield event("answer", answer_row(update))
                else:
                    new = {p.id: p.to_dict() for p in passages_in(update) if p.id not in shown}
                    if new:
                        shown |= new.keys()
                        yield event("passages", new)
                    yield event("step", update.to_dict())
    except Exception as error:  # after the first event, the error is part of the stream
        if not began:
            raise
        yield event("error", error_response(error)[1]["error"])


def method_row(name: str) -> dict[str, Any]:
    """Return a method as clients see it, with the defaults of its settings."""
    method = methods()[name]
    return {
        "name": name,
        "summary": method.summary,
        "paper": method.paper,
        "family": method.family,
        "calls": method.calls,
        "settings": {setting.name: plain(setting.default) for setting in method.settings.values()},
        "fields": [field_row(method, setting) for setting in method.settings.values() if not setting.names_file],
    }


def field_row(method: Method, setting: Setting) -> dict[str, Any]:
    """Return a setting that a client may give: its meaning, default and kind of value, for a form."""
    words, number = literals(setting.type), takes_number(setting)
    if setting.type is bool:
        kind = "switch"
    elif words and not number:
        kind = "choice"
    else:
        kind = "number" if number and not words and not takes_many(setting) else "text"
    return {
        "name": setting.name,
        "meaning": meaning(method, setting.name),
        "default": plain(setting.default),
        "kind": kind,
        "values": words,
    }
