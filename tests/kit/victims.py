"""Work that dies or fails at a file operation: ``python -m tests.kit.victims`` forks a child for each line it reads.

A job names a function, its folder and its other arguments, and perhaps a ``Fault``: at one of the file operations in
the folder, by number, or at the byte of a file beyond a limit. Python's audit events show the operations of Python; the
limit also meets those of SQLite and tantivy. A child ends with 0, with 2 and one line for a ``PolyhopError``, with 1
and a traceback for another error, or by a signal.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from polyhop.errors import PolyhopError
from tests.kit.tally import count

ROOT = Path(__file__).parents[2]

OPERATIONS = frozenset(
    ["open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.chmod", "os.truncate", "shutil.rmtree"]
)
"""The audit events that count as file operations, if they change something."""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_FAILING = frozenset(["open", "os.rename", "os.mkdir", "os.link"])
"""The events of those operations that a full disk refuses."""


@dataclass(frozen=True)
class Fault:
    """A fault of a child: SIGKILL, or the error ``number``, at its file operation ``at``; or, with ``limit``, at the
    first write beyond so many bytes of any file."""

    at: int = 0
    number: int | None = None
    limit: int | None = None


@dataclass(frozen=True)
class Outcome:
    """The end of a child: its exit status, or the negative number of its signal, and what it wrote to stderr."""

    status: int
    error: str

    @property
    def killed(self) -> bool:
        """True if the child died by a signal of a fault."""
        return self.status in (-signal.SIGKILL, -signal.SIGXFSZ)


class Victims:
    """The parent's side: a process whose children do the work."""

    def __init__(self, work: str, shared: Path) -> None:
        self._work, self._shared = work, shared
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.kit.victims", work.partition(":")[0]],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, bufsize=1,
        )  # fmt: skip
        self._read()

    def run(self, folder: Path, *given: Any, fault: Fault | None = None) -> Outcome:
        """Do the work in a child, and wait for its end."""
        return self.run_all(folder, [(given, fault)])[0]

    def run_all(self, folder: Path, jobs: Sequence[tuple[Sequence[Any], Fault | None]]) -> list[Outcome]:
        """Do several works at once on one folder; the outcomes in order."""
        started = [self.start(folder, *given, fault=fault) for given, fault in jobs]
        return [self.outcome(child) for child in started]

    def start(self, folder: Path, *given: Any, fault: Fault | None = None) -> int:
        """Start a child; return its process id."""
        row = {"work": self._work, "folder": str(folder), "given": given, "fault": fault and asdict(fault)}
        return int(self._ask(row))

    def outcome(self, child: int) -> Outcome:
        """Wait for a child's end."""
        found = Outcome(**json.loads(self._ask({"wait": child})))
        assert "Traceback" not in found.error, found.error
        assert found.killed or found.status in (0, 2), found
        count("kills", found.killed)
        return found

    def folder_of(self, name: str) -> Path:
        """Return the path of a folder for what all stories share."""
        return self._shared / f"shared-{name}"

    def end(self) -> None:
        """End the process."""
        self._process.communicate("")

    def _ask(self, row: dict[str, Any]) -> str:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(row) + "\n")
        return self._read()

    def _read(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the process of the victims died"
        return line


@contextmanager
def victims(work: str, shared: Path) -> Iterator[Victims]:
    """A process whose children do the ``work``, named as ``module:function``."""
    opened = Victims(work, shared)
    try:
        yield opened
    finally:
        opened.end()


# --- the process -----------------------------------------------------------------------------------------------------


class Watch:
    """Counts the file operations in a folder; the one at ``stop`` is the last, or fails by ``number``."""

    def __init__(self, folder: Path, stop: int, number: int | None) -> None:
        self.seen, self._folder, self._stop, self._number = 0, f"{folder}{os.sep}", stop, number
        sys.addaudithook(self._heard)

    def _heard(self, event: str, given: tuple[Any, ...]) -> None:
        if event not in OPERATIONS or not self._counts(event, given):
            return
        if self.seen == self._stop:
            if self._number is None:
                os.kill(os.getpid(), signal.SIGKILL)
            self.seen += 1
            raise OSError(self._number, os.strerror(self._number or 0), given[0])
        self.seen += 1

    def _counts(self, event: str, given: tuple[Any, ...]) -> bool:
        if event == "open" and not (given[2] or 0) & _WRITING:
            return False
        if self._number is not None and event not in _FAILING:
            return False
        if event in ("os.remove", "os.rmdir", "os.chmod", "os.mkdir") and given[-1] != -1:
            return True  # below an open folder
        path = given[0]
        return isinstance(path, (str, bytes, os.PathLike)) and os.fsdecode(path).startswith(self._folder)


def _do(row: dict[str, Any]) -> int:
    """Do a job in this child; return its exit status."""
    module, _, name = row["work"].partition(":")
    work, folder, fault = getattr(importlib.import_module(module), name), Path(row["folder"]), row["fault"]
    if fault is not None and fault["limit"] is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN if fault["number"] else signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (fault["limit"], fault["limit"]))
    elif fault is not None:
        Watch(folder, fault["at"], fault["number"])
    try:
        work(folder, *row["given"])
    except PolyhopError as error:
        print(error, file=sys.stderr, flush=True)  # noqa: T201 - what the test reads
        return 2
    except Exception:  # noqa: BLE001 - shown to the test, which fails
        traceback.print_exc()
        return 1
    return 0


def main(module: str) -> None:
    """Fork a child for each job, or wait for one. The module's ``warm_up``, if any, is called before: what it imports,
    no child has to."""
    getattr(importlib.import_module(module), "warm_up", tuple)()
    print("ready", flush=True)  # noqa: T201
    errors: dict[int, int] = {}
    for line in sys.stdin:
        row = json.loads(line)
        if child := row.get("wait"):
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            with os.fdopen(errors.pop(child), errors="replace") as stream:
                print(json.dumps({"status": status, "error": stream.read()}), flush=True)  # noqa: T201
            continue
        reading, writing = os.pipe()  # a limit of the child's files is none of a pipe
        child = os.fork()
        if not child:
            os.dup2(writing, 2)
            os.dup2(writing, 1)
            os._exit(_do(row))
        os.close(writing)
        errors[child] = reading
        print(child, flush=True)  # noqa: T201


ERRORS = (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO, errno.EDQUOT)
"""The errors of a disk that takes no more."""

if __name__ == "__main__":
    main(sys.argv[1])
