"""Rerankers behind servers: what is asked and read, batches, options, faults, and a key never seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from polyhop.errors import RetrievalError, SettingError, UnknownName, UsageError
from polyhop.lm.scripted import ScriptedLM
from polyhop.pipeline import Pipeline
from polyhop.retrieval import open_reranker, rerankers
from polyhop.retrieval.reranking.served import FORMS, ServedReranker
from polyhop.types import Passage
from tests.kit.openai_server import Fault
from tests.kit.retrieval_services import (
    KEY,
    FakeService,
    cohere_rerank,
    failing,
    jina_rerank,
    relevance,
    tei_rerank,
    vllm_rerank,
)

QUERY = " Who made the dark mill?\n"
TEXTS = ["a river", "the mill", "who made the mill", "", "dark", "made of stone " * 40]
PASSAGES = [Passage(f"p{at:02}", "Dark Mill" if at % 5 == 0 else "", TEXTS[at % 6]) for at in range(40)]
MAKERS: Mapping[str, Callable[..., Any]] = {
    "cohere": cohere_rerank,
    "jina": jina_rerank,
    "vllm": vllm_rerank,
    "tei": tei_rerank,
}
PATHS = {"cohere": "/v2", "jina": "/v1", "vllm": "/v1", "tei": ""}
ALL = pytest.mark.parametrize("kind", MAKERS)


@pytest.fixture(autouse=True)
def _calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting between attempts, and the keys that the servers take."""
    monkeypatch.setattr("polyhop.net.client.backoff", lambda failures, retry_after: 0.0)
    for form in FORMS.values():
        monkeypatch.setenv(form.variable, KEY)


def spec(kind: str, url: str, options: str = "") -> str:
    return f"{kind}:{'' if kind == 'tei' else 'org/small@'}{url}{PATHS[kind]}{options}"


def opened(name: str) -> ServedReranker:
    reranker = open_reranker(name)
    assert isinstance(reranker, ServedReranker)
    return reranker


async def best(name: str, k: int = 5, query: str = QUERY, passages: Any = PASSAGES) -> list[str]:
    reranker = opened(name)
    try:
        return [passage.id for passage in await reranker.rerank_by(None, query, passages, k)]
    finally:
        await reranker.aclose()


def expected(passages: Any = PASSAGES) -> list[str]:
    def text(passage: Passage) -> str:
        return f"{passage.title} {passage.text}".strip() or " "

    return [one.id for one in sorted(passages, key=lambda one: (-relevance(QUERY, text(one)), one.id))]


@ALL
async def test_the_best_passages_by_the_servers_scores_come_first(kind: str) -> None:
    async with FakeService(MAKERS[kind]) as service:
        assert await best(spec(kind, service.url), 40) == expected()
        assert await best(spec(kind, f"{service.url}"), 3) == expected()[:3]
        assert await best(spec(kind, service.url, "?batch_size=7"), 40) == expected()
        assert await best(spec(kind, service.url), 2, "  ") == ["p00", "p01"]  # servers refuse a blank query
        assert await best(spec(kind, service.url), 2, passages=PASSAGES[3:4]) == ["p03"]
    sizes = [len(one.body.get("documents") or one.body["texts"]) for one in service.requests]
    whole = [32, 8] if kind == "tei" else [40]
    assert sorted(sizes) == sorted([*whole, *whole, 7, 7, 7, 7, 7, 5])


async def test_each_is_asked_in_its_own_words() -> None:
    asked = {}
    for kind, make in MAKERS.items():
        async with FakeService(make) as service:
            await best(spec(kind, service.url), passages=PASSAGES[1:3])
        (asked[kind],) = service.requests
    texts = ["the mill", "who made the mill"]
    common = {"model": "org/small", "query": QUERY.strip(), "documents": texts}
    assert {kind: one.body for kind, one in asked.items()} == {
        "cohere": common,
        "jina": {**common, "return_documents": False},
        "vllm": {**common, "truncate_prompt_tokens": -1},
        "tei": {"query": QUERY.strip(), "texts": texts, "truncate": True, "raw_scores": True},
    }
    assert {one.headers["Authorization"] for one in asked.values()} == {f"Bearer {KEY}"}


async def test_any_method_has_its_hits_reranked_and_connections_closed() -> None:
    async with FakeService(tei_rerank) as service:
        name = spec("tei", service.url, "?first=12")
        lm = ScriptedLM({"answer.read": {"answer": "the end"}})
        async with Pipeline(
            method="one-r", lm=lm, retriever=lambda query, k: PASSAGES[:k], rerank=name, k=3, rank_limit=3
        ) as pipeline:
            answer = await pipeline.aask(QUERY)
            assert pipeline.reranker is not None
            assert (pipeline.reranker.name, pipeline.reranker.first) == (name, 12)
        assert [one.id for one in answer.passages[:3]] == expected(PASSAGES[:12])[:3]
        assert not pipeline.reranker._server._loops  # type: ignore[attr-defined]


# --- faults -----------------------------------------------------------------------------------------------------------


@ALL
async def test_a_passing_failure_is_tried_again(kind: str) -> None:
    faults = [Fault(status=429), Fault(status=503)]
    async with FakeService(MAKERS[kind], faults=faults) as service:
        assert await best(spec(kind, service.url), 3, passages=PASSAGES[:9]) == expected(PASSAGES[:9])[:3]
    assert len(service.requests) == 3


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"rows": []}, "the reply has no field 'results'"),
        ({"results": [{"index": 0, "relevance_score": 1.0}]}, "results has 1 entry for 2"),
        ({"results": [{"index": 0, "relevance_score": 1.0}] * 2}, "indices of results are not those of the 2 passages"),
        (
            {"results": [{"index": at, "relevance_score": 1.0} for at in (0, 2)]},
            "indices of results are not those of the 2 passages",
        ),
        ({"results": [{"index": 0, "relevance_score": None}] * 2}, r"the score of results\[0\] is no number"),
        ({"results": [{"index": "0", "relevance_score": 1.0}] * 2}, r"the index of results\[0\] is no number"),
        ({"results": [{"index": 0}] * 2}, r"results\[0\] has no field 'relevance_score'"),
        ({"results": "none"}, "results is a string, expected an array"),
        ([], "the reply is an array, expected an object"),
    ],
)
async def test_a_reply_of_another_shape_is_an_error(rows: Any, message: str) -> None:
    async with FakeService(lambda received: rows) as service:
        with pytest.raises(RetrievalError, match=rf"the reranker jina:org/small@.*: .*{message}"):
            await best(spec("jina", service.url), passages=PASSAGES[:2])
    assert len(service.requests) == 1


async def test_a_final_failure_says_what_the_server_says_and_what_would_help(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FakeService(tei_rerank) as service:
        with pytest.raises(RetrievalError, match=r"422.*maximum allowed batch size 32\. .*\?batch_size="):
            await best(spec("tei", service.url, "?batch_size=40"))
        with pytest.raises(
            RetrievalError, match=r"404 Not Found: Not Found\. Check the model and the URL, to which /r"
        ):
            await best(f"tei:{service.url}/v7")
    async with FakeService(lambda received: failing(402, {"message": "Payment required"})) as service:
        with pytest.raises(RetrievalError, match=r"402.*Waiting will not help"):
            await best(spec("cohere", service.url))
    secret = "another-key-0123456789"
    monkeypatch.setenv("JINA_API_KEY", secret)
    async with FakeService(jina_rerank) as service:
        with pytest.raises(RetrievalError, match=r"401 Unauthorized.*Set JINA_API_KEY to a key") as raised:
            await best(spec("jina", service.url))
    assert secret not in str(raised.value)
    with pytest.raises(RetrievalError, match="Is the server up at this address"):
        await best("tei:http://127.0.0.1:9")


# --- names and options ------------------------------------------------------------------------------------------------


def test_they_are_opened_by_name() -> None:
    assert {f"{kind}:" for kind in MAKERS} <= set(rerankers())
    for name in ("cohere:rerank-v3.5", "jina:jina-reranker-v2-base-multilingual?first=20", "tei:http://localhost:8080"):
        assert opened(name).name == name
    served = opened("vllm:BAAI/bge-reranker-v2-m3@http://user:secret@localhost:8000/v1/rerank?batch_size=8&timeout=2")
    assert served.name == "vllm:BAAI/bge-reranker-v2-m3@http://localhost:8000/v1"
    assert (served.first, opened("cohere:rerank-v3.5?first=7").first) == (100, 7)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("vllm:BAAI/bge-reranker-v2-m3", SettingError, "needs a model or a server, as in vllm:BAAI/bge-rer.*@http://"),
        ("cohere:", SettingError, "cohere: needs a model or a server, as in cohere:MODEL"),
        ("tei:", SettingError, "needs a model or a server, as in tei:http://localhost:8080"),
        ("tei:localhost:8080", SettingError, "must begin with http:// or https://"),
        ("vllm:m@localhost:8000", SettingError, "begins with http:// or https://"),
        ("jina:m?first=0", SettingError, "first=0: must be at least 1"),
        ("jina:m?batch_size=0", SettingError, "batch_size=0: must be at least 1"),
        ("jina:m?batch_size=few", SettingError, "batch_size=few: must be a number"),
        ("jina:m?top_n=3", UnknownName, "unknown option of jina: 'top_n'"),
    ],
)
def test_what_cannot_be_opened_says_why(name: str, error: type[UsageError], message: str) -> None:
    with pytest.raises(error, match=message):
        open_reranker(name)


def test_an_api_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("cohere", "jina"):
        monkeypatch.delenv(FORMS[kind].variable)
        with pytest.raises(SettingError, match=f"{kind}:m needs your own key: set {FORMS[kind].variable}; or name"):
            open_reranker(f"{kind}:m")
        assert opened(f"{kind}:m@http://localhost:1/v1").name == f"{kind}:m@http://localhost:1/v1"
