"""Where polyhop keeps what outlives a run, on each system's own custom."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path


def cache_folder() -> Path:
    """The folder for what can be made again: ``$POLYHOP_CACHE``, else ``polyhop`` in the user's cache folder.

    The user's cache folder is ``$XDG_CACHE_HOME`` where that is set, else ``~/.cache``, on macOS ``~/Library/Caches``,
    on Windows ``%LOCALAPPDATA%``. The folder is not made here.
    """
    if own := os.environ.get("POLYHOP_CACHE"):
        return Path(own).expanduser()
    return user_cache(sys.platform, os.environ, Path.home()) / "polyhop"


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
