"""Files written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from polyhop.errors import DataError


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


def write_objects(rows: Iterable[Mapping[str, Any]], to: BinaryIO) -> int:
    """Write rows as JSON lines; returns how many there were."""
    count = 0
    for count, row in enumerate(rows, 1):  # noqa: B007
        to.write(orjson.dumps(row) + b"\n")
    return count
