"""Settings files: a method's settings as JSON, with where they were fitted and what they scored there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from polyhop.common.files import atomic_write
from polyhop.errors import DataError, UnknownName, UsageError
from polyhop.methods.registry import method_named


def write_settings(path: str | Path, content: Mapping[str, Any]) -> None:
    """Write a settings file: indented JSON of ``method``, ``settings`` and where they come from."""
    with atomic_write(Path(path)) as stream:
        stream.write(orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")


def read_settings(path: str | Path, method: str) -> dict[str, Any]:
    """The settings for ``method`` in a settings file.

    Raises:
        DataError: the file is missing or not a settings file.
        UsageError: it is another method's, or has a setting that the method does not have.
    """
    held = _held(path)
    if held["method"] != method:
        raise UsageError(f"{path} holds settings of {held['method']}, not of {method}: give --method {held['method']}")
    known = method_named(method).settings
    for name, value in held["settings"].items():
        if name not in known:
            raise UnknownName(f"setting of {method} in {path}", name, known)
        known[name].parse(value, f"{path}: {method}")
    return dict(held["settings"])


def read_retriever(path: str | Path) -> str | None:
    """The name of the retriever that a settings file's settings were fitted with, where it tells."""
    retriever = _held(path).get("retriever")
    return retriever if isinstance(retriever, str) else None


def _held(path: str | Path) -> dict[str, Any]:
    try:
        held = orjson.loads(Path(path).read_bytes())
    except OSError as error:
        raise DataError(f"the settings cannot be read: {error.strerror}", path) from None
    except ValueError:
        raise DataError("not a settings file: not JSON", path) from None
    if not (isinstance(held, dict) and isinstance(held.get("method"), str) and isinstance(held.get("settings"), dict)):
        raise DataError('not a settings file: it must be {"method": name, "settings": {name: value}}', path)
    return held
