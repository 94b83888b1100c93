"""The retrieval protocols of training loops: what Search-R1's and FlashRAG's clients send and read, and our own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from polyhop import Passage
from polyhop.common.extras import is_installed
from polyhop.retrieval.base import ScoringRetriever
from polyhop.retrieval.services.served import ServedRetriever
from polyhop.serve.errors import Busy
from polyhop.serve.http.app import Options
from polyhop.serve.limits import Keys
from polyhop.serve.requests import MAX_BATCH_PASSAGES
from polyhop.serve.service import Service
from tests.kit.polyhop_server import served
from tests.serve.test_chat import RIVERS, TOWNS, Model

pytestmark = [
    pytest.mark.extra,
    pytest.mark.skipif(not is_installed("serve"), reason="extra not installed: serve"),
]

PATIENCE = 60.0
CAPITAL = "capital of Norway"
OSLO = {"id": "oslo", "contents": '"Oslo"\nOslo is the capital of Norway.'}


class Counting(ScoringRetriever):
    """Finds the town that a query names; knows each call."""

    name = "counting"

    def __init__(self) -> None:
        self.calls: list[tuple[list[str], int]] = []

    def links(self, passage: Passage) -> list[Passage]:
        return []

    def _scored_many(self, queries: Sequence[str], k: int) -> list[list[tuple[Passage, float]]]:
        self.calls.append((list(queries), k))
        return [[(town, 1.5) for town in TOWNS if town.title in query][:k] for query in queries]


class Backwards:
    """Turns the ranking around."""

    name, first = "backwards", 2

    async def rerank_by(self, run: Any, query: str, passages: Sequence[Passage], k: int) -> list[Passage]:
        return [*passages][::-1][:k]


@asynccontextmanager
async def trainer(options: Options | None = None, **arguments: Any) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of a server over two corpora; its session's paths are the server's."""
    service = Service({"towns": TOWNS, "rivers": RIVERS}, method="one-r", lm=Model(), reader=None, **arguments)
    async with served(service, *filter(None, [options])) as url, aiohttp.ClientSession(url) as session:
        yield session


async def post(session: aiohttp.ClientSession, path: str, **body: Any) -> tuple[int, Any]:
    async with session.post(path, json=body) as response:
        return response.status, await response.json()


async def test_search_r1s_trainer_reads_documents_with_scores() -> None:
    async with trainer() as session:
        status, found = await post(session, "/retrieve", queries=[CAPITAL, "Bern"], topk=1, return_scores=True)
        assert status == 200
        (first,), (second,) = found["result"]
        assert first["document"] == OSLO
        assert first["score"] > 0
        assert second["document"]["id"] == "bern"
        assert await post(session, "/retrieve", queries=[CAPITAL], topk=1) == (200, {"result": [[OSLO]]})


async def test_flashrags_client_reads_documents_and_their_scores() -> None:
    async with trainer() as session:
        assert await post(session, "/search", query=CAPITAL, top_n=1) == (200, [OSLO])
        status, (documents, scores) = await post(session, "/search", query=CAPITAL, top_n=1, return_score=True)
        assert (status, documents, [score > 0 for score in scores]) == (200, [OSLO], [True])
        asked = {"query": [CAPITAL, "Bern"], "top_n": 1}
        status, found = await post(session, "/batch_search", **asked)
        assert (status, [[row["id"] for row in rows] for rows in found]) == (200, [["oslo"], ["bern"]])
        status, (documents, scores) = await post(session, "/batch_search", **asked, return_score=True)
        assert (status, documents, [len(row) for row in scores]) == (200, found, [1, 1])


async def test_what_trainers_send_is_answered() -> None:
    """No query at all, where no rollout searches; blank and endless ones, which models write; null and 0 for a count;
    fields of a fork."""
    async with trainer(max_question_chars=40) as session:
        assert await post(session, "/retrieve", queries=[], topk=3, return_scores=True) == (200, {"result": []})
        endless = "Oslo " * 10_000
        status, found = await post(session, "/retrieve", queries=["", " \n", endless], topk=None, retriever="e5")
        assert (status, [[row["id"] for row in rows] for rows in found["result"]]) == (200, [[], [], ["oslo"]])
        assert await post(session, "/search", query="", top_n=0) == (200, [])


async def test_a_batch_is_one_call_of_the_index() -> None:
    counting = Counting()
    async with trainer(retriever=counting) as session:
        queries = [f"Oslo or Bern {number}" for number in range(512)] + [""]
        status, found = await post(session, "/retrieve", queries=queries, topk=3)
    assert (status, [len(rows) for rows in found["result"]]) == (200, [2] * 512 + [0])
    assert counting.calls == [(queries[:512], 3)]


async def test_the_work_on_a_batch_ends_when_its_client_leaves() -> None:
    """It is a call for every 512 queries, and the server goes on with others."""
    began, go_on = threading.Event(), threading.Event()

    class Slow(Counting):
        def _scored_many(self, queries: Sequence[str], k: int) -> list[list[tuple[Passage, float]]]:
            found = super()._scored_many(queries, k)
            began.set()
            assert len(queries) == 1 or go_on.wait(PATIENCE)
            return found

    slow = Slow()
    async with trainer(retriever=slow, concurrency=1) as session:
        queries = [f"Oslo {number}" for number in range(2_000)]
        leaving = asyncio.ensure_future(post(session, "/retrieve", queries=queries, topk=1))
        assert await asyncio.to_thread(began.wait, PATIENCE)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        assert (await asyncio.wait_for(post(session, "/retrieve", queries=["Oslo"]), PATIENCE))[0] == 200
        go_on.set()
    assert [len(asked) for asked, _ in slow.calls] == [512, 1]


async def test_the_default_counts_are_those_of_the_servers() -> None:
    counting = Counting()
    async with trainer(retriever=counting) as session:
        await post(session, "/retrieve", queries=["Oslo"])
        await post(session, "/batch_search", query=["Oslo"])
    assert [k for _, k in counting.calls] == [3, 10]


@pytest.mark.parametrize("protocol", ["search-r1", "flashrag"])
async def test_a_polyhop_server_can_be_the_retriever_of_another(protocol: str) -> None:
    """Also titles that the line of ``contents`` alone could not tell, and through a second server."""
    odd = [Passage("heroes", '"Heroes" (song)', "A song."), Passage("none", "", "A song\nof two lines.")]
    first = Service({"odd": odd}, method="one-r", lm=Model(), reader=None)
    async with served(first) as url:
        retriever = ServedRetriever(f"{url}?protocol={protocol}".partition("?")[0], protocol=protocol)
        found = await asyncio.to_thread(retriever.search_many_scored, ["song", "lines"], 2)
        assert [[passage.to_dict() for passage, _ in hits] for hits in found] == [
            [passage.to_dict() for passage in odd],
            [odd[1].to_dict()],
        ]
        second = Service({"odd": None}, retriever=retriever, method="one-r", lm=Model(), reader=None)
        async with served(second) as other, aiohttp.ClientSession(other) as session:
            status, reply = await post(session, "/retrieve", queries=["lines"], topk=2, return_scores=True)
            assert (status, [row["document"]["id"] for row in reply["result"][0]]) == (200, ["none"])
            assert reply["result"][0][0]["score"] is None  # a retriever behind a server is asked for passages only


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        ({"retriever": lambda query, k: TOWNS[:k]}, ["oslo", "bern"]),
        ({"retriever": Counting(), "rerank": Backwards()}, ["bern", "oslo"]),
    ],
    ids=["a callable", "a reranker"],
)
async def test_passages_without_scores_have_null(arguments: dict[str, Any], ids: list[str]) -> None:
    async with trainer(**arguments) as session:
        _, found = await post(session, "/retrieve", queries=["Oslo or Bern"], topk=2, return_scores=True)
    assert [(row["document"]["id"], row["score"]) for row in found["result"][0]] == [(id, None) for id in ids]


async def test_a_request_names_a_corpus() -> None:
    async with trainer() as session:
        _, found = await post(session, "/retrieve", queries=["Bern"], corpus="rivers")
        assert found["result"][0][0]["id"] == "aare"
        status, found = await post(session, "/search", query="Bern", corpus="lakes")
        assert (status, found["error"]["param"]) == (400, "corpus")


async def test_a_batch_has_bounds() -> None:
    async with trainer() as session:
        many = MAX_BATCH_PASSAGES // 100 + 1
        status, found = await post(session, "/retrieve", queries=["town"] * many, topk=100)
        assert (status, found["error"]["type"]) == (400, "invalid_request")
        assert found["error"]["message"].endswith("a request may ask for 20000 passages at most; split it")
        status, found = await post(session, "/batch_search", query=["town"], top_n=101)
        assert (status, found["error"]["param"]) == (422, "top_n")


async def test_keys_are_asked_for() -> None:
    key = "ann-has-this-key-1"
    async with trainer(Options(keys=Keys({"ann": key}))) as session:
        assert (await post(session, "/retrieve", queries=["Bern"]))[0] == 401
        headers = {"Authorization": f"Bearer {key}"}
        async with session.post("/batch_search", json={"query": ["Bern"]}, headers=headers) as response:
            assert response.status == 200


async def test_batches_wait_their_turn_and_are_refused_beyond_the_maximum() -> None:
    searching, go_on = asyncio.Event(), asyncio.Event()

    async def slow(query: str, k: int) -> list[Passage]:
        searching.set()
        await go_on.wait()
        return TOWNS[:k]

    service = Service({"towns": None}, retriever=slow, method="one-r", lm=Model(), concurrency=1, waiting=0)
    running = asyncio.ensure_future(service.search_many(["Oslo"], 1))
    await searching.wait()
    with pytest.raises(Busy):
        await service.search_many(["Bern"], 1)
    go_on.set()
    assert await running == [[(TOWNS[0], None)]]
    await service.aclose()
