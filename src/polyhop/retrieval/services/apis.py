"""Three web search APIs: their requests and replies, as they document them.

- Serper (Google's results): POST ``google.serper.dev/search``, the key in ``X-API-KEY``; ``organic`` results and, if
  Google shows them, an ``answerBox`` and a ``knowledgeGraph``. 403 is a wrong key, 400 "Not enough credits".
- Tavily: POST ``api.tavily.com/search``, the key as a bearer token; ``results``, whose ``content`` is the part of a
  page that is relevant to the query. Its ``answer``, written by a language model, is not requested: it is no evidence.
  432 and 433 are limits of a plan.
- Brave (its own index): GET ``api.search.brave.com/res/v1/web/search``, the key in ``X-Subscription-Token``;
  ``web.results`` and an ``infobox``, in HTML. 422 is a wrong key, 429 with ``QUOTA_LIMITED`` a spent quota.

An answer box, a knowledge graph or an infobox becomes a passage before the results. Pages keep their order.
"""

from __future__ import annotations

import html
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar
from urllib.parse import urlencode

from polyhop.errors import brief
from polyhop.lm.wire import to_json
from polyhop.retrieval.services import field, listed, mapped, wrong_shape
from polyhop.types import Passage

MAX_TITLE, MAX_TEXT, MAX_URL = 300, 8000, 2000
"""Maximum lengths in characters. Longer titles and texts are cut; a result with a longer URL is dropped."""

_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_HIDDEN = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")

Payload = Mapping[str, Any]


class WebApi(ABC):
    """A web search API.

    For any ``k`` up to ``usual``, ``usual`` results are requested, so that one cached reply serves all of them;
    ``max_count`` is the maximum. A query is cut to ``letters`` characters and ``terms`` words. ``options`` narrow a
    search.
    """

    name: ClassVar[str]
    variable: ClassVar[str]
    """The environment variable of the key."""
    account: ClassVar[str]
    """The website that issues keys."""
    url: ClassVar[str]
    header: ClassVar[str | None]
    """The header of the key; None if it is a bearer token."""
    usual: ClassVar[int]
    max_count: ClassVar[int]
    letters: ClassVar[int]
    terms: ClassVar[int | None] = None
    options: ClassVar[tuple[str, ...]]

    @abstractmethod
    def payload(self, query: str, count: int, options: Mapping[str, str]) -> Payload:
        """Return the request for a query: everything that the reply depends on."""

    @abstractmethod
    def passages(self, reply: Any) -> Iterator[Passage]:
        """Yield the passages of a reply. Raises ``WrongShape``."""

    def count(self, k: int) -> int:
        """Return the number of results to request, to get ``k``."""
        return self.usual if k <= self.usual else min(self.max_count, -(-k // 10) * 10)

    def request(self, url: str, payload: Payload) -> tuple[str, bytes | None]:
        """Return the URL and the body to post; no body means GET."""
        return url, to_json(payload)

    def cut(self, query: str, site: str | None = None) -> str:
        """Cut a query between words to the API's limits, and add the operator that restricts it to a site."""
        ending = f" site:{site}" if site else ""
        words = query.split()
        if self.terms is not None:
            words = words[: self.terms - bool(site)]
        text, limit = " ".join(words), self.letters - len(ending)
        if len(text) > limit:
            text = text[:limit] if " " not in text[: limit + 1] else text[: limit + 1].rpartition(" ")[0]
        return text + ending


class Serper(WebApi):
    """Google's results by serper.dev."""

    name, variable, account = "serper", "SERPER_API_KEY", "serper.dev"
    url, header = "https://google.serper.dev/search", "X-API-KEY"
    usual, max_count, letters = 10, 100, 2048
    options = ("site", "country", "language")

    def payload(self, query: str, count: int, options: Mapping[str, str]) -> Payload:
        extra = {"gl": options.get("country"), "hl": options.get("language")}
        return {"q": self.cut(query, options.get("site")), "num": count, **_without_none(extra)}

    def passages(self, reply: Any) -> Iterator[Passage]:
        rows = listed(field(reply, "organic", "the reply"), "organic")
        if box := mapped(reply.get("answerBox") or {}, "answerBox"):
            yield from _extra("answer box", box.get("link"), box.get("title"), [box.get("answer"), box.get("snippet")])
        if graph := mapped(reply.get("knowledgeGraph") or {}, "knowledgeGraph"):
            facts = mapped(graph.get("attributes") or {}, "knowledgeGraph.attributes")
            parts = [graph.get("type"), graph.get("description"), *_facts(facts.items())]
            link = graph.get("descriptionLink") or graph.get("website")
            yield from _extra("knowledge graph", link, graph.get("title"), parts)
        for rank, row in enumerate(rows, 1):
            path = f"organic[{rank - 1}]"
            yield from _page(
                field(row, "link", path), path, row.get("title"), row.get("snippet"), rank, row.get("date")
            )


class Tavily(WebApi):
    """Tavily's search of basic depth."""

    name, variable, account = "tavily", "TAVILY_API_KEY", "app.tavily.com"
    url, header = "https://api.tavily.com/search", None
    usual, max_count, letters = 20, 20, 400
    options = ("site", "country")

    def payload(self, query: str, count: int, options: Mapping[str, str]) -> Payload:
        site = options.get("site")
        extra = {"include_domains": [site] if site else None, "country": options.get("country")}
        return {"query": self.cut(query), "max_results": count, "search_depth": "basic", **_without_none(extra)}

    def passages(self, reply: Any) -> Iterator[Passage]:
        for rank, row in enumerate(listed(field(reply, "results", "the reply"), "results"), 1):
            path, date = f"results[{rank - 1}]", mapped(row, f"results[{rank - 1}]").get("published_date")
            yield from _page(field(row, "url", path), path, row.get("title"), row.get("content"), rank, date)


class Brave(WebApi):
    """Brave's web search."""

    name, variable, account = "brave", "BRAVE_API_KEY", "api-dashboard.search.brave.com"
    url, header = "https://api.search.brave.com/res/v1/web/search", "X-Subscription-Token"
    usual, max_count, letters, terms = 20, 20, 400, 50
    options = ("site", "country", "language")

    def payload(self, query: str, count: int, options: Mapping[str, str]) -> Payload:
        extra = {"country": options.get("country"), "search_lang": options.get("language")}
        asked = {"q": self.cut(query, options.get("site")), "count": count, "result_filter": "web,infobox"}
        return {**asked, "text_decorations": "false", **_without_none(extra)}

    def request(self, url: str, payload: Payload) -> tuple[str, bytes | None]:
        return f"{url}?{urlencode(payload, errors='replace')}", None

    def passages(self, reply: Any) -> Iterator[Passage]:
        if field(reply, "type", "the reply") != "search":
            raise wrong_shape(f"type is {brief(reply['type'])}, expected 'search'")
        boxes = mapped(reply.get("infobox") or {}, "infobox").get("results") or []
        for box in boxes if isinstance(boxes, list) else [boxes]:
            pairs = listed(mapped(box, "infobox.results").get("attributes") or [], "infobox.results.attributes")
            facts = _facts(pair for pair in pairs if isinstance(pair, list) and len(pair) == 2)
            parts = [box.get("long_desc") or box.get("description"), *facts]
            yield from _extra("infobox", box.get("url"), _bare(box.get("title")), map(_bare, parts))
        rows = field(reply["web"], "results", "web") if reply.get("web") else []  # absent if it found no page
        for rank, row in enumerate(listed(rows, "web.results"), 1):
            path, date = f"web.results[{rank - 1}]", mapped(row, f"web.results[{rank - 1}]").get("page_age")
            title, text = _bare(row.get("title")), _bare(row.get("description"))
            yield from _page(field(row, "url", path), path, title, text, rank, date)


APIS: Mapping[str, WebApi] = {api.name: api for api in (Serper(), Tavily(), Brave())}
"""The APIs by name."""


def _page(url: Any, path: str, title: Any, text: Any, rank: int, date: Any) -> Iterator[Passage]:
    """Yield a result as a passage, unless it has neither title nor text."""
    if not isinstance(url, str) or not url.strip():
        raise wrong_shape(f"{path} has no URL")
    title, text = shown(title, MAX_TITLE), shown(text, MAX_TEXT)
    url = shown(url, MAX_URL + 1)
    if (title or text) and 0 < len(url) <= MAX_URL:
        dated = {"date": shown(date, 40)} if isinstance(date, str) and date else {}
        yield Passage(url, title, text, metadata={"url": url, "rank": rank, **dated})


def _extra(kind: str, url: Any, title: Any, parts: Iterable[Any]) -> Iterator[Passage]:
    """Yield an extra beside the results as a passage. Its id differs from its page's, which may be a result too."""
    title = shown(title, MAX_TITLE)
    texts = [found for part in parts if (found := shown(part, MAX_TEXT))]
    text = shown(" ".join(part if part[-1] in ".!?" else f"{part}." for part in texts), MAX_TEXT)
    url = shown(url, MAX_URL)
    if text:
        where = {"url": url} if url else {}
        yield Passage(f"{kind}: {url or title or text[:80]}", title, text, metadata={**where, "rank": 0, "kind": kind})


def _facts(pairs: Iterable[Any]) -> Iterator[str]:
    """Write attributes and their values as sentences."""
    for name, value in pairs:
        if isinstance(name, str) and isinstance(value, str | int | float) and str(value).strip():
            yield f"{name}: {value}"


def shown(value: Any, limit: int) -> str:
    """Write a text of a reply as one line of up to ``limit`` characters, none of them hidden; "" for any other value.

    >>> shown("Ada\\u200b  Lovelace\\n(1815)", 12), shown(None, 9)
    ('Ada Lovelace', '')
    """
    if not isinstance(value, str):
        return ""
    return " ".join(_HIDDEN.sub("", value[: 4 * limit]).split())[:limit].rstrip()


def _bare(value: Any) -> str:
    """Remove the tags and entities of HTML; "" for a value that is no text.

    >>> _bare("<strong>Ada</strong> &amp; Charles: 1 &lt; 2")
    'Ada & Charles: 1 < 2'
    """
    return html.unescape(_TAG.sub("", value)) if isinstance(value, str) else ""


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
