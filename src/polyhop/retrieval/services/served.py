"""``http://…`` and ``https://…``: a retriever that a server runs, asked by one of a few protocols.

- ``polyhop``, our own: ``{"queries": [text, …], "k": 5}`` is answered by ``{"results": [[passage, …], …]}``, one list
  per query in order, best first. A passage is a line of a corpus (``data.passages.read_passage``): ``id``, ``title``,
  ``text`` and optionally ``links`` and ``metadata``; and a ``score``, higher is better, if the server has one.
- ``flashrag``: the FastAPI server over FlashRAG's retrievers that ReSearch published and many copy. ``/search`` and
  ``/batch_search`` take ``query`` (one or a list), ``top_n`` and ``return_score``. The reply is the documents (``id``,
  ``contents``), or with scores the pair of documents and scores.
- ``search-r1``: Search-R1's server. ``queries``, ``topk`` and ``return_scores`` are answered by ``{"result": …}``: one
  list per query, of documents or of ``{"document": …, "score": …}``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any, TypeAlias

from polyhop.common.aio import gather
from polyhop.common.registry import path_and_options
from polyhop.data.lines import check_depth, json_type
from polyhop.data.passages import read_passage
from polyhop.errors import RetrievalError, UnknownName
from polyhop.lm.openai import checked_key
from polyhop.lm.wire import to_json
from polyhop.net.client import Address
from polyhop.net.failures import FailureKind
from polyhop.retrieval.base import ScoringRetriever
from polyhop.retrieval.services import (
    Service,
    checked_options,
    each,
    field,
    listed,
    mapped,
    wrong_shape,
)
from polyhop.types import Passage

Hit: TypeAlias = tuple[Passage, float | None]

BATCH = 64
"""Queries per request."""

_ADVICE: Mapping[FailureKind, str] = {
    "retryable": "Try again later, with fewer requests at once (?concurrency=1) or a longer ?timeout=.",
    "quota": "Waiting will not help: the server says that the account's credit or quota is used up.",
    "key": "Set RETRIEVER_API_KEY to a key that this server takes.",
    "not_found": "Check the URL and the ?protocol=: for polyhop's own it is the very address of the search call.",
    "redirect": "Give the address it points to; no redirect is followed.",
    "unreachable": "Is the server up at this address?",
}


class ServedRetriever(Service, ScoringRetriever):
    """The retriever at a URL that begins with ``http://`` or ``https://``; ``protocol`` is one of ``PROTOCOLS``.

    ``key``, else ``$RETRIEVER_API_KEY``, is sent as a bearer token. A user and password in the URL are sent too, and
    never shown. ``concurrency`` is the maximum number of concurrent requests per event loop, ``per_minute`` that of
    requests per minute in total; ``timeout`` is in seconds per request; ``retries`` is the maximum number of further
    attempts. Scores are the server's own; a server that sends none can be fused by rank only.
    """

    def __init__(
        self,
        url: str,
        *,
        protocol: str = "polyhop",
        key: str | None = None,
        concurrency: int = 16,
        timeout: float = 60,
        per_minute: int | None = None,
        retries: int = 5,
    ) -> None:
        if protocol not in PROTOCOLS:
            raise UnknownName("protocol of a retriever", protocol, PROTOCOLS)
        self._protocol = PROTOCOLS[protocol]
        self._ending = "/" if url.rstrip().endswith("/") else ""  # some servers treat it as another address
        address = Address(url, self._protocol.endings)
        super().__init__(
            address.redacted_url + (f"?protocol={protocol}" if protocol != "polyhop" else ""),
            address,
            _ADVICE,
            key=checked_key(key or os.environ.get("RETRIEVER_API_KEY")),
            concurrency=concurrency,
            timeout=timeout,
            per_minute=per_minute,
            retries=retries,
        )

    async def _asked(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        found = await self._hits(queries, k, scored=False)
        return [[passage for passage, _ in hits] for hits in found]

    async def _hits(self, queries: Sequence[str], k: int, scored: bool) -> list[list[Hit]]:
        starts = range(0, len(queries), BATCH)
        parts = await gather(*(self._batch(queries[start : start + BATCH], k, scored) for start in starts))
        return [hits for part in parts for hits in part]

    async def _batch(self, queries: Sequence[str], k: int, scored: bool) -> list[list[Hit]]:
        path, body = self._protocol.ask(queries, k, scored)
        return await self._ask(
            self._address.path(path or self._ending),
            to_json(body),
            lambda reply: self._protocol.read(reply, len(queries), scored),
        )

    def _scored_many(self, queries: Sequence[str], k: int) -> list[list[tuple[Passage, float]]]:
        found = self._loop.run(each(queries, partial(self._hits, k=k, scored=True)))
        return [self._with_scores(hits)[:k] for hits in found]

    def _with_scores(self, hits: Sequence[Hit]) -> list[tuple[Passage, float]]:
        scores: dict[Passage, float] = {}
        for passage, score in hits:
            if score is None:
                raise RetrievalError(f"the retriever {self.name} sends no scores: fuse it by rank (hybrid:rrf:…)")
            scores.setdefault(passage, score)
        return list(scores.items())


def open_served(scheme: str, rest: str) -> ServedRetriever:
    """Open ``SCHEME:REST``: a URL with the options ``protocol``, ``concurrency``, ``timeout``, ``per_minute``.

    Raises:
        UsageError: it is no URL, or has another option.
    """
    url, options = path_and_options(scheme, rest, "protocol=flashrag")
    own, server = checked_options(f"{scheme}:", options, {"protocol": str})
    return ServedRetriever(f"{scheme}:{url}", **own, **server)


# --- protocols --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Protocol:
    """A protocol. ``ask(queries, k, scored)`` returns the path below the server's URL and the body to post;
    ``read(reply, queries, scored)`` the hits per query, and raises ``WrongShape`` if the reply does not hold them.

    ``endings`` are paths that a user's URL may already have.
    """

    ask: Callable[[Sequence[str], int, bool], tuple[str, Mapping[str, Any]]]
    read: Callable[[Any, int, bool], list[list[Hit]]]
    endings: tuple[str, ...] = ()


def _ask_ours(queries: Sequence[str], k: int, scored: bool) -> tuple[str, Mapping[str, Any]]:
    return "", {"queries": list(queries), "k": k}


def _read_ours(reply: Any, queries: int, scored: bool) -> list[list[Hit]]:
    results = listed(field(reply, "results", "the reply"), "results", queries)
    return [
        [_hit(row, mapped(row, path).get("score"), path) for path, row in _with_paths(rows, f"results[{number}]")]
        for number, rows in enumerate(results)
    ]


def _ask_flashrag(queries: Sequence[str], k: int, scored: bool) -> tuple[str, Mapping[str, Any]]:
    several = len(queries) > 1
    body = {"query": list(queries) if several else queries[0], "top_n": k, "return_score": scored}
    return "/batch_search" if several else "/search", body


def _read_flashrag(reply: Any, queries: int, scored: bool) -> list[list[Hit]]:
    documents, scores = listed(reply, "the reply", 2) if scored else (reply, None)
    if queries == 1:  # /search: neither is in a list of its own
        documents, scores = [documents], scores if scores is None else [scores]
    found = []
    for number, rows in enumerate(listed(documents, "documents", queries)):
        with_paths = _with_paths(rows, f"documents[{number}]")
        values = [None] * len(with_paths)
        if scores is not None:
            values = listed(listed(scores, "scores", queries)[number], f"scores[{number}]", len(with_paths))
        found.append([_hit(row, score, path) for (path, row), score in zip(with_paths, values, strict=True)])
    return found


def _ask_search_r1(queries: Sequence[str], k: int, scored: bool) -> tuple[str, Mapping[str, Any]]:
    return "/retrieve", {"queries": list(queries), "topk": k, "return_scores": scored}


def _read_search_r1(reply: Any, queries: int, scored: bool) -> list[list[Hit]]:
    def hit(row: Any, path: str) -> Hit:
        if not scored:
            return _hit(row, None, path)
        return _hit(field(row, "document", path), field(row, "score", path), f"{path}.document")

    results = listed(field(reply, "result", "the reply"), "result", queries)
    return [
        [hit(row, path) for path, row in _with_paths(rows, f"result[{number}]")] for number, rows in enumerate(results)
    ]


def _with_paths(rows: Any, path: str) -> list[tuple[str, Any]]:
    """The values of a list, each with its path for errors."""
    return [(f"{path}[{number}]", row) for number, row in enumerate(listed(rows, path))]


def _hit(row: Any, score: Any, path: str) -> Hit:
    """Read a passage of a reply and its score."""
    is_number = isinstance(score, int | float) and not isinstance(score, bool) and isfinite(score)
    if not (score is None or is_number):
        raise wrong_shape(f"the score of {path} is {json_type(score)}, expected a number")
    try:
        check_depth(mapped(row, path))
        return read_passage(row), score
    except ValueError as error:
        raise wrong_shape(f"{path}: {error}") from None


PROTOCOLS: Mapping[str, Protocol] = {
    "polyhop": Protocol(_ask_ours, _read_ours),
    "flashrag": Protocol(_ask_flashrag, _read_flashrag, ("/batch_search", "/search")),
    "search-r1": Protocol(_ask_search_r1, _read_search_r1, ("/retrieve",)),
}
"""The protocols by name."""
