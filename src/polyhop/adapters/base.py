"""Shared parts of the adapters.

For a framework: a pipeline that any thread may call, and passages as documents. For polyhop: a framework's documents
as passages, and its retrievers and chat models behind one coroutine each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

from polyhop.answer import Answer
from polyhop.common.text import printable
from polyhop.engine.options import Searcher, Source
from polyhop.errors import LMError, PolyhopError, RetrievalError, UsageError, brief
from polyhop.lm.base import Capabilities, Completion, Request
from polyhop.lm.wire import read_chat
from polyhop.net.failures import BadReply
from polyhop.pipeline import Pipeline
from polyhop.redaction import summary
from polyhop.retrieval.base import AskingRetriever, Retriever, RunRetriever
from polyhop.types import Passage

T = TypeVar("T")

RESERVED = "polyhop"
"""The key that polyhop reserves in a document's metadata."""

SETTINGS: Mapping[str, str] = {"temperature": "temperature", "max_tokens": "max_tokens", "stop": "stop"}
"""Fields of a request that are sent to a framework's chat model, with the model's names for them. ``seed`` and
``logprobs`` may be sent too; models differ in what they accept."""


# --- polyhop for the framework ---------------------------------------------------------------------------------------


class OpenPipeline:
    """A ``Pipeline`` that event loops and threads may call at the same time.

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
        """Return the ``k`` best passages, best first, with the retriever's score if it gives one."""
        return (await self.pipeline.engine.search_many([query], k))[0]

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine from synchronous code, on any thread."""
        return self.pipeline.wait(work)

    def iterate(self, stream: AsyncGenerator[T, None]) -> Iterator[T]:
        """Iterate over ``stream`` in synchronous code; leaving the loop closes it."""
        try:
            while (item := self.wait(_next(stream))) is not None:
                yield item
        finally:
            self.wait(stream.aclose())

    def close(self) -> None:
        """Close the pipeline if this object opened it."""
        if self._own:
            self.pipeline.close()


async def _next(stream: AsyncGenerator[T, None]) -> T | None:
    return await anext(stream, None)


def sources(answer: Answer) -> list[Passage]:
    """Return the passages of an answer, best first, then those found only in its evidence, so that every citation has
    its passage."""
    return list(dict.fromkeys([*answer.passages, *(p for piece in answer.evidence for p in piece.passages)]))


def answer_row(answer: Answer, *, trace: bool) -> dict[str, Any]:
    """Return an answer without its passages as JSON-ready values (``Answer.to_dict``)."""
    row = (answer if trace else replace(answer, trace=None)).to_dict()  # type: ignore[arg-type]
    del row["passages"]
    if not trace:
        del row["trace"]
    return row


def metadata_of(passage: Passage) -> dict[str, Any]:
    """Return a passage's metadata for a framework's document, with title and links. Values that ``passage_of`` would
    mistake for those move under ``RESERVED``.

    >>> metadata_of(Passage("1", "Alien", "…", metadata={"page": 3, "title": "a.pdf"}))
    {'title': 'Alien', 'page': 3, 'polyhop': {'title': 'a.pdf'}}
    """
    rest = dict(passage.metadata)
    own = {"title": passage.title, "links": list(passage.links)}
    by = {name: rest.pop(name) for name in own if name in rest and (own[name] or _is_ours(name, rest[name]))}
    if RESERVED in rest and (by or _is_ours(RESERVED, rest[RESERVED])):
        by[RESERVED] = rest.pop(RESERVED)
    return {**{name: value for name, value in own.items() if value}, **rest, **({RESERVED: by} if by else {})}


def _is_ours(name: str, value: Any) -> bool:
    """Tell if ``passage_of`` reads a value of the metadata as title, links or reserved values."""
    match name, value:
        case "title", str():
            return bool(value)
        case "links", list():
            return bool(value) and all(isinstance(link, str) for link in value)
        case _:
            return name == RESERVED and isinstance(value, dict)


# --- the framework for polyhop ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class ExternalPassage(Passage):
    """A passage made from a framework's document, ``original``, which goes back to the framework unchanged. Metadata of
    any type becomes JSON-ready when written."""

    original: Any = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values, as ``Passage.to_dict`` does."""
        return Passage(self.id, self.title, self.text, self.links, _json_ready(self.metadata)).to_dict()


def passage_of(name: str | None, text: str, metadata: Mapping[Any, Any], original: Any = None) -> ExternalPassage:
    """Convert a document to a passage. The metadata's ``title`` (a text) and ``links`` (a list of texts) become the
    passage's; the rest stays metadata. Without a ``name`` the id is a hash of title, text and ``source``.

    >>> passage = passage_of("7", "It was filmed in 1979.", {"title": "Alien", "page": 3})
    >>> passage.id, passage.title, passage.metadata
    ('7', 'Alien', {'page': 3})

    Raises:
        TypeError: the name or the text is no text.
    """
    for part, value in (("id", name or ""), ("text", text)):
        if not isinstance(value, str):
            raise TypeError(f"the {part} of a document is {brief(value)}, expected a string")
    rest = dict(metadata)
    by, title, links = (
        rest.pop(part) if _is_ours(part, rest.get(part)) else none
        for part, none in ((RESERVED, {}), ("title", ""), ("links", ()))
    )
    if not name:
        spelt = "\0".join((title, text, str(metadata.get("source", ""))))
        name = blake2b(spelt.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    return ExternalPassage(name, title, text, tuple(links), {**rest, **by}, original)


def _json_ready(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _json_ready(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_json_ready(item) for item in value]
    if value is None or type(value) in (str, int, float, bool):
        return value
    return _json_ready(value.tolist()) if hasattr(value, "tolist") else str(value)  # numpy's numbers and arrays


class ExternalRetriever:
    """A framework's retriever as ``async (query, k) -> passages``, for ``Pipeline(retriever=…)``.

    Returns distinct passages, best first: at most ``k``, or fewer if the framework's retriever gives fewer. Its errors
    become ``RetrievalError``.
    """

    def __init__(self, name: str, find: Callable[[str, int], Awaitable[Sequence[Passage]]]) -> None:
        self.name = name
        self._find = find

    def __repr__(self) -> str:
        return f"ExternalRetriever({self.name!r})"

    async def __call__(self, query: str, k: int) -> list[Passage]:
        """Return the ``k`` best passages; [] for a blank query, which servers refuse."""
        if not query.strip():
            return []
        try:
            found = await self._find(query, k)
            if not isinstance(found, Sequence) or not all(isinstance(passage, Passage) for passage in found):
                raise TypeError(f"the passages are {brief(found)}, expected a list of polyhop.Passage objects")
        except PolyhopError:
            raise
        except Exception as error:
            raise RetrievalError(f"the retriever {self.name}: {_error_text(error)}") from error
        return list(dict.fromkeys(found))[:k]


class Reply(NamedTuple):
    """A reply of a framework's chat model: ``usage`` with OpenAI's or Anthropic's names, ``logprobs`` in OpenAI's
    shape."""

    text: str
    finish_reason: Any = None
    usage: Mapping[str, Any] | None = None
    reasoning: str | None = None
    logprobs: Any = None


class ChatLM(ABC):
    """A framework's chat model as a ``LanguageModel``.

    ``settings`` maps polyhop's names to the model's (``SETTINGS``); other fields are not sent. If the model ignores
    stop words, the reply is cut here. Usage is the model's, else estimated at 4 characters per token. Errors become
    ``LMError``.
    """

    def __init__(self, name: str, settings: Mapping[str, str]) -> None:
        if strange := settings.keys() - {"temperature", "max_tokens", "stop", "seed", "logprobs"}:
            raise UsageError(
                f"settings: unknown {', '.join(sorted(strange))}; "
                "temperature, max_tokens, stop, seed and logprobs may be sent"
            )
        self.name = name
        self.capabilities = Capabilities(seed="seed" in settings, token_logprobs="logprobs" in settings)
        self._settings = dict(settings)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    async def complete(self, request: Request) -> Completion:
        """Return the model's reply; ``LMError`` if it gives none."""
        values = {name: getattr(request, ours) for ours, name in self._settings.items()}
        sent = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
        try:
            reply = await self._reply(request, {name: value for name, value in sent.items() if value not in (None, [])})
            return read_chat(_wire(reply), request, request.stop)
        except PolyhopError:
            raise
        except Exception as error:
            raise LMError(f"{self.name}: {_error_text(error)}") from error

    @abstractmethod
    async def _reply(self, request: Request, settings: dict[str, Any]) -> Reply: ...


def finish_reason_of(facts: Mapping[str, Any]) -> Any:
    """Return the finish reason under any of the names that providers use; None if absent."""
    names = ("finish_reason", "stop_reason", "done_reason")
    return next((facts[name] for name in names if facts.get(name)), None)


def _wire(reply: Reply) -> dict[str, Any]:
    """Convert the reply to a chat server's JSON, so that one reader (``lm.wire``) removes the reasoning, cuts at stop
    words and aligns log-probabilities with the remaining text."""
    reason = getattr(reply.finish_reason, "value", reply.finish_reason)
    choice = {
        "message": {"content": reply.text, "reasoning_content": reply.reasoning},
        "finish_reason": None if reason is None else str(reason),
        "logprobs": reply.logprobs,
    }
    counts = reply.usage or {}
    details = counts.get("output_token_details") or {}  # LangChain's
    usage = {
        "prompt_tokens": counts.get("prompt_tokens", counts.get("input_tokens")),
        "completion_tokens": counts.get("completion_tokens", counts.get("output_tokens")),
        "completion_tokens_details": counts.get("completion_tokens_details")
        or {"reasoning_tokens": details.get("reasoning")},
    }
    return {"choices": [choice], "usage": usage}


def _error_text(error: Exception) -> str:
    what = printable(summary(str(error)))
    return what if isinstance(error, BadReply) else f"{type(error).__name__}{': ' if what else ''}{what}"
