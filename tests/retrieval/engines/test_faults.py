"""Faults between polyhop and a search engine give clear errors, with the engines' own clients."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from polyhop import evaluate
from polyhop.common.extras import require as extra
from polyhop.data.corpora import open_corpus
from polyhop.errors import RetrievalError, SettingError, UnknownName, UsageError
from polyhop.pipeline import Pipeline
from polyhop.retrieval import Index, build_index
from polyhop.retrieval.engines import open_store, parse_address
from polyhop.retrieval.engines.base import Row
from polyhop.types import Passage, Question
from tests.kit import loopback
from tests.kit.elasticsearch_server import Fault, SearchEngine, serving
from tests.kit.encoders import WordEncoder
from tests.kit.engine_contract import PASSAGES, built, ids, index, load, opened

__all__ = ["built", "index"]

pytestmark = [pytest.mark.extra, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

KINDS = ("elastic", "opensearch")


@pytest.fixture(params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[SearchEngine]:
    pytest.importorskip("elasticsearch")
    pytest.importorskip("opensearchpy")
    with serving(request.param) as started:
        yield started


@pytest.fixture
def address(server: SearchEngine) -> str:
    return f"{server.kind}:{server.url}/wiki"


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the waiting times without waiting; no credentials but a test's own."""
    seconds: list[float] = []
    monkeypatch.setattr("polyhop.retrieval.engines.base.time.sleep", seconds.append)
    for prefix in ("ELASTIC", "OPENSEARCH", "QDRANT"):
        for name in ("API_KEY", "USERNAME", "PASSWORD"):
            monkeypatch.delenv(f"{prefix}_{name}", raising=False)
    return seconds


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_retried(
    server: SearchEngine, address: str, index: Index, status: int, waits: list[float]
) -> None:
    server.faults.extend([None, None, Fault(status), Fault(status, {"Retry-After": "7"}), None, Fault(status)])
    assert load(index, address) == "loaded"
    assert len(waits) == 3
    if server.kind == "elastic":  # the other client does not hand on an error's headers
        assert 7 <= waits[1] <= 7.7
    server.faults.append(None)
    retriever = opened(address)
    server.faults.append(Fault(status))
    assert ids(retriever.search("kiln", 1)) == ["5 %s {table}"]


def test_a_server_that_stays_busy_is_an_error(server: SearchEngine, address: str, waits: list[float]) -> None:
    server.faults.extend([Fault(503)] * 99)
    with pytest.raises(RetrievalError, match=r"is busy \(503: scripted fault\) \(8 attempts\)"):
        opened(address)
    assert len(waits) == 7


def test_rejected_passages_are_sent_again(server: SearchEngine, address: str, index: Index) -> None:
    server.faults.extend([None, None, None, Fault(item=True), Fault(item=True)])
    assert load(index, address) == "loaded"
    bulks = [asked for asked in server.asked if asked.path.endswith("_bulk")]
    assert len(bulks) == 3
    assert set(server.collections["wiki"].seen) == {passage.id for passage in PASSAGES}


def test_a_batch_that_is_too_large_is_halved(server: SearchEngine, address: str, index: Index) -> None:
    load(build_index(open_corpus([PASSAGES[0]]), index.folder.with_name("one")), address)
    store = open_store(parse_address(address))
    store.find()
    server.most = 900
    server.asked.clear()
    store.add([Row(passage, []) for passage in PASSAGES])
    assert {len(asked.body) <= 900 for asked in server.asked} == {True, False}
    assert set(server.collections["wiki"].documents) == {passage.id for passage in PASSAGES}
    server.most = 100
    with pytest.raises(RetrievalError, match=r"refuses \(413\): entity content is too long"):
        store.add([Row(PASSAGES[0], [])])


@pytest.mark.parametrize("kind", KINDS)
def test_an_unreachable_server_is_one_line(kind: str) -> None:
    pytest.importorskip({"elastic": "elasticsearch", "opensearch": "opensearchpy"}[kind])
    asked = ["ask", "Who?", "--method", "one-r", "--retriever", f"{kind}:http://ada:s3cret@127.0.0.1:1/wiki"]
    run = subprocess.run([sys.executable, "-m", "polyhop", *asked], check=False, capture_output=True, text=True)
    assert run.returncode == 2
    assert "at http://127.0.0.1:1 cannot be reached" in run.stderr
    assert "s3cret" not in run.stderr
    assert "Traceback" not in run.stderr
    assert "status:N/A" not in run.stderr


def test_a_broken_connection_is_an_error(server: SearchEngine, address: str, index: Index) -> None:
    load(index, address)
    retriever = opened(address)
    server.faults.extend([Fault(cut=True)] * 9)
    with pytest.raises(RetrievalError, match="cannot be reached"):
        retriever.search("kiln", 1)
    server.faults.clear()
    assert retriever.search("kiln", 1)


@pytest.mark.parametrize(
    ("kind", "real", "number", "message"),
    [
        ("elastic", "opensearch", "3.1.0", "is not Elasticsearch; an OpenSearch is named opensearch:"),
        ("opensearch", "elastic", "9.0.0", "is not OpenSearch but elasticsearch: write elastic:"),
        ("elastic", "elastic", "8.17.0", r"is older than the installed client of Elasticsearch 9: .*elasticsearch<9"),
        ("opensearch", "opensearch", "1.3.0", r"http://.*: OpenSearch 1.3.0 is too old: 2.11 or newer is needed"),
    ],
)
def test_another_product_or_version_is_refused(kind: str, real: str, number: str, message: str) -> None:
    library = pytest.importorskip("elasticsearch")
    if "client" in message and library.__version__[0] < 9:
        pytest.skip("this client is of an older version")
    with serving(real, number) as server, pytest.raises(UsageError, match=message):
        opened(f"{kind}:{server.url}/wiki")


def test_a_hybrid_of_engines_needs_no_corpus(server: SearchEngine, address: str, index: Index) -> None:
    load(index, address, WordEncoder())
    with Pipeline(method="one-r", retriever=f"hybrid:rrf:{address}+{address}*0.5") as pipeline:
        assert ids(pipeline.search("kiln", 1)) == ["5 %s {table}"]
        assert pipeline.engine.retriever is not None
        linked = pipeline.engine.retriever.links(PASSAGES[1])
    assert ids(linked) == ids(index.links(PASSAGES[1]))
    with pytest.raises(UsageError, match="searches a corpus: give one"):
        Pipeline(method="one-r", retriever=f"hybrid:bm25+{address}")


def test_a_key_for_one_index_may_not_ask_who_the_server_is(server: SearchEngine, address: str, index: Index) -> None:
    server.closed = "/"
    load(index, address)
    assert opened(address).search("kiln", 1)
    server.closed = "/wiki/_search"
    with pytest.raises(
        RetrievalError, match=r"refuses \(403\): action is unauthorized for this user; user and key come from"
    ):
        opened(address).search("kiln", 1)


@pytest.mark.parametrize("credential", ["key", "user", "url"])  # a key is Elasticsearch's alone
def test_credentials_come_from_environment_or_url_and_stay_hidden(
    server: SearchEngine,
    index: Index,
    credential: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if credential == "key" and server.kind == "opensearch":
        return
    caplog.set_level("DEBUG")
    prefix = server.kind.upper()
    address = f"{server.kind}:{server.url}/wiki"
    given = address
    server.key = "Basic " + base64.b64encode(b"u5er:s3cret").decode()
    if credential == "key":
        server.key = "ApiKey s3cret"
        monkeypatch.setenv("ELASTIC_API_KEY", "s3cret")
    elif credential == "user":
        monkeypatch.setenv(f"{prefix}_USERNAME", "u5er")
        monkeypatch.setenv(f"{prefix}_PASSWORD", "s3cret")
    else:
        given = address.replace("://", "://u5er:s3cret@")
    load(index, given)
    retriever = opened(given)
    assert retriever.name == address
    evaluate([Question("q", "Bremen?")], None, "one-r", "pocket", retriever=given, out=tmp_path / "run")
    errors = []
    for wrong in (f"{given}2", f"{given}?dense", f"{given}?k=1", f"{given.replace('wiki', 'WIKI')}", f"x{given}"):
        with pytest.raises(UsageError) as error:
            opened(wrong)
        errors.append(str(error.value))
    server.key = "another"
    caplog.set_level("INFO")  # below it a client shows the server's answers, and this one repeats the key
    with pytest.raises(RetrievalError, match=r"\(401\)") as refused:
        opened(given)
    errors.append(str(refused.value))
    files = [path.read_text() for path in (tmp_path / "run").rglob("*.json*")]
    for text in [*errors, *files, caplog.text, repr(retriever)]:
        assert "s3cret" not in text
        assert "u5er" not in text


def test_a_foreign_mapping_is_refused(server: SearchEngine, address: str, index: Index) -> None:
    load(index, address, WordEncoder())
    there = server.collections["wiki"]
    properties, original = there.mapping["properties"], there.mapping["_meta"]
    for name, key, value in (
        ("body", "analyzer", "standard"),
        ("body", "similarity", None),
        ("vector", "dims" if server.kind == "elastic" else "dimension", 16),
        ("id", "type", "text"),
    ):
        there.mapping["properties"] = {**properties, name: {**properties[name], key: value}}
        with pytest.raises(UsageError, match=f"was changed: the {key} of '{name}' is {value!r}, not"):
            opened(address)
    there.mapping["properties"] = properties
    for meta, message in (
        ({}, "was not loaded by polyhop"),
        ({"polyhop": {"format": 1, "corpus": "x"}}, "was not loaded by polyhop"),
        ({"polyhop": {**original["polyhop"], "format": 2}}, "in format 2 by polyhop .*; this polyhop reads format 1"),
        ({"polyhop": {**original["polyhop"], "language": ["english"]}}, r"whose language cannot be \['english'\]"),
        ({"polyhop": {**original["polyhop"], "size": "8"}}, "whose size cannot be '8'"),
    ):
        there.mapping["_meta"] = meta
        with pytest.raises(UsageError, match=message):
            opened(address)
        with pytest.raises(UsageError, match=message):
            load(index, address, overwrite="not loaded" in message)
    assert there.documents
    for changed in (dict(there.mapping), {**there.mapping, "_meta": original, "properties": {}}):
        server.collections["wiki"].mapping = changed
        assert load(index, address, overwrite=True) == "loaded"
        assert opened(address).search("kiln", 1)


@pytest.mark.parametrize("name", ["*", "_all", "a,b", "Wiki", "..", "-a", "a b", "%2A", "a%2Fb", "x" * 256, "Π", "a#b"])
def test_an_index_name_with_another_meaning_is_refused(server: SearchEngine, name: str) -> None:
    with pytest.raises(SettingError, match="is not a valid index name"):
        open_store(parse_address(f"{server.kind}:{server.url}/{name}"))
    assert server.asked == []


@pytest.mark.parametrize("rest", ["", "wiki", "/wiki", "http://localhost:9200", "http:///wiki", "ftp://x/wiki"])
def test_a_malformed_address_shows_the_form(rest: str) -> None:
    for kind in KINDS:
        with pytest.raises(SettingError, match=f"write {kind}:http|is not a server's URL"):
            parse_address(f"{kind}:{rest}")
    with pytest.raises(UnknownName, match="unknown engine 'elastik:'; did you mean 'elastic:'"):
        parse_address("elastik:x")


def test_a_passage_that_is_refused_is_named(server: SearchEngine, address: str, tmp_path: Path) -> None:
    long = build_index(open_corpus([Passage("é" * 257, "", "text")]), tmp_path / "long")
    with pytest.raises(UsageError, match="accepts ids of up to 512 bytes, not 'é"):
        load(long, address)
    odd = build_index(open_corpus([Passage("1", "", "text")]), tmp_path / "odd")
    load(odd, address, WordEncoder(), overwrite=True)
    store: Any = open_store(parse_address(address))
    store.find()
    with pytest.raises(UsageError, match="does not take the passage '7': vector of 3, not 32"):
        store.add([Row(Passage("7", "", "text"), [], WordEncoder(3).queries(["a"])[0])])


def test_words_of_a_query_are_counted_once_and_not_too_many(server: SearchEngine, address: str, index: Index) -> None:
    load(index, address)
    retriever = opened(address)
    once = retriever.search_scored("film mill", 3)
    assert [score for _, score in retriever.search_scored("film film mill mill mill", 3)] == [s for _, s in once]
    analyse = server.collections["wiki"]._analysers["polyhop_query"]
    assert len(analyse(" ".join(f"word{n}" for n in range(5000)))) == 1000


def test_the_german_analysis_is_german(server: SearchEngine, address: str, tmp_path: Path) -> None:
    houses = [Passage("a", "", "Die Häuser der Künstler."), Passage("b", "", "Der Fluss und die Stadt.")]
    corpus = build_index(open_corpus(houses, language="german"), tmp_path / "german")
    load(corpus, address)
    assert ids(opened(address).search("das haus des künstlers", 5)) == ["a"]
    for terms in (corpus.analysis.terms(passage.text) for passage in houses):
        assert terms in [server.collections["wiki"].body({"title": "", "text": each.text}) for each in houses]


class _Qdrant(loopback.Handler):
    """A Qdrant server with scripted replies that records the keys it receives."""

    replies: list[tuple[int, Any, dict[str, str]]]
    keys: list[str | None]

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.keys.append(self.headers.get("api-key"))
        status, body, headers = self.replies.pop(0) if self.replies else (200, {"result": {"exists": False}}, {})
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)

    do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815


@pytest.fixture
def qdrant() -> Iterator[tuple[str, type[_Qdrant]]]:
    pytest.importorskip("qdrant_client")
    handler = type("Handler", (_Qdrant,), {"replies": [], "keys": []})
    with loopback.answering(handler) as address:
        yield f"qdrant:{address}/wiki", handler


_ABOUT = (200, {"title": "qdrant - vector search engine", "version": "1.15.0"}, dict[str, str]())


def test_a_qdrant_server_is_asked_again_and_reported(
    qdrant: tuple[str, type[_Qdrant]], waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, handler = qdrant
    monkeypatch.setenv("QDRANT_API_KEY", "s3cret")
    said = {"status": {"error": "key s3cret is wrong"}}
    handler.replies += [(503, {}, {}), _ABOUT, (429, said, {"Retry-After": "7"}), (429, said, {})]
    with pytest.raises(UsageError, match="nothing is loaded at"):
        opened(address)
    assert len(waits) == 3
    assert 7 <= waits[1] <= 7.7
    assert set(handler.keys) == {"s3cret"}
    for status, message in ((401, "does not permit it .401.*QDRANT_API_KEY"), (400, "refuses .400")):
        handler.replies[:] = [_ABOUT, (status, said, {})]
        with pytest.raises(RetrievalError, match=message) as error:
            opened(address)
        assert "s3cret" not in str(error.value)
    handler.replies[:] = [(200, {"title": "qdrant", "version": "1.7.4"}, {})]
    with pytest.raises(UsageError, match=r"Qdrant 1.7.4 is too old: 1.10 or newer"):
        opened(address)
    handler.replies[:] = [(200, {"hello": "world"}, {})]
    with pytest.raises(RetrievalError):
        opened(address)


def test_a_qdrant_server_that_is_not_there_says_so() -> None:
    pytest.importorskip("qdrant_client")
    with pytest.raises(RetrievalError, match=r"Qdrant cannot be reached at qdrant:http://127.0.0.1:1/wiki"):
        opened("qdrant:http://127.0.0.1:1/wiki")
    for name in ("a b", "..", "a%2Fb", "a'"):
        with pytest.raises(SettingError, match="is not a valid collection name"):
            open_store(parse_address(f"qdrant:http://127.0.0.1:1/{name}"))


@pytest.mark.filterwarnings("ignore")  # the client leaves its lock file open where another has the folder
def test_a_qdrant_folder_is_for_one_at_a_time_and_for_our_collection(tmp_path: Path, index: Index) -> None:
    library: Any = extra("qdrant_client", "qdrant", "this test") if pytest.importorskip("qdrant_client") else None
    address = f"qdrant:{tmp_path / 'folder'}"
    client = library.QdrantClient(path=str(tmp_path / "folder"))
    with pytest.raises(RetrievalError, match=r"cannot be opened: .* already accessed by another instance"):
        opened(address)
    client.create_collection("polyhop", vectors_config=library.models.VectorParams(size=3, distance="Dot"))
    client.close()
    for overwrite in (False, True):
        with pytest.raises(UsageError, match="was not loaded by polyhop"):
            load(index, address, overwrite=overwrite)
    client = library.QdrantClient(path=str(tmp_path / "folder"))
    client.delete_collection("polyhop")
    sparse = {"terms": library.models.SparseVectorParams()}
    client.create_collection("polyhop", vectors_config={}, sparse_vectors_config=sparse)
    client.close()
    assert load(index, address) == "loaded"  # one that was stopped before its first point
    (tmp_path / "file").write_text("")
    with pytest.raises(RetrievalError, match="cannot be opened"):
        opened(f"qdrant:{tmp_path / 'file'}")
