"""The retrieval protocols of training loops: ``/retrieve`` as Search-R1's server answers it, and ``/search`` and
``/batch_search`` as the server over FlashRAG's retrievers does.

Checked against the public ``search_r1/search/retrieval_server.py``, verl's copy of it with its client, and the
``retriever_serving.py`` that ReSearch published. A document has their ``id`` and ``contents``, the title in quotation
marks on the first line as in their Wikipedia. A retriever without scores, such as a reranked one, gives null. A blank
query finds nothing, and no query at all is answered by no list, as trainers send both. Unknown fields are ignored.

This module evaluates its annotations, because FastAPI reads them. FastAPI is imported only when a router is created.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field

from polyhop.serve.http.errors import WRONG_USE
from polyhop.serve.http.replies import cancel_on_disconnect, reply
from polyhop.serve.service import MAX_PASSAGES, Service
from polyhop.types import Passage

if TYPE_CHECKING:
    from fastapi import APIRouter

TOP_K, TOP_N = 3, 10
"""Passages per query of a request that gives no number: Search-R1's default and FlashRAG's."""

Count = Annotated[int, Field(ge=0, le=MAX_PASSAGES, description="Passages per query; 0 or null for the default.")]


class RetrieveBody(BaseModel):
    """Search-R1's request; ``corpus`` is ours."""

    queries: list[str]
    topk: Count | None = None
    return_scores: bool = False
    corpus: str | None = None


class SearchOptions(BaseModel):
    """The options of a FlashRAG server's request; ``corpus`` is ours."""

    top_n: Count | None = None
    return_score: bool = False
    corpus: str | None = None


class OneQueryBody(SearchOptions):
    """Its request for one query."""

    query: str


class BatchBody(SearchOptions):
    """Its request for many queries."""

    query: list[str]


def router(service: Service) -> "APIRouter":
    """Create the routes."""
    from fastapi import APIRouter, Request, Response

    async def retrieve(body: RetrieveBody, request: Request) -> Response:
        """Search for many queries at once, as Search-R1's server: ``{"result": [[document, …], …]}``, with scores
        ``{"document", "score"}`` each."""
        work = service.search_many(body.queries, body.topk or TOP_K, body.corpus)
        rows = [
            [{"document": document(p), "score": score} if body.return_scores else document(p) for p, score in hits]
            for hits in await cancel_on_disconnect(request, work)
        ]
        return reply({"result": rows})

    async def search_for(queries: Sequence[str], body: SearchOptions, request: Request) -> list[Any]:
        work = service.search_many(queries, body.top_n or TOP_N, body.corpus)
        found = await cancel_on_disconnect(request, work)
        documents = [[document(passage) for passage, _ in hits] for hits in found]
        scores = [[score for _, score in hits] for hits in found]
        return [documents, scores]

    async def search(body: OneQueryBody, request: Request) -> Response:
        """Search for one query, as the server over FlashRAG's retrievers: documents, with scores the pair of documents
        and scores."""
        (documents,), (scores,) = await search_for([body.query], body, request)
        return reply([documents, scores] if body.return_score else documents)

    async def batch_search(body: BatchBody, request: Request) -> Response:
        """Search for many queries at once, as the server over FlashRAG's retrievers."""
        documents, scores = await search_for(body.query, body, request)
        return reply([documents, scores] if body.return_score else documents)

    routes = APIRouter(responses=WRONG_USE)
    routes.add_api_route("/retrieve", retrieve, methods=["POST"])
    routes.add_api_route("/search", search, methods=["POST"])
    routes.add_api_route("/batch_search", batch_search, methods=["POST"])
    return routes


def document(passage: Passage) -> dict[str, str]:
    """Return a passage as both protocols send it. A title with quotation marks of its own gets no others.

    >>> document(Passage("7", "Ada Lovelace", "She wrote the first program."))
    {'id': '7', 'contents': '"Ada Lovelace"\\nShe wrote the first program.'}
    """
    title = " ".join(passage.title.split())
    return {"id": passage.id, "contents": f"{title}\n{passage.text}" if '"' in title else f'"{title}"\n{passage.text}'}
