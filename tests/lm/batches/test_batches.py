"""The files of a batch and what is made of their results, call by call."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polyhop.errors import DataError, PolyhopError, UsageError, Waiting
from polyhop.lm import Completion, CompletionCache, OpenAICompatible, Request
from polyhop.lm.batches import BatchedLM, BatchFolder, ImportCounts
from polyhop.lm.batches import folder as folders
from polyhop.lm.batches.folder import read_results
from polyhop.lm.cache import request_key
from polyhop.lm.wire import FILTERED
from tests.kit import batches as kit
from tests.kit.lm_client import request


class Desk:
    """A batch's folder, its model and the cache, opened anew for every layer, as ever new commands do."""

    def __init__(self, folder: Path, **limits: int) -> None:
        self.folder, self.limits = folder, limits
        self.cache = CompletionCache(folder.parent / "lm.sqlite")
        self.model = OpenAICompatible("tiny", "http://localhost:1/v1")
        self.taken = ImportCounts()

    def layer(self, *texts: str, seal: bool = True, skip_bad: bool = False, **more: Any) -> list[Any]:
        """Ask these: the completions, or the errors in their places."""
        files = BatchFolder(self.folder, **self.limits)
        try:
            self.taken = files.import_results({self.model.name: self.model}, skip_bad=skip_bad)
            lm = BatchedLM(self.model, self.cache, files)
            got = [asyncio.run(outcome(lm, request(text, **more))) for text in texts]
            files.seal() if seal else files.abandon()
        finally:
            files.close()
        return got

    def answer(self, name: str, rows: Sequence[kit.Row]) -> Path:
        """Put a file of results there."""
        return kit.write(self.folder / name, list(rows))


async def outcome(lm: BatchedLM, asked: Request) -> Completion | PolyhopError:
    try:
        return await lm.complete(asked)
    except PolyhopError as error:
        return error


Desks = Callable[..., Desk]


@pytest.fixture
def desks(tmp_path: Path) -> Iterator[Desks]:
    """Makes desks by name and limits, and closes them."""
    with ExitStack() as made:

        def make(name: str, **limits: int) -> Desk:
            desk = Desk(tmp_path / name, **limits)
            made.callback(desk.cache.close)
            return desk

        yield make


@pytest.fixture
def desk(desks: Desks) -> Desk:
    return desks("batch")


def here(body: Any) -> str:
    return f"Re: {body['messages'][0]['content']}"


def texts(got: Sequence[Any]) -> list[str]:
    return [one.text if isinstance(one, Completion) else type(one).__name__ for one in got]


# --- requests --------------------------------------------------------------------------------------------------------


def test_a_request_has_openais_form_and_is_the_body_of_the_call(desk: Desk) -> None:
    assert texts(desk.layer("A?", temperature=0.5, stop=("\n",))) == ["Waiting"]
    (row,) = kit.requests(desk.folder)
    asked = request("A?", temperature=0.5, stop=("\n",))
    key = request_key(desk.model.identity, asked)
    assert key is not None
    assert row == {
        "custom_id": f"1-{key.hex()}",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": orjson.loads(desk.model.written(asked)),
    }
    assert len(row["custom_id"]) <= 64
    assert row["body"]["messages"] == [{"role": "user", "content": "A?"}]


def test_a_call_is_written_once(desk: Desk) -> None:
    desk.layer("A?", "B?", "A?")
    assert [row["body"]["messages"][0]["content"] for row in kit.requests(desk.folder)] == ["A?", "B?"]
    assert texts(desk.layer("B?", "A?")) == ["Waiting", "Waiting"]
    assert len(kit.requests(desk.folder)) == 2


def test_each_sample_is_a_separate_request(desk: Desk) -> None:
    desk.layer("A?", sample=0)
    desk.layer("A?", sample=1)
    first, second = kit.requests(desk.folder)
    assert first["body"] == second["body"]
    assert first["custom_id"][2:] != second["custom_id"][2:]


def test_files_are_split_by_requests_and_bytes(desks: Desks) -> None:
    few = desks("few", max_requests=2)
    few.layer(*"ABCDE")
    assert [len(kit.requests(few.folder, number)) for number in (1, 2, 3)] == [2, 2, 1]
    small = desks("small", max_bytes=700)
    small.layer(*"ABCDE")
    sizes = [path.stat().st_size for path in small.folder.glob("requests-*.jsonl")]
    assert len(sizes) > 1
    assert max(sizes) <= 700
    assert len(kit.requests(small.folder)) == 5
    assert (folders.MAX_REQUESTS, folders.MAX_BYTES) == (50_000, 200 * 10**6)


def test_each_model_has_separate_files(desk: Desk) -> None:
    files = BatchFolder(desk.folder)
    for name in ("one", "two", "one"):
        files.ask(name.encode() + bytes([len(files.waiting)]), name, "/v1/chat/completions", b"{}")
        files.ask(name.encode(), name, "/v1/chat/completions", b"{}")
    files.seal()
    assert [(part.file, part.model, part.requests) for part in files.waiting] == [
        ("requests-0001.jsonl", "one", 4), ("requests-0002.jsonl", "two", 2)
    ]  # fmt: skip
    files.close()


def test_abandoned_calls_were_never_asked(desk: Desk) -> None:
    desk.layer("A?", seal=False)
    assert sorted(path.name for path in desk.folder.iterdir()) == ["batch.lock", "batch.sqlite"]
    desk.layer("A?")
    assert len(kit.requests(desk.folder)) == 1


def test_a_kill_before_renaming_loses_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    files = BatchFolder(desk.folder)
    lm = BatchedLM(desk.model, desk.cache, files)
    asyncio.run(outcome(lm, request("A?")))
    with monkeypatch.context() as killed:
        killed.setattr(files, "_recover", lambda: None)
        files.seal()
    files.close()
    assert not kit.requests(desk.folder)
    assert texts(desk.layer("A?")) == ["Waiting"]
    assert len(kit.requests(desk.folder)) == 1


def test_a_kill_before_the_commit_discards_the_file(desk: Desk) -> None:
    desk.layer("A?")
    (desk.folder / "requests-0002.jsonl.part").write_text('{"custom_id": "2-00"')
    desk.layer("B?")
    assert [row["body"]["messages"][0]["content"] for row in kit.requests(desk.folder)] == ["A?", "B?"]
    assert not list(desk.folder.glob("*.part"))


def test_two_processes_do_not_share_a_folder(desk: Desk) -> None:
    files = BatchFolder(desk.folder)
    with pytest.raises(UsageError, match="another process uses this batch"):
        BatchFolder(desk.folder)
    files.close()
    BatchFolder(desk.folder).close()


def test_an_unusable_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="file: the batch cannot be used"):
        BatchFolder(tmp_path / "file")
    (tmp_path / "batch.sqlite").write_text("no database, but long enough to be looked at for one" * 40)
    with pytest.raises(DataError, match="not a usable batch"):
        BatchFolder(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE calls SET reply = NULL",
        "UPDATE calls SET reply = 'text'",
        "UPDATE calls SET reply = 1000000000000",
        "UPDATE calls SET attempts = 'often'",
        "UPDATE calls SET state = 'unheard of'",
        "UPDATE calls SET state = 'answered', reply = x'00'",
        "UPDATE calls SET state = 'answered', reply = x'7b7d'",
        "UPDATE parts SET url = x'07'",
        "UPDATE parts SET requests = 'many'",
        "INSERT INTO refused VALUES ('openai:tiny', x'07')",
    ],
)
def test_a_row_of_another_type_is_named(tmp_path: Path, change: str) -> None:
    model = OpenAICompatible("tiny", "http://localhost:1/v1", "key")
    key = request_key(model.identity, request("A?"))
    assert key is not None
    with closing(BatchFolder(tmp_path)) as folder:
        folder.ask(key, "openai:tiny", model.path, b"{}")
        folder.seal()
    with closing(sqlite3.connect(tmp_path / "batch.sqlite")) as database, database:
        database.execute(change)

    def use() -> None:
        with closing(BatchFolder(tmp_path)) as folder:
            folder.left_out("openai:tiny")
            asyncio.run(BatchedLM(model, CompletionCache(tmp_path / "lm.sqlite"), folder).complete(request("A?")))

    with pytest.raises(DataError, match="not a usable batch"):
        use()


# --- results ---------------------------------------------------------------------------------------------------------


def test_a_reply_goes_into_the_cache_under_the_calls_own_key(desk: Desk) -> None:
    desk.layer("A?", "B?")
    rows = [kit.result(row, here) for row in kit.requests(desk.folder)]
    desk.answer("batch_68f_output.jsonl", rows[::-1])
    got = desk.layer("A?", "B?")
    assert texts(got) == ["Re: A?", "Re: B?"]
    assert [one.cached for one in got] == [False, False]
    assert desk.taken.answered == 2
    key = request_key(desk.model.identity, request("A?"))
    assert key is not None
    kept = desk.cache.completion(key)
    assert kept is not None
    assert (kept.text, kept.usage) == (got[0].text, got[0].usage)
    assert [one.cached for one in desk.layer("A?")] == [True]
    assert not desk.taken.duplicates  # a file is read once


def test_uncacheable_replies_are_not_asked_again(desk: Desk) -> None:
    desk.layer("Empty?", "Withheld?", "Refused?")
    empty, withheld, refused = kit.requests(desk.folder)
    answered = kit.result(withheld, here)
    answered["response"]["body"]["choices"][0]["finish_reason"] = "content_filter"
    rows = [kit.result(empty, lambda body: ""), answered, kit.failure(refused, 400, "no", code="content_filter")]
    desk.answer("results.jsonl", rows)
    for _ in range(2):
        got = desk.layer("Empty?", "Withheld?", "Refused?")
        assert texts(got) == ["", "", ""]
        assert got[1].finish_reason == "content_filter"
        assert got[2] == FILTERED
    assert len(kit.requests(desk.folder)) == 3


def test_failed_and_missing_calls_are_in_the_next_file(desk: Desk) -> None:
    desk.layer("Good?", "Busy?", "Late?", "Lost?", "Odd?")
    good, busy, late, _, odd = kit.requests(desk.folder)
    odd = kit.result(odd, here)
    odd["response"]["body"]["choices"] = []
    desk.answer("results.jsonl", [kit.result(good, here), kit.failure(busy, 429, "slow down"), odd])
    desk.answer("errors.jsonl", [kit.expired(late)])
    asked = ("Good?", "Busy?", "Late?", "Lost?", "Odd?")
    assert texts(desk.layer(*asked)) == ["Re: Good?", *["Waiting"] * 4]
    taken = desk.taken
    assert (taken.answered, taken.failed, taken.missing, taken.refused) == (1, 3, 1, 0)
    assert taken.reasons["429 Too Many Requests: slow down"] == 1
    assert "This request could not be executed in time." in taken.reasons
    again = kit.requests(desk.folder, 2)
    assert [row["body"]["messages"][0]["content"] for row in again] == ["Busy?", "Late?", "Lost?", "Odd?"]
    assert {row["custom_id"][:2] for row in again} == {"2-"}
    desk.answer("results-2.jsonl", [kit.result(row, here) for row in again])
    assert texts(desk.layer(*asked)) == [f"Re: {text}" for text in asked]


def test_a_file_without_results_keeps_waiting(desks: Desks) -> None:
    desk = desks("batch", max_requests=1)
    desk.layer("A?", "B?")
    desk.answer("results.jsonl", [kit.result(kit.requests(desk.folder, 1)[0], here)])
    assert texts(desk.layer("A?", "B?")) == ["Re: A?", "Waiting"]
    assert desk.taken.missing == 0
    assert len(kit.requests(desk.folder)) == 2


def test_a_late_result_counts_but_a_late_error_does_not(desk: Desk) -> None:
    desk.layer("A?", "B?", "C?")
    a, b, c = kit.requests(desk.folder)
    desk.answer("results.jsonl", [kit.result(a, here)])
    desk.layer("A?", "B?", "C?")
    desk.answer("late.jsonl", [kit.result(b, here), kit.failure(c, 400, "long gone")])
    assert texts(desk.layer("B?", "C?")) == ["Re: B?", "Waiting"]
    second = kit.requests(desk.folder, 2)
    desk.answer("results-2.jsonl", [kit.result(row, lambda body: "another") for row in second])
    assert texts(desk.layer("B?", "C?")) == ["Re: B?", "another"]
    assert desk.taken.duplicates == 1


def test_a_duplicate_result_counts_once(desk: Desk) -> None:
    desk.layer("A?")
    (row,) = kit.requests(desk.folder)
    desk.answer("results.jsonl", [kit.result(row, here), kit.result(row, lambda body: "another")])
    assert texts(desk.layer("A?")) == ["Re: A?"]
    assert (desk.taken.answered, desk.taken.duplicates) == (1, 1)


@pytest.mark.parametrize("way", ["openai", "vllm", "vllm in words"])
def test_a_refused_call_fails_its_question_until_a_later_run(desk: Desk, way: str) -> None:
    desk.layer("A?", "B?")
    a, _ = kit.requests(desk.folder)
    words = "This model's maximum context length is 8 tokens."
    refusal = kit.failure(a, 400, words)
    if way != "openai":
        refusal["response"]["body"] = None
        refusal["error"] = words if way == "vllm in words" else {"error": {"message": words, "code": 400}}
    desk.answer("results.jsonl", [refusal])
    error, waiting = desk.layer("A?", "B?")
    assert isinstance(waiting, Waiting)
    assert "model 'tiny' at http://localhost:1/v1: 400 Bad Request: This model's maximum context" in str(error)
    assert "fewer or shorter passages" in str(error)
    assert texts(desk.layer("A?")) == ["PolyhopError"]  # as long as others wait
    desk.answer("results-2.jsonl", [kit.result(row, here) for row in kit.requests(desk.folder, 2)])
    assert texts(desk.layer("A?", "B?")) == ["PolyhopError", "Re: B?"]
    assert texts(desk.layer("A?", "B?")) == ["Waiting", "Re: B?"]


def test_three_failures_fail_the_question(desk: Desk) -> None:
    for number in (1, 2, 3):
        assert texts(desk.layer("A?")) == ["Waiting"]
        desk.answer(f"results-{number}.jsonl", [kit.failure(kit.requests(desk.folder, number)[0], 500, "down")])
    (error,) = desk.layer("A?")
    assert "500 Internal Server Error: down (3 attempts" in str(error)


def test_a_refused_parameter_is_left_out_from_then_on(desk: Desk) -> None:
    desk.layer("A?", "B?")
    unsupported = {"param": "max_tokens", "code": "unsupported_parameter"}
    words = "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    desk.answer("r.jsonl", [kit.failure(row, 400, words, **unsupported) for row in kit.requests(desk.folder)])
    desk.layer("A?")
    (body,) = (row["body"] for row in kit.requests(desk.folder, 2))
    assert "max_tokens" not in body
    assert body["max_completion_tokens"] == 512
    desk.model = OpenAICompatible("tiny", "http://localhost:1/v1")  # another process
    desk.layer("B?")
    assert "max_tokens" not in kit.requests(desk.folder, 3)[0]["body"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "unexpected end"),
        ("[]", "must be integers or slices"),
        ('{"response": null}', "no 'custom_id'"),
        ('{"custom_id": 7}', "'int' object has no attribute"),
        ('{"custom_id": "request-1"}', "invalid literal"),
        ('{"custom_id": "1-00", "response": {"status_code": "yes"}}', "invalid literal"),
        ('{"custom_id": "1-00"}', "never made here"),
        ('{"custom_id": "9-' + 40 * "0" + '"}', "never made here"),
    ],
)
def test_an_invalid_line_is_named_and_nothing_is_imported(desk: Desk, line: str, why: str) -> None:
    desk.layer("A?")
    path = desk.answer("results.jsonl", [kit.result(row, here) for row in kit.requests(desk.folder)])
    path.write_text(path.read_text() + "\n" + line + "\n")
    with pytest.raises(DataError, match=rf"results\.jsonl:3: .*{why}"):
        desk.layer("A?")
    files = BatchFolder(desk.folder)
    key = bytes.fromhex(kit.requests(desk.folder)[0]["custom_id"][2:])
    call = files.call(key)
    assert call is not None
    assert call.state == "asked"
    files.close()
    assert texts(desk.layer("A?", skip_bad=True)) == ["Re: A?"]
    assert desk.taken.skipped == 1


@given(st.binary(max_size=60) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just("1-00") | st.just(200),
    lambda inner: st.dictionaries(st.sampled_from(["custom_id", "response", "error", "body", "status_code", "choices"]),
                                  inner, max_size=4) | st.lists(inner, max_size=2),
    max_leaves=8,
).map(lambda row: json.dumps(row).encode()))  # fmt: skip
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_line_breaks_the_import(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "results.jsonl"
    path.write_bytes(line.replace(b"\n", b" "))
    taken = ImportCounts()
    assert len(list(read_results(path, taken, skip_bad=True))) + taken.skipped <= 1


def test_an_error_nested_deeper_than_can_be_written_is_an_error(tmp_path: Path) -> None:
    path, error = tmp_path / "results.jsonl", "[" * 500 + "]" * 500
    path.write_text(f'{{"custom_id": "1-00", "error": {error}}}\n{{"custom_id": "2-00", "error": {error}}}\n')
    assert len(list(read_results(path, ImportCounts(), skip_bad=False))) == 2


async def test_a_batched_model_does_not_score(desk: Desk) -> None:
    files = BatchFolder(desk.folder)
    lm = BatchedLM(desk.model, desk.cache, files)
    assert desk.model.capabilities.score
    assert not lm.capabilities.score
    assert (lm.name, lm.capabilities.json_schema) == (desk.model.name, True)
    assert "BatchedLM" in repr(lm)
    assert not hasattr(lm, "score")
    with pytest.raises(PolyhopError, match="has no form in a file"):
        await lm.complete(Request(task="t", fields={"x": object()}, messages=[]))
    files.close()
