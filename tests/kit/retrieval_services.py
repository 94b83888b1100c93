"""Retriever servers and web search APIs on loopback, each as in its own code or documentation.

``FakeService(answer)`` answers every request by ``answer(received)``: JSON, or a ``Fault``. The makers below rank a few
passages by the query's words, and refuse what the real ones refuse.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import orjson
from aiohttp import web

from polyhop.common.aio import LoopThread
from polyhop.common.text import words
from polyhop.types import Passage
from tests.kit.openai_server import FakeServer, Fault, Received

KEY = "key-0123456789abcdef"

Answer = Callable[[Received], Any]


class FakeService(FakeServer):
    """The server. ``url`` has no path; ``faults`` come before answers, as ``FakeServer`` has them."""

    def __init__(self, answer: Answer, faults: Iterable[Fault | None] = ()) -> None:
        super().__init__(faults=faults)
        self.answer = answer

    async def start(self, port: int = 0) -> str:
        """Listen, and give the URL."""
        self.url = (await super().start(port)).removesuffix("/v1")
        return self.url

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        raw = await request.read()
        body = orjson.loads(raw) if raw else dict(request.query)
        received = Received(request.path, dict(request.headers), body, request.query_string)
        self.requests.append(received)
        await asyncio.sleep(self.latency)
        fault = self.faults.popleft() if self.faults else None
        made = fault if fault is not None and fault.wire == "ok" else self.answer(received)
        if isinstance(made, Fault):
            return web.Response(
                body=made.body, status=made.status, headers=made.headers, content_type="application/json"
            )
        reply = orjson.dumps(made)
        if fault is not None:
            return await self._trouble(request, fault, reply)
        return web.Response(body=reply, content_type="application/json")


@contextmanager
def serving(service: FakeService) -> Iterator[FakeService]:
    """Run the service on its own thread, for synchronous code."""
    thread = LoopThread()
    try:
        thread.run(service.start())
        yield service
    finally:
        thread.run(service.stop())
        thread.stop()


def ranked(passages: Sequence[Passage], query: str, k: int) -> list[tuple[Passage, float]]:
    """The passages that share a word with the query, those that share most first."""
    asked = {word.lower() for word in words(query)}
    scores = [
        (passage, float(len(asked & {word.lower() for word in words(f"{passage.title} {passage.text}")})))
        for passage in passages
    ]
    return sorted((hit for hit in scores if hit[1]), key=lambda hit: (-hit[1], hit[0].id))[:k]


# --- retriever servers ------------------------------------------------------------------------------------------------


def ours(passages: Sequence[Passage], *, scores: bool = True) -> Answer:
    """A server of polyhop's own contract."""

    def answer(received: Received) -> Any:
        body = received.body
        return {
            "results": [
                [
                    {**passage.to_dict(), **({"score": score} if scores else {})}
                    for passage, score in ranked(passages, query, body["k"])
                ]
                for query in body["queries"]
            ]
        }

    return answer


def flashrag(passages: Sequence[Passage]) -> Answer:
    """The FastAPI server over a FlashRAG retriever: documents of id and contents, the title on the first line."""

    def answer(received: Received) -> Any:
        body = received.body
        several = {"/search": False, "/batch_search": True}.get(received.path)
        if several is None:
            return failing(404, {"detail": "Not Found"})
        if not isinstance(body.get("query"), list if several else str):
            return failing(422, {"detail": [{"loc": ["body", "query"], "msg": "Input should be valid"}]})
        if not several and not body["query"].strip():
            return failing(400, {"detail": "Query content cannot be empty"})
        found = [
            ranked(passages, query, body.get("top_n", 10)) for query in (body["query"] if several else [body["query"]])
        ]
        documents = [[{"id": p.id, "contents": f'"{p.title}"\n{p.text}'} for p, _ in hits] for hits in found]
        scores = [[score for _, score in hits] for hits in found]
        made, made_scores = (documents, scores) if several else (documents[0], scores[0])
        return [made, made_scores] if body.get("return_score") else made

    return answer


def search_r1(passages: Sequence[Passage]) -> Answer:
    """Search-R1's retrieval server."""

    def answer(received: Received) -> Any:
        if received.path != "/retrieve":
            return failing(404, {"detail": "Not Found"})
        body, rows = received.body, []
        for query in body["queries"]:
            hits = ranked(passages, query, body.get("topk") or 3)
            documents = [({"id": p.id, "contents": f'"{p.title}"\n{p.text}'}, score) for p, score in hits]
            scored = body.get("return_scores")
            rows.append([{"document": row, "score": score} if scored else row for row, score in documents])
        return {"result": rows}

    return answer


# --- RAG servers ------------------------------------------------------------------------------------------------------


def lightrag(passages: Sequence[Passage]) -> Answer:
    """LightRAG's server, as its ``query_routes.py`` and ``utils_api.py`` answer."""

    def answer(received: Received) -> Any:
        if received.path != "/query/data":
            return failing(404, {"detail": "Not Found"})
        if received.headers.get("X-API-Key") != KEY:
            return failing(403, {"detail": "Invalid API Key"})
        body, failure = received.body, {"status": "failure", "data": {}, "metadata": {}}
        if len(body["query"].strip()) < 3:
            return failing(400, {**failure, "message": "Validation error: RAG query is too short."})
        mode = body.get("mode", "mix")
        if not (hits := ranked(passages, body["query"], body.get("chunk_top_k", 20))):
            none = {"failure_reason": "no_results", "mode": mode}
            return {**failure, "message": "Query returned no results", "metadata": none}
        chunks = [
            {"content": p.text, "file_path": p.title or "unknown_source", "chunk_id": p.id, "reference_id": str(number)}
            for number, (p, _) in enumerate(hits, 1)
        ]
        entity = {"entity_name": "Ada", "description": "A model wrote this.", "source_id": chunks[0]["chunk_id"]}
        data = {"entities": [entity], "relationships": [], "chunks": chunks, "references": []}
        return {"status": "success", "message": "Query executed", "data": data, "metadata": {"query_mode": mode}}

    return answer


def ragflow(passages: Sequence[Passage]) -> Answer:
    """RAGFlow's retrieval call, as its ``api/apps/sdk/doc.py`` answers: most errors have status 200."""

    def answer(received: Received) -> Any:
        body = received.body
        if received.path != "/api/v1/retrieval":
            return failing(404, {"code": 404, "message": f"Not Found: {received.path}", "data": None})
        if received.headers.get("Authorization") != f"Bearer {KEY}":
            return {"code": 109, "data": False, "message": "Authentication error: API key is invalid!"}
        if body["dataset_ids"] != ["d1", "d2"]:
            return {"code": 102, "message": f"You don't own the dataset {body['dataset_ids'][0]}."}
        chunks = [
            {
                "id": p.id,
                "content": p.text,
                "document_id": "f1",
                "document_keyword": p.title,
                "dataset_id": "d1",
                "similarity": score,
                "positions": [],
            }
            for p, score in ranked(passages, body["question"], body.get("page_size", 30))
        ]
        return {"code": 0, "data": {"chunks": chunks, "doc_aggs": [], "total": len(chunks)}}

    return answer


# --- rerankers --------------------------------------------------------------------------------------------------------


def relevance(query: str, text: str) -> float:
    """The words that a text shares with a query, and a little for its length."""
    asked = {word.lower() for word in words(query)}
    return len(asked & {word.lower() for word in words(text)}) / 10 + len(text) / 1e6


def _by_relevance(query: str, texts: Sequence[str]) -> list[tuple[int, float]]:
    return sorted(((at, relevance(query, text)) for at, text in enumerate(texts)), key=lambda hit: -hit[1])


def cohere_rerank(received: Received) -> Any:
    """Cohere's ``/v2/rerank``."""
    body = received.body
    if received.headers.get("Authorization") != f"Bearer {KEY}":
        return failing(401, {"id": "1", "message": "invalid api token"})
    if received.path != "/v2/rerank" or not set(body) <= {"model", "query", "documents", "top_n", "max_tokens_per_doc"}:
        return failing(404, {"message": "not found"})
    if not body["query"] or not body["documents"]:
        return failing(400, {"message": "invalid request: query and documents must not be empty"})
    rows = [{"index": at, "relevance_score": score} for at, score in _by_relevance(body["query"], body["documents"])]
    return {"id": "2", "results": rows, "meta": {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}}}


def jina_rerank(received: Received) -> Any:
    """Jina's ``/v1/rerank``, whose documents come back unless they are not wanted."""
    body = received.body
    if received.headers.get("Authorization") != f"Bearer {KEY}":
        return failing(401, {"detail": "Unauthorized"})
    if received.path != "/v1/rerank":
        return failing(404, {"detail": "Not Found"})
    wanted = body.get("return_documents", True)
    rows = [
        {"index": at, "relevance_score": score, **({"document": {"text": body["documents"][at]}} if wanted else {})}
        for at, score in _by_relevance(body["query"], body["documents"])
    ]
    return {"model": body["model"], "object": "list", "usage": {"total_tokens": 9}, "results": rows}


def vllm_rerank(received: Received) -> Any:
    """vLLM's ``/v1/rerank`` and ``/rerank``, with a model of few tokens."""
    body = received.body
    if received.path not in ("/v1/rerank", "/rerank"):
        return failing(404, {"detail": "Not Found"})
    if body.get("truncate_prompt_tokens") is None and max(map(len, body["documents"])) > 300:
        error = {"message": "This model's maximum context length is 64 tokens.", "type": "BadRequestError", "code": 400}
        return failing(400, {"error": error})
    rows = [
        {"index": at, "document": {"text": body["documents"][at]}, "relevance_score": score}
        for at, score in _by_relevance(body["query"], body["documents"])
    ]
    return {"id": "rerank-1", "model": body["model"], "usage": {"total_tokens": 9}, "results": rows}


def tei_rerank(received: Received) -> Any:
    """TEI's ``/rerank``."""
    body = received.body
    if received.path != "/rerank":
        return failing(404, {"detail": "Not Found"})
    if len(body["texts"]) > 32:
        message = f"batch size {len(body['texts'])} > maximum allowed batch size 32"
        return failing(422, {"error": message, "error_type": "Validation"})
    if not body.get("truncate") and max(map(len, body["texts"])) > 300:
        message = "Input validation error: `inputs` must have less than 64 tokens. Given: 90"
        return failing(413, {"error": message, "error_type": "Validation"})
    return [{"index": at, "score": score} for at, score in _by_relevance(body["query"], body["texts"])]


# --- web search -------------------------------------------------------------------------------------------------------


def failing(status: int, body: Any, **headers: str) -> Fault:
    """An error with a JSON body."""
    return Fault(status=status, body=orjson.dumps(body), headers={k.replace("_", "-"): v for k, v in headers.items()})


def serper(pages: Sequence[Passage], **more: Any) -> Answer:
    """Serper; ``more`` stands in each reply, such as an ``answerBox``."""

    def answer(received: Received) -> Any:
        if received.headers.get("X-API-KEY") != KEY:
            return failing(403, {"message": "Unauthorized.", "statusCode": 403})
        body = received.body
        hits = ranked(pages, body["q"], body.get("num", 10))
        return {
            "searchParameters": {**body, "type": "search", "engine": "google"},
            **more,
            "organic": [
                {"title": p.title, "link": p.id, "snippet": p.text, "date": "Mar 3, 2021", "position": rank}
                for rank, (p, _) in enumerate(hits, 1)
            ],
            "credits": 1,
        }

    return answer


def tavily(pages: Sequence[Passage]) -> Answer:
    """Tavily."""

    def answer(received: Received) -> Any:
        body = received.body
        if received.headers.get("Authorization") != f"Bearer {KEY}":
            return failing(401, {"detail": {"error": "Unauthorized: missing or invalid API key."}})
        if len(body["query"]) > 400:
            return failing(400, {"detail": {"error": "Query is too long. Max query length is 400 characters."}})
        if not 0 <= body.get("max_results", 5) <= 20:
            return failing(422, {"detail": [{"loc": ["body", "max_results"], "msg": "less than or equal to 20"}]})
        hits = ranked(pages, body["query"], body.get("max_results", 5))
        rows = [
            {"title": p.title, "url": p.id, "content": p.text, "score": score / 10, "raw_content": None}
            for p, score in hits
        ]
        return {"query": body["query"], "answer": None, "images": [], "results": rows, "response_time": 0.9}

    return answer


def brave(pages: Sequence[Passage], **more: Any) -> Answer:
    """Brave; ``more`` stands in each reply, such as an ``infobox``. Its texts are HTML."""

    def refuse(status: int, code: str, detail: str) -> Fault:
        error = {"id": "0", "status": status, "code": code, "detail": detail, "meta": {}}
        return failing(status, {"type": "ErrorResponse", "error": error, "time": 1})

    def answer(received: Received) -> Any:
        query, count = received.body["q"], int(received.body.get("count", 20))
        if received.headers.get("X-Subscription-Token") != KEY:
            return refuse(422, "SUBSCRIPTION_TOKEN_INVALID", "The provided subscription token is invalid.")
        if len(query) > 400 or len(query.split()) > 50 or not 1 <= count <= 20:
            return refuse(422, "VALIDATION", "Unable to validate request parameter(s)")
        rows = [
            {
                "title": p.title.replace("&", "&amp;"),
                "url": p.id,
                "description": p.text.replace("&", "&amp;")
                .replace("<", "&lt;")
                .replace(" is ", " <strong>is</strong> "),
                "page_age": "2021-03-03T00:00:00",
                "type": "search_result",
            }
            for p, _ in ranked(pages, query, count)
        ]
        found = {"web": {"type": "search", "results": rows}} if rows else {}
        return {"type": "search", "query": {"original": query}, **found, **more}

    return answer
