"""The state of every call written into a batch: one SQLite file, changed by one process at a time.

Nothing is on disk before ``commit``: if a process is killed before, its calls were never asked.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from polyhop.errors import DataError

State = Literal["asked", "answered", "filtered", "failed", "refused"]
"""``failed`` is asked again in the next file; ``refused`` fails its question, as the same call would that is sent."""

_APPLICATION = 0x706F6C62  # "polb"
_TABLES = """
CREATE TABLE calls (key BLOB PRIMARY KEY, part INTEGER, attempts INTEGER, state TEXT, reply BLOB);
CREATE INDEX waiting ON calls (part) WHERE state = 'asked';
CREATE TABLE parts (number INTEGER PRIMARY KEY, model TEXT, url TEXT, requests INTEGER, returned INTEGER);
CREATE TABLE taken (file TEXT PRIMARY KEY, size INTEGER, changed INTEGER);
CREATE TABLE refused (model TEXT, parameter TEXT, PRIMARY KEY (model, parameter));
"""


@dataclass(frozen=True, slots=True)
class Call:
    """A call: the file it was last asked in, its attempts, its state, and a reply's JSON or an error message."""

    part: int
    attempts: int
    state: State
    reply: bytes


@dataclass(frozen=True, slots=True)
class RequestFile:
    """A file of requests: its number, the model's name, the API's path, how many requests it holds."""

    number: int
    model: str
    url: str
    requests: int

    @property
    def file(self) -> str:
        """Its name in the folder."""
        return f"requests-{self.number:04d}.jsonl"


class Ledger:
    """Open the file, created if absent; ``DataError`` for another program's or a broken one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with ExitStack() as refused:
                connection = sqlite3.connect(path, isolation_level="DEFERRED", check_same_thread=False)
                self._file = refused.enter_context(closing(connection))
                (mark,) = self._file.execute("PRAGMA application_id").fetchone()
                if mark == 0 and not self._file.execute("SELECT name FROM sqlite_master").fetchall():
                    self._file.executescript(f"BEGIN; {_TABLES} PRAGMA application_id = {_APPLICATION}; COMMIT;")
                elif mark != _APPLICATION:
                    raise DataError("another program's database, not a batch of polyhop: name another folder", path)
                refused.pop_all()
        except sqlite3.Error as error:
            raise DataError(f"not a usable batch ({error}): name another folder", path) from None

    def call(self, key: bytes) -> Call | None:
        """Return the state of a call; None if it was never asked."""
        found = self._file.execute("SELECT part, attempts, state, reply FROM calls WHERE key = ?", (key,)).fetchone()
        if found is not None and (not _are(found, int, int, str, bytes) or found[2] not in get_args(State)):
            raise self._broken("a call")
        return None if found is None else Call(*found)

    def asked(self, key: bytes, part: int) -> None:
        """Record that a call was written into a file, for the first time or again."""
        self._file.execute(
            "INSERT INTO calls VALUES (?, ?, 1, 'asked', x'') ON CONFLICT (key) DO UPDATE"
            " SET part = excluded.part, attempts = attempts + 1, state = 'asked', reply = x''",
            (key, part),
        )

    def settle(self, key: bytes, state: State, reply: bytes) -> None:
        """Record the outcome of a call."""
        self._file.execute("UPDATE calls SET state = ?, reply = ? WHERE key = ?", (state, reply, key))

    def forgive(self) -> None:
        """Allow refused calls to be asked again."""
        self._file.execute("UPDATE calls SET state = 'failed', attempts = 0 WHERE state = 'refused'")

    # --- files -------------------------------------------------------------------------------------------------------

    def add(self, part: RequestFile) -> None:
        """Record a complete file of requests."""
        row = (part.number, part.model, part.url, part.requests)
        self._file.execute("INSERT INTO parts VALUES (?, ?, ?, ?, 0)", row)

    def parts(self, *, waiting: bool = False) -> list[RequestFile]:
        """Return the files of requests in order; with ``waiting``, only those without any result yet."""
        rows = self._file.execute(
            "SELECT number, model, url, requests FROM parts WHERE returned <= ? ORDER BY number", (not waiting,)
        )
        found = rows.fetchall()
        if not all(_are(row, int, str, str, int) for row in found):
            raise self._broken("a file of requests")
        return [RequestFile(*row) for row in found]

    def came(self, parts: Iterable[int]) -> int:
        """Record that results of these files came, and their missing calls as failed; return the number of those."""
        self._file.executemany("UPDATE parts SET returned = 1 WHERE number = ?", [(number,) for number in parts])
        return self._file.execute(
            "UPDATE calls SET state = 'failed' WHERE state = 'asked'"
            " AND part IN (SELECT number FROM parts WHERE returned)"
        ).rowcount

    def is_taken(self, path: Path) -> bool:
        """Return True if a file of results was imported and has not changed since."""
        row = self._file.execute("SELECT size, changed FROM taken WHERE file = ?", (path.name,)).fetchone()
        return bool(row == (path.stat().st_size, path.stat().st_mtime_ns))

    def mark_taken(self, path: Path) -> None:
        """Record that a file of results was imported."""
        row = (path.name, path.stat().st_size, path.stat().st_mtime_ns)
        self._file.execute("INSERT OR REPLACE INTO taken VALUES (?, ?, ?)", row)

    # --- parameters --------------------------------------------------------------------------------------------------

    def left_out(self, model: str) -> list[str]:
        """Return the parameters that a model's server does not take."""
        found = self._file.execute("SELECT parameter FROM refused WHERE model = ?", (model,)).fetchall()
        if not all(_are(row, str) for row in found):
            raise self._broken("a parameter")
        return [name for (name,) in found]

    def leave_out(self, model: str, parameters: Iterable[str]) -> None:
        """Record parameters that a model's server does not take."""
        rows = [(model, parameter) for parameter in parameters]
        self._file.executemany("INSERT OR IGNORE INTO refused VALUES (?, ?)", rows)

    # --- ends --------------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Write everything to disk."""
        self._file.commit()

    def rollback(self) -> None:
        """Discard what was not committed."""
        self._file.rollback()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _broken(self, what: str) -> DataError:
        return DataError(f"not a usable batch ({what} is of another type): name another folder", self.path)


def _are(row: Sequence[object], *kinds: type) -> bool:
    """Return True if the values of a row are of these types: SQLite holds any type in any column."""
    return all(isinstance(value, kind) for value, kind in zip(row, kinds, strict=True))
