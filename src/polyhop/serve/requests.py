"""Requests to a service, its responses, and the policy that bounds both."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import orjson

from polyhop.answer import Answer
from polyhop.common.text import check_text, counted
from polyhop.engine.options import REQUEST_LIMITS, Option
from polyhop.errors import SettingError, UnknownName, UsageError, brief
from polyhop.methods.registry import Method, method_named
from polyhop.trace import plain
from polyhop.types import Kind

MAX_PASSAGES = 100
"""Maximum number of hits of one search."""

MAX_BATCH_PASSAGES = 20_000
"""Maximum number of hits of all the searches of one request."""

MAX_SETTING = 10_000
"""The largest number that a client may give a setting, so that none exhausts the memory."""


@dataclass(frozen=True)
class AskRequest:
    """A question to a service, with its options.

    ``method`` and ``corpus``: by default the service's; ``settings``: the method's. The limits and ``abstain_below``
    may only be stricter than the service's own. ``conversation``: the turns of a chat before the question.
    ``client``: the key of the request, set by the service.
    """

    question: str
    method: str | None = None
    corpus: str | None = None
    kind: Kind = "qa"
    settings: Mapping[str, Any] = field(default_factory=dict)
    max_calls: int | None = None
    max_tokens: int | None = None
    max_seconds: float | None = None
    abstain_below: float | None = None
    conversation: tuple[tuple[str, str], ...] = ()
    client: str = ""


@dataclass(frozen=True)
class AskStarted:
    """An accepted question: ``request`` has the method, corpus, settings and limits that will be used."""

    trace_id: str
    request: AskRequest


@dataclass(frozen=True)
class AskResponse:
    """An answered question; ``request`` as in ``AskStarted``."""

    trace_id: str
    request: AskRequest
    answer: Answer


@dataclass(frozen=True, kw_only=True)
class RequestPolicy:
    """The rules for requests to a service: its corpora, default method, ``settings`` and ``limits``.

    ``max_question_chars``: the maximum length of a question.
    """

    corpora: tuple[str, ...]
    method: str
    settings: Mapping[str, Any]
    limits: Mapping[str, Any]
    max_question_chars: int

    def resolved(self, request: AskRequest) -> AskRequest:
        """Return the request with the method, corpus, settings and limits that will be used.

        Raises:
            UsageError: the service does not have what the request names, or does not allow it.
        """
        self.check_text("question", request.question)
        with naming("method"):
            method = method_named(request.method or self.method)
        corpus = request.corpus or self.corpora[0]
        with naming("corpus"):
            if corpus not in self.corpora:
                raise UnknownName("corpus", corpus, self.corpora)
        with naming("kind"):
            if request.kind not in get_args(Kind):
                raise UnknownName("kind of question", request.kind, get_args(Kind))
        own = self.settings if method.name == self.method else {}
        with naming("settings"):
            settings = _settings(method, own, request.settings)
        limits = {
            name: _stricter(option, self.limits.get(name), getattr(request, name))
            for name, option in REQUEST_LIMITS.items()
        }
        return replace(request, method=method.name, corpus=corpus, settings=settings, **limits)

    def readable(self, query: str) -> str:
        """Return a query cut to the maximum length, a question mark in place of half of a surrogate pair."""
        return query[: self.max_question_chars].encode("utf-8", "replace").decode()

    def check_text(self, what: str, text: str) -> None:
        """Raise ``UsageError`` for a question or query that is empty, too long or no text."""
        with naming(what):
            check_text(what, text)
            if len(text) > self.max_question_chars:
                raise UsageError(
                    f"the {what} has {counted(len(text), 'characters')}; the maximum is {self.max_question_chars}"
                )


@contextmanager
def naming(field: str) -> Iterator[None]:
    """Name the request's field in a ``UsageError`` of the block."""
    try:
        yield
    except UsageError as error:
        error.field = field
        raise


def pipeline_key(request: AskRequest) -> bytes:
    """Return the cache key of the pipeline that answers a resolved request."""
    limits = [getattr(request, name) for name in REQUEST_LIMITS]
    return orjson.dumps([request.method, request.corpus, plain(request.settings), *limits], option=orjson.OPT_SORT_KEYS)


def _stricter(option: Option, own: Any, given: Any) -> Any:
    if given is None:
        return own
    with naming(option.name):
        option.check(given)
    return given if own is None or option.tighten is None else option.tighten(own, given)


def _settings(method: Method, own: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the method's settings: ``own``, with those ``given`` by a client.

    A client may name no file of the server and no number above ``MAX_SETTING``, not even written as text.
    """
    known = method.settings
    if files := [name for name in given if name in known and known[name].names_file]:
        raise SettingError(f"{method.name}: {files[0]} names a file, which a client of this service may not")
    settings = method.resolve({**own, **given})
    for name in given:
        if (largest := max(_numbers(settings[name]), default=0)) > MAX_SETTING:
            raise SettingError(
                f"{method.name}: {name}={brief(largest)} is more than {MAX_SETTING}, the maximum of this service"
            )
    return settings


def _numbers(value: Any) -> Iterator[float]:
    """Yield the absolute values of the numbers in a setting."""
    match value:
        case bool() | str():
            return
        case int() | float():
            yield math.inf if math.isnan(value) else abs(value)
        case Sequence():
            for item in value:
                yield from _numbers(item)
