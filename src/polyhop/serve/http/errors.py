"""Errors over HTTP: their statuses, and their common form ``{"error": {"type", "message", "param"?}}``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from polyhop.errors import PolyhopError, ServiceError, UsageError
from polyhop.serve.errors import (
    Busy,
    ClientGone,
    NotAllowed,
    NotStored,
    NoUploads,
    OutOfTime,
    Stopping,
    TooLarge,
    TooManyRequests,
    UnknownCorpus,
    UnknownRun,
    UnknownTrace,
)
from polyhop.serve.http.replies import reply
from polyhop.serve.logs import LOG

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response

_STATUSES: tuple[tuple[type[PolyhopError], int, str], ...] = (
    (UnknownTrace, 404, "not_found"),
    (UnknownRun, 404, "not_found"),
    (UnknownCorpus, 404, "not_found"),
    (NotAllowed, 401, "not_allowed"),
    (Busy, 503, "busy"),
    (TooManyRequests, 429, "too_many"),
    (Stopping, 503, "stopping"),
    (ClientGone, 499, "left"),
    (OutOfTime, 504, "out_of_time"),
    (TooLarge, 413, "too_large"),
    (NoUploads, 403, "no_uploads"),
    (NotStored, 507, "not_stored"),
    (UsageError, 400, "invalid_request"),
    (ServiceError, 502, "upstream"),
)
"""Status and type by error; the first match wins."""

_OTHERS = {404: "not_found", 405: "method_not_allowed", 413: "too_large", 415: "unsupported_media_type"}

_UNREADABLE: dict[type[BaseException] | None, str] = {
    RecursionError: "is nested too deeply",
    UnicodeDecodeError: "is not UTF-8",
    ValueError: "has a number of too many digits",
}
"""The fault of a body by the exception that reading it raises."""


class RequestError(PolyhopError):
    """A request that is refused before the service sees it. ``param`` is the part that is wrong, ``code`` OpenAI's name
    of the error."""

    def __init__(self, status: int, type: str, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.type, self.param, self.code = status, type, param, code


class ErrorDetail(BaseModel):
    """An error: a type for programs, a message for people, and the wrong part of the request."""

    type: str
    message: str
    param: str | None = None
    code: str | None = None


class ErrorBody(BaseModel):
    """The body of every error response."""

    error: ErrorDetail


WRONG_USE: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody, "description": description}
    for status, description in {
        400: "The request is invalid.",
        401: "A key is missing or wrong.",
        403: "The server takes no uploads, or the request comes from a page of another site.",
        404: "Not found.",
        413: "The body is too large.",
        415: "The body is not JSON or, for an upload, not a form.",
        422: "The body or a parameter has the wrong form.",
        429: "Too many requests; Retry-After gives the seconds to wait.",
        502: "The language model or the retriever could not be reached or refused the request.",
        503: "The service is busy or stopping.",
        504: "The question took longer than the service allows.",
        507: "There is no space for the upload.",
    }.items()
}
"""The errors of every operation, for the OpenAPI document."""


def error_response(error: Exception) -> tuple[int, dict[str, Any]]:
    """Return the status and the body of an error. An unexpected error is logged, and its message is not sent."""
    if isinstance(error, RequestError):
        return error.status, body(error.type, str(error), error.param, error.code)
    for kind, status, name in _STATUSES:
        if isinstance(error, kind):
            return status, body(name, str(error), getattr(error, "field", None))
    if isinstance(error, PolyhopError):
        return 500, body("failed", str(error))
    LOG.error("an unexpected error", exc_info=error)
    return 500, body("internal", "the server failed; its log says why")


def body(type: str, message: str, param: str | None = None, code: str | None = None) -> dict[str, Any]:
    """Return the body of an error."""
    more = {name: value for name, value in {"param": param, "code": code}.items() if value}
    return {"error": {"type": type, "message": message, **more}}


def headers_of(error: Exception) -> dict[str, str]:
    """Return the headers of an error."""
    if isinstance(error, NotAllowed):
        return {"WWW-Authenticate": "Bearer"}
    return {"Retry-After": str(math.ceil(error.retry_after))} if isinstance(error, TooManyRequests) else {}


def install(app: FastAPI) -> None:
    """Make the app return every error in this form."""
    from fastapi.exceptions import RequestValidationError
    from starlette.exceptions import HTTPException

    async def raised(request: Request, error: Exception) -> Response:
        status, content = error_response(error)
        return reply(content, status, headers_of(error))

    async def refused(request: Request, error: Any) -> Response:
        headers, path = dict(error.headers or {}), request.url.path[:200]
        if error.status_code == 400:  # FastAPI's for JSON that Python gives up on
            why = _UNREADABLE.get(type(error.__cause__), "cannot be read")
            return reply(body("invalid_request", f"the body {why}"), 400)
        why = {
            404: f"nothing found at {path}; /openapi.json lists every path",
            405: f"{path} takes {headers.get('Allow') or 'another method'}, not {request.method}",
        }.get(error.status_code, str(error.detail))
        return reply(body(_OTHERS.get(error.status_code, "failed"), why), error.status_code, headers)

    async def malformed(request: Request, error: Any) -> Response:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            why = f"the body is no valid JSON: {first['ctx']['error']} at character {first['loc'][-1]}"
            return reply(body("invalid_request", why), 422)
        location = ".".join(str(part) for part in first["loc"][1:])[:200]
        return reply(
            body("invalid_request", f"{location}: {first['msg']}" if location else first["msg"], location), 422
        )

    app.add_exception_handler(PolyhopError, raised)
    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(RequestValidationError, malformed)
