"""Record what a block of code does outside its own memory, by Python's audit events: files written, programs run,
addresses contacted."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_CHANGING = frozenset(
    "os.system os.exec os.posix_spawn os.spawn os.fork subprocess.Popen os.remove os.rename os.mkdir os.rmdir os.link "
    "os.symlink os.chmod os.truncate shutil.rmtree socket.connect socket.bind urllib.Request ctypes.dlopen".split()
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC
_lists: list[list[str]] = []
_hooked: list[bool] = []


@contextmanager
def effects() -> Iterator[list[str]]:
    """Yield a list that collects the effects of this process during the block, as ``event: arguments``.

    >>> with effects() as found, open(os.devnull, "w"):
    ...     pass
    >>> found
    ["open: '/dev/null'"]
    """
    if not _hooked:  # a hook stays for good, so it is one, and does nothing outside of such a block
        _hooked.append(True)
        sys.addaudithook(_heard)
    found: list[str] = []
    _lists.append(found)
    try:
        yield found
    finally:
        _lists.remove(found)


def _heard(event: str, arguments: tuple[Any, ...]) -> None:
    if not _lists:
        return
    if event == "open":
        path, _, flags = arguments
        if not isinstance(flags, int) or not flags & _WRITING:
            return
        arguments = (path,)
    elif event not in _CHANGING:
        return
    for found in _lists:
        found.append(f"{event}: {', '.join(map(repr, arguments))}")
