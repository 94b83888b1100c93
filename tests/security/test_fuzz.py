"""Damaged run folders, documents, prompt files, settings and replies of servers: an error of polyhop's, never another.
``POLYHOP_HYPOTHESIS=exploring`` tries far more of them. Replies of models, datasets, corpora and indexes are tried in
files of their own, as are replies of retrieval's servers (docs/security.md lists them)."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyhop.cli.options import pairs
from polyhop.data.converting.child import convert
from polyhop.data.converting.encodings import decode_page
from polyhop.data.converting.html import html_blocks
from polyhop.data.converting.plain import markdown_blocks, text_blocks
from polyhop.errors import DataError, LMError, PolyhopError
from polyhop.evaluation.sweeps.plan import read_plan
from polyhop.lm.base import Completion
from polyhop.lm.replay import ReplayLM
from polyhop.lm.wire import read_chat, read_completion
from polyhop.methods.registry import methods
from polyhop.net.client import Address
from polyhop.net.failures import BadReply
from polyhop.prompts.loading import parse_file
from polyhop.serve.runs import Runs
from tests.kit.documents import epub
from tests.kit.hostile_runs import plain_run
from tests.kit.lm_client import ask
from tests.kit.lm_client import request as asked
from tests.kit.openai_server import FakeServer, Fault

MANY = 2000 if os.environ.get("POLYHOP_HYPOTHESIS", "steady") != "steady" else 40


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    plain_run(folder)
    return folder


@settings(max_examples=MANY, deadline=None)
@given(
    file=st.integers(0, 99),
    position=st.floats(0, 1, exclude_max=True),
    length=st.integers(0, 30),
    put=st.binary(max_size=8) | st.sampled_from([b"null", b"{}", b"[]", b'"x"', b"-1", b"1e999", b"[" * 2000, b"\xff"]),
)
def test_a_damaged_run_is_shown_or_named_and_hides_no_other(
    whole: Path, file: int, position: float, length: int, put: bytes
) -> None:
    with tempfile.TemporaryDirectory() as name:
        run = Path(name) / "run"
        shutil.copytree(whole, run)
        files = sorted(path for path in run.rglob("*.json*") if path.is_file())
        path = files[file % len(files)]
        data = bytearray(path.read_bytes())
        at = int(position * len(data))
        data[at : at + length] = put
        path.write_bytes(data)
        runs = Runs(Path(name))
        assert len(runs.rows()) == 1
        for read in (lambda: runs.run("run"), lambda: runs.questions("run"), lambda: runs.question("run", "q1")):
            told_of(read)
        told_of(lambda: ReplayLM(run))


def told_of(read: Callable[[], object], errors: tuple[type[Exception], ...] = (PolyhopError,)) -> None:
    try:
        read()
    except errors as error:
        assert str(error)  # noqa: PT017


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=MANY, deadline=None)
@given(value=_VALUES, name=st.integers(0, 999))
def test_any_value_of_any_setting_is_taken_or_refused(value: object, name: int) -> None:
    for method in methods().values():
        chosen = list(method.settings)[name % len(method.settings)]
        told_of(lambda method=method, chosen=chosen: method.resolve({chosen: value}))  # type: ignore[misc]


@settings(max_examples=MANY, deadline=None)
@given(text=st.text(max_size=30), begins=st.sampled_from(["", "http://", "https://a@", "http://[", "http://:@", "//"]))
def test_any_address_or_option_is_taken_or_reported(text: str, begins: str) -> None:
    told_of(lambda: Address(begins + text))
    told_of(lambda: pairs([text], "-o", "KEY=VALUE"))


@settings(max_examples=MANY, deadline=None)
@given(run=_VALUES, grid=_VALUES)
def test_any_plan_of_a_sweep_is_taken_or_reported(run: object, grid: object) -> None:
    told_of(lambda: read_plan({"run": run, "grid": grid}))


# --- documents and prompt files --------------------------------------------------------------------------------------

_PIECES = """< > / & ; ! - ? = " ' # <h1> </h2 <p <table><td> <script> <![CDATA[ ]]> <!-- <?xml &#x 999999999 <title>
<meta charset= utf-16 Ada ~~~ === --- title: ... <base href="""
_MARKUP = st.lists(
    st.sampled_from([*_PIECES.split(), " ", "\n"]) | st.text(max_size=5),
    max_size=25,
).map("".join)


@settings(max_examples=5 * MANY, deadline=None)
@given(text=_MARKUP)
def test_any_text_is_a_document(text: str) -> None:
    for read in (html_blocks, markdown_blocks, text_blocks):
        assert all(isinstance(block.text, str) for block in read(text))


@settings(max_examples=5 * MANY, deadline=None)
@given(data=st.binary(max_size=60) | _MARKUP.map(str.encode) | _MARKUP.map(lambda text: text.encode("utf-16")))
def test_any_bytes_are_a_page(data: bytes) -> None:
    if b"\0" not in data:  # with zero bytes it may be no text
        assert isinstance(decode_page(data)[0], str)


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An EPUB."""
    chapters = {f"{name}.xhtml": f"<h1>{name}</h1><p>{name * 40}" for name in "ab"}
    return epub(tmp_path_factory.mktemp("book") / "book.epub", chapters, title="Book").read_bytes()


@settings(max_examples=3 * MANY, deadline=None)
@given(position=st.floats(0, 1, exclude_max=True), length=st.integers(0, 30), put=st.binary(max_size=8))
def test_a_damaged_book_is_read_or_reported(book: bytes, position: float, length: int, put: bytes) -> None:
    at = int(position * len(book))
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / "book.epub").write_bytes(book[:at] + put + book[at + length :])
        told_of(lambda: list(convert(path)), (DataError, OSError))  # the child tells of both


_PROMPT_FILE = st.lists(
    st.sampled_from(
        ["+++", "\n", "# Output\n", "# Input\n", "{question}", "{?x}", "{/}", "{", "}", "task = ", '"a"', "[", "x"]
    )
    | st.text(max_size=4),
    max_size=20,
).map("".join)


@pytest.mark.slow
@settings(max_examples=5 * MANY, deadline=None)
@given(text=_PROMPT_FILE, headed=st.booleans())
def test_any_prompt_file_is_read_or_reported(text: str, headed: bool) -> None:
    told_of(lambda: parse_file("+++\n" * headed + text, "it"))


# --- replies of a model's server --------------------------------------------------------------------------------------

_TOKEN = {"token": "x", "logprob": -0.5, "bytes": [120], "top_logprobs": []}
_CHOICE = {"message": {"content": "x", "refusal": None}, "text": "x", "finish_reason": "stop", "index": 0}
REPLY: dict[str, Any] = {
    "choices": [{**_CHOICE, "logprobs": {"content": [_TOKEN], "tokens": ["x"], "token_logprobs": [-0.5]}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "completion_tokens_details": {"reasoning_tokens": 0}},
}

MISSHAPEN = (BadReply, LookupError, TypeError, AttributeError, ValueError, RecursionError)
"""The errors that a client raises for a reply in another shape (``net/client.py``)."""


def changed(value: Any, path: list[int], put: object) -> Any:
    """The value with another where ``path`` leads in it: the number of an item, then of one in that, and so on."""
    if not path or not isinstance(value, (dict, list)) or not value:
        return put
    keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
    chosen = keys[path[0] % len(keys)]
    items = [(key, changed(value[key], path[1:], put) if key == chosen else value[key]) for key in keys]
    return dict(items) if isinstance(value, dict) else [item for _, item in items]


@settings(max_examples=5 * MANY, deadline=None)
@given(path=st.lists(st.integers(0, 9), max_size=6), put=_VALUES, logprobs=st.booleans())
def test_any_reply_of_a_server_is_read_or_refused(path: list[int], put: object, logprobs: bool) -> None:
    reply = changed(REPLY, path, put)
    request = asked(logprobs=logprobs)
    for read in (read_chat, read_completion):
        told_of(lambda read=read: usable(read(reply, request, ("\n",))), MISSHAPEN)  # type: ignore[misc]


def usable(completion: Completion) -> None:
    """A reply that is taken has the types it should."""
    usage = completion.usage
    assert usage is not None
    for count in (usage.prompt_tokens, usage.completion_tokens):
        assert isinstance(count, int)
        assert count >= 0
    assert isinstance(completion.text, str)
    assert isinstance(completion.finish_reason, str)
    assert all(isinstance(token, str) for token in completion.tokens or ())
    assert all(isinstance(value, (int, float)) for value in completion.logprobs or ())


async def test_a_deeply_nested_reply_is_read_or_refused() -> None:
    deep = b'[{"thinking":' * 500 + b'"x"' + b"}]" * 500
    body = b'{"choices":[{"message":{"content":' + deep + b"}}]}"
    async with FakeServer() as server:
        server.faults.append(Fault(status=200, body=body))
        with suppress(LMError):  # how deep Python goes differs by its version
            usable(await ask(server, retries=0))


@pytest.mark.parametrize("usage", [{"completion_tokens": "many"}, {"prompt_tokens": -9}, {"completion_tokens": [1]}])
def test_counts_of_tokens_that_are_none_are_estimated(usage: dict[str, Any]) -> None:
    reply = {"choices": [_CHOICE], "usage": {"prompt_tokens": 1, "completion_tokens": 1, **usage}}
    completion = read_chat(reply, asked())
    usable(completion)
    assert completion.usage is not None
    assert completion.usage.estimated
