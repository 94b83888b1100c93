"""Rerankers behind a server: Cohere's and Jina's APIs, vLLM's ``/rerank`` and that of Text Embeddings Inference (TEI).

All are posted a query and the texts of passages, and send a score for each. As their references say:

- Jina's ``/v1/rerank``: ``model``, ``query``, ``documents``; the reply is ``{"results": [{"index": …,
  "relevance_score": …}, …]}``. llama.cpp, Infinity and others answer alike.
- Cohere's ``/v2/rerank``: the same; a search of up to 100 documents is billed as one.
- vLLM's ``/rerank``, ``/v1/rerank`` and ``/v2/rerank``: the same; longer pairs are refused unless
  ``truncate_prompt_tokens`` is sent. It applies a model's form (Qwen3-Reranker's) if it was started with its template.
- TEI's ``/rerank``: ``query``, ``texts``; the reply is ``[{"index": …, "score": …}, …]``. It takes 32 texts per request
  unless it was started with more, and cuts longer ones if ``truncate`` is sent.

Tested against imitations of these, not against the services.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

from polyhop.common.aio import gather
from polyhop.common.registry import check_at_least, path_and_options, with_options
from polyhop.errors import SettingError
from polyhop.lm.names import model_and_url
from polyhop.lm.openai import checked_key
from polyhop.lm.wire import to_json
from polyhop.net.client import Address
from polyhop.net.failures import FailureKind
from polyhop.retrieval.encoders.base import shown
from polyhop.retrieval.services import Client, checked_options, field, listed, wrong_shape
from polyhop.types import Passage


class Form(NamedTuple):
    """A kind of server. ``url`` is that of an API; None if there is no common one. ``variable`` is the
    environment variable of the key, ``batch`` the default number of passages per request; ``more`` fields are added."""

    url: str | None
    variable: str
    batch: int
    more: Mapping[str, Any]


FORMS: Mapping[str, Form] = {
    "cohere": Form("https://api.cohere.com/v2", "COHERE_API_KEY", 100, {}),
    "jina": Form("https://api.jina.ai/v1", "JINA_API_KEY", 100, {"return_documents": False}),
    "vllm": Form(None, "RERANKER_API_KEY", 100, {"truncate_prompt_tokens": -1}),
    "tei": Form(None, "RERANKER_API_KEY", 32, {"truncate": True, "raw_scores": True}),
}
"""The kinds of servers by name."""


class ServedReranker(Client):
    """A reranker behind a server of one of ``FORMS``; TEI takes no ``model``. Ties are broken by passage id.

    ``first`` is the number of hits to rerank, ``batch_size`` passages per request; the others are as for
    ``services.served.ServedRetriever``.
    """

    part = "reranker"

    def __init__(
        self,
        kind: str,
        model: str = "",
        url: str | None = None,
        *,
        first: int = 100,
        batch_size: int | None = None,
        key: str | None = None,
        concurrency: int = 8,
        timeout: float = 60,
        per_minute: int | None = None,
        retries: int = 5,
    ) -> None:
        self._kind, self._model, self._form = kind, model, (form := FORMS[kind])
        self.first, self._batch_size = first, form.batch if batch_size is None else batch_size
        check_at_least(1, first=first, batch_size=self._batch_size)
        if not (model or kind == "tei") or not (url or form.url):
            example = {"tei": "tei:http://localhost:8080", "vllm": "vllm:BAAI/bge-reranker-v2-m3@http://localhost:8000"}
            raise SettingError(f"{kind}: needs a model or a server, as in {example.get(kind, f'{kind}:MODEL')}")
        address = Address(url or form.url or "", ("/rerank",))
        key = checked_key(key or os.environ.get(form.variable))
        if url is None and key is None:
            raise SettingError(f"{kind}:{model} needs your own key: set {form.variable}; or name a server: {model}@URL")
        super().__init__(
            f"{kind}:" + "@".join(part for part in (model, url and address.redacted_url) if part),
            address,
            _advice(form),
            key=key,
            concurrency=concurrency,
            timeout=timeout,
            per_minute=per_minute,
            retries=retries,
        )

    async def rerank_by(self, run: object, query: str, passages: Sequence[Passage], k: int) -> Sequence[Passage]:
        """Return the ``k`` best of ``passages``, best first; in their own order for a blank query."""
        if len(passages) < 2 or not query.strip():
            return passages[:k]
        starts = range(0, len(passages), self._batch_size)
        parts = await gather(*(self._scores(query, passages[start : start + self._batch_size]) for start in starts))
        scored = zip([score for part in parts for score in part], passages, strict=True)
        return [passage for _, passage in sorted(scored, key=lambda hit: (-hit[0], hit[1].id))][:k]

    async def _scores(self, query: str, passages: Sequence[Passage]) -> list[float]:
        texts = [shown(passage) or " " for passage in passages]
        given = {"texts": texts} if self._kind == "tei" else {"model": self._model, "documents": texts}
        body = to_json({"query": query.strip(), **given, **self._form.more})
        return await self._ask(self._address.path("/rerank"), body, lambda reply: self._read(reply, len(texts)))

    def _read(self, reply: Any, count: int) -> list[float]:
        is_tei = self._kind == "tei"
        rows = listed(reply if is_tei else field(reply, "results", "the reply"), "results", count)
        scores: dict[int, float] = {}
        for number, row in enumerate(rows):
            path = f"results[{number}]"
            index, score = field(row, "index", path), field(row, "score" if is_tei else "relevance_score", path)
            if type(index) is not int:
                raise wrong_shape(f"the index of {path} is no number")
            if type(score) not in (int, float) or not isfinite(score):
                raise wrong_shape(f"the score of {path} is no number")
            scores[index] = score
        if sorted(scores) != list(range(count)):
            raise wrong_shape(f"the indices of results are not those of the {count} passages")
        return [scores[index] for index in range(count)]


def open_served_reranker(kind: str, rest: str) -> ServedReranker:
    """Open ``MODEL[@URL][?OPTIONS]``, for TEI ``URL[?OPTIONS]``: ``first``, ``batch_size``, ``concurrency``,
    ``timeout``, ``per_minute``.

    Raises:
        UsageError: it cannot be opened; the message says why.
    """
    path, options = path_and_options(kind, rest, "first=50")
    own, server = checked_options(f"{kind}:", options, {"first": int, "batch_size": int})
    model, url = ("", path) if kind == "tei" else model_and_url(kind, path)
    opened = ServedReranker(kind, model, url or None, **own, **server)
    opened.name = with_options(opened.name, {"first": own["first"]} if "first" in own else {})
    return opened


def _advice(form: Form) -> Mapping[FailureKind, str]:
    return {
        "retryable": "Try again later, or with fewer requests at once (?concurrency=1, ?per_minute=50).",
        "fatal": "If it takes fewer passages per request, or shorter ones, give ?batch_size= or cut them.",
        "context": "The passages are longer than the model reads: cut them, or let the server cut them.",
        "quota": "Waiting will not help: the server says that the account's credit or quota is used up.",
        "key": f"Set {form.variable} to a key that this server takes.",
        "not_found": "Check the model and the URL, to which /rerank is added; it often ends in /v1.",
        "redirect": "Give the address it points to; no redirect is followed.",
        "unreachable": "Is the server up at this address?",
    }
