"""Files: opened only if they are regular files of their folder, written whole or not at all.

Folders come from strangers too: an index, a run, results of a batch. In such a folder a link may lead to a file outside
it, a name in a manifest too, and a pipe would be waited for without end. Whoever reads a file by a folder's own word
opens it here; every refusal is an ``OSError`` that says why.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG
from typing import BinaryIO, NoReturn

from polyhop.errors import DataError

NO_WAIT = getattr(os, "O_NONBLOCK", 0)
"""The flag of ``os.open`` that keeps it from waiting for the other end of a pipe."""


def open_inside(folder: Path, name: str | Path) -> BinaryIO:
    """Open a regular file inside a folder for reading. Links are followed as long as they stay inside.

    Raises:
        OSError: it is missing, leads out of the folder, or is not a regular file.
    """
    path = folder / name
    try:
        if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
            _refuse("leads out of the folder", path)
        stream = open(path, "rb", opener=_open)  # noqa: SIM115 - it is given to the caller
    except ValueError:  # a null character
        _refuse("not a file name", path)
    if not S_ISREG(os.fstat(stream.fileno()).st_mode):
        stream.close()
        _refuse("not a regular file", path)
    return stream


def read_inside(folder: Path, name: str | Path) -> bytes:
    """The content of a regular file inside a folder. Raises ``OSError`` as ``open_inside`` does."""
    with open_inside(folder, name) as stream:
        return stream.read()


def file_inside(folder: Path, name: str | Path) -> Path:
    """The path of a regular file inside a folder. Raises ``OSError`` as ``open_inside`` does."""
    open_inside(folder, name).close()
    return folder / name


def check_inside(folder: Path, part: str = "") -> None:
    """Check that a folder, or the folder ``part`` in it, holds regular files and folders alone, at any depth, and no
    link that leads out of the folder.

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
            except FileNotFoundError:  # removed by another process, or a link to nothing
                continue
            if not (S_ISREG(mode) or S_ISDIR(mode)):
                _refuse("not a regular file", path)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A stream whose content becomes the file ``path`` in one step when the block ends well; otherwise the file that
    was there, if any, stays as it was.

    Raises:
        DataError: it cannot be written there.
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
    """A path as valid text: a file's name may be any bytes.

    >>> path_text(Path("caf\\udce9")).endswith("caf\ufffd")
    True
    """
    return os.fsencode(path).decode("utf-8", "replace")


def _open(path: str, flags: int) -> int:
    return os.open(path, flags | NO_WAIT)


def _refuse(why: str, path: Path) -> NoReturn:
    raise OSError(errno.EPERM, why, str(path))
