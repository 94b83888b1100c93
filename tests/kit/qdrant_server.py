"""The wire of a Qdrant on loopback: the endpoints that polyhop asks, answered by the client's own engine in memory."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from polyhop.common.extras import require
from tests.kit import loopback


class QdrantServer:
    """The server. ``spoil`` makes the bytes of an answer."""

    def __init__(self) -> None:
        self._models = require("qdrant_client.models", "qdrant", "a Qdrant of the tests")
        self._engine = require("qdrant_client", "qdrant", "a Qdrant of the tests").QdrantClient(":memory:")
        self.spoil: Callable[[Any], bytes] = lambda answer: json.dumps(answer).encode()
        self.url = ""

    def answer(self, method: str, path: str, body: Any) -> Any:
        """Return the JSON of an answer."""
        if path == "/":
            return {"title": "qdrant - vector search engine", "version": "1.15.1"}
        _, _, name, *action = path.split("/")
        result = getattr(self, "_".join(["_do", method, *action]).lower())(name, body)
        return {"result": result, "status": "ok", "time": 0.001}

    def _do_get_exists(self, name: str, body: Any) -> Any:
        return {"exists": self._engine.collection_exists(name)}

    def _do_get(self, name: str, body: Any) -> Any:
        return self._engine.get_collection(name).model_dump(mode="json", exclude_none=True)

    def _do_put(self, name: str, body: Any) -> Any:
        made = self._models.CreateCollection(**body)
        return self._engine.create_collection(
            name, vectors_config=made.vectors, sparse_vectors_config=made.sparse_vectors
        )

    def _do_delete(self, name: str, body: Any) -> Any:
        return self._engine.delete_collection(name)

    def _do_put_points(self, name: str, body: Any) -> Any:
        points = [self._models.PointStruct(**point) for point in body["points"]]
        return self._engine.upsert(name, points).model_dump(mode="json", exclude_none=True)

    def _do_post_points(self, name: str, body: Any) -> Any:
        found = self._engine.retrieve(name, body["ids"], with_payload=body["with_payload"])
        return [point.model_dump(mode="json", exclude_none=True) for point in found]

    def _do_post_points_count(self, name: str, body: Any) -> Any:
        return {"count": self._engine.count(name).count}

    def _do_post_points_query(self, name: str, body: Any) -> Any:
        query = body["query"].get("nearest", body["query"]) if isinstance(body["query"], dict) else body["query"]
        query = self._models.SparseVector(**query) if isinstance(query, dict) else query
        found = self._engine.query_points(name, query=query, using=body["using"], limit=body["limit"])
        return found.model_dump(mode="json", exclude_none=True)


@contextmanager
def serving() -> Iterator[QdrantServer]:
    """A server, for as long as the block lasts; its ``url`` is that of loopback."""
    engine, one_at_a_time = QdrantServer(), threading.Lock()

    class Handler(loopback.Handler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with one_at_a_time:
                answer = engine.answer(self.command, self.path.partition("?")[0], json.loads(body or b"null"))
                raw = engine.spoil(answer)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815

    with loopback.answering(Handler) as engine.url:
        yield engine
