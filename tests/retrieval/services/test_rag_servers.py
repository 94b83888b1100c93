"""LightRAG's and RAGFlow's servers as retrievers, imitated by their public code: requests, replies, faults, keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from polyhop import Passage, Pipeline
from polyhop.errors import RetrievalError, SettingError, UnknownName
from polyhop.retrieval import brings_corpus, open_retriever
from polyhop.retrieval.services.rag_servers import RAG_APIS, RagServer
from tests.kit import openai_server as kit
from tests.kit.retrieval_services import KEY, Answer, FakeService, failing, lightrag, ragflow, serving

PASSAGES = [
    Passage("chunk-1", "Ada Lovelace", "Ada wrote the first program."),
    Passage("chunk-2", "", "Ada was a mathematician."),
]
MAKERS: dict[str, Callable[..., Answer]] = {"lightrag": lightrag, "ragflow": ragflow}
OPTIONS: dict[str, dict[str, Any]] = {"lightrag": {"mode": "mix"}, "ragflow": {"dataset": ["d1", "d2"]}}
ALL = pytest.mark.parametrize("api", MAKERS)


@pytest.fixture(autouse=True)
def _calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting between attempts, and the keys the servers take."""
    monkeypatch.setattr("polyhop.net.client.backoff", lambda failures, retry_after: 0.0)
    for api in RAG_APIS.values():
        monkeypatch.setenv(api.variable, KEY)


async def found(api: str, service: FakeService, query: str = "What of Ada?", k: int = 5, **more: Any) -> list[Passage]:
    """Return the hits of one search, by a client of its own."""
    server = RagServer(api, service.url, **{**OPTIONS[api], **more})
    try:
        return await server.asearch(query, k)
    finally:
        await server.aclose()


@ALL
async def test_chunks_are_passages_and_what_a_model_wrote_is_none(api: str) -> None:
    async with FakeService(MAKERS[api](PASSAGES)) as service:
        assert await found(api, service) == PASSAGES
        assert await found(api, service, k=1) == PASSAGES[:1]
        assert await found(api, service, "zebra") == []
        assert await found(api, service, "  ") == []
    assert len(service.requests) == 3


async def test_each_server_is_asked_in_its_own_words() -> None:
    async with FakeService(lightrag(PASSAGES)) as light, FakeService(ragflow(PASSAGES)) as flow:
        await found("lightrag", light, k=3, enable_rerank=False)
        await found("ragflow", flow, k=200, similarity_threshold=0.0, use_kg=True)
    assert light.requests[0].body == {"query": "What of Ada?", "chunk_top_k": 3, "mode": "mix", "enable_rerank": False}
    asked = {"question": "What of Ada?", "dataset_ids": ["d1", "d2"], "page": 1, "page_size": 100}
    assert flow.requests[0].body == {**asked, "similarity_threshold": 0.0, "use_kg": True}


async def test_lightrag_is_not_asked_what_it_refuses() -> None:
    async with FakeService(lightrag(PASSAGES)) as service:
        assert await found("lightrag", service, "Oz") == []
    assert service.requests == []


def test_they_are_opened_by_name_and_need_no_corpus() -> None:
    with serving(FakeService(lightrag(PASSAGES))) as service:
        name = f"lightrag:{service.url}?mode=local&top_k=1&concurrency=2"
        assert brings_corpus(name)
        with Pipeline(method="one-r", retriever=name) as qa:
            assert qa.engine.retriever is not None
            assert qa.engine.retriever.name == f"lightrag:{service.url}?mode=local&top_k=1"
            assert qa.ask("What did Ada write?").passages == tuple(PASSAGES)
    opened = open_retriever("ragflow:http://localhost:9380/api/v1/retrieval?dataset=d1,d2&use_kg=on&rerank_id=r", None)
    assert opened.name == "ragflow:http://localhost:9380?dataset=d1,d2&use_kg=on&rerank_id=r"
    assert brings_corpus("hybrid:rrf:ragflow:http://a?dataset=d+lightrag:http://b")


@ALL
@pytest.mark.parametrize("fault", [kit.failing(503), kit.DROP, kit.NOT_JSON], ids=["503", "drop", "not JSON"])
async def test_retryable_failures_are_retried(api: str, fault: kit.Fault) -> None:
    async with FakeService(MAKERS[api](PASSAGES), faults=[fault, fault]) as service:
        assert await found(api, service) == PASSAGES
    assert len(service.requests) == 3


@pytest.mark.parametrize(
    ("api", "reply", "words", "tries"),
    [
        ("lightrag", failing(403, {"detail": f"Invalid API Key {KEY}"}), r"\*\*\*\. Set LIGHTRAG_API_KEY to a key", 1),
        ("lightrag", failing(404, {"detail": "Not Found"}), "404 Not Found.*too old for this call", 1),
        ("lightrag", {"status": "failure", "message": "Invalid response type", "data": {}}, "Invalid response type", 1),
        ("lightrag", {"status": "success", "data": {"chunks": [{"content": "x"}]}}, "no field 'chunk_id'", 1),
        ("lightrag", {"response": "Ada was"}, "the reply has no field 'data'", 1),
        ("ragflow", {"code": 109, "data": False, "message": "API key is invalid!"}, "invalid.* Set RAGFLOW_API_KEY", 1),
        ("ragflow", {"code": 102, "message": "You don't own the dataset d1."}, "don't own the dataset d1", 1),
        ("ragflow", {"code": 100, "message": "Exception('busy')"}, r"busy'\) \(3 attempts", 3),
        ("ragflow", {"code": 0, "data": {"chunks": [{"id": 7, "content": "x"}]}}, r"chunks\[0\].id is a number", 1),
        ("ragflow", {"code": 0, "data": []}, "data is an array, expected an object", 1),
    ],
)
async def test_failures_say_what_would_help(api: str, reply: Any, words: str, tries: int) -> None:
    async with FakeService(lambda received: reply) as service:
        with pytest.raises(RetrievalError, match=words) as caught:
            await found(api, service, retries=2)
    assert len(service.requests) == tries
    assert KEY not in str(caught.value)


def test_what_cannot_be_opened_says_what_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingError, match="ragflow: needs dataset, as in ragflow:http://a"):
        open_retriever("ragflow:http://a", None)
    with pytest.raises(UnknownName, match="unknown option of lightrag: 'mod'; did you mean 'mode'"):
        open_retriever("lightrag:http://a?mod=mix", None)
    with pytest.raises(SettingError, match="'yes': must be on or off"):
        open_retriever("ragflow:http://a?dataset=d&use_kg=yes", None)
    with pytest.raises(SettingError, match="must begin with http:// or https://"):
        open_retriever("lightrag:localhost:9621", None)
    monkeypatch.delenv("RAGFLOW_API_KEY")
    with pytest.raises(SettingError, match="no request without a key: set RAGFLOW_API_KEY"):
        open_retriever("ragflow:http://a?dataset=d", None)
