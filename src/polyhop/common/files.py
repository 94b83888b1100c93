"""Where polyhop keeps what outlives a run, on each system's own custom, and who may write there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path

from polyhop.common.folders import NO_WAIT

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


def cache_folder() -> Path:
    """The folder for what can be made again: ``$POLYHOP_CACHE``, else ``polyhop`` in the user's cache folder.

    The user's cache folder is ``$XDG_CACHE_HOME`` where that is set, else ``~/.cache``, on macOS ``~/Library/Caches``,
    on Windows ``%LOCALAPPDATA%``. The folder is not made here.
    """
    if own := os.environ.get("POLYHOP_CACHE"):
        return Path(own).expanduser()
    return user_cache(sys.platform, os.environ, Path.home()) / "polyhop"


def is_shared() -> bool:
    """Whether ``$POLYHOP_SHARED_CACHE`` asks for caches and indexes that other users may read, as the umask permits."""
    return os.environ.get("POLYHOP_SHARED_CACHE", "0") not in ("", "0")


def make_private(folder: Path) -> None:
    """Make a folder and those above it that are missing, for their owner alone unless ``is_shared``.

    Raises:
        OSError: it cannot be made.
    """
    missing = list(takewhile(lambda path: not path.is_dir(), (folder, *folder.parents)))
    for path in reversed(missing):
        path.mkdir(mode=0o777 if is_shared() else 0o700, exist_ok=True)


def set_permissions(folder: Path, like: Path) -> None:
    """Let a folder and all it holds be read and written by those who may read and write the folder ``like``."""
    mode = like.stat().st_mode & 0o777
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            with suppress(PermissionError):  # somebody else's, linked from an earlier state
                path.chmod(mode if path.is_dir() else mode & 0o666)


def user_cache(platform: str, environment: Mapping[str, str], home: Path) -> Path:
    """The user's cache folder on a platform, named as ``sys.platform`` names it.

    >>> user_cache("linux", {}, Path("/home/ada")).as_posix()
    '/home/ada/.cache'
    >>> user_cache("darwin", {}, Path("/Users/ada")).as_posix()
    '/Users/ada/Library/Caches'
    >>> user_cache("linux", {"XDG_CACHE_HOME": "/tmp/caches"}, Path("/home/ada")).as_posix()
    '/tmp/caches'
    """
    given = environment.get("XDG_CACHE_HOME", "")
    if given and Path(given).is_absolute():  # a relative one is to be ignored, the XDG specification says
        return Path(given)
    if platform == "darwin":
        return home / "Library" / "Caches"
    if platform == "win32":
        return Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local")
    return home / ".cache"


@contextmanager
def locked(path: Path, *, wait: bool = True, shared: bool = False) -> Iterator[bool]:
    """Hold the lock file ``path``; yields whether it is held. The system frees it when the process ends in any way.

    With ``wait`` the block is entered once no other process holds it. A ``shared`` lock is held beside others of its
    kind, wants only to read a file that is there, and is never held on Windows. A link is never a lock file. Whoever
    may not read its folder may not read a new lock file.
    """
    try:
        mode = 0o644 & (path.parent.stat().st_mode | 0o600)
        flags = os.O_RDONLY if shared else os.O_RDWR | os.O_CREAT
        descriptor = os.open(path, flags | NO_WAIT | _NO_LINK, mode)
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
                how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
                fcntl.flock(descriptor, how if wait else how | fcntl.LOCK_NB)
            return True
        except OSError:
            if not (wait and sys.platform == "win32"):  # there a waiting lock gives up after ten tries
                return False
