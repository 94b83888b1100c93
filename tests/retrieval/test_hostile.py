"""Search servers that answer anything: passages or an error in one line, and no redirect is followed."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polyhop.common.extras import is_installed
from polyhop.errors import PolyhopError
from polyhop.net.failures import BadReply
from polyhop.retrieval.engines import open_engine
from polyhop.retrieval.services.apis import APIS
from polyhop.retrieval.services.served import PROTOCOLS, ServedRetriever
from polyhop.retrieval.services.web import WebSearch
from polyhop.types import Passage

KEY = "key-0123456789abcdef"


def _web(api: str, url: str) -> WebSearch:
    return WebSearch(api, url=url, key=KEY, cache=False, retries=0)


SERVICES: dict[str, Callable[[str], Any]] = {
    **{
        f"served {name}": partial(ServedRetriever, protocol=name, key=KEY, retries=0)  # called with the URL
        for name in PROTOCOLS
    },
    **{f"web {name}": partial(_web, name) for name in APIS},
}
ENGINES = [
    pytest.param(kind, marks=[pytest.mark.extra, pytest.mark.skipif(not is_installed(extra), reason=f"needs {extra}")])
    for kind, extra in (("elastic", "elastic"), ("opensearch", "elastic"), ("qdrant", "qdrant"))
]


def http(status: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode() + body


DEEP = b"[" * 2000 + b"]" * 2000
STRANGE = b"\x1b]0;title\x07 \xe2\x80\xae no\nmore " + KEY.encode()
PRODUCT = "X-Elastic-Product: Elasticsearch"
REPLIES = {
    "another protocol": b"SSH-2.0-OpenSSH_9\r\n",
    "junk": b"\x00\x1b]0;title\x07\r\n\r\n" * 9,
    "half a head": b"HTTP/1.1 200 OK\r\nContent-Le",
    "half a body": http("200 OK", b'{"results": [[{"id"')[:-4],
    "a length that is none": b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n{}",
    "a chunk that is none": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nx\r\n",
    "no gzip": http("200 OK", b"{}", "Content-Encoding: gzip"),
    "many headers": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5000 + b"\r\n{}",
    "401": http("401 Unauthorized", orjson.dumps({"detail": STRANGE.decode()})),
    "401 deep": http("401 Unauthorized", DEEP),
    "401 long": http("401 Unauthorized", b"A" * 100_000),
    "500 raw": http("500 Internal", STRANGE),
    "a status that is none": http("999 Odd", b"{}"),
    "nothing": http("200 OK"),
    "deep": http("200 OK", DEEP),
    "not UTF-8": http("200 OK", b'{"results": "\xff"}'),
    "null": http("200 OK", b"null", PRODUCT),
    "a huge number": http(
        "200 OK", b'{"results": [[{"id": 1%s, "text": "x", "score": 1e999}]]}' % (b"0" * 400), PRODUCT
    ),
    "half a surrogate": http("200 OK", rb'{"results": [[{"id": "\ud800", "text": "\udfff"}]]}', PRODUCT),
    "a huge version": http("200 OK", b'{"version": {"number": "%s"}}' % (b"9" * 5000), PRODUCT),
    "no version": http("200 OK", b'{"version": null}', PRODUCT),
    "a version and nothing else": http("200 OK", b'{"version": {"number": "8.15.0"}}', PRODUCT),
    "a strange distribution": http("200 OK", b'{"version": {"number": "2.15", "distribution": "%s"}}' % (b"x" * 9999)),
    "opensearch and nothing else": http("200 OK", b'{"version": {"number": "2.15", "distribution": "opensearch"}}'),
}


@contextmanager
def answering(reply: bytes, requests: list[bytes] | None = None) -> Iterator[str]:
    """The URL of a server that answers every connection by these bytes, whatever it is asked."""
    listening = socket.create_server(("127.0.0.1", 0))

    def answer(connection: socket.socket) -> None:
        with connection:
            connection.settimeout(10)
            try:
                asked = connection.recv(1 << 16)
                if requests is not None:
                    requests.append(asked)
                connection.sendall(reply)
            except OSError:
                return

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=[connection], daemon=True).start()

    serving = threading.Thread(target=serve, daemon=True)
    serving.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        serving.join(10)


def is_one_plain_line(error: PolyhopError) -> bool:
    text = str(error)
    return text.isprintable() and len(text) < 800 and KEY not in text


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
@pytest.mark.parametrize("service", SERVICES)
async def test_whatever_a_service_answers_is_an_error_in_a_line(service: str, reply: bytes) -> None:
    with answering(reply) as url:
        retriever = SERVICES[service](url)
        with pytest.raises(PolyhopError) as caught:
            await retriever.asearch("x", 3)
        await retriever.aclose()
    assert is_one_plain_line(caught.value), str(caught.value)


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.filterwarnings("ignore")
def test_whatever_an_engine_answers_is_an_error_in_a_line(
    kind: str, reply: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polyhop.retrieval.engines.base.time.sleep", lambda seconds: None)
    monkeypatch.setenv("ELASTIC_API_KEY", KEY)
    monkeypatch.setenv("QDRANT_API_KEY", KEY)
    with answering(reply) as url, pytest.raises(PolyhopError) as caught:
        open_engine(kind, f"{url}/wiki")
    if kind != "opensearch":  # which has no key
        assert is_one_plain_line(caught.value), str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
@pytest.mark.filterwarnings("ignore")
def test_no_engine_follows_a_redirect(kind: str, status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polyhop.retrieval.engines.base.time.sleep", lambda seconds: None)
    elsewhere: list[bytes] = []
    with answering(http("200 OK", b"{}"), elsewhere) as other:
        redirect = http(status, b"", f"Location: {other}/wiki?k={KEY}")
        with answering(redirect) as url, pytest.raises(PolyhopError):
            open_engine(kind, f"{url}/wiki")
    assert elsewhere == []


@pytest.mark.parametrize("service", SERVICES)
async def test_no_service_follows_a_redirect(service: str) -> None:
    elsewhere: list[bytes] = []
    with (
        answering(http("200 OK", b"{}"), elsewhere) as other,
        answering(http("302 Found", b"", f"Location: {other}/\x1b]0;x?k={KEY}")) as url,
    ):
        retriever = SERVICES[service](url)
        with pytest.raises(PolyhopError, match="redirect") as caught:
            await retriever.asearch("x", 3)
        await retriever.aclose()
    assert elsewhere == []
    assert is_one_plain_line(caught.value)


_names = st.sampled_from(
    """results result id text title contents document score links metadata organic link snippet answerBox knowledgeGraph
    attributes url content web infobox type description""".split()
)
_values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.floats(), st.text(max_size=9), st.just("search")
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_names, inner, max_size=6)),
    max_leaves=25,
)


@given(reply=_values, scored=st.booleans(), queries=st.integers(1, 2))
@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_any_json_is_passages_or_a_reply_of_another_shape(reply: Any, scored: bool, queries: int) -> None:
    readers: list[Callable[[Any], Any]] = [
        *(lambda reply, read=protocol.read: read(reply, queries, scored) for protocol in PROTOCOLS.values()),
        *(lambda reply, api=api: [[(passage, None) for passage in api.passages(reply)]] for api in APIS.values()),
    ]
    wrapped = [reply, {"results": [[reply]] * queries}, {"result": [[reply]] * queries}, {"organic": [reply]}]
    wrapped += [{"results": [reply]}, {"type": "search", "web": {"results": [reply]}, "infobox": reply}, [[reply], [1]]]
    for read in readers:
        for whole in wrapped:
            found, wrong = [], ""
            try:
                found = read(whole)
            except BadReply as error:
                wrong = str(error)
            assert len(wrong) < 500
            assert all(isinstance(passage, Passage) for hits in found for passage, _ in hits)
