"""A cache of replies on disk: no call is paid for twice, and a killed run continues where it stopped."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import orjson

from polyhop.common.files import cache_folder
from polyhop.common.turns import timed, took
from polyhop.errors import CapabilityError, DataError
from polyhop.lm.base import Capabilities, Completion, LanguageModel, Request, ScoreRequest, TokenScores, TokenUsage
from polyhop.lm.cache_store import Store
from polyhop.lm.context import cut_context
from polyhop.lm.memory import memory_of
from polyhop.lm.tools import ToolCall
from polyhop.net.single_flight import SingleFlight
from polyhop.types import Passage

_OFFER = ("tools", "tool_choice", "parallel_tool_calls")
_RARE = (*_OFFER, "yes_or_no", "extra_body", "continues")  # fields that only count where a request has them
_FIELDS = {
    kind: tuple(field.name for field in fields(kind) if field.compare and field.name not in _RARE)
    for kind in (Request, ScoreRequest)
}
_TYPES: Mapping[str, Any] = {
    **dict.fromkeys(("text", "finish_reason", "reasoning"), str),
    **dict.fromkeys(("value", "usage", "carried"), dict),
    **dict.fromkeys(("tokens", "logprobs", "tool_calls"), list),
    "seconds": float,
}
"""The JSON types of the fields of a cached reply."""
_INNER: Mapping[str, type | tuple[type, ...]] = {
    "tokens": str,
    "logprobs": (float, int),
    "usage": int,
    "tool_calls": dict,
}
"""The types of the items of these fields."""
_KEPT = {
    kind: tuple(field.name for field in fields(kind) if field.name not in ("retries", "cached", "seconds"))
    for kind in (Completion, TokenScores)
}
"""The fields of a reply that are stored, ahead of its seconds."""
_KEYED = orjson.OPT_SORT_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS


def request_key(identity: str, request: Request | ScoreRequest) -> bytes | None:
    """Return a request's key in the cache: a hash of the model's identity and of every field of the request.

    The order of a mapping's keys does not matter, and a tuple equals a list. A passage counts by its id, title, text
    and links. None if a field has a value without a canonical form; such a request is not cached.
    """
    kind = type(request)
    parts = [kind.__name__, identity, *[getattr(request, name) for name in _FIELDS[kind]]]
    if isinstance(request, Request) and request.tools:
        parts += [[tool.definition for tool in request.tools], request.tool_choice, request.parallel_tool_calls]
    if isinstance(request, Request) and request.yes_or_no:
        parts.append("yes or no")
    if isinstance(request, Request) and request.extra_body:
        parts.append({"extra_body": request.extra_body})
    if isinstance(request, Request) and request.continues:
        parts.append({"continues": request.continues})
    try:
        text = orjson.dumps(parts, _plain, _KEYED)
    except TypeError:  # a large integer, a set, a key that is no string: rare, and spelt out here
        try:
            text = orjson.dumps(_spelt(parts))
        except TypeError:
            return None
    return blake2b(text, digest_size=20).digest()


def _plain(value: Any) -> Any:
    """Return the JSON form of a field's value of a type that orjson does not know."""
    if isinstance(value, Passage):
        return {"passage": [value.id, value.title, value.text, value.links]}
    if is_dataclass(value) and not isinstance(value, type):
        return {type(value).__name__: {field.name: getattr(value, field.name) for field in fields(value)}}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        return list(value)
    raise TypeError(type(value).__name__)


def _spelt(value: Any) -> list[Any]:
    """Write any value as nested lists of strings that begin with its type; different values never look alike."""
    if value is None or isinstance(value, (bool, int, float)):
        return [type(value).__name__, repr(value)]
    if isinstance(value, str):
        return ["str", value.encode("utf-8", "surrogatepass").hex()]
    if isinstance(value, bytes):
        return ["bytes", value.hex()]
    if isinstance(value, Mapping):
        return ["map", sorted(([_spelt(key), _spelt(item)] for key, item in value.items()), key=orjson.dumps)]
    if isinstance(value, (list, tuple)):
        return ["list", [_spelt(item) for item in value]]
    if isinstance(value, (set, frozenset)):
        return ["set", sorted(map(_spelt, value), key=orjson.dumps)]
    return [type(value).__name__, _spelt(_plain(value))]


def _field(name: str, value: Any) -> Any:
    """Read a field of a reply from its JSON; ``KeyError`` or ``TypeError`` if it is invalid."""
    inner = _INNER.get(name)
    if not isinstance(value, _TYPES[name]):
        raise TypeError(name)
    if inner and not all(isinstance(each, inner) for each in (value.values() if name == "usage" else value)):
        raise TypeError(name)
    if name == "tool_calls":
        if not all(isinstance(row[part], str) for row in value for part in ("id", "name", "text")):
            raise TypeError(name)
        return tuple(ToolCall(**row) for row in value)
    return TokenUsage(**value) if name == "usage" else tuple(value) if inner else value


class CompletionCache:
    """A cache of replies in the SQLite file at ``path``, by default ``lm.sqlite`` in polyhop's cache folder.

    Any number of processes may use the file at once (see ``lm.cache_store.Store``). If the file cannot be written, the
    cache is turned off with one warning (``on`` is then false); a broken file is a ``DataError``.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self._store = Store(cache_folder() / "lm.sqlite" if path is None else path)

    def __repr__(self) -> str:
        return f"CompletionCache({str(self.path)!r})"

    @property
    def path(self) -> Path:
        """The file."""
        return self._store.path

    @property
    def on(self) -> bool:
        """True until the cache could not be read or written."""
        return self._store.on

    def completion(self, key: bytes) -> Completion | None:
        """Return the completion under a key, marked ``cached``; None without one."""
        if (row := self._row(key)) is None:
            return None
        try:
            return Completion(**{name: _field(name, value) for name, value in row.items()}, cached=True)
        except (TypeError, KeyError):
            raise self._broken() from None

    def scores(self, key: bytes) -> TokenScores | None:
        """Return the scores under a key; None without them."""
        if (row := self._row(key)) is None:
            return None
        try:
            tokens, logprobs = _field("tokens", row["tokens"]), _field("logprobs", row["logprobs"])
            return TokenScores(tokens, logprobs, seconds=row.get("seconds"))
        except (TypeError, KeyError):
            raise self._broken() from None

    def keep(
        self, key: bytes, reply: Completion | TokenScores, *, model: str, task: str, seconds: float | None = None
    ) -> None:
        """Store a reply and the ``seconds`` that it took, unless it is empty or withheld, or has no exact form in JSON.

        ``retries`` and ``cached`` are not stored.
        """
        if isinstance(reply, Completion) and (reply.finish_reason == "content_filter" or reply.says_nothing):
            return
        if not all(map(math.isfinite, reply.logprobs or ())):  # JSON has no infinity
            return
        row = {name: value for name in _KEPT[type(reply)] if (value := getattr(reply, name)) is not None}
        if row.get("tool_calls") == ():
            del row["tool_calls"]
        if seconds is not None:
            row["seconds"] = seconds
        try:
            text = orjson.dumps(row)
        except TypeError:
            return
        self._store.put(key, text, model=model, task=task)

    def flush(self) -> None:
        """Wait until every stored reply is on disk, a few milliseconds."""
        self._store.flush()

    def close(self) -> None:
        """Flush, and close the file; the cache can be used again afterwards."""
        self._store.close()

    def _row(self, key: bytes) -> dict[str, Any] | None:
        if (text := self._store.get(key)) is None:
            return None
        try:
            row = orjson.loads(text)
        except orjson.JSONDecodeError:
            raise self._broken() from None
        if not isinstance(row, dict):
            raise self._broken()
        return row

    def _broken(self) -> DataError:
        return DataError("not a usable cache (broken reply): delete it, and a new one is made", self.path)


class CachedLM:
    """A model with a cache in front of it; everything else is passed on to the model.

    Identical requests in flight share one call, which continues while anyone waits for it. The second caller gets the
    same reply, marked ``cached``, or the same error. Failures are not cached. The key contains the model's ``identity``
    if it has one, else its ``name``.
    """

    def __init__(self, model: LanguageModel, cache: CompletionCache | None = None) -> None:
        self.model = model
        memory_of(model)  # it belongs to the model, not to this cache
        self.cache = CompletionCache() if cache is None else cache
        self._identity = str(getattr(model, "identity", model.name))
        self._calls: SingleFlight[Completion] = SingleFlight()
        self._scores: dict[tuple[bytes | int, asyncio.AbstractEventLoop], asyncio.Future[TokenScores]] = {}

    @property
    def name(self) -> str:
        """The model's."""
        return self.model.name

    @property
    def capabilities(self) -> Capabilities:
        """The model's."""
        return self.model.capabilities

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "model":
            raise AttributeError(name)
        return getattr(self.model, name)

    def __repr__(self) -> str:
        return f"CachedLM({self.model!r}, {self.cache!r})"

    async def complete(self, request: Request) -> Completion:
        """Return the cached reply, or the model's."""
        key = request_key(self._identity, request)
        if key is None or not self.cache.on:
            return await self.model.complete(request)
        if hit := self.cache.completion(key):
            took(hit.seconds or 0.0)
            return hit
        completion, joined = await self._calls.run(key, lambda: self._ask(key, request))
        return replace(completion, cached=True, retries=0) if joined else completion

    async def score(self, requests: Sequence[ScoreRequest]) -> list[TokenScores]:
        """Return the cached scores, and the model's for the rest. Each distinct request is made once; one that is in
        flight for another caller is waited for."""
        if not self.capabilities.score:
            raise CapabilityError(f"{self.name} cannot score given text")
        keys = [request_key(self._identity, request) if self.cache.on else None for request in requests]
        wanted = {key or i: request for i, (key, request) in enumerate(zip(keys, requests, strict=True))}
        found: dict[bytes | int, TokenScores] = {
            key: scores for key in wanted if isinstance(key, bytes) and (scores := self.cache.scores(key))
        }
        took(max((scores.seconds or 0.0 for scores in found.values()), default=0.0))
        loop = asyncio.get_running_loop()
        while missing := {key: one for key, one in wanted.items() if key not in found}:
            others = {key: self._scores[key, loop] for key in missing if (key, loop) in self._scores}
            mine = {key: one for key, one in missing.items() if key not in others}
            if mine:
                found |= await self._ask_scores(mine, loop)
            if others:
                await asyncio.wait(others.values())
            found |= {key: replace(one.result(), retries=0) for key, one in others.items() if not one.cancelled()}
        return [found[key or i] for i, key in enumerate(keys)]

    async def _ask_scores(
        self, asked: Mapping[bytes | int, ScoreRequest], loop: asyncio.AbstractEventLoop
    ) -> dict[bytes | int, TokenScores]:
        """Get and cache the model's scores. Other callers wait for them, and ask again if this call is cancelled."""
        promises: dict[bytes | int, asyncio.Future[TokenScores]] = {key: loop.create_future() for key in asked}
        self._scores.update({(key, loop): promise for key, promise in promises.items() if isinstance(key, bytes)})
        model: Any = self.model
        try:
            found, seconds = await timed(model.score(list(asked.values())))
            new = dict(zip(asked, found, strict=True))
        except Exception as error:
            for promise in promises.values():
                promise.set_exception(error)
                promise.exception()  # mark it as retrieved: perhaps nobody else waits
            raise
        else:
            for key, scores in new.items():
                promises[key].set_result(scores)
                if isinstance(key, bytes):
                    self.cache.keep(key, scores, model=self.name, task=asked[key].task, seconds=seconds)
            return new
        finally:
            for key, promise in promises.items():
                promise.cancel()  # no effect if it is done
                self._scores.pop((key, loop), None)

    async def aclose(self) -> None:
        """Close the model, and flush the cache."""
        if close := getattr(self.model, "aclose", None):
            await close()
        self.cache.flush()

    async def _ask(self, key: bytes, request: Request) -> Completion:
        completion, seconds = await timed(self.model.complete(request))
        if cut_context(completion, request) is None:  # with a longer context the same call has another reply
            self.cache.keep(key, completion, model=self.name, task=request.task, seconds=seconds)
        return completion
