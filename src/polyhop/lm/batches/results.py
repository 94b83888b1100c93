"""Read files of results line by line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from polyhop.common.files import open_inside
from polyhop.errors import DataError
from polyhop.lm.base import Request
from polyhop.lm.wire import read_chat, read_completion
from polyhop.net.failures import BadReply, Failure, from_response

_ANY = Request(task="", fields={}, messages=())


@dataclass(slots=True)
class ImportCounts:
    """The number of imported results by outcome. ``duplicates``: of requests that had a reply already; ``skipped``: bad
    lines; ``reasons``: the messages of failures, and how often each came."""

    answered: int = 0
    failed: int = 0
    refused: int = 0
    missing: int = 0
    duplicates: int = 0
    skipped: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one request: a reply's JSON or a failure. ``line`` is its number in the file."""

    line: int
    part: int
    key: bytes
    body: bytes
    failure: Failure | None


def custom_id(part: int, key: bytes) -> str:
    """A request's name, unlike that of any other in any file: the file's number and the call's key in the cache.

    >>> custom_id(3, bytes(20)), _parsed("3-" + 40 * "0") == (3, bytes(20))
    ('3-0000000000000000000000000000000000000000', True)
    """
    return f"{part}-{key.hex()}"


def read_results(path: Path, counts: ImportCounts, *, skip_bad: bool) -> Iterator[Result]:
    """The results in a file, which is never held whole. ``DataError`` names file and line of what is no result; with
    ``skip_bad`` it is counted instead."""
    with open_inside(path.parent, path.name) as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                yield _result(number, orjson.loads(line))
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                if not skip_bad:
                    what = f"not a result of a batch ({_short(error)}); --skip-bad passes over it"
                    raise DataError(what, path, number) from None
                counts.skipped += 1


def _result(number: int, row: Any) -> Result:
    part, key = _parsed(row["custom_id"])
    response, error = row.get("response") or {}, row.get("error")
    status, body = response.get("status_code"), response.get("body")
    if status == 200 and not error:
        return Result(number, part, key, orjson.dumps(body), _unusable(body))
    reason = orjson.dumps(body or error or "no reply and no reason")
    if status is None or status == 200:  # not an HTTP error: too late, cancelled, or never sent
        return Result(number, part, key, b"", Failure("retryable", from_response(200, {}, reason).message))
    return Result(number, part, key, b"", from_response(int(status), {}, reason))


def _parsed(name: str) -> tuple[int, bytes]:
    number, _, key = name.partition("-")
    return int(number), bytes.fromhex(key)


def _unusable(body: Any) -> Failure | None:
    """Return the failure of a body that is not a usable reply; None if it is one."""
    read = read_completion if isinstance(body, dict) and body.get("object") == "text_completion" else read_chat
    try:
        read(body, _ANY)
    except BadReply as error:
        return Failure("retryable", str(error))
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        return Failure("retryable", f"the reply is not in the API's shape ({type(error).__name__})")
    return None


def _short(error: Exception) -> str:
    return f"no {error}" if isinstance(error, KeyError) else str(error)[:100]
