"""Requests to an Elasticsearch or an OpenSearch, by its own client: one call for both, one family of errors."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from typing import Any

import orjson

from polyhop.common.extras import require
from polyhop.common.text import printable
from polyhop.errors import RetrievalError, UsageError
from polyhop.net.client import Address
from polyhop.net.failures import retry_after
from polyhop.redaction import register_credentials, register_secret, summary
from polyhop.retrieval.engines.address import EngineAddress
from polyhop.retrieval.engines.base import Busy, patiently

OLDEST = {"elastic": (8, 12), "opensearch": (2, 11)}
PRODUCT = {"elastic": "Elasticsearch", "opensearch": "OpenSearch"}
VARIABLES = {
    "elastic": "ELASTIC_API_KEY, or ELASTIC_USERNAME and ELASTIC_PASSWORD",
    "opensearch": "OPENSEARCH_USERNAME and OPENSEARCH_PASSWORD",
}

_LOGGERS = {"elastic": "elastic_transport", "opensearch": "opensearch"}
_BUSY = frozenset({429, 502, 503, 504})
_SECONDS = 120


class Refused(RetrievalError):
    """A request the server turned down: its HTTP ``status``, and the ``kind`` and ``reason`` of its words."""

    def __init__(self, message: str, status: int, kind: str, reason: str) -> None:
        super().__init__(message)
        self.status, self.kind, self.reason = status, kind, reason


class Wire:
    """Sends requests to one server and gives the JSON it answers. Safe across threads; a busy server is asked again."""

    def __init__(self, address: EngineAddress) -> None:
        self.kind, self.product = address.kind, PRODUCT[address.kind]
        server = Address(address.server)
        self.shown = server.redacted_url
        headers = self._authorisation(server)
        logging.getLogger(_LOGGERS[self.kind]).addHandler(logging.NullHandler())  # else it writes failures to stderr
        more = {"ca_certs": address.ca} if address.ca else {}
        if address.kind == "elastic":
            self._library = require("elasticsearch", "elastic", "the retriever elastic:")
            self.client = self._library.Elasticsearch(
                server.redacted_url, request_timeout=_SECONDS, max_retries=0, headers=headers, **more
            )
            self._perform = self.client.perform_request
        else:
            self._library = require("opensearchpy", "elastic", "the retriever opensearch:")
            self.client = self._library.OpenSearch(
                [server.redacted_url], timeout=_SECONDS, max_retries=0, headers=headers, **more
            )
            self._perform = self.client.transport.perform_request

    def __call__(self, method: str, path: str, body: Any = None, *, lines: bool = False, **params: str) -> Any:
        """The JSON of an answer. ``body``: JSON-ready, or the bytes of it; of several JSON ``lines``, bytes.

        Raises:
            Refused: the server turns it down.
            RetrievalError: it cannot be reached, is still busy after all attempts, or lets nobody in.
        """
        sent = body if body is None or isinstance(body, bytes) else orjson.dumps(body)
        kind = "application/x-ndjson" if lines else "application/json"
        headers = {"accept": "application/json", **({"content-type": kind} if sent is not None else {})}
        return patiently(lambda: self._once(method, path, sent, headers, params))

    def check(self) -> None:
        """Ask the server what it is.

        Raises:
            UsageError: it is another product, or too old.
        """
        try:
            version = self("GET", "/")["version"]
            number, distribution = str(version["number"]), version.get("distribution", "elasticsearch")
        except Refused as refused:
            if refused.status == 403:  # a key for one index may not ask
                return
            raise
        except (KeyError, TypeError, AttributeError):
            raise UsageError(f"the server at {self.shown} is not {self.product}") from None
        if (distribution == "opensearch") != (self.kind == "opensearch"):
            other = "opensearch" if self.kind == "elastic" else "elastic"
            there = printable(summary(str(distribution)))
            raise UsageError(f"the server at {self.shown} is not {self.product} but {there}: write {other}:…")
        found = tuple(int(part) for part in re.findall(r"\d{1,9}", number)[:2])
        if found < OLDEST[self.kind]:
            oldest = ".".join(map(str, OLDEST[self.kind]))
            version = f"{self.product} {printable(summary(number))}"
            raise UsageError(f"{version} at {self.shown} is too old: {oldest} or newer is needed")

    def _authorisation(self, address: Address) -> dict[str, str]:
        """The header that says who asks: from the environment, else from the URL."""
        prefix = "ELASTIC" if self.kind == "elastic" else "OPENSEARCH"
        key, user, password = (os.environ.get(f"{prefix}_{name}") for name in ("API_KEY", "USERNAME", "PASSWORD"))
        register_secret(key, password)
        if key and self.kind == "elastic":
            return {"authorization": f"ApiKey {key}"}
        if user and password:
            return {"authorization": register_credentials(user, password)}
        return {"authorization": address.user} if address.user else {}

    def _once(self, method: str, path: str, body: bytes | None, headers: dict[str, str], params: dict[str, str]) -> Any:
        library = self._library
        failures = (library.TransportError, library.ApiError) if self.kind == "elastic" else library.OpenSearchException
        try:
            answer = self._perform(method, path, params=params, headers=headers, body=body)
        except failures as error:
            raise self._explained(error) from None
        except (ValueError, RecursionError):  # the client's own, of a body that is no JSON it can read
            raise RetrievalError(f"{self.product} at {self.shown} answers what cannot be read") from None
        return getattr(answer, "body", answer)

    def _explained(self, error: Any) -> Exception:
        if type(error).__name__ == "UnsupportedProductError":
            return UsageError(f"the server at {self.shown} is not Elasticsearch; an OpenSearch is named opensearch:…")
        status = getattr(error, "status_code", None)
        if not isinstance(status, int):
            said = printable(summary(str(getattr(error, "message", None) or error)))
            return RetrievalError(f"{self.product} at {self.shown} cannot be reached: {said}")
        kind, reason = _words(error.info)
        reason = printable(summary(reason))
        if kind == "media_type_header_exception":
            version = self._library.__version__[0]
            return UsageError(
                f"the server at {self.shown} is older than the installed client of Elasticsearch {version}: install "
                f"one of its own version, as pip install 'elasticsearch<{version}'"
            )
        if status in _BUSY:
            meta: Mapping[str, str] = getattr(getattr(error, "meta", None), "headers", {})
            asked = retry_after({"Retry-After": meta.get("retry-after", "")}, 0.0)
            return Busy(f"{self.product} at {self.shown} is busy ({status}: {reason})", asked)
        said = f"{self.product} at {self.shown} refuses ({status}): {reason}"
        if status in (401, 403):
            said += f"; user and key come from {VARIABLES[self.kind]}, or from the URL"
        return Refused(said, status, kind, reason)


def _words(info: object) -> tuple[str, str]:
    """Kind and reason of an error's body, the deepest cause if there is one."""
    error = info.get("error", info) if isinstance(info, Mapping) else info
    if not isinstance(error, Mapping):
        return "", str(error)
    roots = error.get("root_cause")
    root = roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], Mapping) else error
    return str(error.get("type", "")), str(root.get("reason") or error.get("reason") or error)
