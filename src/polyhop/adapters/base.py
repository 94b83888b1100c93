"""What the adapters share. Ours as theirs: a pipeline asked from any thread, passages told as documents. Theirs as
ours: documents as passages, a retriever and a chat model behind one awaited call."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

from polyhop.answer import Answer
from polyhop.errors import LMError, PolyhopError, RetrievalError, UsageError
from polyhop.lm.base import Capabilities, Completion, Request
from polyhop.lm.wire import read_chat
from polyhop.net.failures import BadReply
from polyhop.pipeline import Pipeline, Searcher, Source
from polyhop.retrieval.base import AskingRetriever, Retriever, RunRetriever, ScoringRetriever
from polyhop.types import Passage

T = TypeVar("T")

PUT_BY = "polyhop"
"""The one name that is ours in the metadata of a document of theirs."""

SETTINGS: Mapping[str, str] = {"temperature": "temperature", "max_tokens": "max_tokens", "stop": "stop"}
"""What a chat model of theirs is told with each call, and by which names: ``temperature``, ``max_tokens``, ``stop``,
``seed``, ``logprobs`` of the request. Models differ in what they take."""


# --- ours as theirs ---------------------------------------------------------------------------------------------------


class Opened:
    """A ``Pipeline`` that event loops and ordinary threads may ask at once.

    ``source``: a ``Pipeline``, which its owner closes; else a retriever or any ``(query, k) -> passages`` callable, or
    what a ``Pipeline`` takes for its corpus, opened with ``options`` (the pipeline's own) and closed by ``close``.
    """

    def __init__(self, source: Pipeline | Source | Searcher | None, options: Mapping[str, Any]) -> None:
        self._own = not isinstance(source, Pipeline)
        if isinstance(source, Pipeline):
            if options:
                raise UsageError(f"{', '.join(options)}: an open Pipeline has its settings; give them where it is made")
            self.pipeline = source
        elif isinstance(source, Retriever | AskingRetriever | RunRetriever) or callable(source):
            self.pipeline = Pipeline(retriever=source, **options)
        else:
            self.pipeline = Pipeline(source, **options)

    async def search(self, query: str, k: int) -> list[tuple[Passage, float | None]]:
        """The ``k`` best passages, best first, with the retriever's score where it tells one."""
        retriever = self.pipeline.engine.retriever and self.pipeline.engine.retriever.source
        if isinstance(retriever, ScoringRetriever):
            return [*await asyncio.to_thread(retriever.search_scored, query, k)]
        return [(passage, None) for passage in await self.pipeline.engine.search(query, k)]

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """``work`` awaited from ordinary code, on any thread."""
        return self.pipeline.wait(work)

    def each(self, stream: AsyncGenerator[T, None]) -> Iterator[T]:
        """``stream`` in ordinary code; leaving the loop ends it."""
        try:
            while (item := self.wait(_next(stream))) is not None:
                yield item
        finally:
            self.wait(stream.aclose())

    def close(self) -> None:
        """Close the pipeline where it was opened here."""
        if self._own:
            self.pipeline.close()


async def _next(stream: AsyncGenerator[T, None]) -> T | None:
    return await anext(stream, None)


def sources(answer: Answer) -> list[Passage]:
    """The passages of an answer, best first, then those that only its evidence has: all that is cited is there."""
    return list(dict.fromkeys([*answer.passages, *(p for piece in answer.evidence for p in piece.passages)]))


def told(answer: Answer, *, trace: bool) -> dict[str, Any]:
    """All of an answer but its passages as JSON-ready values (``Answer.to_dict``)."""
    row = (answer if trace else replace(answer, trace=None)).to_dict()  # type: ignore[arg-type]
    del row["passages"]
    if not trace:
        del row["trace"]
    return row


def metadata_of(passage: Passage) -> dict[str, Any]:
    """A passage's metadata as a document of theirs has it: title and links beside the rest. What ``passage_of`` would
    take for those is put by under ``PUT_BY``.

    >>> metadata_of(Passage("1", "Alien", "…", metadata={"page": 3, "title": "a.pdf"}))
    {'title': 'Alien', 'page': 3, 'polyhop': {'title': 'a.pdf'}}
    """
    rest = dict(passage.metadata)
    own = {"title": passage.title, "links": list(passage.links)}
    by = {name: rest.pop(name) for name in own if name in rest and (own[name] or _is_ours(name, rest[name]))}
    if PUT_BY in rest and (by or _is_ours(PUT_BY, rest[PUT_BY])):
        by[PUT_BY] = rest.pop(PUT_BY)
    return {**{name: value for name, value in own.items() if value}, **rest, **({PUT_BY: by} if by else {})}


def _is_ours(name: str, value: Any) -> bool:
    """Whether ``passage_of`` takes a value of their metadata for title, links or what was put by."""
    match name, value:
        case "title", str():
            return bool(value)
        case "links", list():
            return bool(value) and all(isinstance(link, str) for link in value)
        case _:
            return name == PUT_BY and isinstance(value, dict)


# --- theirs as ours ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class Found(Passage):
    """A passage made of a document of ``theirs``, which it becomes again where it goes back to its library. Metadata of
    any kind is made JSON-ready where it is written."""

    theirs: Any = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """As a passage's."""
        return Passage(self.id, self.title, self.text, self.links, _ready(self.metadata)).to_dict()


def passage_of(name: str | None, text: str, metadata: Mapping[Any, Any], theirs: Any = None) -> Found:
    """A document as a passage: ``title`` (a text) and ``links`` (a list of texts) of its metadata are the passage's,
    the rest stays. Without a name of its own its id is a hash of title, text and ``source``.

    >>> passage = passage_of("7", "It was filmed in 1979.", {"title": "Alien", "page": 3})
    >>> passage.id, passage.title, passage.metadata
    ('7', 'Alien', {'page': 3})
    """
    rest = dict(metadata)
    by, title, links = (
        rest.pop(part) if _is_ours(part, rest.get(part)) else none
        for part, none in ((PUT_BY, {}), ("title", ""), ("links", ()))
    )
    if not name:
        spelt = "\0".join((title, text, str(metadata.get("source", ""))))
        name = blake2b(spelt.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    return Found(name, title, text, tuple(links), {**rest, **by}, theirs)


def _ready(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _ready(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_ready(item) for item in value]
    if value is None or type(value) in (str, int, float, bool):
        return value
    return _ready(value.tolist()) if hasattr(value, "tolist") else str(value)  # numpy's numbers and arrays


class TheirRetriever:
    """A retriever of theirs as ``(query, k) -> passages``, awaited: ``retriever=`` of a ``Pipeline``.

    Distinct passages, best first, at most ``k``; fewer where theirs gives fewer. Its errors are ``RetrievalError``.
    """

    def __init__(self, name: str, find: Callable[[str, int], Awaitable[Sequence[Passage]]]) -> None:
        self.name = name
        self._find = find

    def __repr__(self) -> str:
        return f"TheirRetriever({self.name!r})"

    async def __call__(self, query: str, k: int) -> list[Passage]:
        """The ``k`` best passages; [] for a blank query, which servers refuse."""
        if not query.strip():
            return []
        try:
            found = await self._find(query, k)
        except PolyhopError:
            raise
        except Exception as error:
            raise RetrievalError(f"the retriever {self.name}: {_said(error)}") from error
        return list(dict.fromkeys(found))[:k]


class Reply(NamedTuple):
    """A reply of a chat model of theirs: ``usage`` in OpenAI's names or Anthropic's, ``logprobs`` in OpenAI's shape."""

    text: str
    finish_reason: Any = None
    usage: Mapping[str, Any] | None = None
    reasoning: str | None = None
    logprobs: Any = None


class ChatLM(ABC):
    """A chat model of theirs as a ``LanguageModel``.

    ``settings`` maps ours to the model's names (``SETTINGS``); what is left out is not sent, and what stop words the
    model does not heed end the reply here. Usage is the model's, else estimated at 4 characters a token. Its errors are
    ``LMError``.
    """

    def __init__(self, name: str, settings: Mapping[str, str]) -> None:
        if strange := settings.keys() - {"temperature", "max_tokens", "stop", "seed", "logprobs"}:
            raise UsageError(
                f"settings: {', '.join(sorted(strange))} is nothing a request has; "
                "temperature, max_tokens, stop, seed and logprobs may be sent"
            )
        self.name = name
        self.capabilities = Capabilities(seed="seed" in settings, token_logprobs="logprobs" in settings)
        self._settings = dict(settings)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    async def complete(self, request: Request) -> Completion:
        """The model's reply; ``LMError`` where none can be had."""
        values = {name: getattr(request, ours) for ours, name in self._settings.items()}
        sent = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        try:
            reply = await self._reply(request, {name: value for name, value in sent.items() if value not in (None, [])})
            return read_chat(_wire(reply), request, request.stop)
        except PolyhopError:
            raise
        except Exception as error:
            raise LMError(f"{self.name}: {_said(error)}") from error

    @abstractmethod
    async def _reply(self, request: Request, settings: dict[str, Any]) -> Reply: ...


def why_ended(facts: Mapping[str, Any]) -> Any:
    """Why a reply ended, by the names that providers have for it; None where it is not told."""
    names = ("finish_reason", "stop_reason", "done_reason")
    return next((facts[name] for name in names if facts.get(name)), None)


def _wire(reply: Reply) -> dict[str, Any]:
    """The reply as a chat server would have sent it, so that one reader (``lm.wire``) takes out reasoning, cuts at stop
    words and fits log-probabilities to what is left."""
    reason = getattr(reply.finish_reason, "value", reply.finish_reason)
    choice = {
        "message": {"content": reply.text, "reasoning_content": reply.reasoning},
        "finish_reason": None if reason is None else str(reason),
        "logprobs": reply.logprobs,
    }
    counts = reply.usage or {}
    usage = {
        "prompt_tokens": counts.get("prompt_tokens", counts.get("input_tokens")),
        "completion_tokens": counts.get("completion_tokens", counts.get("output_tokens")),
    }
    return {"choices": [choice], "usage": usage}


def _said(error: Exception) -> str:
    what = str(error).strip()
    return what if isinstance(error, BadReply) else f"{type(error).__name__}{': ' if what else ''}{what}"
