"""Requests to Elasticsearch and OpenSearch, sent by their own clients: one call for both, one family of errors."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

import orjson

from polyhop.common.extras import require
from polyhop.common.text import printable
from polyhop.errors import RetrievalError, UsageError
from polyhop.net.client import Address
from polyhop.net.failures import retry_after
from polyhop.redaction import register_credentials, register_secret, summary
from polyhop.retrieval.engines.base import Busy, EngineAddress, check_version, patiently
from polyhop.retrieval.engines.bounded import MAX_SECONDS, elastic_node, excess_in, opensearch_connection

_OLDEST = {"elastic": (8, 12), "opensearch": (2, 11)}
_PRODUCT = {"elastic": "Elasticsearch", "opensearch": "OpenSearch"}
_VARIABLES = {
    "elastic": "ELASTIC_API_KEY, or ELASTIC_USERNAME and ELASTIC_PASSWORD",
    "opensearch": "OPENSEARCH_USERNAME and OPENSEARCH_PASSWORD",
}
_LOGGERS = {"elastic": "elastic_transport", "opensearch": "opensearch"}
_BUSY = frozenset({429, 502, 503, 504})


class Refused(RetrievalError):
    """A request that the server refused: the HTTP ``status``, and the ``kind`` and ``reason`` in its reply."""

    def __init__(self, message: str, status: int, kind: str, reason: str) -> None:
        super().__init__(message)
        self.status, self.kind, self.reason = status, kind, reason


class Wire:
    """Sends requests to one server and returns the JSON of its replies. Safe across threads; a busy server is asked
    again."""

    def __init__(self, address: EngineAddress) -> None:
        self.kind, self.product = address.kind, _PRODUCT[address.kind]
        server = Address(address.server)
        self.shown = server.redacted_url
        headers = self._authorisation(server)
        logging.getLogger(_LOGGERS[self.kind]).addHandler(logging.NullHandler())  # else it prints failures
        more = {"ca_certs": address.ca} if address.ca else {}
        if address.kind == "elastic":
            self._library = require("elasticsearch", "elastic", "the retriever elastic:")
            self.client = self._library.Elasticsearch(
                server.redacted_url,
                request_timeout=MAX_SECONDS,
                max_retries=0,
                headers=headers,
                node_class=elastic_node(),
                **more,
            )
            self._perform = self.client.perform_request
        else:
            self._library = require("opensearchpy", "elastic", "the retriever opensearch:")
            self.client = self._library.OpenSearch(
                [server.redacted_url],
                timeout=MAX_SECONDS,
                max_retries=0,
                headers=headers,
                connection_class=opensearch_connection(),
                **more,
            )
            self._perform = self.client.transport.perform_request

    def __call__(self, method: str, path: str, body: Any = None, *, lines: bool = False, **params: str) -> Any:
        """Send a request and return the JSON of the reply. ``body`` is JSON-ready, or bytes; JSON ``lines`` are bytes.

        Raises:
            Refused: the server refuses.
            RetrievalError: it cannot be reached, or is still busy after all attempts.
        """
        sent = body if body is None or isinstance(body, bytes) else orjson.dumps(body)
        kind = "application/x-ndjson" if lines else "application/json"
        headers = {"accept": "application/json", **({"content-type": kind} if sent is not None else {})}
        return patiently(lambda: self._once(method, path, sent, headers, params))

    def check_product(self) -> None:
        """Check the product and version of the server.

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
        check_version(f"{self.shown}: {self.product}", number, _OLDEST[self.kind])

    def _authorisation(self, address: Address) -> dict[str, str]:
        """Return the header of the credentials in the environment, else in the URL."""
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
        except (ValueError, RecursionError):  # the client's own, for a body that it cannot read as JSON
            raise RetrievalError(f"{self.product} at {self.shown} sends a reply that cannot be read") from None
        return getattr(answer, "body", answer)

    def _explained(self, error: Any) -> Exception:
        if type(error).__name__ == "UnsupportedProductError":
            return UsageError(f"the server at {self.shown} is not Elasticsearch; an OpenSearch is named opensearch:…")
        if excess := excess_in(error):
            return RetrievalError(f"{self.product} at {self.shown} sends too much: {excess}")
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
            said += f"; user and key come from {_VARIABLES[self.kind]}, or from the URL"
        return Refused(said, status, kind, reason)


def _words(info: object) -> tuple[str, str]:
    """Read the kind and reason of an error's body, those of the root cause if it is given."""
    error = info.get("error", info) if isinstance(info, Mapping) else info
    if not isinstance(error, Mapping):
        return "", str(error)
    roots = error.get("root_cause")
    root = roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], Mapping) else error
    return str(error.get("type", "")), str(root.get("reason") or error.get("reason") or error)
