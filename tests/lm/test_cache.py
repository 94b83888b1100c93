"""The cache: its keys, its file, and the model it stands before."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyhop.errors import CapabilityError, DataError, LMError
from polyhop.lm import (
    CachedLM,
    Capabilities,
    Completion,
    CompletionCache,
    LanguageModel,
    Request,
    ScoreRequest,
    ScriptedLM,
    TokenScores,
    TokenUsage,
)
from polyhop.lm import cache_store as store
from polyhop.lm.cache import request_key
from polyhop.types import Evidence, Passage


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[CompletionCache]:
    made = CompletionCache(tmp_path / "lm.sqlite")
    yield made
    made.close()


def request(text: str = "Where?", **more: Any) -> Request:
    return Request(
        task="answer.direct", fields={"question": text}, messages=[{"role": "user", "content": text}], **more
    )


# --- keys ------------------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
MAPPINGS = st.dictionaries(st.text(), JSON, max_size=4)
REQUESTS = st.builds(
    Request,
    task=st.text(),
    fields=MAPPINGS,
    messages=st.lists(st.fixed_dictionaries({"role": st.just("user"), "content": st.text()}), max_size=2),
    schema=st.none() | MAPPINGS,
    max_tokens=st.integers(0, 9),
    temperature=st.floats(0, 2),
    stop=st.lists(st.text(), max_size=2).map(tuple),
    seed=st.none() | st.integers(0, 9),
    logprobs=st.booleans(),
    sample=st.integers(0, 3),
)


@given(REQUESTS, REQUESTS, st.sampled_from([field.name for field in fields(Request)]))
def test_any_changed_field_changes_the_key(one: Request, other: Request, name: str) -> None:
    changed = replace(one, **{name: getattr(other, name)})
    same = repr(getattr(one, name)) == repr(getattr(other, name)) or (
        # 1 and 1.0, -0.0 and 0.0 print differently and are different keys; equal mappings in another order are not.
        _sorted(getattr(one, name)) == _sorted(getattr(other, name))
    )
    assert (request_key("m", one) == request_key("m", changed)) is same
    assert request_key("m", one) != request_key("m2", one)


def _sorted(value: Any) -> str:
    if isinstance(value, dict):
        return str(sorted((key, _sorted(item)) for key, item in value.items()))
    return str([_sorted(item) for item in value]) if isinstance(value, (list, tuple)) else repr(value)


@given(MAPPINGS)
def test_the_order_of_a_mapping_does_not_matter(mapping: dict[str, Any]) -> None:
    turned = dict(reversed(mapping.items()))
    one, other = (Request(task="t", fields={"a": value}, messages=[], schema=value) for value in (mapping, turned))
    assert request_key("m", one) == request_key("m", other) is not None


ODD: list[Any] = [
    2**70,
    -(2**70),
    {1: "a"},
    {"1": "a"},
    {1, 2},
    {1, 3},
    b"a",
    "a",
    "\ud800",
    "\ud801",
    1,
    1.0,
    True,
    "1",
    None,
]


def test_odd_values_have_distinct_keys() -> None:
    keys = [request_key("m", Request(task="t", fields={"a": value}, messages=[])) for value in ODD]
    assert None not in keys
    assert len(set(keys)) == len(ODD)
    assert keys == [request_key("m", Request(task="t", fields={"a": value}, messages=[])) for value in ODD]


def test_a_passage_counts_by_id_title_text_and_links() -> None:
    def key(passage: Any) -> bytes | None:
        return request_key("m", Request(task="t", fields={"passages": [passage]}, messages=[]))

    passage = Passage("1", "Jaws", "A film.", ("Shark",))
    others = [
        replace(passage, id="x"),
        replace(passage, title="x"),
        replace(passage, text="x"),
        replace(passage, links=()),
    ]
    assert len({key(other) for other in [passage, *others, passage.to_dict()]}) == 6
    assert key(passage) == key(replace(passage, metadata={"score": 3}))
    assert key(Evidence((passage,), "x")) not in (None, key(Evidence((passage,), "y")))


def test_tuples_are_lists() -> None:
    one, other = (Request(task="t", fields={"a": value}, messages=[], stop=()) for value in ((1, 2), [1, 2]))
    assert request_key("m", one) == request_key("m", other)


def test_scores_and_completions_have_distinct_keys() -> None:
    asked = ScoreRequest(task="t", prompt="p", target="q", fields={})
    keys = {request_key("m", asked)} | {
        request_key("m", replace(asked, **change))
        for change in ({"task": "u"}, {"prompt": "pq"}, {"target": ""}, {"fields": {"a": 1}}, {"temperature": 2.0})
    }
    assert len(keys) == 6


# --- what is kept ----------------------------------------------------------------------------------------------------

FULL = Completion(
    text="Paris é \u2028 日",
    value={"answer": "Paris", "why": None},
    tokens=("Par", "is"),
    logprobs=(-0.1, -2.25),
    usage=TokenUsage(prompt_tokens=3, completion_tokens=2, estimated=True),
    finish_reason="length",
    reasoning="hm",
    retries=4,
)


async def test_a_cached_reply_equals_the_reply(cache: CompletionCache, tmp_path: Path) -> None:
    model = ScriptedLM({"answer.direct": [FULL]})
    lm = CachedLM(model, cache)
    assert await lm.complete(request()) == FULL
    hit = await lm.complete(request())
    assert hit == replace(FULL, retries=0, cached=True)
    await lm.aclose()
    again = CachedLM(ScriptedLM({}), CompletionCache(tmp_path / "lm.sqlite"))
    assert await again.complete(request()) == hit
    assert len(model.calls) == 1
    again.cache.close()


async def test_another_sample_is_another_request(cache: CompletionCache) -> None:
    lm = CachedLM(ScriptedLM({"answer.direct": ["one", "two"]}), cache)
    assert [(await lm.complete(request(sample=n))).text for n in (0, 1, 0, 1)] == ["one", "two", "one", "two"]


async def test_models_do_not_share_replies(cache: CompletionCache) -> None:
    for name in ("a", "b"):
        lm = CachedLM(ScriptedLM(lambda task, fields, name=name: name, name=name), cache)  # type: ignore[misc]
        assert (await lm.complete(request())).text == name


@pytest.mark.parametrize(
    "reply",
    [
        Completion(text="half", finish_reason="content_filter"),
        Completion(text=" \n"),
        Completion(text="x", tokens=("x",), logprobs=(float("-inf"),)),
        Completion(text="x", value={"a": object()}),
        Completion(text="\ud800"),
    ],
)
async def test_empty_or_unserialisable_replies_are_not_cached(cache: CompletionCache, reply: Completion) -> None:
    model = ScriptedLM({"answer.direct": [reply, Completion(text="good")]})
    lm = CachedLM(model, cache)
    assert (await lm.complete(request())).text == reply.text
    assert [(await lm.complete(request())).text for _ in range(2)] == ["good", "good"]
    assert len(model.calls) == 2


async def test_failures_are_not_cached(cache: CompletionCache) -> None:
    lm = CachedLM(ScriptedLM({"answer.direct": [LMError("down"), "good"]}), cache)
    with pytest.raises(LMError):
        await lm.complete(request())
    assert (await lm.complete(request())).text == "good"


async def test_a_request_without_a_key_is_not_cached(cache: CompletionCache) -> None:
    model = ScriptedLM({"t": ["one", "two"]})
    lm = CachedLM(model, cache)
    odd = Request(task="t", fields={"a": object()}, messages=[])
    assert [(await lm.complete(odd)).text for _ in range(2)] == ["one", "two"]


def test_other_attributes_are_the_models(cache: CompletionCache) -> None:
    class Counting(ScriptedLM):
        def count_tokens(self, text: str) -> int:
            return len(text)

    model = Counting({}, name="n")
    lm = CachedLM(model, cache)
    assert isinstance(lm, LanguageModel)
    assert (lm.name, lm.capabilities, lm.count_tokens("abc")) == ("n", model.capabilities, 3)
    assert not hasattr(lm, "truncate")


# --- calls under way -------------------------------------------------------------------------------------------------


class Slow:
    """Answers when told to, and knows what became of its calls."""

    name = "slow"
    capabilities = ScriptedLM({}).capabilities

    def __init__(self) -> None:
        self.go, self.started, self.asked, self.cancelled = asyncio.Event(), asyncio.Event(), 0, 0
        self.error: Exception | None = None

    async def complete(self, request: Request) -> Completion:
        self.asked += 1
        self.started.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            for _ in range(10):  # a connection takes its time to close
                await asyncio.sleep(0)
            raise
        if self.error is not None:
            raise self.error
        return Completion(text="x", retries=2)


async def test_identical_requests_in_flight_are_one_call(cache: CompletionCache) -> None:
    model = Slow()
    lm = CachedLM(model, cache)
    tasks = [asyncio.ensure_future(lm.complete(request())) for _ in range(3)]
    await model.started.wait()
    model.go.set()
    replies = await asyncio.gather(*tasks)
    assert model.asked == 1
    assert [(reply.text, reply.cached, reply.retries) for reply in replies] == [("x", False, 2)] + [("x", True, 0)] * 2


async def test_a_second_caller_survives_the_cancelled_first(cache: CompletionCache) -> None:
    model = Slow()
    lm = CachedLM(model, cache)
    first, second = (asyncio.ensure_future(lm.complete(request())) for _ in range(2))
    await model.started.wait()
    first.cancel()
    await asyncio.sleep(0)
    model.go.set()
    assert (await second).text == "x"
    assert (model.asked, first.cancelled(), model.cancelled) == (1, True, 0)


async def test_the_call_ends_when_nobody_waits_for_it(cache: CompletionCache) -> None:
    model = Slow()
    lm = CachedLM(model, cache)
    tasks = [asyncio.ensure_future(lm.complete(request())) for _ in range(2)]
    await model.started.wait()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    model.go.set()
    assert (await lm.complete(request())).text == "x"  # it must not join the call that is ending
    assert (model.asked, model.cancelled) == (2, 1)


async def test_every_waiting_caller_gets_the_error(cache: CompletionCache) -> None:
    model = Slow()
    model.error = LMError("down")
    lm = CachedLM(model, cache)
    tasks = [asyncio.ensure_future(lm.complete(request())) for _ in range(2)]
    await model.started.wait()
    model.go.set()
    assert await asyncio.gather(*tasks, return_exceptions=True) == [model.error] * 2
    model.error = None
    assert (await lm.complete(request())).text == "x"
    assert model.asked == 2


# --- scores ----------------------------------------------------------------------------------------------------------


def scored(target: str, **more: Any) -> ScoreRequest:
    return ScoreRequest(task="t", prompt="p", target=target, **more)


async def test_scores_are_cached_one_by_one(cache: CompletionCache) -> None:
    model = ScriptedLM({}, score=lambda asked: TokenScores((asked.target,), (-float(len(asked.target)),)))
    lm = CachedLM(model, cache)
    first = await lm.score([scored("a"), scored("bb"), scored("a")])
    second = await lm.score([scored("ccc"), scored("bb"), scored("a", temperature=2.0)])
    assert [score.logprobs for score in first + second] == [(-1.0,), (-2.0,), (-1.0,), (-3.0,), (-2.0,), (-1.0,)]
    assert [asked.target for asked in model.score_calls] == ["a", "bb", "ccc", "a"]
    odd = [scored("a", fields={"x": object()})] * 2
    assert len(await lm.score(odd)) == 2
    assert len(model.score_calls) == 6


class SlowScorer(Slow):
    """Scores when told to, and knows what it was asked."""

    capabilities = Capabilities(score=True)

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[list[str]] = []

    async def score(self, requests: Sequence[ScoreRequest]) -> list[TokenScores]:
        self.targets.append([one.target for one in requests])
        await self.go.wait()
        if self.error is not None:
            raise self.error
        return [TokenScores((one.target,), (-float(len(one.target)),)) for one in requests]


async def test_a_score_in_flight_is_not_requested_again(cache: CompletionCache) -> None:
    model = SlowScorer()
    lm = CachedLM(model, cache)
    asked = (["a", "bb"], ["bb", "ccc"], ["a"])
    tasks = [asyncio.ensure_future(lm.score([scored(target) for target in targets])) for targets in asked]
    await asyncio.sleep(0)
    assert model.targets == [["a", "bb"], ["ccc"]]
    model.go.set()
    found = [[one.logprobs[0] for one in scores] for scores in await asyncio.gather(*tasks)]
    assert found == [[-1.0, -2.0], [-2.0, -3.0], [-1.0]]
    assert not lm._scores


async def test_a_score_of_a_cancelled_caller_is_requested_by_the_next(cache: CompletionCache) -> None:
    model = SlowScorer()
    lm = CachedLM(model, cache)
    first, second = (asyncio.ensure_future(lm.score([scored("a")])) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    model.go.set()
    assert [one.logprobs for one in await second] == [(-1.0,)]
    assert model.targets == [["a"], ["a"]]


async def test_failed_scores_fail_every_caller_and_are_not_cached(cache: CompletionCache) -> None:
    model = SlowScorer()
    model.error = LMError("down")
    lm = CachedLM(model, cache)
    tasks = [asyncio.ensure_future(lm.score([scored("a")])) for _ in range(2)]
    await asyncio.sleep(0)
    model.go.set()
    assert await asyncio.gather(*tasks, return_exceptions=True) == [model.error] * 2
    model.error = None
    assert [one.logprobs for one in await lm.score([scored("a")])] == [(-1.0,)]
    assert model.targets == [["a"], ["a"]]


async def test_a_model_that_cannot_score_still_cannot(cache: CompletionCache) -> None:
    with pytest.raises(CapabilityError):
        await CachedLM(ScriptedLM({}), cache).score([scored("a")])


# --- the file --------------------------------------------------------------------------------------------------------

WRITER = """
import os, sys, time
from polyhop.lm import Completion, CompletionCache
cache = CompletionCache(sys.argv[1])
for n in range(int(sys.argv[2])):
    cache.keep(f"{sys.argv[3]}.{n}".encode(), Completion(text="x" * 1000), model="m", task="t")
"""


def run(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    return out


def test_processes_share_one_new_file(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down" / "lm.sqlite"
    for process in [run(WRITER, path, 200, name) for name in range(4)]:
        finished(process)  # none closes its cache: the last replies are written as the process ends
    cache = CompletionCache(path)
    assert all(cache.completion(f"{name}.{n}".encode()) for name in range(4) for n in range(200))
    cache.close()


def test_opening_waits_for_others_that_open_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    busy = sqlite3.OperationalError("database is locked")
    busy.sqlite_errorcode = sqlite3.SQLITE_BUSY
    prepare, attempts = store._prepare, iter([busy, busy])

    def locked_at_first(connection: sqlite3.Connection, path: Path) -> sqlite3.Connection:
        for error in attempts:
            raise error
        return prepare(connection, path)

    monkeypatch.setattr(store, "_prepare", locked_at_first)
    cache = CompletionCache(tmp_path / "lm.sqlite")
    assert cache.on
    cache.close()


def test_replies_of_a_killed_process_are_found(tmp_path: Path) -> None:
    path = tmp_path / "lm.sqlite"
    process = run(WRITER + "time.sleep(60)", path, 20, 0)
    cache = CompletionCache(path)
    end = time.monotonic() + 30
    while cache.completion(b"0.19") is None and time.monotonic() < end:
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert all(cache.completion(f"0.{n}".encode()) for n in range(20))
    cache.close()


def test_it_can_be_used_again_after_closing(cache: CompletionCache) -> None:
    for n in range(3):
        cache.keep(b"%d" % n, Completion(text="x"), model="m", task="t")
        cache.close()
        assert cache.completion(b"%d" % n)


def test_the_newest_reply_under_a_key_wins(cache: CompletionCache) -> None:
    for text in ("one", "two"):
        cache.keep(b"k", Completion(text=text), model="m", task="t")
    assert cache.completion(b"k") == Completion(text="two", cached=True)
    cache.flush()
    assert cache.completion(b"k") == Completion(text="two", cached=True)


def _database(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_another_programs_file_is_an_error(tmp_path: Path) -> None:
    garbage, other, newer = tmp_path / "garbage", tmp_path / "other", tmp_path / "newer"
    garbage.write_bytes(b"this is no database at all" * 100)
    _database(other, "CREATE TABLE mine (a)")
    CompletionCache(newer).close()
    _database(newer, "PRAGMA user_version = 99")
    for path, words in ((garbage, "delete it"), (other, "another program's"), (newer, "another version.*delete it")):
        before = path.read_bytes()
        with pytest.raises(DataError, match=words) as caught:
            CompletionCache(path)
        assert str(path) in str(caught.value)
        assert path.read_bytes() == before


def test_a_corrupt_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "lm.sqlite"
    finished(run(WRITER, path, 200, 0))
    CompletionCache(path).close()  # folds the log into the file
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    with pytest.raises(DataError, match="delete it") as caught:
        CompletionCache(path).completion(b"0.1")
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("reply", ["NULL", "'{}'", "42", "1000000000000", "0.5", "zeroblob(20000)"])
def test_a_row_of_another_type_or_size_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reply: str) -> None:
    monkeypatch.setattr(store, "_MAX_BYTES", 10_000)
    path = tmp_path / "lm.sqlite"
    CompletionCache(path).close()
    _database(path, f"INSERT INTO replies VALUES (x'00', 'm', 't', 0.0, {reply})")
    with pytest.raises(DataError, match=r"not a usable cache.*delete it"):
        CompletionCache(path).completion(b"\0")


def test_a_view_instead_of_the_table_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "lm.sqlite"
    CompletionCache(path).close()
    _database(path, "DROP TABLE replies", "CREATE VIEW replies AS SELECT x'00' AS key, 42 AS reply")
    with pytest.raises(DataError, match=r"a reply is int\): delete it"):
        CompletionCache(path).completion(b"\0")


@pytest.mark.parametrize(
    "reply",
    [
        b"[]",
        b"7",
        b"{}",
        b"{",
        b'{"text": 5}',
        b'{"text": "x", "value": []}',
        b'{"text": "x", "tokens": "ab"}',
        b'{"text": "x", "tokens": [1]}',
        b'{"text": "x", "logprobs": ["a"]}',
        b'{"text": "x", "logprobs": 1}',
        b'{"text": "x", "usage": {"prompt_tokens": "7"}}',
        b'{"text": "x", "usage": {"more": 7}}',
        b'{"text": "x", "finish_reason": null}',
        b'{"text": "x", "more": 1}',
        b'{"text": "x", "cached": true}',
    ],
)
def test_a_reply_of_another_shape_is_an_error(tmp_path: Path, reply: bytes) -> None:
    path = tmp_path / "lm.sqlite"
    CompletionCache(path).close()
    _database(path, f"INSERT INTO replies VALUES (x'00', 'm', 't', 0.0, x'{reply.hex()}')")
    cache = CompletionCache(path)
    with pytest.raises(DataError, match=r"not a usable cache.*delete it"):
        cache.completion(b"\0")
    with pytest.raises(DataError, match=r"not a usable cache.*delete it"):
        cache.scores(b"\0")
    cache.close()


async def test_an_unwritable_path_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    cache = CompletionCache(tmp_path / "file" / "lm.sqlite")
    lm = CachedLM(ScriptedLM({"answer.direct": ["one", "two"]}), cache)
    assert [(await lm.complete(request())).text for _ in range(2)] == ["one", "two"]
    await lm.aclose()
    cache.close()
    assert not cache.on
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert str(cache.path) in record.getMessage()


FULL_DISK = """
import asyncio, resource, signal, sys
from polyhop.lm import CachedLM, CompletionCache, Request, ScriptedLM

async def main():
    cache = CompletionCache(sys.argv[1])
    lm = CachedLM(ScriptedLM(lambda task, fields: "x" * 50_000), cache)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))  # a file cannot grow beyond: as a full disk
    for n in range(40):
        reply = await lm.complete(Request(task="t", fields={"n": n}, messages=[]))
        assert len(reply.text) == 50_000
        cache.flush()
    print(cache.on)
    await lm.aclose()
    cache.close()

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
asyncio.run(main())
"""


def test_a_schema_that_is_no_text_is_a_broken_file(tmp_path: Path) -> None:
    path = tmp_path / "lm.sqlite"
    CompletionCache(path).close()
    with contextlib.closing(sqlite3.connect(path)) as opened, opened:
        opened.execute("PRAGMA writable_schema = ON")
        opened.execute("UPDATE sqlite_master SET sql = CAST(? AS TEXT)", (b"CREATE TABLE replies \x82 \x82",))
    with pytest.raises(DataError, match=r"not a usable cache.*delete it"):
        CompletionCache(path).completion(b"key")


@pytest.mark.skipif(sys.platform == "win32", reason="no limit on the size of files")
def test_a_full_disk_is_one_warning_and_the_run_continues(tmp_path: Path) -> None:
    process = run(FULL_DISK, tmp_path / "lm.sqlite")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "False\n")
    assert err.count("going on without it") == 1
    assert str(tmp_path / "lm.sqlite") in err


def test_the_default_file_is_in_the_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POLYHOP_CACHE", str(tmp_path / "folder"))
    cache = CompletionCache()
    assert cache.path == tmp_path / "folder" / "lm.sqlite"
    assert cache.path.exists()
    cache.close()
