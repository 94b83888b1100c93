"""Elasticsearch and OpenSearch: BM25 (k1 1.2, b 0.75) and nearest vectors, over their own index.

The analysis is as close to the corpus' own as the engines allow: the same words, stop words, folding and Snowball
stemmer, each distinct word of a query once, over title and text as one field. They lack Unicode's NFKC for languages
other than English. An index has one shard, so that a word has the same rarity for all passages.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from polyhop.common.text import STOP_WORDS, counted
from polyhop.errors import RetrievalError, SettingError, UsageError, brief
from polyhop.retrieval.analysis import WITHOUT_STOP_WORDS, Analysis
from polyhop.retrieval.engines.base import (
    SPARE,
    Busy,
    EngineAddress,
    Hits,
    Row,
    Store,
    by_id,
    patiently,
    read_ids,
    read_passage,
    read_score,
)
from polyhop.retrieval.engines.elastic_wire import Refused, Wire
from polyhop.retrieval.engines.manifest import Manifest, Unfit
from polyhop.types import Passage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_NAME = re.compile(r"[a-z0-9.][a-z0-9._-]{0,254}")
_MAX_ID_BYTES = 512  # the engines' own limit
_MAX_TERMS = 1000  # per query: the engines refuse more than 1024 clauses
_SHOWN = ["id", "title", "text", "links", "metadata"]


class ElasticStore(Store):
    """An index of Elasticsearch or OpenSearch. Ties of BM25 scores are broken by passage id, also at the cut; ties of
    vectors too, if at most ``SPARE`` tie there."""

    max_vector_size = 4096

    def __init__(self, address: EngineAddress) -> None:
        super().__init__(address)
        if not _NAME.fullmatch(address.collection) or address.collection in (".", ".."):
            raise SettingError(
                f"{address.shown}: {address.collection!r} is not a valid index name: "
                "lower-case letters, digits, dots, dashes"
            )
        self._ask = Wire(address)
        self._ask.check_product()
        self._path = f"/{quote(address.collection, safe='')}"

    def find(self) -> Manifest | None:
        try:
            found, *others = self._ask("GET", f"{self._path}/_mapping").values()
        except Refused as refused:
            if refused.status == 404:
                return None
            raise
        if others:
            raise UsageError(f"{self.address.shown} is an alias of several indexes; name one")
        mapping = found["mappings"]
        stored = mapping.get("_meta", {}).get("polyhop")
        self.manifest = Manifest.read(stored, self.address.shown)
        wanted, there = self._properties(self.manifest), mapping.get("properties", {})
        for name, settings in wanted.items():
            for key in ("type", "analyzer", "search_analyzer", "similarity", "dims", "dimension"):
                if (expected := settings.get(key)) != (real := there.get(name, {}).get(key)):
                    raise Unfit(
                        f"the mapping of {self.address.shown} was changed: the {key} of {name!r} is {brief(real)}, not "
                        f"{expected!r}; load it again with --overwrite"
                    )
        return self.manifest

    def create(self, manifest: Manifest) -> None:
        settings: dict[str, Any] = {
            "number_of_shards": 1,
            "refresh_interval": "-1",  # until the load ends
            "analysis": _analysis(manifest.analysis, self.address),
            "similarity": {"polyhop": {"type": "BM25", "k1": 1.2, "b": 0.75}},
        }
        if self.address.kind == "opensearch" and manifest.size:
            settings["knn"] = True
        meta, properties = {"polyhop": manifest.to_dict()}, self._properties(manifest)
        mappings = {"dynamic": False, "_meta": meta, "properties": properties}
        try:
            self._ask("PUT", self._path, {"settings": {"index": settings}, "mappings": mappings})
        except Refused as refused:
            if refused.kind == "resource_already_exists_exception":
                raise RetrievalError(f"{self.address.shown} was created by another load just now; load again") from None
            raise
        self.manifest = manifest

    def drop(self) -> None:
        self._ask("DELETE", self._path)

    def known(self, ids: Sequence[str]) -> Collection[str]:
        found = self._ask("POST", f"{self._path}/_mget", {"ids": list(ids)}, _source="false")
        return {hit["_id"] for hit in found["docs"] if hit.get("found")}

    def add(self, rows: Sequence[Row]) -> None:
        """Write passages, in halves of a batch that is too large for the server."""
        if long := next((row.passage.id for row in rows if len(row.passage.id.encode()) > _MAX_ID_BYTES), None):
            raise UsageError(f"{self._ask.product} accepts ids of up to {_MAX_ID_BYTES} bytes, not {long[:60]!r}…")
        try:
            patiently(lambda: self._bulk(rows))
        except Refused as refused:
            if refused.status != 413 or len(rows) < 2:
                raise
            self.add(rows[: len(rows) // 2])
            self.add(rows[len(rows) // 2 :])

    def finish(self) -> int:
        self._ask("PUT", f"{self._path}/_settings", {"index": {"refresh_interval": "1s"}})
        self._ask("POST", f"{self._path}/_refresh")
        return int(self._ask("GET", f"{self._path}/_count")["count"])

    def keep(self, manifest: Manifest) -> None:
        self._ask("PUT", f"{self._path}/_mapping", {"_meta": {"polyhop": manifest.to_dict()}})
        self.manifest = manifest

    def by_terms(self, query: str, k: int) -> Hits:
        """Search by BM25. Special characters of a query language have no effect."""
        asked = {
            "query": {"match": {"body": {"query": query, "operator": "or"}}},
            "sort": [{"_score": "desc"}, {"id": "asc"}],
        }
        return by_id(self._hits(asked, k), k)

    def by_vector(self, vector: NDArray[np.float32], k: int) -> Hits:
        numbers, wanted = vector.tolist(), k + SPARE
        if self.address.kind == "opensearch":
            asked: dict[str, Any] = {"query": {"knn": {"vector": {"vector": numbers, "k": wanted}}}}
        else:
            candidates = min(max(2 * wanted, 100), 10_000)
            asked = {"knn": {"field": "vector", "query_vector": numbers, "k": wanted, "num_candidates": candidates}}
        return by_id([(passage, _product(score)) for passage, score in self._hits(asked, wanted)], k)

    def linked(self, id: str) -> Sequence[str]:
        (found,) = self._ask("POST", f"{self._path}/_mget", {"ids": [id]}, _source_includes="linked")["docs"]
        return read_ids(found["_source"].get("linked", [])) if found.get("found") else []

    def get(self, ids: Sequence[str]) -> dict[str, Passage]:
        found = self._ask("POST", f"{self._path}/_mget", {"ids": list(ids)}, _source_includes=",".join(_SHOWN))["docs"]
        passages = [_passage(hit["_source"]) for hit in found if hit.get("found")]
        return {passage.id: passage for passage in passages}

    def close(self) -> None:
        self._ask.client.close()

    def _hits(self, asked: Mapping[str, Any], k: int) -> Hits:
        body = {**asked, "size": k, "_source": _SHOWN, "track_total_hits": False, "track_scores": True}
        found = self._ask("POST", f"{self._path}/_search", body)["hits"]["hits"]
        return [(_passage(hit["_source"]), read_score(hit["_score"])) for hit in found]

    def _bulk(self, rows: Sequence[Row]) -> None:
        """Write rows. Raises ``Busy`` if some were put off; writing all of them again does no harm."""
        lines = b"".join(orjson.dumps(part) + b"\n" for row in rows for part in _document(row))
        found = self._ask("POST", f"{self._path}/_bulk", lines, lines=True)
        failed = [item["index"] for item in found["items"] if "error" in item["index"]] if found["errors"] else []
        for item in failed:
            if item["status"] not in (429, 503):
                reason = item["error"].get("reason")
                raise UsageError(f"{self._ask.product} does not take the passage {item['_id']!r}: {reason}")
        if failed:
            raise Busy(
                f"{self._ask.product} at {self._ask.shown} put off {len(failed)} of {counted(len(rows), 'passages')}"
            )

    def _properties(self, manifest: Manifest) -> dict[str, Any]:
        kept = {"type": "keyword", "index": False, "doc_values": False}
        shown = {"type": "text", "index": False, "copy_to": "body"}
        analysed = {"type": "text", "analyzer": "polyhop", "search_analyzer": "polyhop_query"}
        fields: dict[str, Any] = {
            "id": {"type": "keyword"},
            "title": shown,
            "text": shown,
            "links": kept,
            "metadata": kept,
            "linked": kept,
            "body": {**analysed, "similarity": "polyhop"},
        }
        if manifest.size:
            fields["vector"] = self._vector(manifest.size)
        return fields

    def _vector(self, size: int) -> dict[str, Any]:
        if self.address.kind == "opensearch":
            method: dict[str, Any] = {"name": "hnsw", "engine": "faiss", "space_type": "innerproduct"}
            return {"type": "knn_vector", "dimension": size, "method": method}
        method = {"similarity": "max_inner_product", "index_options": {"type": "int8_hnsw"}}
        return {"type": "dense_vector", "dims": size, "index": True, **method}


def _document(row: Row) -> tuple[dict[str, Any], dict[str, Any]]:
    passage = row.passage
    kept: dict[str, Any] = {"id": passage.id, "title": passage.title, "text": passage.text}
    kept["linked"] = list(row.linked)
    if passage.links:
        kept["links"] = list(passage.links)
    if passage.metadata:
        kept["metadata"] = orjson.dumps(dict(passage.metadata)).decode()
    if row.vector is not None:
        kept["vector"] = row.vector.tolist()
    return {"index": {"_id": passage.id}}, kept


def _passage(source: Mapping[str, Any]) -> Passage:
    return read_passage({**source, "metadata": orjson.loads(source.get("metadata") or "{}")})


def _product(score: float) -> float:
    """Convert an engine's score of a vector, which is never below 0, to the inner product.

    >>> _product(1.5), _product(0.25)
    (0.5, -3.0)
    """
    return score - 1 if score >= 1 else 1 - 1 / score


def _analysis(terms: Analysis, address: EngineAddress) -> dict[str, Any]:
    """Return the engines' analysis that is closest to ours."""
    if terms.by_characters:
        tokenizer: dict[str, Any] = {"type": "standard"}
        steps: dict[str, Any] = {"width": {"type": "cjk_width"}, "lower": {"type": "lowercase"}}
        steps["pairs"] = {"type": "cjk_bigram"}
    else:
        letters = r"\p{IsAlphabetic}\p{N}" if terms.language == "english" else r"\p{L}\p{M}\p{N}"
        tokenizer = {"type": "pattern", "pattern": f"[^{letters}]+"}
        fold, stem = {"fold": {"type": "asciifolding"}}, _stemmer(terms, address)
        steps = {"lower": {"type": "lowercase"}, **_stop_words(terms)}
        steps |= fold | stem if terms.language == "english" else stem | fold
    query = {"once": {"type": "unique"}, "most": {"type": "limit", "max_token_count": _MAX_TERMS}}
    names = [f"polyhop_{name}" for name in steps]
    analysers = {
        "polyhop": {"type": "custom", "tokenizer": "polyhop", "filter": names},
        "polyhop_query": {"type": "custom", "tokenizer": "polyhop", "filter": [*names, "polyhop_once", "polyhop_most"]},
    }
    filters = {f"polyhop_{name}": step for name, step in {**steps, **query}.items()}
    return {"analyzer": analysers, "tokenizer": {"polyhop": tokenizer}, "filter": filters}


def _stop_words(terms: Analysis) -> dict[str, Any]:
    if not terms.stop_words or terms.language in WITHOUT_STOP_WORDS:
        return {}
    words = [*sorted(STOP_WORDS), "s"] if terms.language == "english" else f"_{terms.language}_"
    return {"stop": {"type": "stop", "stopwords": words}}


def _stemmer(terms: Analysis, address: EngineAddress) -> dict[str, Any]:
    if terms.stemmer is None:
        return {}
    if terms.stemmer == "tamil":
        raise UsageError(f"{address.shown}: the engine has no stemmer for tamil; load an index built with --no-stem")
    return {"stem": {"type": "stemmer", "language": "porter2" if terms.stemmer == "english" else terms.stemmer}}
