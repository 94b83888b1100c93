"""A batch's folder: files of requests to upload, downloaded files of results, and the ledger."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from os.path import lexists
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from polyhop.common.files import file_inside, locked, open_inside
from polyhop.errors import DataError, UsageError
from polyhop.lm.base import Request
from polyhop.lm.batches.ledger import Call, Ledger, RequestFile
from polyhop.lm.openai import OpenAICompatible
from polyhop.lm.parameters import POSSIBLE
from polyhop.lm.wire import read_chat, read_completion
from polyhop.net.failures import BadReply, CallError, Failure, explain, from_response, written

MAX_REQUESTS, MAX_BYTES = 50_000, 200_000_000
"""OpenAI's limits on one file."""
MAX_ATTEMPTS = 3
"""Attempts at a call before its question fails."""
_RETRYABLE = frozenset({"retryable", "quota", "key", "not_found", "redirect", "unreachable"})
"""Failures that another attempt may not have; the others are due to the request itself."""


@dataclass(slots=True)
class _OpenFile:
    """A file of requests that is being written."""

    part: RequestFile
    stream: BinaryIO
    size: int = 0


class BatchFolder:
    """A batch's folder, new or continued. ``seal`` commits all requests written since then at once; without it none of
    them exists.

    Every ``*.jsonl`` that is not a file of requests is read as results. ``DataError`` if the folder cannot be used,
    ``UsageError`` if another process uses it.
    """

    def __init__(self, folder: str | Path, *, max_requests: int = MAX_REQUESTS, max_bytes: int = MAX_BYTES) -> None:
        self.folder = Path(folder)
        self._max_requests, self._max_bytes = max_requests, max_bytes
        self._writing: dict[str, _OpenFile] = {}
        self._open = ExitStack()
        try:
            with self._kept():
                self._start()
        except BaseException:
            self._open.close()
            raise

    def call(self, key: bytes) -> Call | None:
        """Return the state of a call; None if it was never asked."""
        return self._ledger.call(key)

    @property
    def waiting(self) -> list[RequestFile]:
        """The files of requests without any result yet."""
        return self._ledger.parts(waiting=True)

    def left_out(self, model: str) -> list[str]:
        """The parameters that a model's server turned out not to take."""
        return self._ledger.left_out(model)

    # --- requests ----------------------------------------------------------------------------------------------------

    def ask(self, key: bytes, model: str, url: str, body: bytes) -> None:
        """Write a call into the open file, or into a new one if that is full. A file is for one model."""
        writing = self._writing.get(model)
        number = writing.part.number if writing else 0
        line = _line(number, key, url, body)
        with self._kept():
            if writing is None or not self._fits(writing, line):
                if writing is not None:
                    self._end(self._writing.pop(model))
                writing = self._begin(model, url)
                number, line = writing.part.number, _line(writing.part.number, key, url, body)
            writing.stream.write(line)
            writing.size += len(line)
            writing.part = replace(writing.part, requests=writing.part.requests + 1)
            self._ledger.asked(key, number)

    def seal(self) -> None:
        """Commit all requests that were written. If no results are outstanding, refused calls may be asked again by a
        later run."""
        with self._kept():
            while self._writing:
                self._end(self._writing.popitem()[1])
            if not self.waiting:
                self._ledger.forgive()
            self._ledger.commit()
            self._recover()  # a kill loses nothing any more

    def abandon(self) -> None:
        """Discard what was written since the last ``seal``; refused calls may be asked again."""
        self._ledger.rollback()
        self._ledger.forgive()
        self._ledger.commit()
        while self._writing:
            self._writing.popitem()[1].stream.close()
        self._recover()

    def close(self) -> None:
        """Release the folder."""
        self._open.close()

    def _start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._open.enter_context(locked(self.folder / "batch.lock", wait=False)):
            raise UsageError(f"{self.folder}: another process uses this batch; wait for it or name another folder")
        if lexists(ledger := self.folder / "batch.sqlite"):
            file_inside(self.folder, ledger.name)
        self._ledger = Ledger(ledger)
        self._open.callback(self._ledger.close)
        self._recover()

    @contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise DataError(f"the batch cannot be used: {why}. What was asked before is kept", self.folder) from None

    def _fits(self, writing: _OpenFile, line: bytes) -> bool:
        return writing.part.requests < self._max_requests and writing.size + len(line) <= self._max_bytes

    def _begin(self, model: str, url: str) -> _OpenFile:
        known = [*self._ledger.parts(), *(writing.part for writing in self._writing.values())]
        part = RequestFile(1 + max((one.number for one in known), default=0), model, url, 0)
        made = self._writing[model] = _OpenFile(part, self._unfinished(part).open("wb"))
        return made

    def _end(self, writing: _OpenFile) -> None:
        with writing.stream as stream:
            stream.flush()
            os.fsync(stream.fileno())
        self._ledger.add(writing.part)

    def _unfinished(self, part: RequestFile) -> Path:
        return self.folder / f"{part.file}.part"

    def _recover(self) -> None:
        """Rename the files of a sealed batch, and remove those that were not sealed."""
        for part in self._ledger.parts():
            if (unfinished := self._unfinished(part)).exists():
                os.replace(unfinished, self.folder / part.file)
        for left in self.folder.glob("requests-*.jsonl.part"):
            left.unlink()

    # --- results -----------------------------------------------------------------------------------------------------

    def import_results(self, models: Mapping[str, OpenAICompatible], *, skip_bad: bool = False) -> ImportCounts:
        """Import every file of results that is new or was changed since. ``models`` are those asked, by name.

        A request without a result counts as failed once any of its file came. A line that is no result of a request
        here is a ``DataError`` that names it, and nothing is taken in; ``skip_bad`` counts such lines instead.
        """
        counts, came = ImportCounts(), set[int]()
        try:
            with self._kept():
                for path in sorted(self.folder.glob("*.jsonl")):
                    if not path.name.startswith("requests-") and not self._ledger.is_taken(path):
                        came |= self._import(path, models, counts, skip_bad)
                for name, model in models.items():
                    self._ledger.leave_out(name, model.parameters.refused)
                counts.missing = self._ledger.came(came)
                self._ledger.commit()
        except BaseException:
            self._ledger.rollback()
            raise
        return counts

    def _import(
        self, path: Path, models: Mapping[str, OpenAICompatible], counts: ImportCounts, skip_bad: bool
    ) -> set[int]:
        """Import one file; return the numbers of the files of requests whose results it holds."""
        came, asked_of = set[int](), {part.number: part.model for part in self._ledger.parts()}
        for result in read_results(path, counts, skip_bad=skip_bad):
            call = self._ledger.call(result.key)
            if call is not None and result.part in asked_of:
                self._settle(result, call, models.get(asked_of[result.part]), counts)
                came.add(result.part)
            elif skip_bad:
                counts.skipped += 1
            else:
                raise DataError(
                    "the result of a request that was never made here: is it another batch's file?", path, result.line
                )
        self._ledger.mark_taken(path)
        return came

    def _settle(self, result: Result, call: Call, model: OpenAICompatible | None, counts: ImportCounts) -> None:
        failure = result.failure
        if call.state in ("answered", "filtered"):
            counts.duplicates += 1
        elif failure is None or failure.kind == "filter":
            counts.answered += 1
            self._ledger.settle(result.key, "filtered" if failure else "answered", result.body)
        elif result.part == call.part:  # of an earlier file it is old news
            learnt = model is not None and model.learn(POSSIBLE, failure)
            last = not learnt and (failure.kind not in _RETRYABLE or call.attempts >= MAX_ATTEMPTS)
            words = failure.description
            if last and model is not None:
                words = explain(model.model, model.url, CallError(failure, call.attempts, 0.0), None)
            counts.refused += last
            counts.failed += not last
            counts.reasons[failure.description] += 1
            self._ledger.settle(result.key, "refused" if last else "failed", words.encode())


def _line(number: int, key: bytes, url: str, body: bytes) -> bytes:
    row = {"custom_id": custom_id(number, key), "method": "POST", "url": url, "body": orjson.Fragment(body)}
    return orjson.dumps(row) + b"\n"


# --- reading files of results -----------------------------------------------------------------------------------------

_ANY = Request(task="", fields={}, messages=())


@dataclass(slots=True)
class ImportCounts:
    """The number of imported results by outcome. ``duplicates``: of requests that had a reply already; ``skipped``: bad
    lines; ``reasons``: the messages of failures, and how often each came."""

    answered: int = 0
    failed: int = 0
    refused: int = 0
    missing: int = 0
    duplicates: int = 0
    skipped: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one request: a reply's JSON or a failure. ``line`` is its number in the file."""

    line: int
    part: int
    key: bytes
    body: bytes
    failure: Failure | None


def custom_id(part: int, key: bytes) -> str:
    """A request's name, unlike that of any other in any file: the file's number and the call's key in the cache.

    >>> custom_id(3, bytes(20)), _parsed("3-" + 40 * "0") == (3, bytes(20))
    ('3-0000000000000000000000000000000000000000', True)
    """
    return f"{part}-{key.hex()}"


def read_results(path: Path, counts: ImportCounts, *, skip_bad: bool) -> Iterator[Result]:
    """Read the results in a file one by one. ``DataError`` names the file and line of an invalid result; with
    ``skip_bad`` it is counted instead."""
    with open_inside(path.parent, path.name) as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield _result(number, orjson.loads(line))
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                if not skip_bad:
                    what = f"not a result of a batch ({_short(error)}); --skip-bad passes over it"
                    raise DataError(what, path, number) from None
                counts.skipped += 1


def _result(number: int, row: Any) -> Result:
    part, key = _parsed(row["custom_id"])
    response, error = row.get("response") or {}, row.get("error")
    status, body = response.get("status_code"), response.get("body")
    if status == 200 and not error:
        return Result(number, part, key, orjson.dumps(body), _unusable(body))
    reason = written(body or error or "no reply and no reason")
    if status is None or status == 200:  # not an HTTP error: too late, cancelled, or never sent
        return Result(number, part, key, b"", Failure("retryable", from_response(200, {}, reason).message))
    return Result(number, part, key, b"", from_response(int(status), {}, reason))


def _parsed(name: str) -> tuple[int, bytes]:
    number, _, key = name.partition("-")
    return int(number), bytes.fromhex(key)


def _unusable(body: Any) -> Failure | None:
    """Return the failure of a body that is not a usable reply; None if it is one."""
    read = read_completion if isinstance(body, dict) and body.get("object") == "text_completion" else read_chat
    try:
        read(body, _ANY)
    except BadReply as error:
        return Failure("retryable", str(error))
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        return Failure("retryable", f"the reply is not in the API's shape ({type(error).__name__})")
    return None


def _short(error: Exception) -> str:
    return f"no {error}" if isinstance(error, KeyError) else str(error)[:100]
