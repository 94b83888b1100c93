"""The wire of an Elasticsearch or an OpenSearch on loopback: the endpoints that polyhop asks, as their references tell.

It is no recording: documents are analysed by the index's own settings, ranked by BM25 (lengths exact) or by inner
product, seen by a search after a refresh alone, and errors have the servers' shape. What it does not know it refuses
with a 400, so that a misspelt setting fails. ``faults`` are used up in order, one a request, None for a good answer.
"""

from __future__ import annotations

import json
import math
import re
import threading
import unicodedata
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import tantivy

from tests.kit import loopback


class Refusal(Exception):
    """An error of the server: status, kind, reason."""

    def __init__(self, status: int, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.status, self.kind, self.reason = status, kind, reason


@dataclass
class Fault:
    """The reply to one request instead of its answer; with ``item`` a bulk request does all but its first document."""

    status: int = 503
    headers: Mapping[str, str] = field(default_factory=dict)
    item: bool = False
    cut: bool = False


@dataclass
class Asked:
    """A request as it came."""

    method: str
    path: str
    params: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Collection:
    """One index: settings, mapping, documents, and those that a search sees."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.settings = body["settings"]["index"]
        self.mapping = dict(body["mappings"])
        self.documents: dict[str, dict[str, Any]] = {}
        self.seen: dict[str, dict[str, Any]] = {}
        self._analysers = {name: self._analyser(name) for name in self.settings["analysis"]["analyzer"]}
        for name, settings in self.mapping["properties"].items():
            self._check_field(name, settings)

    def _check_field(self, name: str, settings: Mapping[str, Any]) -> None:
        known = {
            "keyword": {"index", "doc_values"},
            "text": {"index", "copy_to", "analyzer", "search_analyzer", "similarity"},
            "dense_vector": {"dims", "index", "similarity", "index_options"},
            "knn_vector": {"dimension", "method"},
        }.get(settings["type"])
        if known is None or set(settings) - known - {"type"}:
            raise Refusal(400, "mapper_parsing_exception", f"unknown parameter on mapper [{name}]: {settings}")
        for key in ("analyzer", "search_analyzer"):
            if settings.get(key, "polyhop") not in self._analysers:
                raise Refusal(400, "mapper_parsing_exception", f"analyzer [{settings[key]}] has not been configured")
        if settings["type"] == "text" and settings.get("similarity", "polyhop") not in self.settings["similarity"]:
            raise Refusal(400, "mapper_parsing_exception", f"Unknown Similarity type [{settings['similarity']}]")

    def _analyser(self, name: str) -> Callable[[str], list[str]]:
        analysis = self.settings["analysis"]
        chosen = analysis["analyzer"][name]
        tokenizer = analysis["tokenizer"][chosen["tokenizer"]]
        steps = [_step(analysis["filter"][each]) for each in chosen["filter"]]

        def analyse(text: str) -> list[str]:
            tokens = _tokens(tokenizer, text)
            for step in steps:
                tokens = step(tokens)
            return tokens

        return analyse

    def put(self, id: str, document: dict[str, Any]) -> None:
        for name, settings in self.mapping["properties"].items():
            size = settings.get("dims", settings.get("dimension"))
            if size and name in document and len(document[name]) != size:
                raise Refusal(400, "document_parsing_exception", f"vector of {len(document[name])}, not {size}")
        self.documents[id] = document

    def body(self, document: Mapping[str, Any]) -> list[str]:
        """The terms of the field ``body``, which others are copied to."""
        fields = self.mapping["properties"]
        parts = [str(document[name]) for name, setting in fields.items() if setting.get("copy_to") == "body"]
        return [term for part in parts for term in self._analysers[fields["body"]["analyzer"]](part)]

    def match(self, query: str) -> list[tuple[float, str]]:
        """BM25 of every document that has a term of the query."""
        bm25 = self.settings["similarity"][self.mapping["properties"]["body"]["similarity"]]
        counts = {id: Counter(self.body(document)) for id, document in self.seen.items()}
        mean = sum(found.total() for found in counts.values()) / max(1, len(counts))
        scores: dict[str, float] = {}
        for term in self._analysers[self.mapping["properties"]["body"]["search_analyzer"]](query):
            there = [id for id, found in counts.items() if term in found]
            idf = math.log(1 + (len(counts) - len(there) + 0.5) / (len(there) + 0.5))
            for id in there:
                count, length = counts[id][term], counts[id].total()
                norm = bm25["k1"] * (1 - bm25["b"] + bm25["b"] * length / mean)
                scores[id] = scores.get(id, 0.0) + idf * count / (count + norm)
        return [(score, id) for id, score in scores.items()]

    def nearest(self, vector: list[float]) -> list[tuple[float, str]]:
        """The engines' score of every document's vector."""
        fields = self.mapping["properties"]
        if "vector" not in fields:
            raise Refusal(400, "query_shard_exception", "failed to create query: field [vector] does not exist")
        there = {id: document["vector"] for id, document in self.seen.items() if "vector" in document}
        products = {id: sum(a * b for a, b in zip(each, vector, strict=True)) for id, each in there.items()}
        return [(product + 1 if product >= 0 else 1 / (1 - product), id) for id, product in products.items()]


def _tokens(tokenizer: Mapping[str, Any], text: str) -> list[str]:
    if tokenizer["type"] == "standard":
        return re.findall(r"\w+", text)
    if tokenizer["type"] != "pattern" or not re.fullmatch(r"\[\^(\\p\{\w+\})+\]\+", tokenizer["pattern"]):
        raise Refusal(400, "illegal_argument_exception", f"unknown tokenizer {tokenizer}")
    marks = r"\p{M}" in tokenizer["pattern"]
    kept = (c if c.isalnum() or (marks and unicodedata.category(c)[0] == "M") else " " for c in text)
    return "".join(kept).split()


def _step(settings: Mapping[str, Any]) -> Callable[[list[str]], list[str]]:
    kind = settings["type"]
    if kind == "stop":
        words = settings["stopwords"]
        if isinstance(words, str):
            stop = _filtered(tantivy.Filter.stopword(words.strip("_")))
            return lambda tokens: [token for token in tokens if stop(token)]
        return lambda tokens: [token for token in tokens if token not in words]
    if kind == "stemmer":
        language = {"porter2": "english", "english": "porter"}.get(settings["language"], settings["language"])
        stem = _filtered(tantivy.Filter.stemmer(language))
        return lambda tokens: [stem(token)[0] for token in tokens]
    if kind == "limit":
        return lambda tokens: tokens[: settings["max_token_count"]]
    plain: dict[str, Callable[[list[str]], list[str]]] = {
        "lowercase": lambda tokens: [token.lower() for token in tokens],
        "asciifolding": lambda tokens: [_folded(token) for token in tokens],
        "unique": lambda tokens: list(dict.fromkeys(tokens)),
        "cjk_width": lambda tokens: [unicodedata.normalize("NFKC", token) for token in tokens],
        "cjk_bigram": lambda tokens: [pair for token in tokens for pair in _pairs(token)],
    }
    if kind not in plain:
        raise Refusal(400, "illegal_argument_exception", f"Unknown filter type [{kind}]")
    return plain[kind]


def _filtered(step: tantivy.Filter) -> Callable[[str], list[str]]:
    return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw()).filter(step).build().analyze


def _folded(token: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", token) if not unicodedata.combining(c))


def _pairs(token: str) -> list[str]:
    return [token] if token.isascii() or len(token) == 1 else [token[at : at + 2] for at in range(len(token) - 1)]


class SearchEngine:
    """The server. ``number``: its version; ``key``: the only ``Authorization`` let in, if there is one; ``most``: bytes
    of the largest body it takes; ``closed``: a path whose requests get 403; ``spoil``: makes the bytes of an answer."""

    def __init__(self, kind: str = "elastic", number: str | None = None) -> None:
        self.kind, self.number = kind, number or {"elastic": "9.1.0", "opensearch": "3.1.0"}[kind]
        self.collections: dict[str, Collection] = {}
        self.faults: deque[Fault | None] = deque()
        self.asked: list[Asked] = []
        self.key: str | None = None
        self.most = 100 * 2**20
        self.closed: str | None = None
        self.spoil: Callable[[Any], bytes] = lambda answer: json.dumps(answer).encode()
        self.url = ""

    def answer(self, asked: Asked) -> Any:
        """The JSON of an answer."""
        accept = re.search(r"compatible-with=(\d+)", asked.headers.get("accept", ""))
        if self.kind == "elastic" and accept and int(accept[1]) > int(self.number.split(".")[0]):
            reason = f"Accept version must be either version 8 or 7, but found {accept[1]}"
            raise Refusal(400, "media_type_header_exception", reason)
        if self.key and asked.headers.get("authorization") != self.key:
            raise Refusal(401, "security_exception", f"unable to authenticate [{asked.headers.get('authorization')}]")
        if asked.path == self.closed:
            raise Refusal(403, "security_exception", "action is unauthorized for this user")
        if len(asked.body) > self.most:
            raise Refusal(413, "content_too_long_exception", "entity content is too long")
        if asked.path == "/":
            more = {"distribution": "opensearch"} if self.kind == "opensearch" else {"build_flavor": "default"}
            return {"cluster_name": "kit", "version": {"number": self.number, **more}}
        name, _, action = asked.path.strip("/").partition("/")
        name = unquote(name)
        if asked.method == "PUT" and not action:
            return self._create(name, asked.json)
        if name not in self.collections:
            raise Refusal(404, "index_not_found_exception", f"no such index [{name}]")
        if asked.method == "DELETE":
            del self.collections[name]
            return {"acknowledged": True}
        return getattr(self, action)(self.collections[name], name, asked)

    def _create(self, name: str, body: Mapping[str, Any]) -> Any:
        if name in self.collections:
            raise Refusal(400, "resource_already_exists_exception", f"index [{name}] already exists")
        self.collections[name] = Collection(body)
        return {"acknowledged": True, "index": name}

    def _mapping(self, there: Collection, name: str, asked: Asked) -> Any:
        if asked.method == "PUT":
            there.mapping.update(asked.json)
            return {"acknowledged": True}
        return {name: {"mappings": there.mapping}}

    def _settings(self, there: Collection, name: str, asked: Asked) -> Any:
        there.settings.update(asked.json["index"])
        return {"acknowledged": True}

    def _refresh(self, there: Collection, name: str, asked: Asked) -> Any:
        there.seen = dict(there.documents)
        return {"_shards": {"failed": 0}}

    def _count(self, there: Collection, name: str, asked: Asked) -> Any:
        return {"count": len(there.seen)}

    def _mget(self, there: Collection, name: str, asked: Asked) -> Any:
        fields = asked.params.get("_source_includes")
        found = []
        for id in asked.json["ids"]:
            row: dict[str, Any] = {"_index": name, "_id": id, "found": id in there.documents}
            if row["found"] and asked.params.get("_source") != "false":
                row["_source"] = _chosen(there.documents[id], fields.split(",") if fields else None)
            found.append(row)
        return {"docs": found}

    def _bulk(self, there: Collection, name: str, asked: Asked) -> Any:
        if "x-ndjson" not in asked.headers["content-type"] or not asked.body.endswith(b"\n"):
            raise Refusal(400, "illegal_argument_exception", "The bulk request must be terminated by a newline [\\n]")
        lines = [json.loads(line) for line in asked.body.splitlines()]
        items: list[dict[str, Any]] = []
        put_off = asked.params.pop("put off", None)
        for head, document in zip(lines[::2], lines[1::2], strict=True):
            id = head["index"]["_id"]
            item: dict[str, Any] = {"_id": id, "status": 201}
            try:
                if put_off and not items:
                    raise Refusal(
                        429, "es_rejected_execution_exception", "rejected execution of coordinating operation"
                    )
                there.put(id, document)
            except Refusal as refusal:
                error = {"type": refusal.kind, "reason": refusal.reason}
                item = {"_id": id, "status": refusal.status, "error": error}
            items.append({"index": item})
        return {"errors": any("error" in item["index"] for item in items), "items": items}

    def _search(self, there: Collection, name: str, asked: Asked) -> Any:
        body = asked.json
        query = body.get("query", {})
        if set(body) - {"query", "knn", "size", "sort", "_source", "track_total_hits", "track_scores"}:
            raise Refusal(400, "parsing_exception", f"unknown key in {sorted(body)}")
        if "match" in query:
            ((field_name, match),) = query["match"].items()
            assert field_name == "body"
            found = there.match(match["query"])
        elif self.kind == "opensearch" and "knn" in query:
            found = sorted(there.nearest(query["knn"]["vector"]["vector"]), reverse=True)
            found = found[: query["knn"]["vector"]["k"]]
        elif self.kind == "elastic" and "knn" in body:
            knn = body["knn"]
            if not knn["k"] <= knn["num_candidates"] <= 10_000:
                raise Refusal(400, "illegal_argument_exception", "[num_candidates] must be between [k] and 10000")
            found = sorted(there.nearest(knn["query_vector"]), reverse=True)[: knn["k"]]
        else:
            raise Refusal(400, "parsing_exception", f"unknown query {query}")
        by_ids = "sort" in body
        order = sorted(found, key=lambda hit: (-hit[0], hit[1] if by_ids else ""))[: body["size"]]
        hits = [
            {"_index": name, "_id": id, "_score": score, "_source": _chosen(there.seen[id], body["_source"])}
            for score, id in order
        ]
        return {"took": 1, "timed_out": False, "hits": {"hits": hits}}


def _chosen(document: Mapping[str, Any], fields: Iterable[str] | None) -> dict[str, Any]:
    return {name: value for name, value in document.items() if fields is None or name in fields}


@contextmanager
def serving(kind: str = "elastic", number: str | None = None) -> Iterator[SearchEngine]:
    """A server, for as long as the block lasts; its ``url`` is that of loopback."""
    engine = SearchEngine(kind, number)
    one_at_a_time = threading.Lock()

    class Handler(loopback.Handler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one packet: two would wait for each other

        def _answer(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, parts.path, dict(parse_qsl(parts.query)), headers, body)
            with one_at_a_time:
                engine.asked.append(asked)
                fault = engine.faults.popleft() if engine.faults else None
                if fault and fault.cut:
                    self.close_connection = True
                    self.connection.close()
                    return
                if fault and fault.item:
                    asked.params["put off"] = "true"
                elif fault:
                    self._send(fault.status, _error("scripted", "scripted fault", fault.status), fault.headers)
                    return
                try:
                    status, body = 200, engine.spoil(engine.answer(asked))
                except Refusal as refusal:
                    status, body = refusal.status, _error(refusal.kind, refusal.reason, refusal.status)
            self._send(status, body, {})

        do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _answer  # noqa: N815

        def _send(self, status: int, body: Any, headers: Mapping[str, str]) -> None:
            raw = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            if engine.kind == "elastic":
                self.send_header("X-Elastic-Product", "Elasticsearch")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(raw)

    with loopback.answering(Handler) as engine.url:
        yield engine


def _error(kind: str, reason: str, status: int) -> Any:
    cause = {"type": kind, "reason": reason}
    return {"error": {"root_cause": [cause], **cause}, "status": status}
