"""Uploads over HTTP: a form of files becomes a corpus, with its progress as server-sent events.

This module evaluates its annotations, because FastAPI reads them. FastAPI is imported only when a router is created.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from polyhop.data.converting.converter import NAMES, SUFFIXES
from polyhop.data.documents import unreadable
from polyhop.serve.drafts import Draft, UploadLimits
from polyhop.serve.errors import ClientGone
from polyhop.serve.http.errors import WRONG_USE, RequestError, error_response
from polyhop.serve.http.replies import cancel_on_disconnect, event, events_reply, reply
from polyhop.serve.service import Service
from polyhop.serve.uploads import Upload, UploadEvent, UploadProgress, UploadStarted

if TYPE_CHECKING:
    from fastapi import APIRouter, Request

_MAX_HEADERS = 8
_MAX_HEADER_BYTES = 4096
_MAX_NAME_BYTES = 1024


class CorpusShape(BaseModel):
    """A corpus: its size and examples of its content."""

    corpus: str
    passages: int | None = Field(description="Null if a retriever brings its own passages.")
    files: int | None = Field(description="Number of documents that the passages were cut from; null if unknown.")
    titles: list[str] = Field(description="Some of the titles.")
    questions: list[str] = Field(description="Questions that it can answer; only for the demo.")
    left_out: list[str] = Field(description="Parts of an upload that were not read, with the reasons.")
    guesses: list[str] = Field(description="Documents of an upload whose encoding was guessed, and as what.")


_FORM: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["files"],
                    "properties": {
                        "files": {
                            "type": "array",
                            "items": {"type": "string", "contentMediaType": "application/octet-stream"},
                            "description": "Documents; a file's name may be its path in a folder. Repeatable.",
                        },
                        "name": {
                            "type": "string",
                            "description": "A name for the corpus, by default the folder's; before the files.",
                        },
                    },
                }
            }
        },
    }
}


def router(service: Service) -> "APIRouter":
    """Create the routes of corpora, which can be listed, looked at, uploaded and deleted."""
    from fastapi import APIRouter, Request, Response

    async def corpora() -> Response:
        """List the corpora, with the limits of uploads; these are null if the server takes none."""
        limits = service.uploads.limits
        uploads = limits_row(limits, service.uploads.names()) if limits else None
        return reply({"default": service.default_corpus, "corpora": list(service.names()), "uploads": uploads})

    async def one(corpus: str) -> Response:
        """Return the size of a corpus and examples of its content."""
        return reply(await corpus_row(service, corpus))

    async def upload(request: Request) -> Response:
        """Upload documents as a corpus, which belongs to the key and is deleted when the server stops. Returns the
        corpus or, with ``Accept: text/event-stream``, server-sent events: ``start``, ``progress`` while the documents
        are indexed, then ``corpus`` or ``error``."""
        updates = service.uploads.add(int(request.headers.get("content-length", 0)), lambda draft: read(request, draft))
        if "text/event-stream" in request.headers.get("accept", ""):
            return await events_reply(events(service, updates))
        async with aclosing(updates):
            await anext(updates)  # the body has arrived
            return reply(await cancel_on_disconnect(request, result(service, updates)), 201)

    async def delete(corpus: str) -> Response:
        """Delete an uploaded corpus."""
        service.uploads.delete(corpus)
        return Response(status_code=204)

    routes = APIRouter(prefix="/v1/corpora", responses=WRONG_USE)
    shape = {"model": CorpusShape}
    sent: dict[int | str, Any] = {
        201: {**shape, "description": "The corpus."},
        200: {"content": {"text/event-stream": {}}},
    }
    routes.add_api_route("", corpora)
    routes.add_api_route("", upload, methods=["POST"], responses={**WRONG_USE, **sent}, openapi_extra=_FORM)
    routes.add_api_route("/{corpus:path}", one, responses={200: shape})
    routes.add_api_route("/{corpus:path}", delete, methods=["DELETE"], status_code=204)
    return routes


async def corpus_row(service: Service, corpus: str) -> dict[str, Any]:
    """Return the size of a corpus and examples of its content."""
    return {"corpus": corpus, **asdict(await service.facts(corpus))}


def limits_row(limits: UploadLimits, uploaded: Sequence[str]) -> dict[str, Any]:
    """Return the limits of uploads: numbers, bytes, and the suffixes of documents, and names without one, each with the
    reason that it cannot be read here, "" if it can; and the names of those that were ``uploaded``."""
    return {
        "max_files": limits.files,
        "max_file_bytes": limits.file_bytes,
        "max_bytes": limits.total_bytes,
        "kinds": {kind: unreadable(kind) for kind in (*SUFFIXES, *NAMES)},
        "corpora": list(uploaded),
    }


async def result(service: Service, updates: AsyncGenerator[UploadEvent, None]) -> dict[str, Any]:
    """Wait for the end of an upload; return its corpus."""
    async for update in updates:
        if isinstance(update, Upload):
            return await corpus_row(service, update.name)
    raise AssertionError("an upload ends with its corpus")


async def events(service: Service, updates: AsyncGenerator[UploadEvent, None]) -> AsyncGenerator[bytes, None]:
    """Send an upload as server-sent events."""
    began = False
    try:
        async with aclosing(updates):
            async for update in updates:
                match update:
                    case UploadStarted():
                        began = True
                        yield event("start", asdict(update))
                    case UploadProgress():
                        yield event("progress", asdict(update))
                    case Upload():
                        yield event("corpus", await corpus_row(service, update.name))
    except Exception as error:
        if not began:
            raise
        yield event("error", error_response(error)[1]["error"])


async def read(request: "Request", draft: Draft) -> None:
    """Read the files of a form into a draft, as they arrive.

    Raises:
        RequestError: the body is not such a form.
        ClientGone: the client left.
    """
    from python_multipart.exceptions import FormParserError
    from python_multipart.multipart import MultipartParser, parse_options_header
    from starlette.requests import ClientDisconnect

    _, options = parse_options_header(request.headers.get("content-type"))
    form = _Form(draft)
    try:
        parser = MultipartParser(options.get(b"boundary", b""), form.callbacks())
        async for chunk in request.stream():
            parser.write(chunk)
        parser.finalize()
    except FormParserError as error:
        raise _malformed(f"the body is no valid form: {error}") from None
    except ClientDisconnect:
        raise ClientGone("the client left before its upload was complete") from None
    if not form.is_complete:
        raise _malformed("the body ends before its last boundary")


class _Form:
    """Writes the parts of a form into a draft; called by the parser."""

    def __init__(self, draft: Draft) -> None:
        self.draft, self.is_complete = draft, False
        self._header, self._headers = (bytearray(), bytearray()), dict[bytes, bytes]()
        self._name, self._in_file = bytearray(), False

    def callbacks(self) -> dict[str, Any]:
        """Return the functions that the parser calls."""
        names = (
            *("on_part_begin", "on_header_field", "on_header_value", "on_header_end", "on_headers_finished"),
            *("on_part_data", "on_part_end", "on_end"),
        )
        return {name: getattr(self, name) for name in names}

    def on_part_begin(self) -> None:
        self._headers = {}

    def on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._take(self._header[0], data[start:end], _MAX_HEADER_BYTES)

    def on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._take(self._header[1], data[start:end], _MAX_HEADER_BYTES)

    def on_header_end(self) -> None:
        name, value = (bytes(part) for part in self._header)
        self._headers[name.lower()] = value
        self._header = (bytearray(), bytearray())
        if len(self._headers) > _MAX_HEADERS:
            raise _malformed("a part of the form has too many headers")

    def on_headers_finished(self) -> None:
        from python_multipart.multipart import parse_options_header

        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        filename, field = options.get(b"filename"), options.get(b"name")
        self._in_file = filename is not None
        if filename is not None:
            self.draft.begin(filename.decode("utf-8", "replace").replace("%22", '"'))
        elif field != b"name":
            named = repr((field or b"").decode("utf-8", "replace")[:100])
            raise _malformed(f"the form has a field {named}; it takes files, and name")

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._in_file:
            self.draft.write(data[start:end])
        else:
            self._take(self._name, data[start:end], _MAX_NAME_BYTES)

    def on_part_end(self) -> None:
        if self._in_file:
            self.draft.end()
        else:
            self.draft.name = self._name.decode("utf-8", "replace")

    def on_end(self) -> None:
        self.is_complete = True

    def _take(self, part: bytearray, data: bytes, limit: int) -> None:
        part += data
        if len(part) > limit:
            raise _malformed(f"a header or a field of the form has more than {limit} bytes")


def _malformed(message: str) -> RequestError:
    return RequestError(400, "invalid_request", message)
