"""Replies of search engines that never end: a limit of bytes and one of time, in one line that names the engine."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from polyhop.errors import PolyhopError, RetrievalError
from polyhop.retrieval import Index
from polyhop.retrieval.engines import bounded
from tests.kit import elasticsearch_server, loopback, qdrant_server
from tests.kit.engine_contract import built, ids, index, load, opened

__all__ = ["built", "index"]

pytestmark = [pytest.mark.extra, pytest.mark.filterwarnings("ignore")]

KINDS = {"elastic": "elasticsearch", "opensearch": "opensearchpy", "qdrant": "qdrant_client"}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    pytest.importorskip(KINDS[request.param])
    return str(request.param)


def endless(pause: float, headers: dict[str, str], piece: bytes, chunked: bool) -> type[loopback.Handler]:
    """A server whose replies never end; ``pause``: the seconds between two pieces."""

    class Handler(loopback.Handler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(200)
            size = {"Transfer-Encoding": "chunked"} if chunked else {"Content-Length": str(1 << 40)}
            for name, value in {"Content-Type": "application/json", **size, **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            part = b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece
            try:
                while True:
                    self.wfile.write(part)
                    time.sleep(pause)
            except OSError:  # the client has left
                self.close_connection = True

        do_GET = do_POST = do_PUT = do_HEAD = _answer  # noqa: N815

    return Handler


def refusal(kind: str, handler: type[loopback.Handler]) -> str:
    """Open an engine at such a server; return the error."""
    with loopback.answering(handler) as url:
        began = time.monotonic()
        with pytest.raises(PolyhopError) as raised:
            opened(f"{kind}:{url}/wiki")
        assert time.monotonic() - began < 20
        assert isinstance(raised.value, RetrievalError)
        text = str(raised.value)
        assert text.isprintable()
        assert url.partition("//")[2] in text
        return text


@pytest.mark.parametrize("chunked", [True, False], ids=["chunks", "a huge length"])
def test_a_reply_is_limited_in_bytes(kind: str, chunked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "MAX_RESPONSE_BYTES", 1 << 20)
    handler = endless(0, {"X-Elastic-Product": "Elasticsearch"}, b" " * 50_000, chunked)
    assert "sends too much: the reply is larger than 1 MiB" in refusal(kind, handler)


@pytest.mark.parametrize("chunked", [True, False], ids=["chunks", "a huge length"])
def test_a_reply_that_drips_is_limited_in_time(kind: str, chunked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The timeout of the client begins anew with every byte."""
    monkeypatch.setattr(bounded, "MAX_SECONDS", 0.3)
    handler = endless(0.05, {"X-Elastic-Product": "Elasticsearch"}, b" ", chunked)
    assert "sends too much: the reply takes longer than 0.3 seconds" in refusal(kind, handler)


def test_a_packed_reply_is_limited_by_what_it_holds(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "MAX_RESPONSE_BYTES", 1 << 20)
    headers = {"X-Elastic-Product": "Elasticsearch", "Content-Encoding": "gzip"}
    said = refusal(kind, endless(0, headers, gzip.compress(b" " * 30_000_000), chunked=True))
    assert ("the reply is packed" if kind == "qdrant" else "larger than 1 MiB") in said


@pytest.fixture
def server(kind: str) -> Iterator[Any]:
    kit: Any = qdrant_server if kind == "qdrant" else elasticsearch_server
    with kit.serving(*([] if kind == "qdrant" else [kind])) as started:
        yield started


def test_a_refused_reply_takes_no_connection_with_it(
    kind: str, server: Any, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elasticsearch's client has ten connections, and waits for one."""
    address = f"{kind}:{server.url}/wiki"
    assert load(index, address) == "loaded"
    retriever = opened(address)
    whole: Callable[[Any], bytes] = server.spoil
    server.spoil = lambda answer: whole(answer) + b" " * 200_000
    monkeypatch.setattr(bounded, "MAX_RESPONSE_BYTES", 1 << 17)
    for _ in range(12):
        with pytest.raises(RetrievalError, match=r"the reply is larger than 0.125 MiB"):
            retriever.search("kiln", 1)
    server.spoil = whole
    assert [ids(retriever.search("kiln", 1)) for _ in range(12)] == [["5 %s {table}"]] * 12
