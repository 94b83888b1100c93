"""What goes wrong between a client and a server: what it means, whether to try again, when, and what to say."""

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

Meaning = Literal["passing", "final", "context", "filter", "quota", "key", "missing", "redirect", "unreachable"]

LONGEST_WAIT = 60.0
"""Seconds; a longer ``Retry-After`` is cut to this."""
_FIRST_WAIT, _LONGEST_BACKOFF = 0.5, 30.0
_PASSING = frozenset({408, 409, 425, 429})
_QUOTA = frozenset({402, 432, 433})  # the last two are Tavily's

_CONTEXT = re.compile(
    r"context_length|context[- _](?:length|size|window)|maximum context|too many tokens|prompt is too long"
    r"|input is too long|max_model_len|exceed_context|max_new_tokens` must be <="
    r"|reduce the length of the (?:messages|prompt)",
    re.IGNORECASE,
)
_FILTER = re.compile(r"content_filter|content_policy|ResponsibleAIPolicy|content management policy", re.IGNORECASE)
_QUOTED = re.compile(r"[:\n]|b?['\"]")
_SPENT = re.compile(r"insufficient_quota|QUOTA_LIMITED|^Request too large|not enough credits", re.IGNORECASE)
_ADVICE: Mapping[Meaning, str] = {
    "passing": "Try again later, or with a lower max_concurrency or a longer timeout.",
    "context": "The prompt and its max_tokens do not fit the model's context: give fewer or shorter passages, a smaller"
    " max_tokens, or take a model with a longer context.",
    "quota": "Waiting will not help: the account's credit or its limit for one request is too small.",
    "key": "Set OPENAI_API_KEY (or api_key) to a key that this server takes for this model.",
    "missing": "Check the model's name and the base URL, which for most servers ends in /v1.",
    "redirect": "Give the address it points to as the base URL.",
    "unreachable": "Is the server up at this address? Name another as openai:MODEL@URL or in OPENAI_BASE_URL.",
}
_jitter = random.Random()  # of its own: a method's seeded draws must not depend on the network


class BadReply(Exception):
    """A body with status 200 that is not a usable reply; asking again may help."""

    meaning: Meaning = "passing"


class WrongShape(BadReply):
    """A body with status 200 that is whole and of another shape; asking again would not help."""

    meaning = "final"


class Failed(Exception):
    """A call that cannot be answered: the last trouble, after how many attempts and seconds."""

    def __init__(self, trouble: Trouble, attempts: int, seconds: float) -> None:
        super().__init__(trouble.what)
        self.trouble, self.attempts, self.seconds = trouble, attempts, seconds


@dataclass(frozen=True, slots=True)
class Trouble:
    """One failed attempt: what it means, a ``summary`` of the words for it, and how long the server asks to wait.

    The words are often the server's, which may repeat the key that it refuses or the request that it cannot read.
    """

    meaning: Meaning
    message: str
    status: int | None = None
    parameter: str | None = None
    retry_after: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", summary(self.message))

    @property
    def what(self) -> str:
        """The failure in one phrase: ``503 Service Unavailable: overloaded``."""
        if self.status is None:
            return self.message
        name = f"{self.status} {_phrase(self.status)}".rstrip()
        return f"{name}: {self.message}" if self.message else name


def from_response(status: int, headers: Mapping[str, str], body: bytes) -> Trouble:
    """The trouble an HTTP error (or a body with nothing but an ``error`` in it) stands for."""
    if 300 <= status < 400:
        return Trouble("redirect", headers.get("Location", ""), status)
    message, code, parameter = _error_fields(body)
    message = summary(message)  # a few words, not pages, decide what is meant
    return Trouble(_meaning(status, message, code), message, status, parameter, retry_after(headers, time.time()))


def from_exception(error: Exception, timeout: float) -> Trouble:
    """The trouble a failed connection stands for."""
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return Trouble("unreachable", "no connection in time")
    if isinstance(error, TimeoutError):
        return Trouble("passing", f"no complete answer within {timeout:g} s")
    if isinstance(error, (aiohttp.ClientSSLError, ssl.SSLError)):
        return Trouble("final", f"no secure connection: {error}")
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno
        reason = os.strerror(number) if number and number > 0 else error.os_error.strerror  # below 0: a look-up's own
        return Trouble("unreachable", f"no connection to {error.host}:{error.port} ({reason})")
    if isinstance(error, aiohttp.InvalidURL):
        return Trouble("final", "not a valid URL")
    if isinstance(error, aiohttp.ClientResponseError):  # its words quote headers, and what came, perhaps cut in half
        return Trouble("passing", f"not an HTTP response ({_QUOTED.split(error.message, maxsplit=1)[0]})")
    return Trouble("passing", f"the connection broke ({str(error) or type(error).__name__})")


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds the server asks to wait, in ``retry-after-ms`` or ``Retry-After`` (seconds or a date); None if none.

    ``now`` is Unix time. Nonsense is no request; a date gone by is 0. Brave tells by ``X-RateLimit-Reset`` alone, the
    seconds of each of its windows, the shortest first; a point in time, as others put there, is left aside.

    >>> retry_after({"Retry-After": "2.5"}, 0), retry_after({"Retry-After": "Thu, 01 Jan 1970 00:00:30 GMT"}, 20)
    (2.5, 10.0)
    """
    value, reset = headers.get("Retry-After"), headers.get("X-RateLimit-Reset", "").partition(",")[0]
    for text, scale, most in (
        (headers.get("retry-after-ms"), 0.001, float("inf")),
        (value, 1.0, float("inf")),
        (reset if value is None else None, 1.0, LONGEST_WAIT),
    ):
        try:
            seconds = float(text or "") * scale
        except ValueError:
            continue
        if 0 <= seconds <= most and seconds < float("inf"):
            return seconds
    try:
        return max(0.0, parsedate_to_datetime(value or "").timestamp() - now)
    except (ValueError, OverflowError):
        return None


def pause(failures: int, asked: float | None) -> float:
    """Seconds to wait after the n-th failure (from 0): exponential backoff with full jitter, or what the server asked.

    A server's own wait is kept to, with up to a tenth more so that its clients do not all come back at once.
    """
    if asked is not None:
        return min(asked, LONGEST_WAIT) * _jitter.uniform(1.0, 1.1)
    return _jitter.uniform(0.0, min(_LONGEST_BACKOFF, _FIRST_WAIT * 2.0**failures))


def explain(model: str, url: str, failed: Failed, models: Sequence[str] | None) -> str:
    """What the user is told: model, server, the server's words and what would work.

    ``models`` are those the server lists, None when it gave no list.
    """
    trouble = failed.trouble
    advice = _ADVICE.get(trouble.meaning, "")
    if trouble.meaning == "missing" and models is not None:
        near = nearest(model, models)
        advice = f"The server has {', '.join(map(repr, models[:20])) or 'no model'}{', …' if len(models) > 20 else ''}."
        if model in models:
            advice = "The server has this model but does not offer it this way: try chat=False, or True."
        elif near:
            advice += f" Did you mean {near!r}?"
    return told(f"model {model!r} at {url}", failed, advice)


def told(who: str, failed: Failed, advice: str) -> str:
    """Tell the user of a call that failed: who was asked, the server's words and what would work, on one line."""
    tries = f" ({failed.attempts} attempts in {failed.seconds:.0f} s)" if failed.attempts > 1 else ""
    return printable(f"{who}: {failed.trouble.what.rstrip('.')}{tries}. {advice}")


def _meaning(status: int, message: str, code: str) -> Meaning:
    if _CONTEXT.search(code) or (status != 429 and _CONTEXT.search(message)):
        return "context"
    if _FILTER.search(code) or (status == 400 and _FILTER.search(message)):
        return "filter"
    if status in _QUOTA or _SPENT.search(code) or _SPENT.search(message):
        return "quota"
    if "SUBSCRIPTION_TOKEN" in code:  # Brave answers 422 to a wrong key
        return "key"
    if status >= 500 and ("validation error" in message or "logits_all" in message):
        return "final"  # llama-cpp-python's server, of a request it cannot read or is not set up for
    if status in _PASSING or status >= 500 or status == 200:
        return "passing"
    return {401: "key", 403: "key", 404: "missing"}.get(status, "final")  # type: ignore[return-value]


def _error_fields(body: bytes) -> tuple[str, str, str | None]:
    """Message, code and parameter of an error body in any of the shapes servers use."""
    try:
        data: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return re.sub(r"<[^>]*>", " ", body.decode(errors="replace")), "", None
    if isinstance(data, list) and len(data) == 1:  # Gemini wraps its errors so
        data = data[0]
    error = data.get("error", data) if isinstance(data, dict) else data
    if isinstance(error, dict) and isinstance(listed := error.get("errors"), list) and listed:  # Brave, as documented
        error = listed[0]
    if not isinstance(error, dict):
        return error if isinstance(error, str) else orjson.dumps(error).decode(), "", None
    message = error.get("message") or error.get("detail") or error
    if isinstance(message, dict) and isinstance(message.get("error"), str):  # Tavily
        message = message["error"]
    text = message if isinstance(message, str) else orjson.dumps(message).decode()
    parameter = error.get("param")
    return (
        text,
        f"{error.get('code') or ''} {error.get('type') or ''}",
        parameter if isinstance(parameter, str) else None,
    )


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
