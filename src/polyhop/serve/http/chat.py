"""The OpenAI-compatible way in, for any chat client: ``/v1/chat/completions``, whole or streamed, and ``/v1/models``.

``model`` picks the method and the corpus: ``tor``, ``tor@docs``, or ``polyhop`` for the default of either. The last
user message is the question; a method answers one question, so no other message is read, and ``polyhop.unread`` counts
them. ``content`` is the answer with its references as Markdown; a namespaced field ``polyhop`` of the response, or of
the chunk that carries ``finish_reason``, has the answer alone, its citations, confidence, support and trace id:

    {"model": "tor@docs", "messages": [{"role": "user", "content": "Where was the director of Alien born?"}]}

A request may have such a field too: ``kind``, ``settings``, the limits of ``/v1/ask``, and ``references`` (false: the
answer alone is the content). What would change the form of the answer and cannot be done, as ``n`` above 1 or tools, is
an error; other parameters, as ``temperature``, have no effect, since a method's prompts have their own, and are named
in ``polyhop.ignored``.

Annotations are evaluated here, since FastAPI reads them, and it is imported where a router is made.
"""

import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from polyhop.answer import references, with_references
from polyhop.errors import UnknownName, UsageError
from polyhop.methods.registry import methods
from polyhop.serve.http.errors import WRONG_USE, RequestError, error_response
from polyhop.serve.http.native import How
from polyhop.serve.http.replies import cancel_on_disconnect, encoded, events_reply, reply
from polyhop.serve.schemas import answer_row, notice_of
from polyhop.serve.service import AskRequest, AskResponse, AskStarted, Service

if TYPE_CHECKING:
    from fastapi import APIRouter

DEFAULT = "polyhop"

Models: TypeAlias = Mapping[str, tuple[str | None, str | None]]
"""Method and corpus, None for the default, by the name of the model."""

_HARMLESS: Mapping[str, tuple[Any, ...]] = {
    "n": (1,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "modalities": (["text"],),
    "audio": (),
    "web_search_options": (),
}
"""Parameters that would change the form of the answer, and the values besides None that leave it as it is."""

_FIELDS = {"question": "messages", "method": "model", "corpus": "model"}
"""Fields of a chat request by those of ``AskRequest``; the others stand under ``polyhop``."""

_ANSWER_FIELDS = (
    "trace_id",
    "method",
    "corpus",
    "answer",
    "confidence",
    "supported",
    "abstained",
    "notice",
    "statistics",
)
_CHUNK = "chat.completion.chunk"


class Message(BaseModel):
    """One turn; only the text of a user's last one is read."""

    model_config = ConfigDict(extra="allow")

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[dict[str, Any]] | None = None


class StreamOptions(BaseModel):
    """Options of a stream."""

    include_usage: bool | None = False


class Extension(How):
    """The field ``polyhop`` of a request."""

    references: bool = Field(default=True, description="Whether the content has its references; else the answer only.")


class ChatBody(BaseModel):
    """A request. Parameters that are not listed here are refused or of no effect."""

    model_config = ConfigDict(extra="allow")

    model: str = Field(default=DEFAULT, examples=["tor", "tor@docs"])
    messages: list[Message] = Field(min_length=1)
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    polyhop: Extension = Extension()


@dataclass(frozen=True)
class Turn:
    """A chat request as the service takes it; ``unread`` messages and ``ignored`` parameters have no effect."""

    request: AskRequest
    references: bool
    unread: int
    ignored: tuple[str, ...]

    @classmethod
    def of(cls, request: ChatBody, known: Models) -> "Turn":
        """Raises ``RequestError`` for what is not supported."""
        given = {name: value for name, value in (request.model_extra or {}).items() if value is not None}
        for name, harmless in _HARMLESS.items():
            if name in given and given.pop(name) not in harmless:
                raise _error(f"{name} is not supported: the answer is one text", name, "unsupported_parameter")
        method, corpus = _named(known, request.model)
        options = {name: value for name, value in request.polyhop if name != "references"}
        question = AskRequest(_question(request.messages), method, corpus, **options)
        return cls(question, request.polyhop.references, len(request.messages) - 1, tuple(sorted(given)))


def models(service: Service) -> Models:
    """The models of a service. What only ranks passages is none."""
    answering = [name for name, method in methods().items() if method.answers(method.resolve({}))]
    named = {DEFAULT: None, **{name: name for name in answering}}
    beside = {f"{name}@{corpus}": (method, corpus) for name, method in named.items() for corpus in service.corpora}
    return {**{name: (method, None) for name, method in named.items()}, **beside}


def router(service: Service) -> "APIRouter":
    """The routes of OpenAI's API that there are."""
    from fastapi import APIRouter, Request, Response

    async def complete(request: ChatBody, http: Request) -> Response:
        """Answer the last user message; with ``stream``, as server-sent events."""
        turn = Turn.of(request, known)
        with _fields_named():
            if request.stream:
                with_usage = bool(request.stream_options and request.stream_options.include_usage)
                return await events_reply(chunks(service, turn, with_usage))
            return reply(completion(turn, await cancel_on_disconnect(http, service.ask(turn.request))))

    async def listed() -> Response:
        """The models: a method, or a method over a corpus, each."""
        return reply({"object": "list", "data": [_model(name, began) for name in known]})

    async def one(model: str) -> Response:
        """A model."""
        _named(known, model)
        return reply(_model(model, began))

    began, known = int(time.time()), models(service)
    made = APIRouter(prefix="/v1", responses=WRONG_USE)
    streamed: dict[str, Any] = {"content": {"text/event-stream": {}}}
    made.add_api_route("/chat/completions", complete, methods=["POST"], responses={200: streamed})
    made.add_api_route("/models", listed)
    made.add_api_route("/models/{model}", one)
    return made


async def chunks(service: Service, turn: Turn, with_usage: bool) -> AsyncGenerator[bytes, None]:
    """A question under way as OpenAI's chunks: the role at once, the answer line by line, why it ends, the usage."""
    head: dict[str, Any] = {}
    try:
        async with aclosing(service.stream(turn.request)) as happenings:
            async for happening in happenings:
                if isinstance(happening, AskStarted):
                    head = {**_head(happening, _CHUNK), **({"usage": None} if with_usage else {})}
                    yield _chunk(head, {"role": "assistant", "content": ""})
                elif isinstance(happening, AskResponse):
                    for line in content(turn, happening).splitlines(keepends=True):
                        yield _chunk(head, {"content": line})
                    yield _chunk(head, {}, "stop", polyhop=extension(turn, happening))
                    if with_usage:
                        yield _data({**head, "choices": [], "usage": usage(happening)})
        yield b"data: [DONE]\n\n"
    except Exception as error:  # once the stream has begun, the error goes into it
        if not head:
            raise
        yield _data(error_response(error)[1])


def completion(turn: Turn, response: AskResponse) -> dict[str, Any]:
    """A whole response."""
    message = {"role": "assistant", "content": content(turn, response), "refusal": None}
    return {
        **_head(response, "chat.completion"),
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
        "usage": usage(response),
        "polyhop": extension(turn, response),
    }


def content(turn: Turn, response: AskResponse) -> str:
    """The answer as a chat client shows it: with its references, and what is to know before trusting it."""
    if not turn.references:
        return response.answer.text
    notice = notice_of(response.answer)
    return "\n\n".join(filter(None, (with_references(response.answer), f"*{notice}*" if notice else "")))


def extension(turn: Turn, response: AskResponse) -> dict[str, Any]:
    """The field ``polyhop``: what OpenAI's shape has no place for."""
    row = answer_row(response)
    titles = {reference.passage.id: reference.passage.title for reference in references(response.answer)}
    return {
        **{name: row[name] for name in _ANSWER_FIELDS if name in row},
        "citations": [{**cited, "title": titles.get(cited["passage_id"])} for cited in row["citations"]],
        "unread": turn.unread,
        "ignored": list(turn.ignored),
    }


def usage(response: AskResponse) -> dict[str, int]:
    """The tokens of all model calls of the question."""
    spent = response.answer.usage
    total = spent.prompt_tokens + spent.completion_tokens
    return {
        "prompt_tokens": spent.prompt_tokens,
        "completion_tokens": spent.completion_tokens,
        "total_tokens": total,
    }


def _named(known: Models, model: str) -> tuple[str | None, str | None]:
    if model not in known:
        raise _error(str(UnknownName("model", model[:200], known)), "model", "model_not_found", 404)
    return known[model]


@contextmanager
def _fields_named() -> Iterator[None]:
    """Have a ``UsageError`` of the service tell the field by its name in a chat request."""
    try:
        yield
    except UsageError as error:
        if error.field is not None:
            error.field = _FIELDS.get(error.field, f"polyhop.{error.field}")
        raise


def _error(message: str, param: str, code: str, status: int = 400) -> RequestError:
    return RequestError(status, "invalid_request_error", message, param, code)


def _question(messages: list[Message]) -> str:
    """The text of the last message of the user."""
    last = next((message for message in reversed(messages) if message.role == "user"), None)
    if last is None:
        raise _error("there is no user message to answer", "messages", "invalid_value")
    if isinstance(last.content, str) or last.content is None:
        return last.content or ""
    texts = [part.get("text") if part.get("type") == "text" else None for part in last.content]
    if not all(isinstance(text, str) for text in texts):
        raise _error("the question has a part that is no text", "messages", "invalid_value")
    return "\n".join(map(str, texts))


def _head(started: AskStarted | AskResponse, object_type: str) -> dict[str, Any]:
    request = started.request
    return {
        "id": f"chatcmpl-{started.trace_id}",
        "object": object_type,
        "created": int(time.time()),
        "model": f"{request.method}@{request.corpus}",
    }


def _model(name: str, created: int) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": created, "owned_by": "polyhop"}


def _chunk(head: Mapping[str, Any], delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return _data({**head, "choices": [choice], **more})


def _data(content: Any) -> bytes:
    return b"data: %s\n\n" % encoded(content)
