"""A batch's folder: files of requests as they are to be handed in, files of results as they came, and the ledger."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from os.path import lexists
from pathlib import Path
from typing import BinaryIO

import orjson

from polyhop.common.files import file_inside, locked
from polyhop.errors import DataError, UsageError
from polyhop.lm.batches.ledger import Call, Ledger, Part
from polyhop.lm.batches.results import Result, Taken, custom_id, read_results
from polyhop.lm.openai import OpenAICompatible
from polyhop.lm.parameters import POSSIBLE
from polyhop.net.failures import CallError, explain

MOST_REQUESTS, MOST_BYTES = 50_000, 200_000_000
"""Of one file, as OpenAI takes it."""
MOST_ATTEMPTS = 3
"""How often a call is asked that fails each time, before its question fails."""
_AGAIN = frozenset({"retryable", "quota", "key", "not_found", "redirect", "unreachable"})
"""Troubles that another time may not have; the others are of the request itself."""


@dataclass(slots=True)
class _Writing:
    """A file of requests under way."""

    part: Part
    stream: BinaryIO
    size: int = 0


class BatchFolder:
    """Opens the folder, new or to go on with. ``seal`` makes the requests written since then to be asked, at once all
    of them; without it, whatever happened, none ever was.

    Every ``*.jsonl`` that is not one of requests is taken for results. ``DataError`` where the folder cannot be used,
    ``UsageError`` where another process uses it.
    """

    def __init__(self, folder: str | Path, *, most_requests: int = MOST_REQUESTS, most_bytes: int = MOST_BYTES) -> None:
        self.folder = Path(folder)
        self._most_requests, self._most_bytes = most_requests, most_bytes
        self._writing: dict[str, _Writing] = {}
        self._open = ExitStack()
        try:
            with self._kept():
                self._start()
        except BaseException:
            self._open.close()
            raise

    def call(self, key: bytes) -> Call | None:
        """What is known of a call; None for one that was never asked."""
        return self._ledger.call(key)

    @property
    def waiting(self) -> list[Part]:
        """The files of requests of which no result came yet."""
        return self._ledger.parts(waiting=True)

    def left_out(self, model: str) -> list[str]:
        """The parameters that a model's server turned out not to take."""
        return self._ledger.left_out(model)

    # --- requests ----------------------------------------------------------------------------------------------------

    def ask(self, key: bytes, model: str, url: str, body: bytes) -> None:
        """Write a call into the file under way, or a next one where that is full. A file is for one model."""
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
        """Make all that was written to be asked. Where nothing is waited for any more, what was refused may be asked
        again when the same is run once more."""
        with self._kept():
            while self._writing:
                self._end(self._writing.popitem()[1])
            if not self.waiting:
                self._ledger.forgive()
            self._ledger.commit()
            self._recover()  # from here on even a kill loses nothing

    def abandon(self) -> None:
        """Forget what was written since the last ``seal``; what was refused may be asked again."""
        self._ledger.rollback()
        self._ledger.forgive()
        self._ledger.commit()
        while self._writing:
            self._writing.popitem()[1].stream.close()
        self._recover()

    def close(self) -> None:
        """Let the folder go."""
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

    def _fits(self, writing: _Writing, line: bytes) -> bool:
        return writing.part.requests < self._most_requests and writing.size + len(line) <= self._most_bytes

    def _begin(self, model: str, url: str) -> _Writing:
        known = [*self._ledger.parts(), *(writing.part for writing in self._writing.values())]
        part = Part(1 + max((one.number for one in known), default=0), model, url, 0)
        made = self._writing[model] = _Writing(part, self._unfinished(part).open("wb"))
        return made

    def _end(self, writing: _Writing) -> None:
        with writing.stream as stream:
            stream.flush()
            os.fsync(stream.fileno())
        self._ledger.add(writing.part)

    def _unfinished(self, part: Part) -> Path:
        return self.folder / f"{part.file}.part"

    def _recover(self) -> None:
        """Give the files of a sealed batch their names, and remove what was not sealed."""
        for part in self._ledger.parts():
            if (unfinished := self._unfinished(part)).exists():
                os.replace(unfinished, self.folder / part.file)
        for left in self.folder.glob("requests-*.jsonl.part"):
            left.unlink()

    # --- results -----------------------------------------------------------------------------------------------------

    def take_in(self, models: Mapping[str, OpenAICompatible], *, skip_bad: bool = False) -> Taken:
        """Take in every file of results that was not, or was changed since. ``models``, by name, are who was asked.

        A request without a result counts as failed once any of its file came. A line that is no result of a request
        here is a ``DataError`` that names it, and nothing is taken in; ``skip_bad`` counts such lines instead.
        """
        taken, came = Taken(), set[int]()
        try:
            with self._kept():
                for path in sorted(self.folder.glob("*.jsonl")):
                    if not path.name.startswith("requests-") and not self._ledger.is_taken(path):
                        came |= self._take(path, models, taken, skip_bad)
                for name, model in models.items():
                    self._ledger.leave_out(name, model.parameters.refused)
                taken.missing = self._ledger.came(came)
                self._ledger.commit()
        except BaseException:
            self._ledger.rollback()
            raise
        return taken

    def _take(self, path: Path, models: Mapping[str, OpenAICompatible], taken: Taken, skip_bad: bool) -> set[int]:
        """Take one file in; the numbers of the files of requests whose results it holds."""
        came, asked_of = set[int](), {part.number: part.model for part in self._ledger.parts()}
        for result in read_results(path, taken, skip_bad=skip_bad):
            call = self._ledger.call(result.key)
            if call is not None and result.part in asked_of:
                self._settle(result, call, models.get(asked_of[result.part]), taken)
                came.add(result.part)
            elif skip_bad:
                taken.bad += 1
            else:
                raise DataError(
                    "the result of a request that was never made here: is it another batch's file?", path, result.line
                )
        self._ledger.taken(path)
        return came

    def _settle(self, result: Result, call: Call, model: OpenAICompatible | None, taken: Taken) -> None:
        failure = result.failure
        if call.state in ("answered", "filtered"):
            taken.again += 1
        elif failure is None or failure.kind == "filter":
            taken.answered += 1
            self._ledger.settle(result.key, "filtered" if failure else "answered", result.body)
        elif result.part == call.part:  # of an earlier file it is old news
            learnt = model is not None and model.learn(POSSIBLE, failure)
            last = not learnt and (failure.kind not in _AGAIN or call.attempts >= MOST_ATTEMPTS)
            words = failure.description
            if last and model is not None:
                words = explain(model.model, model.url, CallError(failure, call.attempts, 0.0), None)
            taken.refused += last
            taken.failed += not last
            taken.why[failure.description] += 1
            self._ledger.settle(result.key, "refused" if last else "failed", words.encode())


def _line(number: int, key: bytes, url: str, body: bytes) -> bytes:
    row = {"custom_id": custom_id(number, key), "method": "POST", "url": url, "body": orjson.Fragment(body)}
    return orjson.dumps(row) + b"\n"
