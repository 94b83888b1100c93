"""polyhop's own HTTP interface: ask, search, look at traces, and see what there is.

Annotations are evaluated here, since FastAPI reads them, and it is imported where a router is made.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from polyhop.methods.registry import methods
from polyhop.serve.http.errors import WRONG_USE, error_response
from polyhop.serve.http.replies import cancel_on_disconnect, event, events_reply, reply
from polyhop.serve.schemas import answer_row, started_row, summary_row, trace_row
from polyhop.serve.service import MAX_PASSAGES, AskRequest, AskResponse, AskStarted, Service
from polyhop.trace import passages_in, plain
from polyhop.types import Kind

if TYPE_CHECKING:
    from fastapi import APIRouter


class Body(BaseModel):
    """A request body: a field that is not known is an error."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class How(Body):
    """Options of a question. Limits may be stricter than the server's, never looser."""

    kind: Kind = "qa"
    settings: dict[str, Any] = Field(default_factory=dict, description="The method's own; /v1/methods tells them.")
    max_calls: int | None = Field(default=None, gt=0)
    max_tokens: int | None = Field(default=None, gt=0)
    max_seconds: float | None = Field(default=None, gt=0)
    abstain_below: float | None = Field(default=None, gt=0, le=1)


class AskBody(How):
    """A question."""

    question: str = Field(min_length=1, examples=["Where was the director of Alien born?"])
    method: str | None = None
    corpus: str | None = None
    stream: bool = Field(default=False, description="Every step as it happens, as server-sent events.")

    def to_request(self) -> AskRequest:
        """The body as the service takes it."""
        return AskRequest(**{name: value for name, value in self if name != "stream"})


class SearchBody(Body):
    """A search."""

    query: str = Field(min_length=1)
    k: int = Field(5, ge=1, le=MAX_PASSAGES)
    corpus: str | None = None


class AnswerShape(BaseModel):
    """An answer."""

    trace_id: str
    method: str
    corpus: str
    answer: str
    content: str
    confidence: float | None
    supported: bool
    abstained: bool
    notice: str | None = None
    passages: list[dict[str, Any]]
    evidence: list[dict[str, Any]]
    citations: list[dict[str, Any]]
    statistics: dict[str, float]
    usage: dict[str, Any]


class CorpusShape(BaseModel):
    """A corpus: its size and examples of its content."""

    corpus: str
    passages: int | None = Field(description="Null if a retriever brings its passages.")
    files: int | None = Field(description="The documents that the passages were cut from; null if not known.")
    titles: list[str] = Field(description="Some of the titles.")
    questions: list[str] = Field(description="Questions that it can answer, of the demo's corpus alone.")


def router(service: Service) -> "APIRouter":
    """The routes under ``/v1`` that are polyhop's own."""
    from fastapi import APIRouter, Request, Response

    async def ask(body: AskBody, request: Request) -> Response:
        """Answer a question: a JSON object or, with ``stream`` or ``Accept: text/event-stream``, server-sent events:
        ``start``, then ``passages`` and ``step`` as they come, then ``answer`` or ``error``."""
        if body.stream or "text/event-stream" in request.headers.get("accept", ""):
            return await events_reply(events(service, body.to_request()))
        return reply(answer_row(await cancel_on_disconnect(request, service.ask(body.to_request()))))

    async def search(body: SearchBody, request: Request) -> Response:
        """The best passages of a corpus for a query, best first."""
        found = await cancel_on_disconnect(request, service.search(body.query, body.k, body.corpus))
        return reply({"passages": [{"rank": rank, **passage.to_dict()} for rank, passage in enumerate(found, 1)]})

    async def traces() -> Response:
        """The latest answers, the newest first."""
        return reply({"traces": [summary_row(response) for response in service.traces()]})

    async def trace(trace_id: str) -> Response:
        """An answer and every step of how it was found."""
        return reply(trace_row(service.trace(trace_id)))

    async def prompt(trace_id: str, step: int) -> Response:
        """The messages that a language model call of a trace was sent."""
        return reply({"messages": service.prompt(trace_id, step)})

    async def all_methods() -> Response:
        """The methods, with the papers they are from, what they need and their settings."""
        return reply({"default": service.default_method, "methods": [method_row(name) for name in methods()]})

    async def corpora() -> Response:
        """The corpora that can be asked."""
        return reply({"default": service.default_corpus, "corpora": list(service.corpora)})

    async def one_corpus(corpus: str) -> Response:
        """The size of a corpus and examples of its content."""
        return reply({"corpus": corpus, **asdict(await service.facts(corpus))})

    made = APIRouter(prefix="/v1", responses=WRONG_USE)
    answer = {"model": AnswerShape, "content": {"text/event-stream": {}}}
    made.add_api_route("/ask", ask, methods=["POST"], responses={200: answer})
    made.add_api_route("/search", search, methods=["POST"])
    made.add_api_route("/traces", traces)
    made.add_api_route("/traces/{trace_id}", trace)
    made.add_api_route("/traces/{trace_id}/steps/{step}/prompt", prompt)
    made.add_api_route("/methods", all_methods)
    made.add_api_route("/corpora", corpora)
    made.add_api_route("/corpora/{corpus:path}", one_corpus, responses={200: {"model": CorpusShape}})
    return made


async def events(service: Service, request: AskRequest) -> AsyncGenerator[bytes, None]:
    """A question under way as server-sent events. Every passage comes once, before the step that first names it."""
    shown: set[str] = set()
    began = False
    try:
        async with aclosing(service.stream(request)) as happenings:
            async for happening in happenings:
                if isinstance(happening, AskStarted):
                    began = True
                    yield event("start", started_row(happening))
                elif isinstance(happening, AskResponse):
                    yield event("answer", answer_row(happening))
                else:
                    new = {p.id: p.to_dict() for p in passages_in(happening) if p.id not in shown}
                    if new:
                        shown |= new.keys()
                        yield event("passages", new)
                    yield event("step", happening.to_dict())
    except Exception as error:  # once the stream has begun, the error goes into it
        if not began:
            raise
        yield event("error", error_response(error)[1]["error"])


def method_row(name: str) -> dict[str, Any]:
    """Return a method as clients see it, settings with their defaults."""
    method = methods()[name]
    return {
        "name": name,
        "summary": method.summary,
        "paper": method.paper,
        "family": method.family,
        "calls": method.calls,
        "settings": {setting.name: plain(setting.default) for setting in method.settings.values()},
    }
