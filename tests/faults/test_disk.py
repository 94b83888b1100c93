"""Files in trouble: a disk that is full or may not be written at any moment, and damaged run files and caches.

``POLYHOP_DAMAGES=1000`` damages each file N times, at random offsets.
"""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from polyhop import Question, ScriptedLM, evaluate
from polyhop.errors import DataError, PolyhopError, UsageError
from polyhop.evaluation.store import RunFolder, read_report
from polyhop.lm.base import Completion, Request
from polyhop.lm.cache import CachedLM, CompletionCache
from tests.evaluation.test_store import files

QUESTIONS = [Question(f"q{n}", f"Question {n}?", answers=(f"answer {n}",)) for n in range(6)]
SAMPLES = int(os.environ.get("POLYHOP_DAMAGES", "24"))


def answering(task: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"rationale": "It says so.", "answer": f"answer {fields['question'][9:-1]}"}


def run(out: Path) -> ScriptedLM:
    """The run, or the rest of it; the model that was asked."""
    lm = ScriptedLM(answering)
    evaluate(QUESTIONS, method="cot", lm=lm, out=out, concurrency=2)
    return lm


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "run"
    run(out)
    return out


# --- a disk that takes no more ---------------------------------------------------------------------------------------


@contextmanager
def failing_after(writes: int, number: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A disk that fails by an error number after so many writes, whole files and lines of the predictions alike; the
    one that fails is half done."""
    left, whole_file, whole_line = [writes], Path.write_bytes, RunFolder.append

    def spend() -> bool:
        left[0] -= 1
        return left[0] < 0

    def write_bytes(path: Path, content: bytes) -> int:  # type: ignore[type-arg,unused-ignore]
        if spend():
            whole_file(path, content[: len(content) // 2])
            raise OSError(number, os.strerror(number), str(path))
        return whole_file(path, content)

    class Line:
        """The predictions file, unbuffered."""

        def __init__(self, file: Any) -> None:
            self.file, self.full = file, False

        def write(self, line: bytes) -> int:
            if self.full:
                raise OSError(number, os.strerror(number))
            self.full = spend()
            return int(self.file.write(line[: len(line) // 2] if self.full else line))

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

    def append(folder: RunFolder, row: Mapping[str, Any]) -> None:
        if not isinstance(folder._predictions, Line):
            folder._predictions = Line(folder._predictions)  # type: ignore[assignment]
        whole_line(folder, row)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", write_bytes)
        patch.setattr(RunFolder, "append", append)
        yield


ERRORS = {errno.ENOSPC: range(16), **dict.fromkeys((errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO), (0, 5, 14))}


@pytest.mark.slow
@pytest.mark.parametrize("number", ERRORS, ids=lambda number: errno.errorcode[number])
def test_a_disk_that_fails_at_any_write_costs_no_finished_question(
    number: int, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run's files are written 16 times: settings, predictions as read, a trace and a line a question, the end."""
    for writes in ERRORS[number]:
        out = tmp_path / str(writes)
        with failing_after(writes, number, monkeypatch), pytest.raises(DataError) as caught:
            run(out)
        assert os.strerror(number) in str(caught.value)
        assert str(out) in str(caught.value)
        lines = (out / "predictions.jsonl").read_bytes() if (out / "predictions.jsonl").exists() else b""
        assert not lines or lines.endswith(b"\n")
        asked = run(out).calls
        assert len(asked) == len(QUESTIONS) - lines.count(b"\n")
        assert files(out) == files(whole)


@pytest.mark.parametrize(
    "number", [errno.EACCES, errno.EROFS, errno.ENOSPC], ids=lambda number: errno.errorcode[number]
)
def test_a_folder_that_cannot_be_made_is_named_before_any_call(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path, *_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), str(path))

    lm = ScriptedLM(answering)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", refused)
        with pytest.raises(DataError, match=os.strerror(number)) as caught:
            evaluate(QUESTIONS, method="cot", lm=lm, out=tmp_path / "out")
    assert str(tmp_path / "out") in str(caught.value)
    assert lm.calls == []


def test_a_folder_is_one_runs_at_a_time_and_free_after_a_failure(tmp_path: Path) -> None:
    held = RunFolder(tmp_path / "out", {}, QUESTIONS)
    lm = ScriptedLM(answering)
    with pytest.raises(UsageError, match="another process is running here"):
        evaluate(QUESTIONS, method="cot", lm=lm, out=tmp_path / "out")
    assert lm.calls == []
    held.close()
    with pytest.raises(UsageError, match="other settings"):
        run(tmp_path / "out")
    RunFolder(tmp_path / "out", {}, QUESTIONS).close()


# --- damaged files ---------------------------------------------------------------------------------------------------


def damaged(path: Path, draw: random.Random) -> str:
    """Damage a file at a random offset; return what was done."""
    data = bytearray(path.read_bytes())
    at, kind = draw.randrange(len(data)), draw.choice(["flip", "flip", "zero", "cut", "insert", "empty"])
    match kind:
        case "flip":
            data[at] ^= 1 << draw.randrange(8)
        case "zero":
            data[at : at + 64] = bytes(len(data[at : at + 64]))
        case "cut":
            del data[at:]
        case "insert":
            data[at:at] = draw.choice([b"\n", b"\xff\xfe", b"[" * 5000, b'"', b"null", b"\\ud800", b"1e999"])
        case "empty":
            data.clear()
    path.write_bytes(data)
    return f"{kind} at {at} of {path.name}"


def predicted(out: Path) -> list[dict[str, Any]]:
    """The run's predictions, without what may differ between two equal runs."""
    rows: list[dict[str, Any]] = files(out)["predictions.jsonl"]
    return rows


def complaint(work: Callable[[Path], object], folder: Path) -> str:
    """Return what the work reports to be wrong with the folder, if anything; any other error is raised."""
    try:
        work(folder)
    except PolyhopError as error:
        return str(error)
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run.json", "predictions.jsonl"])
def test_a_damaged_run_is_named_or_resumes_without_loss_or_repeats(name: str, whole: Path, tmp_path: Path) -> None:
    draw = random.Random(name)
    for sample in range(SAMPLES):
        out = tmp_path / str(sample)
        shutil.copytree(whole, out)
        what = damaged(out / name, draw)
        if error := complaint(run, out):
            assert str(out) in error or "the predictions do not hold" in error, what
            assert (out / name).exists(), what  # for its owner to look at: nothing is thrown away
        else:
            by_id = {row["id"]: row for row in predicted(out)}
            assert len(by_id) == len(predicted(out)), what
            assert all({**by_id[row["id"]], **row} == by_id[row["id"]] for row in predicted(whole)), what
        assert len([*(out / "traces").iterdir()]) >= len(QUESTIONS), what
        shutil.rmtree(out)


def test_without_the_named_line_only_its_question_is_asked_again(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(whole, out)
    path = out / "predictions.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"\0" + lines[2][1:], *lines[3:]]))
    with pytest.raises(DataError, match="remove the line") as caught:
        run(out)
    assert (caught.value.path, caught.value.line) == (path, 3)
    path.write_bytes(b"".join([*lines[:2], *lines[3:]]))
    assert [call.fields["question"] for call in run(out).calls] == [QUESTIONS[2].text]
    assert files(out) == files(whole)


@pytest.mark.parametrize("change", [(b"answer 2", b"answer 3"), (b'"em":1.0', b'"em":0.0')])
def test_a_line_with_another_answer_is_named(change: tuple[bytes, bytes], whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(whole, out)
    path = out / "predictions.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], lines[2].replace(*change), *lines[3:]]))
    for work in (run, read_report):
        with pytest.raises(DataError, match="this line was changed after it was written") as caught:
            work(out)
        assert (caught.value.path, caught.value.line) == (path, 3)


def test_lines_without_a_checksum_are_taken_at_their_word(whole: Path, tmp_path: Path) -> None:
    """Lines of an older polyhop, or rewritten by hand; the end of the run adds the checksum."""
    out = tmp_path / "run"
    shutil.copytree(whole, out)
    path = out / "predictions.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert all(len(row.pop("crc")) == 8 for row in rows)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert run(out).calls == []
    assert path.read_bytes() == (whole / "predictions.jsonl").read_bytes()


@pytest.mark.parametrize("name", ["run.json", "predictions.jsonl", "metrics.json", "traces/00003.json"])
def test_a_report_of_a_damaged_run_is_a_report_or_names_the_run(name: str, whole: Path, tmp_path: Path) -> None:
    draw = random.Random(f"report {name}")
    for sample in range(SAMPLES):
        out = tmp_path / str(sample)
        shutil.copytree(whole, out)
        what = damaged(out / name, draw)
        error = complaint(read_report, out)
        assert not error or str(out) in error, what
        shutil.rmtree(out)


async def test_a_damaged_cache_is_named_or_answers_rightly(tmp_path: Path) -> None:
    """Or costs a call, where it was a key that was damaged."""
    requests = [
        Request(task="answer.direct", fields={"question": f"{n}?"}, messages=[{"role": "user", "content": f"{n}?"}])
        for n in range(20)
    ]
    kept = CachedLM(ScriptedLM(lambda task, fields: f"to {fields['question']}"), CompletionCache(tmp_path / "whole"))
    for request in requests:
        await kept.complete(request)
    await kept.aclose()
    kept.cache.close()
    draw = random.Random("cache")
    for sample in range(SAMPLES):
        path = tmp_path / f"{sample}.sqlite"
        shutil.copy(tmp_path / "whole", path)
        what = damaged(path, draw)
        texts, error = [], ""
        try:
            with closing(CompletionCache(path)) as cache:
                lm = CachedLM(ScriptedLM(lambda task, fields: f"to {fields['question']}"), cache)
                texts = [(await lm.complete(request)).text for request in requests]
        except DataError as damage:
            error = str(damage)
        assert str(path) in error if error else texts == [f"to {n}?" for n in range(len(requests))], what


def test_a_reply_under_another_key_is_not_served(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    with closing(CompletionCache(path)) as cache:
        for name in (b"one", b"two"):
            cache.keep(name, Completion(text=name.decode()), model="m", task="t")
    with closing(sqlite3.connect(path)) as opened, opened:
        (reply,) = opened.execute("SELECT reply FROM replies WHERE key = ?", (b"one",)).fetchone()
        opened.execute("UPDATE replies SET reply = ? WHERE key = ?", (reply, b"two"))
        opened.execute("INSERT INTO replies VALUES (?, 'm', 't', 0, ?)", (b"old", b'{"text":"unsealed"}'))
    with closing(CompletionCache(path)) as cache:
        assert [getattr(cache.completion(name), "text", None) for name in (b"one", b"old")] == ["one", "unsealed"]
        with pytest.raises(DataError, match=r"changed reply.*delete it") as caught:
            cache.completion(b"two")
    assert str(path) in str(caught.value)
