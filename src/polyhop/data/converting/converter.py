"""Converts documents in a process of its own, so that none can crash, stop or fill this one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import IO, Any, Self

from polyhop.common.extras import installed
from polyhop.data.converting.blocks import Block
from polyhop.errors import DataError, MissingExtra

SUFFIXES = (".pdf", ".docx", ".epub", ".html", ".htm", ".xhtml")
"""Of the documents that are converted."""

SECONDS = 120.0
"""What converting one document may take."""

_OF_EXTRA = (".pdf", ".docx")


class Converter:
    """Converts one document after another; a context manager. The process is started by the first, and again after one
    that broke it."""

    def __init__(self, *, seconds: float = SECONDS) -> None:
        self._seconds = seconds
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
        if path.suffix.lower() in _OF_EXTRA and not installed("docs"):
            raise MissingExtra(f"reading {path}", "docs")
        process = self._process = self._process or _started()
        timer = Timer(self._seconds, process.kill)
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
        why = f"converting it took longer than {self._seconds:g} s" if late else f"converting it failed (exit {code})"
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
