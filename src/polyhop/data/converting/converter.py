"""Converts documents in a process of its own, so that none can crash, stop or fill this one."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import IO, Any, Self

from polyhop.common.extras import is_installed
from polyhop.data.converting.blocks import Block
from polyhop.errors import DataError, MissingExtra

SUFFIXES = (".txt", ".md", ".markdown", ".pdf", ".docx", ".epub", ".html", ".htm", ".xhtml")
"""Of the documents that are read."""

SECONDS, SECONDS_PER_MB, MAX_SECONDS = 20.0, 10.0, 120.0
"""The time to convert one document: the first, and the second for each megabyte, up to the third."""

MAX_SECONDS_LOST = 300.0
"""The time that the documents of a folder which cannot be read may take together."""

_OF_EXTRA = (".pdf", ".docx")


def needs_extra(name: str) -> bool:
    """Whether a document of this name needs the extra ``docs``, and it is not installed."""
    return name.lower().endswith(_OF_EXTRA) and not is_installed("docs")


class Converter:
    """Converts one document after another; a context manager. The process is started by the first, and again after one
    that broke it.

    ``seconds``: the time for one document, whatever its size.

    Attributes:
        seconds_lost: the time spent on documents that could not be read.
    """

    def __init__(self, *, seconds: float | None = None) -> None:
        self._seconds, self.seconds_lost = seconds, 0.0
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._stop()

    def blocks(self, path: Path) -> list[Block]:
        """The blocks of a document.

        Raises:
            DataError: it cannot be read: encrypted, damaged, without text, too large, or too slow.
            MissingExtra: the extra ``docs`` is not installed, and this document needs it.
        """
        if needs_extra(path.name):
            raise MissingExtra(f"reading {path}", "docs")
        began = time.monotonic()
        try:
            return self._blocks(path)
        except DataError:
            self.seconds_lost += time.monotonic() - began
            raise

    def _blocks(self, path: Path) -> list[Block]:
        process = self._process = self._process or _started()
        seconds = self._seconds or _seconds_for(path)
        timer = Timer(seconds, process.kill)
        timer.start()
        blocks: list[Block] = []
        try:
            for answer in _asked(process, path):
                if "fault" in answer:
                    raise DataError(answer["fault"], path)
                if "end" in answer:
                    return blocks
                blocks.append(Block(**answer))
        finally:
            late = not timer.is_alive()
            timer.cancel()
        code = self._stop()
        why = f"converting it took longer than {seconds:g} s" if late else f"converting it failed (exit {code})"
        raise DataError(why, path)

    def _stop(self) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        with process:
            if process.stdin:
                _closed(process.stdin)
            try:
                return process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
        return process.returncode


def _seconds_for(path: Path) -> float:
    try:
        size = path.stat().st_size
    except OSError:
        size = 0
    return min(SECONDS + SECONDS_PER_MB * size / 2**20, MAX_SECONDS)


def _started() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "polyhop.data.converting.child"]
    # -P: nothing in the current folder, which may be the documents' own, is imported
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def _asked(process: subprocess.Popen[bytes], path: Path) -> Iterator[dict[str, Any]]:
    """The answers to a path, up to where the process ends."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(str(path.resolve())).encode() + b"\n")
        process.stdin.flush()
    except OSError:
        return
    for line in process.stdout:
        if not line.endswith(b"\n"):
            return
        yield json.loads(line)


def _closed(stream: IO[bytes]) -> None:
    try:
        stream.close()
    except OSError:
        return  # the process is gone
