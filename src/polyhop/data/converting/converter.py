"""A converter of documents that works in its own process, so that no document can crash, block or fill this one."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Timer
from typing import Any, Self

from polyhop.common.extras import is_installed
from polyhop.data.converting import Block
from polyhop.errors import DataError, MissingExtra

SOURCE_CODE = frozenset(
    """.bash .c .cc .cfg .cpp .cs .css .go .h .hpp .ini .java .jl .js .jsx .kt .lua .mjs .mk .php .pl .proto .ps1 .py
    .pyi .r .rb .rs .scala .sh .sql .swift .toml .ts .tsx .yaml .yml""".split()
)
TABLES = (".csv", ".tsv")
SUFFIXES = (
    *(".txt", ".text", ".log", ".md", ".markdown", ".rst", ".adoc", ".org", ".readme", ".html", ".htm", ".xhtml"),
    *(".epub", ".pdf", ".docx", ".xlsx", ".pptx", ".eml", ".mbox", ".ipynb", *TABLES, *sorted(SOURCE_CODE)),
)
"""The suffixes of the documents that are read."""

NAMES = {
    **dict.fromkeys(
        """authors changelog changes contributing contributors copying credits hacking history install licence license
        maintainers news notice readme security todo""".split(),
        ".readme",
    ),
    **dict.fromkeys("containerfile dockerfile gnumakefile jenkinsfile makefile procfile".split(), ".mk"),
}
"""The documents that are read without a suffix: by name, the suffix that they are read as if they had."""

BASE_SECONDS, SECONDS_PER_MB, MAX_SECONDS = 20.0, 10.0, 120.0
"""The time to convert a document: the first plus the second per megabyte, up to the third."""

MAX_SECONDS_LOST = 300.0
"""Maximum total time for the documents of a folder that cannot be read."""

_NEED_DOCS = (".pdf", ".docx")


def suffix_of(name: str) -> str:
    """Return the suffix that says how a file of this name is read; "" if it is not.

    >>> suffix_of("docs/Notes.RST"), suffix_of("docs/README"), suffix_of("a.odt"), suffix_of("notes")
    ('.rst', '.readme', '', '')
    """
    path = Path(name.lower())
    kind = path.suffix or path.name
    suffix = NAMES.get(kind, kind)
    return suffix if suffix in SUFFIXES else ""


def needs_extra(name: str) -> bool:
    """Return True if a document of this name needs the extra ``docs``, and it is not installed."""
    return name.lower().endswith(_NEED_DOCS) and not is_installed("docs")


class Converter:
    """Converts documents one after another; a context manager. The process starts with the first document, and again
    after a document that broke it.

    ``seconds``: the time for a document, whatever its size.

    Attributes:
        seconds_lost: the total time for documents that could not be read.
        guess: the encoding that was guessed of the latest document; "" if none was.
    """

    def __init__(self, *, seconds: float | None = None) -> None:
        self._seconds, self.seconds_lost, self.guess = seconds, 0.0, ""
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def blocks(self, path: Path) -> list[Block]:
        """Return the blocks of a document.

        Raises:
            DataError: it cannot be read: encrypted, damaged, without text, too large, or too slow.
            MissingExtra: the document needs the extra ``docs``, which is not installed.
        """
        if needs_extra(path.name):
            raise MissingExtra(f"reading {path}", "docs")
        began = time.monotonic()
        try:
            return self._blocks(path)
        except DataError:
            self.seconds_lost += time.monotonic() - began
            raise

    def stop(self) -> None:
        """End the work from another thread: the document under way, and every later one, cannot be read."""
        self._stopped.set()
        if process := self._process:
            process.kill()

    def _blocks(self, path: Path) -> list[Block]:
        if self._stopped.is_set():
            raise DataError("not read: the work was stopped", path)
        process = self._process = self._process or _start()
        if self._stopped.is_set():
            process.kill()
        seconds = self._seconds or _seconds_for(path)
        timer = Timer(seconds, process.kill)
        timer.start()
        blocks: list[Block] = []
        try:
            for reply in _replies(process, path):
                if "fault" in reply:
                    raise DataError(reply["fault"], path)
                if "end" in reply:
                    self.guess = reply["end"]
                    return blocks
                blocks.append(Block(**{**reply, "targets": tuple(reply["targets"])}))
        finally:
            is_late = not timer.is_alive()
            timer.cancel()
        code = self._stop()
        why = f"converting it took longer than {seconds:g} s" if is_late else f"converting it failed (exit {code})"
        raise DataError(why, path)

    def _stop(self) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        with process:
            if process.stdin:
                with suppress(OSError):  # the process is gone
                    process.stdin.close()
            try:
                return process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
        return process.returncode


def _seconds_for(path: Path) -> float:
    size = 0
    with suppress(OSError):
        size = path.stat().st_size
    return min(BASE_SECONDS + SECONDS_PER_MB * size / 2**20, MAX_SECONDS)


def _start() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "polyhop.data.converting.child"]
    # -P: import nothing from the current folder, which may be that of the documents
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def _replies(process: subprocess.Popen[bytes], path: Path) -> Iterator[dict[str, Any]]:
    """Send a path and yield the replies, until the process ends."""
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
