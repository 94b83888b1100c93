"""Qdrant: BM25 by sparse vectors of our own terms, and nearest vectors; a server, or a folder without one.

Source: Robertson and Zaragoza, 2009, equation 3.15, split in two: the vector of a passage holds the saturated and
length-normalised count of each term, that of a query 1 for each term, and the engine multiplies by the idf that it
keeps (its ``idf`` modifier, in Lucene's form). Terms are those of the corpus' own analysis, hashed to 32 bits; lengths
are exact. The manifest is a point without a vector, so that no search finds it.
"""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import blake2b
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import NAMESPACE_URL, uuid5

from polyhop.common.extras import require
from polyhop.common.progress import report_progress
from polyhop.common.text import counted, printable
from polyhop.errors import RetrievalError, SettingError
from polyhop.net.client import Address
from polyhop.net.failures import retry_after
from polyhop.redaction import register_secret, summary
from polyhop.retrieval.engines.base import (
    SPARE,
    Busy,
    EngineAddress,
    Hits,
    Row,
    Store,
    body_of,
    by_id,
    check_version,
    patiently,
    read_ids,
    read_passage,
    read_score,
)
from polyhop.retrieval.engines.bounded import MAX_SECONDS, excess_in, httpx_hooks
from polyhop.retrieval.engines.manifest import Manifest, Unfit
from polyhop.types import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from polyhop.retrieval.index import Index

T = TypeVar("T")

K1, B = 1.2, 0.75

_NAME = re.compile(r"[\w.-]{1,255}")
_MANIFEST = str(uuid5(NAMESPACE_URL, "polyhop:manifest"))
_TERMS, _VECTOR = "terms", "vector"
_OLDEST = (1, 10)


class QdrantStore(Store):
    """A collection of a Qdrant server, or of a folder, which only one process at a time can open. Ties are broken by
    passage id, at the cut if at most ``SPARE`` tie there."""

    max_vector_size = 65536

    def __init__(self, address: EngineAddress) -> None:
        super().__init__(address)
        if not _NAME.fullmatch(address.collection) or not address.collection.strip("."):
            raise SettingError(
                f"{address.shown}: {address.collection!r} is not a valid collection name: letters, digits, ._-"
            )
        self._library = require("qdrant_client", "qdrant", "the retriever qdrant:")
        self._models = require("qdrant_client.models", "qdrant", "the retriever qdrant:")
        api = require("qdrant_client.http.exceptions", "qdrant", "the retriever qdrant:").ApiException
        put_off = require("qdrant_client.common.client_exceptions", "qdrant", "the retriever qdrant:").QdrantException
        self._failures = (api, put_off)
        self._name, self._local = address.collection, "://" not in address.server
        self._lock = RLock()  # the client of a folder is not safe across threads
        self._client = self._opened()
        if not self._local:
            version = str(self._call(lambda: self._client.info()).version)
            check_version(f"{address.shown}: Qdrant", version, _OLDEST)

    def facts(self, index: Index) -> dict[str, Any]:
        """Compute the mean number of terms per passage, which BM25 needs."""
        total = 0
        with report_progress("passages counted") as report:
            for number, passage in enumerate(index.passages, 1):
                total += len(index.analysis.terms(body_of(passage)))
                report(number, len(index))
        return {"mean_terms": total / len(index)}

    def find(self) -> Manifest | None:
        if not self._call(lambda: self._client.collection_exists(self._name)):
            return None
        points = self._points([_MANIFEST])
        described = self._call(lambda: self._client.get_collection(self._name)).config.params
        vectors = described.vectors or {}
        if not points and self._count() == 0 and list(described.sparse_vectors or {}) == [_TERMS]:
            return None  # a load stopped before its first point
        self.manifest = Manifest.read(points[0].payload.get("polyhop") if points else None, self.address.shown)
        size = vectors[_VECTOR].size if isinstance(vectors, Mapping) and _VECTOR in vectors else 0
        if size != self.manifest.size or _TERMS not in (described.sparse_vectors or {}):
            raise Unfit(
                f"the collection of {self.address.shown} was changed: its vectors have {counted(size, 'numbers')}, not "
                f"{self.manifest.size}; load it again with --overwrite"
            )
        return self.manifest

    def create(self, manifest: Manifest) -> None:
        m = self._models
        dense = {_VECTOR: m.VectorParams(size=manifest.size, distance=m.Distance.DOT)} if manifest.size else {}
        sparse = {_TERMS: m.SparseVectorParams(modifier=m.Modifier.IDF)}
        if self._call(lambda: self._client.collection_exists(self._name)):
            self.drop()
        self._call(
            lambda: self._client.create_collection(self._name, vectors_config=dense, sparse_vectors_config=sparse)
        )
        self.keep(manifest)

    def drop(self) -> None:
        self._call(lambda: self._client.delete_collection(self._name))

    def known(self, ids: Sequence[str]) -> Collection[str]:
        points = {_point(id): id for id in ids}
        return {points[str(point.id)] for point in self._points(list(points), payload=False)}

    def add(self, rows: Sequence[Row]) -> None:
        made = [
            self._models.PointStruct(id=_point(row.passage.id), vector=self._vectors(row), payload=_payload(row))
            for row in rows
        ]
        self._call(lambda: self._client.upsert(self._name, made, wait=True))

    def finish(self) -> int:
        return self._count() - 1  # the manifest

    def keep(self, manifest: Manifest) -> None:
        point = self._models.PointStruct(id=_MANIFEST, vector={}, payload={"polyhop": manifest.to_dict()})
        self._call(lambda: self._client.upsert(self._name, [point], wait=True))
        self.manifest = manifest

    def by_terms(self, query: str, k: int) -> Hits:
        """Search by BM25."""
        numbers = sorted({_number(term) for term in self.manifest.analysis.terms(query)})
        if not numbers:
            return []
        return self._hits(_TERMS, self._models.SparseVector(indices=numbers, values=[1.0] * len(numbers)), k)

    def by_vector(self, vector: NDArray[np.float32], k: int) -> Hits:
        return self._hits(_VECTOR, vector.tolist(), k)

    def linked(self, id: str) -> Sequence[str]:
        points = self._points([_point(id)])
        return read_ids(points[0].payload["linked"]) if points else []

    def get(self, ids: Sequence[str]) -> dict[str, Passage]:
        found = (read_passage(point.payload) for point in self._points([_point(id) for id in ids]))
        return {passage.id: passage for passage in found}

    def close(self) -> None:
        self._client.close()

    def _hits(self, using: str, query: Any, k: int) -> Hits:
        found = self._call(
            lambda: self._client.query_points(self._name, query=query, using=using, limit=k + SPARE).points
        )
        return by_id([(read_passage(point.payload), read_score(point.score)) for point in found], k)

    def _count(self) -> int:
        return int(self._call(lambda: self._client.count(self._name, exact=True)).count)

    def _points(self, ids: Sequence[str], payload: bool = True) -> Any:
        return self._call(lambda: self._client.retrieve(self._name, list(ids), with_payload=payload))

    def _vectors(self, row: Row) -> dict[str, Any]:
        counts = Counter(_number(term) for term in self.manifest.analysis.terms(body_of(row.passage)))
        norm = K1 * (1 - B + B * counts.total() / (self.manifest.facts.get("mean_terms") or 1))
        vectors: dict[str, Any] = {}
        if counts:
            values = [count / (count + norm) for count in counts.values()]
            vectors[_TERMS] = self._models.SparseVector(indices=list(counts), values=values)
        if row.vector is not None:
            vectors[_VECTOR] = row.vector.tolist()
        return vectors

    def _opened(self) -> Any:
        make = self._library.QdrantClient
        if not self._local:
            address, key = Address(self.address.server), os.environ.get("QDRANT_API_KEY")
            register_secret(key)
            headers = {"authorization": address.user} if address.user else {}
            port = None if re.search(r":\d+(/|$)", address.redacted_url.partition("://")[2]) else 6333
            with warnings.catch_warnings():  # about a key sent without TLS, to the user's own server
                warnings.simplefilter("ignore")
                return make(
                    url=address.redacted_url,
                    port=port,
                    api_key=key,
                    timeout=MAX_SECONDS,
                    headers=headers,
                    check_compatibility=False,
                    event_hooks=httpx_hooks(),
                )
        try:
            return make(path=self.address.server, force_disable_check_same_thread=True)
        except (RuntimeError, OSError, ValueError) as error:
            raise RetrievalError(f"{self.address.shown} cannot be opened: {error}") from None

    def _call(self, work: Callable[[], T]) -> T:
        def once() -> T:
            try:
                if self._local:
                    with self._lock:
                        return work()
                return work()
            except self._failures as error:
                raise self._explained(error) from None
            except (ValueError, RecursionError, AssertionError):  # the client's own, for a body that it cannot read
                raise RetrievalError(f"Qdrant at {self.address.shown} sends a reply that cannot be read") from None

        return patiently(once)

    def _explained(self, error: Any) -> Exception:
        shown = self.address.shown
        if excess := excess_in(error):
            return RetrievalError(f"Qdrant at {shown} sends too much: {excess}")
        status = getattr(error, "status_code", None)
        if status is None:
            wait = getattr(error, "retry_after_s", None)
            said = printable(summary(str(getattr(error, "source", error))))
            if wait is not None:
                return Busy(f"Qdrant at {shown} is busy: {said}", retry_after({"Retry-After": str(wait)}, 0.0))
            return RetrievalError(f"Qdrant cannot be reached at {shown}: {said}")
        said = printable(summary(error.content.decode(errors="replace")))
        if status in (429, 502, 503, 504):
            return Busy(f"Qdrant at {shown} is busy ({status}: {said})", retry_after(error.headers or {}, 0.0))
        if status in (401, 403):
            return RetrievalError(f"Qdrant at {shown} does not permit it ({status}): the key comes from QDRANT_API_KEY")
        return RetrievalError(f"Qdrant at {shown} refuses ({status}): {said}")


def _point(id: str) -> str:
    """Return the id of a passage's point: the engine allows only numbers and UUIDs."""
    return str(uuid5(NAMESPACE_URL, f"polyhop:passage:{id}"))


def _number(term: str) -> int:
    return int.from_bytes(blake2b(term.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "big")


def _payload(row: Row) -> dict[str, Any]:
    return {**row.passage.to_dict(), "linked": list(row.linked)}
