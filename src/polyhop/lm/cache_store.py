"""A key-value store in one SQLite file, which any number of processes read and write at once.

Look-ups read the file directly. One thread writes: it commits every ``GATHER`` seconds what has gathered, and ends when
there is nothing to do. So no event loop waits for a disk or for another process's lock.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from hashlib import blake2b
from pathlib import Path

from polyhop.common.files import is_shared, make_private
from polyhop.errors import DataError

logger = logging.getLogger("polyhop.lm")

GATHER = 0.02
"""Seconds that a commit waits for more rows, unless somebody waits for it: most of its cost is the same for any
number of rows."""
_LOCKED_FOR = 10.0  # seconds to wait for another process's commit, which takes milliseconds
_IDLE = 1.0  # seconds without work after which the writing thread ends
_EXIT_TIMEOUT = 10.0  # seconds that the interpreter waits for unwritten rows when it exits
_APPLICATION, _VERSION = 0x706F6C79, 1  # "poly"
_BROKEN = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_TOOBIG})
_FAILURES = (sqlite3.Error, OSError, UnicodeDecodeError)  # the last if sqlite3 quotes a damaged file in its message
_MAX_BYTES = 256 << 20  # of a stored reply; no server sends one as large
_SEALED = 17  # bytes of a seal
_DELETE = "delete it, and a new one is made"
_TABLE = "CREATE TABLE replies (key BLOB PRIMARY KEY, model TEXT, task TEXT, created REAL, reply BLOB)"

Row = tuple[bytes, str, str, float, bytes]


class Store:
    """The store at ``path``, created with its folders if absent. It may be used again after ``close``.

    If the path cannot be written, or the disk fills up, there is one warning; from then on ``on`` is false, look-ups
    find nothing and writing does nothing. A broken file, or another program's, is a ``DataError``. The file must not be
    on a network drive that several machines write to: SQLite's write-ahead log does not work there.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.on = True
        self._pending: dict[bytes, Row] = {}
        self._changed = threading.Condition()
        self._reading = threading.Lock()
        self._readers: list[sqlite3.Connection] = []
        self._writer: threading.Thread | None = None
        self._leaving = False
        self._urgent = threading.Event()  # somebody waits for a commit
        weakref.finalize(self, _finish, self._changed, self._urgent, self._pending, self._readers)
        with self._reading:
            self._reader()

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, from this process or another; None without one."""
        if row := self._pending.get(key):
            return row[-1]
        try:
            with self._reading:
                reader = self._reader()
                found = reader.execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone() if reader else None
        except _FAILURES as error:
            self._fail(error)
            return None
        if found is None:
            return None
        if not isinstance(found[0], bytes):  # SQLite holds any type in any column
            raise DataError(f"not a usable cache (a reply is {type(found[0]).__name__}): {_DELETE}", self.path)
        return self._unsealed(key, found[0])

    def put(self, key: bytes, reply: bytes, *, model: str, task: str) -> None:
        """Store a reply, which ``get`` finds at once; it is on disk within milliseconds. ``model`` and ``task`` are for
        people."""
        if not self.on:
            return
        with self._changed:
            self._pending[key] = (key, model, task, time.time(), reply)
            if self._writer is None:
                self._writer = threading.Thread(target=self._write, name="polyhop cache", daemon=True)
                self._writer.start()
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until everything is on disk."""
        self._urgent.set()
        with self._changed:
            self._changed.wait_for(lambda: not self._pending)
        self._urgent.clear()

    def close(self) -> None:
        """Flush, and close the file."""
        with self._changed:
            self._leaving, writer = True, self._writer
            self._changed.notify_all()
        self._urgent.set()
        if writer is not None:
            writer.join()  # it writes all pending rows first
        self._urgent.clear()
        self._leaving = False
        with self._reading:
            while self._readers:
                self._readers.pop().close()

    def _reader(self) -> sqlite3.Connection | None:
        if not self._readers and self.on:
            try:
                self._readers.append(_open(self.path))
            except _FAILURES as error:
                self._fail(error)
        return self._readers[0] if self._readers else None

    def _write(self) -> None:
        """Commit batches on the writing thread, until none has come for ``_IDLE`` seconds."""
        try:
            with closing(_open(self.path)) as connection:
                while batch := self._batch():
                    with connection:
                        connection.execute("BEGIN IMMEDIATE")
                        connection.executemany("INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?, ?)", _sealed(batch))
                    self._done(batch)
        except (*_FAILURES, DataError) as error:
            self._give_up(error)  # ``close`` waits for the thread, and so for the warning
            with self._changed:
                self._writer = None

    def _batch(self) -> list[Row]:
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._leaving, timeout=_IDLE)
            if not self._pending:
                self._writer = None
                return []
        self._urgent.wait(GATHER)
        with self._changed:
            return list(self._pending.values())

    def _done(self, batch: list[Row]) -> None:
        with self._changed:
            for row in batch:
                if self._pending.get(row[0]) is row:  # a newer one under the same key is still to be written
                    del self._pending[row[0]]
            self._changed.notify_all()

    def _unsealed(self, key: bytes, kept: bytes) -> bytes:
        """The reply without its seal. One without a seal, which an older polyhop wrote, is taken at its word."""
        reply, seal = kept[:-_SEALED], kept[-_SEALED:]
        if not seal.startswith(b"\n"):
            return kept
        if seal != _seal(key, reply):
            raise DataError(f"not a usable cache (a changed reply): {_DELETE}", self.path)
        return reply

    def _fail(self, error: Exception) -> None:
        """Handle a failure: ``DataError`` for a broken file, which the user must delete; else turn the store off."""
        is_broken = isinstance(error, UnicodeDecodeError) or getattr(error, "sqlite_errorcode", 0) & 0xFF in _BROKEN
        if is_broken:
            raise DataError(f"not a usable cache ({error}): {_DELETE}", self.path) from error
        self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        with self._changed:
            first, self.on = self.on, False
            self._pending.clear()
            self._changed.notify_all()
        if first:
            logger.warning("the cache %s cannot be used (%s): going on without it", self.path, error)


def _seal(key: bytes, reply: bytes) -> bytes:
    """Return the checksum written after a reply, which reveals a changed reply and one of another key."""
    return b"\n" + blake2b(reply, key=key, digest_size=8).hexdigest().encode()


def _sealed(batch: Iterable[Row]) -> Iterator[Row]:
    for key, model, task, created, reply in batch:
        yield key, model, task, created, reply + _seal(key, reply)


def _open(path: Path) -> sqlite3.Connection:
    """Connect to the file, and create the table if it is new; sqlite3's errors if it is broken."""
    make_private(path.parent)
    if not is_shared():
        with suppress(FileExistsError):  # SQLite would make it readable for all; its log gets the file's mode
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    started = time.monotonic()
    while True:
        connection = sqlite3.connect(path, timeout=_LOCKED_FOR, isolation_level=None, check_same_thread=False)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_BYTES)
        try:
            return _prepare(connection, path)
        except sqlite3.OperationalError as error:
            connection.close()
            # Another process opens the new file too. Turning the log on does not wait for its lock: try again.
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() - started > _LOCKED_FOR:
                raise
            time.sleep(0.01)
        except BaseException:
            connection.close()
            raise


def _prepare(connection: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    if _mark(connection) != (_APPLICATION, _VERSION):
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            mark = _mark(connection)  # another process may have just made it
            if mark == (0, 0) and not connection.execute("SELECT name FROM sqlite_master").fetchall():
                connection.execute(_TABLE)
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {_VERSION}")
            elif mark[0] != _APPLICATION:
                raise DataError("another program's database, not a cache of polyhop: name another file", path)
            elif mark[1] != _VERSION:
                raise DataError(f"a cache of another version of polyhop: {_DELETE}", path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")  # a commit is on disk when the process dies, not when power fails
    return connection


def _mark(connection: sqlite3.Connection) -> tuple[int, int]:
    """Return the file's application id and version; zeros in a new file."""
    application, version = (
        connection.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
    )
    return application[0], version[0]


def _finish(
    changed: threading.Condition, urgent: threading.Event, pending: dict[bytes, Row], readers: list[sqlite3.Connection]
) -> None:
    """Wait for the writing thread, which would die with the interpreter."""
    urgent.set()
    with changed:
        changed.wait_for(lambda: not pending, timeout=_EXIT_TIMEOUT)
    while readers:
        readers.pop().close()
