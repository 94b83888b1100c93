"""JSON lines, plain or compressed by gzip or bzip2, read as a stream that names the place of every fault."""

from __future__ import annotations

import bz2
import gzip
import stat
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import orjson

from polyhop.common.files import file_inside
from polyhop.errors import DataError

MAX_LINE_BYTES = 64 * 2**20
"""Bytes. A longer line is an error: a few compressed kilobytes can unfold into a line that fills the memory."""

MAX_DEPTH = 100
"""Levels of a row's JSON. Deeper values can be read but not written again."""

MAX_UNPACKED, MAX_RATIO = 256 * 2**20, 200
"""Bytes that a compressed file may always unpack to, and how many times its size a larger result may be. Text reaches a
ratio of about 20; gzip can reach 1,000 and bzip2 far more."""

DAMAGED = (EOFError, zlib.error, OSError)
"""What reading a compressed stream raises when it is cut short or damaged."""

_BOM = b"\xef\xbb\xbf"
_CHUNK = 128 * 1024


def open_bytes(path: Path) -> BinaryIO:
    """Open a file for reading, unpacking it when its first bytes say gzip or bzip2, whatever its name.

    Raises:
        DataError: the file is missing, cannot be read, or is a pipe or a device, which could wait for ever.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
            raise DataError("not a regular file; write what it gives into a file first", path)
        return unpacked(path.open("rb"), status.st_size, path)
    except FileNotFoundError:
        raise DataError("no such file", path) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path) from error


def part_of(folder: Path, name: str | Path) -> Path:
    """The path of a file that a folder of data holds.

    Raises:
        DataError: it is a link that leads out of the folder, or not a regular file.
    """
    try:
        return file_inside(folder, name)
    except OSError as error:
        raise DataError(f"{error.strerror}; name that file itself, or copy it into the folder", folder / name) from None


def unpacked(stream: IO[bytes], size: int, path: Path) -> BinaryIO:
    """A stream of ``size`` bytes, unpacked when the first of them say gzip or bzip2; ``path`` is its name in errors.

    Reading it raises a ``DataError`` once it has given more than such a size can hold of text.
    """
    start = cast(BufferedReader, stream).peek(3)[:3]
    if start.startswith(b"\x1f\x8b"):
        unpacking: gzip.GzipFile | bz2.BZ2File = gzip.GzipFile(fileobj=stream)
    elif start == b"BZh":
        unpacking = bz2.BZ2File(stream)
    else:
        return cast(BinaryIO, stream)
    return cast(
        BinaryIO, BufferedReader(_Unpacking(unpacking, stream, max(MAX_UNPACKED, size * MAX_RATIO), path), _CHUNK)
    )


class _Unpacking(RawIOBase):
    """What a compressed stream unpacks to, up to a limit."""

    def __init__(self, unpacking: gzip.GzipFile | bz2.BZ2File, packed: IO[bytes], limit: int, path: Path) -> None:
        self._unpacking, self._packed, self._left, self._limit, self._path = unpacking, packed, limit, limit, path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._unpacking.read1(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise DataError(f"unpacks to more than {self._limit:,} bytes, too many for its size", self._path)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._unpacking.close()
        self._packed.close()
        super().close()


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
        DataError: the file is missing, a line exceeds ``MAX_LINE_BYTES``, or the compressed stream is damaged: nothing
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
            line = stream.readline(MAX_LINE_BYTES + 1)
        except DAMAGED as error:
            raise DataError(f"damaged or unreadable: {error}", path, number) from error
        if not line:
            return
        if len(line) > MAX_LINE_BYTES:
            raise DataError(f"a line of more than {MAX_LINE_BYTES >> 20} MB; expected JSON lines", path, number)
        if number == 1:
            line = line.removeprefix(_BOM)
        if not line.isspace():
            yield number, _parse(line, path, number)


def _parse(line: bytes, path: Path, number: int) -> dict[str, Any] | DataError:
    try:
        return json_object(line)
    except ValueError as error:
        return DataError(str(error), path, number)


def json_object(text: bytes | str) -> dict[str, Any]:
    """A row's JSON object.

    Raises:
        ValueError: it is no JSON, no object, or nested more than ``MAX_DEPTH`` deep; the message says which.
    """
    value = json_value(text)
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, found {json_type(value)}")
    return value


def json_value(text: bytes | str) -> Any:
    """A JSON value.

    >>> json_value("[" * 101 + "]" * 101)
    Traceback (most recent call last):
    ValueError: nested more than 100 deep

    Raises:
        ValueError: it is no JSON, or nested more than ``MAX_DEPTH`` deep; the message says which.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"not valid JSON: {error}") from None
    data = text.encode() if isinstance(text, str) else text
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH:
        level = [value]
        for _ in range(MAX_DEPTH):
            level = [each for held in level for each in _held(held)]
        if level:
            raise ValueError(f"nested more than {MAX_DEPTH} deep")
    return value


def _held(value: Any) -> list[Any]:
    """The arrays and objects directly in an array or object."""
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [each for each in values if isinstance(each, dict | list)]


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


def write_objects(rows: Iterable[Mapping[str, Any]], to: BinaryIO) -> int:
    """Write rows as JSON lines, and return their number."""
    count = 0
    for count, row in enumerate(rows, 1):  # noqa: B007
        to.write(orjson.dumps(row) + b"\n")
    return count
