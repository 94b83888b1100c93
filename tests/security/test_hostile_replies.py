"""Servers of every kind that answer harm: a value of the right type or an error in one printable line, nothing else.

``POLYHOP_TRIES=40`` tries 1,000 replies per client.
"""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Mapping
from math import isfinite
from typing import Any, TypeAlias

import pytest
from pydantic import BaseModel

from polyhop.errors import PolyhopError
from polyhop.lm import OpenAICompatible
from polyhop.lm.base import ScoreRequest
from polyhop.lm.tools import Tool
from polyhop.retrieval import open_reranker
from polyhop.retrieval.services.rag_servers import RAG_APIS, RagServer
from polyhop.retrieval.services.served import PROTOCOLS, ServedRetriever
from polyhop.retrieval.services.web import WebSearch
from polyhop.types import Passage
from tests.kit import retrieval_services as kit
from tests.kit.hostile_json import spoiled
from tests.kit.lm_client import request
from tests.kit.openai_server import Fault, Received
from tests.kit.retrieval_services import KEY, FakeService
from tests.kit.tally import count
from tests.kit.tries import tries
from tests.security.test_fuzz import usable

COUNT = tries(25)
"""Replies per client."""

PASSAGES = [Passage(f"p{n}", f"Mill {n}", "The mill was made of stone. " * n) for n in range(1, 5)]
QUERY = "Who made the mill?"
Use: TypeAlias = Callable[[Any, str], Awaitable[None]]

# --- what each client is asked, and what it may give -----------------------------------------------------------------


async def finds(retriever: Any, query: str) -> None:
    """A search finds passages, at most as many as were wanted."""
    found = await retriever.asearch(query, 3)
    assert len(found) <= 3
    for passage in found:
        assert isinstance(passage, Passage)
        assert passage.id
        json.dumps(passage.to_dict(), allow_nan=False).encode()


async def ranks(reranker: Any, query: str) -> None:
    """A ranking is one of the passages that were given, each once."""
    ranked = await reranker.rerank_by(None, query, PASSAGES, 9)
    assert sorted(passage.id for passage in ranked) == [passage.id for passage in PASSAGES]


async def completes(lm: Any, query: str) -> None:
    """A completion has the types that it should."""
    usable(await lm.complete(request(query, logprobs=True)))


async def calls_tools(lm: Any, query: str) -> None:
    """Calls of tools are checked, or say what is wrong with them."""
    completion = await lm.complete(request(query, tools=(TOOL,)))
    usable(completion)
    for call in completion.tool_calls:
        checked = call.checked((TOOL,))
        assert (checked.arguments is None) == bool(checked.problem)


async def scores(lm: Any, query: str) -> None:
    """A score is a finite number per token."""
    (found,) = await lm.score([ScoreRequest(task="path.score", prompt=query, target=" was made.")])
    assert all(isinstance(value, float) and isfinite(value) for value in found.logprobs)


class Words(BaseModel):
    """The arguments of a tool."""

    query: str


TOOL = Tool("search", "Search the corpus.", Words)
TOKENS: list[dict[str, Any]] = [
    {"token": part, "logprob": -0.5, "bytes": None, "top_logprobs": []} for part in ("The", " mill")
]
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "completion_tokens_details": {"reasoning_tokens": 1}}
CALLS = [{"id": "c1", "type": "function", "function": {"name": "search", "arguments": '{"query": "mill"}'}}]


def chat(*, tools: bool = False) -> Callable[[Received], Any]:
    """A chat completion with everything in it that is read."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": "The mill",
        "reasoning_content": "Well.",
        "refusal": None,
    }
    message |= {"tool_calls": CALLS} if tools else {}
    choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": {"content": TOKENS}}
    return lambda _: {"id": "x", "model": "tiny", "choices": [choice], "usage": USAGE, "system_fingerprint": "f"}


def echoed(_: Received) -> Any:
    """A text completion that echoes its prompt, with log-probabilities."""
    parts = ["The", " mill", " was", " made", "."]
    rows = {"tokens": parts, "token_logprobs": [None, -0.1, -0.2, -0.3, -0.4], "text_offset": [0, 3, 8, 12, 17]}
    rows["top_logprobs"] = [None, {}, {}, {}, {}]
    choice = {"index": 0, "text": "".join(parts), "finish_reason": "length", "logprobs": rows}
    return {"id": "x", "choices": [choice], "usage": USAGE}


def _lm(url: str, **more: Any) -> OpenAICompatible:
    return OpenAICompatible("tiny", f"{url}/v1", retries=0, **more)


def _rag(api: str) -> Callable[[str], Any]:
    options: Mapping[str, Any] = {"dataset": ["d1", "d2"]} if api == "ragflow" else {}
    return lambda url: RagServer(api, url, key=KEY, retries=0, **options)


def _web(api: str) -> Callable[[str], Any]:
    return lambda url: WebSearch(api, url=url, key=KEY, retries=0)


def _reranker(kind: str, path: str) -> Callable[[str], Any]:
    return lambda url: open_reranker(f"{kind}:{'' if kind == 'tei' else 'small@'}{url}{path}")


def _served(protocol: str) -> Callable[[str], Any]:
    return lambda url: ServedRetriever(url, protocol=protocol, key=KEY, retries=0)


HONEST: Mapping[str, Callable[..., Any]] = {
    "polyhop": kit.ours,
    "flashrag": kit.flashrag,
    "search-r1": kit.search_r1,
    "lightrag": kit.lightrag,
    "ragflow": kit.ragflow,
    "serper": kit.serper,
    "tavily": kit.tavily,
    "brave": kit.brave,
}
RERANKERS = {
    "cohere": ("/v2", kit.cohere_rerank),
    "jina": ("/v1", kit.jina_rerank),
    "vllm": ("/v1", kit.vllm_rerank),
    "tei": ("", kit.tei_rerank),
}

CLIENTS: Mapping[str, tuple[Callable[[str], Any], Callable[[Received], Any], Use]] = {
    **{f"retriever {name}": (_served(name), HONEST[name](PASSAGES), finds) for name in PROTOCOLS},
    **{f"retriever {name}": (_rag(name), HONEST[name](PASSAGES), finds) for name in RAG_APIS},
    **{f"web {name}": (_web(name), HONEST[name](PASSAGES), finds) for name in ("serper", "tavily", "brave")},
    **{f"reranker {kind}": (_reranker(kind, path), answer, ranks) for kind, (path, answer) in RERANKERS.items()},
    "model": (_lm, chat(), completes),
    "model with tools": (_lm, chat(tools=True), calls_tools),
    "model that streams": (lambda url: _lm(url, extra_body={"stream": True}), chat(), completes),
    "model that scores": (_lm, echoed, scores),
}
"""The opening of a client, the answer of an honest server, and the use of the client."""


@pytest.fixture(autouse=True)
def _calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """No waiting between attempts; the keys of rerankers."""
    monkeypatch.setattr("polyhop.net.client.backoff", lambda failures, retry_after: 0.0)
    for name in ("COHERE_API_KEY", "JINA_API_KEY", "RERANKER_API_KEY"):
        monkeypatch.setenv(name, KEY)


@pytest.mark.parametrize("name", CLIENTS)
async def test_any_reply_of_a_server_is_read_or_reported_in_a_line(name: str) -> None:
    opened, honest, use = CLIENTS[name]
    draw, errors, body = random.Random(name), dict[str, bytes](), b""

    def answer(received: Received) -> Any:
        nonlocal body
        reply = honest(received)
        assert not isinstance(reply, Fault), "the honest server refused"
        body = spoiled(reply, draw)
        if "streams" in name and draw.random() < 0.7:
            lines = b"".join(b"data: %s\n\n" % spoiled(event, draw) for event in EVENTS)
            return Fault(body=lines, headers={"X-Content": "events"})
        return Fault(status=draw.choice((200, 200, 200, 200, 400, 500)), body=body)

    async with FakeService(answer) as service:
        client = opened(service.url)
        for number in range(COUNT):
            try:
                await use(client, f"{QUERY} {number}")  # another each time: what was found is kept
            except PolyhopError as error:
                errors[str(error)] = body[:300]
        await client.aclose()
    count("hostile inputs", COUNT)
    assert errors
    for message, reply in errors.items():
        assert message.isprintable(), reply
        assert len(message) < 3000, reply
        assert KEY not in message


EVENTS = [
    {"id": "x", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "The"}, "finish_reason": None}]},
    {"id": "x", "choices": [{"index": 0, "delta": {"content": " mill"}, "finish_reason": "stop"}]},
    {"id": "x", "choices": [], "usage": USAGE},
]
