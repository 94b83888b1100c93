"""An index folder as a corpus: the names that ``polyhop.retrieval`` gives to its files, and its passages.

The manifest names the folder inside it, the *state*, that holds the current passages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from polyhop.common.files import file_inside, locked, read_inside
from polyhop.data.lines import read_objects
from polyhop.errors import DataError

INDEX_MANIFEST = "manifest.json"
INDEX_PASSAGES = "passages.jsonl"
INDEX_REMOVED = "passages.removed"
"""A byte per passage: 1 if it was removed. Missing if none was."""
INDEX_READERS = "readers.lock"
"""The file of a state that its readers lock."""
STATE_PREFIX = "state-"
_STATE = re.compile(rf"{STATE_PREFIX}[0-9a-f]{{16}}")


def manifest_of(folder: Path) -> dict[str, Any]:
    """Return the manifest of a folder, whatever state the rest is in; {} if there is none that can be read."""
    try:
        found = orjson.loads(read_inside(folder, INDEX_MANIFEST))
    except (OSError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def state_of(manifest: Mapping[str, Any]) -> str:
    """Return the name of the state that a manifest declares current: a folder inside the index. "" if it names none.

    >>> state_of({"state": "state-0123456789abcdef"}), state_of({"state": "../secret"})
    ('state-0123456789abcdef', '')
    """
    name = manifest.get("state")
    return name if isinstance(name, str) and _STATE.fullmatch(name) else ""


def is_index(path: Path) -> bool:
    """Return True if a folder is an index whose passages can be read."""
    state = state_of(manifest_of(path))
    try:
        return bool(state) and file_inside(path, Path(state, INDEX_PASSAGES)).is_file()
    except OSError:
        return False


def is_broken_index(folder: Path) -> bool:
    """Return True if a folder that ``is_index`` rejects was an index once."""
    has_state = any(_STATE.fullmatch(path.name) for path in folder.glob(f"{STATE_PREFIX}*"))
    return manifest_of(folder).get("kind") == "index" or has_state


def read_index(folder: Path) -> Iterator[tuple[Path, int, dict[str, Any] | DataError]]:
    """Yield the file, line number and row of each passage that was not removed, under the readers' lock."""
    state = folder / state_of(manifest_of(folder))
    with locked(state / INDEX_READERS, wait=False, shared=True):
        if state.name != state_of(manifest_of(folder)):  # a writer replaced the state meanwhile
            yield from read_index(folder)
            return
        try:
            removed = read_inside(state, INDEX_REMOVED)
        except FileNotFoundError:
            removed = b""
        except OSError as error:
            raise DataError(f"cannot be read: {error.strerror}", state / INDEX_REMOVED) from None
        path = state / INDEX_PASSAGES
        for number, row in read_objects(path):
            if removed[number - 1 : number] != b"\1":
                yield path, number, row
