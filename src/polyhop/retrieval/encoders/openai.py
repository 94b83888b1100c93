"""An encoder behind any OpenAI-compatible ``/v1/embeddings``: OpenAI, vLLM, TEI, llama.cpp, Ollama, Infinity."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from polyhop.common.aio import LoopThread, gather
from polyhop.common.registry import check_at_least, check_options, path_and_options, with_options
from polyhop.common.text import counted
from polyhop.errors import LMError, SettingError
from polyhop.lm.names import model_and_url
from polyhop.lm.openai import DEFAULT_URL, checked_key
from polyhop.lm.wire import to_json
from polyhop.net.client import Address, Server
from polyhop.net.failures import BadReply, CallError, WrongShape, explain
from polyhop.retrieval.encoders.base import Vectors, prefixed
from polyhop.retrieval.encoders.families import OPTIONS, Recipe, checked_options, family
from polyhop.types import Passage

_OPTIONS = ("batch_size", "query_task", "passage_task")


class ServedEncoder:
    """An encoder behind a server. ``url``, ``api_key``, ``timeout`` and ``retries`` are as for a language model
    (``lm.openai.OpenAICompatible``).

    The server pools and cuts. The prefixes of queries and passages are those of the model's family, found by its name;
    none if the family is unknown; ``query`` and ``passage`` replace them. ``dim`` is sent as ``dimensions``,
    ``query_task`` and ``passage_task`` as ``task``, which Jina's API takes. Opening it requests one vector, to learn
    the size. ``batch_size`` is texts per request, ``max_concurrency`` the maximum number of concurrent requests. A
    failed request raises ``LMError``.
    """

    def __init__(
        self,
        model: str,
        url: str | None = None,
        api_key: str | None = None,
        *,
        batch_size: int = 32,
        max_concurrency: int = 8,
        timeout: float = 120,
        retries: int = 6,
        query_task: str | None = None,
        passage_task: str | None = None,
        **recipe: Any,
    ) -> None:
        if not model:
            raise SettingError("dense:openai: needs the name of a model, as in dense:openai:text-embedding-3-small")
        check_at_least(1, batch_size=batch_size)
        address = Address(url or os.environ.get("OPENAI_BASE_URL") or DEFAULT_URL)
        key = checked_key(api_key or os.environ.get("OPENAI_API_KEY"))
        if address.redacted_url == DEFAULT_URL and key is None:
            raise SettingError(f"dense:openai:{model} needs a key: set OPENAI_API_KEY, or name a server: {model}@URL")
        self.model, self.url, self._batch_size = model, address.redacted_url, batch_size
        name = f"dense:openai:{model}@{address.redacted_url}"
        tasks = {"query_task": query_task, "passage_task": passage_task}
        self.name = with_options(name, {**recipe, **{option: task for option, task in tasks.items() if task}})
        self._query_task, self._passage_task = query_task, passage_task
        self.recipe = (family(model) or Recipe("mean", normalise=False))._replace(
            **checked_options("dense:openai", recipe, OPTIONS)
        )
        self._server = Server(
            address, key, max_concurrency=max_concurrency, rates=None, timeout=timeout, retries=retries
        )
        self._ask_at = address.path("/embeddings")
        self._thread = LoopThread()
        self.size = self.recipe.dim or 0
        self.size = self._vectors(["size"], query_task).shape[1]
        self.key = repr((name, self.recipe.passage, *([passage_task] if passage_task else [])))

    def queries(self, texts: Sequence[str]) -> Vectors:
        """Encode queries: (texts, size)."""
        return self._vectors([self.recipe.query + text.strip() for text in texts], self._query_task)

    def passages(self, passages: Sequence[Passage]) -> Vectors:
        """Encode titles and texts: (passages, size)."""
        return self._vectors([prefixed(self.recipe.passage, one) for one in passages], self._passage_task)

    def _vectors(self, texts: Sequence[str], task: str | None) -> Vectors:
        if not texts:
            return np.zeros((0, self.size), np.float32)
        return self._thread.run(self._gathered([text or " " for text in texts], task))  # servers refuse an empty text

    async def _gathered(self, texts: Sequence[str], task: str | None) -> Vectors:
        starts = range(0, len(texts), self._batch_size)
        batches = await gather(*(self._batch(texts[start : start + self._batch_size], task) for start in starts))
        return np.concatenate(batches)

    async def _batch(self, texts: Sequence[str], task: str | None) -> Vectors:
        body: dict[str, Any] = {"model": self.model, "input": list(texts), "encoding_format": "float"}
        body |= {key: value for key, value in (("dimensions", self.recipe.dim), ("task", task)) if value}
        try:
            vectors, _ = await self._server.ask(self._ask_at, to_json(body), lambda data: self._read(data, len(texts)))
        except CallError as error:
            raise LMError(explain(self.model, self.url, error, None)) from None
        return vectors

    def _read(self, data: Any, texts: int) -> Vectors:
        rows = sorted(data["data"], key=lambda row: row["index"])
        if [row["index"] for row in rows] != list(range(texts)):
            raise BadReply(f"the reply has {counted(len(rows), 'vectors')} for {counted(texts, 'texts')}")
        vectors = np.array([row["embedding"] for row in rows], np.float32)
        if self.recipe.dim and vectors.ndim == 2 and vectors.shape[1] > self.recipe.dim:
            raise WrongShape(
                f"the server does not shorten vectors: {vectors.shape[1]} numbers for dim={self.size}; leave it out"
            )
        if vectors.ndim != 2 or not vectors.size or vectors.shape[1] != (self.size or vectors.shape[1]):
            raise BadReply(f"the reply's vectors are of shape {vectors.shape}; {self.size or 'some'} numbers each fit")
        if not np.isfinite(vectors).all():
            raise BadReply("the reply's vectors are not numbers")
        return vectors


def open_served_encoder(rest: str) -> ServedEncoder:
    """Open ``MODEL[@URL][?OPTIONS]``. Options that are not the encoder's stay with the URL, such as ``api-version``.

    Raises:
        UsageError: it cannot be opened; the message says why.
    """
    path, options = path_and_options("dense:openai", rest, "dim=256")
    own = {name: options.pop(name) for name in (*OPTIONS, *_OPTIONS) if name in options}
    model, url = model_and_url("dense:openai", path)
    if url is None:
        check_options("dense:openai", options, (*OPTIONS, *_OPTIONS))
    return ServedEncoder(model, url and with_options(url, options), **own)
