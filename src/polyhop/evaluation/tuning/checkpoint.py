"""The saved measurements of a long search, so that a stopped search resumes where it was."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from hashlib import blake2b
from os.path import lexists
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from polyhop.common.files import locked, read_inside
from polyhop.errors import DataError, UsageError

NAME = "measured.jsonl"


class Checkpoint:
    """Results by a description of their inputs, one per line of ``measured.jsonl`` in ``folder``.

    Without a folder they stay in memory. A line is written completely as soon as its result is known. One process at a
    time may write to a folder.

    Raises ``UsageError`` while another process does, and ``DataError`` if the file cannot be read or written.
    """

    def __init__(self, folder: str | Path | None) -> None:
        self._known: dict[str, Any] = {}
        self._open = ExitStack()
        self._file: Any = None
        if folder is not None:
            try:
                self._begin(Path(folder))
            except OSError as error:
                self.close()
                raise DataError(f"the measurements cannot be kept: {error.strerror}", folder) from None
            except BaseException:
                self.close()
                raise

    def once(self, inputs: Mapping[str, Any], find: Callable[[], Any]) -> Any:
        """Return the result, a JSON-ready value, for these inputs; call ``find`` if there is none yet."""
        description = orjson.dumps(inputs, option=orjson.OPT_SORT_KEYS)
        key = blake2b(description, digest_size=16).hexdigest()
        if key not in self._known:
            found = find()
            if self._file is not None:
                line = orjson.dumps({"key": key, "found": found}) + b"\n"
                try:
                    while line:  # an unbuffered file may take a part
                        line = line[self._file.write(line) :]
                except OSError as error:
                    raise DataError(f"the measurements cannot be kept: {error.strerror}", self._file.name) from None
            self._known[key] = found
        return self._known[key]

    def close(self) -> None:
        """Unlock the folder."""
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if not self._open.enter_context(locked(folder / "tune.lock", wait=False)):
            raise UsageError(f"{folder}: another process is tuning here; wait for it or choose another --work")
        path = folder / NAME
        if lexists(path):
            self._read(path)
        self._file = self._open.enter_context(path.open("ab", buffering=0))

    def _read(self, path: Path) -> None:
        """Read all complete lines; an incomplete last line, cut short by a kill, is dropped and measured again."""
        held = read_inside(path.parent, path.name)
        whole = held[: held.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                row = orjson.loads(line)
                self._known[row["key"]] = row["found"]
            except (ValueError, TypeError, KeyError):
                raise DataError("not a measurement; remove the line to have it made again", path, number) from None
        if len(whole) < len(held):
            os.truncate(path, len(whole))
