"""``web:serper``, ``web:tavily``, ``web:brave``: web search with the user's own key, the setting of Bamboogle.

Replies are cached in ``web.sqlite`` in the cache folder, so that a run that is resumed or repeated gets the same
results: the web changes, and each request costs money. Keys, failures and replies without a result are not cached.
Only the replies are read: no page is ever fetched.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

import orjson

from polyhop.common.aio import gather
from polyhop.common.files import cache_folder
from polyhop.common.registry import path_and_options
from polyhop.data.lines import check_depth
from polyhop.errors import SettingError, UnknownName
from polyhop.lm.cache_store import Store
from polyhop.lm.openai import checked_key
from polyhop.lm.wire import to_json
from polyhop.net.client import Address
from polyhop.net.failures import BadReply, FailureKind
from polyhop.net.single_flight import SingleFlight
from polyhop.retrieval.services import Service, checked_options
from polyhop.retrieval.services.apis import APIS, Payload, WebApi
from polyhop.types import Passage


class WebSearch(Service):
    """Web search by an API of ``APIS``. A passage's id is the page's URL, its text the API's snippet of the page.

    ``site``, ``country`` and ``language`` narrow the search, if the API supports them. ``key`` defaults to the API's
    environment variable; ``url`` is another address of the same API. ``cache`` is a file, None for the default one or
    False for none. The rest is as for ``ServedRetriever``. A query that is too long for the API is cut. An API returns
    at most 20 results (Serper 100).
    """

    def __init__(
        self,
        api: str,
        *,
        site: str | None = None,
        country: str | None = None,
        language: str | None = None,
        key: str | None = None,
        url: str | None = None,
        cache: str | Path | bool | None = None,
        concurrency: int = 8,
        timeout: float = 30,
        per_minute: int | None = None,
        retries: int = 5,
    ) -> None:
        if api not in APIS:
            raise UnknownName("web search", api, APIS)
        self.api = APIS[api]
        given = {"site": site, "country": country, "language": language}
        self._options = {name: value for name, value in given.items() if value is not None}
        for name in self._options:
            if name not in self.api.options:
                raise UnknownName(f"option of web:{api}", name, self.api.options)
        self._store = _store(cache)
        self._in_flight: SingleFlight[list[Passage]] = SingleFlight()
        own, header = _key(self.api, key), self.api.header
        narrowed = "&".join(f"{name}={value}" for name, value in self._options.items())
        super().__init__(
            f"web:{api}" + (f"?{narrowed}" if narrowed else ""),
            Address(url or self.api.url, ()),
            _advice(self.api),
            key=own if header is None else None,
            headers={header: own} if header is not None else None,
            concurrency=concurrency,
            timeout=timeout,
            per_minute=per_minute,
            retries=retries,
        )

    async def aclose(self) -> None:
        """Close the connections and write the cache to the disk."""
        await super().aclose()
        if self._store is not None:
            self._store.close()

    async def _asked(self, queries: Sequence[str], k: int) -> list[list[Passage]]:
        return await gather(*(self._one(query, k) for query in queries))

    async def _one(self, query: str, k: int) -> list[Passage]:
        payload = self.api.payload(query, self.api.count(k), self._options)
        key = self._cache_key(payload)
        if (kept := self._kept(key)) is not None:
            return kept
        passages, _ = await self._in_flight.run(key, lambda: self._fetched(key, payload))
        return passages

    async def _fetched(self, key: bytes, payload: Payload) -> list[Passage]:
        address, body = self.api.request(self._address.redacted_url, payload)
        reply, passages = await self._ask(address, body, self._read)
        if passages and self._store is not None:
            self._store.put(key, to_json(reply), model=self.name, task="search")
        return passages

    def _read(self, reply: Any) -> tuple[Any, list[Passage]]:
        if self._store is not None:
            check_depth(reply)  # what is kept must be written again
        return reply, list(self.api.passages(reply))

    def _kept(self, key: bytes) -> list[Passage] | None:
        """Return the passages of the cached reply; None if there is none that can be read."""
        if self._store is None or (kept := self._store.get(key)) is None:
            return None
        try:
            return list(self.api.passages(orjson.loads(kept)))
        except (BadReply, LookupError, TypeError, AttributeError, ValueError):
            return None

    def _cache_key(self, payload: Payload) -> bytes:
        """Hash everything that the reply depends on, except the key."""
        return blake2b(to_json({"url": self._address.redacted_url, "payload": payload}), digest_size=20).digest()


def open_web(rest: str) -> WebSearch:
    """Open ``API[?OPTIONS]``: ``site``, ``country``, ``language``, ``cache=off``, and those of any service.

    Raises:
        UsageError: there is no such API or option, or its key is missing.
    """
    api, options = path_and_options("web", rest, "site=en.wikipedia.org")
    if not api:
        raise SettingError(f"web: needs an API, as in web:serper; there are {', '.join(APIS)}")
    own, server = checked_options(f"web:{api}", options, {**dict.fromkeys(_TEXTS, str), "cache": _switch})
    return WebSearch(api, **own, **server)


_TEXTS = ("site", "country", "language")


def _switch(value: Any) -> bool | None:
    if value not in ("on", "off"):
        raise SettingError(f"web:…?cache={value}: must be on or off")
    return None if value == "on" else False


def _store(cache: str | Path | bool | None) -> Store | None:
    if cache is False:
        return None
    return Store(cache if isinstance(cache, str | Path) else cache_folder() / "web.sqlite")


def _key(api: WebApi, given: str | None) -> str:
    key = checked_key(given or os.environ.get(api.variable))
    if key is None:
        raise SettingError(f"web:{api.name} needs your own key: set {api.variable}; get one at {api.account}")
    return key


def _advice(api: WebApi) -> Mapping[FailureKind, str]:
    return {
        "retryable": "Try again later, or with fewer requests: web:…?concurrency=1, or ?per_minute=50.",
        "quota": f"Waiting will not help: the account's credit or quota is used up ({api.account}).",
        "key": f"Set {api.variable} to a key from {api.account}.",
        "redirect": "No redirect is followed.",
        "unreachable": "Is this machine on the network, or behind a proxy (HTTPS_PROXY)?",
    }
