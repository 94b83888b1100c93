"""What a service is asked and what it gives back; and the terms on which it can be asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import orjson

from polyhop.answer import Answer
from polyhop.common.text import check_text, counted
from polyhop.engine.budget import check_limit
from polyhop.errors import SettingError, UnknownName, UsageError, brief
from polyhop.methods.registry import Method, method_named
from polyhop.trace import plain
from polyhop.types import MAX_INTEGER, Kind

LIMITS = ("max_calls", "max_tokens", "max_seconds")
MOST_PASSAGES = 100
"""Most hits of one search."""

MOST = 10_000
"""The largest number that a setting may be given, so that none can be chosen to exhaust the memory."""


@dataclass(frozen=True)
class Asked:
    """One request. ``method`` and ``corpus`` by default the service's; ``settings`` are the method's. The limits and
    ``abstain_below`` may be stricter than the service's own, never laxer. ``client``: the key it came with, told by the
    service."""

    question: str
    method: str | None = None
    corpus: str | None = None
    kind: Kind = "qa"
    settings: Mapping[str, Any] = field(default_factory=dict)
    max_calls: int | None = None
    max_tokens: int | None = None
    max_seconds: float | None = None
    abstain_below: float | None = None
    client: str = ""


@dataclass(frozen=True)
class Began:
    """A question taken on: ``asked`` has method, corpus, every setting and limit as they will be used."""

    trace_id: str
    asked: Asked


@dataclass(frozen=True)
class Answered:
    """A question answered, ``asked`` as in ``Began``."""

    trace_id: str
    asked: Asked
    answer: Answer


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a service answers: over which corpora, by which method and ``settings`` where none is named, within which
    ``limits``; ``longest``: most characters of a question."""

    corpora: tuple[str, ...]
    method: str
    settings: Mapping[str, Any]
    limits: Mapping[str, Any]
    abstain_below: float | None
    longest: int

    def resolved(self, asked: Asked) -> Asked:
        """A request with method, corpus, settings and limits as they will be used; a ``UsageError`` where it asks for
        what there is not."""
        self.check_text("question", asked.question)
        with naming("method"):
            method = method_named(asked.method or self.method)
        corpus = asked.corpus or self.corpora[0]
        with naming("corpus"):
            if corpus not in self.corpora:
                raise UnknownName("corpus", corpus, self.corpora)
        with naming("kind"):
            if asked.kind not in get_args(Kind):
                raise UnknownName("kind of question", asked.kind, get_args(Kind))
        own = self.settings if method.name == self.method else {}
        with naming("settings"):
            settings = _settings(method, own, asked.settings)
        limits = {name: _stricter(name, self.limits[name], getattr(asked, name), min) for name in LIMITS}
        sure = _stricter("abstain_below", self.abstain_below, asked.abstain_below, max, maximum=1)
        return replace(asked, method=method.name, corpus=corpus, settings=settings, abstain_below=sure, **limits)

    def check_text(self, what: str, text: str) -> None:
        """Raises ``UsageError`` for a question or query that is empty, too long or no text."""
        with naming(what):
            check_text(what, text)
            if len(text) > self.longest:
                raise UsageError(f"the {what} has {counted(len(text), 'characters')}; at most {self.longest} are taken")


@contextmanager
def naming(field: str) -> Iterator[None]:
    """Name the request's field in a ``UsageError`` of the block."""
    try:
        yield
    except UsageError as error:
        error.field = field
        raise


def key_of(asked: Asked) -> bytes:
    """What tells the pipeline that answers a resolved request from every other."""
    parts = [asked.method, asked.corpus, plain(asked.settings), *(getattr(asked, name) for name in LIMITS)]
    return orjson.dumps([*parts, asked.abstain_below], option=orjson.OPT_SORT_KEYS)


def _stricter(name: str, own: Any, given: Any, choose: Callable[..., Any], maximum: int = MAX_INTEGER) -> Any:
    if given is None:
        return own
    with naming(name):
        check_limit(name, given, maximum)
    return given if own is None else choose(own, given)


def _settings(method: Method, own: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The method's settings: ``own`` with those ``given`` by a client, which may choose no file of the server's, and no
    number out of all proportion, not even one written as text."""
    known = method.settings
    if files := [name for name in given if name in known and known[name].names_file]:
        raise SettingError(f"{method.name}: {files[0]} names a file, which a client of this service may not")
    settings = method.resolve({**own, **given})
    for name in given:
        if (largest := max(_numbers(settings[name]), default=0)) > MOST:
            raise SettingError(
                f"{method.name}: {name}={brief(largest)} is more than {MOST}, the most that this service takes"
            )
    return settings


def _numbers(value: Any) -> Iterator[float]:
    """The sizes of the numbers in a setting."""
    match value:
        case bool() | str():
            return
        case int() | float():
            yield math.inf if math.isnan(value) else abs(value)
        case Sequence():
            for item in value:
                yield from _numbers(item)
