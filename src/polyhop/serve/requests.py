"""Requests to a service, its responses, and the policy that bounds both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import orjson

from polyhop.answer import Answer
from polyhop.common.text import check_text, counted
from polyhop.engine.options import REQUEST_LIMITS, Option
from polyhop.errors import UnknownName, UsageError
from polyhop.methods.registry import method_named
from polyhop.serve.bounds import MAX_CALLS, check_no_file, check_settings, is_raised
from polyhop.trace import plain
from polyhop.types import Kind

MAX_BATCH_PASSAGES = 20_000
"""Maximum number of hits of all the searches of one request."""


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
    """The rules for requests to a service: the names of its corpora for the current client (the first is the default),
    its default method, ``settings`` and ``limits``.

    ``max_question_chars``: the maximum length of a question.
    """

    corpora: Callable[[], Sequence[str]]
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
        corpora = self.corpora()
        corpus = request.corpus or corpora[0]
        with naming("corpus"):
            if corpus not in corpora:
                raise UnknownName("corpus", corpus, corpora)
        with naming("kind"):
            if request.kind not in get_args(Kind):
                raise UnknownName("kind of question", request.kind, get_args(Kind))
        own = self.settings if method.name == self.method else method.resolve({})
        with naming("settings"):
            check_no_file(method, request.settings)
            parsed = method.resolve(request.settings)
            given = {name: parsed[name] for name in request.settings}
            check_settings(method, own, given)
        own_limits = dict(self.limits)
        if own_limits.get("max_calls") is None and (request.max_calls is not None or is_raised(own, given)):
            own_limits["max_calls"] = MAX_CALLS
        limits = {
            name: _stricter(option, own_limits.get(name), getattr(request, name))
            for name, option in REQUEST_LIMITS.items()
        }
        return replace(request, method=method.name, corpus=corpus, settings={**own, **given}, **limits)

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
