"""Retrievers behind a server: the contract, FlashRAG's and Search-R1's protocols, faults, and a key never seen."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop import Passage, Pipeline, Question, ScriptedLM, evaluate
from polyhop.answer import Answer
from polyhop.errors import RetrievalError, ServiceError, SettingError, UnknownName, UsageError
from polyhop.methods import registry
from polyhop.net.failures import WrongShape
from polyhop.retrieval import brings_corpus, open_plain_retriever, open_retriever, services
from polyhop.retrieval.base import AwaitedRetriever, Retriever, ScoringRetriever, as_retriever
from polyhop.retrieval.services import served
from polyhop.retrieval.services.served import PROTOCOLS, ServedRetriever
from tests.kit import openai_server as kit
from tests.kit.retrieval_services import KEY, FakeService, failing, flashrag, ours, search_r1, serving
from tests.kit.terminal import Cli, cli

__all__ = ["cli"]

PASSAGES = [
    Passage("1", "Ada Lovelace", "Ada Lovelace wrote the first program.", ("Program",), {"page": 3}),
    Passage("2", "Charles Babbage", "Babbage built an engine, for which Ada wrote."),
    Passage("3", "Kiln", "A kiln is an oven."),
]
GUIDE = Path(__file__).parents[3] / "docs" / "engines.md"
DEEP = {"id": "1", "text": "Ada", "metadata": json.loads('{"a": ' * 150 + "1" + "}" * 150)}
"""A passage with metadata nested deeper than a corpus may have it."""
MAKERS = {"polyhop": ours, "flashrag": flashrag, "search-r1": search_r1}


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """No waiting between attempts; what the server asked for each time."""
    asked: list[float | None] = []

    def pause(failures: int, retry_after: float | None) -> float:
        asked.append(retry_after)
        return 0.0

    monkeypatch.setattr("polyhop.net.client.backoff", pause)
    monkeypatch.delenv("RETRIEVER_API_KEY", raising=False)
    return asked


@pytest.fixture
async def service() -> AsyncIterator[FakeService]:
    async with FakeService(ours(PASSAGES)) as running:
        yield running


async def ids(service: FakeService, query: str = "Ada wrote", k: int = 5, **settings: Any) -> list[str]:
    """Return the hits of one search, by a client of its own."""
    retriever = ServedRetriever(service.url, **settings)
    try:
        return [passage.id for passage in await retriever.asearch(query, k)]
    finally:
        await retriever.aclose()


# --- the protocols ----------------------------------------------------------------------------------------------------


async def test_the_contract_reads_all_fields_of_a_passage() -> None:
    async with FakeService(ours(PASSAGES)) as service:
        retriever = ServedRetriever(f"{service.url}/find")
        (found,) = await retriever.asearch("the first program", 2)
        await retriever.aclose()
    (asked,) = service.requests
    assert (asked.path, asked.body) == ("/find", {"queries": ["the first program"], "k": 2})
    assert (found.id, found.title, found.links, found.metadata) == ("1", "Ada Lovelace", ("Program",), {"page": 3})
    assert found.text == PASSAGES[0].text


def test_the_guide_shows_the_contract() -> None:
    asked, answered = re.findall(
        r"```json\n(.*?)```", GUIDE.read_text("utf-8").partition("behind a server")[2], re.DOTALL
    )[:2]
    assert PROTOCOLS["polyhop"].ask(["Who wrote the first program?"], 2, False) == ("", json.loads(asked))
    (((first, score), (second, none)),) = PROTOCOLS["polyhop"].read(json.loads(answered), 1, False)
    assert (first.title, first.links, score) == ("Ada Lovelace", ("Charles Babbage",), 12.5)
    assert (second.id, none) == ("9", None)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_finds_the_same(protocol: str) -> None:
    with serving(FakeService(MAKERS[protocol](PASSAGES))) as service:
        retriever = open_plain_retriever(f"{service.url}?protocol={protocol}", None)
        assert isinstance(retriever, ServedRetriever)
        assert isinstance(retriever, Retriever)
        found = retriever.search("Ada wrote the first", 5)
        assert [(p.id, p.title, p.text) for p in found] == [(p.id, p.title, p.text) for p in PASSAGES[:2]]
        assert [[p.id for p in hits] for hits in retriever.search_many(["kiln", " ", "Ada", "zebra"], 1)] == [
            ["3"], [], ["1"], []
        ]  # fmt: skip
        assert [(p.id, score) for p, score in retriever.search_scored("Ada wrote", 5)] == [("1", 2.0), ("2", 2.0)]
        assert [[s for _, s in hits] for hits in retriever.search_many_scored(["oven", "", "Ada"], 1)] == [
            [1.0], [], [1.0]
        ]  # fmt: skip
        asyncio.run(retriever.aclose())


def test_flashrag_requests_have_its_format() -> None:
    with serving(FakeService(flashrag(PASSAGES))) as service:
        retriever = ServedRetriever(f"{service.url}/search", protocol="flashrag")
        assert retriever.name == f"{service.url}?protocol=flashrag"
        retriever.search("Ada", 3)
        retriever.search_many_scored(["Ada", "kiln"], 4)
        asyncio.run(retriever.aclose())
    one, several = service.requests
    assert (one.path, one.body) == ("/search", {"query": "Ada", "top_n": 3, "return_score": False})
    assert (several.path, several.body) == (
        "/batch_search",
        {"query": ["Ada", "kiln"], "top_n": 4, "return_score": True},
    )


def test_many_queries_go_in_batches_and_come_back_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "BATCH", 2)
    with serving(FakeService(ours(PASSAGES))) as service:
        retriever = ServedRetriever(service.url)
        found = retriever.search_many(["kiln", "Ada", "engine", "kiln", "program"], 1)
        asyncio.run(retriever.aclose())
    assert [hits[0].id for hits in found] == ["3", "1", "2", "3", "1"]
    assert sorted(len(asked.body["queries"]) for asked in service.requests) == [1, 2, 2]


@pytest.mark.parametrize("path", ["/", "/a", "/a/", "/a/completions"])
async def test_the_contract_uses_the_exact_address(service: FakeService, path: str) -> None:
    retriever = ServedRetriever(service.url + path)
    await retriever.asearch("Ada", 1)
    await retriever.aclose()
    assert service.requests[-1].path == path


async def test_at_most_k_distinct_passages_are_returned(service: FakeService) -> None:
    row = PASSAGES[0].to_dict()
    service.answer = lambda _: {"results": [[row, row, *(p.to_dict() for p in PASSAGES[1:])]]}
    assert await ids(service, k=2) == ["1", "2"]


async def test_a_blank_query_finds_nothing_and_is_not_sent(service: FakeService) -> None:
    assert await ids(service, " \n") == []
    assert service.requests == []
    with pytest.raises(UsageError, match="k is 0"):
        await ids(service, k=0)


def test_a_server_without_scores_is_fused_by_rank() -> None:
    with serving(FakeService(ours(PASSAGES, scores=False))) as service:
        retriever = ServedRetriever(service.url)
        assert [p.id for p in retriever.search("kiln", 5)] == ["3"]
        with pytest.raises(RetrievalError, match=r"sends no scores: fuse it by rank \(hybrid:rrf"):
            retriever.search_scored("kiln", 5)
        asyncio.run(retriever.aclose())


def test_it_is_fused_with_a_retriever_over_an_index() -> None:
    with serving(FakeService(ours(PASSAGES))) as service:
        spec = f"hybrid:bm25+{service.url}*2"
        with Pipeline([*PASSAGES[2:]], method="one-r", retriever=spec) as qa:
            assert [p.id for p in qa.search("Ada oven kiln", 5)] == ["3", "1", "2"]
        with Pipeline([*PASSAGES[2:]], method="one-r", retriever=f"hybrid:rrf:bm25+{service.url}") as qa:
            assert {p.id for p in qa.search("Ada kiln", 5)} == {"1", "2", "3"}


# --- in a run ---------------------------------------------------------------------------------------------------------


async def test_searches_wait_together_on_the_loop_within_their_limit() -> None:
    async with FakeService(ours(PASSAGES)) as service:
        service.latency = 0.01
        retriever = ServedRetriever(service.url, concurrency=3)
        assert isinstance(retriever, AwaitedRetriever)
        assert isinstance(retriever, ScoringRetriever)
        found = await asyncio.gather(*(retriever.asearch("Ada", 1) for _ in range(20)))
        await retriever.aclose()
    assert [hits[0].id for hits in found] == ["1"] * 20
    assert service.most_under_way == 3


async def test_a_cancelled_search_ends_its_request() -> None:
    lm = ScriptedLM({"answer.cot": "So it is: x"})
    async with (
        FakeService(ours(PASSAGES), faults=[kit.HANG]) as service,
        Pipeline(method="one-r", retriever=service.url, lm=lm, max_seconds=0.2) as qa,
    ):
        answer = await asyncio.wait_for(qa.aask("Who?"), 5)
    assert answer.passages == ()
    assert answer.trace.budget == "max_seconds"


def test_a_pipeline_needs_no_corpus() -> None:
    assert brings_corpus("http://localhost:1/search")
    assert brings_corpus("https://example.org/search")
    with serving(FakeService(ours(PASSAGES))) as service:
        with Pipeline(method="one-r", retriever=service.url, lm="pocket") as qa:
            assert [p.id for p in qa.search("kiln", 3)] == ["3"]
            answer = qa.ask("What is a kiln?")
        assert [p.id for p in answer.passages] == ["3"]


def test_the_search_verb_takes_it_instead_of_a_corpus(cli: Cli) -> None:
    with serving(FakeService(ours(PASSAGES))) as service:
        found = cli("search", service.url, "Ada wrote", "-k", "1", "--json")
        assert [passage["id"] for passage in json.loads(found.out)] == ["1"]
        wrong = cli("search", service.url, "Ada wrote", "--retriever", "tfidf")
    assert wrong.code == 2
    assert "is already a retriever; omit --retriever tfidf" in wrong.err


async def _follow(question: str, run: Any) -> Answer:
    return Answer("")


@pytest.fixture
def follower() -> Iterator[str]:
    """A registered method that needs links."""
    registry.method("follower", paper="-", layers=lambda settings: 0, needs=("links",))(_follow)
    yield "follower"
    del registry._registered["follower"]


def test_a_method_that_follows_links_fails_before_any_request(follower: str) -> None:
    retriever = ServedRetriever("http://localhost:1")
    assert not as_retriever(retriever).has_links
    assert retriever.links(PASSAGES[0]) == []
    with pytest.raises(UsageError, match="follows links: use a retriever over an index"):
        Pipeline(method=follower, retriever=retriever)
    with pytest.raises(UsageError, match="follows links: use a retriever over an index"):
        Pipeline(method=follower, retriever=retriever, rerank="lm")


async def test_it_works_on_several_loops_and_after_closing(service: FakeService) -> None:
    retriever = ServedRetriever(service.url)
    for _ in range(2):
        assert (await retriever.asearch("kiln", 1))[0].id == "3"
        assert (await asyncio.to_thread(retriever.search, "kiln", 1))[0].id == "3"
        await retriever.aclose()


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [kit.failing(429), kit.failing(500), kit.failing(503), kit.DROP, kit.CUT, kit.RESET, kit.NOT_JSON, kit.EMPTY_BODY,
     kit.Fault(body=b'{"results": [[{"id": "1", "te')],
    ids=["429", "500", "503", "drop", "cut", "reset", "not JSON", "empty", "truncated JSON"],
)  # fmt: skip
async def test_retryable_failures_are_retried(service: FakeService, fault: kit.Fault) -> None:
    service.faults.extend([fault, fault])
    assert await ids(service) == ["1", "2"]
    assert len(service.requests) == 3


async def test_the_servers_wait_is_respected(service: FakeService, pauses: list[float | None]) -> None:
    service.faults.extend(
        [
            failing(429, {}, Retry_After="3"),
            failing(429, {}, X_RateLimit_Reset="1, 1419704"),
            failing(429, {}, X_RateLimit_Reset="1790000000"),
            failing(429, {}),
        ]
    )
    await ids(service)
    assert pauses == [3.0, 1.0, None, None]


async def test_a_server_that_hangs_times_out(service: FakeService) -> None:
    service.faults.extend([kit.HANG] * 2)
    with pytest.raises(RetrievalError, match=r"no complete answer within 0.1 s \(2 attempts.*timeout="):
        await ids(service, timeout=0.1, retries=1)


async def test_an_unreachable_server_fails_at_once() -> None:
    retriever = ServedRetriever("http://127.0.0.1:9/search")
    with pytest.raises(RetrievalError, match=r"^the retriever http://127.0.0.1:9/search: no connection.*Is the server"):
        await retriever.asearch("Ada", 1)
    await retriever.aclose()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (failing(401, {"detail": f"wrong key {KEY}"}), r"401 Unauthorized: wrong key \*\*\*\. Set RETRIEVER_API_KEY"),
        (failing(402, {"error": "no credit"}), "402 Payment Required: no credit. Waiting will not help"),
        (failing(404, {"detail": "Not Found"}), r"404 Not Found.*the \?protocol=: for polyhop's own"),
        (failing(422, {"detail": [{"msg": "Field required"}]}), "422.*Field required"),
        (failing(307, {}, Location=f"https://else.example/?k={KEY}"), r"else.example/\?k=\*\*\*. Give the address it"),
    ],
)
async def test_fatal_failures_are_not_retried(service: FakeService, fault: kit.Fault, words: str) -> None:
    service.faults.append(fault)
    with pytest.raises(RetrievalError, match=words) as caught:
        await ids(service, key=KEY)
    assert len(service.requests) == 1
    assert KEY not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("protocol", "reply", "words"),
    [
        ("polyhop", [], "the reply is an array, expected an object"),
        ("polyhop", {"passages": []}, "the reply has no field 'results'"),
        ("polyhop", {"results": []}, "results has 0 entries for 1"),
        ("polyhop", {"results": [{}]}, r"results\[0\] is an object, expected an array"),
        ("polyhop", {"results": [["Ada"]]}, r"results\[0\]\[0\] is a string, expected an object"),
        ("polyhop", {"results": [[{"id": "x", "title": "y"}]]}, r"results\[0\]\[0\]: missing field one of 'text'"),
        ("polyhop", {"results": [[{"id": "x", "text": 7}]]}, r"results\[0\]\[0\]: 'text' is a number"),
        ("polyhop", {"results": [[{"id": "x", "text": "y", "score": "9"}]]}, r"score of results\[0\]\[0\] is a str"),
        ("flashrag", {"results": []}, "documents"),
        ("flashrag", [{"id": "1"}], r"documents\[0\]\[0\]: missing field one of 'text', 'contents'"),
        ("search-r1", {"result": [[{"document": {}}]]}, r"result\[0\]\[0\]: missing field"),
        ("polyhop", {"results": [[DEEP]]}, r"results\[0\]\[0\]: nested more than 100 deep"),
        ("flashrag", [DEEP], r"documents\[0\]\[0\]: nested more than 100 deep"),
        ("search-r1", {"result": [[DEEP]]}, r"result\[0\]\[0\]: nested more than 100 deep"),
    ],
)  # fmt: skip
async def test_a_malformed_reply_is_an_error_that_names_the_field(protocol: str, reply: Any, words: str) -> None:
    async with FakeService(lambda _: reply) as service:
        with pytest.raises(RetrievalError, match=words):
            await ids(service, protocol=protocol)
        assert len(service.requests) == 1


_NAMES = ("results", "result", "document", "score", "id", "text", "contents", "title", "links", "metadata")
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=4),
    max_leaves=20,
)


@given(st.sampled_from(sorted(PROTOCOLS)), _JSON, st.integers(1, 2), st.booleans())
def test_no_reply_breaks_the_reader(protocol: str, reply: Any, queries: int, scored: bool) -> None:
    try:
        found = PROTOCOLS[protocol].read(reply, queries, scored)
    except WrongShape:
        return
    assert len(found) == queries
    assert all(isinstance(passage, Passage) for hits in found for passage, _ in hits)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
async def test_a_reply_too_large_is_not_read(packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "MAX_RESPONSE_BYTES", 1 << 20)
    body = b'{"results": [[{"id": "1", "text": "' + b"x" * (2 << 20) + b'"}]]}'
    fault = (
        kit.Fault(body=gzip.compress(body), headers={"Content-Encoding": "gzip"}) if packed else kit.Fault(body=body)
    )
    async with FakeService(ours(PASSAGES), faults=[fault]) as service:
        with pytest.raises(RetrievalError, match="the reply is larger than 1 MiB"):
            await ids(service)
        assert len(service.requests) == 1
        assert await ids(service) == ["1", "2"]


def test_a_failed_search_fails_its_question_and_a_run_goes_on_there(tmp_path: Any) -> None:
    questions = [Question(str(n), f"What is a kiln, number {n}?", ("an oven",)) for n in range(3)]
    common: dict[str, Any] = {"method": "one-r", "lm": "pocket", "out": tmp_path / "run", "concurrency": 1}
    with serving(FakeService(ours(PASSAGES))) as service:
        service.faults.extend([None, failing(400, {"detail": "not now"})])
        first = evaluate(questions, retriever=service.url, **common)
        assert list(first.failed) == ["1"]
        assert "400 Bad Request: not now" in first.failed["1"]
        asked = len(service.requests)
        again = evaluate(questions, retriever=service.url, **common)
        assert not again.failed
        assert len(service.requests) == asked + 1


def test_a_run_stops_if_its_first_search_fails() -> None:
    questions = [Question(str(n), "What is a kiln?", ("an oven",)) for n in range(3)]
    with pytest.raises(ServiceError, match="no connection"):
        evaluate(questions, method="one-r", retriever="http://127.0.0.1:9")


# --- names, options, keys ---------------------------------------------------------------------------------------------


def test_options_are_checked_when_it_is_opened() -> None:
    opened = open_retriever("http://localhost:1/a?concurrency=2&timeout=2.5&per_minute=9", None)
    assert opened.name == "http://localhost:1/a"
    with pytest.raises(UnknownName, match="unknown protocol of a retriever 'flashrg'; did you mean 'flashrag'"):
        open_retriever("http://localhost:1?protocol=flashrg", None)
    with pytest.raises(UnknownName, match=r"unknown option of http: 'top'.*concurrency, per_minute, protocol, timeout"):
        open_retriever("http://localhost:1?top=3", None)
    for wrong in ("timeout=soon", "timeout=0", "timeout=nan", "concurrency=0", "per_minute=-1", "concurrency=inf"):
        with pytest.raises(SettingError, match=wrong.partition("=")[0]):
            open_retriever(f"http://localhost:1?{wrong}", None)
    with pytest.raises(SettingError, match=r"write http://localhost:1\?protocol=flashrag"):
        open_retriever("http://localhost:1?flashrag", None)
    for wrong in ("http:localhost:1", "https:", "http://[", "http://a:b"):
        with pytest.raises(SettingError, match="URL"):
            open_retriever(wrong, None)


async def test_a_key_is_sent_and_never_shown(
    service: FakeService, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("RETRIEVER_API_KEY", KEY)
    service.faults.extend([failing(500, {"detail": f"key {KEY}"})])
    await ids(service)
    assert service.requests[-1].headers["Authorization"] == f"Bearer {KEY}"
    assert KEY not in caplog.text
    monkeypatch.delenv("RETRIEVER_API_KEY")
    retriever = ServedRetriever(service.url.replace("http://", f"http://ada:{KEY}@"))
    assert retriever.name == service.url
    assert KEY not in repr(retriever)
    await retriever.asearch("Ada", 1)
    assert service.requests[-1].headers["Authorization"].startswith("Basic ")
    await retriever.aclose()
    for wrong in (f"http://ada:{KEY}@localhost:1?x", f"http://ada:{KEY}@localhost:1?x=1", f"http://ada:{KEY}@a:b"):
        with pytest.raises(UsageError) as caught:
            open_retriever(wrong, None)
        assert KEY not in str(caught.value)
    with pytest.raises(UsageError, match=r"bm25 is a retriever itself: leave out the retriever http://\*\*\*@h$"):
        Pipeline(method="bm25", retriever=f"http://ada:{KEY}@h")
