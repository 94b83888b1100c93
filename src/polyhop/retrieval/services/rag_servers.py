"""``lightrag:URL`` and ``ragflow:URL``: the retrievers of two RAG servers, so that they can be a row beside others.

- LightRAG's server: POST ``/query/data`` with ``query``, ``mode`` and ``chunk_top_k``; the key in ``X-API-Key``, 403 if
  it is wrong. ``data.chunks`` has ``content``, ``chunk_id`` and ``file_path``. A query without a hit is a ``failure``
  whose ``metadata.failure_reason`` is ``no_results``. Queries of less than 3 characters are refused.
- RAGFlow: POST ``/api/v1/retrieval`` with ``question``, ``dataset_ids`` and ``page_size``; the key as a bearer token.
  ``data.chunks`` has ``id``, ``content`` and ``document_keyword``. The status is 200 for most errors too; the body's
  ``code`` tells: 0 is success, 109 a wrong key.

Both were checked against the public code and reference, not against running servers. The entities, relationships and
reports that their models wrote about a corpus are no passages and are left out, except with RAGFlow's ``use_kg``.
GraphRAG has no server, so nothing asks it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from polyhop.common.aio import gather
from polyhop.common.registry import path_and_options
from polyhop.data.lines import json_type
from polyhop.errors import SettingError
from polyhop.lm.openai import checked_key
from polyhop.lm.wire import to_json
from polyhop.net.client import Address
from polyhop.net.failures import BadReply, FailureKind
from polyhop.retrieval.services import Service, checked_options, field, listed, mapped, wrong_shape
from polyhop.types import Passage

Payload = Mapping[str, Any]


class Refusal(BadReply):
    """A reply of status 200 that is an error."""

    def __init__(self, message: str, kind: FailureKind) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class RagApi:
    """The API of a server. ``options``: what its requests may hold besides the query, and the type of each;
    ``required``: those that it cannot do without. ``header``: that of the key, None if it is a bearer token.
    ``min_chars``: a shorter query finds nothing, and is not sent."""

    path: str
    variable: str
    header: str | None
    options: Mapping[str, Callable[[Any], Any]]
    required: tuple[str, ...] = ()
    needs_key: bool = False
    min_chars: int = 1
    payload: Callable[[str, int, Payload], Payload]
    passages: Callable[[Any], list[Passage]]


class RagServer(Service):
    """The retriever of a RAG server. A passage's title is the name of its document, its id that of the chunk.

    ``options`` are those of its ``RagApi``. ``key`` defaults to the API's environment variable. The rest is as for
    ``ServedRetriever``. Each search is a request, and may be a call of the server's own language model.
    """

    def __init__(
        self,
        api: str,
        url: str,
        *,
        key: str | None = None,
        concurrency: int = 8,
        timeout: float = 120,
        per_minute: int | None = None,
        retries: int = 5,
        **options: Any,
    ) -> None:
        self._api, self._options = RAG_APIS[api], options
        if lacking := [name for name in self._api.required if name not in options]:
            raise SettingError(f"{api}: needs {lacking[0]}, as in {api}:{url}?{lacking[0]}=…")
        own = checked_key(key or os.environ.get(self._api.variable))
        if own is None and self._api.needs_key:
            raise SettingError(f"{api}: the server takes no request without a key: set {self._api.variable}")
        address = Address(url, (self._api.path,))
        shown = "&".join(f"{name}={quote(_text(value), safe=',')}" for name, value in options.items())
        super().__init__(
            f"{api}:{address.redacted_url}" + (f"?{shown}" if shown else ""),
            address,
            _advice(self._api.variable),
            key=own if self._api.header is None else None,
            headers={self._api.header: own} if self._api.header and own else None,
            concurrency=concurrency,
            timeout=timeout,
            per_minute=per_minute,
            retries=retries,
        )

    async def _asked(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        return await gather(*(self._one(query.strip(), k) for query in queries))

    async def _one(self, query: str, k: int) -> list[Passage]:
        if len(query) < self._api.min_chars:
            return []
        body = to_json(self._api.payload(query, k, self._options))
        return await self._ask(self._address.path(self._api.path), body, self._api.passages)


def open_rag_server(name: str, rest: str) -> RagServer:
    """Open ``NAME:URL[?OPTIONS]``: those of its API, and those of any service.

    Raises:
        UsageError: it is no URL, there is no such option, or a required one or the key is missing.
    """
    api = RAG_APIS[name]
    url, options = path_and_options(name, rest, f"{next(iter(api.options))}=…")
    own, server = checked_options(f"{name}:", options, api.options)
    return RagServer(name, url, **own, **server)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return ",".join(value) if isinstance(value, list) else str(value)


def _switch(value: Any) -> bool:
    if value not in ("on", "off"):
        raise SettingError(f"{value!r}: must be on or off")
    return bool(value == "on")


def _names(value: Any) -> list[str]:
    return [name.strip() for name in str(value).split(",") if name.strip()]


def _advice(variable: str) -> Mapping[FailureKind, str]:
    return {
        "retryable": "Try again later, with fewer requests at once (?concurrency=1) or a longer ?timeout=.",
        "key": f"Set {variable} to a key that this server takes.",
        "not_found": "Give the server's address without a path; it may be too old for this call.",
        "redirect": "Give the address it points to; no redirect is followed.",
        "unreachable": "Is the server up at this address?",
    }


# --- the APIs ---------------------------------------------------------------------------------------------------------


def _ask_lightrag(query: str, k: int, options: Payload) -> Payload:
    return {"query": query, "chunk_top_k": k, **options}


def _read_lightrag(reply: Any) -> list[Passage]:
    data = mapped(field(reply, "data", "the reply"), "data")
    if reply.get("status") == "failure":
        if mapped(reply.get("metadata") or {}, "metadata").get("failure_reason") == "no_results":
            return []
        raise Refusal(str(reply.get("message")), "fatal")
    return [
        _passage(row, f"data.chunks[{number}]", "chunk_id", "file_path")
        for number, row in enumerate(listed(field(data, "chunks", "data"), "data.chunks"))
    ]


def _ask_ragflow(query: str, k: int, options: Payload) -> Payload:
    rest = {name: value for name, value in options.items() if name != "dataset"}
    return {"question": query, "dataset_ids": options["dataset"], "page": 1, "page_size": min(k, 100), **rest}


_RAGFLOW_CODES: Mapping[Any, FailureKind] = {109: "key", 401: "key", 403: "key", 100: "retryable", 500: "retryable"}


def _read_ragflow(reply: Any) -> list[Passage]:
    if (code := field(reply, "code", "the reply")) != 0:
        raise Refusal(str(reply.get("message")), _RAGFLOW_CODES.get(code, "fatal"))
    data = mapped(field(reply, "data", "the reply"), "data")
    return [
        _passage(row, f"data.chunks[{number}]", "id", "document_keyword")
        for number, row in enumerate(listed(field(data, "chunks", "data"), "data.chunks"))
    ]


def _passage(row: Any, path: str, id: str, title: str) -> Passage:
    """Read a chunk; its document's name may be missing."""
    texts = {name: field(row, name, path) for name in (id, "content")} | {title: row.get(title) or ""}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise wrong_shape(f"{path}.{name} is {json_type(text)}, expected a string")
    if not texts[id]:
        raise wrong_shape(f"{path}.{id} is empty")
    named = texts[title] if texts[title] != "unknown_source" else ""  # LightRAG's name of a text without a file
    return Passage(texts[id], named, texts["content"])


RAG_APIS: Mapping[str, RagApi] = {
    "lightrag": RagApi(
        path="/query/data",
        variable="LIGHTRAG_API_KEY",
        header="X-API-Key",
        options={"mode": str, "top_k": int, "enable_rerank": _switch},
        min_chars=3,
        payload=_ask_lightrag,
        passages=_read_lightrag,
    ),
    "ragflow": RagApi(
        path="/api/v1/retrieval",
        variable="RAGFLOW_API_KEY",
        header=None,
        options={
            "dataset": _names,
            "similarity_threshold": float,
            "vector_similarity_weight": float,
            "rerank_id": str,
            "use_kg": _switch,
        },
        required=("dataset",),
        needs_key=True,
        payload=_ask_ragflow,
        passages=_read_ragflow,
    ),
}
"""The servers by name."""
