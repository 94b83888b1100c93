"""The parts of a packed document, read in memory and within limits: nothing is unpacked to disk."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

from polyhop.data.converting.blocks import MAX_MARKUP, MAX_PARTS, MAX_RATIO, MAX_SMALL, MAX_UNPACKED
from polyhop.errors import DataError

_LOCKED = 0x1


@contextmanager
def unpacked(path: Path) -> Iterator[zipfile.ZipFile]:
    """A packed document whose parts together stay within the limits: a part never gives more than its head says.

    Raises:
        DataError: it is encrypted, damaged, or too large when unpacked.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            parts = archive.infolist()
            if len(parts) > MAX_PARTS:
                raise DataError(f"has {len(parts):,} parts; {MAX_PARTS:,} at most are read")
            if (size := sum(part.file_size for part in parts)) > MAX_UNPACKED:
                raise DataError(f"unpacks to {size:,} bytes; {MAX_UNPACKED:,} at most are read")
            if any(part.flag_bits & _LOCKED for part in parts):
                raise DataError("encrypted: save it without a password")
            yield archive
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, KeyError) as error:
        raise DataError(f"damaged: {error}") from error


def read_part(archive: zipfile.ZipFile, name: str | zipfile.ZipInfo) -> bytes:
    """A part that is parsed as a whole.

    Raises:
        DataError: it is too large.
        KeyError: there is no such part.
    """
    part = archive.getinfo(name) if isinstance(name, str) else name
    limit = min(MAX_MARKUP, max(MAX_SMALL, MAX_RATIO * part.compress_size))
    if part.file_size > limit:
        raise DataError(
            f"its part {part.filename!r} unpacks from {part.compress_size:,} to {part.file_size:,} bytes; "
            f"{limit:,} at most are read"
        )
    return archive.read(part)


def parsed(data: bytes) -> ElementTree.Element:
    """A part that is XML.

    Raises:
        DataError: it is damaged, or defines entities, which could grow without bound.
    """
    if b"<!ENTITY" in data.replace(b"\0", b""):
        raise DataError("not read: it defines XML entities")
    try:
        return ElementTree.fromstring(data)
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise DataError(f"damaged: {error}") from error
