"""Open files safely, write them atomically, lock them, and find the user's cache folder.

A folder may come from a stranger: an index, a run, the results of a batch. Inside it, a link or a name in a manifest
may lead to a file elsewhere, and reading a pipe may wait for ever. ``open_inside`` and its relatives refuse both,
with an ``OSError`` that gives the reason.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG
from typing import BinaryIO, NoReturn

from polyhop.errors import DataError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # never wait for the other end of a pipe
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


def cache_folder() -> Path:
    """Return the folder for files that can be made again: ``$POLYHOP_CACHE``, else ``polyhop`` in the user's cache.

    The user's cache is ``$XDG_CACHE_HOME`` if set, else ``~/.cache``; ``~/Library/Caches`` on macOS and
    ``%LOCALAPPDATA%`` on Windows. The folder is not created.
    """
    if own := os.environ.get("POLYHOP_CACHE"):
        return Path(own).expanduser()
    return user_cache(sys.platform, os.environ, Path.home()) / "polyhop"


def is_shared() -> bool:
    """Return True if ``$POLYHOP_SHARED_CACHE`` lets other users read caches and indexes, as the umask permits."""
    return os.environ.get("POLYHOP_SHARED_CACHE", "0") not in ("", "0")


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents, readable only by their owner unless ``is_shared``.

    Raises:
        OSError: it cannot be created.
    """
    missing = list(takewhile(lambda path: not path.is_dir(), (folder, *folder.parents)))
    for path in reversed(missing):
        path.mkdir(mode=0o777 if is_shared() else 0o700, exist_ok=True)


def set_permissions(folder: Path, like: Path) -> None:
    """Give a folder and its content the permissions of the folder ``like``."""
    mode = like.stat().st_mode & 0o777
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            with suppress(PermissionError):  # another user's file, linked from an earlier state
                path.chmod(mode if path.is_dir() else mode & 0o666)


def user_cache(platform: str, environment: Mapping[str, str], home: Path) -> Path:
    """Return the user's cache folder on a platform, named as ``sys.platform`` names it.

    >>> user_cache("linux", {}, Path("/home/ada")).as_posix()
    '/home/ada/.cache'
    >>> user_cache("darwin", {}, Path("/Users/ada")).as_posix()
    '/Users/ada/Library/Caches'
    >>> user_cache("linux", {"XDG_CACHE_HOME": "/tmp/caches"}, Path("/home/ada")).as_posix()
    '/tmp/caches'
    """
    given = environment.get("XDG_CACHE_HOME", "")
    if given and Path(given).is_absolute():  # the XDG specification says to ignore a relative path
        return Path(given)
    if platform == "darwin":
        return home / "Library" / "Caches"
    if platform == "win32":
        return Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local")
    return home / ".cache"


@contextmanager
def locked(path: Path, *, wait: bool = True, shared: bool = False) -> Iterator[bool]:
    """Hold the lock file ``path``, and yield whether it is held. The system frees it however the process ends.

    With ``wait``, the block is entered once no other process holds the lock. A ``shared`` lock can be held by several
    readers, requires an existing file, and is never held on Windows. A link is never accepted as a lock file. Users who
    may not read the folder may not read a new lock file in it.
    """
    try:
        mode = 0o644 & (path.parent.stat().st_mode | 0o600)
        flags = os.O_RDONLY if shared else os.O_RDWR | os.O_CREAT
        descriptor = os.open(path, flags | _NO_WAIT | _NO_LINK, mode)
    except OSError:
        yield False
        return
    try:
        yield _lock(descriptor, wait, shared)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, wait: bool, shared: bool) -> bool:
    while True:
        try:
            if sys.platform == "win32":
                if shared:
                    return False
                msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
            else:
                mode = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
                fcntl.flock(descriptor, mode if wait else mode | fcntl.LOCK_NB)
            return True
        except OSError:
            if not (wait and sys.platform == "win32"):  # on Windows, a waiting lock gives up after ten attempts
                return False


def open_inside(folder: Path, name: str | Path) -> BinaryIO:
    """Open a regular file inside a folder for reading. Links are followed as long as they stay inside the folder.

    Raises:
        OSError: it is missing, leads out of the folder, or is not a regular file.
    """
    path = folder / name
    try:
        if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
            _refuse("leads out of the folder", path)
        stream = open(path, "rb", opener=_open)  # noqa: SIM115 - the caller closes it
    except ValueError:  # a null character
        _refuse("not a file name", path)
    if not S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        _refuse("not a regular file", path)
    return stream


def read_inside(folder: Path, name: str | Path) -> bytes:
    """Read a regular file inside a folder. Raises ``OSError`` as ``open_inside`` does."""
    with open_inside(folder, name) as stream:
        return stream.read()


def file_inside(folder: Path, name: str | Path) -> Path:
    """Return the path of a regular file inside a folder. Raises ``OSError`` as ``open_inside`` does."""
    open_inside(folder, name).close()
    return folder / name


def check_inside(folder: Path, part: str = "") -> None:
    """Check that a folder, or its subfolder ``part``, holds only regular files and folders, at any depth, and no link
    that leads out of the folder.

    Raises:
        OSError: it holds something else, which is named.
    """
    root = os.path.realpath(folder)
    if not Path(os.path.realpath(folder / part)).is_relative_to(root):
        _refuse("leads out of the folder", folder / part)
    for parent, folders, names in os.walk(folder / part):
        for path in (Path(parent, name) for name in (*folders, *names)):
            try:
                mode = path.lstat().st_mode
                if S_ISLNK(mode):
                    if not Path(os.path.realpath(path)).is_relative_to(root):
                        _refuse("leads out of the folder", path)
                    mode = path.stat().st_mode
            except FileNotFoundError:  # removed by another process, or a dangling link
                continue
            if not (S_ISREG(mode) or S_ISDIR(mode)):
                _refuse("not a regular file", path)


@contextmanager
def atomic_write(path: Path) -> Iterator[BinaryIO]:
    """Yield a stream whose content replaces the file ``path`` in one step, if the block succeeds. If it fails, an
    existing file stays as it was.

    Raises:
        DataError: the file cannot be written.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as stream:
            yield stream
        os.replace(part, path)
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror or error}", path) from error
    finally:
        with suppress(OSError):
            part.unlink()


def path_text(path: Path) -> str:
    """Return a path as valid text. The name of a file may be any bytes.

    >>> path_text(Path("caf\\udce9")).endswith("caf\ufffd")
    True
    """
    return os.fsencode(path).decode("utf-8", "replace")


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | _NO_WAIT)


def _refuse(why: str, path: Path) -> NoReturn:
    raise OSError(errno.EPERM, why, str(path))


_SAMPLES, _SAMPLE_BYTES = 64, 16 * 1024


def digest_of(paths: Iterable[Path], root: Path, version: bytes) -> str:
    """Return a digest of the files: each path under ``root``, size, time of change, and evenly spread samples."""
    digest = hashlib.sha256(version)
    for path in paths:
        status = path.stat()
        name = os.fsencode(path.relative_to(root))
        digest.update(b"%s\0%d %d\0" % (name, status.st_size, status.st_mtime_ns))
        with path.open("rb") as stream:
            step = max(_SAMPLE_BYTES, status.st_size // _SAMPLES)
            for start in range(0, status.st_size, step):
                stream.seek(start)
                digest.update(stream.read(_SAMPLE_BYTES))
    return digest.hexdigest()[:32]
