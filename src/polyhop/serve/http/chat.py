"""The OpenAI-compatible API, for any chat client: ``/v1/chat/completions``, with or without streaming; ``/v1/models``.

``model`` selects the method and the corpus: ``tor``, ``tor@docs``, or ``polyhop`` for the defaults. The last user
message is the question. In a conversation a language model first rewrites it, in one call, so that it is understandable
alone (``polyhop.question``); pocket cannot, and the answer says so. ``polyhop.unread`` counts the messages not read.
``content`` is the answer with its references, as Markdown. The field ``polyhop`` of the response, or of the chunk with
``finish_reason``, contains the answer alone, its citations, confidence, support and trace id:

    {"model": "tor@docs", "messages": [{"role": "user", "content": "Where was the director of Alien born?"}]}

A request may also have a field ``polyhop``: ``kind``, ``settings``, the limits of ``/v1/ask``, and ``references``
(false: the content is the answer alone). A parameter that would change the form of the answer, such as ``n`` above 1 or
tools, is an error. Other parameters, such as ``temperature``, have no effect, since a method's prompts have their own;
they are named in ``polyhop.ignored``.

This module evaluates its annotations, because FastAPI reads them. FastAPI is imported only when a router is created.
"""

import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from polyhop.answer import NO_ANSWER, in_markdown, references, with_references
from polyhop.engine.follow_up import MAX_TURNS
from polyhop.errors import UnknownName, UsageError
from polyhop.methods.registry import methods
from polyhop.prompts.tasks.chat import CHAT_QUESTION
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
"""Parameters that would change the form of the answer, and their harmless values besides None."""

_FIELDS = {"question": "messages", "method": "model", "corpus": "model"}
"""Fields of a chat request by those of ``AskRequest``; the others are under ``polyhop``."""

_ANSWER_FIELDS = (
    "trace_id",
    "method",
    "corpus",
    "answer",
    "confidence",
    "support",
    "supported",
    "quotation",
    "abstained",
    "notice",
    "statistics",
)
LAST_ALONE = "Only the last message was read, not the conversation before it: ask a whole question."
_CHUNK = "chat.completion.chunk"


class Message(BaseModel):
    """A message; only the text of the user's last message is read."""

    model_config = ConfigDict(extra="allow")

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[dict[str, Any]] | None = None


class StreamOptions(BaseModel):
    """Options of a stream."""

    include_usage: bool | None = False


class Extension(How):
    """The field ``polyhop`` of a request."""

    references: bool = Field(default=True, description="False: the content is the answer without references.")


class ChatBody(BaseModel):
    """A request. Parameters that are not listed here are refused or ignored."""

    model_config = ConfigDict(extra="allow")

    model: str = Field(default=DEFAULT, examples=["tor", "tor@docs"])
    messages: list[Message] = Field(min_length=1)
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    polyhop: Extension = Extension()


@dataclass(frozen=True)
class Turn:
    """A chat request for the service; ``unread`` messages and ``ignored`` parameters have no effect."""

    request: AskRequest
    references: bool
    unread: int
    ignored: tuple[str, ...]

    @classmethod
    def of(cls, request: ChatBody, known: Models) -> "Turn":
        """Convert a request.

        Raises:
            RequestError: a parameter is not supported, or the model is unknown.
        """
        given = {name: value for name, value in (request.model_extra or {}).items() if value is not None}
        for name, harmless in _HARMLESS.items():
            if name in given and given.pop(name) not in harmless:
                raise _error(f"{name} is not supported: the answer is one text", name, "unsupported_parameter")
        method, corpus = _named(known, request.model)
        options = {name: value for name, value in request.polyhop if name != "references"}
        *earlier, last = _turns(request.messages)
        question = AskRequest(last[1], method, corpus, conversation=tuple(earlier), **options)
        return cls(question, request.polyhop.references, len(request.messages) - 1, tuple(sorted(given)))


def models(service: Service) -> Models:
    """Return the models of a service. A method that only ranks passages is not one."""
    answering = [
        name for name, method in methods().items() if method.answers(method.resolve({})) and not method.reads_gold
    ]
    named = {DEFAULT: None, **{name: name for name in answering}}
    by_corpus = {f"{name}@{corpus}": (method, corpus) for name, method in named.items() for corpus in service.corpora}
    return {**{name: (method, None) for name, method in named.items()}, **by_corpus}


def router(service: Service) -> "APIRouter":
    """Create the supported routes of OpenAI's API."""
    from fastapi import APIRouter, Request, Response

    async def complete(request: ChatBody, http: Request) -> Response:
        """Answer the last user message; with ``stream``, as server-sent events."""
        turn = Turn.of(request, known)
        with _fields_named():
            if request.stream:
                with_usage = bool(request.stream_options and request.stream_options.include_usage)
                return await events_reply(chunks(service, turn, with_usage))
            return reply(completion(turn, await cancel_on_disconnect(http, service.ask(turn.request))))

    async def listed(corpora: bool = False) -> Response:
        """List the models: each method and, with ``corpora``, each method over each corpus."""
        names = [name for name, (_, corpus) in known.items() if corpora or corpus is None]
        return reply({"object": "list", "data": [_model(name, began) for name in names]})

    async def one(model: str) -> Response:
        """Return a model."""
        _named(known, model)
        return reply(_model(model, began))

    began, known = int(time.time()), models(service)
    routes = APIRouter(prefix="/v1", responses=WRONG_USE)
    streamed: dict[str, Any] = {"content": {"text/event-stream": {}}}
    routes.add_api_route("/chat/completions", complete, methods=["POST"], responses={200: streamed})
    routes.add_api_route("/models", listed)
    routes.add_api_route("/models/{model}", one)
    return routes


async def chunks(service: Service, turn: Turn, with_usage: bool) -> AsyncGenerator[bytes, None]:
    """Answer a question as OpenAI's chunks: the role at once, the answer by line, the finish reason, the usage."""
    head: dict[str, Any] = {}
    try:
        async with aclosing(service.stream(turn.request)) as updates:
            async for update in updates:
                if isinstance(update, AskStarted):
                    head = {**_head(update, _CHUNK), **({"usage": None} if with_usage else {})}
                    yield _chunk(head, {"role": "assistant", "content": ""})
                elif isinstance(update, AskResponse):
                    for line in content(turn, update).splitlines(keepends=True):
                        yield _chunk(head, {"content": line})
                    yield _chunk(head, {}, "stop", polyhop=extension(turn, update))
                    if with_usage:
                        yield _data({**head, "choices": [], "usage": usage(update)})
        yield b"data: [DONE]\n\n"
    except Exception as error:  # after the first chunk, the error is part of the stream
        if not head:
            raise
        yield _data(error_response(error)[1])


def completion(turn: Turn, response: AskResponse) -> dict[str, Any]:
    """Return a complete response."""
    message = {"role": "assistant", "content": content(turn, response), "refusal": None}
    return {
        **_head(response, "chat.completion"),
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
        "usage": usage(response),
        "polyhop": extension(turn, response),
    }


def content(turn: Turn, response: AskResponse) -> str:
    """Return the answer as a chat client shows it: with its references and its warning."""
    if not turn.references:
        return NO_ANSWER if response.answer.abstained else response.answer.text
    notice = (notice_of(response.answer) or "").removeprefix(NO_ANSWER).strip()  # the answer says that already
    notices = [notice, _reading(turn, response)]
    return "\n\n".join(filter(None, (with_references(response.answer), *(f"*{text}*" for text in notices if text))))


def _reading(turn: Turn, response: AskResponse) -> str | None:
    """Say how the last message of a conversation was read."""
    if not turn.request.conversation:
        return None
    question = rewritten(response)
    if question is None:
        return LAST_ALONE
    return f"Read as: {in_markdown(question)}" if question != turn.request.question else None


def extension(turn: Turn, response: AskResponse) -> dict[str, Any]:
    """Return the field ``polyhop``: everything that OpenAI's format has no field for."""
    row = answer_row(response)
    if notices := [notice for notice in (row.get("notice"), _reading(turn, response)) if notice]:
        row["notice"] = " ".join(notices)
    titles = {reference.passage.id: reference.passage.title for reference in references(response.answer)}
    return {
        **{name: row[name] for name in _ANSWER_FIELDS if name in row},
        "citations": [{**cited, "title": titles.get(cited["passage_id"])} for cited in row["citations"]],
        "question": rewritten(response) or turn.request.question,
        "unread": turn.unread - (rewritten(response) is not None) * len(turn.request.conversation[-MAX_TURNS:]),
        "ignored": list(turn.ignored),
    }


def usage(response: AskResponse) -> dict[str, Any]:
    """Return the tokens of all model calls of the question."""
    spent = response.answer.usage
    total = spent.prompt_tokens + spent.completion_tokens
    return {
        "prompt_tokens": spent.prompt_tokens,
        "completion_tokens": spent.completion_tokens,
        "total_tokens": total,
        "completion_tokens_details": {"reasoning_tokens": spent.reasoning_tokens},
    }


def _named(known: Models, model: str) -> tuple[str | None, str | None]:
    if model not in known:
        raise _error(str(UnknownName("model", model[:200], known)), "model", "model_not_found", 404)
    return known[model]


@contextmanager
def _fields_named() -> Iterator[None]:
    """Rename the field of a ``UsageError`` of the service to its name in a chat request."""
    try:
        yield
    except UsageError as error:
        if error.field is not None:
            error.field = _FIELDS.get(error.field, f"polyhop.{error.field}")
        raise


def _error(message: str, param: str, code: str, status: int = 400) -> RequestError:
    return RequestError(status, "invalid_request_error", message, param, code)


def _turns(messages: list[Message]) -> list[tuple[str, str]]:
    """Return the role and text of the last user message, and of the user's and the assistant's before it."""
    last = max((i for i, message in enumerate(messages) if message.role == "user"), default=None)
    if last is None:
        raise _error("there is no user message to answer", "messages", "invalid_value")
    spoken = [message for message in messages[:last] if message.role in ("user", "assistant")]
    earlier = [(message.role, " ".join(filter(None, _texts(message)))) for message in spoken]
    texts = _texts(messages[last])
    if None in texts:
        raise _error("the question has a part that is not text", "messages", "invalid_value")
    return [*((role, text) for role, text in earlier if text), ("user", "\n".join(map(str, texts)))]


def _texts(message: Message) -> list[str | None]:
    """Return the texts of a message's parts; None for a part that is not text."""
    if isinstance(message.content, str) or message.content is None:
        return [message.content or ""]
    texts = (part.get("text") if part.get("type") == "text" else None for part in message.content)
    return [text if isinstance(text, str) else None for text in texts]


def rewritten(response: AskResponse) -> str | None:
    """Return the question that a follow-up was rewritten to; None if only the last message was read."""
    calls = (call for call in response.answer.trace.calls if call.task == CHAT_QUESTION.name and call.output)
    return next((call.output["question"] for call in calls if call.output), None)


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
