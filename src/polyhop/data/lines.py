"""JSON lines, plain or compressed with gzip or bzip2, as a stream that locates every fault; and the fields of a row."""

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
"""A longer line is an error: a few compressed kilobytes can expand to a line that fills the memory."""

MAX_DEPTH = 100
"""Maximum depth of a row's JSON. Deeper values can be read but not written."""

MAX_UNPACKED, MAX_RATIO = 256 * 2**20, 200
"""Maximum unpacked bytes of a compressed file, and maximum ratio to its size; the larger limit applies. Text reaches a
ratio of about 20; gzip can reach 1,000 and bzip2 far more."""

DAMAGED = (EOFError, zlib.error, OSError)
"""The errors of reading a compressed stream that is truncated or damaged."""

_BOM = b"\xef\xbb\xbf"
_CHUNK = 128 * 1024


def open_bytes(path: Path) -> BinaryIO:
    """Open a file for reading, and unpack it if its first bytes are those of gzip or bzip2, whatever its name.

    Raises:
        DataError: the file is missing, cannot be read, or is a pipe or a device, which may block for ever.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
            raise DataError("not a regular file; save its content to a file first", path)
        return unpack(path.open("rb"), status.st_size, path)
    except FileNotFoundError:
        raise DataError("no such file or folder", path) from None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", path) from error


def part_of(folder: Path, name: str | Path) -> Path:
    """Return the path of a file in a folder of data.

    Raises:
        DataError: it is a link that leads out of the folder, or not a regular file.
    """
    try:
        return file_inside(folder, name)
    except OSError as error:
        raise DataError(
            f"{error.strerror}; pass the path of that file itself, or copy it into the folder", folder / name
        ) from None


def unpack(stream: IO[bytes], size: int, path: Path) -> BinaryIO:
    """Return a stream of ``size`` bytes, unpacked if it is gzip or bzip2; ``path`` is its name in errors.

    Reading raises a ``DataError`` once the stream has yielded more bytes than a text of this size can.
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
    """The unpacked content of a compressed stream, up to a limit."""

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
    """Return the first bytes of a file after leading blanks, to recognise its format; b"" for a blank file.

    Raises:
        DataError: the file is missing, cannot be read, or its compression is damaged.
    """
    with open_bytes(path) as stream:
        try:
            return stream.read(4096).removeprefix(_BOM).lstrip()
        except DAMAGED as error:
            raise DataError(f"damaged or unreadable: {error}", path) from error


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, Any] | DataError]]:
    """Yield the number (from 1) of each non-blank line, and its JSON object or its fault, to be raised or counted.

    Raises:
        DataError: the file is missing, a line exceeds ``MAX_LINE_BYTES``, or the compressed stream is damaged. Such
            faults are never skipped, since nothing after them can be read.
    """
    with open_bytes(path) as stream:
        yield from objects_in(stream, path)


def objects_in(stream: BinaryIO, path: Path) -> Iterator[tuple[int, dict[str, Any] | DataError]]:
    """Read an open stream as ``read_objects`` does; ``path`` is its name in errors."""
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
    """Parse a row's JSON object.

    Raises:
        ValueError: it is not JSON, not an object, or nested more than ``MAX_DEPTH`` deep; the message says which.
    """
    value = json_value(text)
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, found {json_type(value)}")
    return value


def json_value(text: bytes | str) -> Any:
    """Parse a JSON value.

    >>> json_value("[" * 101 + "]" * 101)
    Traceback (most recent call last):
    ValueError: nested more than 100 deep

    Raises:
        ValueError: it is not JSON, or nested more than ``MAX_DEPTH`` deep; the message says which.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"not valid JSON: {error}") from None
    data = text.encode() if isinstance(text, str) else text
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH:
        check_depth(value)
    return value


def check_depth(value: Any) -> None:
    """Raise ``ValueError`` for a JSON value that is nested more than ``MAX_DEPTH`` deep."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [child for container in level for child in _containers(container)]
        if not level:
            return
    raise ValueError(f"nested more than {MAX_DEPTH} deep")


def _containers(value: Any) -> list[Any]:
    """Return the arrays and objects directly in an array or object."""
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [child for child in values if isinstance(child, dict | list)]


def json_type(value: object) -> str:
    """Return the JSON name of a value's type.

    >>> json_type([1]), json_type(None), json_type(True)
    ('an array', 'null', 'a boolean')
    """
    if value is None:
        return "null"
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number"}
    name = names.get(type(value), type(value).__name__)
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def first_of(row: Mapping[str, Any], names: Sequence[str]) -> str | None:
    """Return the first of ``names`` for which the row has a value.

    >>> first_of({"pid": 7, "_id": None}, ("id", "_id", "pid"))
    'pid'
    """
    return next((name for name in names if row.get(name) is not None), None)


def require(row: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the first of ``names`` that the row has.

    Raises:
        ValueError: it has none of them; the message lists the expected and the present fields.
    """
    if name := first_of(row, names):
        return name
    wanted = f"{names[0]!r}" if len(names) == 1 else f"one of {', '.join(map(repr, names))}"
    raise ValueError(f"missing field {wanted}; has {', '.join(map(repr, row)) or 'none'}")


def text_of(row: Mapping[str, Any], name: str) -> str:
    """Return a field that must hold a non-blank string.

    Raises:
        ValueError: it has another type, or is blank.
    """
    value = row[name]
    if not isinstance(value, str):
        raise ValueError(f"{name!r} is {json_type(value)}, expected a string")
    if not value.strip():
        raise ValueError(f"{name!r} is empty")
    return value


def id_of(row: Mapping[str, Any], name: str) -> str:
    """Return an id: a non-blank string as it is, a number as its digits.

    >>> id_of({"id": 12}, "id")
    '12'

    Raises:
        ValueError: it has another type, or is blank.
    """
    value = row[name]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return text_of(row, name)


def strings_of(row: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return a field that may hold a list of strings; () if it is absent or null. Numbers in it become strings.

    >>> strings_of({"links": ["Paris", 7]}, "links")
    ('Paris', '7')

    Raises:
        ValueError: it is not a list, or an element is neither a string nor a number.
    """
    elements = array_of(row, name, "an array of strings")
    for element in elements:
        if isinstance(element, bool) or not isinstance(element, str | int | float):
            raise ValueError(f"{name!r} holds {json_type(element)}, expected strings")
    return tuple(map(str, elements))


def array_of(row: Mapping[str, Any], name: str, expected: str) -> list[Any]:
    """Return a field that may hold an array; [] if it is absent or null.

    Raises:
        ValueError: it is not an array; the message says that ``expected`` was.
    """
    value = row.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{name!r} is {json_type(value)}, expected {expected}")
    return value


def boolean_of(row: Mapping[str, Any], name: str) -> bool | None:
    """Return a field that may hold true or false; None if it is absent or null.

    Raises:
        ValueError: it has another type.
    """
    value = row.get(name)
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"{name!r} is {json_type(value)}, expected true or false")
    return value


def mapping_of(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a field that may hold an object; {} if it is absent or null.

    Raises:
        ValueError: it has another type.
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
