"""Haystack 2 and 3: components that retrieve and answer with a polyhop pipeline; Haystack retrievers and chat
generators for a pipeline. ``Pipeline`` is polyhop's here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

import orjson

from polyhop.adapters.base import (
    SETTINGS,
    ChatLM,
    ExternalPassage,
    ExternalRetriever,
    OpenPipeline,
    Reply,
    answer_row,
    finish_reason_of,
    metadata_of,
    passage_of,
    sources,
)
from polyhop.answer import Answer
from polyhop.engine.options import Searcher, Source
from polyhop.errors import MissingExtra, UsageError
from polyhop.lm.base import Request
from polyhop.pipeline import Pipeline
from polyhop.redaction import redacted
from polyhop.types import Kind, Passage

try:
    from haystack import component, default_from_dict, default_to_dict
    from haystack.core.errors import SerializationError
    from haystack.dataclasses import ChatMessage, Document, GeneratedAnswer
except ImportError as error:
    raise MissingExtra("polyhop.adapters.haystack", "haystack") from error


def to_document(passage: Passage, score: float | None = None) -> Document:
    """Convert a passage to a Haystack document, title and links in its meta. A passage made from a document gives that
    document back."""
    if isinstance(passage, ExternalPassage) and isinstance(passage.original, Document):
        return passage.original
    return Document(id=passage.id, content=passage.text, meta=metadata_of(passage), score=score)


def to_passage(document: Document) -> Passage:
    """Convert a Haystack document to a passage (``adapters.base.passage_of``); it keeps score, blob and embeddings."""
    return passage_of(document.id, document.content or "", document.meta, document)


# --- polyhop for the framework ---------------------------------------------------------------------------------------


class _Component:
    """The base of both components: opened by the first run or ``warm_up``, serialised as plain arguments."""

    def _configure(
        self, source: Pipeline | Source | Searcher | None, options: Mapping[str, Any], **arguments: Any
    ) -> None:
        """Initialise the component. ``@component`` rebuilds its classes, so ``super().__init__`` would not work."""
        self._source, self._options = source, options
        self._arguments = {"source": source, **arguments, **options}
        self._open: OpenPipeline | None = None
        self._opening = Lock()

    def _opened(self) -> OpenPipeline:
        with self._opening:
            self._open = self._open or OpenPipeline(self._source, self._options)
        return self._open

    def warm_up(self) -> None:
        """Open corpus, retriever and model."""
        self._opened()

    def close(self) -> None:
        """Close what this component opened."""
        with self._opening:
            opened, self._open = self._open, None
        if opened is not None:
            opened.close()

    def to_dict(self) -> dict[str, Any]:
        """Serialise the component; raise ``SerializationError`` if an argument is an object or a secret."""
        try:
            plain = orjson.dumps(self._arguments, _path, orjson.OPT_PASSTHROUGH_DATACLASS).decode()
        except TypeError as error:
            raise SerializationError(
                f"{type(self).__name__} was made with an object: {error}. To be written, give it names and plain values"
            ) from None
        if '"api_key":' in plain or redacted(plain) != plain:
            raise SerializationError(
                f"{type(self).__name__} was made with a key or password, which would be written for all to read; "
                "set it in the environment, such as OPENAI_API_KEY"
            )
        row: dict[str, Any] = default_to_dict(self, **orjson.loads(plain))
        return row

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Any:
        """Restore a component from ``to_dict``."""
        return default_from_dict(cls, data)


@component
class PolyhopRetriever(_Component):
    """A Haystack retriever. ``source``: an open polyhop ``Pipeline``, whose retriever and reranker are asked, else a
    retriever or a corpus (a file, folder, index or passages), opened with ``options`` of a polyhop ``Pipeline``.
    ``top_k``: documents per search, with the retriever's scores if it gives any."""

    def __init__(self, source: Pipeline | Source | Searcher | None = None, *, top_k: int = 5, **options: Any) -> None:
        self._configure(source, options, top_k=top_k)
        self.top_k = top_k

    @component.output_types(documents=list[Document])
    def run(self, query: str, top_k: int | None = None) -> dict[str, list[Document]]:
        """Return the best passages, best first."""
        return self._opened().wait(self.run_async(query, top_k))

    @component.output_types(documents=list[Document])
    async def run_async(self, query: str, top_k: int | None = None) -> dict[str, list[Document]]:
        """Do what ``run`` does, as a coroutine."""
        found = await self._opened().search(query, top_k or self.top_k)
        return {"documents": [to_document(passage, score) for passage, score in found]}


@component
class PolyhopAnswerer(_Component):
    """A Haystack component that answers: one ``GeneratedAnswer``, the passages behind it as its documents, and in
    ``meta`` all of ``Answer.to_dict`` but those (``trace`` adds the trace). ``source`` and ``options`` as
    ``PolyhopRetriever``'s."""

    def __init__(
        self,
        source: Pipeline | Source | Searcher | None = None,
        *,
        kind: Kind = "qa",
        trace: bool = False,
        **options: Any,
    ) -> None:
        self._configure(source, options, kind=kind, trace=trace)
        self.kind, self.trace = kind, trace

    @component.output_types(answers=list[GeneratedAnswer])
    def run(self, query: str) -> dict[str, list[GeneratedAnswer]]:
        """Answer a question."""
        return self._opened().wait(self.run_async(query))

    @component.output_types(answers=list[GeneratedAnswer])
    async def run_async(self, query: str) -> dict[str, list[GeneratedAnswer]]:
        """Do what ``run`` does, as a coroutine."""
        answer: Answer = await self._opened().pipeline.aask(query, kind=self.kind)
        documents = [to_document(passage) for passage in sources(answer)]
        return {"answers": [GeneratedAnswer(answer.text, query, documents, answer_row(answer, trace=self.trace))]}


# --- the framework for polyhop ---------------------------------------------------------------------------------------


def from_haystack(retriever: Any) -> ExternalRetriever:
    """A Haystack retriever (a component with ``query`` in, ``documents`` out) for ``Pipeline(retriever=…)``. One with
    a ``top_k`` returns as many passages as a method needs. Haystack's ``TextEmbeddingRetriever`` or a
    ``SuperComponent`` joins an embedder and a retriever. Raises ``UsageError`` for any other component."""
    inputs, outputs = _sockets(retriever, "input"), _sockets(retriever, "output")
    if "query" not in inputs or "documents" not in outputs:
        raise UsageError(
            f"{type(retriever).__name__} does not take a query and return documents; wrap the components that embed "
            "and retrieve in one, such as haystack's TextEmbeddingRetriever or a SuperComponent"
        )
    run = _as_async(retriever)

    async def find(query: str, k: int) -> list[Passage]:
        found = await run(query=query, **({"top_k": k} if "top_k" in inputs else {}))
        return [to_passage(document) for document in found["documents"]]

    return ExternalRetriever(f"haystack:{type(retriever).__name__}", find)


class HaystackLM(ChatLM):
    """A Haystack chat generator for ``Pipeline(lm=…)``; ``settings`` as ``adapters.base.SETTINGS``, sent as
    ``generation_kwargs``. A synchronous generator runs on a thread."""

    def __init__(self, generator: Any, *, settings: Mapping[str, str] = SETTINGS) -> None:
        super().__init__(f"haystack:{getattr(generator, 'model', type(generator).__name__)}", settings)
        self._run = _as_async(generator)

    async def _reply(self, request: Request, settings: dict[str, Any]) -> Reply:
        messages = [ChatMessage.from_openai_dict_format(dict(message)) for message in request.messages]
        replies = (await self._run(messages=messages, generation_kwargs=settings))["replies"]
        message = replies[0]
        return Reply(
            "".join(message.texts),
            finish_reason_of(message.meta),
            message.meta.get("usage"),
            message.reasoning and message.reasoning.reasoning_text,
            message.meta.get("logprobs"),
        )


def _as_async(made: Any) -> Callable[..., Any]:
    """Return a component's ``run_async``, else its ``run`` on a thread. Warm the component up first."""
    if hasattr(made, "warm_up"):
        made.warm_up()
    if getattr(made, "__haystack_supports_async__", False):
        asynchronous: Callable[..., Any] = made.run_async
        return asynchronous

    async def run(**inputs: Any) -> Any:
        return await asyncio.to_thread(made.run, **inputs)

    return run


def _sockets(made: Any, side: str) -> Mapping[str, Any]:
    sockets = getattr(made, f"__haystack_{side}__", None)
    return {} if sockets is None else dict(sockets._sockets_dict)


def _path(value: Any) -> str:
    if hasattr(value, "__fspath__"):
        return str(value)
    raise TypeError(f"{value!r}")
