"""``http://…`` and ``https://…``: a retriever that a server runs, asked by one of a few protocols."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial

from polyhop.common.aio import gather
from polyhop.common.registry import path_and_options
from polyhop.errors import RetrievalError, UnknownName
from polyhop.lm.openai import checked_key
from polyhop.lm.wire import to_json
from polyhop.net.client import Address, Server
from polyhop.net.failures import FailureKind
from polyhop.net.limits import Rates
from polyhop.retrieval.base import ScoringRetriever
from polyhop.retrieval.services.base import MAX_RESPONSE_BYTES, Service, checked_options, each
from polyhop.retrieval.services.protocols import PROTOCOLS, Hit
from polyhop.types import Passage

BATCH = 64
"""Queries of one request."""

_ADVICE: Mapping[FailureKind, str] = {
    "retryable": "Try again later, with fewer requests at once (?concurrency=1) or a longer ?timeout=.",
    "quota": "Waiting will not help: the server says that the account's credit or quota is used up.",
    "key": "Set RETRIEVER_API_KEY to a key that this server takes.",
    "not_found": "Check the URL and the ?protocol=: for polyhop's own it is the very address of the search call.",
    "redirect": "Give the address it points to; no redirect is followed.",
    "unreachable": "Is the server up at this address?",
}


class ServedRetriever(Service, ScoringRetriever):
    """The retriever at a URL, which begins with ``http://`` or ``https://``; ``protocol`` is one of ``PROTOCOLS``.

    ``key``, else ``$RETRIEVER_API_KEY``, is sent as a bearer token; a user and password in the URL are sent too, and
    shown nowhere. ``concurrency`` requests are under way at once in one event loop, ``per_minute`` in all; ``timeout``
    is seconds for one of them, repeated up to ``retries`` times where that can help. Scores are the server's own; one
    that tells none can be fused by rank alone.
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
        self._address = Address(url, self._protocol.endings)
        self._ending = "/" if url.rstrip().endswith("/") else ""  # to some servers another address
        server = Server(
            self._address,
            checked_key(key or os.environ.get("RETRIEVER_API_KEY")),
            max_concurrency=concurrency,
            rates=Rates(per_minute) if per_minute else None,
            timeout=timeout,
            retries=retries,
            max_response_bytes=MAX_RESPONSE_BYTES,
        )
        name = self._address.redacted_url + (f"?protocol={protocol}" if protocol != "polyhop" else "")
        super().__init__(name, server, _ADVICE)

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

    def _scored(self, query: str, k: int) -> list[tuple[Passage, float]]:
        return self._scored_many([query], k)[0]

    def _scored_many(self, queries: Sequence[str], k: int) -> list[list[tuple[Passage, float]]]:
        found = self._loop.run(each(queries, partial(self._hits, k=k, scored=True)))
        return [self._with_scores(hits)[:k] for hits in found]

    def _with_scores(self, hits: Sequence[Hit]) -> list[tuple[Passage, float]]:
        scores: dict[Passage, float] = {}
        for passage, score in hits:
            if score is None:
                raise RetrievalError(f"the retriever {self.name} tells no scores: fuse it by rank (hybrid:rrf:…)")
            scores.setdefault(passage, score)
        return list(scores.items())


def open_served(scheme: str, rest: str) -> ServedRetriever:
    """``SCHEME:REST``: a URL, and behind its question mark ``protocol``, ``concurrency``, ``timeout``, ``per_minute``.

    Raises:
        UsageError: it is no URL, or has another option.
    """
    url, options = path_and_options(scheme, rest, "protocol=flashrag")
    own, server = checked_options(f"{scheme}:", options, {"protocol": str})
    return ServedRetriever(f"{scheme}:{url}", **own, **server)
