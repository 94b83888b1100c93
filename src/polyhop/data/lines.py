"""JSON lines, plain or compressed by gzip or bzip2, read as a stream that names the place of every fault."""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import orjson

from polyhop.errors import DataError

LONGEST_LINE = 64 * 2**20
"""Bytes. A longer line is an error: a few compressed kilobytes can unfold into a line that fills the memory."""

DAMAGED = (EOFError, zlib.error, OSError)
"""What reading a compressed stream raises when it is cut short or damaged."""

_BOM = b"\xef\xbb\xbf"


def open_bytes(path: Path) -> BinaryIO:
    """Open a file for reading, unpacking it when its first bytes say gzip or bzip2, whatever its name.

    Raises:
        DataError: the file is missing or cannot be read.
    """
    try:
        with path.open("rb") as stream:
            start = stream.read(3)
        return cast(BinaryIO, _opener(start)(path, "rb"))
    except FileNotFoundError:
        raise DataError("no such file", path) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path) from error


def unpacked(stream: BufferedReader) -> BinaryIO:
    """A stream's bytes, unpacked when the first of them say gzip or bzip2."""
    opener = _opener(stream.peek(3)[:3])
    return stream if opener is open else cast(BinaryIO, opener(stream, "rb"))


def _opener(start: bytes) -> Callable[..., IO[Any]]:
    if start.startswith(b"\x1f\x8b"):
        return gzip.open
    return bz2.open if start == b"BZh" else open


def peek(path: Path) -> bytes:
    """The first bytes of a file that are not blank, to tell its format; b"" for a blank file.

    Raises:
        DataError: the file is missing, cannot be read, or is damaged by its compression.
    """
    with open_bytes(path) as stream:
        try:
            return stream.read(4096).removeprefix(_BOM).lstrip()
        except DAMAGED as error:
            raise DataError(f"damaged or unreadable: {error}", path) from error


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, Any] | DataError]]:
    """Each non-blank line as its number (from 1) and its JSON object, or the fault it has, to raise or to count.

    Raises:
        DataError: the file is missing, a line exceeds ``LONGEST_LINE``, or the compressed stream is damaged: nothing
            after such a place can be read, so these are never skipped.
    """
    with open_bytes(path) as stream:
        yield from objects_in(stream, path)


def objects_in(stream: BinaryIO, path: Path) -> Iterator[tuple[int, dict[str, Any] | DataError]]:
    """``read_objects`` of an opened stream; ``path`` is its name in errors."""
    number = 0
    while True:
        number += 1
        try:
            line = stream.readline(LONGEST_LINE + 1)
        except DAMAGED as error:
            raise DataError(f"damaged or unreadable: {error}", path, number) from error
        if not line:
            return
        if len(line) > LONGEST_LINE:
            raise DataError(f"a line of more than {LONGEST_LINE >> 20} MB; expected JSON lines", path, number)
        if number == 1:
            line = line.removeprefix(_BOM)
        if not line.isspace():
            yield number, _parse(line, path, number)


def _parse(line: bytes, path: Path, number: int) -> dict[str, Any] | DataError:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return DataError(f"not valid JSON: {error}", path, number)
    if not isinstance(value, dict):
        return DataError(f"expected a JSON object, found {json_type(value)}", path, number)
    return value


def json_type(value: object) -> str:
    """What JSON calls a value.

    >>> json_type([1]), json_type(None), json_type(True)
    ('an array', 'null', 'a boolean')
    """
    if value is None:
        return "null"
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number"}
    name = names.get(type(value), type(value).__name__)
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def first_of(row: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """The first of ``names`` that the row has with a value.

    >>> first_of({"pid": 7, "_id": None}, ("id", "_id", "pid"))
    'pid'
    """
    return next((name for name in names if row.get(name) is not None), None)


def require(row: Mapping[str, Any], names: Sequence[str]) -> str:
    """The first of ``names`` that the row has.

    Raises:
        ValueError: it has none of them; the message lists what was looked for and what is there.
    """
    if name := first_of(row, names):
        return name
    wanted = f"{names[0]!r}" if len(names) == 1 else f"one of {', '.join(map(repr, names))}"
    raise ValueError(f"missing field {wanted}; has {', '.join(map(repr, row)) or 'none'}")


def text_of(row: Mapping[str, Any], name: str) -> str:
    """A field that must hold a non-empty string.

    Raises:
        ValueError: it is of another type, or blank.
    """
    value = row[name]
    if not isinstance(value, str):
        raise ValueError(f"{name!r} is {json_type(value)}, expected a string")
    if not value.strip():
        raise ValueError(f"{name!r} is empty")
    return value


def id_of(row: Mapping[str, Any], name: str) -> str:
    """An id: a non-empty string as it is, a number as its digits.

    >>> id_of({"id": 12}, "id")
    '12'

    Raises:
        ValueError: it is of another type, or blank.
    """
    value = row[name]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return text_of(row, name)


def strings_of(row: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A field that may hold a list of strings; () where it is absent or null. Numbers in it become strings.

    >>> strings_of({"links": ["Paris", 7]}, "links")
    ('Paris', '7')

    Raises:
        ValueError: it is not a list, or an element is neither a string nor a number.
    """
    value = row.get(name)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ValueError(f"{name!r} is {json_type(value)}, expected an array of strings")
    for element in value:
        if isinstance(element, bool) or not isinstance(element, str | int | float):
            raise ValueError(f"{name!r} holds {json_type(element)}, expected strings")
    return tuple(str(element) for element in value)


def mapping_of(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A field that may hold an object; {} where it is absent or null.

    Raises:
        ValueError: it is of another type.
    """
    value = row.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{name!r} is {json_type(value)}, expected an object")
    return value
