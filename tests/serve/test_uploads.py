"""Uploads: files become a corpus of their client, within limits; whatever fails, nothing stays on the disk."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from polyhop import Passage
from polyhop.common.extras import is_installed
from polyhop.common.progress import report_progress
from polyhop.data.converting import converter
from polyhop.retrieval import index
from polyhop.serve import uploads
from polyhop.serve.drafts import UploadLimits
from polyhop.serve.http.app import Options, serve
from polyhop.serve.limits import Keys
from polyhop.serve.service import Service
from tests.kit.polyhop_server import served
from tests.serve.test_http import ANN, BEN, Model, get, until

pytestmark = [
    pytest.mark.extra,
    pytest.mark.skipif(not is_installed("serve"), reason="extra not installed: serve"),
]

TOWNS = [Passage("oslo", "Oslo", "Oslo is the capital of Norway.")]
MILL = {"notes/mill.md": "# Mill\n\nThe old mill was built by Ada Kern in 1743.\n"}
NOTES = {**MILL, "notes/people/kern.txt": "Ada Kern\n\nAda Kern was born in Lund.\n", "notes/pic.png": "x"}
TYPE = "multipart/form-data; boundary=cut"
LIMITS = UploadLimits(files=5, file_bytes=2_000, total_bytes=5_000, corpora=3)


def form(files: Mapping[str, str | bytes], **fields: str) -> bytes:
    """A form, its names as they are given."""
    parts = [f'Content-Disposition: form-data; name="{name}"\r\n\r\n{value}'.encode() for name, value in fields.items()]
    for name, content in files.items():
        data = content.encode() if isinstance(content, str) else content
        head = f'Content-Disposition: form-data; name="files"; filename="{name}"'
        parts.append(f"{head}\r\nContent-Type: text/plain\r\n\r\n".encode("utf-8", "surrogateescape") + data)
    return b"".join(b"--cut\r\n%s\r\n" % part for part in parts) + b"--cut--\r\n"


def service(**options: Any) -> Service:
    given = {"uploads": LIMITS, "method": "one-r", "lm": Model(), "reader": None, "cache": False, **options}
    return Service({"towns": TOWNS}, **given)


@pytest.fixture(autouse=True)
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the server has its temporary one."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def left(stored: Path) -> list[str]:
    """The names of all that lies in the server's folder."""
    return [path.name for root in stored.glob("polyhop-uploads-*") for path in root.iterdir()]


@asynccontextmanager
async def client(options: Options | None = None, **given: Any) -> AsyncIterator[aiohttp.ClientSession]:
    async with served(service(**given), *filter(None, [options])) as url, aiohttp.ClientSession(url) as session:
        yield session


async def send(
    session: aiohttp.ClientSession, body: bytes | AsyncIterator[bytes], headers: Mapping[str, str] | None = None
) -> tuple[int, Any]:
    async with session.post("/v1/corpora", data=body, headers={"Content-Type": TYPE, **(headers or {})}) as response:
        return response.status, await response.json()


async def ask(session: aiohttp.ClientSession, corpus: str, **headers: str) -> tuple[int, Any]:
    body = {"question": "Which mill, brook or village did Ada Kern build?", "corpus": corpus}
    async with session.post("/v1/ask", json=body, headers=headers) as response:
        return response.status, await response.json()


# --- a corpus --------------------------------------------------------------------------------------------------------


async def test_files_without_a_suffix_are_read_by_their_name(stored: Path) -> None:
    files = {"a/README": "# Mill\nIt is old.\n", "b/Makefile": "all:\n", "c/notes": "x"}
    async with client() as session:
        kinds = (await get(session, "/v1/corpora"))[1]["uploads"]["kinds"]
        assert [kinds.get(kind) for kind in (".rst", "readme", "makefile", "notes")] == ["", "", "", None]
        _, corpus = await send(session, form(files))
        assert corpus["titles"] == ["Mill", "b/Makefile"]
        assert corpus["left_out"] == ["1 file without a suffix (not a supported kind)"]


async def test_a_guessed_encoding_is_named(stored: Path) -> None:
    files: dict[str, str | bytes] = {"mill.md": "# Mill\nIt is old.\n"}
    files |= {"café.txt": "Ada Kern aimait le café.".encode("cp1252")}
    async with client() as session:
        _, corpus = await send(session, form(files))
        assert corpus["guesses"] == ["café.txt (Windows-1252)"]
        assert (await get(session, f"/v1/corpora/{corpus['corpus']}"))[1]["guesses"] == corpus["guesses"]


async def test_a_folder_becomes_a_corpus_to_ask(stored: Path) -> None:
    async with client() as session:
        status, corpus = await send(session, form(NOTES))
        assert status == 201
        assert corpus == {
            "corpus": "notes",
            "passages": 2,
            "files": 2,
            "titles": ["Mill", "Ada Kern"],
            "questions": [],
            "left_out": ["1 .png (not a supported kind)"],
            "guesses": [],
        }
        assert (await get(session, "/v1/corpora/notes"))[1] == corpus
        listed = (await get(session, "/v1/corpora"))[1]
        assert (listed["default"], listed["corpora"], listed["uploads"]["corpora"]) == (
            *("towns", ["towns", "notes"], ["notes"]),
        )
        assert {name: listed["uploads"][name] for name in ("max_files", "max_file_bytes", "max_bytes")} == {
            "max_files": 5,
            "max_file_bytes": 2_000,
            "max_bytes": 5_000,
        }
        status, answer = await ask(session, "notes")
        assert status == 200
        assert sorted(passage["id"] for passage in answer["passages"]) == ["mill.md#1", "people/kern.txt#1"]
        assert answer["passages"][0]["metadata"]["source"] == "mill.md"
        assert [path.name for path in next(stored.glob("*/*")).iterdir()] == ["index"], "the files are gone"
        async with session.delete("/v1/corpora/notes") as response:
            assert response.status == 204
        assert left(stored) == []
        assert (await get(session, "/v1/corpora/notes"))[0] == 404
        assert (await ask(session, "notes"))[0] == 400
        async with session.delete("/v1/corpora/towns") as response:
            assert response.status == 404, "a corpus of the service's own is no upload"
    assert list(stored.iterdir()) == []


async def test_progress_comes_as_events() -> None:
    files = {f"{number}.md": f"# T{number}\n\nText {number}.\n" for number in range(4)}
    async with client() as session:
        headers = {"Content-Type": TYPE, "Accept": "text/event-stream"}
        async with session.post("/v1/corpora", data=form(files, name="My notes"), headers=headers) as response:
            assert (response.status, response.content_type) == (200, "text/event-stream")
            blocks = (await response.text()).strip().split("\n\n")
    parsed = [block.split("\ndata: ") for block in blocks if not block.startswith(":")]
    events = [(name.removeprefix("event: "), json.loads(data)) for name, data in parsed]
    assert events[0] == ("start", {"corpus": "My notes", "bytes": sum(map(len, files.values()))})
    assert events[1][0] == "progress"
    assert events[1][1] == {"stage": "files", "done": 0, "total": 4, "passages": 1}
    assert events[-1][0] == "corpus"
    assert (events[-1][1]["files"], events[-1][1]["passages"]) == (4, 4)


async def test_a_name_that_is_taken_gets_a_number() -> None:
    async with client() as session:
        names = [(await send(session, form(MILL, name=name)))[1]["corpus"] for name in ("towns", "towns", "")]
        assert names == ["towns (2)", "towns (3)", "notes"]
        same = {"a/x.md": "One.", "a/./x.md": "Two.", "b/../a/x.md": "Three."}
        _, corpus = await send(session, form(same))
        assert (corpus["files"], corpus["passages"]) == (3, 3)


async def test_the_name_of_a_deleted_upload_is_not_used_again() -> None:
    async with client() as session:
        assert (await send(session, form(MILL)))[1]["corpus"] == "notes"
        async with session.delete("/v1/corpora/notes") as response:
            assert response.status == 204
        assert (await send(session, form(MILL)))[1]["corpus"] == "notes (2)"
        assert (await ask(session, "notes"))[0] == 400, "an old tab does not ask another corpus"


async def test_a_key_sees_its_own_uploads_only(stored: Path) -> None:
    keyed = Options(keys=Keys({"ann": ANN, "ben": BEN}))
    async with client(keyed) as session:
        ann, ben = ({"X-API-Key": key} for key in (ANN, BEN))
        assert (await send(session, form(MILL)))[0] == 401
        assert (await send(session, form(MILL), ann))[0] == 201
        assert (await get(session, "/v1/corpora", headers=ben))[1]["corpora"] == ["towns"]
        assert (await get(session, "/v1/corpora/notes", headers=ben))[0] == 404
        status, answer = await ask(session, "notes", **ben)
        assert (status, answer["error"]["param"]) == (400, "corpus")
        assert "notes" not in answer["error"]["message"].partition("Valid")[2]
        async with session.delete("/v1/corpora/notes", headers=ben) as response:
            assert response.status == 404
        other = {"notes/b.md": "# Brook\n\nBrook is a village.\n"}
        assert (await send(session, form(other), ben))[1]["corpus"] == "notes", "each has its own names"
        found = [(await ask(session, "notes", **key))[1]["passages"][0]["title"] for key in (ann, ben)]
        assert found == ["Mill", "Brook"]
        for _ in range(3):
            assert (await send(session, form(other), ben))[0] == 201
        assert (await get(session, "/v1/corpora", headers=ann))[1]["uploads"]["corpora"] == ["notes"]
        assert (await get(session, "/v1/corpora", headers=ben))[1]["uploads"]["corpora"] == ["notes (3)", "notes (4)"]
        assert len(left(stored)) == 3, "the oldest of the client with the most are deleted"


async def test_an_upload_that_is_read_is_deleted_after_its_last_question(stored: Path) -> None:
    lm = Model(latency=0.5)
    async with client(lm=lm) as session:
        await send(session, form(MILL))
        asking = asyncio.ensure_future(ask(session, "notes"))
        await until(lambda: lm.under_way)
        async with session.delete("/v1/corpora/notes") as response:
            assert response.status == 204
        assert (await ask(session, "notes"))[0] == 400, "no further question"
        assert len(left(stored)) == 1
        status, answer = await asking
        assert (status, answer["passages"][0]["title"]) == (200, "Mill")
        await until(lambda: not left(stored))


# --- limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (form({f"{number}.md": "x" for number in range(6)}), 413, "more than 5 files"),
        (form({f"{number}.md": "x" * 1_900 for number in range(3)}), 413, "more than 5,000 bytes"),
        (form({"a.bin": "x" * 5_001}), 413, "more than 5,000 bytes"),
        (form({"a.md": "x" * 60_000}), 413, "the body is larger than"),
        (form({"a.md": "x" * 2_001}), 400, r"no passages in it; left out: 1 .md (larger than 2,000 bytes)"),
        (form({"a.png": "x", "b.exe": "x"}), 400, "left out: 1 .png (not a supported kind), 1 .exe"),
        (form({"a.md": ""}), 400, "no passages in it"),
        (form({"a.xlsx": "no zip"}), 400, "left out: a.xlsx (damaged"),
        (form({}), 400, "the upload has no files"),
        (form({".git/config": "x"}), 400, "no passages in it"),
        (form({"a.md": "x"}, corpus="x"), 400, "the form has a field 'corpus'"),
        (form({"a.md": "x"}, name="n" * 1_025), 400, "more than 1024 bytes"),
        (form({"a" * 5_000: "x"}), 400, "header"),
        (form({"a.md": "x"})[:-8], 400, "before its last boundary"),
        (b"--cut\r\n" + b"a: b\r\n" * 100, 400, "header"),
        (b"no form at all", 400, "the body is no valid form"),
        (b"", 400, "before its last boundary"),
    ],
)
async def test_what_is_out_of_bounds_is_refused_and_nothing_stays(
    body: bytes, status: int, message: str, stored: Path
) -> None:
    async with client() as session:
        got, error = await send(session, body)
        assert (got, message in error["error"]["message"]) == (status, True), error
        assert str(stored) not in error["error"]["message"]
        assert left(stored) == []
        assert (await send(session, form(MILL)))[0] == 201, "the next one is taken"


async def test_a_file_too_large_is_left_out_and_named() -> None:
    async with client() as session:
        _, corpus = await send(session, form({**MILL, "notes/long.md": "x" * 2_001}))
        assert (corpus["files"], corpus["left_out"]) == (1, ["1 .md (larger than 2,000 bytes)"])


@pytest.mark.parametrize("headers", [{"Content-Type": "application/json"}, {"Content-Type": "multipart/form-data"}])
async def test_a_body_of_another_type_is_refused(headers: dict[str, str], stored: Path) -> None:
    async with client() as session:
        status, error = await send(session, form(MILL), headers)
        assert (status, error["error"]["type"]) in {(415, "unsupported_media_type"), (400, "invalid_request")}
        assert left(stored) == []


async def test_too_many_at_once_are_refused(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "MAX_AT_ONCE", 1)
    gate = asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield form(MILL)[:-8]
        await gate.wait()
        yield form(MILL)[-8:]

    async with client() as session:
        first = asyncio.ensure_future(send(session, slowly()))
        await until(lambda: left(stored))
        status, error = await send(session, form(MILL))
        assert (status, error["error"]["type"]) == (503, "busy")
        gate.set()
        assert (await first)[0] == 201


async def test_a_server_takes_no_uploads_unless_it_is_allowed() -> None:
    for options in ({"uploads": None}, {"retriever": lambda query, k: TOWNS}):
        async with client(**options) as session:
            assert (await get(session, "/v1/corpora"))[1]["uploads"] is None
            status, error = await send(session, form(MILL))
            assert (status, error["error"]["type"]) == (403, "no_uploads")


# --- hostile names ---------------------------------------------------------------------------------------------------


NAMES = {
    "../../outside.md": "outside.md",
    "/etc/cron.d/outside.md": "cron.d/outside.md",
    "C:\\\\Windows\\\\outside.md": "outside.md",
    "a..%2foutside.md": "a..%2foutside.md",
    "a/\x1b]0;title\x07.md": "]0;title.md",
    "CON.md": "CON.md",
    "nul/aux.txt": "aux.txt",
    "a\u202egnp.md": "agnp.md",
    "<img src=x onerror=alert(1)>.md": "<img src=x onerror=alert(1)>.md",
    "x" * 3_000 + ".md": "x" * 197 + ".md",
    "/".join("d" * 2 for _ in range(100)) + "/x.md": "/".join(["dd"] * 18) + "/x.md",
    "polyhop-index.json/../corpus.md": "corpus.md",
    "caf\udce9.md": "caf\ufffd.md",
}


@pytest.mark.parametrize(("name", "shown"), NAMES.items(), ids=[ascii(name)[:20] for name in NAMES])
async def test_a_name_is_text_and_never_a_path(
    name: str, shown: str, stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    build = index.build_index

    def spied(corpus: Any, folder: Path) -> Any:
        seen.extend(path.name for path in folder.parent.iterdir())
        return build(corpus, folder)

    monkeypatch.setattr(uploads, "build_index", spied)
    async with client() as session:
        before = sorted(path for path in stored.parent.rglob("*") if not path.is_relative_to(stored))
        status, corpus = await send(session, form({name: "The mill is old."}))
        assert status == 201
        _, answer = await ask(session, corpus["corpus"])
        assert [passage["metadata"]["source"] for passage in answer["passages"]] == [shown]
        assert all(re.fullmatch(r"\d{6}\.\w+", stored_name) for stored_name in seen)
        assert len(seen) == 1
        after = sorted(path for path in stored.parent.rglob("*") if not path.is_relative_to(stored))
        assert after == before


# --- other sites -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 201),
        ({"Origin": "{own}", "Sec-Fetch-Site": "same-origin"}, 201),
        ({"Origin": "{own}"}, 201),
        ({"Origin": "https://proxy.example", "Sec-Fetch-Site": "same-origin"}, 201),
        ({"Origin": "https://wiki.example", "Sec-Fetch-Site": "cross-site"}, 201),
        ({"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
async def test_a_page_of_another_site_can_upload_ask_and_delete_nothing(
    headers: dict[str, str], status: int, stored: Path
) -> None:
    async with client(Options(origins=("https://wiki.example",))) as session:
        own = str(session._base_url).rstrip("/")
        given = {name: value.format(own=own) for name, value in headers.items()}
        assert (await send(session, form(MILL), given))[0] == status
        assert len(left(stored)) == (status == 201)
        assert (await ask(session, "towns", **given))[0] == (200 if status == 201 else 403)
        async with session.delete("/v1/corpora/none", headers=given) as response:
            assert response.status == (404 if status == 201 else 403)


# --- failures --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def half_sent(session: aiohttp.ClientSession) -> AsyncIterator[socket.socket]:
    """A connection on which half of an upload has come."""
    url = session._base_url
    assert url is not None
    body = form(NOTES)
    head = f"POST /v1/corpora HTTP/1.1\r\nHost: x\r\nContent-Type: {TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((url.host or "", url.port or 0), timeout=60) as connection:
        connection.sendall(head.encode() + body[: len(body) // 2])
        yield connection


async def test_a_client_that_leaves_amid_its_upload_leaves_nothing(stored: Path) -> None:
    async with client() as session:
        async with half_sent(session):
            await until(lambda: left(stored))
        await until(lambda: not left(stored))
        assert (await get(session, "/v1/corpora"))[1]["corpora"] == ["towns"]


async def test_a_client_that_stops_sending_is_cut_off(stored: Path) -> None:
    async with client(Options(client_timeout=0.2)) as session:
        async with half_sent(session) as connection:
            reply = await asyncio.to_thread(connection.recv, 1 << 16)
        assert reply.startswith(b"HTTP/1.1 408 ")
        await until(lambda: not left(stored))


@pytest.fixture
def slow_index(monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Indexing that goes on until it is stopped; tells if it has begun."""
    began: list[bool] = []

    def build(corpus: Any, folder: Path) -> Any:
        with report_progress("files") as report:
            while True:
                began.append(True)
                report(0, 1)

    monkeypatch.setattr(uploads, "build_index", build)
    return lambda: bool(began)


async def test_a_client_that_leaves_while_its_upload_is_indexed_ends_the_work(
    stored: Path, slow_index: Callable[[], bool]
) -> None:
    async with client() as session:
        for accept in ("text/event-stream", "application/json"):
            sending = asyncio.ensure_future(send(session, form(MILL), {"Accept": accept}))
            await until(slow_index)
            sending.cancel()
            with suppress(asyncio.CancelledError):
                await sending
            await until(lambda: not left(stored))
        assert (await get(session, "/v1/corpora"))[1]["corpora"] == ["towns"]


async def test_a_signal_ends_uploads_and_deletes_all(
    stored: Path, slow_index: Callable[[], bool], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "polyhop.serve")
    serving = asyncio.ensure_future(serve(service(), Options(), "127.0.0.1", 0))
    await until(lambda: serving.done() or any(record.getMessage() == "serving" for record in caplog.records))
    facts = next(record.facts for record in caplog.records if record.getMessage() == "serving")  # type: ignore[attr-defined]
    async with aiohttp.ClientSession(facts["url"]) as session:
        await get(session, "/ready")
        indexing = asyncio.ensure_future(send(session, form(MILL)))
        async with half_sent(session):
            await until(lambda: slow_index() and len(left(stored)) == 2)
            os.kill(os.getpid(), signal.SIGTERM)
            status, error = await indexing
            assert (status, error["error"]["type"]) == (503, "stopping")
            await serving
    assert list(stored.iterdir()) == []


async def test_a_document_that_takes_long_does_not_hold_up_the_end(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that converts it is killed."""
    started: list[subprocess.Popen[bytes]] = []

    def slow() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        return started[-1]

    monkeypatch.setattr(converter, "_start", slow)
    async with client() as session:
        sending = asyncio.ensure_future(send(session, form(NOTES)))
        await until(lambda: started)
        sending.cancel()
        with suppress(asyncio.CancelledError):
            await sending
        await until(lambda: not left(stored))
        assert len(started) == 1, "the next document is not begun"
        assert started[0].poll() is not None


async def test_a_full_disk_is_said_and_nothing_stays(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/somewhere/private")

    async with client() as session:
        for place, name, value in (
            (shutil, "disk_usage", lambda _: SimpleNamespace(free=1_000)),
            (Path, "open", full),
            (Path, "mkdir", full),
            (uploads, "build_index", full),
        ):
            with monkeypatch.context() as patch:
                patch.setattr(place, name, value)
                status, error = await send(session, form(MILL))
            assert (status, error["error"]["type"]) == (507, "not_stored"), name
            assert "private" not in error["error"]["message"]
            assert left(stored) == []
        assert (await send(session, form(MILL)))[0] == 201


async def test_a_failure_of_ours_is_logged_and_its_text_is_not_sent(
    stored: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> Any:
        raise RuntimeError("secret")

    monkeypatch.setattr(uploads, "build_index", broken)
    async with client() as session:
        status, error = await send(session, form(MILL))
    assert (status, error["error"]["type"]) == (500, "internal")
    assert "secret" not in error["error"]["message"]
    assert "an upload failed" in caplog.messages
    assert left(stored) == []
