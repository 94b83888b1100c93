"""Methods over retrievers and rerankers that mean harm: what they send is read, or the question fails in one line.

On a virtual clock. ``POLYHOP_TRIES=10`` makes ten times as many runs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import aiohttp
import orjson
import pytest
from aiohttp import web

from polyhop.data.corpora import open_corpus
from polyhop.net.client import Server
from polyhop.retrieval import build_index, open_reranker, open_retriever
from polyhop.retrieval.base import Reranked
from polyhop.retrieval.bm25 import BM25
from polyhop.retrieval.ppr import PPR
from polyhop.types import Passage
from tests.faults.test_vicious import QUESTIONS, check, run, script
from tests.kit import retrieval_services as services
from tests.kit.faulty_server import PASSING, Wire, client_of
from tests.kit.openai_server import Fault
from tests.kit.random_world import QUERIES
from tests.kit.retrieval_services import FakeService
from tests.kit.tally import count
from tests.kit.tries import tries
from tests.kit.vicious_server import FINAL, RETRIED, Twist, ViciousServer

KEY = services.KEY
URL = "http://127.0.0.1:9"
RETRIEVERS: dict[str, tuple[str, Callable[..., Any]]] = {
    "polyhop": (URL, services.ours),
    "flashrag": (f"{URL}?protocol=flashrag", services.flashrag),
    "search-r1": (f"{URL}?protocol=search-r1", services.search_r1),
    "lightrag": (f"lightrag:{URL}?mode=mix", services.lightrag),
    "ragflow": (f"ragflow:{URL}?dataset=d1,d2", services.ragflow),
}
RERANKERS: dict[str, tuple[str, Callable[..., Any]]] = {
    "cohere": (f"cohere:small@{URL}/v2", services.cohere_rerank),
    "jina": (f"jina:small@{URL}/v1", services.jina_rerank),
    "vllm": (f"vllm:small@{URL}/v1", services.vllm_rerank),
    "tei": (f"tei:{URL}", services.tei_rerank),
}
KEYS = (
    "RETRIEVER_API_KEY",
    "LIGHTRAG_API_KEY",
    "RAGFLOW_API_KEY",
    "COHERE_API_KEY",
    "JINA_API_KEY",
    "RERANKER_API_KEY",
)
METHODS = ("one-r", "agent", "search-agent", "knowtrace", "crag", "tor", "ircot")
PASSAGES = [
    Passage(f"s{n}", f"Title {n}", f"Question {n}, answer {n}, word{n}: {', '.join(QUERIES[n % 3 :])}.")
    for n in range(9)
]
"""Passages that share words with whatever is asked."""
VALUES: tuple[Any, ...] = (
    None,
    True,
    7,
    -1,
    2**63,
    1e308,
    "",
    "x\x00\u202e\x1b[2J",
    [],
    [[]],
    {},
    {"id": {}},
    "[1] " * 5000,
    [None] * 3,
)


def spoiled(value: Any, draw: random.Random) -> Any:
    """The JSON of a reply with one of its parts replaced, doubled or left out."""
    if isinstance(value, dict) and value and draw.random() < 0.8:
        name = draw.choice([*value])
        if draw.random() < 0.2:
            return {key: item for key, item in value.items() if key != name}
        return {**value, name: spoiled(value[name], draw)}
    if isinstance(value, list) and value and draw.random() < 0.8:
        at = draw.randrange(len(value))
        changed = draw.choice([[], [value[at]] * 2, [spoiled(value[at], draw)], [spoiled(value[at], draw)]])
        return [*value[:at], *changed, *value[at + 1 :]]
    return draw.choice(VALUES)


class ViciousService(FakeService):
    """A service that answers some requests by a twist, or by a spoiled reply. ``met`` counts them."""

    def __init__(self, answer: services.Answer, share: float, draw: random.Random) -> None:
        super().__init__(answer)
        self.share, self.draw, self.met = share, draw, 0
        self.kinds: Mapping[str, Fault] = {**PASSING, **RETRIED, **FINAL}

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        response = await super()._serve(request)
        assert isinstance(response, web.Response)
        if self.draw.random() >= self.share:
            return response
        self.met += 1
        assert isinstance(response.body, bytes)
        if self.draw.random() < 0.7:
            return web.Response(body=orjson.dumps(spoiled(orjson.loads(response.body), self.draw)))
        fault = self.kinds[self.draw.choice([*self.kinds])]
        if isinstance(fault, Twist) and fault.make is not None:
            try:
                status, headers, body = fault.make(response.body)
            except (KeyError, TypeError):  # made for a model's reply
                return response
            return web.Response(status=status, headers=headers, body=body.replace(b"sk-vicious", KEY.encode()))
        if fault.wire != "ok":
            raise aiohttp.ServerDisconnectedError
        return web.Response(status=fault.status, headers=fault.headers, body=fault.body)


def over(service: FakeService, part: Any) -> Any:
    """The client of a service, with the service in the network's place."""
    server: Server = part._server
    server._session = lambda: cast(aiohttp.ClientSession, Wire(service, 20.0, server._headers))  # type: ignore[method-assign]
    return part


def harass(method: str, draw: random.Random, out: Path, answer: services.Answer, part: Callable[[Any], Any]) -> None:
    """Start a run over the service, and once more, and end it without faults."""
    before: list[dict[str, Any]] = []
    for share in (0.7, 0.5, 0.0):
        service = ViciousService(answer, share, draw)
        lm = client_of(ViciousServer(script, share=0.0), virtual=True)
        failed = run(method, lm, out, rendering="json", **part(service))
        assert not any(KEY in why for why in failed.values())
        before = check(out, before, failed)
        count("hostile inputs", service.met)
        count("questions asked of vicious servers", len(QUESTIONS))
    assert not failed
    for path in out.rglob("*.json*"):
        assert KEY.encode() not in path.read_bytes()


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.setenv(name, KEY)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", RETRIEVERS)
def test_no_retriever_loses_or_doubles_a_question(kind: str, method: str, tmp_path: Path) -> None:
    name, make = RETRIEVERS[kind]
    for n in range(tries(1)):
        draw = random.Random(f"{kind} {method} {n}")
        harass(
            method, draw, tmp_path / f"{n}", make(PASSAGES),
            lambda service: {"retriever": over(service, open_retriever(name, None))},
        )  # fmt: skip


@pytest.fixture(scope="module")
def ppr(tmp_path_factory: pytest.TempPathFactory) -> PPR:
    """Personalised PageRank over an index of the passages."""
    index = build_index(open_corpus(PASSAGES), tmp_path_factory.mktemp("services") / "index")
    return PPR(index, BM25(index))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", RERANKERS)
def test_no_reranker_loses_or_doubles_a_question(kind: str, method: str, ppr: PPR, tmp_path: Path) -> None:
    """The server puts the hits of another retriever in order."""
    name, answer = RERANKERS[kind]
    for n in range(tries(1)):
        draw = random.Random(f"{kind} {method} {n}")

        def part(service: FakeService) -> dict[str, Any]:
            return {"retriever": Reranked(ppr, over(service, open_reranker(name)))}

        harass(method, draw, tmp_path / f"{n}", answer, part)
