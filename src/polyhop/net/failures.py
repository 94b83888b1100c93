"""Failures between a client and a server: their kinds, the wait before another attempt, the message to the user."""

from __future__ import annotations

import os
import random
import re
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Literal

import aiohttp
import orjson

from polyhop.common.text import printable
from polyhop.errors import nearest
from polyhop.redaction import summary

FailureKind = Literal[
    "retryable", "fatal", "context", "filter", "misfit", "quota", "key", "not_found", "redirect", "unreachable"
]

MAX_WAIT_SECONDS = 60.0
"""A longer ``Retry-After`` is cut to this."""
_FIRST_BACKOFF, _MAX_BACKOFF = 0.5, 30.0
_RETRYABLE = frozenset({408, 409, 424, 425, 429})  # 424: TGI lost a reply while writing it
_QUOTA = frozenset({402, 432, 433})  # the last two are Tavily's

_CONTEXT = re.compile(
    r"context_length|context[- _](?:length|size|window)|maximum context|too many tokens|prompt is too long"
    r"|input is too long|max_model_len|exceed_context|max_new_tokens` must be <=|must have less than \d+ tokens"
    r"|reduce the length of the (?:messages|prompt)",
    re.IGNORECASE,
)
_FILTER = re.compile(r"content_filter|content_policy|ResponsibleAIPolicy|content management policy", re.IGNORECASE)
_MISFIT = re.compile(r"model produced output that does not match", re.IGNORECASE)
"""llama.cpp's server could not fit what the model wrote into the form that it was held to."""
_QUOTED = re.compile(r"[:\n]|b?['\"]")
_SPENT = re.compile(r"insufficient_quota|QUOTA_LIMITED|^Request too large|not enough credits|PerDay", re.IGNORECASE)
_ADVICE: Mapping[FailureKind, str] = {
    "retryable": "Try again later, or with a lower max_concurrency or a longer timeout.",
    "context": "The prompt and its max_tokens do not fit the model's context: give fewer or shorter passages, a smaller"
    " max_tokens, or take a model with a longer context.",
    "quota": "Waiting will not help: the account's credit or its limit for one request is too small.",
    "key": "Set OPENAI_API_KEY (or api_key) to a key that this server takes for this model.",
    "not_found": "Check the model's name and the base URL, which for most servers ends in /v1.",
    "redirect": "Give the address it points to as the base URL.",
    "unreachable": "Is the server up at this address? Name another as openai:MODEL@URL or in OPENAI_BASE_URL.",
}
_jitter = random.Random()  # its own generator: a method's seeded draws must not depend on the network


class BadReply(Exception):
    """A body with status 200 that is not a usable reply; another attempt may help."""

    kind: FailureKind = "retryable"


class WrongShape(BadReply):
    """A body with status 200 that is whole and of another shape; another attempt would not help."""

    kind = "fatal"


class CallError(Exception):
    """A call that cannot be answered: the last failure, and the number of attempts and seconds spent."""

    def __init__(self, failure: Failure, attempts: int, seconds: float) -> None:
        super().__init__(failure.description)
        self.failure, self.attempts, self.seconds = failure, attempts, seconds


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt: its kind, a summary of the server's message, the seconds that the server asks to wait.

    The message may repeat the key that the server refuses, or the request that it cannot read.
    """

    kind: FailureKind
    message: str
    status: int | None = None
    parameter: str | None = None
    retry_after: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", summary(self.message))

    @property
    def description(self) -> str:
        """The failure in one phrase: ``503 Service Unavailable: overloaded``."""
        if self.status is None:
            return self.message
        name = f"{self.status} {_phrase(self.status)}".rstrip()
        return f"{name}: {self.message}" if self.message else name


def from_response(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """Read an HTTP error, or a body with nothing but an ``error`` in it."""
    if 300 <= status < 400:
        return Failure("redirect", headers.get("Location", ""), status)
    message, code, parameter, delay = _error_fields(body)
    message = summary(message)  # a few words, not pages, decide the kind
    wait = retry_after(headers, time.time())
    return Failure(_kind(status, message, code), message, status, parameter, delay if wait is None else wait)


def written(value: Any) -> bytes:
    """Write a value of a reply as JSON; of one that is nested deeper than orjson writes, only that it is."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return b'"nested too deeply"'


def embedded_error(data: Any) -> Any:
    """Return the error in a body of status 200, where gateways put it: at the top, or in the first choice."""
    if not isinstance(data, dict):
        return None
    if data.get("error"):
        return data["error"]
    choices = data.get("choices")
    return choices[0].get("error") if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None


def from_exception(error: Exception, timeout: float) -> Failure:
    """Read the exception of a failed connection."""
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return Failure("unreachable", "no connection in time")
    if isinstance(error, TimeoutError):
        return Failure("retryable", f"no complete answer within {timeout:g} s")
    if isinstance(error, (aiohttp.ClientSSLError, ssl.SSLError)):
        return Failure("fatal", f"no secure connection: {error}")
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno
        reason = os.strerror(number) if number and number > 0 else error.os_error.strerror  # below 0: DNS
        return Failure("unreachable", f"no connection to {error.host}:{error.port} ({reason})")
    if isinstance(error, aiohttp.InvalidURL):
        return Failure("fatal", "not a valid URL")
    if isinstance(error, aiohttp.ClientResponseError):  # its words quote headers and data, perhaps cut in half
        return Failure("retryable", f"not an HTTP response ({_QUOTED.split(error.message, maxsplit=1)[0]})")
    return Failure("retryable", f"the connection broke ({str(error) or type(error).__name__})")


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that the server asks to wait: ``retry-after-ms`` or ``Retry-After`` (seconds or a date).

    None if it asks for nothing, or for nonsense; 0 for a date in the past. ``now`` is Unix time. Brave sends
    ``X-RateLimit-Reset`` alone: the seconds of each of its windows, the shortest first. Others put a point in time
    there, which is ignored.

    >>> retry_after({"Retry-After": "2.5"}, 0), retry_after({"Retry-After": "Thu, 01 Jan 1970 00:00:30 GMT"}, 20)
    (2.5, 10.0)
    """
    value, reset = headers.get("Retry-After"), headers.get("X-RateLimit-Reset", "").partition(",")[0]
    for text, scale, maximum in (
        (headers.get("retry-after-ms"), 0.001, float("inf")),
        (value, 1.0, float("inf")),
        (reset if value is None else None, 1.0, MAX_WAIT_SECONDS),
    ):
        try:
            seconds = float(text or "") * scale
        except ValueError:
            continue
        if 0 <= seconds <= maximum and seconds < float("inf"):
            return seconds
    try:
        return max(0.0, parsedate_to_datetime(value or "").timestamp() - now)
    except (ValueError, OverflowError):
        return None


def backoff(failures: int, requested: float | None) -> float:
    """Return the seconds to wait after N failures (from 0): exponential backoff with full jitter.

    A wait that the server requests is kept, with up to a tenth more, so that its clients do not all return at once.
    """
    if requested is not None:
        return min(requested, MAX_WAIT_SECONDS) * _jitter.uniform(1.0, 1.1)
    return _jitter.uniform(0.0, min(_MAX_BACKOFF, _FIRST_BACKOFF * 2.0**failures))


def explain(model: str, url: str, error: CallError, models: Sequence[str] | None) -> str:
    """Write a model's error message: model, server, the server's words and what would work.

    ``models`` are those that the server lists; None if it gave no list.
    """
    failure = error.failure
    advice = _ADVICE.get(failure.kind, "")
    if failure.kind == "not_found" and models is not None:
        near = nearest(model, models)
        advice = f"The server has {', '.join(map(repr, models[:20])) or 'no model'}{', …' if len(models) > 20 else ''}."
        if model in models:
            advice = "The server has this model but does not offer it this way: try chat=False, or True."
        elif near:
            advice += f" Did you mean {near!r}?"
    if failure.kind == "not_found" and "deployment" in failure.message:  # Azure lists models, not deployments
        advice = "The name to give is the deployment's, not the model's."
    return error_message(f"model {model!r} at {url}", error, advice)


def error_message(who: str, error: CallError, advice: str) -> str:
    """Write the message for a failed call, on one line: who was called, the server's words and what would work."""
    tries = f" ({error.attempts} attempts in {error.seconds:.0f} s)" if error.attempts > 1 else ""
    return printable(f"{who}: {error.failure.description.rstrip('.')}{tries}. {advice}")


def _kind(status: int, message: str, code: str) -> FailureKind:
    if _CONTEXT.search(code) or (status != 429 and _CONTEXT.search(message)):
        return "context"
    if _FILTER.search(code) or (status == 400 and _FILTER.search(message)):
        return "filter"
    if status >= 500 and _MISFIT.search(message):
        return "misfit"
    if status in _QUOTA or _SPENT.search(code) or _SPENT.search(message):
        return "quota"
    if "SUBSCRIPTION_TOKEN" in code or "API_KEY_INVALID" in code:  # 422 of Brave, 400 of Gemini
        return "key"
    if "Unexpected endpoint" in message:  # LM Studio, with status 200
        return "not_found"
    if "No endpoints found that" in message:  # 404 of OpenRouter: no provider of the model takes a parameter
        return "fatal"
    if status >= 500 and ("validation error" in message or "logits_all" in message or "requires --jinja" in message):
        return "fatal"  # llama.cpp, llama-cpp-python: a request that it cannot read or is not set up for
    if status in _RETRYABLE or status >= 500 or status == 200:
        return "retryable"
    return {401: "key", 403: "key", 404: "not_found"}.get(status, "fatal")  # type: ignore[return-value]


def _error_fields(body: bytes) -> tuple[str, str, str | None, float | None]:
    """Read message, code, parameter and wait in seconds of an error body, in any of the shapes that servers use."""
    try:
        data: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return re.sub(r"<[^>]*>", " ", body.decode(errors="replace")), "", None, None
    if isinstance(data, list) and len(data) == 1:  # Gemini wraps its errors in a list
        data = data[0]
    error = embedded_error(data) or data
    if isinstance(error, dict) and isinstance(listed := error.get("errors"), list) and listed:  # Brave, as documented
        error = listed[0]
    if not isinstance(error, dict):
        return error if isinstance(error, str) else written(error).decode(), "", None, None
    message = error.get("message") or error.get("detail") or error
    if isinstance(message, dict) and isinstance(message.get("error"), str):  # Tavily
        message = message["error"]
    text = message if isinstance(message, str) else written(message).decode()
    reason, delay = _google_details(error.get("details"))
    code = f"{error.get('code') or ''} {error.get('type') or ''} {reason}".rstrip()
    parameter = error.get("param")
    metadata = error.get("metadata")
    if isinstance(metadata, dict) and (raw := metadata.get("raw")):  # OpenRouter: the words of the model's provider
        inner = _error_fields(raw.encode(errors="replace") if isinstance(raw, str) else written(raw))
        text, code, parameter = f"{text}: {inner[0]}", f"{code} {inner[1]}", parameter or inner[2]
    return text, code, parameter if isinstance(parameter, str) else None, delay


def _google_details(details: Any) -> tuple[str, float | None]:
    """Return the reasons and exceeded quotas in Google's error details, and the seconds to wait."""
    reasons: list[str] = []
    delay = None
    for detail in details if isinstance(details, list) else ():
        if not isinstance(detail, dict):
            continue
        violations = detail.get("violations")
        quotas = [v.get("quotaId") for v in violations if isinstance(v, dict)] if isinstance(violations, list) else []
        reasons += [str(reason) for reason in (detail.get("reason"), *quotas) if reason]
        if found := re.fullmatch(r"(\d{1,6}(?:\.\d+)?)s", str(detail.get("retryDelay"))):
            delay = float(found[1])
    return " ".join(reasons), delay


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
